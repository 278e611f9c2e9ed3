"""Links swapped in, planted before, and put in the way while a restore runs (rule T12)."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

import pytest

import lastgood
from faults.cli import Bench
from faults.injector import Blow, Injector, Mode
from faults.stage import tree_of
from faults.sweep import FULL
from lastgood.errors import LastgoodError
from lastgood.workspace import Workspace

ROUNDS = 250 if FULL else 12
FILES = 60
EXCHANGE = 2
HERE = -100


def _exchange(left: Path, right: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.renameat2(HERE, os.fsencode(left), HERE, os.fsencode(right), EXCHANGE)


class _Racer(threading.Thread):
    """Exchanges a directory and a link to the outside until stopped."""

    def __init__(self, directory: Path, link: Path) -> None:
        super().__init__(daemon=True)
        self._pair = (directory, link)
        self._over = threading.Event()
        self.swaps = 0

    def run(self) -> None:
        while not self._over.is_set():
            _exchange(*self._pair)
            self.swaps += 1
            self._over.wait(0.0002)

    def stop(self) -> None:
        self._over.set()
        self.join()


@pytest.mark.chance("when another thread swaps in the link")
def test_no_byte_goes_outside_through_a_link_swapped_in(workspace: Workspace, bench: Bench) -> None:
    outside = bench.home / "outside"
    outside.mkdir()
    (outside / "theirs").write_text("not ours\n")
    inner = bench.workspace / "inner"
    inner.mkdir()
    for number in range(FILES):
        (inner / f"f{number}").write_text(f"old {number}\n")
    before = workspace.save("old").checkpoint
    lure = bench.home / "lure"
    lure.symlink_to(outside)
    for turn in range(ROUNDS):
        for number in range(FILES):
            (inner / f"f{number}").write_text(f"new {turn} {number}\n")
        racer = _Racer(inner, lure)
        racer.start()
        try:
            workspace.restore(before.id)
        except LastgoodError:
            pass  # refused or stopped: both are safe
        finally:
            racer.stop()
        if inner.is_symlink():
            _exchange(inner, lure)
        assert tree_of(outside) == {b"theirs": (0o644, b"not ours\n")}, f"round {turn}"
        if workspace.status().state == "interrupted":
            workspace.recover()
        assert tree_of(outside) == {b"theirs": (0o644, b"not ours\n")}, f"round {turn}, recovered"
    workspace.restore(before.id)
    assert (inner / "f7").read_text() == "old 7\n"


@pytest.mark.parametrize("at", range(1, 40, 3))
def test_a_directory_turned_into_a_link_at_any_moment_of_a_restore_leads_nowhere(
    injector: Injector, workspace: Workspace, bench: Bench, at: int
) -> None:
    outside = bench.home / "outside"
    outside.mkdir()
    inner = bench.workspace / "inner"
    (inner / "deep").mkdir(parents=True)
    for folder in (inner, inner / "deep"):
        for number in range(3):
            (folder / f"f{number}").write_text(f"old {number}\n")
    before = workspace.save("old").checkpoint
    for folder in (inner, inner / "deep"):
        for number in range(3):
            (folder / f"f{number}").write_text(f"new {number}\n")
        (folder / "added").write_text("added\n")
    order = {"workspace": str(bench.workspace), "store": str(bench.store), "ref": before.id}
    injector.start("restore", order, roots=(bench.workspace,), blow=Blow(at, Mode.PAUSE))
    if not injector.paused():
        injector.finish()
        return
    inner.rename(bench.home / "moved")
    inner.symlink_to(outside)
    injector.go_on()
    trial = injector.finish()
    assert not trial.killed
    assert trial.said("escaped") is None, trial.lines
    assert tree_of(outside) == {}
    inner.unlink()
    (bench.home / "moved").rename(inner)
    workspace.recover()
    workspace.restore(before.id)
    assert (inner / "deep" / "f1").read_text() == "old 1\n"


def test_a_link_planted_before_is_replaced_and_not_followed(workspace: Workspace, bench: Bench) -> None:
    outside = bench.home / "outside"
    outside.mkdir()
    (outside / "f").write_text("not ours\n")
    inner = bench.workspace / "inner"
    inner.mkdir()
    (inner / "f").write_text("ours\n")
    (bench.workspace / "plain").write_text("plain\n")
    before = workspace.save("before").checkpoint
    (inner / "f").unlink()
    inner.rmdir()
    inner.symlink_to(outside)
    (bench.workspace / "plain").unlink()
    (bench.workspace / "plain").symlink_to(outside / "f")
    present = tree_of(bench.workspace)
    workspace.restore(before.id)
    assert not inner.is_symlink()
    assert (inner / "f").read_text() == "ours\n"
    assert (bench.workspace / "plain").read_text() == "plain\n"
    assert tree_of(outside) == {b"f": (0o644, b"not ours\n")}
    workspace.undo()
    assert tree_of(bench.workspace) == present
    assert tree_of(outside) == {b"f": (0o644, b"not ours\n")}


def test_a_hard_link_to_the_outside_keeps_its_content_there(workspace: Workspace, bench: Bench) -> None:
    outside = bench.home / "outside"
    outside.write_text("shared\n")
    os.link(outside, bench.workspace / "file")
    before = workspace.save("before").checkpoint
    (bench.workspace / "file").write_text("changed in both\n")
    workspace.restore(before.id)
    assert (bench.workspace / "file").read_text() == "shared\n"
    assert outside.read_text() == "changed in both\n"


def test_paths_outside_are_refused(bench: Bench) -> None:
    (bench.workspace / "file").write_text("1")
    saved = bench.save("one")
    for path in ("../home", "/etc/passwd", "a/../../home"):
        answer = bench("restore", saved, "--yes", "--", path)
        assert answer.code in {2, 12, 15}, answer
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off") as workspace:
        for path in ("../home", "/etc/passwd", "a\0b"):
            with pytest.raises(LastgoodError):
                workspace.restore(saved, paths=[path])
