"""What is carried through to the disk, and in which order (rules T5, T7)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import pytest

from lastgood import renames
from tools.forest import Field, Names, folder

# What was done, and the inodes of the directories in which it changed something.
Deed = tuple[str, frozenset[int]]

_CHANGES = ("rename", "unlink", "mkdir", "rmdir", "symlink")


@pytest.fixture
def deeds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Deed]]:
    """Write down, in order, every change of a directory through a descriptor, and every sync."""
    done: list[Deed] = []

    def watch(name: str) -> None:
        original = getattr(os, name)

        def change(*arguments: object, **options: int) -> None:
            original(*arguments, **options)
            places = frozenset(os.fstat(place).st_ino for place in options.values() if place > 2)
            done.append((name, places))

        monkeypatch.setattr(os, name, change)

    for name in _CHANGES:
        watch(name)
    system = renames.of_system()
    assert system is not None

    def rename(directory: int, name: bytes, target: int, to: bytes, flags: int) -> int:
        number = system(directory, name, target, to, flags)
        done.append(("rename", frozenset(os.fstat(place).st_ino for place in (directory, target))))
        return number

    monkeypatch.setattr(renames, "_renames", [rename])
    original_fchmod, original_fsync = os.fchmod, os.fsync

    def fchmod(descriptor: int, mode: int) -> None:
        original_fchmod(descriptor, mode)
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            done.append(("fchmod", frozenset({found.st_ino})))

    def fsync(descriptor: int) -> None:
        original_fsync(descriptor)
        done.append(("fsync", frozenset({os.fstat(descriptor).st_ino})))

    monkeypatch.setattr(os, "fchmod", fchmod)
    monkeypatch.setattr(os, "fsync", fsync)
    yield done
    monkeypatch.undo()


BEFORE: Names = {
    **{b"d%d" % number: folder({b"x": (0o644, b"old")}) for number in range(12)},
    b"mode": folder({b"x": (0o644, b"same"), b"y": folder({}, mode=0o755)}),
    b"gone": folder({b"x": (0o644, b"x"), b"y": folder({b"z": (0o644, b"z")})}),
    b"kind": folder({b"x": folder({b"in": folder({b"x": (0o644, b"x")})})}),
    b"mkdir": folder({}),
    b"rmdir": folder({b"x": folder({})}),
    b"delete": folder({b"x": (0o644, b"x")}),
    b"kinds": folder({b"was-a-file": (0o644, b"x"), b"was-a-link": "x"}),
}
AFTER: Names = {
    **{b"d%d" % number: folder({b"x": (0o644, b"new"), b"l": "x"}) for number in range(12)},
    b"mode": folder({b"x": (0o755, b"same"), b"y": folder({}, mode=0o700)}),
    b"made": folder({b"inner": folder({b"x": (0o644, b"x")}, mode=0o755)}),
    b"kind": folder({b"x": (0o644, b"now a file")}),
    b"mkdir": folder({b"x": folder({})}),
    b"rmdir": folder({}),
    b"delete": folder({}),
    b"kinds": folder({b"was-a-file": folder({b"x": (0o644, b"x")}), b"was-a-link": (0o644, b"x")}),
}


def _directories(root: bytes) -> set[int]:
    return {os.stat(place).st_ino for place, _, _ in os.walk(root)}


def test_every_directory_is_synced_after_its_last_change(field: Field, deeds: list[Deed]) -> None:
    field.lay(BEFORE)
    steps = field.plan(AFTER)
    deeds.clear()
    field.apply(steps)
    assert field.now() == AFTER
    left = _directories(field.root)
    waiting: set[int] = set()
    for what, places in deeds:
        if what == "fsync":
            waiting -= places
        else:
            waiting |= places
    assert waiting & left == set()


def test_the_directory_of_a_file_with_new_permissions_is_synced(field: Field, deeds: list[Deed]) -> None:
    """Where a file system logs changes, those of files go through with those of directories."""
    field.lay({b"d": folder({b"x": (0o644, b"x")})})
    steps = field.plan({b"d": folder({b"x": (0o755, b"x")})})
    deeds.clear()
    field.apply(steps)
    assert ("fsync", frozenset({os.stat(field.at(b"d")).st_ino})) in deeds


def test_nothing_is_deleted_before_what_was_written_is_on_the_disk(field: Field, deeds: list[Deed]) -> None:
    """Rule T5."""
    field.lay(BEFORE)
    steps = field.plan(AFTER)
    above = os.stat(field.at(b"gone")).st_ino
    deeds.clear()
    field.apply(steps)
    deletion = next(at for at, (what, places) in enumerate(deeds) if what == "unlink" and above in places)
    written = [os.stat(field.at(b"d%d" % number)).st_ino for number in range(12)]
    for place in written:
        renamed = max(at for at, (what, places) in enumerate(deeds) if what == "rename" and place in places)
        assert any(what == "fsync" and place in places for what, places in deeds[renamed:deletion])


def test_a_directory_that_does_not_change_any_more_is_synced_once(field: Field, deeds: list[Deed]) -> None:
    names: Names = {b"d%d" % number: folder({b"x": (0o644, b"old")}) for number in range(12)}
    field.lay(names)
    steps = field.plan({name: folder({b"x": (0o644, b"new")}) for name in names})
    deeds.clear()
    field.apply(steps)
    for name in names:
        place = os.stat(field.at(name)).st_ino
        assert sum(what == "fsync" and place in places for what, places in deeds) == 1


def test_a_copy_that_stays_is_synced(field: Field, deeds: list[Deed]) -> None:
    """T11."""
    field.applier.write_tree(field.forest.plant(AFTER), objects=field.forest)
    assert field.now() == AFTER
    synced = {place for what, places in deeds if what == "fsync" for place in places}
    everything = [os.path.join(place, name) for place, _, names in os.walk(field.root) for name in names]
    files = {os.stat(path).st_ino for path in everything if not os.path.islink(path)}
    assert _directories(field.root) | files <= synced


def test_a_copy_that_goes_again_is_not_synced(field: Field, deeds: list[Deed]) -> None:
    outcomes = field.applier.write_tree(field.forest.plant(AFTER), objects=field.forest, durability="fast")
    assert {one.result for one in outcomes} == {"restored"}
    assert field.now() == AFTER
    assert not any(what == "fsync" for what, _ in deeds)
