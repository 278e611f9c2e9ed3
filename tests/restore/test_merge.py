"""What a merge makes of every path (rule T17), against a slow and obvious model."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.model.operation import CONFLICT, Step
from lastgood.model.report import MARKED
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry, Gap, StoredTree
from lastgood.restore.merge import KEPT, Copies, MergedBlob, MergedTree, Sides, name_beside, plan_merge
from lastgood.restore.plan import SPARED, DeletionEvidence
from tools.forest import Forest, Ground, Names, Node
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.literals import Favour


# Leaves by path: a file's mode and content, or a link's target.
Flat = dict[bytes, tuple[int, bytes] | str]

SUFFIX = b".lastgood-x"
A: Node = (0o644, b"a\n")
B: Node = (0o644, b"b\n")
C: Node = (0o644, b"c\n")
EMPTY: Node = (0o755, {})
# Far enough apart for git to merge what is on both sides of it.
GAP = b"".join(b"%d\n" % number for number in range(8))


def folder(names: Names, mode: int = 0o755) -> Node:
    return (mode, names)


def merge_file(base: bytes, ours: bytes, theirs: bytes, favour: Favour | None = None) -> tuple[bytes, bool]:
    """Merge three texts by git's own program; tell whether that went without conflicts."""
    with tempfile.TemporaryDirectory() as place:
        paths = [Path(place, name) for name in ("ours", "base", "theirs")]
        for path, content in zip(paths, (ours, base, theirs), strict=True):
            path.write_bytes(content)
        side = [f"--{favour}"] if favour in {"ours", "theirs"} else []
        done = subprocess.run(
            ["git", "merge-file", "-p", "-q", *side, *paths], capture_output=True, check=False
        )
    assert 0 <= done.returncode < 128, done.stderr
    return done.stdout, done.returncode == 0


class Case:
    """Three trees, and what is known beside them."""

    def __init__(self, base: Names, target: Names, present: Names) -> None:
        self.forest = Forest()
        self.trees = [self.forest.plant(names) for names in (base, target, present)]
        self.favour: Favour | None = None
        self.gaps_then: tuple[Gap, ...] = ()
        self.seen: dict[bytes, Entry] = {}
        self.left_out: dict[bytes, Sequence[bytes]] = {}
        self.ignored: Callable[[bytes], bool] = lambda _path: False
        self.private: tuple[bytes, ...] = ()

    def steps(self, *paths: bytes) -> tuple[Step, ...]:
        base, target, present = self.trees
        ground = Ground(self.forest, present, left_out=self.left_out, ignored=self.ignored)
        evidence = DeletionEvidence(
            ignored_then=lambda _path, *, directory: False,  # noqa: ARG005 - the protocol's
            look=lambda path: self.seen.get(path) or ground.entry(path),
            spares=lambda path: path in self.private,
            gaps_then=self.gaps_then,
        )
        tree = MergedTree(
            StoredTree(base, self.forest.directory),
            StoredTree(target, self.forest.directory),
            present=ground,
            evidence=evidence,
            blend=self.blend,
            favour=self.favour,
            copies=Copies(ref="x", suffix=SUFFIX, private=self.private),
            limits=paths,
        )
        return plan_merge(
            tree, ground, evidence=evidence, paths=paths, discard=False, was=lambda _path: False
        )

    def look(self, path: bytes, node: Node) -> None:
        """Let something ignored stand in the folder, which the scan left out."""
        self.seen[path] = self.forest.entry(path, node)
        self.left_out[b""] = [path]
        self.ignored = lambda found: found == path

    def blend(self, sides: Sides) -> MergedBlob | None:
        assert sides.base
        assert sides.present
        assert sides.target
        old, now, then = (self.forest.blobs[side.oid] for side in (sides.base, sides.present, sides.target))
        if any(b"\0" in text for text in (old, now, then)):
            return None
        content, clean = merge_file(old, now, then, self.favour)
        if not clean and self.favour is None:
            return None
        return MergedBlob(oid=self.forest.blob(content), marked=not clean and self.favour == "markers")

    def told(self, *paths: bytes) -> list[str]:
        return [
            f"{step.action} {step.path.decode()}" + (f" ({step.reason})" if step.reason else "")
            for step in self.steps(*paths)
        ]

    def content(self, path: bytes) -> bytes:
        [step] = [step for step in self.steps() if step.path == path]
        return self.forest.blobs[not_none(step.want).oid]


def one(base: Node | None, target: Node | None, present: Node | None) -> Case:
    """Return a case of one path."""
    return Case(*({} if node is None else {b"f": node} for node in (base, target, present)))


@pytest.mark.parametrize(
    ("base", "target", "present", "told"),
    [
        (A, A, B, []),
        (A, A, None, []),
        (None, None, A, []),
        (A, B, A, ["write f"]),
        (A, None, A, ["delete f"]),
        (None, A, None, ["write f"]),
        (A, B, B, []),
        (A, None, None, []),
        (A, (0o755, b"a\n"), A, ["chmod f"]),
        (A, (0o755, b"a\n"), B, ["chmod f"]),
        ("one", "two", "one", ["write f"]),
        (A, "link", A, ["write f"]),
        (A, EMPTY, A, ["mkdir f"]),
        (EMPTY, A, EMPTY, ["write f"]),
        (EMPTY, None, EMPTY, ["rmdir f"]),
        (A, folder({b"x": B}), A, ["mkdir f", "write f/x"]),
        (folder({b"x": B}), A, folder({b"x": B}), ["write f", "delete f/x"]),
    ],
)
def test_what_only_one_side_changed_is_taken_from_it(
    base: Node | None, target: Node | None, present: Node | None, told: list[str]
) -> None:
    """T17: changes since the base stay, changes between target and base go."""
    assert one(base, target, present).told() == told


@pytest.mark.parametrize(
    ("base", "target", "present", "beside"),
    [
        (A, B, C, ["write"]),
        (None, A, B, ["write"]),
        (A, None, B, []),
        (A, B, None, ["write"]),
        ("one", "two", "three", ["write"]),
        (A, "link", B, ["write"]),
        (A, B, EMPTY, ["write"]),
        (A, EMPTY, B, ["mkdir"]),
        (EMPTY, B, folder({b"x": A}), ["write"]),
        ((0o644, b"\0a"), (0o644, b"\0b"), (0o644, b"\0c"), ["write"]),
        (A, (0o600, b"a\n"), (0o755, b"a\n"), ["write"]),
    ],
)
def test_what_both_changed_stays_and_gets_the_other_version_beside_it(
    base: Node | None, target: Node | None, present: Node | None, beside: list[str]
) -> None:
    """T17: a conflict keeps its present content, and is listed."""
    expected = [f"{action} f{SUFFIX.decode()}" for action in beside] + [f"skip f ({CONFLICT})"]
    assert one(base, target, present).told() == expected


def test_texts_changed_in_different_places_are_merged() -> None:
    """T17: three-way merge per file, permissions included."""
    case = one((0o644, b"a\n" + GAP + b"z\n"), (0o755, b"A\n" + GAP + b"z\n"), (0o644, b"a\n" + GAP + b"Z\n"))
    [step] = case.steps()
    assert step.want is not None
    assert (case.forest.blobs[step.want.oid], step.want.mode) == (b"A\n" + GAP + b"Z\n", 0o755)


def test_a_choice_settles_what_both_sides_changed() -> None:
    """T17: ours, theirs, or marked in the file."""
    told = {}
    for favour in ("ours", "theirs", "markers"):
        case = one((0o644, b"a\n" + GAP), (0o644, b"then\n" + GAP), (0o644, b"now\n" + GAP))
        case.favour = favour
        told[favour] = case.told()
        if favour == "markers":
            assert case.content(b"f").startswith(b"<<<<<<<")
    assert told == {"ours": [], "theirs": ["write f"], "markers": [f"write f ({MARKED})"]}


def test_a_choice_settles_what_is_no_text() -> None:
    """T17: and marks cannot be made in it, so that it stays a conflict."""
    told = {}
    for favour in ("ours", "theirs", "markers"):
        case = one(A, None, B)
        case.favour = favour
        told[favour] = case.told()
    assert told == {"ours": [f"keep f ({KEPT})"], "theirs": ["delete f"], "markers": [f"skip f ({CONFLICT})"]}


def test_a_directory_goes_when_nothing_new_came_into_it() -> None:
    """T17: and stays, with what came, when something did."""
    old = folder({b"x": A, b"deep": folder({b"y": A})})
    gone = Case({b"d": old}, {}, {b"d": old})
    stays = Case({b"d": old}, {}, {b"d": folder({b"x": A, b"deep": folder({b"y": A, b"new": B})})})
    assert gone.told() == ["delete d/deep/y", "delete d/x", "rmdir d/deep", "rmdir d"]
    assert stays.told() == ["delete d/deep/y", "delete d/x"]


def test_a_directory_that_was_taken_away_since_stays_away() -> None:
    """T17: but for what of it the target has otherwise."""
    case = Case({b"d": folder({b"x": A, b"y": A})}, {b"d": folder({b"x": A, b"y": B})}, {})
    assert case.told() == ["mkdir d", f"write d/y{SUFFIX.decode()}", f"skip d/y ({CONFLICT})"]


def test_a_version_beside_never_takes_a_name_that_is_taken() -> None:
    """T17, T12: what has the name is kept, also when the scan leaves it out."""
    case = Case({b"f": A}, {b"f": B}, {b"f": C, b"f" + SUFFIX: A})
    case.seen[b"f" + SUFFIX + b"-2"] = Entry(name=b"f", kind=FILE, mode=0o644, oid=b"")
    case.left_out[b""] = [b"f" + SUFFIX + b"-2"]
    assert case.told() == [f"write f{SUFFIX.decode()}-3", f"skip f ({CONFLICT})"]


def test_a_merge_done_twice_puts_nothing_beside_twice() -> None:
    """T17: the version is there already."""
    case = Case({b"f": A}, {b"f": B}, {b"f": C, b"f" + SUFFIX: B})
    assert case.told() == [f"skip f ({CONFLICT})"]


def test_a_name_beside_is_cut_where_it_would_be_too_long() -> None:
    """T12: names the platform cannot hold are never made, nor half characters."""
    cut = not_none(name_beside(b"above/" + "ä".encode() * 127, SUFFIX, number=12))
    assert len(cut) <= len(b"above/") + 255
    assert cut.decode().endswith(".lastgood-x-12")


def test_a_path_beside_is_cut_too_and_where_there_is_no_room_none_is_made() -> None:
    """T12: what could not be written would refuse the whole restore."""
    above = b"/".join([b"d" * 250] * 16)
    cut = not_none(name_beside(above + b"/" + b"n" * 255, SUFFIX, number=1))
    assert len(cut) == 4096
    assert name_beside(above + b"/" + b"d" * 70 + b"/n", SUFFIX, number=1) is None


def test_a_gap_of_the_target_is_no_deletion() -> None:
    """S7, T17: what the target did not hold may have been there."""
    case = one(A, None, B)
    case.gaps_then = (Gap(path=b"f", reason="too-large"),)
    assert case.told() == []


def test_paths_limit_a_merge() -> None:
    """T11, T17: the others are neither merged nor listed."""
    before: Names = {b"d": folder({b"x": A, b"y": A}), b"f": A}
    then: Names = {b"d": folder({b"x": B, b"y": B}), b"f": B}
    now: Names = {b"d": folder({b"x": C, b"y": A}), b"f": C}
    assert Case(before, then, now).told(b"d/x") == [f"write d/x{SUFFIX.decode()}", f"skip d/x ({CONFLICT})"]
    assert Case(before, then, now).told(b"d/y") == ["write d/y"]


def test_what_is_ignored_now_and_was_changed_is_a_conflict_too() -> None:
    """T17: the scan leaves it out, the merge looks at it."""
    case = Case({b"f": A}, {b"f": B}, {})
    case.look(b"f", C)
    assert case.told() == [f"write f{SUFFIX.decode()}", f"skip f ({CONFLICT})"]


def test_what_is_ignored_now_and_is_right_already_stays() -> None:
    """T17: it is no deletion."""
    case = Case({b"f": A}, {b"f": B}, {})
    case.look(b"f", B)
    assert case.told() == []


def test_what_is_spared_is_no_conflict_unless_its_path_is_given() -> None:
    """S5, T17: no copy of what is private lies beside it."""
    case = one(A, B, C)
    case.private = (b"f",)
    (stays,) = case.steps()
    (given,) = case.steps(b"f")
    assert stays.reason == SPARED
    assert not_none(given.reason).startswith(CONFLICT)


LINES = st.lists(st.sampled_from([b"1\n", b"2\n", GAP]), max_size=4).map(b"".join)
LEAVES = st.one_of(
    st.tuples(st.sampled_from([0o644, 0o755]), st.one_of(LINES, st.just(b"\0binary"))),
    st.sampled_from(["here", "there"]),
)
PLACES = [b"a", b"b", b"d/x", b"d/y", b"d/e/z"]
FLAT = st.dictionaries(st.sampled_from(PLACES), LEAVES, max_size=5)


def nested(flat: Flat) -> Names:
    names: Names = {}
    for path, leaf in flat.items():
        *above, last = path.split(b"/")
        place = names
        for name in above:
            node = place.setdefault(name, (0o755, {}))
            assert isinstance(node, tuple)
            assert isinstance(node[1], dict)
            place = node[1]
        place[last] = leaf
    return names


def carried_out(case: Case, present: Flat) -> tuple[Flat, set[bytes]]:
    """Return what steps make of the present, and the conflicts among them."""
    result, conflicts = dict(present), set()
    for step in case.steps():
        if step.action in {"skip", "keep"}:
            conflicts.add(step.path)
        elif step.action == "delete":
            del result[step.path]
        elif step.action == "mkdir":
            result.pop(step.path, None)
        elif step.want is not None and step.want.kind != DIRECTORY:
            content = case.forest.blobs[step.want.oid]
            result[step.path] = content.decode() if step.want.kind == LINK else (step.want.mode, content)
    return result, conflicts


def obvious(base: Flat, target: Flat, present: Flat) -> tuple[Flat, set[bytes]]:
    """Merge path by path, as one would by hand."""
    result: Flat = {}
    conflicts = set()
    for path in sorted(base.keys() | target.keys() | present.keys()):
        old, then, now = base.get(path), target.get(path), present.get(path)
        if then in (now, old):
            chosen = now
        elif now == old:
            chosen = then
        else:
            chosen = by_hand(old, then, now)
            if chosen is None:
                conflicts.add(path)
                chosen = now
                if then is not None:
                    result[path + SUFFIX] = then
        if chosen is not None:
            result[path] = chosen
    return result, conflicts


def by_hand(
    old: tuple[int, bytes] | str | None,
    then: tuple[int, bytes] | str | None,
    now: tuple[int, bytes] | str | None,
) -> tuple[int, bytes] | None:
    if not (isinstance(old, tuple) and isinstance(then, tuple) and isinstance(now, tuple)):
        return None
    mode = then[0] if now[0] == old[0] else now[0]
    if len({old[1], then[1], now[1]}) < 3:
        return mode, then[1] if now[1] == old[1] else now[1]
    if any(b"\0" in side[1] for side in (old, then, now)):
        return None
    content, clean = merge_file(old[1], now[1], then[1])
    return (mode, content) if clean else None


@settings(max_examples=150)
@given(FLAT, FLAT, FLAT)
def test_a_merge_comes_out_as_one_made_by_hand(base: Flat, target: Flat, present: Flat) -> None:
    """T17: without conflicts, changes since the base survive and those between target and base are gone."""
    made = carried_out(Case(nested(base), nested(target), nested(present)), present)
    assert made == obvious(base, target, present)


NODES: st.SearchStrategy[Node] = st.recursive(
    st.sampled_from([A, B, C, "one", "two"]),
    lambda inner: st.tuples(
        st.just(0o755), st.dictionaries(st.sampled_from([b"x", b"y", b"z"]), inner, max_size=3)
    ),
    max_leaves=5,
)
TREES: st.SearchStrategy[Names] = st.dictionaries(st.sampled_from([b"x", b"y"]), NODES, max_size=2)


def flattened(names: Names, above: bytes = b"") -> Flat:
    flat: Flat = {}
    for name, node in names.items():
        path = above + name
        if isinstance(node, str):
            flat[path] = node
        elif isinstance(node[1], bytes):
            flat[path] = (node[0], node[1])
        else:
            flat |= flattened(node[1], path + b"/")
    return flat


@settings(max_examples=300)
@given(TREES, TREES, TREES)
def test_whatever_the_kinds_nothing_changed_since_is_touched(
    base: Names, target: Names, present: Names
) -> None:
    """T17, T2: what is otherwise than at the base is never overwritten or deleted, but merged at most."""
    case = Case(base, target, present)
    before, now = flattened(base), flattened(present)
    touched = {step.path for step in case.steps() if step.action in {"write", "delete"} and step.have}
    for path in touched & now.keys():
        assert now[path] == before.get(path)


@settings(max_examples=100)
@given(TREES, TREES)
def test_a_merge_without_changes_since_is_a_plain_restore(base: Names, target: Names) -> None:
    """T17: nothing to keep, so everything comes out as at the target."""
    case = Case(base, target, base)
    assert not any(step.reason for step in case.steps())
    result, _ = carried_out(case, flattened(base))
    assert result == flattened(target)


@settings(max_examples=100)
@given(TREES, TREES)
def test_a_merge_to_its_own_base_does_nothing(base: Names, present: Names) -> None:
    """T17: nothing came between target and base."""
    assert Case(base, base, present).steps() == ()
