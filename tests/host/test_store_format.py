"""The store's folder: it comes into being whole, where it may, and is somebody's (S18, S19)."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.database import CURRENT
from lastgood.errors import Damaged, Storage, Unsafe, Unsupported
from lastgood.host import SystemClock
from lastgood.store import (
    FORMAT,
    KEY_DIGITS,
    check_owner,
    close_to_others,
    ensure_store,
    foreign_ways,
    format_fault,
    lax_places,
    make_private,
    mend_format,
    mend_machine,
    read_format,
    stored_machine,
    system_machine,
    workspace_key,
)
from tools.forks import NOBODY, be_nobody, ended, forked
from tools.values import not_none

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "state" / "lastgood"


def ensure(place: Path) -> None:
    ensure_store(os.fsencode(place), random=b"\x01" * 8)


def tree(place: Path) -> dict[str, int]:
    return {str(one.relative_to(place)): one.stat().st_mode & 0o777 for one in place.rglob("*")}


def test_a_new_store_is_private_and_says_what_it_is(place: Path) -> None:
    before = os.umask(0)
    try:
        ensure(place)
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o700
    assert tree(place) == {
        "README": 0o600,
        "format": 0o600,
        "locks": 0o700,
        "machine": 0o600,
        "workspaces": 0o700,
    }
    assert json.loads((place / "format").read_text()) == {"format": 1, "engine": "git"}
    assert "lastgood" in (place / "README").read_text()
    assert stored_machine(os.fsencode(place)) == "01" * 8


def test_an_existing_store_is_left_as_it_is(place: Path) -> None:
    ensure(place)
    (place / "README").write_text("mine")
    ensure_store(os.fsencode(place), random=b"\x02" * 8)
    assert (place / "README").read_text() == "mine"
    assert stored_machine(os.fsencode(place)) == "01" * 8


def test_an_empty_folder_and_a_link_to_one_become_stores(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    ensure(tmp_path / "link")
    assert read_format(os.fsencode(tmp_path / "empty"))


def test_a_folder_of_other_things_is_refused_untouched(place: Path) -> None:
    place.mkdir(parents=True)
    (place / "thesis.tex").touch()
    with pytest.raises(Unsafe, match="not empty"):
        ensure(place)
    assert os.listdir(place) == ["thesis.tex"]


def test_a_half_made_store_is_no_store_and_is_completed(place: Path) -> None:
    place.mkdir(parents=True)
    (place / "locks").mkdir()
    (place / "README.new").write_text("ha")
    (place / "format.new").write_text("{")
    assert not read_format(os.fsencode(place))
    ensure(place)
    assert read_format(os.fsencode(place))
    assert "format.new" not in os.listdir(place)


def test_the_mark_of_format_is_written_last(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill at any rename leaves something that the next one completes."""
    rename = os.rename
    for allowed in range(3):
        count = 0

        def some(old: bytes, new: bytes, allowed: int = allowed) -> None:
            nonlocal count
            if count == allowed:
                raise KeyboardInterrupt
            count += 1
            rename(old, new)

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", some)
            with pytest.raises(KeyboardInterrupt):
                ensure(place)
        assert not read_format(os.fsencode(place))
    ensure(place)
    assert read_format(os.fsencode(place))


def test_a_newer_store_is_unsupported(place: Path) -> None:
    ensure(place)
    (place / "format").write_text('{"format": 2, "engine": "git", "more": []}')
    with pytest.raises(Unsupported, match="format 2") as caught:
        ensure(place)
    assert caught.value.details == {"found": 2, "supported": 1}


def test_the_same_format_in_another_spelling_is_read(place: Path) -> None:
    ensure(place)
    (place / "format").write_text('{"format": 1,\n "engine": "git"}')
    ensure(place)


@pytest.mark.parametrize("text", ['{"format": 1, "engine": "tape"}', '{"format": 0, "engine": "git"}'])
def test_a_store_of_another_kind_is_unsupported(place: Path, text: str) -> None:
    ensure(place)
    (place / "format").write_text(text)
    with pytest.raises(Unsupported):
        ensure(place)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\x00", b'{"format": "1"}', b'{"format": 1}'])
def test_a_garbled_format_is_damaged_and_mended(place: Path, content: bytes) -> None:
    """K4."""
    ensure(place)
    (place / "format").write_bytes(content)
    with pytest.raises(Damaged) as caught:
        ensure(place)
    assert "verify --repair" in caught.value.hint
    mend_format(os.fsencode(place))
    ensure(place)


@pytest.mark.parametrize("name", ["catalogue.sqlite3", "objects.git"])
def test_a_store_that_lost_its_format_is_damaged_not_new(place: Path, name: str) -> None:
    ensure(place)
    (place / "format").unlink()
    (place / name).touch()
    with pytest.raises(Damaged, match="lost its file 'format'"):
        ensure(place)


def test_a_store_that_another_process_makes_just_then_is_no_link(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16, S18: it appears between two looks."""
    look = os.lstat

    def late(path: bytes) -> os.stat_result:
        try:
            return look(path)
        finally:
            place.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(os, "lstat", late)
    check_owner(os.fsencode(place))


def test_many_processes_make_one_store(place: Path) -> None:
    """S16."""
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1]);"
        "from lastgood.store import ensure_store, stored_machine;"
        "ensure_store(os.fsencode(sys.argv[2]), random=os.urandom(8));"
        "print(stored_machine(os.fsencode(sys.argv[2])))"
    )
    command = [sys.executable, "-c", program, str(SOURCE), str(place)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    answers = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0] * 8
    assert len(answers) == 1
    assert set(tree(place)) == {"README", "format", "locks", "machine", "workspaces"}


@pytest.mark.parametrize(
    "content", [None, b"", b"01" * 7, b"01" * 9, bytes(17), b"g" * 16, b"01" * 8 + b"\n\n"]
)
def test_an_id_that_is_lost_or_garbled_is_none_and_mended(place: Path, content: bytes | None) -> None:
    """K4."""
    ensure(place)
    if content is None:
        (place / "machine").unlink()
    else:
        (place / "machine").write_bytes(content)
    assert stored_machine(os.fsencode(place)) is None
    mend_machine(os.fsencode(place), "02" * 8)
    assert stored_machine(os.fsencode(place)) == "02" * 8


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b'{"engine":"git","format":3}\n', b'{"engine":"gi4","format":1}\n']
)
def test_a_lost_or_altered_format_is_vouched_for_by_the_catalogue(place: Path, content: bytes | None) -> None:
    """K4: a newer format comes with a newer catalogue, so what the catalogue says counts."""
    ensure(place)
    path = os.fsdecode(place / "catalogue.sqlite3")
    SqliteCatalogue.open(path, clock=SystemClock()).close()
    if content is None:
        (place / "format").unlink()
    else:
        (place / "format").write_bytes(content)
    assert read_format(os.fsencode(place))
    assert format_fault(os.fsencode(place)) is not None
    mend_format(os.fsencode(place))
    assert format_fault(os.fsencode(place)) is None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {CURRENT.version + 1}")
    (place / "format").write_bytes(b'{"engine":"git","format":2}\n')
    with pytest.raises(Unsupported):
        read_format(os.fsencode(place))


def test_a_store_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Storage):
        ensure(tmp_path / "file" / "store")


# The versions of the catalogue that stores of each format were written with. A mark of format that is damaged
# is told by the catalogue alone, so no version may belong to two formats (decision 023).
WRITTEN = {1: range(1, 10)}


def test_who_raises_the_format_raises_the_catalogues_version_too() -> None:
    """K4: and who raises that one says here of which format it is."""
    assert max(WRITTEN) == FORMAT
    assert WRITTEN[FORMAT][-1] == CURRENT.version
    every = [version for format in sorted(WRITTEN) for version in WRITTEN[format]]
    assert every == list(range(1, CURRENT.version + 1))


NEXT = CURRENT.version + 1

NEWER = {
    "its number": f"PRAGMA user_version = {NEXT}",
    "its second number": f"UPDATE meta SET value = {NEXT} WHERE name = 'version'",
}


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_the_number_of_the_format_is_told_by_the_catalogue(place: Path, bit: int) -> None:
    """K4: 3, 5 and 9 are a bit away from 1, and formats that may come."""
    ensure(place)
    mark = place / "format"
    content = bytearray(mark.read_bytes())
    content[content.index(b"1")] ^= 1 << bit
    mark.write_bytes(content)
    with pytest.raises((Unsupported, Damaged)):
        read_format(os.fsencode(place))
    SqliteCatalogue.open(os.fsdecode(place / "catalogue.sqlite3"), clock=SystemClock()).close()
    assert read_format(os.fsencode(place))
    assert format_fault(os.fsencode(place)) is not None


@pytest.mark.parametrize("format", [3, 5, 9])
@pytest.mark.parametrize("statement", NEWER.values(), ids=NEWER.keys())
def test_a_newer_format_is_refused_whose_catalogue_is_newer(place: Path, format: int, statement: str) -> None:
    """One of its two numbers may be damaged: the other still tells."""
    ensure(place)
    path = os.fsdecode(place / "catalogue.sqlite3")
    SqliteCatalogue.open(path, clock=SystemClock()).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    (place / "format").write_bytes(b'{"engine":"git","format":%d}\n' % format)
    with pytest.raises(Unsupported, match=f"format {format}"):
        read_format(os.fsencode(place))


@pytest.mark.parametrize("format", [2, 4, 11])
def test_a_newer_format_that_no_flipped_bit_makes_is_refused_whatever_the_catalogue(
    place: Path, format: int
) -> None:
    ensure(place)
    SqliteCatalogue.open(os.fsdecode(place / "catalogue.sqlite3"), clock=SystemClock()).close()
    (place / "format").write_bytes(b'{"engine":"git","format":%d}\n' % format)
    with pytest.raises(Unsupported, match=f"format {format}"):
        read_format(os.fsencode(place))


# Machines, keys of workspaces, and whose a store is (S18, S19).


as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def made_place(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def test_a_machine_is_known_by_its_system_s_id_and_never_shows_it(tmp_path: Path) -> None:
    file = tmp_path / "machine-id"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    found = not_none(system_machine(file=os.fsencode(file)))
    assert found not in file.read_text()
    assert found == system_machine(file=os.fsencode(file))


@pytest.mark.parametrize("text", ["", "uninitialized\n", "0123\n", "G" * 32])
def test_a_system_without_a_good_id_has_the_store_s(tmp_path: Path, text: str) -> None:
    file = tmp_path / "machine-id"
    file.write_text(text)
    assert system_machine(file=os.fsencode(file)) is None
    assert system_machine(file=os.fsencode(tmp_path / "none")) is None


def test_a_key_depends_on_machine_and_path_alone() -> None:
    key = workspace_key("m", b"/a\xff\n")
    assert key == workspace_key("m", b"/a\xff\n")
    assert len(key) == KEY_DIGITS
    assert int(key, 16) >= 0
    others = {workspace_key("n", b"/a\xff\n"), workspace_key("m", b"/a"), workspace_key("m/", b"a\xff\n")}
    assert len(others | {key}) == 4


def test_a_store_of_one_s_own_is_fine_and_so_is_none(made_place: Path) -> None:
    check_owner(os.fsencode(made_place))
    check_owner(os.fsencode(made_place / "none"))
    link = made_place.parent / "link"
    link.symlink_to(made_place)
    check_owner(os.fsencode(link))


@as_root
def test_another_user_s_store_is_refused(made_place: Path) -> None:
    os.chown(made_place, 65534, 65534)
    with pytest.raises(Unsafe, match="another user") as caught:
        check_owner(os.fsencode(made_place))
    assert "without sudo" in caught.value.hint


@as_root
def test_a_store_that_was_copied_by_root_is_refused_with_the_way_to_own_it(made_place: Path) -> None:
    made_place.parent.chmod(0o755)

    def look() -> None:
        os.chdir(made_place.parent)  # the way to it may be closed
        be_nobody()
        with pytest.raises(Unsafe) as caught:
            check_owner(os.fsencode(made_place.name))
        assert caught.value.hint.endswith(f"sudo chown -R {NOBODY} {made_place.name}")

    assert ended(forked(look)) == 0


@as_root
def test_a_link_that_another_user_made_is_refused(made_place: Path) -> None:
    link = made_place.parent / "link"
    link.symlink_to(made_place)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    with pytest.raises(Unsafe, match="link"):
        check_owner(os.fsencode(link))


def test_a_store_in_a_folder_open_to_all_is_refused_unless_sticky(made_place: Path) -> None:
    made_place.parent.chmod(0o777)
    with pytest.raises(Unsafe, match="everybody"):
        check_owner(os.fsencode(made_place))
    made_place.parent.chmod(0o1777)
    check_owner(os.fsencode(made_place))
    made_place.parent.chmod(0o700)


def test_a_link_to_a_store_in_a_folder_open_to_all_is_refused(made_place: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "store").mkdir()
    (tmp_path / "link").symlink_to(shared / "store")
    with pytest.raises(Unsafe, match="everybody"):
        check_owner(os.fsencode(tmp_path / "link"))


def test_what_is_no_folder_is_refused(made_place: Path) -> None:
    (made_place / "file").touch()
    with pytest.raises(Unsafe, match="not a directory"):
        check_owner(os.fsencode(made_place / "file"))
    (made_place / "dangling").symlink_to(made_place / "nothing")
    with pytest.raises(Unsafe, match="link to nothing"):
        check_owner(os.fsencode(made_place / "dangling"))
    with pytest.raises(Storage):
        check_owner(os.fsencode(made_place / "file" / "below"))


def test_a_folder_is_made_private_whatever_the_umask_and_a_lax_one_tightened(made_place: Path) -> None:
    before = os.umask(0)
    try:
        make_private(os.fsencode(made_place / "a" / "b"))
    finally:
        os.umask(before)
    assert [(made_place / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700] * 2
    made_place.chmod(0o755)
    make_private(os.fsencode(made_place))
    assert made_place.stat().st_mode & 0o777 == 0o700


def test_a_folder_is_private_under_a_strange_umask(made_place: Path) -> None:
    before = os.umask(0o777)
    try:
        make_private(os.fsencode(made_place / "a"))
    finally:
        os.umask(before)
    assert (made_place / "a").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_a_storage_error(made_place: Path) -> None:
    (made_place / "file").touch()
    with pytest.raises(Storage):
        make_private(os.fsencode(made_place / "file" / "below"))


def test_what_is_open_to_others_is_closed_and_told(made_place: Path) -> None:
    assert not close_to_others(os.fsencode(made_place)) or made_place.stat().st_mode & 0o077 == 0
    made_place.chmod(0o755)
    assert close_to_others(os.fsencode(made_place))
    assert made_place.stat().st_mode & 0o777 == 0o700
    assert not close_to_others(os.fsencode(made_place))


def test_lax_files_in_a_store_are_found(made_place: Path) -> None:
    made_place.chmod(0o700)
    (made_place / "open").touch(0o644)
    (made_place / "mine").touch(0o600)
    assert lax_places(os.fsencode(made_place)) == [os.fsencode(made_place / "open")]


@as_root
def test_a_folder_of_another_user_anywhere_above_a_store_is_found(made_place: Path, tmp_path: Path) -> None:
    above = tmp_path / "theirs" / "between"
    above.mkdir(parents=True)
    (above / "store").mkdir()
    assert foreign_ways(os.fsencode(above / "store")) == []
    os.chown(tmp_path / "theirs", 65534, 65534)
    (tmp_path / "link").symlink_to(above / "store")
    for store in (above / "store", tmp_path / "link"):
        assert foreign_ways(os.fsencode(store)) == [
            (os.fsencode(tmp_path / "theirs"), "belongs to another user (uid 65534)")
        ]


def test_a_folder_open_to_all_anywhere_above_a_store_is_found_unless_sticky(tmp_path: Path) -> None:
    above = tmp_path / "shared" / "between"
    above.mkdir(parents=True)
    (above / "store").mkdir()
    (tmp_path / "shared").chmod(0o777)
    ((folder, why),) = foreign_ways(os.fsencode(above / "store"))
    assert (folder, why) == (os.fsencode(tmp_path / "shared"), "is one that everybody may write to")
    (tmp_path / "shared").chmod(0o1777)
    assert foreign_ways(os.fsencode(above / "store")) == []
