"""A store that lost or changed bytes: all is found, named exactly, and the rest stays usable (rule K4)."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from faults.cli import Bench
from faults.stage import copy
from lastgood.errors import LastgoodError
from lastgood.model.report import VerifyReport
from lastgood.workspace import Workspace
from tools.harm import HARM, packs_of
from tools.long_form import LONG

FLIPS = 1000 if LONG else 40
STATES = 6


def _open(bench: Bench, *, repair: bool = False) -> Workspace:
    return lastgood.open(bench.workspace, store=bench.store, maintenance="off", repair=repair)


@pytest.fixture
def states(bench: Bench) -> list[str]:
    """Checkpoints of six states, each with a file of its own beside one that all share."""
    ids = []
    (bench.workspace / "shared").write_bytes(random.Random(0).randbytes(3000))
    with _open(bench) as workspace:
        for number in range(STATES):
            own = bench.workspace / "own"
            own.mkdir(exist_ok=True)
            for old in own.iterdir():
                old.unlink()
            (own / f"state-{number}").write_bytes(random.Random(number + 1).randbytes(2000))
            ids.append(workspace.save(f"state {number}").checkpoint.id)
    copy(bench.store, bench.home / "sound")
    return ids


def _reset(bench: Bench) -> None:
    shutil.rmtree(bench.store)
    copy(bench.home / "sound", bench.store)


def _pack_of(bench: Bench, id: str) -> Path:
    """Return the pack that came with a checkpoint."""
    with _open(bench) as workspace:
        commit = bytes.fromhex(workspace.get(id).commit)
    (index,) = (path for path in packs_of(bench.store, ".idx") if commit in path.read_bytes())
    return index.with_suffix(".pack")


def _works(workspace: Workspace, ids: list[str], report: VerifyReport) -> None:
    """Whatever is not named as damaged can be had back whole; what is named says which files."""
    named = {one.id for one in report.damaged}
    for number, id in enumerate(ids):
        if id in named:
            continue
        expected = random.Random(number + 1).randbytes(2000)
        assert workspace.read(id, f"own/state-{number}") == expected
        assert workspace.read(id, "shared") == random.Random(0).randbytes(3000)


def _verified(bench: Bench) -> tuple[VerifyReport | None, str]:
    """Verify, and return the report, or the error that opening the store gave."""
    try:
        with _open(bench) as workspace:
            return workspace.verify(), ""
    except LastgoodError as error:
        return None, error.code


def _kinds(bench: Bench) -> dict[str, list[Path]]:
    return {
        "pack": packs_of(bench.store),
        "idx": packs_of(bench.store, ".idx"),
        "catalogue": [bench.store / "catalogue.sqlite3"],
    }


@pytest.mark.damages
@pytest.mark.parametrize("kind", ["pack", "idx", "catalogue"])
def test_a_flipped_bit_is_found_or_harmless(bench: Bench, states: list[str], kind: str) -> None:
    chance = random.Random(kind)
    with _open(bench) as workspace:
        workspace.maintain()  # everything of the write-ahead log into the file
    shutil.rmtree(bench.home / "sound")
    copy(bench.store, bench.home / "sound")
    for _ in range(FLIPS):
        _reset(bench)
        target = chance.choice(_kinds(bench)[kind])
        content = bytearray(target.read_bytes())
        at = chance.randrange(len(content))
        content[at] ^= 1 << chance.randrange(8)
        target.chmod(0o600)
        target.write_bytes(content)
        where = f"{target.name} byte {at}"
        report, error = _verified(bench)
        if report is None:
            assert error in {"damaged", "unsupported"}, f"{where}: {error}"
            continue
        if kind in {"pack", "idx"}:
            assert not report.ok, where
        if report.ok:
            _assert_the_same(bench, states, where)
        elif kind == "catalogue":
            _assert_typed(bench, states)
            with _open(bench, repair=True) as workspace:
                mended = workspace.verify(repair=True)
            where = f"{where}: {report.faults}, {mended.repaired}"
            assert mended.ok, where
            _assert_the_same(bench, states, where)
        else:
            with _open(bench) as workspace:
                _works(workspace, states, report)
                assert workspace.save("the next save", allow_empty=True).created, where


def _assert_typed(bench: Bench, ids: list[str]) -> None:
    for id in ids:
        with contextlib.suppress(LastgoodError), _open(bench) as workspace:
            workspace.read(id, "shared")
            workspace.plan_restore(id)


def _assert_the_same(bench: Bench, states: list[str], where: str) -> None:
    with _open(bench) as workspace:
        listed = workspace.list()
        assert [one.id for one in listed] == states[::-1], where
        assert [one.message for one in listed] == [f"state {n}" for n in reversed(range(STATES))], where
        assert all(one.name is None and not one.pinned and one.deleted_at is None for one in listed), where
        for number, id in enumerate(states):
            assert id in {one.id for one in workspace.list() if workspace.get(one.id)}, where
            assert len(workspace.read(id, f"own/state-{number}")) == 2000, where


@pytest.mark.damages
@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("which", [0, 2, STATES - 1])
def test_a_damaged_pack_is_named_with_the_checkpoints_it_hits(
    bench: Bench, states: list[str], harm: Callable[[Path], None], which: int
) -> None:
    pack = _pack_of(bench, states[which])
    harm(pack)
    with _open(bench) as workspace:
        report = workspace.verify()
        assert not report.ok
        assert states[which] in {one.id for one in report.damaged}
        if which == STATES - 1:  # what came after the others is in none of them
            assert {one.id for one in report.damaged} == {states[which]}
        _works(workspace, states, report)
        assert {one.id for one in workspace.list() if one.damaged} == {one.id for one in report.damaged}
        assert workspace.save("the next save", allow_empty=True).created


def test_files_that_do_not_belong_there_harm_nothing(bench: Bench, states: list[str]) -> None:
    folder = bench.store / "objects.git" / "objects" / "pack"
    (folder / "pack-0000000000000000000000000000000000000000.pack").write_bytes(b"PACK no pack")
    (folder / "notes.txt").write_text("x")
    (bench.store / "extra").write_text("x")
    with _open(bench) as workspace:
        report = workspace.verify()
        assert not report.damaged
        _works(workspace, states, report)
        assert workspace.save("the next save", allow_empty=True).created
    with _open(bench, repair=True) as workspace:
        assert workspace.verify(repair=True).ok


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("backed_up", [True, False], ids=["with a backup", "without"])
def test_a_lost_catalogue_is_rebuilt_from_its_backup_and_the_commits(
    bench: Bench, states: list[str], harm: Callable[[Path], None], *, backed_up: bool
) -> None:
    with _open(bench) as workspace:
        if backed_up:
            workspace.name(states[0], "named")
            workspace.maintain()
        (bench.workspace / "later").write_text("after the backup")
        later = workspace.save("later").checkpoint.id
    for ending in ("-wal", "-shm"):
        (bench.store / f"catalogue.sqlite3{ending}").unlink(missing_ok=True)
    harm(bench.store / "catalogue.sqlite3")
    report, error = _verified(bench)
    assert error == "damaged" or (report is not None and not report.ok)
    with _open(bench, repair=True) as workspace:
        report = workspace.verify(repair=True)
        assert report.ok, report
        assert [one.id for one in workspace.list()] == [later, *states[::-1]]
        if backed_up:
            assert workspace.get("named").id == states[0]
        assert workspace.read(later, "later") == b"after the backup"
        assert workspace.save("the next save", allow_empty=True).created
    assert bench("verify").code == 0


def test_repair_by_the_command_line_brings_back_a_lost_catalogue(bench: Bench, states: list[str]) -> None:
    for path in bench.store.glob("catalogue*"):
        path.unlink()
    answer = bench("list")
    assert answer.code == 16
    assert "verify --repair" in answer.err
    repaired = bench("verify", "--repair")
    assert repaired.code == 0, repaired
    assert {one["id"] for one in bench.json("list")["checkpoints"]} == set(states)


@pytest.mark.parametrize("harm", HARM)
def test_every_derived_file_can_be_damaged_or_deleted(
    bench: Bench, states: list[str], harm: Callable[[Path], None]
) -> None:
    for path in (bench.store / "workspaces").rglob("*"):
        if path.is_file():
            harm(path)
    shutil.rmtree(bench.store / "tmp", ignore_errors=True)
    shutil.rmtree(bench.store / "objects.git" / "refs" / "tags", ignore_errors=True)
    with _open(bench) as workspace:
        (bench.workspace / "shared").write_text("changed")
        saved = workspace.save("after").checkpoint
        assert workspace.read(saved.id, "shared") == b"changed"
        workspace.restore(states[1])
        assert (bench.workspace / "own" / "state-1").exists()
        assert workspace.verify(deep=True).ok
