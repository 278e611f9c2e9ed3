"""A repair keeps nobody from working but while it moves files: saves go on beside it, wherever it is (K4)."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import lastgood
from faults.cli import Bench
from faults.injector import Blow, Injector, Mode
from tools.harm import flip

pytestmark = [pytest.mark.faults, pytest.mark.damages]
COUNT = 3


@pytest.fixture
def wounded(bench: Bench) -> Bench:
    """Return three checkpoints, each of a file of its own, and a bit of that of the second one is flipped.

    The second file lies in the workspace again.
    """
    for number in range(COUNT):
        (bench.workspace / f"own-{number}").write_bytes(content_of(number))
        bench.save("--allow-root", f"{number}", "--name", f"n{number}")
        (bench.workspace / f"own-{number}").unlink()
    (bench.workspace / "own-1").write_bytes(content_of(1))
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off", allow_root=True) as workspace:
        commit = bytes.fromhex(workspace.get("n1").commit)
    (index,) = (path for path in packs(bench) if path.suffix == ".idx" and commit in path.read_bytes())
    flip(index.with_suffix(".pack"))
    return bench


def content_of(number: int) -> bytes:
    return random.Random(number).randbytes(3000)


def packs(bench: Bench) -> list[Path]:
    return sorted((bench.store / "objects.git" / "objects" / "pack").iterdir())


def order_of(bench: Bench) -> dict[str, object]:
    return {"workspace": str(bench.workspace), "store": str(bench.store), "repair": True}


def calls_of(injector: Injector, bench: Bench) -> list[tuple[int, str]]:
    """Return the calls by which a repair changes files, with the paths; all is as before then."""
    trial = injector.run("verify", order_of(bench), roots=(bench.store,), blow=Blow(), traced=True)
    assert trial.status == 0, trial
    reset(bench)
    lines = (line.partition(" ") for line in trial.trace.splitlines())
    return [(int(number), what) for number, _, what in lines]


def reset(bench: Bench) -> None:
    shutil.rmtree(bench.store)
    shutil.copytree(bench.home / "wounded", bench.store)


def writes_of(calls: list[tuple[int, str]]) -> list[int]:
    """Return the calls by which a repair writes new packs, all of which come before it moves a file."""
    moving = next(number for number, what in calls if what.endswith("/objects.git/damaged"))
    kinds = ("/tmp/engine-", "fsync ")
    found = [number for number, what in calls if number < moving and any(kind in what for kind in kinds)]
    assert len(found) > 8, calls
    return found


def test_a_save_goes_through_while_a_repair_reads(injector: Injector, wounded: Bench) -> None:
    """It has proven all packs, and told nobody yet what it found."""
    shutil.copytree(wounded.store, wounded.home / "wounded")
    calls = calls_of(injector, wounded)
    telling = next(number for number, what in calls if what.endswith("/objects.git/doubted"))
    injector.start("verify", order_of(wounded), roots=(wounded.store,), blow=Blow(telling, Mode.STOP))
    assert injector.stopped()
    try:
        saved = wounded.save("--allow-root", "beside")
    finally:
        injector.go_on()
    injector.finish()
    with lastgood.open(
        wounded.workspace, store=wounded.store, maintenance="off", allow_root=True
    ) as workspace:
        assert saved in {one.id for one in workspace.list()}
        assert workspace.save("the next").created
        assert workspace.read("@", "own-1") == content_of(1)


def test_saves_go_through_while_a_repair_writes(injector: Injector, wounded: Bench) -> None:
    shutil.copytree(wounded.store, wounded.home / "wounded")
    before = packs(wounded)
    for call in writes_of(calls_of(injector, wounded)):
        injector.start("verify", order_of(wounded), roots=(wounded.store,), blow=Blow(call, Mode.STOP))
        assert injector.stopped(), call
        assert set(before) <= set(packs(wounded)), "nothing is moved yet"
        try:
            (wounded.workspace / "beside").write_text(f"{call}\n")
            saved = wounded.save("--allow-root", f"beside {call}")
        finally:
            injector.go_on()
        trial = injector.finish()
        assert trial.said("verified") == "True", trial
        assert_all_is_there(wounded, saved, call)
        reset(wounded)


def assert_all_is_there(bench: Bench, saved: str, call: int) -> None:
    """What was saved beside the repair is whole, and so is what the store had lost of others."""
    with lastgood.open(bench.workspace, store=bench.store, maintenance="off", allow_root=True) as workspace:
        assert workspace.read(saved, "beside") == f"{call}\n".encode()
        assert workspace.read(saved, "own-1") == content_of(1)
        for number in range(COUNT):
            assert workspace.read(f"n{number}", f"own-{number}") == content_of(number)
        report = workspace.verify(repair=True)
        assert (report.repaired, report.damaged) == ((), ()), call


def test_nothing_is_moved_if_bytes_were_freed_since_they_were_looked_at(
    injector: Injector, wounded: Bench
) -> None:
    """Beside a repair, between its look and its move, a pack goes that it relied on: it begins again."""
    shutil.copytree(wounded.store, wounded.home / "wounded")
    calls = calls_of(injector, wounded)
    moving = next(number for number, what in calls if what.endswith("/objects.git/damaged"))
    taking = max(number for number, what in calls if number < moving and what.endswith("/locks/store.lock"))
    injector.start("verify", order_of(wounded), roots=(wounded.store,), blow=Blow(taking, Mode.STOP))
    assert injector.stopped()
    try:
        with lastgood.open(
            wounded.workspace, store=wounded.store, maintenance="off", allow_root=True
        ) as workspace:
            workspace.delete("n1")
            freed = workspace.prune(now=True)
        assert freed is not None
    finally:
        injector.go_on()
    assert injector.finish().said("verified") == "True"
    with lastgood.open(
        wounded.workspace, store=wounded.store, maintenance="off", allow_root=True
    ) as workspace:
        for number in (0, 2):
            assert workspace.read(f"n{number}", f"own-{number}") == content_of(number)
        assert workspace.verify(repair=True).repaired == ()
