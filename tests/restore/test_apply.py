"""Plans carried out on real folders: against an oracle, in which order, and killed (rules T3 to T7)."""

from __future__ import annotations

import os
import resource
import signal
import stat
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastgood import renames
from lastgood.errors import Busy, Storage
from lastgood.model.operation import Step
from lastgood.restore.look import entry_at, open_regular
from lastgood.restore.plan import inverse
from tools.forest import TOKEN, Field, Names, Node, folder, stamps
from tools.forks import die_before, ended, forked
from tools.living import descriptors, times_open
from tools.values import not_none

names = st.sampled_from([b"a", b"a-b", b"a.b", b"b", b"c", b"\xff\n", b"-x", b"ign", b"ign2"])

modes = st.sampled_from([0o644, 0o755, 0o600, 0o444, 0o000])

leaves = st.one_of(
    st.tuples(modes, st.sampled_from([b"", b"x", b"y"])), st.sampled_from(["a", "../b", "/nowhere"])
)


def _directories(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    mode = st.sampled_from([0o755, 0o700, 0o555, 0o2755])
    return st.tuples(mode, st.dictionaries(names, inner, max_size=4))


nodes: st.SearchStrategy[Node] = st.recursive(leaves, _directories, max_leaves=10)

trees: st.SearchStrategy[Names] = st.dictionaries(names, nodes, max_size=6)


def ignored(path: bytes) -> bool:
    return any(part.startswith(b"ign") for part in path.split(b"/"))


def captured(names_: Names) -> Names:
    """A tree as a save would hold it."""
    held: Names = {}
    for name, node in names_.items():
        if not ignored(name):
            inner = _inner(node)
            held[name] = node if inner is None else (_mode(node), captured(inner))
    return held


def remains(names_: Names) -> Names:
    """What a restore must not take away, with the directories above it."""
    kept: Names = {}
    for name, node in names_.items():
        inner = _inner(node)
        if ignored(name):
            kept[name] = node
        elif inner is not None and remains(inner):
            kept[name] = (_mode(node), remains(inner))
    return kept


def expected(present: Names, target: Names) -> Names:
    result: Names = {}
    kept = remains(present)
    for name, want in target.items():
        have, wanted = present.get(name), _inner(want)
        found = None if have is None else _inner(have)
        if wanted is None:
            result[name] = kept.get(name, want)
        elif have is None or found is None:
            result[name] = (_mode(want) & 0o777, expected({}, wanted))
        else:
            result[name] = (_mode(want) & 0o777 | _mode(have) & 0o7000, expected(found, wanted))
    return kept | result


def _inner(node: Node) -> Names | None:
    return node[1] if not isinstance(node, str) and isinstance(node[1], dict) else None


def _mode(node: Node) -> int:
    assert not isinstance(node, str)
    return node[0]


def _field() -> tuple[tempfile.TemporaryDirectory[bytes], Field]:
    folder = tempfile.TemporaryDirectory(dir=os.fsencode(tempfile.gettempdir()))
    return folder, Field(folder.name)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(present=trees, target=trees.map(captured))
def test_restoring_gives_the_target_and_keeps_what_was_ignored(present: Names, target: Names) -> None:
    folder, field = _field()
    with folder:
        field.lay(present)
        steps = field.plan(target, ignored=ignored)
        assert len({step.path for step in steps}) == len(steps)
        outcomes = field.apply(steps)
        assert [one.path for one in outcomes] == [step.path for step in steps]
        assert not [one for one in outcomes if one.result == "failed"]
        assert _plain(field.now()) == _plain(expected(present, target))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(present=trees.map(captured), target=trees.map(captured))
def test_a_restore_taken_back_gives_what_was_there(present: Names, target: Names) -> None:
    folder, field = _field()
    with folder:
        field.lay(present)
        before = field.now()
        steps = field.plan(target)
        field.apply(steps)
        after = field.now()
        field.apply(inverse(steps))
        assert _plain(field.now()) == _plain(before)
        field.apply(inverse(inverse(steps)))
        assert _plain(field.now()) == _plain(after)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(present=trees.map(captured), target=trees.map(captured))
def test_a_second_restore_has_nothing_to_do(present: Names, target: Names) -> None:
    folder, field = _field()
    with folder:
        field.lay(present)
        field.apply(field.plan(target))
        assert field.plan(target) == ()


def _plain(names_: Names) -> Names:
    """A tree without the bits that a restore never gives, and that new directories inherit."""
    plain: Names = {}
    for name, node in names_.items():
        inner = _inner(node)
        plain[name] = node if inner is None else (_mode(node) & 0o777, _plain(inner))
    return plain


# What is carried through to the disk, and in which order (rules T5, T7).


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
    system = not_none(renames.of_system())

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


def _inodes_of_directories(root: bytes) -> set[int]:
    return {os.stat(place).st_ino for place, _, _ in os.walk(root)}


def test_every_directory_is_synced_after_its_last_change(field: Field, deeds: list[Deed]) -> None:
    field.lay(BEFORE)
    steps = field.plan(AFTER)
    deeds.clear()
    field.apply(steps)
    assert field.now() == AFTER
    left = _inodes_of_directories(field.root)
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


def test_a_restore_that_is_not_refused_has_files_to_open_until_its_end(field: Field) -> None:
    """T1: what it holds open of what is gone is closed before its directories cannot be opened."""
    names: Names = {b"d%d" % number: folder({b"x": (0o644, b"old")}) for number in range(110)}
    field.lay(names)
    steps = field.plan({name: folder({b"x": (0o644, b"new")}) for name in names})
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    for free in count(220):
        opened = [os.dup(0) for _ in range(free)]
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(opened) + 1, limits[1]))
        try:
            outcomes = field.apply(steps)
        except Busy:
            continue
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        break
    assert {one.result for one in outcomes} == {"restored"}


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
    assert _inodes_of_directories(field.root) | files <= synced


def test_a_copy_that_goes_again_is_not_synced(field: Field, deeds: list[Deed]) -> None:
    outcomes = field.applier.write_tree(field.forest.plant(AFTER), objects=field.forest, durability="fast")
    assert {one.result for one in outcomes} == {"restored"}
    assert field.now() == AFTER
    assert not any(what == "fsync" for what, _ in deeds)


# A restore killed at each of its changes, cleared and finished or taken back (rules T5, T7).


A: Node = (0o644, b"a")

B: Node = (0o644, b"b")

CHANGES = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.symlink", "open", "os.fchmod"}
)

PRESENT: Names = {
    b"dir to file": folder({b"x": A, b"sub": folder({b"y": A}), b"empty": folder({})}),
    b"file to dir": A,
    b"link to dir": "elsewhere",
    b"dir to link": folder({b"x": A}),
    b"edited": folder({b"x": A, b"mode": (0o600, b"m"), b"ignored": B}),
    b"gone": folder({b"x": A, b"deep": folder({b"y": A})}),
    b"read-only": folder({b"x": A, b"y": A}, 0o555),
}

TARGET: Names = {
    b"dir to file": B,
    b"file to dir": folder({b"x": B}),
    b"link to dir": folder({b"x": B}),
    b"dir to link": "elsewhere",
    b"edited": folder({b"x": B, b"mode": (0o644, b"m")}, 0o700),
    b"new": folder({b"x": A, b"deep": folder({b"y": A})}),
    b"read-only": folder({b"x": B}, 0o555),
}


def _is_ignored(path: bytes) -> bool:
    return path.endswith(b"ignored")


def _with_ignored(names: Names) -> Names:
    edited = names[b"edited"]
    assert not isinstance(edited, str)
    assert isinstance(edited[1], dict)
    return names | {b"edited": (edited[0], edited[1] | {b"ignored": B})}


def _apply_until(field: Field, steps: tuple[Step, ...], point: int) -> bool:
    """Apply in a child that is killed before its nth change, and tell whether it was."""
    evidence = stamps(field.root)

    def work() -> None:
        die_before(*CHANGES, at=point)
        applied = field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=evidence)
        applied.wait()
        applied.end()

    code = ended(forked(work))
    assert code in {0, -signal.SIGKILL}
    return code != 0


def _directories_of(steps: tuple[Step, ...]) -> list[bytes]:
    return sorted({step.path for step in steps} | {step.path.rpartition(b"/")[0] for step in steps})


def _names(root: bytes) -> set[bytes]:
    return {name for _, directories, files in os.walk(root) for name in directories + files}


@pytest.mark.faults
def test_a_restore_killed_at_any_change_can_be_finished_or_taken_back(arena: Path) -> None:
    """One after a change, the other after the next; `faults/test_sweep_restore.py` tries both after one."""
    for point in count():
        goal = PRESENT if point % 2 else TARGET
        with tempfile.TemporaryDirectory(dir=arena) as made:
            field = Field(os.fsencode(made))
            field.lay(PRESENT)
            steps = field.plan(TARGET, ignored=_is_ignored)
            killed = _apply_until(field, steps, point)
            assert field.applier.clear_temporaries(TOKEN, _directories_of(steps), steps=steps) == (), point
            assert not any(name.startswith(b".lastgood") for name in _names(field.root)), point
            assert field.restore(goal, ignored=_is_ignored) == [], point
            assert field.now() == _with_ignored(goal), point
        if not killed:
            break
    assert point > 40


def test_what_was_swapped_for_a_pipe_is_not_left_open(tmp_path: Path) -> None:
    """T12: a file is opened, and only then known to be one."""
    os.mkfifo(tmp_path / "file")
    directory = os.open(tmp_path, os.O_RDONLY)
    before = descriptors()

    with pytest.raises(FileNotFoundError):
        open_regular(b"file", directory)

    assert descriptors() == before
    os.close(directory)


def test_what_was_only_looked_at_is_not_left_open(tmp_path: Path) -> None:
    """T12: a file whose content is told, and the directories in which left-overs are looked for."""
    folder, file = tmp_path / "folder", tmp_path / "folder" / "file"
    folder.mkdir()
    file.write_text("text")
    directory = os.open(folder, os.O_RDONLY)

    assert not_none(entry_at(b"file", directory)).oid
    os.close(directory)
    assert Field(os.fsencode(tmp_path)).applier.left_over() == {}

    assert [times_open(one) for one in (tmp_path, folder, file)] == [0, 0, 0]


def test_no_directory_is_left_open_once_all_names_are_on_the_disk(field: Field) -> None:
    """T12: more of them than are open at once, some of which nothing was written into."""
    names: Names = {b"d%d" % number: folder({b"in": folder({b"x": (0o644, b"old")})}) for number in range(40)}
    field.lay(names)
    steps = field.plan({name: folder({b"in": folder({b"x": (0o644, b"new")})}) for name in names})
    before = descriptors()

    field.apply(steps)

    assert descriptors() == before


def test_nothing_is_changed_before_what_has_to_be_there_is(field: Field) -> None:
    """Invariant 3: contents are read while the journal is on its way, and no name is made."""
    field.lay(BEFORE)
    steps = field.plan(AFTER)
    before, seen = field.now(), []

    def ready() -> None:
        seen.append(field.now())
        raise Storage("the journal is not there", hint="")

    with pytest.raises(Storage):
        field.applier.apply(steps, token=TOKEN, objects=field.forest, stamp=stamps(field.root), ready=ready)
    assert [*seen, field.now()] == [before, before]
