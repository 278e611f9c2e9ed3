"""Machines, keys of workspaces, and whose a store is (S18, S19)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lastgood.errors import Storage, Unsafe
from lastgood.store import (
    KEY_DIGITS,
    check_owner,
    close_to_others,
    foreign_ways,
    lax_places,
    make_private,
    system_machine,
    workspace_key,
)

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def test_a_machine_is_known_by_its_system_s_id_and_never_shows_it(tmp_path: Path) -> None:
    file = tmp_path / "machine-id"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    found = system_machine(file=os.fsencode(file))
    assert found is not None
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


def test_a_store_of_one_s_own_is_fine_and_so_is_none(place: Path) -> None:
    check_owner(os.fsencode(place))
    check_owner(os.fsencode(place / "none"))
    link = place.parent / "link"
    link.symlink_to(place)
    check_owner(os.fsencode(link))


@as_root
def test_another_user_s_store_is_refused(place: Path) -> None:
    os.chown(place, 65534, 65534)
    with pytest.raises(Unsafe, match="another user"):
        check_owner(os.fsencode(place))


@as_root
def test_a_link_that_another_user_made_is_refused(place: Path) -> None:
    link = place.parent / "link"
    link.symlink_to(place)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    with pytest.raises(Unsafe, match="link"):
        check_owner(os.fsencode(link))


def test_a_store_in_a_folder_open_to_all_is_refused_unless_sticky(place: Path) -> None:
    place.parent.chmod(0o777)
    with pytest.raises(Unsafe, match="everybody"):
        check_owner(os.fsencode(place))
    place.parent.chmod(0o1777)
    check_owner(os.fsencode(place))
    place.parent.chmod(0o700)


def test_a_link_to_a_store_in_a_folder_open_to_all_is_refused(place: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "store").mkdir()
    (tmp_path / "link").symlink_to(shared / "store")
    with pytest.raises(Unsafe, match="everybody"):
        check_owner(os.fsencode(tmp_path / "link"))


def test_what_is_no_folder_is_refused(place: Path) -> None:
    (place / "file").touch()
    with pytest.raises(Unsafe, match="not a directory"):
        check_owner(os.fsencode(place / "file"))
    (place / "dangling").symlink_to(place / "nothing")
    with pytest.raises(Unsafe, match="link to nothing"):
        check_owner(os.fsencode(place / "dangling"))
    with pytest.raises(Storage):
        check_owner(os.fsencode(place / "file" / "below"))


def test_a_folder_is_made_private_whatever_the_umask_and_a_lax_one_tightened(place: Path) -> None:
    before = os.umask(0)
    try:
        make_private(os.fsencode(place / "a" / "b"))
    finally:
        os.umask(before)
    assert [(place / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700] * 2
    place.chmod(0o755)
    make_private(os.fsencode(place))
    assert place.stat().st_mode & 0o777 == 0o700


def test_a_folder_is_private_under_a_strange_umask(place: Path) -> None:
    before = os.umask(0o777)
    try:
        make_private(os.fsencode(place / "a"))
    finally:
        os.umask(before)
    assert (place / "a").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_a_storage_error(place: Path) -> None:
    (place / "file").touch()
    with pytest.raises(Storage):
        make_private(os.fsencode(place / "file" / "below"))


def test_what_is_open_to_others_is_closed_and_told(place: Path) -> None:
    assert not close_to_others(os.fsencode(place)) or place.stat().st_mode & 0o077 == 0
    place.chmod(0o755)
    assert close_to_others(os.fsencode(place))
    assert place.stat().st_mode & 0o777 == 0o700
    assert not close_to_others(os.fsencode(place))


def test_lax_files_in_a_store_are_found(place: Path) -> None:
    place.chmod(0o700)
    (place / "open").touch(0o644)
    (place / "mine").touch(0o600)
    assert lax_places(os.fsencode(place)) == [os.fsencode(place / "open")]


@as_root
def test_a_folder_of_another_user_anywhere_above_a_store_is_found(place: Path, tmp_path: Path) -> None:
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
