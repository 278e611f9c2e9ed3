"""Sessions under an event loop end as honestly as others, however often they are cancelled (rules P1, P6)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

import lastgood
from lastgood.aio import AsyncWorkspace, Opening
from lastgood.aio.session import AsyncBlock
from lastgood.errors import Conflict, Usage
from lastgood.model.session import SessionReport
from lastgood.workspace import Workspace
from tools.command import ROOT
from tools.event_loops import OFTEN, PATIENCE, Held, Loop, chances
from tools.values import not_none

Open = Callable[[], Opening]


async def kinds(workspace: AsyncWorkspace) -> list[str]:
    return [one.kind for one in reversed(await workspace.list())]


async def only_session(workspace: AsyncWorkspace) -> SessionReport:
    (found,) = await workspace.sessions()
    return found


async def test_a_session_with_tasks_and_steps(loop: Loop, opening: Open, project: Path) -> None:
    async with opening() as workspace, workspace.session(goal="migrate", sprint="S01") as session:
        assert session.started.session.id == session.id
        assert session.environment == {"LASTGOOD_SESSION": session.id}
        async with session.task("T01") as task:
            assert task.state == "running"
            (project / "a.txt").write_text("one")
            saved = (await session.save("in between", kind="turn")).checkpoint
            assert (saved.task, saved.session) == ("T01", session.id)
            async with session.step("mail", irreversible=True) as effect:
                assert effect.task == "T01"
        async with session.feature("login"), session.sprint("S02"):
            await session.progress(phase="Construction", step=1, steps=2)
        with pytest.raises(ValueError, match="broken"):
            async with session.task("T02"):
                raise ValueError("broken")
        assert (await session.heartbeat()).state == "active"
        assert (await session.show()).state == "active"
        assert (await session.workspace.save("mine", allow_empty=True)).checkpoint.session == session.id
        states = [(task.id, task.state) for task in (await session.progress()).tasks]
        assert states == [("T01", "done"), ("T02", "failed")]
        assert [one.state for one in await workspace.steps(session.id)] == ["done", "done", "failed"]
    assert not_none(session.ended).session.state == "ended"


async def test_tasks_at_once_do_not_mix_up_what_is_saved_for_them(
    loop: Loop, opening: Open, project: Path
) -> None:
    async with opening() as workspace, workspace.session() as session:

        async def work(id: str) -> None:
            async with session.task(id):
                for turn in range(3):
                    await loop.sleep(0.01 * turn)
                    report = await session.save(f"{id} {turn}", allow_empty=True)
                    assert report.checkpoint.task == id
                    async with session.step(f"{id} {turn}") as effect:
                        assert effect.task == id
            assert (await session.save("after", allow_empty=True)).checkpoint.task is None

        await loop.together(*(partial(work, f"T{number}") for number in range(4)))
        assert (await session.progress()).count("done") == 4
        assert (await session.save("at the end", allow_empty=True)).checkpoint.task is None


def test_threads_with_tasks_at_once_do_not_mix_them_up_either(workspace: Workspace) -> None:
    with workspace.session() as session:

        def work(id: str) -> list[str | None]:
            with session.task(id):
                return [session.save("x", allow_empty=True).checkpoint.task for _ in range(3)]

        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(work, ["T1", "T2", "T3"]))
        assert found == [["T1"] * 3, ["T2"] * 3, ["T3"] * 3]
        assert session.save("at the end", allow_empty=True).checkpoint.task is None


def test_a_thread_started_within_a_task_belongs_to_it(workspace: Workspace) -> None:
    with workspace.session() as session, session.task("T1"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(session.save, "x", allow_empty=True).result().checkpoint.task == "T1"


async def test_a_second_session_is_refused_as_ever(loop: Loop, opening: Open) -> None:
    """P1."""
    async with opening() as workspace, workspace.session():
        with pytest.raises(Conflict, match="has a session already"):
            await workspace.session().__aenter__()
    assert (await only_session_of(opening)).state == "ended"


async def only_session_of(opening: Open) -> SessionReport:
    async with opening() as workspace:
        return await only_session(workspace)


async def test_a_cancelled_session_was_interrupted_and_waits_to_be_continued(
    loop: Loop, opening: Open, project: Path
) -> None:
    async with opening() as workspace:
        begun = threading.Event()

        async def work() -> None:
            async with workspace.session(goal="long"):
                (project / "a.txt").write_text("half")
                begun.set()
                await loop.sleep(30)

        assert await loop.cancelled_when(work, partial(loop.until, begun))
        found = await only_session(workspace)
        assert (found.state, found.session.ended_by) == ("incomplete", "interrupted")
        assert await kinds(workspace) == ["session-start", "interrupt"]
        assert (await workspace.recover(choice="continue")).done == "continue"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_session_cancelled_by_anyio_was_interrupted_too(opening: Open, backend: str) -> None:
    """Whose scopes cancel again and again until they are left."""

    async def main() -> None:
        async with opening() as workspace:
            with anyio.CancelScope() as scope:
                async with workspace.session() as session, session.task("T01"):
                    scope.cancel()
                    await anyio.sleep(30)
            assert scope.cancelled_caught
            found = await only_session(workspace)
            assert (found.state, found.session.ended_by) == ("incomplete", "interrupted")

    anyio.run(main, backend=backend)


async def test_a_task_whose_time_is_over_can_be_tried_again(loop: Loop, opening: Open) -> None:
    """P6: the first attempt's effect is unknown; the session goes on."""
    async with opening() as workspace, workspace.session() as session:
        begun = threading.Event()

        async def work() -> None:
            async with session.task("T01"):
                begun.set()
                await loop.sleep(30)

        assert await loop.cancelled_when(work, partial(loop.until, begun))
        assert (await session.progress()).count("running") == 1
        async with session.task("T01") as again:
            assert again.attempts == 2
        states = [(one.attempt, one.state) for one in await workspace.steps(session.id)]
        assert states == [(1, "unknown"), (2, "done")]


async def test_a_session_ends_however_often_it_is_cancelled(opening: Open) -> None:
    async with opening() as workspace:
        held = Held()

        async def work() -> None:
            async with workspace.session():
                workspace._inner.subscribe(held)

        task = asyncio.ensure_future(work())
        await Loop("asyncio").until(held.begun)
        for _ in range(5):
            task.cancel()
            await asyncio.sleep(0.002)
        assert not task.done()
        held.released.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await only_session(workspace)).state == "ended"


async def test_sessions_cancelled_at_random_moments_are_never_left_active(
    loop: Loop, opening: Open, project: Path
) -> None:
    chance = chances()

    async with opening() as workspace:

        async def work() -> None:
            async with workspace.session() as session:
                async with session.task("T01"), session.step("mail", irreversible=True):
                    (project / "a.txt").write_text("half")
                    await session.save("half")
                await session.progress(step=1)

        for _ in range(8 * OFTEN):
            await loop.within(chance.random() * chance.random() * 0.8, work)
            assert workspace._running._count == 0
            for one in await workspace.sessions():
                assert one.state in {"ended", "incomplete"}
                if one.state == "incomplete":
                    await workspace.session_end(one.id)
        assert [one for one in await workspace.steps() if one.state == "running"] == []


async def test_a_session_cancelled_just_when_it_began_does_not_keep_the_workspace(opening: Open) -> None:
    async with opening() as workspace:
        held = Held.of(workspace)

        async def work() -> None:
            async with workspace.session():
                pytest.fail("it was cancelled before")

        task = asyncio.ensure_future(work())
        await Loop("asyncio").until(held.begun)
        task.cancel()
        await asyncio.sleep(0.01)
        held.released.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        found = await only_session(workspace)
        assert (found.state, found.session.ended_by) == ("incomplete", "interrupted")
        async with workspace.session():
            pass


@pytest.mark.parametrize("what", ["task", "step"])
async def test_what_was_cancelled_before_it_began_is_not_left_unknown(opening: Open, what: str) -> None:
    """P6: its block was never entered, so nothing can have happened."""
    async with opening() as workspace, workspace.session() as session:
        begun, released = threading.Event(), threading.Event()

        @contextmanager
        def slow() -> Iterator[object]:
            real = session._inner
            with real.task("T01") if what == "task" else real.step("mail", irreversible=True) as recorded:
                begun.set()
                assert released.wait(PATIENCE)
                yield recorded

        async def work() -> None:
            async with AsyncBlock(slow(), running=session._running):
                pytest.fail("it was cancelled before")

        task = asyncio.ensure_future(work())
        await Loop("asyncio").until(begun)
        task.cancel()
        await asyncio.sleep(0.01)
        released.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [one.state for one in await workspace.steps(session.id)] == ["failed"]


async def test_a_synchronous_session_in_a_cancelled_task_was_interrupted_too(workspace: Workspace) -> None:
    async def main() -> None:
        with workspace.session():
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(main(), 0.05)
    assert workspace.sessions()[0].session.ended_by == "interrupted"


async def test_an_interrupted_start_leaves_no_session_behind(loop: Loop, opening: Open) -> None:
    """P1: the workspace is locked, so that the first checkpoint has to wait."""
    async with opening() as workspace:
        inner = workspace._inner
        inner._use(inner._context.replace(wait=0.05))
        context = inner._context
        with context.locks.hold_workspace(context.key, wait=0), pytest.raises(lastgood.Busy):
            await workspace.session().__aenter__()
        found = await only_session(workspace)
        assert (found.state, found.session.ended_by) == ("ended", "failed")


def test_a_start_that_ctrl_c_interrupts_leaves_no_session_behind(workspace: Workspace) -> None:
    """P1: the session's first checkpoint waits for a lock when the signal comes."""
    context = workspace._context

    def interrupt() -> None:
        while not workspace.sessions():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    held = context.locks.hold_workspace(context.key, wait=0)
    with ThreadPoolExecutor(1) as other:  # whose lock is waited for: one's own is refused at once
        other.submit(held.__enter__).result()
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            workspace.session().__enter__()
        other.submit(held.__exit__, None, None, None).result()
    interrupting.join()
    (found,) = workspace.sessions()
    assert (found.state, found.session.ended_by) == ("ended", "failed")
    with workspace.session():
        pass


PROGRAM = """
import sys, time
import lastgood
{import_loop}

async def main():
    async with lastgood.open_async({project!r}, store={store!r}, maintenance="off") as workspace:
        async with workspace.session(goal="long") as session:
            async with session.task("T01"):
                open({project!r} + "/half.txt", "w").close()
                print("ready", flush=True)
                await {sleep}(60)

{run}
"""
LOOPS = {
    "asyncio": {"import_loop": "import asyncio", "sleep": "asyncio.sleep", "run": "asyncio.run(main())"},
    "trio": {"import_loop": "import trio", "sleep": "trio.sleep", "run": "trio.run(main)"},
}


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)]
)
@pytest.mark.parametrize("name", sorted(LOOPS))
def test_a_signal_ends_a_session_with_a_checkpoint(
    project: Path, store: Path, workspace: Workspace, name: str, number: signal.Signals, code: int
) -> None:
    """P1, P3: as it does without an event loop."""
    text = textwrap.dedent(PROGRAM).format(project=str(project), store=str(store), **LOOPS[name])
    environment = dict(os.environ) | {"PYTHONPATH": os.path.join(ROOT, "src")}
    with subprocess.Popen(
        [sys.executable, "-c", text],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert not_none(program.stdout).readline() == "ready\n"
        program.send_signal(number)
        _, said = program.communicate(timeout=2 * PATIENCE)
    assert program.returncode == code, said
    (found,) = workspace.sessions()
    assert (found.state, found.session.ended_by) == ("incomplete", "interrupted")
    newest = workspace.list()[0]
    assert (newest.kind, newest.manifest.files) == ("interrupt", 1)


async def test_sigterm_is_as_it_was_before_when_a_session_is_over(loop: Loop, opening: Open) -> None:
    async with opening() as workspace:
        async with workspace.session():
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_session_is_entered_once(loop: Loop, opening: Open) -> None:
    async with opening() as workspace:
        session = workspace.session()
        async with session:
            with pytest.raises(Usage, match="entered once"):
                await session.__aenter__()
