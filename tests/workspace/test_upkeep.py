"""The limits take no more than they must, and maintenance leaves nothing behind (rules K1, K3)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lastgood
from lastgood.retention import maintain
from lastgood.settings import LimitSettings
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Upkeep, maintenance


def test_a_store_that_is_too_large_loses_no_more_while_bytes_wait_to_be_freed(
    project: Path, store: Path
) -> None:
    """K1, K3: bytes go a day later; until then the same excess is not taken away again."""
    limits = LimitSettings(max_store_size=2_000_000)
    settings = lastgood.Settings(limits=limits)
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        for number in range(22):
            (project / "file").write_bytes(os.urandom(100_000))
            workspace.save(str(number))
        workspace.maintain()
        first = len(workspace.list())
        for _ in range(5):
            workspace.maintain()

        assert first < 22
        assert len(workspace.list()) >= 18


def test_maintenance_that_ended_is_let_go(project: Path, store: Path) -> None:
    """A long-lived caller gathers no dead processes."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        for number in range(64):
            (project / "file").write_text(str(number))
            workspace.save(str(number))
        upkeep = Upkeep("background")
        upkeep.after_save(workspace._context)
        child = upkeep._child
        assert child is not None
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

        upkeep.after_save(workspace._context)

        assert upkeep._child != child
        if upkeep._child is not None:
            os.waitpid(upkeep._child, 0)


def test_an_operation_is_forgotten_by_age_only_if_there_are_many(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T8: what can be undone may be old."""
    clock = FakeClock()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        for text in ("one", "two", "three", "four"):
            (project / "file").write_text(text)
            workspace.save(text, name=text)
        for text in ("one", "two", "three"):
            workspace.restore(text)
        clock.advance(91 * 24 * 3600)
        workspace.maintain()
        assert len(workspace.operations()) == 3

        monkeypatch.setattr(maintain, "OPERATIONS_KEPT", 2)
        workspace.maintain()

        assert len(workspace.operations()) == 2
        workspace.undo()
        assert (project / "file").read_text() == "two"


def test_maintenance_is_not_started_beside_one_that_was(project: Path, store: Path) -> None:
    """However many save, one process tidies: each start costs them processor time."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        for number in range(64):
            (project / "file").write_text(str(number))
            workspace.save(str(number))
        first, *others = [Upkeep("background") for _ in range(8)]
        first.after_save(workspace._context)
        for upkeep in others:
            upkeep.after_save(workspace._context)

        assert first._child is not None
        assert [upkeep._child for upkeep in others] == [None] * 7
        assert os.waitstatus_to_exitcode(os.waitpid(first._child, 0)[1]) == 0
        assert len(list((store / "objects.git" / "objects" / "pack").glob("*.pack"))) == 1


def test_the_turn_of_maintenance_ends_with_its_process(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16: nothing is left to be cleared away after a kill."""
    monkeypatch.setattr(maintenance, "REST", 0.0)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("one", allow_empty=True)
        first = maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings())
        assert first is not None
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)

        second = maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings())

        assert second is not None
        assert os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]) == 0


def test_maintenance_that_was_just_started_rests_before_the_next(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that cannot be tidied (there may be no git) is not tried after every save."""
    monkeypatch.setattr(maintenance, "REST", 3600.0)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("one", allow_empty=True)
        first = maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings())
        assert first is not None
        os.waitpid(first, 0)

        assert maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings()) is None
        long_ago = time.time() - 2 * 3600
        os.utime(store / "locks" / "upkeep.lock", (long_ago, long_ago))
        later = maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings())

        assert later is not None
        os.waitpid(later, 0)


def test_maintenance_leaves_the_processor_to_others() -> None:
    """No save waits for it, not for the processor either."""
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from lastgood.workspace.maintenance import stand_back\n"
        "stand_back(10)\n"
        "print(os.nice(0))\n"
        "path = '/proc/self/autogroup'\n"
        "print(open(path).read().split()[-1] if os.path.exists(path) else '10')\n"
    )
    source = str(Path(lastgood.__file__).parent.parent)
    shown = subprocess.run(
        [sys.executable, "-c", program, source],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    ).stdout.split()

    assert shown == [str(min(19, os.nice(0) + 10)), "10"]


def test_maintenance_that_cannot_keep_up_stands_back_no_more() -> None:
    """Where saves never leave the processor alone, packs would grow without bound, and saves slow."""
    assert maintenance.niceness(64) == 10
    assert maintenance.niceness(400) == 0
