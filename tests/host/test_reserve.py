"""The reserve of a store: made where there is plenty, given up where there is nothing (decision 024)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.disks import SmallDisk, tmpfs
from lastgood.errors import NoRoom, Storage
from lastgood.locks import FlockLocks
from lastgood.reserve import StoreReserve


def reserve(store: Path) -> StoreReserve:
    return StoreReserve(os.fsencode(store), collect=lambda: None)


def spares(store: Path) -> list[Path]:
    folder = store / "reserve"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_a_reserve_is_private_takes_room_and_no_more_than_four_mebibytes(tmp_path: Path) -> None:
    """K3, S18."""
    reserve(tmp_path).lay_in()
    made = spares(tmp_path)
    assert len(made) == 16
    assert 256 << 10 <= sum(path.stat().st_size for path in made) <= 4 << 20
    assert all(path.stat().st_blocks * 512 >= path.stat().st_size for path in made)
    assert {path.stat().st_mode & 0o777 for path in made} == {0o600}
    assert (tmp_path / "reserve").stat().st_mode & 0o777 == 0o700


def test_a_reserve_is_completed_and_laid_in_once(tmp_path: Path) -> None:
    """K6: as a process that was killed over it leaves it."""
    (tmp_path / "reserve").mkdir(mode=0o700)
    (tmp_path / "reserve" / "15").touch(mode=0o600)
    reserve(tmp_path).lay_in()
    made = spares(tmp_path)
    assert len({path.stat().st_size for path in made}) == 1
    before = [path.stat().st_mtime_ns for path in made]
    reserve(tmp_path).lay_in()
    assert [path.stat().st_mtime_ns for path in made] == before


def test_where_there_is_room_nothing_is_given_up(tmp_path: Path) -> None:
    reserve(tmp_path).lay_in()
    reserve(tmp_path).make_room()
    assert len(spares(tmp_path)) == 16


def test_where_there_is_no_store_none_is_made(tmp_path: Path) -> None:
    reserve(tmp_path / "none").make_room()
    assert not (tmp_path / "none").exists()


def test_of_a_small_disk_the_reserve_takes_a_part_and_of_a_smaller_one_nothing(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", size=4 << 20) as disk:
        free = disk.free()[0]
        reserve(disk.place).lay_in()
        assert 0 < free - disk.free()[0] <= free // 8 + (64 << 10)
    with tmpfs(tmp_path / "disk", size=1 << 20) as disk:
        reserve(disk.place).lay_in()
        assert not spares(disk.place)
    with tmpfs(tmp_path / "disk", inodes=60) as disk:
        reserve(disk.place).lay_in()
        assert not spares(disk.place)


@pytest.mark.parametrize("lack", ["bytes", "inodes"])
def test_on_a_full_disk_the_reserve_is_given_up(tmp_path: Path, lack: str) -> None:
    """K3."""
    with tmpfs(tmp_path / "disk") as disk:
        reserve(disk.place).lay_in()
        _fill(disk, lack)
        reserve(disk.place).make_room()
        assert not spares(disk.place)
        assert disk.free() > (256 << 10, 15)


def test_without_a_reserve_what_can_be_made_again_goes(tmp_path: Path) -> None:
    """K6: and what killed processes left, but no journal and no lock."""
    with tmpfs(tmp_path / "disk") as disk:
        folder = disk.place / "workspaces" / "key"
        folder.mkdir(parents=True)
        for name in ("scan.records", "scan.details.1", "scan.lock", "lock", "restore.journal"):
            (folder / name).write_bytes(bytes(5000))
        _fill(disk, "bytes")
        gone: list[str] = []
        StoreReserve(os.fsencode(disk.place), collect=lambda: gone.append("left-overs")).make_room()
        assert gone
        assert sorted(path.name for path in folder.iterdir()) == ["lock", "restore.journal", "scan.lock"]


def test_a_lock_that_finds_no_inode_takes_a_file_of_the_reserve(tmp_path: Path) -> None:
    """S16: a proof needs the lock of maintenance, which nobody may have taken before."""
    with tmpfs(tmp_path / "disk") as disk:
        reserve(disk.place).lay_in()
        locks = FlockLocks(os.fsencode(disk.place))
        with locks.share_store(wait=0):  # a save was there
            pass
        _fill(disk, "inodes")
        with locks.maintenance(wait=0):
            assert (disk.place / "locks" / "maintenance.lock").stat().st_size == 0
            with pytest.raises(Storage), locks.recovery("none", wait=0):
                pass
        assert len(spares(disk.place)) == 15


def test_a_lock_without_room_or_reserve_says_what_is_lacking(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk") as disk:
        (disk.place / "locks").mkdir()
        packs = disk.place / "objects.git" / "objects" / "pack"
        packs.mkdir(parents=True)
        (packs / "pack-of-a-save.pack").touch()
        _fill(disk, "inodes")
        with pytest.raises(NoRoom, match="no inode is left") as caught:
            FlockLocks(os.fsencode(disk.place)).maintenance(wait=0).__enter__()
    assert caught.value.exit_code == 14
    assert "lastgood prune --now" in caught.value.hint
    assert f"df -i {disk.place}" in caught.value.hint


def _fill(disk: SmallDisk, lack: str) -> None:
    if lack == "bytes":
        disk.fill_bytes()
    else:
        disk.fill_inodes()
