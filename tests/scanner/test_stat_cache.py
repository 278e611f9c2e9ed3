"""A scanner that stays looks again at folders that it knows, and comes to what one without them does (S1)."""

from __future__ import annotations

import calendar
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood.host import ScanResult
from lastgood.scanner import libc, stat_cache, states
from lastgood.scanner import scan as scanner
from lastgood.scanner.cache import CachedTree, Details
from lastgood.scanner.parallel import ScanBegun
from lastgood.scanner.read import Lister, Listing
from lastgood.scanner.scan import WorkspaceScanner
from lastgood.scanner.stat_cache import StatCache
from lastgood.scanner.walk import Frame, Walk
from tools.desk import Desk
from tools.living import descriptors

FOLDERS = ("a", "a/below", "b", "c", "c/one", "c/two")


@pytest.fixture
def known(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Return a desk whose scanner stays, and has looked at all its folders by what it knows of them."""
    device = os.stat(desk.root).st_dev
    monkeypatch.setattr(scanner, "proving_device", lambda _root: device)
    monkeypatch.setattr(scanner, "_SEVERAL_DIRECTORIES", 0)
    for folder in FOLDERS:
        for name in ("one", "two", "three"):
            desk.write(f"{folder}/f-{name}", f"{folder} {name}")
    time.sleep(0.06)
    desk.scanner = desk.local()
    for _ in range(3):
        desk.save()
    return desk


def afresh(desk: Desk) -> ScanResult:
    """Return what a scanner finds that knows nothing."""
    stays, desk.scanner = (
        desk.scanner,
        WorkspaceScanner(cache=os.fsencode(desk.store), clock=desk.clock, objects=desk.engine),
    )
    found = desk.scan().result
    desk.scanner = stays
    return found


class Judged:
    """Notes the folders that the walk judges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[bytes] = []
        look = Walk._look

        def noted(
            walk: Walk, descriptor: int, path: bytes, above: bytes, listing: Listing | None = None
        ) -> object:
            self.paths.append(path)
            return look(walk, descriptor, path, above, listing)

        monkeypatch.setattr(Walk, "_look", noted)


def test_the_walk_judges_only_folders_that_are_not_as_they_were(
    known: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = Judged(monkeypatch)
    known.save()
    assert judged.paths == []
    known.write("c/one/f-two", "other")
    found = known.save()
    assert judged.paths == [b"c/one"]
    assert found.result == afresh(known)


def test_what_a_scan_found_that_nobody_kept_is_found_again(known: Desk) -> None:
    """What was told then belongs to no record that the next scan knows."""
    before = known.previous
    known.write("a/below/f-one", "other")
    looked = known.scan()
    assert looked.result.tree != before
    assert known.save().result == looked.result


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "c").chmod(0o700),
        lambda root: (root / "c" / "one").chmod(0o2750),
        lambda root: os.utime(root / "b" / "f-one"),
        lambda root: (root / "a" / ".gitignore").write_text("f-two\n"),
        lambda root: (root / ".gitignore").write_text("/a\n!/a/below\n"),
        lambda root: (root / "c" / "one").rename(root / "a" / "one"),
        lambda root: (root / "b" / "new" / "deep").mkdir(parents=True),
    ],
    ids=["top folder", "folder", "times", "ignore file", "rules for all", "moved folder", "new folders"],
)
def test_whatever_differs_comes_out_as_for_one_that_knows_nothing(
    known: Desk, change: Callable[[Path], object]
) -> None:
    change(known.root)
    assert known.save().result == afresh(known)
    assert known.save().result == afresh(known)


@pytest.mark.parametrize("year", [1600, 2300])
def test_a_folder_of_a_time_beyond_64_bits_of_nanoseconds_is_looked_at_like_any(
    known: Desk, year: int
) -> None:
    """As far as the file system keeps such a time, and the kernel sees to it that it proves names."""
    seconds = calendar.timegm((year, 1, 1, 0, 0, 0))
    os.utime(known.root / "b", (seconds, seconds))
    time.sleep(0.06)
    for content in ("other", "newer"):
        known.save()
        known.write("b/f-two", content)
        assert known.save().result == afresh(known)


def test_a_file_of_equal_size_and_modification_time_is_told(known: Desk) -> None:
    path = known.root / "a" / "f-one"
    seen = path.stat()
    path.write_text("A ONE")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert known.held(known.save())[b"a/f-one"][2] == b"A ONE"


def test_a_link_in_the_place_of_a_folder_is_not_followed(known: Desk, tmp_path: Path) -> None:
    (known.root / "c" / "one").rename(tmp_path / "outside")
    (known.root / "c" / "one").symlink_to(tmp_path / "outside")
    assert known.held(known.save())[b"c/one"][0] == "link"


def test_more_than_may_stay_open_is_left_to_the_walk(known: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stat_cache, "_MOST_FOUND", 2)
    opened = descriptors()
    for folder in FOLDERS:
        known.write(f"{folder}/f-two", "other")
    assert known.save().result == afresh(known)
    assert descriptors() == opened


def test_more_than_is_asked_at_once_is_left_to_the_walk(known: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """S14: beside few files there may be very many ignored ones, and no Ctrl-C is heard meanwhile."""
    monkeypatch.setattr(stat_cache, "_MOST_BYTES", 1 << 10)
    known.write("b/f-two", "other")
    judged = Judged(monkeypatch)
    assert known.save().result == afresh(known)
    assert set(judged.paths) >= {b"", *map(os.fsencode, FOLDERS)}


def test_a_sheet_asks_for_very_many_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"f-{number:03}" for number in range(200)]
    for name in names:
        (tmp_path / name).write_text(name)
    os.link(tmp_path / names[100], tmp_path / "f-100-too")
    joined = b"\0".join(map(os.fsencode, names))
    descriptor, sheet = os.open(tmp_path, os.O_RDONLY), states.Sheet()
    whole = sheet.ask(descriptor, joined)
    monkeypatch.setattr(states, "_MOST_AT_ONCE", 64)
    calls: list[int] = []
    ask = sheet._states

    def noted(directory: int, some: bytes, many: int, answers: object) -> int:
        calls.append(many)
        return ask(directory, some, many, answers)

    monkeypatch.setattr(sheet, "_states", noted)
    assert sheet.ask(descriptor, joined) == whole
    assert (calls, sheet.has_links) == ([64, 64, 64, 8], True)
    assert sheet.ask(descriptor, joined + b"\0none") is None
    os.close(descriptor)


def test_on_another_device_nothing_is_taken_for_known(known: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1: there times prove no names."""
    device = os.stat(known.root).st_dev
    monkeypatch.setattr(scanner, "proving_device", lambda _root: device + 1)
    known.write("b/f-two", "other")
    judged = Judged(monkeypatch)
    assert known.save().result == afresh(known)
    assert set(judged.paths) >= {b"", *map(os.fsencode, FOLDERS)}


@pytest.mark.parametrize("changed", ["c", "c/one"])
def test_a_folder_that_is_moved_while_others_are_listed_is_found_where_it_was_or_is(
    known: Desk, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """S8: where the folder above is listed by then, the walk begins anew and looks for it."""
    known.write(f"{changed}/new")
    listing = Lister.list

    def meanwhile(lister: Lister, descriptor: int, **named: Any) -> Listing:
        if (known.root / "c" / "two").exists():
            (known.root / "c" / "two").rename(known.root / "b" / "two")
        return listing(lister, descriptor, **named)

    monkeypatch.setattr(Lister, "list", meanwhile)
    names = known.names(known.save())
    assert len({"b/two/f-one", "c/two/f-one"} & set(names)) == 1
    assert "b/two/f-one" in known.names(known.save())


@pytest.mark.parametrize("fresh", [(), (b"a/f-one",)], ids=["sparing", "through everything"])
@pytest.mark.parametrize("left", ["link", "file", "folder"])
def test_a_folder_that_is_moved_while_others_are_listed_is_found_whatever_takes_its_name(
    known: Desk, monkeypatch: pytest.MonkeyPatch, left: str, fresh: tuple[bytes, ...]
) -> None:
    """S8: as where what moved is linked to from where it was."""
    known.write("c/new")
    listing = Lister.list
    old, new = known.root / "c" / "two", known.root / "b" / "two"

    def meanwhile(lister: Lister, descriptor: int, **named: Any) -> Listing:
        if not new.exists() and os.path.samestat(os.fstat(descriptor), old.parent.stat()):
            old.rename(new)
            if left == "link":
                old.symlink_to("../b/two")
            elif left == "file":
                old.write_text("moved to b")
            else:
                old.mkdir()
        return listing(lister, descriptor, **named)

    monkeypatch.setattr(Lister, "list", meanwhile)
    names = known.names(known.save(fresh=fresh))
    assert new.exists()
    assert {"b/two/f-one", "c/two/f-one"} & set(names)


@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_folder_that_is_moved_to_and_fro_is_looked_for_until_it_is_found(
    known: Desk, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """S8: it is in one of two places all the time, and in each as soon as the other was listed."""
    for folder in "bc":
        known.write(f"{folder}/new")
    numbers = {os.stat(known.root / folder).st_ino: folder for folder in "bc"}
    listing, missed = Lister.list, list[int]()

    def moved(*, to: str) -> None:
        known.root.joinpath("c" if to == "b" else "b", "two").rename(known.root / to / "two")

    def meanwhile(lister: Lister, descriptor: int, **named: Any) -> Listing:
        folder = numbers.get(os.fstat(descriptor).st_ino)
        if folder == "b" and (known.root / "b" / "two").exists():
            moved(to="c")
        found = listing(lister, descriptor, **named)
        if folder == "b" and len(missed) < times:
            missed.append(1)
            moved(to="b")
        return found

    monkeypatch.setattr(Lister, "list", meanwhile)
    names = known.names(known.save())
    assert len(missed) == times
    assert "c/two/f-one" in names


def test_two_scans_at_once_do_not_share_what_is_known(known: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    known.write("b/f-two", "other")
    within: list[ScanResult] = []
    changed = StatCache.changed

    def beside(folders: StatCache, root: int, **named: Any) -> object:
        found = changed(folders, root, **named)
        monkeypatch.setattr(StatCache, "changed", changed)
        within.append(known.scan().result)
        return found

    monkeypatch.setattr(StatCache, "changed", beside)
    assert known.save().result == within[0] == afresh(known)


def test_a_scan_that_ends_after_later_ones_does_not_tell_them_what_it_came_to(
    known: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1: what was found before a change is not what the next scan says."""
    known.write("b/f-two", "other")
    known.save()
    ending = WorkspaceScanner._found

    def late(stays: WorkspaceScanner, *given: Any, **named: Any) -> object:
        monkeypatch.setattr(WorkspaceScanner, "_found", ending)
        known.write("b/f-two", "newer")
        for _ in range(2):
            known.save()
        return ending(stays, *given, **named)

    monkeypatch.setattr(WorkspaceScanner, "_found", late)
    known.scan()
    assert known.save().result == afresh(known)


def test_a_new_folder_that_takes_the_name_of_a_known_one_before_it_is_opened_is_found(
    known: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S8: as where what was built is put in the place of what was built before."""
    known.write("c/new/f-four", "built")
    go_by = Walk._go_by

    def meanwhile(walk: Walk, root: int, found: dict[bytes, Listing]) -> None:
        if (known.root / "c" / "new").exists():
            shutil.rmtree(known.root / "b")
            (known.root / "c" / "new").rename(known.root / "b")
        go_by(walk, root, found)

    monkeypatch.setattr(Walk, "_go_by", meanwhile)
    names = known.names(known.save())
    assert {name for name in names if name.startswith("b")} == {"b", "b/f-four"}


@pytest.mark.parametrize("when", ["at first", "later"])
def test_a_mode_that_a_folder_got_between_two_questions_is_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """S1: what it tells itself is newer than what was said of it in the folder above."""
    device = os.stat(desk.root).st_dev
    monkeypatch.setattr(scanner, "proving_device", lambda _root: device)
    monkeypatch.setattr(scanner, "_SEVERAL_DIRECTORIES", 0)
    monkeypatch.setattr(desk, "exact_on", lambda _root: device)
    desk.scanner = desk.local()
    below = desk.root / "a" / "below"
    desk.write("a/below/file", "text")
    below.chmod(0o755)
    for _ in range(3 if when == "later" else 0):
        desk.save()
    desk.write("a/below/new", "text")
    listing = Lister.list

    def meanwhile(lister: Lister, descriptor: int, **named: Any) -> Listing:
        if os.path.samestat(os.fstat(descriptor), below.stat()):
            below.chmod(0o700)
        return listing(lister, descriptor, **named)

    monkeypatch.setattr(Lister, "list", meanwhile)
    desk.save()
    monkeypatch.setattr(Lister, "list", listing)
    for _ in range(3):
        assert desk.save().result == afresh(desk)


@pytest.mark.parametrize("of", ["details", "frame", "look"])
def test_what_a_ctrl_c_met_while_it_was_closed_is_not_closed_again(
    known: Desk, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    """By then its number may be that of another file, as of the catalogue."""
    number = os.open(known.root, os.O_RDONLY)
    held: Details | Frame | ScanBegun
    if of == "details":
        held = Details(b"", b"")
        held._descriptor = number
    elif of == "frame":
        held = Frame(number, path=b"", token=b"", below=[])
    else:
        lister = Lister(device=None, clock=known.clock)
        held = ScanBegun(
            number, CachedTree(None, records={}, details=Details(b"", b"")), lister=lister, began=0
        )
    close = os.close

    def interrupted(descriptor: int) -> None:
        close(descriptor)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.close()
    other = os.open(known.root, os.O_RDONLY)
    assert other == number
    held.close()
    close(other)


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have lastgood find no library in C, as where none could be compiled."""
    monkeypatch.setattr(states, "_LIBRARY", "/nowhere/libstates.so.2")
    monkeypatch.setattr(states, "_spare", [])
    monkeypatch.setattr(libc, "_known", {})


def test_the_library_is_there(desk: Desk) -> None:
    """`scripts/setup` compiles it, so that what is tested and measured is what people get."""
    assert states.sheet() is not None


def test_without_the_library_what_one_with_it_has_signed_is_known_again(
    known: Desk, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """S1: both say the same of the same files."""
    found = known.save().result
    request.getfixturevalue("no_library")
    judged = Judged(monkeypatch)
    known.scanner = known.local()
    assert known.save().result == found
    assert judged.paths == [b""]  # of which a walk begins


@pytest.mark.usefixtures("no_library")
@pytest.mark.parametrize("seed", range(3))
def test_without_the_library_whatever_happens_comes_out_as_for_one_that_knows_nothing(
    known: Desk, seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(8):
        for _ in range(chance.randrange(1, 3)):
            _change(known.root, chance)
        assert known.save().result == afresh(known)


def test_as_long_as_something_in_it_changes_a_folder_is_not_taken_for_what_it_was(
    known: Desk, tmp_path: Path
) -> None:
    """S1: whatever a look met, the next one meets what is there by then."""
    ends = tmp_path / "end"
    beside = subprocess.Popen([sys.executable, "-c", _BUSY, known.root, ends])
    try:
        for _ in range(30):
            seen = known.save()
            assert known.gaps(seen) or {"b/two/f-two", "c/two/f-two"} & set(known.names(seen))
    finally:
        ends.touch()
        assert beside.wait(timeout=600) == 0
    for _ in range(3):
        assert known.save().result == afresh(known)


_BUSY = """
import os, sys
root, end = sys.argv[1:]
turn = 0
while not os.path.exists(end):
    turn += 1
    os.chmod(f"{root}/c/one", 0o700 if turn % 2 else 0o755)
    for folder in ("a", "b", "c"):
        with open(f"{root}/{folder}/f-one", "w") as file:
            file.write(str(turn % 3))
    os.rename(f"{root}/c/two", f"{root}/b/two")
    os.rename(f"{root}/b/two", f"{root}/c/two")
"""


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_comes_out_as_for_one_that_knows_nothing(known: Desk, seed: int) -> None:
    chance = random.Random(seed)
    opened = descriptors()
    for _ in range(12):
        for _ in range(chance.randrange(3)):
            known.save()
        for _ in range(chance.randrange(1, 3)):
            _change(known.root, chance)
        assert known.save().result == afresh(known)
    assert descriptors() == opened


def test_all_folders_that_changed_are_found_and_no_other(
    known: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = Judged(monkeypatch)
    for folder in FOLDERS:
        known.write(f"{folder}/f-two", "other")
    found, paths = known.save().result, list(judged.paths)
    assert paths == sorted(map(os.fsencode, FOLDERS))
    assert found == afresh(known)


def _change(root: Path, chance: random.Random) -> None:
    """Do something that happens in a folder."""
    folders = sorted(Path(path) for path, _, _ in os.walk(root) if Path(path) != root)
    files = sorted(Path(path) / name for path, _, names in os.walk(root) for name in names)
    folder, file = chance.choice(folders), chance.choice(files)
    what = chance.randrange(7)
    if what == 0:
        file.write_text(f"{chance.random()}")
    elif what == 1:
        folder.chmod(chance.choice((0o700, 0o750, 0o755)))
    elif what == 2:
        file.chmod(chance.choice((0o600, 0o644, 0o755)))
    elif what == 3:
        (folder / f"new-{chance.randrange(99)}" / "deep").mkdir(parents=True, exist_ok=True)
    elif what == 4 and len(files) > 1:
        file.unlink()
    elif what == 5 and len(folders) > 1:
        folder.rename(root / f"moved-{chance.randrange(999)}")
    else:
        (folder / f"file-{chance.randrange(99)}").write_text("new")
