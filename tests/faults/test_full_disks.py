"""A disk without a free byte, or without a free inode: what is kept can be read, and room can be made.

What needs a disk that is really full mounts a small one, which takes root; the injector, which takes none,
fails every call that would take room.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import lastgood
from faults.campaign import Campaign
from faults.cli import Bench
from faults.disks import SmallDisk, ext4, tmpfs
from faults.injector import Blow, Injector, Mode, Trial
from faults.scenes import opened
from faults.stage import Stage, alter, fill, tree_of
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.errors import NoRoom
from lastgood.testing.clock import FakeClock
from tools.harm import flip, packs_of
from tools.judge import git_faults
from tools.long_form import LONG
from tools.unlocked import writers
from tools.values import not_none

pytestmark = pytest.mark.faults

# From the first call on, nothing that takes room succeeds: neither bytes nor a new file.
FULL = Blow(at=1, mode=Mode.FAIL_FROM, error=errno.ENOSPC)
QUOTA = Blow(at=1, mode=Mode.FAIL_FROM, error=errno.EDQUOT)
LACKS = pytest.mark.parametrize("lack", ["bytes", "inodes"])
PASSES = 20 if LONG else 1
LENGTH = 40 if LONG else 14


def _three(stage: Stage) -> None:
    fill(stage.workspace)
    with opened(stage) as workspace:
        workspace.save("one", name="one")
        alter(stage.workspace)
        workspace.save("two", name="two")
        (stage.workspace / "README.md").write_text("# third\n" * 500)
        workspace.save("three", name="three")
        workspace.verify()  # so that no lock is missing, as in a store that was used


@pytest.mark.parametrize("blow", [FULL, QUOTA], ids=["disk", "quota"])
def test_where_nothing_can_be_written_all_that_reads_works(
    injector: Injector, stage: Stage, tmp_path: Path, blow: Blow
) -> None:
    """T11, K4: without root, by the injector."""
    stage.prepare(_three)
    expected = tree_of(stage.workspace)
    trial = _do(injector, stage, "look", blow, ref="three", aside=str(tmp_path / "aside"))
    assert trial.said("looked") == "idle", trial.lines
    assert trial.said("verified") == "True"
    assert tree_of(tmp_path / "aside") == {
        path: one for path, one in expected.items() if path != b"debug.log"
    }


@pytest.mark.parametrize(
    ("verb", "asked"),
    [
        ("save", {}),
        ("restore", {"ref": "one"}),
        ("delete", {"refs": ["two"]}),
        ("prune", {"asked": {"keep": 1, "now": True}}),
        ("undo", {}),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_where_nothing_can_be_written_a_change_says_what_is_full_and_how_to_go_on(
    injector: Injector, stage: Stage, verb: str, asked: dict[str, object]
) -> None:
    """S14, T2, K3: exit code 14, nothing changed, and once there is room it works."""
    stage.prepare(_three)
    with opened(stage) as workspace:
        workspace.delete("one")
        workspace.undo()
        workspace.restore("two")
        (stage.workspace / "notes").write_text("unsaved\n")
        listed = [one.id for one in workspace.list()]
    before = stage.tree()
    trial = _do(injector, stage, verb, FULL, **asked)
    said = trial.said("failed") or ""
    assert trial.status == NoRoom.exit_code, trial.lines
    assert said.startswith(f"storage the disk of {stage.store}")
    assert "lastgood prune --now" in said
    assert stage.tree() == before
    with opened(stage) as workspace:
        assert [one.id for one in workspace.list()] == listed
        assert workspace.verify().ok
    trial = _do(injector, stage, verb, Blow(), **asked)
    assert trial.status == 0, trial.lines


@pytest.mark.parametrize("blow", [FULL, QUOTA], ids=["disk", "quota"])
def test_maintenance_tells_what_waits_for_room_and_does_not_fail(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    """K3: neither shrinking nor backing the catalogue up, nor tags; the next one does it."""
    stage.prepare(_three)
    trial = _do(injector, stage, "maintain", blow)
    assert trial.status == 0, trial.lines
    told = [line for line in trial.lines if line.startswith("did ")]
    assert any(line.endswith("writing the catalogue failed") for line in told), told
    assert any(line.endswith("writing the tags failed") for line in told), told
    assert len(told) == len(set(told))
    trial = _do(injector, stage, "maintain", Blow())
    assert trial.lines == ("did catalogue backed up", "maintained")


def _do(injector: Injector, stage: Stage, verb: str, blow: Blow, **asked: object) -> Trial:
    places = {"workspace": str(stage.workspace), "store": str(stage.store)}
    return injector.run(verb, {**places, **asked}, roots=[stage.store], blow=blow)


def test_a_verify_that_cannot_record_damage_tells_of_it_all_the_same(
    injector: Injector, stage: Stage
) -> None:
    """K4."""
    stage.prepare(_three)
    for pack in packs_of(stage.store):
        flip(pack)
    trial = _do(injector, stage, "verify", FULL)
    assert trial.said("verified") == "False", trial.lines


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with tmpfs(tmp_path.resolve() / "disk") as made:
        yield made


@pytest.fixture
def crowded(bench: Bench, disk: SmallDisk) -> Bench:
    """A store on a small disk, with all its checkpoints in one pack, and a backup of its catalogue."""
    here = Bench(bench.workspace, disk.place / "store", bench.home)
    with lastgood.open(here.workspace, store=here.store, maintenance="off") as workspace:
        for number in range(4):
            (here.workspace / f"part-{number}").write_bytes(os.urandom(60_000))
            (here.workspace / "all").write_bytes(os.urandom(300_000))
            workspace.save(f"state {number}")
        assert writers(workspace._context).engine_of().consolidate()
        assert writers(workspace._context).catalogue.back_up()
        assert len(packs_of(here.store)) == 1
    return here


def _take(disk: SmallDisk, lack: str) -> None:
    if lack == "bytes":
        disk.fill_bytes()
    else:
        disk.fill_inodes()


@LACKS
def test_a_full_disk_is_read_pruned_of_a_mixed_pack_and_saved_to_again(
    crowded: Bench, disk: SmallDisk, lack: str
) -> None:
    """K3, S14: on the command line, nothing but the reserve being free; takes root."""
    expected = tree_of(crowded.workspace)
    _take(disk, lack)
    for verb in (
        "list",
        "show @",
        "show @~1 --files",
        "status",
        "verify",
        "diff",
        "report",
        "workspace list",
    ):
        assert crowded(*verb.split()).code == 0, verb
    aside = crowded.home / "aside"
    assert crowded("restore", "@", "--to", str(aside)).code == 0
    assert tree_of(aside) == expected
    (crowded.workspace / "all").write_bytes(os.urandom(100_000))
    changed = tree_of(crowded.workspace)
    for verb in ("save", "restore @~1 --yes", "delete @~1", "prune --keep 2"):
        answer = crowded(*verb.split())
        assert answer.code == 14, (verb, answer)
        assert f"the disk of {crowded.store}" in answer.err
        assert ("no inode is left" if lack == "inodes" else "no space left") in answer.err
        assert "read-only" not in answer.err
        assert tree_of(crowded.workspace) == changed
    answer = crowded("prune", "--keep", "1", "--now", "--yes")
    assert answer.code == 0, answer
    assert crowded.json("save")["created"]
    assert crowded("verify", "--deep").code == 0


@LACKS
@pytest.mark.parametrize("roll_back", [False, True], ids=["forward", "back"])
def test_a_restore_interrupted_on_a_full_disk_is_finished_or_taken_back(
    crowded: Bench, disk: SmallDisk, injector: Injector, lack: str, *, roll_back: bool
) -> None:
    """T7: takes root; the workspace is on another disk than the store."""
    start = tree_of(crowded.workspace)
    order = {"workspace": str(crowded.workspace), "store": str(crowded.store)}
    target = crowded.json("list")["checkpoints"][2]["id"]
    roots = [crowded.workspace]
    assert injector.run("restore", {**order, "ref": target}, roots=roots, blow=Blow(at=7)).killed
    assert crowded.json("status")["state"] == "interrupted"
    _take(disk, lack)
    assert crowded("prune", "--keep", "1", "--now", "--yes").code == 14
    answer = crowded("recover", *(["--rollback"] if roll_back else []))
    assert answer.code == 0, answer
    assert crowded.json("status")["state"] == "idle"
    if roll_back:
        assert tree_of(crowded.workspace) == start
    else:
        aside = crowded.home / "aside"
        assert crowded("restore", target, "--to", str(aside)).code == 0
        assert tree_of(crowded.workspace) == tree_of(aside)
    disk.empty()
    assert crowded.json("save", "--allow-empty")["created"]


def test_packs_that_the_reserve_has_no_room_to_write_anew_wait_and_are_told(
    bench: Bench, disk: SmallDisk
) -> None:
    """K3: what stays of the only pack is more than the reserve; takes root."""
    here = Bench(bench.workspace, disk.place / "store", bench.home)
    (here.workspace / "much").write_bytes(os.urandom(1_200_000))
    (here.workspace / "all").write_bytes(os.urandom(500_000))
    with lastgood.open(here.workspace, store=here.store, maintenance="off") as workspace:
        workspace.save("first")
        (here.workspace / "all").write_bytes(os.urandom(300_000))
        kept = workspace.save("second").checkpoint
        assert writers(workspace._context).engine_of().consolidate()
        assert writers(workspace._context).catalogue.back_up()
    disk.fill_bytes()
    answer = here("prune", "--keep", "1", "--now", "--yes")
    assert answer.code == 14, answer
    assert "more can be" in answer.err
    assert re.search(r"lastgood .*maintain$", answer.err, re.MULTILINE)
    assert [one["id"] for one in here.json("list")["checkpoints"]] == [kept.id]
    assert here("verify").code == 0
    disk.empty()
    packs = here.store / "objects.git" / "objects" / "pack"
    before = sum(path.stat().st_size for path in packs.iterdir())
    assert here("maintain").code == 0
    assert sum(path.stat().st_size for path in packs.iterdir()) < before - 400_000
    assert here("verify", "--deep").code == 0


def test_a_great_change_on_a_full_disk_is_told_by_status(crowded: Bench, disk: SmallDisk) -> None:
    """What only looks takes no room: the pack of a save like this would not be in memory."""
    for size in (3, 3, 5):
        (crowded.workspace / f"great-{size}-{os.urandom(2).hex()}").write_bytes(os.urandom(size << 20))
    disk.fill_bytes()
    assert crowded.json("status")["drift"]["added"] == 3


def test_a_full_disk_is_looked_at_beside_other_threads_too(bench: Bench, disk: SmallDisk) -> None:
    """What a scan in a process of its own says is not written to the disk then; takes root."""
    for number in range(2_100):
        (bench.workspace / f"file-{number}").touch()
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        with lastgood.open(bench.workspace, store=disk.place / "store", maintenance="off") as workspace:
            workspace.save("one")
            (bench.workspace / "new").touch()
            disk.fill_bytes()
            drift = not_none(workspace.status().drift)
            assert drift.added == 1
            with pytest.raises(NoRoom, match="full"):
                workspace.save("two")
    finally:
        over.set()
        thread.join()


def test_a_restore_to_a_folder_on_a_full_disk_names_that_disk(bench: Bench, disk: SmallDisk) -> None:
    """T11: takes root."""
    (bench.workspace / "file").write_bytes(os.urandom(100_000))
    bench.save("one")
    disk.fill_bytes()
    answer = bench("restore", "@", "--to", str(disk.place / "aside"))
    assert answer.code == 14, answer
    assert f"the disk of {disk.place / 'aside'} is full" in answer.err
    assert "prune" not in answer.err


def test_the_doctor_says_how_little_is_left(crowded: Bench, disk: SmallDisk) -> None:
    """Takes root."""
    disk.fill_bytes(leave=600 << 10)
    (found,) = (one for one in crowded.json("doctor")["findings"] if one["code"] == "space")
    assert re.fullmatch(r"only [1-9]\d\d KiB free where the store is", found["message"])


@LACKS
def test_the_doctor_finds_a_disk_too_full_for_a_save(crowded: Bench, disk: SmallDisk, lack: str) -> None:
    """A note is for what works all the same; takes root."""
    little = crowded.json("doctor")["findings"]
    assert [one["state"] for one in little if one["code"] == "space"] == ["note"]
    _take(disk, lack)
    answer = crowded("doctor", "--json")
    found = [one for one in answer.document["findings"] if one["code"] == "space"]
    assert (answer.code, [one["state"] for one in found]) == (1, ["bad"])
    left = "no further file" if lack == "inodes" else "0 bytes"
    assert found[0]["message"] == f"room for {left} is left where the store is: nothing can be saved"


@pytest.mark.parametrize("full", [False, True], ids=["with room", "full"])
def test_the_doctor_finds_a_store_that_is_only_to_be_read(
    crowded: Bench, disk: SmallDisk, *, full: bool
) -> None:
    """No prune can make room there, and locks are none of its troubles; takes root."""
    if full:
        disk.fill_bytes()
    disk.close()
    found = crowded("doctor", "--json").document["findings"]
    (bad,) = (one for one in found if one["state"] == "bad")
    assert (bad["code"], "read-only" in bad["message"], "prune" in bad["hint"]) == ("space", True, False)
    assert [one["code"] for one in found if one["code"] in {"packs", "privacy"}] == ["privacy", "packs"]


def test_the_doctor_says_so_where_what_counts_as_free_is_not_to_be_had(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A btrfs has set it apart for what it knows of files."""

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    stage.prepare(_three)
    with opened(stage) as workspace:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
        (found,) = (one for one in workspace.examine() if one.code == "space")
    assert found.state == "bad"
    assert re.fullmatch(
        r"no room is left, though [\d,]+ KiB count as free, where the store is: nothing can be saved",
        found.message,
    )


def test_a_first_save_on_a_full_disk_does_not_advise_to_prune(bench: Bench, disk: SmallDisk) -> None:
    """There is nothing yet that could be let go of; takes root."""
    here = Bench(bench.workspace, disk.place / "store", bench.home)
    (here.workspace / "file").write_text("one")
    disk.fill_bytes()
    answer = here("save")
    assert answer.code == 14, answer
    assert "prune" not in answer.err
    assert "keep the store on another disk: LASTGOOD_STORE" in answer.err


def test_the_doctor_tells_of_a_quota_that_is_used_up_not_of_what_the_disk_has(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    stage.prepare(_three)
    with opened(stage) as workspace:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
        (found,) = (one for one in workspace.examine() if one.code == "space")
    assert (found.state, found.message) == (
        "bad",
        "your quota is used up where the store is: nothing can be saved",
    )


def test_an_export_from_a_full_disk_names_a_folder_that_is_there(crowded: Bench, disk: SmallDisk) -> None:
    """T11: the objects are gathered beside the store, in a folder that goes again; takes root."""
    disk.fill_bytes()
    answer = crowded("export", str(crowded.home / "all.tar"))
    assert answer.code == 14, answer
    named = Path(not_none(re.search(r"df -h (.+)$", answer.err, re.MULTILINE))[1])
    assert named.is_relative_to(crowded.store), answer.err
    assert named.is_dir(), answer.err


def test_a_disk_of_small_blocks_ends_no_process_by_a_signal(bench: Bench, tmp_path: Path) -> None:
    """S14: what SQLite shares through memory finds no room there; takes root."""
    with ext4(tmp_path / "disk", block=1024) as disk:
        here = Bench(bench.workspace, disk.place / "store", bench.home)
        (here.workspace / "file").write_bytes(os.urandom(50_000))
        here.save("one")
        for leave in (0, 10_000, 50_000):
            disk.fill_bytes(leave=leave)
            for verb in ("list", "save --allow-empty", "status", "delete @"):
                answer = here(*verb.split())
                assert answer.code in {0, 14}, (leave, verb, answer)
        assert here("prune", "--keep", "1", "--now", "--yes").code == 0
        disk.empty()
        assert here("verify").code == 0


def test_a_workspace_that_is_open_reads_a_disk_that_fills_up_and_is_freed(
    crowded: Bench, disk: SmallDisk
) -> None:
    """S16: opened while nothing could be written, it sees what another process saves afterwards."""
    disk.fill_bytes()
    with lastgood.open(crowded.workspace, store=crowded.store, maintenance="off") as workspace:
        before = [one.id for one in workspace.list()]
        with pytest.raises(NoRoom):
            workspace.delete("@")
        disk.empty()
        saved = crowded.save("--allow-empty")
        assert [one.id for one in workspace.list()] == [saved, *before]
        mine = workspace.save("mine", allow_empty=True).checkpoint.id
        assert crowded.json("list")["checkpoints"][0]["id"] == mine


def test_the_room_that_counts_is_that_of_the_catalogues_folder(tmp_path: Path) -> None:
    """S14: its log is written there. Of a folder with a quota the kernel tells what that leaves, of a file
    in it what the whole disk has; no kernel here has such a quota, so the file is elsewhere. Takes root.
    """
    with tmpfs(tmp_path / "disk") as disk:
        path, elsewhere = disk.place / "catalogue.sqlite3", tmp_path / "elsewhere"
        catalogue = SqliteCatalogue.open(str(path), clock=FakeClock())
        elsewhere.touch()
        subprocess.run(["mount", "--bind", elsewhere, path], check=True)
        try:
            disk.fill_bytes()
            with pytest.raises(NoRoom):
                catalogue.demand_room(beside=0)
        finally:
            subprocess.run(["umount", path], check=True)
            catalogue.close()


@pytest.mark.parametrize("seed", range(PASSES))
def test_random_use_of_a_tmpfs_that_fills_up_loses_nothing(
    injector: Injector, tmp_path: Path, seed: int
) -> None:
    """S14, K3, T7; takes root to mount."""
    with tmpfs(tmp_path / "disk") as disk:
        _pass(injector, tmp_path, disk, seed)


@pytest.mark.skipif(not LONG, reason="a long form alone: the short one is on tmpfs")
@pytest.mark.parametrize("seed", range(100, 100 + PASSES))
def test_random_use_of_an_ext4_that_fills_up_loses_nothing(
    injector: Injector, tmp_path: Path, seed: int
) -> None:
    with ext4(tmp_path / "disk", block=(1024, 4096)[seed % 2]) as disk:
        _pass(injector, tmp_path, disk, seed)


def _pass(injector: Injector, folder: Path, disk: SmallDisk, seed: int) -> None:
    random = Random(seed)
    together = seed % 3 == 1
    workspace = (disk.place if together else folder) / "workspace"
    Campaign(disk=disk, workspace=workspace, aside=folder / "aside", injector=injector, random=random).run(
        LENGTH
    )
    assert git_faults(disk.place / "store") == ""
