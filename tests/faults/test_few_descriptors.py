"""Hardly a file more can be opened: that is said as such, and taken for no fault of any file or store."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from faults.cli import Bench
from faults.stage import tree_of
from tools.command import COMMAND, PATIENCE, Done
from tools.long_form import LONG

pytestmark = pytest.mark.faults

# Besides standard input, output, error and the program itself; with more of them all is well.
FREE = range(1, 21) if LONG else (1, 2, 3, 4, 5, 6, 7, 8, 11)


@pytest.fixture
def filled(bench: Bench) -> Bench:
    """Two checkpoints of five files in folders of their own, and a change since."""
    for text in ("one", "two", "three"):
        for number in range(5):
            (bench.workspace / f"in {number}").mkdir(exist_ok=True)
            (bench.workspace / f"in {number}" / "file").write_text(text)
        if text != "three":
            bench.save("--name", text)
    return bench


def _with_few(bench: Bench, free: int, *words: str) -> Done:
    """Run the command with a limit on open files."""
    limited = ["sh", "-c", 'ulimit -n "$0"; exec "$@"', str(4 + free), sys.executable, COMMAND, *words]
    environment = dict(os.environ) | {"LASTGOOD_STORE": str(bench.store), "HOME": str(bench.home)}
    done = subprocess.run(
        limited, cwd=bench.workspace, env=environment, capture_output=True, timeout=PATIENCE, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _assert_told(done: Done, free: int) -> None:
    assert done.code == 14, (free, done.code, done.out, done.err)
    assert "too many files are open" in done.err, (free, done.err)
    assert "ulimit -n" in done.err, (free, done.err)


def test_a_save_is_whole_or_says_that_too_many_files_are_open(filled: Bench) -> None:
    """S14: what could not be opened for that is no gap of the workspace."""
    count = 2
    for free in FREE:
        done = _with_few(filled, free, "save", "--allow-empty")
        if done.code:
            _assert_told(done, free)
        else:
            count += 1
        checkpoints = filled.json("list")["checkpoints"]
        assert len(checkpoints) == count, free
        assert not any(one["gaps"] for one in checkpoints), free
    assert count > 2
    assert filled("verify", "--deep").code == 0


def test_a_restore_loses_nothing_and_offers_no_loss_where_too_many_files_are_open(filled: Bench) -> None:
    """T1, T2: it is done as a whole, or refused before the first write."""
    before = tree_of(filled.workspace)
    done = Done(14, b"", b"")
    for free in (*FREE, 64):
        assert tree_of(filled.workspace) == before, free
        done = _with_few(filled, free, "restore", "one", "--yes")
        if done.code:
            _assert_told(done, free)
            assert filled.json("status")["state"] == "idle", free
        else:
            assert filled("undo").code == 0, free
    assert done.code == 0
    assert tree_of(filled.workspace) == before


@pytest.mark.parametrize("words", [("verify",), ("verify", "--deep"), ("verify", "--repair"), ("maintain",)])
def test_a_store_is_called_damaged_by_nobody_who_cannot_open_its_files(
    filled: Bench, words: tuple[str, ...]
) -> None:
    """K4: and nothing of it is set aside, nor anything marked."""
    packs = filled.store / "objects.git" / "objects" / "pack"
    before = sorted(path.name for path in packs.iterdir())
    for free in (*FREE, 14, 18):
        done = _with_few(filled, free, *words)
        if done.code:
            _assert_told(done, free)
        assert sorted(path.name for path in packs.iterdir()) == before, free
    assert filled("verify", "--deep").code == 0


@pytest.mark.parametrize("words", [("status",), ("recover",), ("diff", "one"), ("list",)])
def test_what_looks_says_so_too(filled: Bench, words: tuple[str, ...]) -> None:
    for free in FREE:
        done = _with_few(filled, free, *words)
        if done.code:
            _assert_told(done, free)
