"""Several processes at once, owners that die, and clocks that jump (rules S15, S16, K3)."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lastgood
from faults.cli import SOURCES, Bench
from faults.clocks import DAY, ShiftedClock, StoppedClock
from faults.stage import tree_of
from lastgood.errors import Busy, NotFound
from lastgood.workspace import Workspace
from tools.long_form import LONG
from tools.values import not_none

ROUNDS = 50 if LONG else 6
PROCESSES = 8

_SAVER = """
import lastgood, os, sys
folder, store, number, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with lastgood.open(folder, store=store, maintenance="off", allow_root=True) as workspace:
    for turn in range(rounds):
        for at in range(3):
            with open(os.path.join(folder, f"p{number}-{at}"), "w") as file:
                file.write(f"{number} {turn} {at}" * 20)
        print(workspace.save(f"{number} {turn}", allow_empty=True).checkpoint.id, flush=True)
"""


def _start(script: str, *arguments: str) -> subprocess.Popen[str]:
    paths = f"{SOURCES}{os.pathsep}{SOURCES.parent / 'tests'}"
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths, "HOME": "/nonexistent"},
    )


def _all_saved(running: list[subprocess.Popen[str]]) -> list[str]:
    with ThreadPoolExecutor(len(running)) as pool:
        answers = list(pool.map(lambda one: one.communicate(timeout=300), running))
    assert [one.returncode for one in running] == [0] * len(running), [err for _, err in answers if err]
    return [line for out, _ in answers for line in out.split()]


@pytest.mark.chance("which of eight savers goes first")
def test_eight_processes_save_to_one_workspace(workspace: Workspace, bench: Bench) -> None:
    arguments = [(str(number), str(ROUNDS)) for number in range(PROCESSES)]
    ids = _all_saved([_start(_SAVER, str(bench.workspace), str(bench.store), *one) for one in arguments])
    listed = workspace.list()
    assert len(ids) == PROCESSES * ROUNDS
    assert {one.id for one in listed} == set(ids)
    assert len({one.sequence for one in listed}) == len(ids)
    assert workspace.verify(deep=True).ok


@pytest.mark.chance("which of eight savers goes first")
def test_eight_workspaces_save_to_one_store(bench: Bench) -> None:
    folders = [bench.home / f"project-{number}" for number in range(PROCESSES)]
    for folder in folders:
        folder.mkdir()
    running = [
        _start(_SAVER, str(folder), str(bench.store), str(number), str(ROUNDS))
        for number, folder in enumerate(folders)
    ]
    ids = _all_saved(running)
    with lastgood.open(folders[0], store=bench.store, maintenance="off") as workspace:
        assert {one.id for one in workspace.list(all_workspaces=True)} == set(ids)
        assert len(workspace.list()) == ROUNDS
        assert workspace.verify(deep=True).ok


_HOLDER = """
import sys
from lastgood.locks import FlockLocks
locks = FlockLocks(sys.argv[1].encode())
with locks.hold_workspace(sys.argv[2], wait=1):
    print("held", flush=True)
    sys.stdin.read()
"""


def _quick(bench: Bench) -> Workspace:
    return lastgood.open(bench.workspace, store=bench.store, maintenance="off")


def _impatient(workspace: Workspace) -> None:
    workspace._use(workspace._context.replace(wait=0.3))


def test_a_killed_owner_is_out_of_the_way_at_once_and_a_live_one_is_never_robbed(
    workspace: Workspace, bench: Bench
) -> None:
    workspace.save("one", allow_empty=True)
    _impatient(workspace)
    holder = _start(_HOLDER, str(bench.store), workspace._context.key)
    try:
        assert not_none(holder.stdout).readline() == "held\n"
        with pytest.raises(Busy) as caught:
            workspace.save("beside a live owner", allow_empty=True)
        assert str(holder.pid) in f"{caught.value.message} {caught.value.details}"
        holder.send_signal(signal.SIGSTOP)  # suspended is not dead, however old its lock is
        for path in bench.store.rglob("*lock*"):
            os.utime(path, (0, 0))
        with pytest.raises(Busy):
            workspace.save("beside a suspended owner", allow_empty=True)
        holder.kill()
        holder.wait()
        assert workspace.save("after its death", allow_empty=True).created
    finally:
        holder.kill()
        holder.communicate()


def test_a_save_that_is_interrupted_takes_away_nothing_that_another_one_relies_on(
    workspace: Workspace, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S13: from the moment at which its pack can be found, that is everybody's."""
    made: list[str] = []
    rename = os.rename

    def interrupted(source: bytes, target: bytes) -> None:
        rename(source, target)
        if target.endswith(b".idx"):
            patch.undo()
            with lastgood.open(bench.workspace, store=bench.store, maintenance="off") as beside:
                made.append(beside.save("beside").checkpoint.id)
            raise KeyboardInterrupt

    (bench.workspace / "file").write_text("one")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            workspace.save("interrupted")

    assert workspace.verify().ok
    assert workspace.read(made[0], "file") == b"one"


def test_a_restore_waits_for_a_running_save_and_both_succeed(workspace: Workspace, bench: Bench) -> None:
    for number in range(300):
        (bench.workspace / f"f{number}").write_text(f"{number}")
    before = workspace.save("before").checkpoint
    present = tree_of(bench.workspace)
    saver = _start(_SAVER, str(bench.workspace), str(bench.store), "1", str(ROUNDS))
    assert saver.stdout is not None
    ids = [saver.stdout.readline().strip()]  # it is at it
    for _ in range(3):
        workspace.restore(before.id)
    ids += saver.stdout.read().split()
    assert (saver.communicate()[1], saver.returncode, len(ids)) == ("", 0, ROUNDS)
    workspace.restore(before.id)
    assert tree_of(bench.workspace) == present
    assert set(ids) <= {one.id for one in workspace.list()}
    assert workspace.verify(deep=True).ok


@pytest.mark.parametrize("ref", [None, "two"])
def test_a_proof_that_waits_calls_nothing_damaged_that_is_let_go_meanwhile(
    workspace: Workspace, bench: Bench, monkeypatch: pytest.MonkeyPatch, ref: str | None
) -> None:
    """K4: which checkpoints there are is asked once nobody can free any."""
    for text in ("one", "two", "three"):
        (bench.workspace / "file").write_text(text)
        workspace.save(text)
    flock = fcntl.flock

    def late(file: int, mode: int) -> None:
        if not file_of(file).endswith("/maintenance.lock"):
            flock(file, mode)
            return
        patch.undo()
        with _quick(bench) as beside:
            beside.prune(keep=1, now=True)
        flock(file, mode)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", late)
        if ref is None:
            report = workspace.verify()
            assert (report.ok, report.checkpoints) == (True, 1)
        else:
            with pytest.raises(NotFound):
                workspace.verify(ref)


def file_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


@pytest.mark.parametrize(
    "jump", [-DAY, -3650 * DAY, 3650 * DAY, 0], ids=["day back", "decade back", "decade on", "still"]
)
def test_order_and_ids_survive_a_clock_that_jumps(bench: Bench, jump: int) -> None:
    clock = ShiftedClock() if jump else StoppedClock()
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off", clock=clock) as workspace:
        ids = []
        for number in range(10):
            (bench.workspace / "file").write_text(str(number))
            ids.append(workspace.save(str(number)).checkpoint.id)
            clock.shift += jump if number % 2 else -jump
        assert [one.id for one in workspace.list()] == ids[::-1]
        assert workspace.get("@").id == ids[-1]
        assert workspace.get("@~3").id == ids[-4]
        workspace.maintain()
        assert len(workspace.list()) == 10
        workspace.restore("@~9")
        assert (bench.workspace / "file").read_text() == "0"
        workspace.undo()
        assert (bench.workspace / "file").read_text() == "9"
        assert workspace.verify(deep=True).ok


def test_nothing_is_freed_early_because_a_clock_went_ahead_and_came_back(bench: Bench) -> None:
    clock = ShiftedClock(3650 * DAY)
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off", clock=clock) as workspace:
        (bench.workspace / "file").write_text("precious")
        saved = workspace.save("one").checkpoint
        (bench.workspace / "file").write_text("other")
        workspace.save("two")
        workspace.delete(saved.id)
        clock.shift = 0
        workspace.maintain()
        workspace.undo()
        assert workspace.read(saved.id, "file") == b"precious"


def test_a_copied_project_inherits_nothing_and_harms_nothing(bench: Bench, tmp_path: Path) -> None:
    import shutil

    (bench.workspace / "file").write_text("1")
    with _quick(bench) as workspace:
        saved = workspace.save("one").checkpoint
    copy = tmp_path / "copy"
    shutil.copytree(bench.workspace, copy)
    with lastgood.open(copy, store=bench.store, maintenance="off") as workspace:
        assert workspace.list() == ()
        assert workspace.save("mine").created
    with _quick(bench) as workspace:
        assert [one.id for one in workspace.list()] == [saved.id]
