"""A call that is cancelled has either not started, or is over when its caller hears of it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
from sniffio import current_async_library

import lastgood
from lastgood.aio import AsyncWorkspace, Opening
from lastgood.aio.bridge import MOST_AT_ONCE
from lastgood.errors import Busy, LastgoodError
from lastgood.model.run import RunEvent
from lastgood.settings import CaptureSettings, Settings
from tools.event_loops import OFTEN, Held, Loop, chances
from tools.living import is_open, lives

Open = Callable[[], Opening]

Call = Callable[[], Coroutine[Any, Any, object]]
# Starts a call, gives it up while it runs, lets the work go on, and returns when the caller has heard.
GiveUp = Callable[[Call, Held], Awaitable[None]]


def under_way(workspace: AsyncWorkspace) -> int:
    return workspace._running._count


async def let_go_later(held: Held, *, name: str = "asyncio") -> None:
    """Let the work go on when its caller had every chance to leave before."""
    for _ in range(20):
        await Loop(name).sleep(0.001)
    assert not held.ended.is_set()
    held.released.set()


async def by_cancel(call: Call, held: Held) -> None:
    task = asyncio.ensure_future(call())
    await Loop("asyncio").until(held.begun)
    task.cancel()
    await let_go_later(held)
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_cancelling_twice(call: Call, held: Held) -> None:
    task = asyncio.ensure_future(call())
    await Loop("asyncio").until(held.begun)
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0.001)
        assert not task.done()
    await let_go_later(held)
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_wait_for(call: Call, held: Held) -> None:
    task = asyncio.ensure_future(call())
    await Loop("asyncio").until(held.begun)
    waiting = asyncio.ensure_future(asyncio.wait_for(task, 0.01))
    while not task.cancelling():  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.001)
    await let_go_later(held)
    with pytest.raises(TimeoutError):
        await waiting


async def by_timeout(call: Call, held: Held) -> None:
    limit = asyncio.timeout(None)

    async def limited() -> None:
        async with limit:
            await call()

    task = asyncio.ensure_future(limited())
    await Loop("asyncio").until(held.begun)
    limit.reschedule(asyncio.get_running_loop().time())
    await let_go_later(held)
    with pytest.raises(TimeoutError):
        await task


async def by_a_failing_sibling(call: Call, held: Held) -> None:
    async def fail() -> None:
        await Loop("asyncio").until(held.begun)
        letting_go.append(asyncio.ensure_future(let_go_later(held)))
        raise ValueError

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(call())
            group.create_task(fail())

    letting_go: list[asyncio.Future[None]] = []
    with pytest.raises(ExceptionGroup):
        await both()
    assert held.ended.is_set()
    await letting_go[0]


async def by_an_anyio_scope(call: Call, held: Held) -> None:
    async def give_up() -> None:
        while not held.begun.is_set():  # noqa: ASYNC110 - it is told by another thread
            await anyio.sleep(0.001)
        inner.cancel_scope.cancel()
        await let_go_later(held, name=current_async_library() or "")

    async with anyio.create_task_group() as outer:
        outer.start_soon(give_up)
        async with anyio.create_task_group() as inner:
            inner.start_soon(call)
        assert held.ended.is_set()


async def by_a_trio_scope(call: Call, held: Held) -> None:
    async def limited() -> None:
        with scope:
            await call()
            await trio.lowlevel.checkpoint()
        assert held.ended.is_set()

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(limited)
        await Loop("trio").until(held.begun)
        scope.cancel()
        await let_go_later(held, name="trio")
    assert scope.cancelled_caught


async def by_a_trio_sibling(call: Call, held: Held) -> None:
    async def fail() -> None:
        await Loop("trio").until(held.begun)
        raise ValueError

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            nursery.start_soon(fail)

    async def fail_among_siblings() -> None:
        with pytest.raises(ExceptionGroup):
            await both()
        assert held.ended.is_set()

    async with trio.open_nursery() as outer:
        outer.start_soon(fail_among_siblings)
        await Loop("trio").until(held.begun)
        await let_go_later(held, name="trio")


PLAIN: list[GiveUp] = [by_cancel, by_cancelling_twice, by_wait_for, by_timeout, by_a_failing_sibling]

WAYS: list[tuple[str, GiveUp]] = [
    *(("asyncio", way) for way in PLAIN),
    ("asyncio", by_an_anyio_scope),
    ("trio", by_an_anyio_scope),
    ("trio", by_a_trio_scope),
    ("trio", by_a_trio_sibling),
]


@pytest.fixture(params=["anyio loaded", "anyio not loaded"])
def company(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let anyio be in use by somebody or not; pytest always loads it, as a plug-in."""
    if request.param == "anyio not loaded":
        monkeypatch.delitem(sys.modules, "anyio")


CASES = [(verb, *one) for one in WAYS for verb in ("save", "restore")] + [
    ("task_start", "asyncio", by_cancel),
    ("task_start", "trio", by_a_trio_scope),
]


@pytest.mark.parametrize(
    ("verb", "name", "give_up"), CASES, ids=[f"{verb}-{name}-{way.__name__}" for verb, name, way in CASES]
)
def test_a_call_given_up_while_it_runs_is_over_when_its_caller_hears(
    opening: Open, project: Path, verb: str, name: str, give_up: GiveUp
) -> None:
    async def main() -> None:
        async with opening() as workspace:
            (project / "a.txt").write_text("one")
            first = (await workspace.save("one")).checkpoint
            (project / "a.txt").write_text("two")
            calls: dict[str, Call] = {
                "save": lambda: workspace.save("two"),
                "restore": lambda: workspace.restore(first.id),
                "task_start": lambda: workspace.task_start("T01"),
            }
            held = Held.of(workspace)
            await give_up(calls[verb], held)
            assert held.ended.is_set()
            assert under_way(workspace) == 0
            if verb == "save":
                assert (await workspace.get("@")).message == "two"
            elif verb == "restore":
                assert (project / "a.txt").read_text() == "one"
            else:
                assert [task.id for task in await workspace.tasks()] == ["T01"]

    Loop(name).run(main)


@pytest.mark.parametrize("give_up", PLAIN, ids=[way.__name__ for way in PLAIN])
@pytest.mark.usefixtures("company")
async def test_whether_anyio_is_in_use_or_not(opening: Open, give_up: GiveUp) -> None:
    async with opening() as workspace:
        await give_up(lambda: workspace.save("one"), Held.of(workspace))
        assert under_way(workspace) == 0
        assert (await workspace.get("@")).message == "one"


async def test_a_call_cancelled_before_its_turn_never_starts(
    loop: Loop, opening: Open, project: Path
) -> None:
    async with opening() as workspace:
        (project / "a.txt").write_text("one")
        held = Held.of(workspace)

        async def last() -> None:
            while under_way(workspace) < MOST_AT_ONCE:
                await loop.sleep(0.001)
            assert await loop.within(0.02, lambda: workspace.save("never"))
            assert not held.ended.is_set()
            held.released.set()

        busy = [lambda: workspace.save("busy", allow_empty=True)] * MOST_AT_ONCE
        await loop.together(*busy, last)
        assert {one.message for one in await workspace.list()} == {"busy"}


@pytest.mark.chance("how far a call is when it is cancelled")
async def test_calls_cancelled_at_random_moments_are_over_too(
    loop: Loop, opening: Open, project: Path
) -> None:
    """Near their start and their end; none is left running, and none is half done."""
    chance = chances()

    async with opening() as workspace:
        (project / "a.txt").write_text("0")
        first = (await workspace.save("first")).checkpoint
        cancelled = 0
        for turn in range(80 * OFTEN):
            seconds = chance.choice((0.0, 0.0002, 0.002, 0.01, 0.03)) * chance.random() * 2
            (project / "a.txt").write_text(str(turn))
            call = workspace.save if turn % 2 else partial_restore(workspace, first.id)
            cancelled += await loop.within(seconds, call)
            assert under_way(workspace) == 0
            assert (project / "a.txt").read_text() in {str(turn), "0"}
        assert cancelled > 10
        assert (await workspace.verify()).ok


def partial_restore(workspace: AsyncWorkspace, ref: str) -> Call:
    return lambda: workspace.restore(ref)


@pytest.mark.parametrize("verb", ["save", "restore", "plan_restore", "diff"])
async def test_a_cancelled_call_that_waits_for_a_lock_gives_up_at_once(
    loop: Loop, opening: Open, project: Path, verb: str
) -> None:
    """It would wait for half a minute otherwise, and its caller with it."""
    async with opening() as workspace:
        (project / "a.txt").write_text("one")
        first = (await workspace.save("one")).checkpoint
        (project / "a.txt").write_text("two")
        context = workspace._inner._context
        calls: dict[str, Call] = {
            "save": lambda: workspace.save("two"),
            "restore": lambda: workspace.restore(first.id),
            "plan_restore": lambda: workspace.plan_restore(first.id),
            "diff": workspace.diff,
        }
        failures: list[object] = []
        workspace.subscribe(failures.append)
        with context.locks.hold_workspace(context.key, wait=0):
            assert await loop.within(0.1, calls[verb])
            assert under_way(workspace) == 0
        assert (project / "a.txt").read_text() == "two"
        assert len(await workspace.list()) == 1
        assert failures == []
        assert (await workspace.save("two")).created


async def test_a_cancelled_save_ends_the_process_that_scans(loop: Loop, project: Path, store: Path) -> None:
    """A first save that reads for long, of a file with no end in sight, ends early and leaves nothing."""
    for number in range(300):
        (project / f"{number}.txt").write_text(f"{number}\n" * 20)
    endless = project / "endless"
    with endless.open("wb") as file:
        file.truncate(64 << 30)  # all of it a hole
    settings = Settings(capture=CaptureSettings(max_file_size=1 << 40))

    async def reads() -> None:
        await loop.until_so(lambda: is_open(endless))

    async with lastgood.open_async(project, store=store, maintenance="off", settings=settings) as workspace:
        assert await loop.cancelled_when(lambda: workspace.save("everything"), reads)
        assert under_way(workspace) == 0
        await loop.until_so(lambda: not is_open(endless))
        assert await workspace.list() == ()
        endless.unlink()
        assert (await workspace.save("everything")).checkpoint.manifest.files == 300


@pytest.mark.chance("how far an opening is when it is cancelled")
async def test_opening_given_up_leaves_nothing_open(loop: Loop, opening: Open, project: Path) -> None:
    def descriptors() -> set[tuple[str, str]]:
        """Return what is open; what others left may be closed meanwhile."""
        found = set()
        for name in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):
                found.add((name, os.readlink(f"/proc/self/fd/{name}")))
        return found

    async def attempt() -> None:
        async with opening():
            pass

    (project / "a.txt").write_text("one")

    await attempt()
    before = descriptors()
    for turn in range(40):
        await loop.within(turn / 4000, attempt)
    assert descriptors() <= before


async def test_a_failure_of_a_cancelled_call_is_told_beside(opening: Open, project: Path) -> None:
    async with opening() as workspace:
        (project / "a.txt").write_text("one")
        await workspace.save("one")
        held = Held.of(workspace)
        task = asyncio.ensure_future(workspace.task_done("T99"))
        await Loop("asyncio").until(held.begun)
        task.cancel()
        await asyncio.sleep(0.01)
        held.released.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert isinstance(caught.value.__cause__, LastgoodError)


async def test_a_workspace_is_closed_when_its_last_call_is_over(
    loop: Loop, opening: Open, project: Path
) -> None:
    workspace = await opening()
    (project / "a.txt").write_text("one")
    held = Held.of(workspace)

    async def close() -> None:
        await loop.until(held.begun)

        async def let_go() -> None:
            await loop.sleep(0.02)
            held.released.set()

        await loop.together(workspace.close, let_go)
        assert held.ended.is_set()

    async def save() -> None:
        assert (await workspace.save("one")).created

    await loop.together(save, close)


async def test_a_call_that_was_not_cancelled_tells_who_holds_the_lock(
    opening: Open, project: Path, loop: Loop
) -> None:
    async with opening() as workspace:
        (project / "a.txt").write_text("one")
        await workspace.save("one")
        inner = workspace._inner
        inner._use(inner._context.replace(wait=0.05))
        context = inner._context
        with context.locks.hold_workspace(context.key, wait=0), pytest.raises(Busy):
            await workspace.save("two", allow_empty=True)


# Commands that a cancelled call was waiting for are ended with it.


async def until_written(loop: Loop, file: Path) -> None:
    while not file.exists() or not file.read_text().endswith("\n"):  # noqa: ASYNC240 - short, and a test
        await loop.sleep(0.005)


async def test_a_check_is_ended_and_says_nothing(
    loop: Loop, opening: Open, tmp_path: Path, project: Path
) -> None:
    (project / "a.txt").write_text("one")
    pid = tmp_path / "pid"

    async with opening() as workspace:
        await workspace.save("one")
        assert await loop.cancelled_when(
            lambda: workspace.check("@", f"echo $$ > {pid}; sleep 600"),
            lambda: until_written(loop, pid),
        )
        assert not lives(int(pid.read_text()))
        assert (await workspace.get("@")).good is None


async def test_a_run_is_interrupted_and_can_be_continued(
    loop: Loop, opening: Open, tmp_path: Path, project: Path
) -> None:
    pid = tmp_path / "pid"
    plan = {
        "goal": "two tasks",
        "tasks": [
            {"id": "T01", "run": "echo one > one.txt"},
            {"id": "T02", "run": f"test -e {pid} || {{ echo $$ > {pid}; sleep 600; }}"},
        ],
    }

    async with opening() as workspace:
        assert await loop.cancelled_when(lambda: workspace.run(plan), lambda: until_written(loop, pid))
        assert not lives(int(pid.read_text()))
        (found,) = await workspace.sessions()
        assert (found.state, found.session.ended_by) == ("incomplete", "interrupted")
        assert found.progress.tasks[0].state == "done"
        events: list[tuple[str, int]] = []

        def observe(event: RunEvent) -> None:
            events.append((event.type, threading.get_ident()))

        report = await workspace.run(plan, observer=observe)
        assert (report.state, report.continued) == ("done", True)
        assert {place for _, place in events} == {threading.get_ident()}
        assert (events[0][0], events[-1][0]) == ("started", "finished")


async def test_a_ledger_is_awaited(loop: Loop, opening: Open) -> None:
    async with opening() as workspace:
        ledger = await workspace.ledger("tests")
        await ledger.change(lambda writer: writer.put("book", "1", head={"a": 1}))
        assert await ledger.look(lambda reader: reader.books()) == ["book"]
