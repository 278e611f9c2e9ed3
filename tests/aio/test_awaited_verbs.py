"""What an event loop adds: several calls at once, observers in its own thread, context variables."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from lastgood.aio import AsyncSession, AsyncWorkspace, Opening
from lastgood.aio.bridge import MOST_AT_ONCE
from lastgood.aio.workspace import AsyncLedger
from lastgood.errors import NotFound, Usage
from lastgood.ledger import Ledger
from lastgood.model.operation import Event
from lastgood.workspace import Workspace, open_workspace
from lastgood.workspace.session import OpenSession
from tools.event_loops import Held, Loop
from tools.values import not_none

Open = Callable[[], Opening]

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


async def test_the_main_job(loop: Loop, opening: Open, project: Path) -> None:
    async with opening() as workspace:
        (project / "a.txt").write_text("good")
        before = (await workspace.save("before", name="good", check="true")).checkpoint
        assert before.good
        (project / "a.txt").write_text("ruined")
        assert [one.path for one in (await workspace.diff()).files] == [b"a.txt"]
        plan = await workspace.plan_restore("good")
        assert (await workspace.apply(plan)).complete
        assert (project / "a.txt").read_text() == "good"
        await workspace.undo()
        assert (project / "a.txt").read_text() == "ruined"
        await workspace.redo()
        (project / "a.txt").write_text("later")
        await workspace.save("later")
        assert (await workspace.rewind(1, only=["files"])).target == before.id
        assert await workspace.read("good", "a.txt") == b"good"
        assert (await workspace.status()).state == "idle"
        assert (await workspace.recover()).done is None
        assert (await workspace.verify(deep=True)).ok
        await workspace.delete("good")
        with pytest.raises(NotFound):
            await workspace.get("good")


@pytest.mark.parametrize("other", ["asyncio", "trio"])
def test_a_workspace_of_a_loop_that_ended_is_refused_at_once_and_can_be_closed(
    loop: Loop, other: str, opening: Open
) -> None:
    async def begin() -> AsyncWorkspace:
        return await opening()

    workspace = loop.run(begin)

    async def elsewhere() -> None:
        for call in (lambda: workspace.save("lost"), workspace.session("lost").__aenter__):
            with pytest.raises(Usage, match="another event loop"):
                await call()
        await workspace.close()
        async with opening() as again:
            assert await again.list() == ()

    Loop(other).run(elsewhere)


async def test_a_workspace_can_be_awaited_and_closed(loop: Loop, opening: Open) -> None:
    workspace = await opening()
    assert workspace.path.endswith("/project")
    assert workspace.store.endswith("/store")
    assert workspace.settings.auto.enabled
    await workspace.close()
    await workspace.close()
    with pytest.raises(Usage, match="was closed"):
        await workspace.save("late")


async def test_an_opening_is_entered_once(loop: Loop, opening: Open) -> None:
    one = opening()
    async with one:
        with pytest.raises(Usage, match="opened already"):
            await one.__aenter__()


async def test_what_cannot_be_opened_says_so(loop: Loop, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await lastgood.open_async(tmp_path / "nowhere", store=tmp_path / "store")


def test_forty_saves_at_once_are_all_kept_and_few_threads_are_used(
    loop: Loop, opening: Open, project: Path
) -> None:
    async def main() -> None:
        (project / "a.txt").write_text("one")
        most = 0
        async with opening() as workspace:

            async def save() -> None:
                nonlocal most
                report = await workspace.save("at once", allow_empty=True)
                most = max(most, workspace._running._count)
                ids.add(report.checkpoint.id)

            ids: set[str] = set()
            await loop.together(*[save] * 40)
            assert len(ids) == 40
            assert {one.id for one in await workspace.list()} == ids
            assert most <= MOST_AT_ONCE

    loop.run(main)


async def test_the_loop_goes_on_while_a_call_waits(loop: Loop, opening: Open) -> None:
    async with opening() as workspace:
        held = Held.of(workspace)

        async def turn() -> None:
            await loop.until(held.begun)
            for _ in range(10):
                await loop.sleep(0)
            held.released.set()

        await loop.together(lambda: workspace.save("one"), turn)


async def test_observers_are_called_in_the_loops_own_thread_before_the_verb_returns(
    loop: Loop, opening: Open, project: Path
) -> None:
    here = threading.get_ident()
    told: list[tuple[str, int, str]] = []

    def observe(event: Event) -> None:
        told.append((event.type, threading.get_ident(), WHO.get()))

    async with opening() as workspace:
        end = workspace.subscribe(observe)
        WHO.set("the caller")
        first = (await workspace.save("one")).checkpoint
        assert told == [("saved", here, "the caller")]
        (project / "a.txt").write_text("new")
        await workspace.restore(first.id)
        async with workspace.session() as session, session.task("T01"):
            pass
        with pytest.raises(NotFound):
            await workspace.check("nowhere", "true")
        with pytest.raises(lastgood.Conflict):
            await workspace.task_done("T99")
        assert [type for type, _, _ in told] == [
            "saved",
            "restored",
            "saved",
            "session_started",
            "saved",
            "task_changed",
            "task_changed",
            "saved",
            "session_ended",
            "saved",
            "failed",
        ]
        assert {place for _, place, _ in told} == {here}
        end()
        end()
        await workspace.save("two", allow_empty=True)
        assert len(told) == 11


async def test_an_observers_fault_harms_nothing(loop: Loop, opening: Open) -> None:
    async with opening() as workspace:

        def fail(_event: Event) -> None:
            raise RuntimeError

        workspace.subscribe(fail)
        assert (await workspace.save("one")).created


async def test_a_queue_can_take_the_events(opening: Open) -> None:
    events: asyncio.Queue[Event] = asyncio.Queue()
    async with opening() as workspace:
        workspace.subscribe(events.put_nowait)
        await workspace.save("one")
        assert (await events.get()).type == "saved"


async def test_an_observer_that_would_have_to_be_awaited_is_refused(loop: Loop, opening: Open) -> None:
    async def observe(_event: Event) -> None:
        raise AssertionError

    class Observing:
        async def __call__(self, _event: Event) -> None:
            raise AssertionError

    async with opening() as workspace:
        for one in (observe, Observing()):
            with pytest.raises(Usage, match="not awaited"):
                workspace.subscribe(one)  # type: ignore[arg-type]
            with pytest.raises(Usage, match="not awaited"):
                await workspace.run(["true"], observer=one)  # type: ignore[arg-type]
        with pytest.raises(Usage, match="not a call"):
            workspace.subscribe(5)  # type: ignore[arg-type]
        with pytest.raises(Usage, match="not a call"):
            await workspace.run(["true"], observer=5)  # type: ignore[arg-type]


async def test_a_workspace_seen_from_a_session(loop: Loop, opening: Open) -> None:
    async with opening() as workspace:
        id = (await workspace.session_start(owner_pid=os.getpid())).session.id
        inside = workspace.within(id)
        assert (await inside.save("mine", allow_empty=True)).checkpoint.session == id
        await workspace.session_end(id)


async def test_a_workspace_that_moved_is_attached(
    loop: Loop, opening: Open, project: Path, tmp_path: Path
) -> None:
    (project / "a.txt").write_text("one")
    async with opening() as workspace:
        await workspace.save("one")
    moved = tmp_path / "moved"
    os.rename(project, moved)
    async with lastgood.open_async(moved, store=tmp_path / "store", maintenance="off") as workspace:
        await workspace.attach(str(project))
        assert [one.message for one in await workspace.list()] == ["one"]


async def test_without_a_thread_a_save_is_refused_and_what_must_be_is_done(
    opening: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with opening() as workspace, workspace.session() as session:
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(lastgood.Busy, match="no thread can be started"):
            await workspace.save("one")
    assert not_none(session.ended).session.state == "ended"


def test_the_loop_may_end_in_the_midst_of_a_call(opening: Open, project: Path) -> None:
    """Nobody waits any more; the work goes to its end all the same, and harms nothing."""
    (project / "a.txt").write_text("one")
    loop = asyncio.new_event_loop()
    workspace = loop.run_until_complete(opening()._open())
    held = Held.of(workspace)
    call = loop.create_task(workspace.save("one"))
    loop.run_until_complete(Loop("asyncio").until(held.begun))
    loop.close()
    held.released.set()
    for thread in threading.enumerate():
        if thread.name == "lastgood":
            thread.join()
    assert workspace._inner.get("@").message == "one"
    workspace._inner.close()
    call.get_coro().close()


# The asynchronous face is the synchronous one, awaited: name by name, word by word.


# What an event loop needs no waiting for: it looks at nothing.
PLAIN = {"path", "remarks", "store", "settings", "subscribe", "session", "watching", "within"}

PLAIN_IN_SESSIONS = {
    "id",
    "started",
    "ended",
    "environment",
    "workspace",
    "task",
    "feature",
    "sprint",
    "step",
    "once",
}
# The same words; the answer is the asynchronous one's own.
OTHER_ANSWERS = {"session", "within", "ledger", "task", "feature", "sprint", "step", "once"}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def parameters(function: object) -> list[inspect.Parameter]:
    assert callable(function)
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize(("face", "core"), [(AsyncWorkspace, Workspace), (AsyncSession, OpenSession)])
def test_both_faces_have_the_same_names(face: type, core: type) -> None:
    assert public(face) == public(core)


@pytest.mark.parametrize(
    ("face", "core", "name"),
    [(AsyncWorkspace, Workspace, name) for name in sorted(public(Workspace))]
    + [(AsyncSession, OpenSession, name) for name in sorted(public(OpenSession))],
)
def test_a_name_takes_and_returns_the_same_on_both_faces(face: type, core: type, name: str) -> None:
    mine, theirs = getattr(face, name), getattr(core, name)
    if isinstance(theirs, property):
        assert isinstance(mine, property)
        assert mine.__doc__ == theirs.__doc__
        return
    assert parameters(mine) == parameters(theirs)
    if name not in OTHER_ANSWERS:
        assert inspect.signature(mine).return_annotation == inspect.signature(theirs).return_annotation
        assert name == "subscribe" or inspect.getdoc(mine) == inspect.getdoc(theirs) or name == "close"


@pytest.mark.parametrize(
    ("face", "plain"),
    [(AsyncWorkspace, PLAIN), (AsyncSession, PLAIN_IN_SESSIONS)],
    ids=["workspace", "session"],
)
def test_whatever_looks_at_a_disk_is_awaited(face: type, plain: set[str]) -> None:
    assert {name for name in public(face) if not inspect.iscoroutinefunction(getattr(face, name))} == plain


def test_a_ledger_has_the_same_words_on_both_faces() -> None:
    assert public(AsyncLedger) == public(Ledger)
    for name in public(Ledger):
        assert parameters(getattr(AsyncLedger, name)) == parameters(getattr(Ledger, name))


def test_both_are_opened_by_the_same_words() -> None:
    assert parameters(lastgood.open_async) == parameters(open_workspace)
    assert lastgood.open_async is lastgood.aio.open_async


def test_without_an_event_loop_the_other_face_is_named(project: Path, store: Path) -> None:
    opening = lastgood.open_async(project, store=store)
    assert isinstance(opening, Opening)
    with pytest.raises(Usage, match="no event loop runs here") as caught:
        opening.__await__().send(None)
    assert "lastgood.open(path)" in caught.value.hint


@pytest.mark.parametrize("statement", ["import lastgood", "import lastgood; lastgood.open"])
def test_importing_the_package_loads_no_event_loop_and_no_integration(statement: str) -> None:
    program = (
        f"import sys; {statement}; "
        "print([one for one in sys.modules if one.startswith("
        "('asyncio', 'trio', 'anyio', 'lastgood.aio', 'lastgood.integrations', 'opentelemetry'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_asynchronous_face_loads_neither_trio_nor_anyio_by_itself() -> None:
    program = (
        "import sys, lastgood; lastgood.open_async; print({'trio', 'anyio', 'sniffio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
