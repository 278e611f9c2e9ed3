"""No verb makes the event loop wait: whatever could block is called in another thread."""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import pytest
import trio

import lastgood
from lastgood.aio import AsyncSession, AsyncWorkspace, Opening, under_asyncio, under_trio
from lastgood.cancellation import pause
from tools.command import started
from tools.event_loops import Loop

Open = Callable[[], Opening]
Calls = dict[str, Callable[[], Awaitable[object]]]

PACKAGE = os.path.dirname(lastgood.__file__) + os.sep
TRIO = os.path.dirname(trio.__file__) + os.sep
# Where C functions that may wait for something come from, as they say themselves.
BLOCKING_MODULES = {
    "posix",
    "fcntl",
    "sqlite3",
    "_sqlite3",
    "_io",
    "io",
    "select",
    "_posixsubprocess",
    "mmap",
}
BLOCKING_NAMES = {"sleep", "acquire", "acquire_lock"}
# Told at once, whatever the disk does.
HARMLESS = {"getpid", "fspath", "fsencode"}


class Watch:
    """While entered, writes down what this thread calls below lastgood that could wait for something."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def __enter__(self) -> Self:
        gc.disable()  # what others left is closed in whatever line the collector comes by
        sys.setprofile(self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.setprofile(None)
        gc.enable()

    def _look(self, frame: FrameType, event: str, function: Any) -> None:
        if event != "c_call" or not may_wait(function):
            return
        place: FrameType | None = frame
        if frame.f_code.co_filename.startswith(TRIO):
            return  # what the loop does by itself
        while place is not None and not place.f_code.co_filename.startswith(PACKAGE):
            if place.f_code.co_qualname == "Thread.start":
                return  # which waits for the new thread to run, and for nothing else
            place = place.f_back
        if place is not None:
            self.found.append(f"{function} below {place.f_code.co_filename}:{place.f_lineno}")


def may_wait(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or type(owner).__module__
    return name not in HARMLESS and (module in BLOCKING_MODULES or name in BLOCKING_NAMES)


def verbs_of(workspace: AsyncWorkspace, *, project: Path, export: Path) -> Calls:
    """Return a call of every verb, in an order in which each has something to do."""

    async def session() -> None:
        async with workspace.session(goal="all of it") as one:
            for name, call in session_verbs_of(one).items():
                assert name
                await call()

    async def break_off() -> None:
        begun = await workspace.session_start(owner_pid=os.getpid())
        await workspace.session_break_off(begun.session.id, reason="enough")

    async def step() -> None:
        effect = await workspace.step_start("mail")
        await workspace.step_end(effect)

    async def attached() -> None:
        with pytest.raises(lastgood.Conflict):
            await workspace.attach(str(project))

    async def applied() -> None:
        plan = await workspace.plan_restore("good")
        await workspace.preview(plan)
        await workspace.apply(plan)

    async def changed_paths() -> None:
        await workspace.changed_paths(await workspace.list())

    async def changed_beside() -> None:
        await workspace.changed_beside(await workspace.preview_rewind())

    return {
        "save": lambda: workspace.save("one", name="good", messages=[{"role": "user", "content": "hi"}]),
        "session": session,
        "check": lambda: workspace.check("@", "true"),
        "list": workspace.list,
        "get": lambda: workspace.get("good"),
        "previous": lambda: workspace.previous("@"),
        "stands_at": workspace.stands_at,
        "entries": lambda: workspace.entries("good"),
        "read": lambda: workspace.read("good", "a.txt"),
        "log": lambda: workspace.log("a.txt"),
        "blame": lambda: workspace.blame("a.txt"),
        "changed_paths": changed_paths,
        "conversation": lambda: workspace.conversation("good"),
        "transcript": lambda: workspace.transcript("good"),
        "diff": workspace.diff,
        "operations": workspace.operations,
        "status": workspace.status,
        "rewind_target": workspace.rewind_target,
        "preview_rewind": workspace.preview_rewind,
        "preview_rewinds": workspace.preview_rewinds,
        "changed_beside": changed_beside,
        "at_work": workspace.at_work,
        "plan_rewind": workspace.plan_rewind,
        "rewind": lambda: workspace.rewind(1),
        "preview": applied,
        "apply": applied,
        "plan_restore": applied,
        "restore": lambda: workspace.restore("good"),
        "plan_undo": lambda: workspace.plan_undo(force=True),
        "undo": lambda: workspace.undo(force=True),
        "plan_redo": lambda: workspace.plan_redo(force=True),
        "redo": lambda: workspace.redo(force=True),
        "recover": workspace.recover,
        "steps": workspace.steps,
        "pin": lambda: workspace.pin("good"),
        "unpin": lambda: workspace.unpin("good"),
        "name": lambda: workspace.name("@", "other"),
        "verify": lambda: workspace.verify(deep=True, repair=True),
        "plan_prune": workspace.plan_prune,
        "prune": lambda: workspace.prune(keep=50),
        "plan_purge": lambda: workspace.plan_purge("a.txt"),
        "purge": lambda: workspace.purge("a.txt"),
        "delete_unkept": lambda: workspace.delete_unkept("@"),
        "store_sizes": workspace.store_sizes,
        "maintain": workspace.maintain,
        "workspaces": workspace.workspaces,
        "attach": attached,
        "plan_forget": lambda: workspace.plan_forget(str(project)),
        "export": lambda: workspace.export(export),
        "import_file": lambda: workspace.import_file(export),
        "run": lambda: workspace.run(["true"]),
        "ledger": lambda: workspace.ledger("tests"),
        "report": workspace.report,
        "report_page": lambda: page(workspace),
        "examine": workspace.examine,
        "session_start": break_off,
        "session_break_off": break_off,
        "session_heartbeat": lambda: beating(workspace),
        "session_end": lambda: beating(workspace),
        "sessions": workspace.sessions,
        "get_session": workspace.get_session,
        "progress": workspace.progress,
        "progress_report": workspace.progress_report,
        "progress_set": lambda: workspace.progress_set(phase="one"),
        "tasks": workspace.tasks,
        "task_start": lambda: workspace.task_start("T01"),
        "task_done": lambda: workspace.task_done("T01"),
        "task_fail": lambda: failing(workspace),
        "task_skip": lambda: workspace.task_skip("T03"),
        "feature_start": lambda: workspace.feature_start("login"),
        "feature_done": lambda: workspace.feature_done("login"),
        "sprint_start": lambda: workspace.sprint_start("S01"),
        "sprint_done": lambda: workspace.sprint_done("S01"),
        "last_step": lambda: workspace.last_step("mail"),
        "step_start": step,
        "step_end": step,
        "delete": lambda: workspace.delete("other"),
        "forget": lambda: workspace.forget(str(project)),
        "close": workspace.close,
    }


async def page(workspace: AsyncWorkspace) -> None:
    # It fails at once; drawing plots takes seconds, and is no different here.
    with pytest.raises((AttributeError, lastgood.Unsupported)):
        await workspace.report_page(None)  # type: ignore[arg-type]


async def beating(workspace: AsyncWorkspace) -> None:
    begun = await workspace.session_start(owner_pid=os.getpid())
    await workspace.session_heartbeat(begun.session.id)
    await workspace.session_end(begun.session.id)


async def failing(workspace: AsyncWorkspace) -> None:
    await workspace.task_start("T02")
    await workspace.task_fail("T02")


def session_verbs_of(session: AsyncSession[AsyncWorkspace]) -> Calls:
    async def blocks() -> None:
        async with session.task("T01"), session.feature("F"), session.sprint("S"), session.step("mail"):
            pass

    return {
        "task": blocks,
        "save": lambda: session.save("one"),
        "checkpoint": lambda: session.checkpoint("two"),
        "show": session.show,
        "heartbeat": session.heartbeat,
        "progress": lambda: session.progress(phase="one"),
    }


def write(file: Path, text: str) -> None:
    file.write_text(text)


def awaited(face: type) -> set[str]:
    public = {name for name in dir(face) if not name.startswith("_")}
    return {name for name in public if inspect.iscoroutinefunction(getattr(face, name))}


async def test_no_verb_blocks_the_loop(loop: Loop, opening: Open, project: Path, tmp_path: Path) -> None:
    (project / "a.txt").write_text("one")
    wrong: dict[str, list[str]] = {}

    assert under_asyncio  # the loop's side of it is loaded when it is used for the first time
    assert under_trio

    opened = opening()
    with Watch() as watch:
        workspace = await opened
    wrong["open_async"] = watch.found
    calls = verbs_of(workspace, project=project, export=tmp_path / "export")
    assert awaited(AsyncWorkspace) <= set(calls)
    assert awaited(AsyncSession) <= set(session_verbs_of(workspace.session()))
    for name, call in calls.items():
        write(project / "a.txt", name)
        with Watch() as watch:
            await call()
        wrong[name] = watch.found
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("how", ["save", "sleep"])
async def test_the_watch_sees_what_blocks(loop: Loop, opening: Open, how: str) -> None:
    """Or the test above would prove nothing."""
    async with opening() as workspace:
        with Watch() as watch:
            if how == "save":
                workspace._inner.save("in the loop's own thread")
            else:
                pause(0)
        assert watch.found


_ANYIO_UNUSED = """
import asyncio, sys
import anyio
import lastgood

async def main():
    project, store = sys.argv[1:]
    async with lastgood.open_async(project, store=store, allow_root=True, maintenance="off") as workspace:
        async with workspace.session(goal="one"):
            pass

asyncio.run(main())
print(*(name for name in sys.modules if name.startswith("anyio._backends.")))
"""


def test_an_anyio_that_is_not_used_is_not_loaded_in_the_loop(project: Path, store: Path) -> None:
    """Many programs import it for a client of HTTP; its side of asyncio would be read from the disk."""
    with started(_ANYIO_UNUSED, project, store) as program:
        said, _ = program.communicate()
    assert (program.returncode, said) == (0, "\n")
