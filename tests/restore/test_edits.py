"""Nobody's edit is lost between the last look at a path and its replacement (rule T12b)."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from lastgood import renames
from lastgood.directories import Directories
from lastgood.files import DiskWork
from lastgood.model.operation import Outcome, Step
from lastgood.model.tree import FILE, Entry
from lastgood.restore.look import discard
from lastgood.restore.site import Site, Threads
from tools.forest import TOKEN, Field, Names, Node, folder, read_in, stamps
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.renames import Rename


Act = Callable[[], None]

A: Node = (0o644, b"a")
B: Node = (0o644, b"b")
# As long as what is expected: nothing but its bytes tells it from that.
EDIT: Node = (0o644, b"e")
NEWER: Node = (0o644, b"and then this")


class Window:
    """Lets somebody act just before, or just after, the nth change of names that a restore makes."""

    def __init__(self, *, exchanging: bool) -> None:
        system = not_none(renames.of_system())
        self._system: Rename = system
        self.exchanging = exchanging
        self._acts: dict[bytes, list[Act]] = {}

    def before(self, name: bytes, *acts: Act) -> None:
        """Do one thing after another, each just before the next time that a name is given away."""
        self._acts[name] = list(acts)

    def __call__(self, directory: int, name: bytes, target: int, to: bytes, flags: int) -> int:
        for one in (name, to):
            if self._acts.get(one):
                self._acts[one].pop(0)()
        if not self.exchanging:
            return errno.EINVAL
        return self._system(directory, name, target, to, flags)


@pytest.fixture(params=[True, False], ids=["exchanging", "without"])
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Window:
    """The system's call as it is, and as it is where a file system does not know it."""
    made = Window(exchanging=request.param)
    monkeypatch.setattr(renames, "_renames", [made])
    return made


def writes(field: Field, path: bytes, node: Node) -> Act:
    """An editor that writes in place."""

    def act() -> None:
        assert isinstance(node[1], bytes)
        with open(field.at(path), "wb") as file:
            file.write(node[1])

    return act


def replaces(field: Field, path: bytes, node: Node) -> Act:
    """An editor that writes beside and renames."""

    def act() -> None:
        writes(field, path + b"~", node)()
        os.rename(field.at(path + b"~"), field.at(path))

    return act


def makes_directory(field: Field, path: bytes) -> Act:
    """Somebody who puts a directory in a file's place."""

    def act() -> None:
        os.unlink(field.at(path))
        os.mkdir(field.at(path))
        writes(field, path + b"/in it", EDIT)()

    return act


def makes_link(field: Field, path: bytes) -> Act:
    """Somebody who puts a link in a file's place."""

    def act() -> None:
        os.unlink(field.at(path))
        os.symlink(b"elsewhere", field.at(path))

    return act


def open_files() -> list[str]:
    """Return the names of what is open in this process."""
    names = []
    for one in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # another thread closed it
            names.append(os.readlink(f"/proc/self/fd/{one}"))
    return names


def is_gone_from(field: Field, file: str) -> bool:
    return file.startswith(os.fsdecode(field.root)) and file.endswith(".old (deleted)")


EDITORS = pytest.mark.parametrize("editor", [writes, replaces], ids=["in place", "by rename"])


def results(outcomes: Sequence[Outcome]) -> dict[bytes, tuple[str, str | None]]:
    return {one.path: (one.result, one.reason) for one in outcomes}


def kept_of(outcomes: Sequence[Outcome]) -> list[bytes]:
    """Return the contents of what was kept outside."""
    contents = []
    for one in outcomes:
        if one.kept is not None:
            with open(one.kept, "rb") as file:
                contents.append(file.read())
    return contents


def assert_stays(field: Field, window: Window, steps: tuple[Step, ...], act: Act, now: Node = EDIT) -> None:
    """What somebody does just before a path gives up its name stays, and is told."""
    window.before(b"a", act)
    outcomes = field.apply(steps)
    assert field.now() == {b"a": now}
    assert results(outcomes)[b"a"] == ("failed", "changed")


# A file is replaced


@pytest.mark.parametrize(
    ("made", "now"),
    [
        (lambda field: writes(field, b"a", EDIT), EDIT),
        (lambda field: replaces(field, b"a", EDIT), EDIT),
        (lambda field: makes_directory(field, b"a"), (0o755, {b"in it": EDIT})),
        (lambda field: makes_link(field, b"a"), "elsewhere"),
    ],
    ids=["an edit in place", "an edit by rename", "a directory", "a link"],
)
def test_what_is_made_of_a_file_just_before_its_replacement_stays(
    field: Field, window: Window, made: Callable[[Field], Act], now: Node
) -> None:
    field.lay({b"a": A})
    assert_stays(field, window, field.plan({b"a": B}), made(field), now)


def test_a_file_deleted_just_before_the_replacement_stays_deleted(field: Field, window: Window) -> None:
    field.lay({b"a": A})
    steps = field.plan({b"a": B})
    window.before(b"a", lambda: os.unlink(field.at(b"a")))
    (outcome,) = field.apply(steps)
    assert outcome.result == "failed"
    assert field.now() == {}


def test_of_two_edits_around_a_replacement_the_newer_stays_and_the_older_is_kept(
    field: Field, window: Window
) -> None:
    field.lay({b"a": A})
    steps = field.plan({b"a": B})
    edits = [replaces(field, b"a", EDIT), replaces(field, b"a", NEWER)]
    if window.exchanging:
        window.before(b"a", *edits)
    else:  # the first takes it out, the second brings the new content
        window.before(b"a", edits[0], lambda: None, edits[1])
    outcomes = field.apply(steps)
    assert field.now() == {b"a": NEWER}
    assert kept_of(outcomes) == [EDIT[1]]
    assert outcomes[0].result == "failed"
    assert os.fsdecode(outcomes[0].kept or b"?") in not_none(outcomes[0].reason)


def thrice(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a path be edited before it is taken, before it is put back, and after that: without exchange."""
    window = Window(exchanging=False)
    edits = (replaces(field, b"a", EDIT), replaces(field, b"a", NEWER), writes(field, b"a", B))

    def nothing() -> None:
        pass

    window.before(b"a", edits[0], nothing, nothing, edits[1], nothing, edits[2])
    monkeypatch.setattr(renames, "_renames", [window])


def test_of_three_edits_the_newest_stays_and_both_others_are_kept_and_named(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    field.lay({b"a": A})
    steps = field.plan({b"a": (0o644, b"wanted")})
    thrice(field, monkeypatch)
    (outcome,) = field.apply(steps)
    assert field.now() == {b"a": B}
    assert outcome.kept is not None
    folder_kept = os.path.dirname(outcome.kept)
    assert outcome.kept == os.path.join(folder_kept, b"a")
    assert read_in(folder_kept) == {b"a": EDIT, b"a.2": NEWER}
    said = os.fsdecode(folder_kept)
    assert results([outcome])[b"a"] == (
        "failed",
        f"changed; what was there is kept in {said}/a; what came after it is kept in {said}/a.2",
    )


@pytest.mark.parametrize("failures", [1, 2, 9])
def test_of_three_edits_both_that_are_no_more_are_named_although_the_disk_fails(
    field: Field, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """What cannot be brought out is left in the workspace, for `recover` to take away."""
    field.lay({b"a": A})
    steps, mkdir, left = field.plan({b"a": (0o644, b"wanted")}), os.mkdir, [failures]

    def failing(path: bytes, mode: int, *, dir_fd: int | None = None) -> None:
        if left[0] and path.endswith(b"-kept"):
            left[0] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        mkdir(path, mode, dir_fd=dir_fd)

    thrice(field, monkeypatch)
    monkeypatch.setattr(os, "mkdir", failing)
    (outcome,) = field.apply(steps)
    now = field.now()
    assert now[b"a"] == B
    others = {name: node for name, node in now.items() if name != b"a"}
    if os.path.isdir(field.kept):
        kept = os.path.join(field.kept, TOKEN.encode())
        others |= {os.path.join(kept, name): node for name, node in read_in(kept).items()}
    assert sorted(others.values(), key=str) == sorted([EDIT, NEWER], key=str)
    for place in others:
        assert os.fsdecode(place) in (outcome.reason or "")


# Somebody has it open


def test_what_somebody_has_open_for_writing_is_kept_outside_and_named(field: Field, window: Window) -> None:
    field.lay({b"a": A, b"gone": A})
    steps = field.plan({b"a": B})
    with open(field.at(b"a"), "r+b", buffering=0) as one, open(field.at(b"gone"), "r+b", buffering=0) as two:
        outcomes = field.apply(steps)
        one.write(b"more of one")
        two.write(b"more of two")
    assert field.now() == {b"a": B}
    assert [one.result for one in outcomes] == ["restored", "removed"]
    assert sorted(kept_of(outcomes)) == [b"more of one", b"more of two"]
    for outcome in outcomes:
        assert f"(pid {os.getpid()})" in (outcome.reason or "")
    assert read_in(os.path.dirname(outcomes[0].kept or b"")).keys() == {b"a", b"gone"}


def test_what_is_kept_is_named_although_the_disk_fails_when_it_has_moved(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    field.lay({b"a": A})
    steps, sync = field.plan({b"a": B}), os.fsync

    def failing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(f"/{TOKEN}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    with open(field.at(b"a"), "r+b", buffering=0) as one:
        monkeypatch.setattr(os, "fsync", failing)
        outcomes = field.apply(steps)
        monkeypatch.undo()
        one.write(b"more of one")
    assert kept_of(outcomes) == [b"more of one"]


def test_what_somebody_has_mapped_for_writing_is_kept_outside(field: Field, window: Window) -> None:
    field.lay({b"a": A})
    steps = field.plan({b"a": B})
    with open(field.at(b"a"), "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 1)
    outcomes = field.apply(steps)
    mapped[0:1] = b"!"
    mapped.close()
    assert field.now() == {b"a": B}
    assert kept_of(outcomes) == [b"!"]


def test_an_edit_of_somebody_who_has_it_open_is_put_back(field: Field, window: Window) -> None:
    field.lay({b"a": A})
    steps = field.plan({b"a": B})
    with open(field.at(b"a"), "r+b", buffering=0) as file:
        window.before(b"a", lambda: (file.write(b"one, "), None)[1])
        outcomes = field.apply(steps)
        file.write(b"two")
    assert field.now() == {b"a": (0o644, b"one, two")}
    assert results(outcomes) == {b"a": ("failed", "changed")}


@pytest.fixture
def apart(tmp_path: object) -> Iterator[Field]:
    """A workspace on another disk than the folder for what is kept."""
    memory = "/dev/shm"
    if not os.path.isdir(memory) or os.stat(memory).st_dev == os.stat(str(tmp_path)).st_dev:
        pytest.skip("there are no two file systems here")
    with tempfile.TemporaryDirectory(dir=memory) as made:
        field = Field(os.fsencode(made) + b"/workspace", kept=os.fsencode(str(tmp_path)) + b"/kept")
        os.mkdir(field.root)
        yield field


def test_what_somebody_has_open_stays_where_the_store_is_on_another_disk(
    apart: Field, window: Window
) -> None:
    apart.lay({b"a": A, b"gone": A})
    steps = apart.plan({b"a": B})
    with open(apart.at(b"a"), "r+b", buffering=0) as one, open(apart.at(b"gone"), "r+b", buffering=0) as two:
        outcomes = apart.apply(steps)
        one.write(b"more of one")
        two.write(b"more of two")
    assert apart.now() == {b"a": (0o644, b"more of one"), b"gone": (0o644, b"more of two")}
    for outcome in outcomes:
        assert outcome.result == "failed"
        assert f"(pid {os.getpid()}), and the store is on another disk" in (outcome.reason or "")


@pytest.mark.parametrize(
    ("before", "after", "inside"),
    [(folder({b"in": A, b"sub": folder({b"x": A})}), B, b"/in"), (A, folder({b"in": A}), b"")],
    ids=["a directory for a file", "a file for a directory"],
)
def test_what_made_room_and_somebody_has_open_is_left_and_named_where_the_store_is_on_another_disk(
    apart: Field, before: Node, after: Node, inside: bytes
) -> None:
    """T12b: as kept outside was told what is not there, and what is left was not."""
    apart.lay({b"a": before})
    steps = apart.plan({b"a": after})
    with open(apart.at(b"a" + inside), "r+b", buffering=0) as file:
        outcome = next(one for one in apart.apply(steps) if one.path == b"a")
        file.write(b"more")
    left = not_none(outcome.left)
    with open(apart.at(left + inside), "rb") as file:
        assert file.read() == b"more"
    assert (outcome.result, outcome.kept) == ("failed", None)
    assert f"and the store is on another disk; what was there is left in {os.fsdecode(left)}" in (
        outcome.reason or ""
    )
    assert read_in(apart.kept) == {TOKEN.encode(): folder({}, 0o700)}


def test_the_older_of_two_edits_is_kept_on_another_disk(apart: Field) -> None:
    apart.lay({b"a": A})
    steps = apart.plan({b"a": B})
    window = Window(exchanging=True)
    window.before(b"a", makes_directory(apart, b"a"), replaces(apart, b"a", NEWER))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renames, "_renames", [window])
        (outcome,) = apart.apply(steps)
    assert apart.now() == {b"a": NEWER}
    assert read_in(not_none(outcome.kept)) == {b"in it": EDIT}


@pytest.fixture
def edited(apart: Field, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Outcome]:
    """Restore a file that becomes a directory, and then a file: the directory is kept on the other disk."""

    def make() -> None:
        makes_directory(apart, b"a")()
        os.makedirs(apart.at(b"a/sub/empty"))
        writes(apart, b"a/sub/x", EDIT)()

    def restore() -> Outcome:
        apart.lay({b"a": A})
        steps = apart.plan({b"a": B})
        window = Window(exchanging=True)
        window.before(b"a", make, replaces(apart, b"a", NEWER))
        monkeypatch.setattr(renames, "_renames", [window])
        (outcome,) = apart.apply(steps)
        assert apart.now()[b"a"] == NEWER
        return outcome

    return restore


WHOLE: Names = {b"in it": EDIT, b"sub": folder({b"empty": folder({}, 0o700), b"x": EDIT}, 0o700)}


def test_what_is_kept_on_another_disk_has_its_permissions(apart: Field) -> None:
    apart.lay({b"a": A})
    steps = apart.plan({b"a": B})

    def act() -> None:
        makes_directory(apart, b"a")()
        os.chmod(apart.at(b"a/in it"), 0o666)

    window = Window(exchanging=True)
    window.before(b"a", act, replaces(apart, b"a", NEWER))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renames, "_renames", [window])
        (outcome,) = apart.apply(steps)
    assert read_in(not_none(outcome.kept)) == {b"in it": (0o666, EDIT[1])}


def test_what_was_edited_before_it_would_go_is_never_missed(field: Field, window: Window) -> None:
    """T12b: whoever reads it finds it all the time."""
    field.lay({b"a": A, b"b": B})
    steps, scanned = field.plan({b"b": B}), stamps(field.root)
    writes(field, b"a", EDIT)()
    missed: list[bytes] = []
    window.before(b"a", lambda: missed.append(b"a"))
    outcomes = field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=scanned).outcomes
    assert results(outcomes) == {b"a": ("failed", "changed")}
    assert missed == []


def test_nothing_is_deleted_before_the_names_of_its_copy_are_on_the_other_disk(
    apart: Field, edited: Callable[[], Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T12b: up to the folder that holds the one for what is kept."""
    synced: dict[int, list[str]] = {}
    unsynced, looked = set(), []
    sync, unlink = os.fsync, os.unlink

    def watched_sync(descriptor: int) -> None:
        sync(descriptor)
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            synced[os.fstat(descriptor).st_ino] = sorted(os.listdir(descriptor))

    def watched_unlink(name: bytes, *, dir_fd: int | None = None) -> None:
        if name in {b"in it", b"x"}:
            looked.append(name)
            for place in (os.path.dirname(apart.kept), *(one for one, _, _ in os.walk(apart.kept))):
                if synced.get(os.stat(place).st_ino) != sorted(os.fsdecode(one) for one in os.listdir(place)):
                    unsynced.add(place)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "unlink", watched_unlink)
    outcome = edited()
    assert sorted(looked) == [b"in it", b"x"]
    assert unsynced == set()
    assert read_in(outcome.kept or b"") == WHOLE


def test_nothing_is_deleted_where_the_other_disk_does_not_take_its_copy(
    apart: Field, edited: Callable[[], Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def failing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(f"/{TOKEN}/a/sub"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    outcome = edited()
    assert outcome.kept is None
    assert read_in(apart.at(outcome.left or b"?")) == {
        b"in it": EDIT,
        b"sub": folder({b"empty": folder({}), b"x": EDIT}),
    }
    assert read_in(apart.kept) == {TOKEN.encode(): folder({}, 0o700)}


def test_what_came_while_the_rest_was_copied_is_left_and_named_beside_the_copy(
    apart: Field, edited: Callable[[], Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def watched(descriptor: int) -> None:
        sync(descriptor)
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(f"/{TOKEN}/a/sub"):
            (old,) = (name for name in os.listdir(apart.root) if name.endswith(b".old"))
            writes(apart, old + b"/late", EDIT)()

    monkeypatch.setattr(os, "fsync", watched)
    outcome = edited()
    assert read_in(outcome.kept or b"") == WHOLE
    assert read_in(apart.at(outcome.left or b"?"))[b"late"] == EDIT
    for place in (outcome.kept, outcome.left):
        assert os.fsdecode(place or b"?") in (outcome.reason or "")


def test_a_file_with_another_name_needs_no_keeping(field: Field, window: Window) -> None:
    field.lay({b"a": A})
    os.link(field.at(b"a"), field.root + b"-link")
    steps = field.plan({b"a": B})
    with open(field.at(b"a"), "r+b", buffering=0) as file:
        (outcome,) = field.apply(steps)
        file.write(b"through the other name")
    assert (outcome.result, outcome.kept) == ("restored", None)
    with open(field.root + b"-link", "rb") as file:
        assert file.read() == b"through the other name"


def test_who_opens_a_file_while_it_is_looked_at_keeps_it_and_ends_nobody(field: Field) -> None:
    """The kernel tells the holder of a lease by a signal, whose default would end the process."""
    field.lay({b"a": A})
    directory = os.open(field.root, os.O_RDONLY)
    opener = "import os, sys; os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)"

    def expected(_entry: object) -> bool:
        said = subprocess.run(
            [sys.executable, "-c", opener, field.at(b"a")], check=False, capture_output=True, text=True
        )
        assert "BlockingIOError" in said.stderr
        return True

    try:
        assert discard(b"a", directory, expected=expected) == "held"
    finally:
        os.close(directory)
    assert field.now() == {b"a": A}


def test_a_file_that_lives_on_by_another_name_is_held_no_longer_than_the_look(field: Field) -> None:
    """Who opens the other name for writing would have to wait for the lease."""
    field.lay({b"a": A, b"b": B})
    os.link(field.at(b"b"), field.root + b"-link")
    directory = os.open(field.root, os.O_RDONLY)
    held: list[int] = []

    for name in (b"a", b"b"):
        fate = discard(name, directory, expected=lambda _: True, hold=held.append)
        assert fate == "gone"
    os.close(directory)

    (file,) = held
    assert os.pread(file, 9, 0) == A[1]
    os.close(file)
    assert field.now() == {}


def test_what_was_handed_over_is_not_closed_behind_who_is_interrupted_then(field: Field) -> None:
    """Its number might be another file's by the time it is closed once more."""
    field.lay({b"a": A})
    directory = os.open(field.root, os.O_RDONLY)
    held: list[int] = []

    def interrupted(descriptor: int) -> None:
        held.append(descriptor)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        discard(b"a", directory, expected=lambda _: True, hold=interrupted)
    os.close(directory)

    (file,) = held
    assert os.pread(file, 9, 0) == A[1]
    os.close(file)


def test_what_is_gone_and_open_is_closed_although_who_begins_that_is_interrupted(field: Field) -> None:
    class Interrupted(Threads):
        def beside(self, work: Act) -> DiskWork:  # noqa: ARG002 - the protocol's
            raise KeyboardInterrupt

    with Directories(field.root) as directories:
        site = Site(directories, token=TOKEN, stamp=lambda _path: None, threads=Interrupted())
        for _ in range(9):
            site.hold(os.open(field.root, os.O_RDONLY))
        with pytest.raises(KeyboardInterrupt):
            site.close_gone(beside=True)
        assert site.close_gone()
        assert open_files().count(os.fsdecode(field.root)) == 1  # the one by which it works


def test_where_nothing_can_be_opened_what_is_gone_and_open_still_is_closed_first(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [b"%d" % number for number in range(9)]
    field.lay(dict.fromkeys(files, A))
    steps, system = field.plan(dict.fromkeys(files, B)), os.open

    def crowded(path: bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        gone = [file for file in open_files() if is_gone_from(field, file)]
        if path.endswith(renames.OLD) and gone:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return system(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", crowded)
    outcomes = field.apply(steps)
    assert {(one.result, one.reason) for one in outcomes} == {("restored", None)}
    assert field.now() == dict.fromkeys(files, B)


def test_what_was_cleared_is_not_left_open(field: Field) -> None:
    field.lay({b"a": A})
    steps = field.plan({b"a": B})
    field.lay({renames.temporary_name(TOKEN, b"a") + renames.OLD: A})
    assert field.applier.clear_temporaries(TOKEN, [b""], steps=steps) == ()
    assert field.now() == {b"a": A}
    assert not [file for file in open_files() if is_gone_from(field, file)]


def test_what_is_not_what_was_expected_is_proven_to_be_what_it_is(field: Field) -> None:
    """Bytes that are in memory are compared with, and nothing but they have their id."""
    field.lay({b"a": EDIT, b"b": B, b"longer": (0o644, b"b and more")})
    want = Entry(name=b"", kind=FILE, mode=0o644, oid=field.forest.blob(b"b"))
    with field.applier.proving({want.oid: b"b"}) as prover:
        found = [not_none(prover.prove(path, want).entry).oid for path in (b"a", b"b", b"longer")]
    assert found == [field.forest.blob(content) for content in (b"e", b"b", b"b and more")]


# A file is deleted, made, or changes its kind


@EDITORS
def test_an_edit_just_before_the_deletion_stays(
    field: Field, window: Window, editor: Callable[[Field, bytes, Node], Act]
) -> None:
    field.lay({b"a": A})
    assert_stays(field, window, field.plan({}), editor(field, b"a", EDIT))


def test_a_file_made_just_after_an_edited_one_was_moved_stays_beside_it(field: Field, window: Window) -> None:
    field.lay({b"a": A})
    steps = field.plan({})
    window.before(b"a", writes(field, b"a", EDIT), writes(field, b"a", NEWER))
    outcomes = field.apply(steps)
    assert field.now() == {b"a": NEWER}
    assert kept_of(outcomes) == [EDIT[1]]


def test_a_file_made_just_before_ours_stays(field: Field, window: Window) -> None:
    assert_stays(field, window, field.plan({b"a": B}), writes(field, b"a", EDIT))


def test_a_directory_made_just_before_ours_keeps_its_permissions(field: Field) -> None:
    """What is to be in it gets there all the same."""
    steps = field.plan({b"d": folder({b"x": B}, 0o755)})
    os.mkdir(field.at(b"d"), 0o700)
    outcomes = field.apply(steps)
    assert field.now() == {b"d": folder({b"x": B}, 0o700)}
    assert results(outcomes) == {b"d": ("failed", "changed"), b"d/x": ("restored", None)}


@EDITORS
def test_an_edit_just_before_a_directory_takes_the_place_of_a_file_stays(
    field: Field, monkeypatch: pytest.MonkeyPatch, editor: Callable[[Field, bytes, Node], Act]
) -> None:
    field.lay({b"a": A})
    steps = field.plan({b"a": folder({b"x": B})})
    act, mkdir = editor(field, b"a", EDIT), os.mkdir

    def watched(name: bytes, mode: int, *, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        if name.endswith(b".aside"):
            act()

    monkeypatch.setattr(os, "mkdir", watched)
    outcomes = field.apply(steps)
    monkeypatch.undo()
    assert field.now() == {b"a": EDIT}
    assert {one.result for one in outcomes} == {"failed"}


def test_a_file_made_where_a_directory_is_about_to_be_stays(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As measured: what had been set aside was renamed over it."""
    field.lay({b"a": A})
    steps = field.plan({b"a": folder({b"x": B})})
    act, mkdir = writes(field, b"a", EDIT), os.mkdir

    def watched(name: bytes, mode: int, *, dir_fd: int) -> None:
        if name == b"a":
            act()
        mkdir(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", watched)
    outcomes = field.apply(steps)
    monkeypatch.undo()
    assert field.now() == {b"a": EDIT}
    assert {one.result for one in outcomes} == {"failed"}


def test_a_file_made_where_a_directory_was_a_moment_ago_stays(field: Field, window: Window) -> None:
    field.lay({b"a": folder({b"x": A})})
    assert_stays(field, window, field.plan({b"a": B}), writes(field, b"a", EDIT))


@pytest.mark.parametrize("name", [b"a/x", b"a/new", b"a/sub/new"])
def test_a_directory_changed_just_before_it_makes_room_stays(
    field: Field, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    field.lay({b"a": folder({b"x": A, b"sub": folder({b"y": A})})})
    steps = field.plan({b"a": B})
    act, mkdir = writes(field, name, EDIT), os.mkdir

    def watched(made: bytes, mode: int, *, dir_fd: int) -> None:
        mkdir(made, mode, dir_fd=dir_fd)
        act()

    monkeypatch.setattr(os, "mkdir", watched)
    outcomes = field.apply(steps)
    monkeypatch.undo()
    assert field.now()[b"a"] != B
    with open(field.at(name), "rb") as file:
        assert file.read() == EDIT[1]
    assert results(outcomes)[b"a"] == ("failed", "changed")
    assert os.listdir(field.at(b"a/sub")) != []
    assert sorted(os.listdir(field.root)) == [b"a"]


def test_what_comes_into_a_directory_that_makes_room_is_kept_outside(field: Field, window: Window) -> None:
    field.lay({b"a": folder({b"x": A})})
    steps = field.plan({b"a": B})
    inside = b".lastgood-%b-%d.aside/a/new" % (TOKEN.encode(), _number(b"a"))
    window.before(b"x", writes(field, inside, EDIT))
    outcomes = field.apply(steps)
    assert field.now() == {b"a": B}
    kept = next(one.kept for one in outcomes if one.kept is not None)
    assert read_in(kept) == {b"new": EDIT}


def test_a_directory_that_made_room_and_that_somebody_deleted_meanwhile_is_just_gone(
    field: Field, window: Window
) -> None:
    field.lay({b"a": folder({b"x": A}), b"z": A})
    steps = field.plan({b"a": B, b"z": B})
    aside = b".lastgood-%b-%d.aside/a" % (TOKEN.encode(), _number(b"a"))
    window.before(b"z", lambda: shutil.rmtree(field.at(aside)))
    outcomes = field.apply(steps)
    assert field.now() == {b"a": B, b"z": B}
    assert {one.result for one in outcomes} <= {"restored", "removed"}


def test_permissions_of_a_file_that_took_the_place_of_another_stay(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    field.lay({b"a": A})
    steps = field.plan({b"a": (0o755, b"a")})
    act, fchmod = replaces(field, b"a", EDIT), os.fchmod

    def watched(descriptor: int, mode: int) -> None:
        act()
        fchmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", watched)
    field.apply(steps)
    monkeypatch.undo()
    assert field.now() == {b"a": EDIT}


def _number(path: bytes) -> int:
    from lastgood.renames import number_of

    return number_of(path)


def test_where_names_cannot_be_exchanged_a_replacement_that_fails_puts_back_what_was_there(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T5, T12b."""
    monkeypatch.setattr(renames, "_renames", [None])
    field.lay({b"x": A})
    steps = field.plan({b"x": B})
    link = os.link

    def failing(name: bytes, to: bytes, **places: Any) -> None:
        if to == b"x" and not name.endswith(b".old"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        link(name, to, **places)

    monkeypatch.setattr(os, "link", failing)
    assert [(one.result, one.reason) for one in field.apply(steps)] == [("failed", "permission denied")]
    assert field.now() == {b"x": A}
