"""Whole versions, young files and time budgets, with a clock that tests move (rules S8, S9)."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lastgood import scanner
from lastgood.scanner import cache, parallel, read
from lastgood.scanner import scan as scan_module
from lastgood.scanner.read import Lister, Listing, open_file
from lastgood.scanner.walk import Walk
from lastgood.scanner.watch import DirectoryWatch
from lastgood.testing.clock import FakeClock
from tools.desk import Desk
from tools.living import descriptors
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.scanner import Record

SECOND = 1_000_000_000


def nowhere(_root: int) -> None:
    """Say that no device stamps each change with a time of its own."""


def here(root: int) -> int:
    """Say that the workspace's device stamps each change with a time of its own."""
    return os.fstat(root).st_dev


def just_after(path: Path) -> FakeClock:
    """Return a clock that stands a millisecond after a path's last change."""
    return FakeClock(start=path.lstat().st_ctime_ns + 1_000_000)


def waiting_desk(arena: Path) -> tuple[Desk, list[float]]:
    """Return a desk by whose clock the file "young" changed a millisecond ago, and its waits in seconds.

    It lies in memory, where there are leases, and a mapping keeps its file open.
    """
    desk, waits = Desk(Path(tempfile.mkdtemp(dir=arena))), list[float]()
    desk.write("young")
    desk.clock = just_after(desk.root / "young")
    desk.exact_on = here
    desk.sleep = waits.append
    return desk, waits


class Hands:
    """Changes a file at the n-th opening of it, leaving size and times as they were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, changes: dict[int, bytes | None]) -> None:
        self._changes = changes
        self._count = 0
        self._open = open_file
        monkeypatch.setattr(read, "open_file", self)

    def __call__(self, name: bytes, *, directory: int) -> int:
        if name == b"young":
            self._count += 1
            if self._count in self._changes:
                self._change(name, directory, self._changes[self._count])
        return self._open(name, directory=directory)

    @staticmethod
    def _change(name: bytes, directory: int, content: bytes | None) -> None:
        if content is None:
            os.unlink(name, dir_fd=directory)
            return
        descriptor = os.open(name, os.O_WRONLY, dir_fd=directory)
        os.write(descriptor, content)
        os.close(descriptor)


class Frozen:
    """Makes stat say the same times for everything, as a clock with a coarse tick does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.at = at
        real = scanner.evidence

        def evidence(seen: os.stat_result) -> tuple[int, int, int, int, int]:
            mode, size, _, _, inode = real(seen)
            return mode, size, self.at, self.at, inode

        for module in ("read", "states"):
            monkeypatch.setattr(f"lastgood.scanner.{module}.evidence", evidence)
        monkeypatch.setattr("lastgood.scanner.states.Sheet.ask", lambda *_asked: None)


def young_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Desk, FakeClock, Frozen]:
    clock = FakeClock()
    desk = Desk(tmp_path, clock=clock)
    desk.sleep = clock.advance
    desk.exact_on = nowhere
    return desk, clock, Frozen(monkeypatch, clock.now() - 1_000_001)


def test_a_change_within_the_tick_of_its_reading_is_caught_before_the_scan_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: the first reading saw a half."""
    desk, _, _ = young_desk(tmp_path, monkeypatch)
    desk.write("young", "oldold")
    Hands(monkeypatch, {2: b"newnew"})
    scan = desk.save()
    assert desk.held(scan)[b"young"][2] == b"newnew"


def test_a_change_within_the_tick_after_the_scan_is_caught_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1."""
    desk, clock, _ = young_desk(tmp_path, monkeypatch)
    desk.write("young", "oldold")
    desk.save()
    desk.write("young", "newnew")
    clock.advance(5)
    assert desk.held(desk.save())[b"young"][2] == b"newnew"


def test_a_file_that_has_grown_old_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, clock, _ = young_desk(tmp_path, monkeypatch)
    clock.advance(5)
    desk.write("young", "oldold")
    desk.save()
    desk.write("young", "newnew")  # which only a clock that stands still makes possible
    assert desk.held(desk.save())[b"young"][2] == b"oldold"


def test_times_in_the_future_are_never_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S15."""
    desk, clock, frozen = young_desk(tmp_path, monkeypatch)
    frozen.at = clock.now() + 3600 * SECOND + 1
    desk.write("young", "oldold")
    desk.save()
    desk.write("young", "newnew")
    clock.advance(60)
    assert desk.held(desk.save())[b"young"][2] == b"newnew"


def test_whole_seconds_are_doubted_for_two_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, clock, frozen = young_desk(tmp_path, monkeypatch)
    frozen.at = clock.now() // SECOND * SECOND
    clock.advance(1.5)
    desk.write("young", "oldold")
    desk.save()
    desk.write("young", "newnew")
    clock.advance(60)
    assert desk.held(desk.save())[b"young"][2] == b"newnew"


def test_a_clock_set_back_makes_everything_young(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S15."""
    desk, clock, _ = young_desk(tmp_path, monkeypatch)
    clock.jump(-86400)
    desk.write("young", "oldold")
    desk.save()
    desk.write("young", "newnew")
    assert desk.held(desk.save())[b"young"][2] == b"newnew"


def test_what_will_not_hold_still_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S8."""
    desk, _, _ = young_desk(tmp_path, monkeypatch)
    desk.write("young", "000000")
    desk.write("other")
    Hands(monkeypatch, {turn: b"%06d" % turn for turn in range(1, 50)})
    scan = desk.save()
    assert desk.gaps(scan) == {"young": "unstable"}
    assert desk.names(scan) == {"other"}
    assert desk.gaps(desk.save()) == {"young": "unstable"}


def test_a_gap_of_one_moment_is_captured_at_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S8: although stat says the same."""
    desk, _, _ = young_desk(tmp_path, monkeypatch)
    desk.write("young", "000000")
    with monkeypatch.context() as moment:
        Hands(moment, {turn: b"%06d" % turn for turn in range(1, 50)})
        assert desk.gaps(desk.save()) == {"young": "unstable"}
    assert desk.names(desk.save()) == {"young"}


def test_a_file_that_vanishes_while_it_is_settled_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, _, _ = young_desk(tmp_path, monkeypatch)
    desk.write("young")
    desk.write("zebra")
    Hands(monkeypatch, {2: None})
    scan = desk.save()
    assert (desk.gaps(scan), desk.names(scan)) == ({}, {"zebra"})


class Fleeting(Hands):
    """Changes a file whenever it is opened, and deletes it when it is opened for the last time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, last: int = 0) -> None:
        super().__init__(monkeypatch, {turn: b"%06d" % turn for turn in range(1, 50)})
        self._last = last

    @property
    def opened(self) -> int:
        return self._count

    def __call__(self, name: bytes, *, directory: int) -> int:
        descriptor = super().__call__(name, directory=directory)
        if name == b"young" and self._count == self._last:
            os.unlink(name, dir_fd=directory)
        return descriptor


def test_a_file_that_would_not_hold_still_and_is_gone_at_the_end_is_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: a temporary file is missed by nobody."""
    desk, _, _ = young_desk(tmp_path, monkeypatch)
    desk.write("young", "000000")
    with monkeypatch.context() as moment:
        counted = Fleeting(moment)
        assert desk.gaps(desk.save()) == {"young": "unstable"}
    Fleeting(monkeypatch, last=counted.opened)
    scan = desk.save()
    assert not (desk.root / "young").exists()
    assert (desk.gaps(scan), desk.names(scan)) == ({}, set())


@pytest.mark.parametrize("way", ["moved", "replaced", "deleted"])
def test_a_young_file_whose_folder_was_moved_is_a_gap_and_none_if_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """S7, S8: moved, it is there still, and a restore must not take it for deleted."""
    desk, clock, _ = young_desk(tmp_path, monkeypatch)
    desk.write("d/young", "x")
    before = descriptors()

    def meanwhile(seconds: float) -> None:
        clock.advance(seconds)
        if way == "deleted":
            shutil.rmtree(desk.root / "d", ignore_errors=True)
        elif not (desk.root / "e").exists():
            (desk.root / "d").rename(desk.root / "e")
            if way == "replaced":
                (desk.root / "d").mkdir()

    desk.sleep = meanwhile
    assert desk.gaps(desk.save()) == ({} if way == "deleted" else {"d/young": "unstable"})
    assert descriptors() == before


class Meanwhile:
    """Does something after the n-th listing of a directory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, then: dict[int, Callable[[], object]]) -> None:
        self.count = 0
        self._then = then
        self._list = os.listdir
        monkeypatch.setattr(os, "listdir", self)

    def __call__(self, folder: int) -> list[str]:
        names = self._list(folder)
        self.count += 1
        self._then.get(self.count, int)()
        return names


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("way", ["moved", "moved twice", "moved too often", "moved out", "deleted"])
def test_a_folder_that_is_moved_to_where_a_save_has_been_is_saved_there_or_a_gap(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, *, known: bool
) -> None:
    """S7, S8: and one that was deleted, as temporary ones are, is no gap, and is not looked for again."""
    desk.write("a/b/file")
    desk.write("z/file")
    if known:
        desk.save()
    folder, there = desk.root / "z", desk.root / "a" / "z"
    leave: dict[str, Callable[[], object]] = {
        "moved": lambda: folder.rename(there),
        "moved twice": lambda: folder.rename(there),
        "moved too often": lambda: folder.rename(there),
        "moved out": lambda: folder.rename(tmp_path / "z"),
        "deleted": lambda: shutil.rmtree(folder),
    }
    with monkeypatch.context() as moment:
        # The top, "a" and "a/b" are listed, and by the second look the same.
        then = {3: leave[way]}
        if way in {"moved twice", "moved too often"}:
            then[6] = lambda: there.rename(desk.root / "y")
        if way == "moved too often":
            moment.setattr(scan_module, "_MOST_AGAIN", 1)
        listed = Meanwhile(moment, then)
        scan = desk.save()

    assert desk.gaps(scan) == ({"a/z": "unstable"} if way == "moved too often" else {})
    came = {"moved": {"a/z", "a/z/file"}, "moved twice": {"y", "y/file"}}
    assert desk.names(scan) == {"a", "a/b", "a/b/file"} | came.get(way, set())
    assert (listed.count >= 6) == (way in {"moved", "moved twice", "moved too often"})


@pytest.mark.parametrize("looking", ["few", "many", "twin", "watched"])
def test_a_folder_that_is_moved_before_a_save_comes_to_where_it_was_is_saved_where_it_is(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, looking: str
) -> None:
    """S8: no listing ever named it."""
    for name in ("a/one", "a/moves/file", "b/one", "b/moves/file"):
        desk.write(name)
    # Of many directories times prove the names; where two processes look they begin with the last.
    monkeypatch.setattr(scan_module, "_SEVERAL_DIRECTORIES", 1_000 if looking == "few" else 0)
    monkeypatch.setattr(cache, "WORTHWHILE_FILES", 1 if looking == "twin" else 1_000)
    monkeypatch.setattr(parallel, "RESIDENT_BYTES_A_FILE", 1 << 40)
    monkeypatch.setattr(parallel, "_SHARES", 1)
    time.sleep(0.06)
    desk.save()
    desk.save()
    if looking == "watched":  # which looks at everything once
        desk.scanner = desk.local(watch=DirectoryWatch(os.fsencode(desk.store)))
    there, folder = (desk.root / name for name in ("ab" if looking != "twin" else "ba"))
    inode = there.stat().st_ino
    states_of, listing = Lister.states_of, Lister.list

    def meanwhile(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == inode and (folder / "moves").exists():
            (folder / "moves").rename(there / "came")

    def asked(lister: Lister, descriptor: int, record: Record, **named: Any) -> bytes | None:
        states = states_of(lister, descriptor, record, **named)
        if states is not None:
            meanwhile(descriptor)
        return states

    def listed(lister: Lister, descriptor: int, **named: Any) -> Listing:
        found = listing(lister, descriptor, **named)
        meanwhile(descriptor)
        return found

    monkeypatch.setattr(Lister, "states_of", asked)
    monkeypatch.setattr(Lister, "list", listed)
    saved = desk.save()
    assert (there / "came").exists()
    assert f"{there.name}/came/file" in desk.names(saved)
    assert desk.gaps(saved) == {}


def test_a_folder_that_was_moved_before_a_save_is_not_looked_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/one", "b/moves/file", ".gitignore"):
        desk.write(name, "/ignored/\n")
    desk.save()
    (desk.root / "b" / "moves").rename(desk.root / "a" / "came")
    walks: list[bytes] = []
    run = Walk.run

    def counted(walk: Walk, root: int, *, token: bytes) -> None:
        walks.append(token)
        run(walk, root, token=token)

    monkeypatch.setattr(Walk, "run", counted)
    assert "a/came/file" in desk.names(desk.save())
    assert len(walks) == 1


def test_a_folder_that_takes_the_place_of_one_that_a_save_has_seen_is_saved_there(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8."""
    desk.write("a/file")
    (desk.root / "a" / "z").mkdir()
    desk.write("z/file")
    with monkeypatch.context() as moment:
        # The top, "a" and "a/z" are listed.
        Meanwhile(moment, {3: lambda: (desk.root / "z").rename(desk.root / "a" / "z")})
        scan = desk.save()
    assert desk.gaps(scan) == {}
    assert desk.names(scan) == {"a", "a/file", "a/z", "a/z/file"}


@pytest.mark.parametrize("place", ["file", "folder"])
def test_what_is_behind_a_stale_handle_is_no_deletion(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """S7: a network's file system, or an overlay, says so of what is there under another handle."""
    desk.write("file", "x")
    desk.write("folder/inside", "x")
    real = os.open

    def stale(path: object, *words: Any, **more: Any) -> int:
        if path == place.encode():
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real(path, *words, **more)  # type: ignore[arg-type] # whatever it was given

    monkeypatch.setattr(os, "open", stale)
    assert desk.gaps(desk.save()) == {place: "unreadable"}


def test_a_file_that_vanishes_before_it_is_read_is_absent(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write("young")
    Hands(monkeypatch, {1: None})
    scan = desk.save()
    assert (desk.gaps(scan), desk.names(scan)) == ({}, set())


def test_an_input_error_is_a_gap(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7."""
    desk.write("young")
    desk.write("other")

    def broken(name: bytes, *, directory: int) -> int:
        if name == b"young":
            raise OSError(5, "Input/output error")
        return open_file(name, directory=directory)

    with monkeypatch.context() as moment:
        moment.setattr(read, "open_file", broken)
        scan = desk.save()
    assert (desk.gaps(scan), desk.names(scan)) == ({"young": "unreadable"}, {"other"})
    assert desk.names(desk.save()) == {"young", "other"}


def test_past_its_budget_a_scan_is_partial_and_the_rest_are_gaps(tmp_path: Path) -> None:
    """S9."""
    clock = FakeClock(step=0.01)
    desk = Desk(tmp_path, clock=clock)
    for number in range(20):
        desk.write(f"d{number:02}/sub/file")
    desk.write("a")
    scan = desk.save(budget=0.2)
    assert scan.result.partial
    gaps = desk.gaps(scan)
    assert set(gaps.values()) == {"budget"}
    assert not {name.split("/")[0] for name in gaps} & {
        name.split("/")[0] for name in desk.names(scan) if name.endswith("file")
    }
    whole = desk.save()
    assert not whole.result.partial
    assert whole.result.files == 21
    assert whole.result.gaps == ()


def test_a_budget_that_suffices_leaves_no_trace(desk: Desk) -> None:
    """S9."""
    desk.write("a/b")
    scan = desk.save(budget=60.0)
    assert (scan.result.partial, scan.result.gaps) == (False, ())


def test_stamps_are_what_stat_says(desk: Desk) -> None:
    path = desk.write("sub/a")
    os.symlink("a", desk.root / "sub" / "link")
    for scan in (desk.save(), desk.save()):
        seen = os.lstat(path)
        stamp = not_none(scan.stamp(b"sub/a"))
        assert (stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode) == (
            seen.st_size,
            seen.st_mtime_ns,
            seen.st_ctime_ns,
            seen.st_ino,
        )
        assert scan.stamp(b"sub/link") is not None
        assert scan.stamp(b"sub") is None
        assert scan.stamp(b"sub/none") is None
        assert scan.stamp(b"none/none") is None


# --- Where file systems give each change a time of its own ---


def test_a_young_file_is_not_waited_for_where_times_prove_its_version(arena: Path) -> None:
    """S8."""
    desk, waits = waiting_desk(arena)
    assert desk.held(desk.save())[b"young"][2] == b"content"
    assert waits == []


def test_a_young_link_is_not_waited_for_where_times_prove_it(arena: Path) -> None:
    """S8."""
    desk, waits = waiting_desk(arena)
    (desk.root / "young").unlink()
    (desk.root / "young").symlink_to("target")
    desk.clock = just_after(desk.root / "young")
    assert desk.held(desk.save())[b"young"][2] == b"target"
    assert waits == []


def test_a_young_file_that_somebody_has_open_for_writing_is_waited_for(arena: Path) -> None:
    """S8: a write stamps the file first and copies then."""
    desk, waits = waiting_desk(arena)
    with open(desk.root / "young", "r+b"):
        desk.save()
    assert waits != []


def test_a_young_file_that_is_mapped_for_writing_is_waited_for(arena: Path) -> None:
    """S8."""
    desk, waits = waiting_desk(arena)
    with open(desk.root / "young", "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    with mapped:
        desk.save()
    assert waits != []


def test_a_young_file_on_another_device_is_waited_for(arena: Path) -> None:
    """S8."""
    desk, waits = waiting_desk(arena)
    desk.exact_on = lambda root: here(root) + 1
    desk.save()
    assert waits != []


def test_whole_seconds_prove_no_version(arena: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S8: small inodes have no room for parts of a second."""
    desk, waits = waiting_desk(arena)
    real = os.fstat

    def whole_seconds(descriptor: int) -> SimpleNamespace:
        seen = real(descriptor)
        said = {name: getattr(seen, name) for name in dir(seen) if name.startswith("st_")}
        return SimpleNamespace(**said | {"st_ctime_ns": int(seen.st_ctime) * SECOND})

    monkeypatch.setattr(os, "fstat", whole_seconds)
    desk.save()
    assert waits != []


def test_a_writer_is_not_held_up_by_the_question_whether_somebody_writes(arena: Path) -> None:
    desk, _ = waiting_desk(arena)
    desk.save()
    descriptor = os.open(desk.root / "young", os.O_WRONLY | os.O_NONBLOCK)  # is refused while a lease is held
    os.close(descriptor)


@pytest.mark.parametrize(
    ("release", "exact"), [("6.12.9", False), ("6.13.0-rc1", True), ("6.18.44-fc", True), ("7", False)]
)
def test_times_are_exact_from_a_kernel_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, release: str, exact: bool
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(sysname="Linux", release=release))
    monkeypatch.setattr(read, "file_system", lambda _directory: b"ext4")
    directory = os.open(tmp_path, os.O_RDONLY)
    assert (read.multigrain_device(directory) is not None) == exact
    os.close(directory)


@pytest.mark.parametrize("mounted", [b"ext3", b"tmpfs", b"overlay", b"nfs4", b"fuse.sshfs", b""])
def test_times_are_exact_on_file_systems_that_are_known_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: bytes
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(sysname="Linux", release="6.18.0"))
    monkeypatch.setattr(read, "file_system", lambda _directory: mounted)
    directory = os.open(tmp_path, os.O_RDONLY)
    assert read.multigrain_device(directory) is None
    os.close(directory)


def test_of_what_a_mount_is_its_file_system_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: another mount is asked for itself."""
    monkeypatch.setattr(read, "_systems", {})
    here, other = os.open(tmp_path, os.O_RDONLY), os.open("/proc", os.O_RDONLY)
    if read._mount_number(here) is None:
        pytest.skip("a kernel before 6.8")
    told = read.file_system(here)
    monkeypatch.setattr(read, "_listed_file_system", lambda _directory: b"asked anew")
    assert (read.file_system(here), read.file_system(other)) == (told, b"asked anew")
    os.close(here)
    os.close(other)


PLACES = ("disk", "memory")


def write_in_place(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def make_anew(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def rename_over(path: Path, content: bytes) -> None:
    path.with_name("new").write_bytes(content)
    path.with_name("new").rename(path)


def store_through_a_mapping(path: Path, content: bytes) -> None:
    """Write through a mapping of which a page was read before, which not every file system stamps."""
    with open(path, "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    with mapped:
        assert mapped[0]
        mapped[:] = content


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("change", [write_in_place, make_anew, rename_over])
def test_a_change_right_after_a_save_is_seen_by_the_next(
    tmp_path: Path, arena: Path, change: Callable[[Path, bytes], None], place: str
) -> None:
    """S1, S8: of the same size, as soon as can be, on this machine's own file systems."""
    desk = Desk(tmp_path if place == "disk" else Path(tempfile.mkdtemp(dir=arena)))
    file = desk.root / "young"
    for turn in range(300):
        content = b"%06d" % turn
        change(file, content)
        assert desk.held(desk.save())[b"young"][2] == content


@pytest.mark.parametrize("place", PLACES)
def test_what_is_stored_through_a_mapping_after_a_save_of_a_young_file_is_seen(
    tmp_path: Path, arena: Path, place: str
) -> None:
    """S8: in memory that changes no time, so such a file is read again by the next save."""
    desk = Desk(tmp_path if place == "disk" else Path(tempfile.mkdtemp(dir=arena)))
    desk.sleep = lambda _seconds: None
    for turn in range(20):
        file = desk.root / f"young{turn}"
        file.write_bytes(b"before")
        desk.clock = just_after(file)
        desk.save()
        store_through_a_mapping(file, b"after!")
        assert desk.held(desk.save())[file.name.encode()][2] == b"after!"
