"""Commands that a cancelled call was waiting for are ended with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from lastgood.aio import Opening
from lastgood.model.run import RunEvent
from tools.event_loops import Loop

Open = Callable[[], Opening]


def lives(file: Path) -> bool:
    """Tell whether the process that wrote its number into a file still runs."""
    try:
        state = Path(f"/proc/{int(file.read_text())}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # gone, or going just now
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


async def until_written(loop: Loop, file: Path) -> None:
    while not file.exists() or not file.read_text().endswith("\n"):  # noqa: ASYNC240 - short, and a test
        await loop.sleep(0.005)


def test_a_check_is_ended_and_says_nothing(loop: Loop, opening: Open, tmp_path: Path, project: Path) -> None:
    (project / "a.txt").write_text("one")
    pid = tmp_path / "pid"

    async def main() -> None:
        async with opening() as workspace:
            await workspace.save("one")
            assert await loop.cancelled_when(
                lambda: workspace.check("@", f"echo $$ > {pid}; sleep 600"),
                lambda: until_written(loop, pid),
            )
            assert not lives(pid)
            assert (await workspace.get("@")).good is None

    loop.run(main)


def test_a_run_is_interrupted_and_can_be_continued(
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

    async def main() -> None:
        async with opening() as workspace:
            assert await loop.cancelled_when(lambda: workspace.run(plan), lambda: until_written(loop, pid))
            assert not lives(pid)
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

    loop.run(main)


def test_a_ledger_is_awaited(loop: Loop, opening: Open) -> None:
    async def main() -> None:
        async with opening() as workspace:
            ledger = await workspace.ledger("tests")
            await ledger.change(lambda writer: writer.put("book", "1", head={"a": 1}))
            assert await ledger.look(lambda reader: reader.books()) == ["book"]

    loop.run(main)
