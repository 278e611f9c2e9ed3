"""What is told about sizes is what the disk says (rules K1, K3, K5)."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastgood
from lastgood.settings import Settings
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from tools.command import Command

QUICK = Settings(durability="fast")
A_DAY = 24 * 3600
YEARS = 10 * 365 * A_DAY * 1_000_000_000
# What is kept of a prune so that it can be undone, and what an emptied table takes; a file system rounds up.
RECORD = 1 << 16


def on_disk(folder: Path) -> int:
    """Add up what the disk gives a folder and everything that stays in it, each file once."""
    every = (one for one in [folder, *folder.rglob("*")] if not one.name.endswith("-shm"))
    found = {(one.st_dev, one.st_ino): one.st_blocks * 512 for one in map(os.lstat, every)}
    return sum(found.values())


def opened(folder: Path, clock: FakeClock | None = None) -> Workspace:
    return lastgood.open(
        folder / "project", store=folder / "store", maintenance="off", settings=QUICK, clock=clock
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a project and its store: checkpoints of much progress, and backups."""
    folder, draw = tmp_path_factory.mktemp("made"), random.Random(4)
    (folder / "project").mkdir()
    with pytest.MonkeyPatch.context() as patch, opened(folder, FakeClock(start=YEARS)) as workspace:
        patch.setenv("HOME", str(folder))
        for number in range(90):
            workspace.progress_set(state={"notes": draw.randbytes(6000).hex()})
            (folder / "project" / f"file-{number % 7}").write_bytes(draw.randbytes(3000))
            workspace.save(f"after {number}")
            if number in {88, 89}:
                workspace.maintain()  # of the catalogue there are as many backups as there will ever be
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """Return a copy of that folder for one test; the project keeps its place."""
    shutil.copytree(made / "store", tmp_path / "store")
    (tmp_path / "project").symlink_to(made / "project")
    return tmp_path


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(start=YEARS + A_DAY * 1_000_000_000)


@pytest.fixture
def workspace(folder: Path, clock: FakeClock) -> Iterator[Workspace]:
    with opened(folder, clock) as workspace:
        yield workspace


def test_what_restores_keep_is_told_with_its_place_and_never_goes(
    folder: Path, workspace: Workspace, clock: FakeClock
) -> None:
    """T12b, K5: they are people's edits, and not caches."""
    assert [note.code for note in workspace.status().health if note.code == "kept-edits"] == []
    assert [one.code for one in workspace.examine() if one.code == "kept-edits"] == []
    (key,) = (one.name for one in (folder / "store" / "workspaces").iterdir())
    kept = folder / "store" / "workspaces" / key / "kept" / "op_1"
    kept.mkdir(parents=True)
    for name in ("one", "two"):
        (kept / name).write_bytes(b"x" * 9000)
    size = sum(os.lstat(one).st_blocks * 512 for one in kept.iterdir())

    for told in (workspace.status().health, workspace.examine()):
        (note,) = (one for one in told if one.code == "kept-edits")
        assert f"2 files ({size:,} bytes)" in note.message
        assert str(kept.parent) in note.message
    parts = workspace.status().store_parts
    assert parts.kept == on_disk(kept.parent)
    clock.advance(A_DAY * 400)
    workspace.prune(keep=1, now=True)
    workspace.maintain()
    assert sorted(one.name for one in kept.iterdir()) == ["one", "two"]


def test_every_verb_tells_what_the_disk_gives_the_store(workspace: Workspace, folder: Path) -> None:
    """K5: the catalogue, its log, backups, the ledger and caches count, each file once."""
    (folder / "store" / "damaged").mkdir()
    (folder / "store" / "damaged" / "pack").write_bytes(b"x" * 10_000)
    workspace.ledger("notes").change(lambda ledger: ledger.put("book", "key", body="x" * 5000))
    os.link(folder / "store" / "damaged" / "pack", folder / "store" / "damaged" / "again")
    status = workspace.status()
    truth = on_disk(folder / "store")

    assert status.store_bytes == truth
    assert workspace.store_sizes().store == truth
    assert workspace.report().sizes.store == truth
    parts = status.store_parts
    assert min(parts.objects, parts.catalogue, parts.backups, parts.ledger, parts.caches, parts.damaged) > 0
    assert sum(parts.parts.values()) == truth
    assert workspace.report().sizes.store_parts == parts


def test_a_clean_up_leaves_the_store_no_larger(workspace: Workspace, folder: Path) -> None:
    """K3: though a program has the store open, and before the bytes are freed."""
    before = on_disk(folder / "store")

    with opened(folder) as other:
        report = other.prune(keep=5)

    assert len(report.remove) > 80
    assert report.free_after is not None
    assert on_disk(folder / "store") <= before + RECORD
    workspace.maintain()
    assert on_disk(folder / "store") <= before + RECORD


def test_what_a_prune_frees_at_once_is_what_the_disk_gets_back(workspace: Workspace, folder: Path) -> None:
    """K3, K5: the rows go with what they name."""
    before, planned = on_disk(folder / "store"), workspace.plan_prune(keep=5, now=True)
    parts = workspace.status().store_parts

    freed = workspace.prune(keep=5, now=True).freed_bytes

    given_back = before - on_disk(folder / "store")
    assert given_back > (before - parts.reserve) // 4
    assert abs(given_back - freed) <= RECORD
    assert planned.freed_bytes == pytest.approx(freed, rel=0.25)
    assert workspace.status().store_parts.catalogue < parts.catalogue // 3
    assert workspace.verify(deep=True).ok


def test_what_only_waits_is_told_until_it_is_free(
    workspace: Workspace, folder: Path, clock: FakeClock
) -> None:
    """K3, K5: the same number at the prune and in the report, and nothing more of it a day after."""
    promised = workspace.prune(keep=5).freed_bytes
    waiting = workspace.report().sizes.waiting
    before = on_disk(folder / "store")

    clock.advance(A_DAY + 1)
    workspace.maintain()

    assert waiting == promised
    assert before - on_disk(folder / "store") > promised // 2
    assert workspace.report().sizes.waiting == 0
    assert workspace.status().store_bytes == on_disk(folder / "store")


def test_a_person_reads_the_same_sizes_everywhere(folder: Path) -> None:
    """K5: in a real process, where the log goes when the last one closes."""
    lastgood = Command(folder / "project", folder / "store")
    shown = lastgood("status", "--verbose").out
    document, report = lastgood("status", "--json").json, lastgood("report", "--json").json
    truth = on_disk(folder / "store")

    assert document["store_bytes"] == report["sizes"]["store"] == truth
    assert document["store_parts"] == report["sizes"]["store_parts"]
    assert f"({truth / 1024**2:.1f} MiB, of which" in shown
    words = lastgood("report").out
    assert f"{truth / 1024**2:.1f} MiB on the disk: " in words
    assert "objects" in words
    assert "backups" in words


def test_nothing_is_said_to_be_given_back_that_stays(workspace: Workspace, folder: Path) -> None:
    """K5: of few dropped rows the pages stay, and are used again."""
    gone = [one.id for one in workspace.list()][:2]
    workspace.delete(*gone)
    catalogue = workspace.status().store_parts.catalogue

    report = workspace.prune(keep=90, now=True)

    assert workspace.status().store_parts.catalogue >= catalogue // 2
    assert report.lost
    assert report.freed_bytes < catalogue // 2
