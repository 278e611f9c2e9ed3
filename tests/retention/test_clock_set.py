"""A clock that is set frees nothing before its time, and keeps nothing for ever (rules K1, K3, T8)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import lastgood
from lastgood.model.checkpoint import Checkpoint
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace

HOUR = 3600
DAY = 24 * HOUR


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def kept(project: Path, store: Path, clock: FakeClock) -> Iterator[Workspace]:
    """A workspace whose clock the test sets."""
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as opened:
        yield opened


@pytest.fixture
def deleted(kept: Workspace, project: Path) -> Checkpoint:
    """A checkpoint that was just deleted."""
    (project / "file").write_text("one")
    gone = kept.save("one").checkpoint
    (project / "file").write_text("two")
    kept.save("two")
    kept.delete(gone.id)
    return gone


class ClockAlone(FakeClock):
    """A machine that tells nothing of its boots."""

    def since_boot(self) -> None:
        return None


def is_freed(workspace: Workspace, checkpoint: Checkpoint) -> bool:
    return bool(workspace._context.engine.missing([bytes.fromhex(checkpoint.commit)]))


def forget_boots(store: Path) -> None:
    """Leave of deletions what a release noted that knew the clock alone."""
    with closing(sqlite3.connect(store / "catalogue.sqlite3", isolation_level=None)) as connection:
        connection.execute("DELETE FROM meta WHERE name LIKE 'deleted %'")


@pytest.mark.parametrize("jump", [-400 * DAY, -2 * DAY, 2 * DAY, 400 * DAY])
def test_a_clock_that_is_set_frees_nothing_before_a_day_has_passed(
    kept: Workspace, clock: FakeClock, deleted: Checkpoint, jump: int
) -> None:
    """K3."""
    clock.advance(60)
    clock.jump(jump)
    for _ in range(3):
        kept.maintain()
        clock.advance(7 * HOUR)

    kept.undo()

    assert kept.read(deleted.id, "file") == b"one"
    assert kept.verify(deep=True).ok


@pytest.mark.parametrize("jump", [-400 * DAY, -2 * DAY, 2 * DAY, 400 * DAY])
def test_a_clock_that_is_set_keeps_nothing_longer(
    kept: Workspace, clock: FakeClock, deleted: Checkpoint, jump: int
) -> None:
    """K3."""
    clock.jump(jump)
    clock.advance(DAY + 60)

    kept.maintain()

    assert is_freed(kept, deleted)


def test_an_undo_goes_on_after_a_clock_was_set_ahead_and_maintenance_ran_twice(
    kept: Workspace, project: Path, clock: FakeClock
) -> None:
    """K1, T8: the first took the guard, the second its bytes."""
    (project / "file").write_text("one")
    kept.save("one", name="one")
    (project / "file").write_text("what only the guard has")
    kept.restore("one")
    clock.advance(60)
    clock.jump(8 * DAY)
    kept.maintain()
    clock.advance(2 * HOUR)
    clock.jump(2 * DAY)
    kept.maintain()

    kept.undo()

    assert (project / "file").read_text() == "what only the guard has"


def test_what_was_deleted_in_an_earlier_boot_waits_until_the_clock_stood_for_an_hour(
    kept: Workspace, clock: FakeClock, deleted: Checkpoint
) -> None:
    """K3: the time service sets the clock after the machine has started."""
    kept.maintain()
    clock.reboot(after=5 * HOUR)
    clock.jump(30 * DAY)
    kept.maintain()
    clock.jump(-30 * DAY)
    clock.advance(HOUR)
    kept.maintain()
    assert not is_freed(kept, deleted)
    clock.advance(18 * HOUR + 60)

    kept.maintain()

    assert is_freed(kept, deleted)


def test_what_was_deleted_by_an_older_release_goes_by_the_clock_that_stood_for_an_hour(
    kept: Workspace, clock: FakeClock, deleted: Checkpoint, store: Path
) -> None:
    """K3: it tells no boot."""
    forget_boots(store)
    clock.jump(2 * DAY)
    kept.maintain()
    assert not is_freed(kept, deleted)
    clock.advance(HOUR)

    kept.maintain()

    assert is_freed(kept, deleted)


@pytest.mark.parametrize("damage", ["value || '1'", "'x'", "1", "replace(value, ' ', '  ')"])
def test_damage_to_when_something_was_deleted_frees_nothing_early(
    kept: Workspace, clock: FakeClock, deleted: Checkpoint, store: Path, damage: str
) -> None:
    """K3, K4."""
    kept.maintain()
    with closing(sqlite3.connect(store / "catalogue.sqlite3", isolation_level=None)) as connection:
        connection.execute(
            f"UPDATE meta SET value = {damage} WHERE name LIKE 'deleted %' OR name = 'time seen'"
        )
    clock.jump(2 * DAY)
    clock.advance(60)

    kept.maintain()

    assert not is_freed(kept, deleted)


def test_where_only_the_clock_tells_it_is_believed(project: Path, store: Path) -> None:
    """K3: no /proc, or macOS."""
    clock = ClockAlone()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "file").write_text("one")
        gone = workspace.save("one").checkpoint
        (project / "file").write_text("two")
        workspace.save("two")
        workspace.delete(gone.id)
        clock.advance(DAY - 60)
        workspace.maintain()
        assert not is_freed(workspace, gone)
        clock.advance(120)

        workspace.maintain()

        assert is_freed(workspace, gone)


def test_nothing_is_noted_of_deletions_that_are_over(
    kept: Workspace, clock: FakeClock, deleted: Checkpoint, store: Path
) -> None:
    kept.undo()
    kept.redo()
    clock.advance(2 * DAY)

    kept.maintain()

    assert is_freed(kept, deleted)
    with closing(sqlite3.connect(store / "catalogue.sqlite3")) as connection:
        assert connection.execute("SELECT count(*) FROM meta WHERE name LIKE 'deleted %'").fetchone() == (0,)


def test_a_prune_that_frees_at_once_does_so_whatever_the_clock_says(
    kept: Workspace, clock: FakeClock, deleted: Checkpoint
) -> None:
    """K3: that was asked for."""
    clock.jump(-2 * DAY)

    kept.prune(keep=1, now=True)

    assert is_freed(kept, deleted)


def test_a_clock_that_is_ahead_for_less_than_an_hour_prunes_nothing(
    kept: Workspace, project: Path, clock: FakeClock
) -> None:
    """K1: guards stay for seven days, and all of a moment's kind of the last day."""
    kept.maintain()
    clock.advance(2 * HOUR)
    (project / "file").write_text("one")
    kept.save("one", name="one")
    (project / "file").write_text("two")
    kept.restore("one")
    kept.undo()
    for number in range(25):
        (project / "file").write_text(f"risky {number}")
        kept.save("before something", kind="risky")
    before = kept.list()
    clock.jump(30 * DAY)
    kept.maintain()
    clock.advance(0.9 * HOUR)
    kept.maintain()
    clock.jump(-30 * DAY)

    kept.maintain()

    assert kept.list() == before


def test_what_is_old_is_pruned_once_the_clock_stood_for_an_hour(
    kept: Workspace, project: Path, clock: FakeClock
) -> None:
    """K1: the machine was off for that long, and so was the clock."""
    for number in range(25):
        (project / "file").write_text(f"risky {number}")
        kept.save("before something", kind="risky")
    kept.maintain()
    clock.reboot(after=30 * DAY)
    kept.maintain()
    clock.advance(HOUR)

    kept.maintain()

    assert len(kept.list()) == 20
