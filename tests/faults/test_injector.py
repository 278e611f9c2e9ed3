"""The tools themselves: a fault run that hits nothing would prove nothing."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from faults.injector import AFTER_OTHERS, Blow, Injector, Kind, Mode, Trial
from faults.sweep import amid_pages, first_alike


def test_every_change_below_a_root_is_counted(injector: Injector, tmp_path: Path) -> None:
    trial = injector.run("write", {"directory": str(tmp_path), "files": 3}, roots=(tmp_path,), blow=Blow())
    assert trial.lines == ("wrote",)
    assert trial.calls == 6  # three files opened, three written


def test_what_only_looks_is_counted_at_the_first_root_where_that_is_asked_for(
    injector: Injector, tmp_path: Path
) -> None:
    order = {"directory": str(tmp_path), "files": 1}
    trial = injector.run("write", order, roots=(tmp_path,), blow=Blow(looks=True))
    assert trial.kinds[1] == Kind.GROWS
    assert trial.kinds[trial.calls] == Kind.WRITES
    assert set(trial.kinds[2 : trial.calls]) == {Kind.SYNCS}  # it was asked what has been opened
    second = injector.run("write", order, roots=(tmp_path / "other", tmp_path), blow=Blow(looks=True))
    assert list(second.kinds[1:]) == [Kind.GROWS, Kind.WRITES]


def test_what_each_call_does_is_told(injector: Injector, tmp_path: Path) -> None:
    roots = (tmp_path / "file-0", tmp_path / "file-2")
    trial = injector.run("write", {"directory": str(tmp_path), "files": 3}, roots=roots, blow=Blow())
    # Between the two that count, another file was written.
    assert list(trial.kinds[1:]) == [Kind.GROWS, Kind.WRITES, Kind.GROWS | AFTER_OTHERS, Kind.WRITES]


G, W, S, R = Kind.GROWS, Kind.WRITES, Kind.SYNCS, Kind.STAYS


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.KILL, [1, 2, 3, 3, 3, 6, 7, 8]),
        (Mode.FAIL, [1, 2, 3, 4, 5, 6, 7, 8]),
        (Mode.FAIL_FROM, [1, 2, 6, 6, 6, 6, 8, 8]),
        (Mode.SHORT, [8, 2, 8, 8, 8, 6, 8, 8]),
    ],
)
def test_calls_at_which_a_blow_leaves_the_same_are_known(mode: Mode, expected: list[int]) -> None:
    kinds = bytes([0, G, W, S, S, R, W, R])
    assert [first_alike(at, kinds=kinds, mode=mode) for at in range(1, 9)] == expected


def test_a_kill_after_a_sync_is_another_one_if_files_elsewhere_were_changed_since() -> None:
    kinds = bytes([0, G, S, G | AFTER_OTHERS])
    assert first_alike(3, kinds=kinds, mode=Mode.KILL) == 3


def test_the_middle_of_a_row_of_pages_is_known() -> None:
    """Only in SQLite's files, up to a sync or a change elsewhere, without a row's first two and its last."""
    log = "pwrite64 /s/c.sqlite3-wal"
    rows = [
        (5, log, W),
        (1, "fdatasync /s/c.sqlite3-wal", S),
        (3, log, W),
        (1, log, W | AFTER_OTHERS),
        (2, "pwrite64 /s/c.sqlite3", W),
        (5, "write /w/a name\nin two lines", W),
    ]
    calls = [(name, kind) for times, name, kind in rows for _ in range(times)]
    trace = "".join(f"{number} {name}\n" for number, (name, _) in enumerate(calls, 1))
    kinds = bytes([0, *(kind for _, kind in calls), 0])
    clean = Trial(0, (), len(calls), reached=False, hit="", trace=trace, kinds=kinds)
    assert amid_pages(clean) == {3: 2, 4: 2}


def test_changes_elsewhere_are_not_counted(injector: Injector, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    trial = injector.run("write", {"directory": str(tmp_path), "files": 3}, roots=(other,), blow=Blow())
    assert (trial.status, trial.calls) == (0, 0)


def test_a_kill_comes_before_the_call_it_hits(injector: Injector, tmp_path: Path) -> None:
    trial = injector.run("write", {"directory": str(tmp_path), "files": 3}, roots=(tmp_path,), blow=Blow(3))
    assert trial.killed
    assert trial.reached
    assert [path.name for path in tmp_path.iterdir()] == ["file-0"]
    assert trial.hit.endswith("file-1")


def test_an_error_is_returned_from_the_call_it_hits(injector: Injector, tmp_path: Path) -> None:
    blow = Blow(2, Mode.FAIL, errno.EIO)
    trial = injector.run("write", {"directory": str(tmp_path), "files": 3}, roots=(tmp_path,), blow=blow)
    assert trial.status == 70
    assert "Input/output error" in trial.lines[0]


def test_a_short_write_writes_half(injector: Injector, tmp_path: Path) -> None:
    blow = Blow(2, Mode.SHORT)
    trial = injector.run("write", {"directory": str(tmp_path), "files": 1}, roots=(tmp_path,), blow=blow)
    assert trial.status == 0
    assert trial.calls == 3  # Python writes the rest by another call
    assert (tmp_path / "file-0").read_text() == "content"


def test_a_pause_lets_the_test_act_in_the_middle(injector: Injector, tmp_path: Path) -> None:
    order = {"directory": str(tmp_path), "files": 2}
    injector.start("write", order, roots=(tmp_path,), blow=Blow(3, Mode.PAUSE))
    assert injector.paused()
    assert [path.name for path in tmp_path.iterdir()] == ["file-0"]
    injector.go_on()
    assert injector.finish().status == 0
    assert len(list(tmp_path.iterdir())) == 2
