"""Names are not read again where a directory's own times prove them (rule S1, decision 021)."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lastgood.host import SystemClock
from lastgood.model.tree import DIRECTORY, StoredTree, TreeId, compare
from lastgood.paths import join
from lastgood.scanner import NAMES, SEEN, read, states
from lastgood.scanner import scan as mounts
from lastgood.scanner.read import Lister, Listing, proven_names
from lastgood.scanner.scanned import WorkspaceScan
from lastgood.snapshot import RememberedFiles, ScannedFiles
from lastgood.testing.clock import FakeClock
from lastgood.trees import Files
from lastgood.worktree import Scan
from tools.desk import Desk
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.scanner import Record, Seen


SECOND = 1_000_000_000


class Folder:
    """A directory, listed beside a clock that says how long ago it changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY)
        self.device: int | None = os.fstat(self.descriptor).st_dev

    def listed(self, *, age: float, known: Listing | None = None) -> Listing:
        """List it as if so many seconds had passed since its last change."""
        seen = os.fstat(self.descriptor)
        newest = max(seen.st_mtime_ns, seen.st_ctime_ns)
        clock = FakeClock(start=newest + round(age * SECOND))
        record = None if known is None else recorded(known)
        return Lister(device=self.device, clock=clock).list(self.descriptor, known=record)

    def close(self) -> None:
        os.close(self.descriptor)


def recorded(listing: Listing) -> Record:
    seen: Seen = listing.seen
    return (listing.signature, b"", b"", 0, b"", b"", 0, 0, 0, (), (), (), listing.names, seen, 0, 0)


class Reads:
    """Counts the directories whose names are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._list = os.listdir
        monkeypatch.setattr(os, "listdir", self)

    def __call__(self, folder: int) -> list[str]:
        self.count += 1
        return self._list(folder)


def test_a_name_that_came_after_a_directory_was_opened_is_listed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    try:
        (tmp_path / "late").write_text("btrfs tells of no such name before it is rewound")

        assert folder.listed(age=3600).names == b"late"
        (tmp_path / "later").write_text("and of this one neither")
        found = not_none(proven_names(folder.descriptor, folder.device))[0]
        assert sorted(found.split(b"\0")) == [b"late", b"later"]  # in the order of the file system
    finally:
        folder.close()


def plant(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay out some directories, on a file system of which we believe that it keeps their times."""
    device = os.stat(desk.root).st_dev
    monkeypatch.setattr(mounts, "proving_device", lambda _root: device)
    monkeypatch.setattr(mounts, "_SEVERAL_DIRECTORIES", 0)
    for number in range(20):
        desk.write(f"d{number % 5}/f{number}", str(number))
    rest()


def rest() -> None:
    """Wait until nothing is young any more, however coarse the file system's clock."""
    time.sleep(0.12)


def test_names_that_are_proven_are_not_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(desk, monkeypatch)
    first = desk.save()
    desk.write("d1/f1", "other")  # in place: the directory does not change by that
    reads = Reads(monkeypatch)
    again = desk.save()
    assert reads.count == 0
    assert again.result.tree != first.result.tree
    assert desk.held(again)[b"d1/f1"][2] == b"other"


def test_whatever_comes_goes_or_changes_its_name_is_noticed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(desk, monkeypatch)
    desk.save()
    desk.write("d0/new")
    desk.write("d1/aside", "replaced")
    os.rename(desk.root / "d1" / "aside", desk.root / "d1" / "f1")
    os.unlink(desk.root / "d2" / "f2")
    os.rename(desk.root / "d3" / "f3", desk.root / "d3" / "f4")
    os.link(desk.root / "d3" / "f8", desk.root / "d4" / "linked")
    os.rename(desk.root / "d4" / "f4", desk.root / "f4")
    scan = desk.save()
    names = desk.names(scan)
    assert {"d0/new", "d3/f4", "d4/linked", "f4"} < names
    assert not {"d2/f2", "d3/f3", "d4/f4", "d1/aside"} & names
    assert desk.held(scan)[b"d1/f1"][2] == b"replaced"
    desk.forget()
    assert desk.save().result == scan.result


def test_directories_that_take_each_others_names_are_told_apart(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(desk, monkeypatch)
    desk.save()
    os.rename(desk.root / "d0", desk.root / "aside")
    os.rename(desk.root / "d1", desk.root / "d0")
    os.rename(desk.root / "aside", desk.root / "d1")
    scan = desk.save()
    assert desk.held(scan)[b"d0/f1"][2] == b"1"
    assert "d1/f1" not in desk.names(scan)


def test_a_young_directory_proves_nothing(tmp_path: Path) -> None:
    """S1: what comes within the same tick of the clock leaves no trace in its times."""
    (tmp_path / "a").touch()
    folder = Folder(tmp_path)
    assert folder.listed(age=0.0).seen == ()
    assert folder.listed(age=0.04).seen == ()
    assert folder.listed(age=-3600).seen == ()
    assert folder.listed(age=2.1).seen
    folder.close()


def test_whole_seconds_prove_nothing_for_two_of_them(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    now = SystemClock().now()
    whole = (now // SECOND + 3600) * SECOND
    os.utime(tmp_path, ns=(whole, whole))
    folder = Folder(tmp_path)
    assert folder.listed(age=1.9).seen == ()
    assert folder.listed(age=2.1).seen
    folder.close()


def test_on_other_devices_names_are_always_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()
    folder = Folder(tmp_path)
    proven = folder.listed(age=10)
    reads = Reads(monkeypatch)
    assert folder.listed(age=10, known=proven).names == b"a"
    assert reads.count == 0
    for device in (None, (folder.device or 0) + 1):
        folder.device = device
        assert folder.listed(age=10, known=proven).seen == ()
    assert reads.count == 2
    folder.close()


def test_a_name_that_vanishes_after_it_was_proven_is_absent(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    folder = Folder(tmp_path)
    proven = folder.listed(age=10)
    proven.names += b"\0c"  # as if it went between the two questions
    listing = folder.listed(age=10, known=proven)
    assert sorted(listing.names.split(b"\0")) == [b"a", b"b"]
    assert listing.seen != ()
    folder.close()


def test_an_empty_directory_has_no_names(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    first = folder.listed(age=10)
    again = folder.listed(age=10, known=first)
    assert (first.names, list(first.stats)) == (b"", [])
    assert again.fits(recorded(first))
    folder.close()


def test_what_came_and_went_leaves_names_to_be_proven_anew(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(desk, monkeypatch)
    desk.save()
    for number in range(5):
        os.unlink(desk.write(f"d{number}/passing"))
    rest()
    desk.save()
    reads = Reads(monkeypatch)
    desk.save()
    assert reads.count == 0


def test_one_directory_to_prove_is_not_worth_a_new_cache(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(desk, monkeypatch)
    for number in range(20):
        desk.write(f"more{number}/f")
    rest()
    desk.save()
    os.unlink(desk.write("d1/passing"))
    rest()
    scan = desk.scan()
    assert isinstance(scan, WorkspaceScan)
    assert not scan.worth_keeping
    record = scan.snapshot.records[b"d1"]
    assert (record[NAMES].count(b"f"), len(record[SEEN])) == (4, 5)


def test_times_prove_names_on_known_file_systems_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    device = os.fstat(descriptor).st_dev
    for number, proving in ((0xEF53, device), (0x65735546, None), (None, None)):
        monkeypatch.setattr(read, "file_system_number", lambda _root, number=number: number)
        assert read.proving_device(descriptor) == proving
    os.close(descriptor)


@pytest.mark.parametrize("files", [0, 60, 61, 130])
def test_a_sheet_says_what_stat_does(tmp_path: Path, files: int) -> None:
    """S1: so a directory that one has signed is known again by the other."""
    (tmp_path / "folder").mkdir(mode=0o2750)
    (tmp_path / "old").touch()
    os.utime(tmp_path / "old", ns=(0, -1_500_000_001))
    os.mkfifo(tmp_path / "pipe")
    os.symlink("nowhere", tmp_path / "link")
    for number in range(files):
        (tmp_path / f"file{number}").write_text("x" * number)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    names = [os.fsencode(name) for name in os.listdir(descriptor)]
    said, asked = states.Sheet().ask(descriptor, b"\0".join(names)), states.ask(descriptor, names)
    assert said == states.packed(asked)
    assert states.unpacked(said) == asked
    assert states.Sheet().ask(descriptor, b"\0".join([*names, b"gone"])) is None
    os.close(descriptor)


@pytest.mark.parametrize("files", [1, 65])
def test_a_sheet_tells_of_files_with_several_links(tmp_path: Path, files: int) -> None:
    (tmp_path / "folder" / "below").mkdir(parents=True)
    for number in range(files):
        (tmp_path / f"file{number}").touch()
    descriptor, sheet = os.open(tmp_path, os.O_RDONLY), states.Sheet()
    names = b"\0".join([b"folder", *(b"file%d" % number for number in range(files))])
    assert sheet.ask(descriptor, names)
    before = sheet.has_links
    os.link(tmp_path / "file0", tmp_path / "folder" / "alias")
    assert sheet.ask(descriptor, names)
    assert (before, sheet.has_links) == (False, True)
    os.close(descriptor)


def test_of_the_kernels_own_files_times_prove_nothing() -> None:
    descriptor = os.open("/proc", os.O_RDONLY)
    assert read.proving_device(descriptor) is None
    os.close(descriptor)


def test_what_only_a_guard_had_to_hold_is_a_gap_again_beside_a_change(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7: although the file itself is as it was."""
    plant(desk, monkeypatch)
    desk.write("d1/large", b"x" * 5000)
    rest()
    before = desk.save(max_file_size=1000).result.tree
    guard = desk.save(max_file_size=1000, forced=(b"d1/large",))
    assert "d1/large" in desk.names(guard)
    desk.previous = before
    desk.write("d1/f1", "other")
    assert desk.gaps(desk.save(max_file_size=1000)) == {"d1/large": "too-large"}


def test_what_stays_captured_although_ignored_stays_private_beside_a_change(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5."""
    plant(desk, monkeypatch)
    desk.write("d1/.gitignore", "*.log\n")
    desk.write("d1/kept.log")
    rest()
    first = desk.save(include=("kept.log",))
    desk.write("d1/f1", "other")
    again = desk.save(include=("kept.log",))
    assert first.result.private == again.result.private == (b"d1/kept.log",)
    assert "d1/kept.log" in desk.names(again)


# What a scan remembers of the last one: a directory by its identity, or nothing.


def plant_kinds(desk: Desk) -> None:
    desk.write(".gitignore", "*.log\nbuild/\n")
    for number in range(12):
        desk.write(f"d{number % 3}/e{number % 2}/f{number}", f"content {number}")
    for name in ("x.log", "build/x", "d1/build/x/kept", "d1/x.log"):
        desk.write(name)
    os.chmod(desk.root / "d0" / "e0" / "f0", 0o600)
    os.chmod(desk.root / "d2", 0o700)
    os.symlink("d1", desk.root / "link")
    os.mkdir(desk.root / "empty")


def directories(desk: Desk, scan: Scan) -> list[tuple[bytes, TreeId]]:
    found = [(b"", scan.result.tree)]
    for path, tree in found:  # grows
        found += [
            (join(path, entry.name), entry.tree_id)
            for entry in desk.engine.directory(tree)
            if entry.kind == DIRECTORY
        ]
    return found


def change(desk: Desk) -> None:
    desk.write("d0/e0/f0", "changed")
    desk.write("d2/new/file")
    os.unlink(desk.root / "d1" / "e1" / "f1")
    os.rmdir(desk.root / "empty")


def test_what_the_last_scan_found_is_remembered_as_the_engine_holds_it(desk: Desk) -> None:
    plant_kinds(desk)
    first = desk.save(forced=(b"d1/x.log", b"d1/build/x"))
    change(desk)
    second = desk.scan()
    places = directories(desk, first)
    assert {b"", b"d0/e0", b"d1/build/x", b"empty"} <= {path for path, _ in places}
    for path, tree in places:
        assert tuple(second.remembered(path, tree) or ("nothing",)) == (
            desk.engine.directory(tree) or ("nothing",)
        )


def test_nothing_is_remembered_of_another_identity(desk: Desk) -> None:
    plant_kinds(desk)
    desk.save()
    change(desk)
    second = desk.scan()
    for path, tree in directories(desk, second):
        if second.remembered(path, tree) is not None:
            assert path in {b"d0/e1", b"d1/e0", b"d2/e0", b"d2/e1"}
    first = TreeId(tree=b"\1" * 20)
    assert second.remembered(b"", first) is None
    assert second.remembered(b"nowhere", second.result.tree) is None


def test_nothing_is_remembered_when_the_details_are_damaged(desk: Desk) -> None:
    """K6."""
    plant_kinds(desk)
    rest()
    first = desk.save()
    second = desk.scan()
    for details in desk.cache.glob("scan.details.*"):
        details.write_bytes(bytes(details.stat().st_size))
    assert second.remembered(b"", first.result.tree) is None


def test_changes_are_the_same_whether_remembered_or_read(desk: Desk) -> None:
    plant_kinds(desk)
    first = desk.save()
    change(desk)
    second = desk.scan()
    held = Files(first.result.tree, desk.engine)
    now = ScannedFiles(second)
    remembered = list(compare(RememberedFiles(held, second), now))
    assert remembered == list(compare(StoredTree(held.root, desk.engine.directory), now))
    assert len(remembered) == 4


@pytest.mark.parametrize("entries", [1, 64, 65, 150])
def test_which_entries_differ_is_told_by_their_places(entries: int) -> None:
    """S1: by each number that is said of them."""
    chance = random.Random(entries)
    before = [
        (0o100644, chance.randrange(1 << 40), chance.randrange(1 << 60), chance.randrange(1 << 60), one)
        for one in range(entries)
    ]
    assert states.changed(states.packed(before), states.packed(before)) == {}
    for number in range(5):
        now = list(before)
        places = sorted(chance.sample(range(entries), min(entries, 3)))
        for place in places:
            one = list(now[place])
            one[number] ^= 1 << chance.randrange(16)
            now[place] = (one[0], one[1], one[2], one[3], one[4])
        told = states.packed(now)
        assert states.changed(states.packed(before), told) == {place: now[place] for place in places}
        assert [states.one_of(told, place) for place in range(entries)] == states.unpacked(told)


@pytest.mark.parametrize("many", [1, 63, 64, 65, 200])
def test_what_is_said_anew_of_some_entries_takes_the_place_of_what_was_said(many: int) -> None:
    stats: list[tuple[int, int, int, int, int] | int] = [
        0o40755 if place % 3 == 2 else (0o100644, place, 10**18 + place, 2 * 10**18 + place, place + 7)
        for place in range(many)
    ]
    told = {place: (0o100755, 1 << 40, -1 - place, 3, 1 << 60) for place in {0, many // 2, many - 1}}

    patched = states.patched(states.packed(stats), told)

    assert patched == states.packed([told.get(place, stat) for place, stat in enumerate(stats)])
