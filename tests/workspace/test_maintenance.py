"""What no save waits for: limits, freed bytes, consolidation, back-ups."""

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
from lastgood.settings import PACKS_DUE, LimitSettings, Settings
from lastgood.testing.clock import FakeClock
from lastgood.workspace import AutoMaintenance, Workspace, detached, maintenance
from tools.harm import flip, packs_of
from tools.living import until_tidied
from tools.unlocked import writers
from tools.values import not_none

DAY = 24 * 3600 * 10**9


def fill(workspace: Workspace, project: Path, number: int) -> None:
    for step in range(number):
        (project / "file").write_text(f"version {step}")
        workspace.save(f"step {step}")


def test_packs_are_consolidated_when_there_are_many(workspace: Workspace, project: Path, store: Path) -> None:
    fill(workspace, project, PACKS_DUE)

    workspace.maintain()

    assert len(packs_of(store)) == 1
    assert workspace.verify(deep=True).ok


def test_maintenance_starts_by_itself_and_no_save_waits_for_it(project: Path, store: Path) -> None:
    """K3: a separate action."""
    with lastgood.open(project, store=store, maintenance="background") as workspace:
        fill(workspace, project, PACKS_DUE + 1)
        until_tidied(store)

        assert len(packs_of(store)) <= PACKS_DUE // 2
        assert workspace.verify().ok


def test_bytes_are_freed_a_day_after_a_deletion_and_not_before(project: Path, store: Path) -> None:
    """K3: the grace time is what makes a deletion undoable."""
    clock = FakeClock(start=10 * 365 * DAY)
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "large").write_bytes(b"".join(f"{n * n}".encode() for n in range(60_000)))
        gone = workspace.save("large").checkpoint
        (project / "large").unlink()
        kept = workspace.save("small").checkpoint
        workspace.delete(gone.id)
        before = workspace._context.engine.stored_bytes()

        clock.advance(0.9 * 24 * 3600)
        workspace.maintain()
        early = workspace._context.engine.stored_bytes()
        clock.advance(0.2 * 24 * 3600)
        workspace.maintain()

        assert early >= before * 0.9
        assert workspace._context.engine.stored_bytes() < before / 2
        assert [one.id for one in workspace.list()] == [kept.id]
        assert workspace.verify(deep=True).ok


def test_the_catalogue_gives_back_the_room_of_what_was_deleted(project: Path, store: Path) -> None:
    """K3."""
    clock = FakeClock(start=10 * 365 * DAY)
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        for number in range(60):
            noise = os.urandom(10_000).hex()
            workspace.save(str(number), allow_empty=True, metadata={"noise": noise})
        workspace.prune(keep=1)
        clock.advance(1.1 * 24 * 3600)

        said = workspace.maintain()

        assert any("of the catalogue given back" in line for line in said), said
        assert (store / "catalogue.sqlite3").stat().st_size < 500_000


def test_what_was_freed_is_stored_again_when_it_comes_back(project: Path, store: Path) -> None:
    """Invariant 4: a scan cache from before the sweep proves no object."""
    clock = FakeClock(start=10 * 365 * DAY)
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "file").write_text("comes back")
        gone = workspace.save("one").checkpoint
        workspace.delete(gone.id)
        clock.advance(2 * 24 * 3600)
        workspace.maintain()

        again = workspace.save("again")

        assert again.created
        assert workspace.read(again.checkpoint.id, "file") == b"comes back"
        assert workspace.verify(deep=True).ok


def test_a_checkpoint_larger_than_the_whole_store_may_be_is_refused(project: Path, store: Path) -> None:
    """K1: with its size named, and nothing left behind."""
    settings = Settings(limits=LimitSettings(max_store_size=1000))
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        (project / "large").write_bytes(bytes(range(256)) * 400)
        (project / "noise").write_bytes(b"".join(f"{n * n}".encode() for n in range(9_000)))

        try:
            workspace.save("too much")
        except lastgood.Storage as error:
            assert error.details["limit"] == 1000
        else:
            raise AssertionError

        assert workspace.list() == ()
        assert len(packs_of(store)) == 0


def test_the_catalogue_is_backed_up_when_there_is_something_new(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """Invariant 6: a rebuild starts from the newest sound backup."""
    fill(workspace, project, 1)

    workspace.maintain()

    assert (store / "catalogue.backup.sqlite3.gz").exists()


@pytest.mark.damages
def test_the_catalogue_is_backed_up_although_a_pack_is_damaged(
    workspace: Workspace, project: Path, store: Path
) -> None:
    fill(workspace, project, PACKS_DUE)
    index = packs_of(store, ".idx")[0]
    flip(index, -30)

    done = workspace.maintain()

    assert "catalogue backed up" in done
    assert any(index.stem in word for word in done)
    assert not workspace.verify().ok


def test_every_checkpoint_has_a_tag_that_git_can_show(
    workspace: Workspace, project: Path, store: Path
) -> None:
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("print()\n")
    saved = workspace.save("one").checkpoint
    workspace.maintain()

    shown = subprocess.run(
        ["git", "--git-dir", store / "objects.git", "show", f"{saved.id}:workspace/src/app.py"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert shown == "print()\n"


@pytest.mark.chance("what another process publishes during a proof")
def test_a_proof_beside_saves_and_maintenance_finds_nothing_wrong(project: Path, store: Path) -> None:
    """K4: what is being published or joined just then is no damage."""
    program = (
        "import lastgood, sys\n"
        "with lastgood.open(sys.argv[1], store=sys.argv[2], maintenance='off') as workspace:\n"
        "    for number in range(150):\n"
        "        open(sys.argv[1] + '/file', 'w').write(str(number))\n"
        "        workspace.save(str(number))\n"
        "        number % 70 or workspace.maintain()\n"
    )
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        (project / "file").write_text("first")
        workspace.save("first")
        source = str(Path(lastgood.__file__).parent.parent)
        busy = subprocess.Popen(
            [sys.executable, "-c", program, project, store], env={**os.environ, "PYTHONPATH": source}
        )
        proofs = []
        while busy.poll() is None:
            proofs.append(workspace.verify())

    assert busy.returncode == 0
    assert proofs
    assert [proof.faults for proof in proofs if not proof.ok] == []


def test_what_no_checkpoint_reaches_is_looked_for_once_a_day(project: Path, store: Path) -> None:
    """To look means to read every tree of the store: no save pays for that, but the processor does."""
    clock = FakeClock(start=10 * 365 * DAY)
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "file").write_text("one")
        workspace.save("one")
        workspace.maintain()
        writer = writers(workspace._context).engine_of().writer()
        nobodys = writer.blob(b"of a save that found nothing changed")
        writer.publish()

        clock.advance(0.5 * 24 * 3600)
        workspace.maintain()
        assert workspace._context.engine.read_blob(nobodys)
        clock.advance(0.6 * 24 * 3600)
        workspace.maintain()

        assert workspace._context.engine.missing([nobodys]) == {nobodys}
        assert workspace.verify(deep=True).ok


def test_a_sweep_that_was_cut_short_goes_on_within_the_day(project: Path, store: Path) -> None:
    """K3: rows that are gone without their bytes are not forgotten."""
    clock = FakeClock(start=10 * 365 * DAY)
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "file").write_text("one")
        gone = workspace.save("one").checkpoint
        (project / "file").write_text("two")
        workspace.save("two")
        workspace.maintain()
        workspace.delete(gone.id)
        context = workspace._context
        clock.advance(60)
        assert writers(context).catalogue.forget(lambda _deleted: True) == [gone.id]

        workspace.maintain()

        assert context.engine.missing([bytes.fromhex(gone.commit)])
        assert context.catalogue.freed() == []
        assert workspace.verify(deep=True).ok


# The limits take no more than they must, and maintenance leaves nothing behind (rules K1, K3).


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
        upkeep = AutoMaintenance("background")
        upkeep.after_save(workspace._context)
        child = not_none(upkeep._child)
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
        first, *others = [AutoMaintenance("background") for _ in range(8)]
        first.after_save(workspace._context)
        for upkeep in others:
            upkeep.after_save(workspace._context)

        assert [upkeep._child for upkeep in others] == [None] * 7
        assert os.waitstatus_to_exitcode(os.waitpid(not_none(first._child), 0)[1]) == 0
        assert len(packs_of(store)) == 1


def test_the_turn_of_maintenance_ends_with_its_process(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16: nothing is left to be cleared away after a kill."""
    monkeypatch.setattr(detached, "REST", 0.0)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("one", allow_empty=True)
        first = not_none(maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings()))
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)

        second = not_none(maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings()))

        assert os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]) == 0


def test_maintenance_that_was_just_started_rests_before_the_next(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that cannot be tidied (there may be no git) is not tried after every save."""
    monkeypatch.setattr(detached, "REST", 3600.0)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("one", allow_empty=True)
        first = not_none(maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings()))
        os.waitpid(first, 0)

        assert maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings()) is None
        long_ago = time.time() - 2 * 3600
        os.utime(store / "locks" / "upkeep.lock", (long_ago, long_ago))
        later = not_none(maintenance.start(str(project), str(store), packs=1, settings=lastgood.Settings()))

        os.waitpid(later, 0)


def test_maintenance_leaves_the_processor_to_others() -> None:
    """No save waits for it, not for the processor either."""
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from lastgood.workspace.maintenance import lower_priority as stand_back\n"
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


def test_maintenance_begins_when_a_burst_of_saves_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: what it takes of a processor is taken from no save that somebody waits for just then."""
    packs = tmp_path / "objects.git" / "objects" / "pack"
    packs.mkdir(parents=True)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            os.utime(packs, (0, 0))

    monkeypatch.setattr(time, "sleep", wait)
    monkeypatch.setattr(maintenance, "_CALM", 3600.0)

    maintenance.await_calm(os.fsencode(tmp_path))

    assert waits == [3600.0] * 3


@pytest.mark.parametrize(("bound", "value"), [("_PRESSING", 2), ("_LONGEST_BURST", 0.0)])
def test_maintenance_waits_neither_beside_very_many_packs_nor_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: float
) -> None:
    packs = tmp_path / "objects.git" / "objects" / "pack"
    packs.mkdir(parents=True)
    for name in ("one", "two"):
        (packs / f"pack-{name}.idx").touch()
    monkeypatch.setattr(maintenance, "_CALM", 3600.0)
    monkeypatch.setattr(maintenance, bound, value)
    monkeypatch.setattr(time, "sleep", None)

    maintenance.await_calm(os.fsencode(tmp_path))


def test_maintenance_that_cannot_keep_up_stands_back_no_more() -> None:
    """Where saves never leave the processor alone, packs would grow without bound, and saves slow."""
    assert maintenance.niceness(64) == 10
    assert maintenance.niceness(400) == 0
