"""Links, races, hostile trees, full disks and interruptions (rules T4 to T7, T12)."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastgood.errors import Damaged, Storage, Unsafe
from lastgood.model.operation import Step
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry
from lastgood.restore.plan import inverse
from tools.forest import TOKEN, Field, Forest, Names, Node, folder, read_in, stamps, write_out
from tools.forks import be_nobody, ended, forked
from tools.values import not_none

A: Node = (0o644, b"a")
B: Node = (0o644, b"b")
_AT_FDCWD = -100
_EXCHANGE = 2


@pytest.fixture
def outside(tmp_path: Path) -> bytes:
    """A folder that nothing may touch."""
    path = os.fsencode(tmp_path / "outside")
    os.mkdir(path)
    with open(os.path.join(path, b"x"), "wb") as file:
        file.write(b"theirs")
    return path


def untouched(outside: bytes) -> bool:
    return read_in(outside) == {b"x": (0o644, b"theirs")}


# Planted links


def test_a_directory_that_is_a_link_is_replaced_and_not_followed(field: Field, outside: bytes) -> None:
    field.lay({b"d": os.fsdecode(outside)})
    target: Names = {b"d": (0o755, {b"x": A, b"y": A})}
    assert field.restore(target) == []
    assert field.now() == target
    assert untouched(outside)


def test_a_link_planted_after_the_plan_stops_what_is_below_it(field: Field, outside: bytes) -> None:
    field.lay({b"d": (0o755, {b"x": A})})
    steps = field.plan({b"d": (0o755, {b"x": B, b"y": B})})
    field.forest.plant({})
    os.rename(field.at(b"d"), field.at(b"e"))
    os.symlink(outside, field.at(b"d"))
    outcomes = field.apply(steps)
    assert {one.result for one in outcomes} == {"failed"}
    assert untouched(outside)


def test_a_dangling_link_is_replaced_and_not_written_through(field: Field, outside: bytes) -> None:
    field.lay({b"x": os.fsdecode(outside) + "/new"})
    assert field.restore({b"x": A}) == []
    assert field.now() == {b"x": A}
    assert untouched(outside)


@pytest.mark.parametrize("target", [B, (0o600, b"theirs"), None])
def test_a_hard_link_to_a_file_outside_is_cut_and_not_written_through(
    field: Field, outside: bytes, target: Node | None
) -> None:
    os.link(os.path.join(outside, b"x"), field.at(b"x"))
    wanted: Names = {} if target is None else {b"x": target}
    assert field.restore(wanted) == []
    assert field.now() == wanted
    assert untouched(outside)


def test_two_hard_links_in_the_workspace_can_both_go(field: Field) -> None:
    field.lay({b"a": A})
    os.link(field.at(b"a"), field.at(b"b"))
    assert field.restore({}) == []
    assert field.now() == {}


def test_a_root_that_became_a_link_is_refused(field: Field, outside: bytes) -> None:
    steps = field.plan({b"x": A})
    os.rmdir(field.root)
    os.symlink(outside, field.root)
    with pytest.raises(Unsafe):
        field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=lambda _path: None)
    assert untouched(outside)


def test_a_path_out_of_the_workspace_is_refused_before_the_first_write(field: Field) -> None:
    want = field.forest.entry(b"x", A)
    steps = [
        Step(path=b"good", action="write", want=want),
        Step(path=b"../x", action="write", want=want),
        Step(path=b".git/hooks/x", action="write", want=want),
    ]
    with pytest.raises(Unsafe) as caught:
        field.apply(steps)
    assert caught.value.details == {"paths": ["../x", ".git/hooks/x"]}
    assert field.now() == {}
    with pytest.raises(Unsafe):
        field.applier.present(b"../x")


# A racer that swaps a directory for a link


def _race(one: bytes, other: bytes) -> None:
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    while True:
        rename(_AT_FDCWD, one, _AT_FDCWD, other, _EXCHANGE)


@pytest.mark.chance("when another process swaps in the link")
@pytest.mark.faults
def test_a_directory_swapped_for_a_link_while_restoring_lets_nothing_out(
    field: Field, outside: bytes
) -> None:
    content: Names = {b"f%d" % number: A for number in range(10)}
    write_out(outside, {b"deep": folder(content)})
    before = read_in(outside)
    field.lay({b"d": folder({b"deep": folder(content)})})
    changed: Names = {b"f0": B, b"f1": B, b"new": B, b"more": (0o755, {b"x": B})}
    steps = field.plan({b"d": folder({b"deep": folder(changed)})})
    os.symlink(outside, field.at(b"link"))
    racer = forked(lambda: _race(field.at(b"d"), field.at(b"link")))
    results: set[str] = set()
    try:
        for number in range(100_000):
            if number >= 1000 and results >= {"restored", "failed"}:
                break
            outcomes = field.applier.apply(
                inverse(steps) if number % 2 else steps,
                token=TOKEN,
                objects=field.forest,
                stamp=lambda _path: None,
            ).outcomes
            results |= {one.result for one in outcomes}
    finally:
        os.kill(racer, signal.SIGKILL)
        ended(racer)
    assert results >= {"restored", "failed"}
    assert read_in(outside) == before


# Hostile trees


def _file(forest: Forest, name: bytes) -> Entry:
    return Entry(name=name, kind=FILE, mode=0o644, oid=forest.blob(b"evil"))


def _folder(forest: Forest, name: bytes, *entries: Entry) -> Entry:
    return Entry(name=name, kind=DIRECTORY, mode=0o755, oid=forest.plant_entries(entries).tree)


def _link(forest: Forest, name: bytes, target: bytes) -> Entry:
    return Entry(name=name, kind=LINK, mode=0, oid=forest.blob(target))


HOSTILE: dict[str, Callable[[Forest], list[Entry]]] = {
    "repository": lambda f: [_folder(f, b".git", _file(f, b"config"))],
    "upper case": lambda f: [_folder(f, b".GIT", _file(f, b"config"))],
    "short name": lambda f: [_folder(f, b"git~1", _file(f, b"config"))],
    "stream": lambda f: [_folder(f, b".git::$INDEX_ALLOCATION", _file(f, b"config"))],
    "trailing dot": lambda f: [_folder(f, b".git.", _file(f, b"config"))],
    "trailing space": lambda f: [_folder(f, b".git ", _file(f, b"config"))],
    "nested": lambda f: [_folder(f, b"sub", _folder(f, b".git", _file(f, b"config")))],
    "parent": lambda f: [_folder(f, b"..", _file(f, b"evil"))],
    "self": lambda f: [_folder(f, b".", _file(f, b"evil"))],
    "slash": lambda f: [_file(f, b"../evil")],
    "absolute": lambda f: [_file(f, b"/tmp/lastgood-evil")],
    "empty": lambda f: [_file(f, b"")],
    "zero-width": lambda f: [_folder(f, ".g\u200cit".encode(), _file(f, b"config"))],
    "link and directory": lambda f: [_link(f, b"a", b"../outside"), _folder(f, b"a", _file(f, b"x"))],
    "twice": lambda f: [_file(f, b"a"), _file(f, b"a")],
    "too long": lambda f: [_file(f, b"n" * 300)],
    "zero byte": lambda f: [_file(f, b"a\0b")],
}
ODD: dict[str, Callable[[Forest], list[Entry]]] = {
    "absolute link": lambda f: [_link(f, b"a", b"/etc/passwd")],
    "link out": lambda f: [_link(f, b"a", b"../../..")],
    "attributes as link": lambda f: [_link(f, b".gitattributes", b"../x")],
    "modules as link": lambda f: [_link(f, b".gitmodules", b"../x")],
    "backslashes": lambda f: [_file(f, b"..\\..\\evil")],
    "newline": lambda f: [_file(f, b"a\nb")],
    "not text": lambda f: [_file(f, b"\xff\xfe")],
    "device name": lambda f: [_file(f, b"CON")],
    "case": lambda f: [_file(f, b"A"), _file(f, b"a")],
    "setuid": lambda f: [_file(f, b"a").replace(mode=0o4755)],
    "options": lambda f: [_file(f, b"--help")],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tree_is_refused_before_the_first_write(field: Field, outside: bytes, name: str) -> None:
    entries = [_file(field.forest, b"0-first"), *HOSTILE[name](field.forest)]
    tree = field.forest.plant_entries(entries)
    with pytest.raises(Unsafe):
        field.applier.write_tree(tree, objects=field.forest)
    assert field.now() == {}
    assert untouched(outside)


@pytest.mark.parametrize("name", ODD)
def test_an_odd_tree_is_written_as_it_is_and_nowhere_else(field: Field, outside: bytes, name: str) -> None:
    entries = ODD[name](field.forest)
    outcomes = field.applier.write_tree(field.forest.plant_entries(entries), objects=field.forest)
    assert {one.result for one in outcomes} == {"restored"}
    assert sorted(os.fsencode(found) for found in os.listdir(field.root)) == sorted(e.name for e in entries)
    for entry in entries:
        assert not stat.S_IMODE(os.lstat(field.at(entry.name)).st_mode) & 0o7000
    assert untouched(outside)


# Failures


class Failing(Forest):
    """A store that fails to copy some contents."""

    def __init__(self, sound: Forest, error: Exception, *, after: int = 0) -> None:
        super().__init__()
        self.blobs, self.trees = sound.blobs, sound.trees
        self._error = error
        self._left = after

    def pieces(self, oid: bytes) -> Iterator[bytes]:
        yield from (b"", self.read_blob(oid))  # as of a large one, which is not read ahead

    def copy_blob(self, oid: bytes, descriptor: int) -> int:
        if not self._left:
            os.write(descriptor, b"half")
            raise self._error
        self._left -= 1
        return super().copy_blob(oid, descriptor)


def test_a_full_disk_deletes_nothing_and_leaves_nothing_behind(field: Field) -> None:
    present: Names = {b"new": A, b"old": A}
    field.lay(present)
    steps = field.plan({b"old": B, b"other": B})
    full = Failing(field.forest, OSError(errno.ENOSPC, "No space left on device"), after=1)
    with pytest.raises(Storage, match="full"):
        field.applier.apply(steps, token=TOKEN, objects=full, stamp=stamps(field.root))
    assert field.now() == present


def test_a_disk_that_is_really_full_deletes_nothing_and_leaves_nothing_behind(field: Field) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", field.root, b"tmpfs", 0, b"size=256k"):
        pytest.skip("mounting is not allowed here")
    try:
        present: Names = {b"gone": A, b"old": A}
        field.lay(present)
        large: Names = {b"f%d" % number: (0o644, b"x" * 40_000) for number in range(20)}
        with pytest.raises(Storage, match="full"):
            field.apply(field.plan({b"old": B} | large))
        assert field.now() == present
    finally:
        libc.umount2(field.root, 2)


def test_a_file_larger_than_allowed_fails_alone(field: Field) -> None:
    """A limit on file sizes stands for everything that fails for one file only."""
    import resource

    field.lay({b"a": A})
    steps = field.plan({b"a": (0o644, b"b" * 5000), b"c": B})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        outcomes = field.apply(steps)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(one.path, one.result, one.reason) for one in outcomes] == [
        (b"a", "failed", "file too large"),
        (b"c", "restored", None),
    ]
    assert field.now() == {b"a": A, b"c": B}


def test_a_damaged_content_fails_and_its_file_stays(field: Field) -> None:
    field.lay({b"a": A, b"b": A})
    steps = field.plan({b"a": B, b"b": (0o644, b"c")})
    damaged = Failing(field.forest, Damaged("its bytes are wrong"), after=1)
    outcomes = field.applier.apply(steps, token=TOKEN, objects=damaged, stamp=stamps(field.root)).outcomes
    assert [(one.result, one.reason) for one in outcomes] == [
        ("restored", None),
        ("failed", "damaged in the store: its bytes are wrong"),
    ]
    assert field.now() == {b"a": B, b"b": A}


def test_a_directory_stays_whole_if_the_file_that_replaces_it_cannot_be_written(field: Field) -> None:
    present: Names = {b"d": (0o755, {b"x": A, b"sub": folder({b"y": A})})}
    field.lay(present)
    steps = field.plan({b"d": B})
    damaged = Failing(field.forest, Damaged("its bytes are wrong"))
    outcomes = field.applier.apply(steps, token=TOKEN, objects=damaged, stamp=stamps(field.root)).outcomes
    assert [one.result for one in outcomes] == ["failed", "skipped", "skipped", "skipped"]
    assert field.now() == present


@pytest.mark.parametrize("target", [{b"a": B}, {}, {b"a": "link"}, {b"a": folder({b"x": A})}])
def test_a_file_changed_since_the_scan_is_left_alone(field: Field, target: Names) -> None:
    field.lay({b"a": A})
    steps = field.plan(target)
    evidence = stamps(field.root)
    with open(field.at(b"a"), "wb") as file:
        file.write(b"the latest work")
    outcomes = field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=evidence).outcomes
    assert (outcomes[0].result, outcomes[0].reason) == ("failed", "changed")
    assert field.now() == {b"a": (0o644, b"the latest work")}


def test_a_file_that_came_since_the_scan_is_left_alone(field: Field) -> None:
    steps = field.plan({b"a": B})
    evidence = stamps(field.root)
    field.lay({b"a": A})
    outcomes = field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=evidence).outcomes
    assert (outcomes[0].result, outcomes[0].reason) == ("failed", "changed")
    assert field.now() == {b"a": A}


def test_a_directory_into_which_something_came_does_not_make_room(field: Field) -> None:
    field.lay({b"d": (0o755, {b"x": A})})
    steps = field.plan({b"d": B})
    field.lay({b"d2": A})
    os.rename(field.at(b"d2"), field.at(b"d/new"))
    outcomes = field.apply(steps)
    assert [one.result for one in outcomes] == ["failed", "skipped"]
    assert field.now() == {b"d": (0o755, {b"x": A, b"new": A})}


def test_a_directory_into_which_something_came_is_kept(field: Field) -> None:
    field.lay({b"d": (0o755, {b"x": A})})
    steps = field.plan({})
    field.lay({b"n": A})
    os.rename(field.at(b"n"), field.at(b"d/new"))
    outcomes = field.apply(steps)
    assert [(one.result, one.reason) for one in outcomes] == [("removed", None), ("kept", "not empty")]


def test_a_directory_goes_in_which_names_stay_until_files_are_closed(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3: as on NFS, and on most that FUSE mounts."""
    names = [b"f%d" % number for number in range(6)]
    field.lay({b"d": (0o755, dict.fromkeys(names, A))})
    steps = field.plan({})
    unlink, close = os.unlink, os.close
    hidden: dict[int, bytes] = {}

    def hide(name: bytes, *, dir_fd: int) -> None:
        inode = os.stat(name, dir_fd=dir_fd).st_ino
        hidden[inode] = field.at(b"d/.nfs%d" % inode)
        os.rename(name, hidden[inode], src_dir_fd=dir_fd)

    def uncover(descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        close(descriptor)
        if inode in hidden:
            unlink(hidden.pop(inode))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", hide)
        patch.setattr(os, "close", uncover)
        outcomes = field.apply(steps)
    assert {one.result for one in outcomes} == {"removed"}
    assert field.now() == {}


def test_names_that_stay_are_waited_for_once(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else has them open: each folder of such names would wait as long again."""
    folders = [b"d%d" % number for number in range(5)]
    field.lay({name: folder({b"x": A, b".nfs1": A}) for name in folders})
    steps = field.plan({}, ignored=lambda path: path.endswith(b"/.nfs1"))
    asked: list[float] = []
    monkeypatch.setattr(time, "sleep", asked.append)
    outcomes = field.apply([step.replace(action="rmdir") if step.path in folders else step for step in steps])
    assert [one.reason for one in outcomes if one.path in folders] == ["not empty"] * 5
    assert len([seconds for seconds in asked if seconds]) == 4


def test_a_file_that_is_gone_already_counts_as_removed(field: Field) -> None:
    field.lay({b"a": A, b"d": (0o755, {b"x": A})})
    steps = field.plan({})
    evidence = stamps(field.root)
    os.unlink(field.at(b"a"))
    os.unlink(field.at(b"d/x"))
    os.rmdir(field.at(b"d"))
    outcomes = field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=evidence).outcomes
    assert {one.result for one in outcomes} == {"removed"}


def test_files_already_right_keep_their_times(field: Field) -> None:
    field.lay({b"a": A, b"b": A})
    before = os.stat(field.at(b"a"))
    field.restore({b"a": A, b"b": B})
    assert os.stat(field.at(b"a")) == before


def test_exact_permissions_come_back_whatever_the_umask(field: Field) -> None:
    before = os.umask(0o077)
    try:
        target: Names = {b"a": (0o666, b"a"), b"d": folder({b"x": (0o000, b"x")}, 0o777)}
        assert field.restore(target) == []
    finally:
        os.umask(before)
    assert field.now() == target


def test_nothing_is_touched_on_another_file_system(field: Field) -> None:
    os.mkdir(field.at(b"mount"))
    mounted = ctypes.CDLL(None, use_errno=True).mount(b"none", field.at(b"mount"), b"tmpfs", 0, b"size=64k")
    if mounted:
        pytest.skip("mounting is not allowed here")
    try:
        with open(field.at(b"mount/x"), "wb") as file:
            file.write(b"theirs")
        outcomes = field.apply(field.plan({b"mount": (0o755, {b"y": A})}))
        assert {(one.result, one.reason) for one in outcomes if one.path != b"mount"} == {
            ("failed", "it lies on another file system")
        }
        assert os.listdir(field.at(b"mount")) == [b"x"]
    finally:
        ctypes.CDLL(None).umount2(field.at(b"mount"), 2)


def test_a_file_that_something_is_mounted_on_is_told_as_that(field: Field) -> None:
    """Containers are given single files so; the disk says no more than that it is busy."""
    for name in (b"bound", b"file"):
        with open(field.at(name), "wb") as file:
            file.write(name)
    if ctypes.CDLL(None).mount(field.at(b"bound"), field.at(b"file"), None, 4096, None):
        pytest.skip("mounting is not allowed here")
    try:
        outcomes = field.apply(field.plan({b"bound": (0o644, b"bound"), b"file": (0o644, b"other")}))
        assert [(one.path, one.result, one.reason) for one in outcomes] == [
            (b"file", "failed", "something is mounted on it")
        ]
        assert sorted(os.listdir(field.at(b"."))) == [b"bound", b"file"]
    finally:
        ctypes.CDLL(None).umount2(field.at(b"file"), 2)


def test_what_is_busy_for_another_reason_is_not_said_to_be_mounted_on(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_descriptor: int, _mode: int) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    with open(field.at(b"file"), "wb") as file:
        file.write(b"file")
    monkeypatch.setattr(os, "fchmod", busy)
    outcomes = field.apply(field.plan({b"file": (0o600, b"file")}))
    assert [(one.path, one.result, one.reason) for one in outcomes] == [(b"file", "failed", "it is in use")]


def _as_nobody(act: Callable[[], None]) -> int:
    """Do something as a user without privileges, and return 0 if it went well."""

    def work() -> None:
        be_nobody()
        act()

    return ended(forked(work))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_read_only_directories_of_our_own_are_changed_and_stay_read_only() -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        root = os.fsencode(made)
        field = Field(root)
        present: Names = {
            b"d": (0o555, {b"gone": A, b"x": A, b"sub": folder({b"y": A}, 0o500)}),
            b"k": (0o555, {b"in": folder({b"z": A}, 0o555)}),
            b"f": A,
            b"locked": (0o000, {b"p": A}),
        }
        field.lay(present)
        target: Names = {
            b"d": (0o555, {b"new": B, b"x": B, b"sub": folder({b"y": B}, 0o500)}),
            b"k": B,
            b"f": (0o555, {b"g": A}),
            b"locked": (0o000, {b"p": B}),
        }
        steps = field.plan(target)
        for above, directories, files in os.walk(root):
            for name in directories + files:
                os.chown(os.path.join(above, name), 65534, 65534, follow_symlinks=False)
        os.chown(root, 65534, 65534)
        evidence = stamps(root)

        def act() -> None:
            outcomes = field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=evidence).outcomes
            assert not [one for one in outcomes if one.result in {"failed", "skipped"}]

        assert _as_nobody(act) == 0
        assert field.now() == target


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_closed_directory_is_closed_again_when_left_overs_in_it_are_cleared() -> None:
    """T7."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        field = Field(os.fsencode(made))
        field.lay({b"d": folder({b".lastgood-%b-5" % TOKEN.encode(): B, b"x": A}, 0o555)})
        for path in (b"", b"d"):
            os.chown(field.at(path), 65534, 65534)
        assert _as_nobody(lambda: _cleared(field, b"d")) == 0
        assert field.now() == {b"d": folder({b"x": A}, 0o555)}


def _cleared(field: Field, place: bytes) -> None:
    assert field.applier.clear_temporaries(TOKEN, [place]) == ()


def test_a_directory_left_open_is_closed_unless_somebody_gave_it_other_permissions(field: Field) -> None:
    """T7: an interrupted apply adds what its owner needs, and nothing else."""
    field.lay({b"ours": folder({}, 0o755), b"shut": folder({}, 0o555), b"theirs": folder({}, 0o750)})
    closed = {b"ours": 0o555, b"shut": 0o555, b"theirs": 0o555, b"gone": 0o555}
    field.applier.apply((), token=TOKEN, objects=field.forest, stamp=lambda _path: None, closed=closed)
    assert field.now() == {
        b"ours": folder({}, 0o555),
        b"shut": folder({}, 0o555),
        b"theirs": folder({}, 0o750),
    }


def test_only_directories_that_keep_their_owner_out_are_told_with_their_permissions(field: Field) -> None:
    """T7: a journal names them."""
    shut, blind = folder({b"in": folder({}, 0o755)}, 0o555), folder({}, 0o377)
    field.lay({b"blind": blind, b"file": A, b"open": folder({}, 0o700), b"shut": shut})
    asked = (b"", b"blind", b"file", b"gone", b"gone/in", b"open", b"shut", b"shut/in")
    assert field.applier.closed(asked) == {b"blind": 0o377, b"shut": 0o555}


def test_a_directory_behind_a_link_is_not_told_as_closed(field: Field, outside: bytes) -> None:
    """T7: what a journal names is closed by whoever recovers."""
    os.mkdir(os.path.join(outside, b"shut"), 0o555)
    field.lay({b"way": os.fsdecode(outside)})
    assert field.applier.closed((b"", b"way", b"way/shut")) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_may_not_be_changed_fails_and_the_rest_goes_on() -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        root = os.fsencode(made)
        field = Field(root)
        field.lay({b"ours": (0o755, {b"x": A}), b"theirs": (0o755, {b"x": A, b"y": A})})
        steps = field.plan({b"ours": (0o755, {b"x": B}), b"theirs": (0o755, {b"x": B})})
        os.chown(field.at(b"ours"), 65534, 65534)
        os.chown(field.at(b"ours/x"), 65534, 65534)
        os.chmod(root, 0o755)
        evidence = stamps(root)

        def act() -> None:
            outcomes = field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=evidence).outcomes
            assert [(one.path, one.result, one.reason) for one in outcomes] == [
                (b"ours/x", "restored", None),
                (b"theirs/x", "failed", "permission denied"),
                (b"theirs/y", "failed", "permission denied"),
            ]

        assert _as_nobody(act) == 0
        assert field.now()[b"theirs"] == (0o755, {b"x": A, b"y": A})


# Interruptions


class Stuck(Forest):
    """A store that says so in the middle of copies, and waits until it is killed."""

    def __init__(self, sound: Forest, *, after: int, tell: int) -> None:
        super().__init__()
        self.blobs, self.trees = sound.blobs, sound.trees
        self._left = after
        self._tell = tell

    def pieces(self, oid: bytes) -> Iterator[bytes]:
        yield from (b"", self.read_blob(oid))  # as of a large one, which is not read ahead

    def copy_blob(self, oid: bytes, descriptor: int) -> int:
        if not self._left:
            os.write(self._tell, b"stuck")
            signal.pause()
        self._left -= 1
        return super().copy_blob(oid, descriptor)


def test_after_a_kill_while_writing_no_temporary_file_is_left(field: Field) -> None:
    present: Names = {b"d": (0o755, {b"x": A, b"y": A}), b"f": A}
    field.lay(present)
    steps = field.plan({b"d": (0o755, {b"x": B, b"y": B}), b"f": (0o755, {b"g": B})})
    hearing, tell = os.pipe()
    stuck = Stuck(field.forest, after=1, tell=tell)
    child = forked(lambda: field.applier.apply(steps, token=TOKEN, objects=stuck, stamp=stamps(field.root)))
    os.close(tell)
    assert os.read(hearing, 5) == b"stuck"
    os.close(hearing)
    os.kill(child, signal.SIGKILL)
    ended(child)
    assert any(name.startswith(b".lastgood-") for name in os.listdir(field.at(b"d")))
    assert any(name.endswith(b".aside") for name in os.listdir(field.root))
    field.applier.clear_temporaries(TOKEN, [b"", b"d", b"f", b"nowhere"], steps=steps)
    # The directory that took the file's place is there already: what was aside is held by the guard.
    assert field.now() == {b"d": (0o755, {b"x": A, b"y": A}), b"f": (0o1700, {})}


def _aside(field: Field, name: bytes, node: Node) -> None:
    wrapper = b".lastgood-%b-3.aside" % TOKEN.encode()
    os.mkdir(field.at(wrapper))
    field.lay({name: node})
    os.rename(field.at(name), field.at(wrapper + b"/" + name))


@pytest.mark.parametrize("node", [A, "link", (0o555, {b"x": A, b"sub": (0o755, {})})])
def test_what_was_set_aside_goes_back_if_its_path_is_free(field: Field, node: Node) -> None:
    _aside(field, b"p", node)
    field.applier.clear_temporaries(TOKEN, [b""])
    assert field.now() == {b"p": node}


@pytest.mark.parametrize("node", [A, "link", (0o555, {b"x": A, b"sub": folder({b"y": A})})])
def test_what_was_set_aside_goes_if_its_path_is_taken(field: Field, node: Node) -> None:
    _aside(field, b"p", node)
    field.lay({b"p": B})
    stored = {field.forest.blob(content) for content in (b"a", b"link")}
    assert field.applier.clear_temporaries(TOKEN, [b""], stored=stored.__contains__) == ()
    assert field.now() == {b"p": B}


def test_what_came_into_a_directory_set_aside_is_kept_outside(field: Field) -> None:
    """T12b: and named; what the guard holds is gone."""
    _aside(field, b"p", (0o755, {b"x": A, b"log": (0o644, b"still running")}))
    field.lay({b"p": B})
    stored = {field.forest.blob(b"a")}
    (outcome,) = field.applier.clear_temporaries(TOKEN, [b""], stored=stored.__contains__)
    assert field.now() == {b"p": B}
    assert outcome.kept == os.path.join(field.kept, TOKEN.encode(), b"p")
    assert read_in(outcome.kept) == {b"log": (0o644, b"still running")}


def test_what_somebody_has_open_in_a_directory_set_aside_is_kept_and_told(field: Field) -> None:
    """T12b."""
    newer: Node = (0o644, b"newer")
    _aside(field, b"p", (0o755, {b"x": A, b"y": B}))
    field.lay({b"p": newer})
    stored = {field.forest.blob(content) for content in (b"a", b"b")}
    (wrapper,) = (name for name in os.listdir(field.root) if name.endswith(b".aside"))
    with open(field.at(wrapper + b"/p/x"), "r+b", buffering=0) as writing:
        (outcome,) = field.applier.clear_temporaries(TOKEN, [b""], stored=stored.__contains__)
        writing.write(b"more")
    assert field.now() == {b"p": newer}
    assert read_in(not_none(outcome.kept)) == {b"x": (0o644, b"more")}
    assert not_none(outcome.reason).startswith("open for writing in ")


def test_temporary_files_of_others_are_left_alone(field: Field) -> None:
    names: Names = {b".lastgood-op_ffffffffffffffff-1": A, b".lastgood": A}
    field.lay(names)
    field.applier.clear_temporaries(TOKEN, [b""])
    assert field.now() == names


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_may_not_be_cleared_is_told_and_the_rest_goes() -> None:
    """T12b: a directory that nobody may look into, and one name among others."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        root = os.fsencode(made)
        field = Field(root)
        first, second = (b".lastgood-%b-%d" % (TOKEN.encode(), number) for number in (1, 2))
        both = {first: A, second: A}
        field.lay({b"closed": (0o700, dict(both)), b"open": (0o755, {}), b"sticky": (0o755, dict(both))})
        for path in (b"", b"open", b"sticky/" + first):
            os.chown(field.at(path), 65534, 65534)
        os.chmod(field.at(b"sticky"), 0o1777)
        field.lay({b"open/" + first: A})
        places = (b"closed", b"sticky", b"open", b"nowhere")

        def act() -> None:
            outcomes = field.applier.clear_temporaries(TOKEN, places)
            assert [(one.path, one.left, one.result, one.reason) for one in outcomes] == [
                (
                    b"closed",
                    b"closed",
                    "skipped",
                    "operation not permitted: closed cannot be cleared",
                ),
                (
                    b"sticky/" + second,
                    b"sticky/" + second,
                    "skipped",
                    f"operation not permitted: {(b'sticky/' + second).decode()} cannot be cleared",
                ),
            ]

        assert _as_nobody(act) == 0
        assert field.now() == {
            b"closed": (0o700, both),
            b"open": (0o755, {}),
            b"sticky": (0o1777, {second: A}),
        }


# Reading


def test_what_is_present_is_told_with_its_id(field: Field) -> None:
    large: Node = (0o600, b"x" * (3 << 20))
    field.lay({b"d": (0o755, {b"f": A, b"l": "elsewhere", b"large": large})})
    present = field.applier.present
    assert present(b"d/f") == field.forest.entry(b"f", A)
    assert present(b"d/l") == field.forest.entry(b"l", "elsewhere")
    assert present(b"d/large") == field.forest.entry(b"large", large)
    assert present(b"d") == Entry(name=b"d", kind=DIRECTORY, mode=0o755, oid=b"")
    assert present(b"") is not None
    assert present(b"d/f/x") is None
    assert present(b"nowhere/x") is None


def test_what_cannot_be_held_has_no_id(field: Field) -> None:
    os.mkfifo(field.at(b"pipe"), 0o644)
    assert field.applier.present(b"pipe") == Entry(name=b"pipe", kind=FILE, mode=0o644, oid=b"")


def test_a_path_beyond_a_link_is_not_present(field: Field, outside: bytes) -> None:
    os.symlink(outside, field.at(b"l"))
    assert field.applier.present(b"l/x") is None


def test_a_content_is_read_only_while_it_is_the_one_asked_for(field: Field) -> None:
    field.lay({b"f": A, b"l": "elsewhere"})
    entry, link = field.forest.entry(b"f", A), field.forest.entry(b"l", "elsewhere")
    assert field.applier.read(b"f", entry) == b"a"
    assert field.applier.read(b"l", link) == b"elsewhere"
    assert field.applier.read(b"f", field.forest.entry(b"f", B)) is None
    assert field.applier.read(b"nowhere/f", entry) is None
    assert field.applier.read(b"l", entry) is None


def test_a_fifo_can_be_discarded_for_a_file(field: Field) -> None:
    os.mkfifo(field.at(b"pipe"), 0o644)
    want = field.forest.entry(b"pipe", A)
    have = field.applier.present(b"pipe")
    [outcome] = field.apply([Step(path=b"pipe", action="write", want=want, have=have)])
    assert outcome.result == "restored"
    assert field.now() == {b"pipe": A}


# Whole trees


def test_a_tree_is_written_whole_into_a_new_folder(field: Field) -> None:
    names: Names = {b"a": A, b"d": (0o555, {b"e": folder({}, 0o700), b"l": "x"}), b"m": (0o4711, b"m")}
    os.rmdir(field.root)
    outcomes = field.applier.write_tree(field.forest.plant(names), objects=field.forest)
    assert {one.result for one in outcomes} == {"restored"}
    assert field.now() == names | {b"m": (0o711, b"m")}


def test_a_folder_that_is_not_empty_is_refused(field: Field) -> None:
    field.lay({b"a": A})
    with pytest.raises(Unsafe, match="not empty"):
        field.applier.write_tree(field.forest.plant({b"b": B}), objects=field.forest)
    assert field.now() == {b"a": A}


def test_many_files_and_deep_directories_are_written(field: Field) -> None:
    deep: Names = {b"x": A}
    for _ in range(60):
        deep = {b"d": (0o755, deep)}
    names: Names = {b"%d" % number: (0o755, {b"f%d" % n: A for n in range(20)}) for number in range(50)}
    assert field.restore(names | deep) == []
    assert field.now() == names | deep
    assert field.restore({}) == []
    assert field.now() == {}
