"""What differs between two trees."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lastgood.model.tree import Change, Counts, Entry, StoredTree, TreeId, compare, counts, tally
from tools.forest import Forest, Names, Node
from tools.values import not_none

A: Node = (0o644, b"a")
B: Node = (0o644, b"b")


def changes(before: Names | None, after: Names | None) -> list[tuple[bytes, str]]:
    return [(change.path, change.status) for change in differing(before, after)]


def differing(before: Names | None, after: Names | None) -> list[Change]:
    forest = Forest()
    old = None if before is None else StoredTree(forest.plant(before), forest.directory)
    new = None if after is None else StoredTree(forest.plant(after), forest.directory)
    return list(compare(old, new))


def test_equal_trees_do_not_differ() -> None:
    assert changes({b"a": A, b"d": (0o755, {b"x": B})}, {b"a": A, b"d": (0o755, {b"x": B})}) == []


def test_files_are_added_modified_and_deleted() -> None:
    before: Names = {b"gone": A, b"kept": A, b"new bytes": A}
    after: Names = {b"here": A, b"kept": A, b"new bytes": B}
    assert changes(before, after) == [(b"gone", "deleted"), (b"here", "added"), (b"new bytes", "modified")]


def test_permissions_alone_are_a_mode_change() -> None:
    assert changes({b"run": (0o644, b"x")}, {b"run": (0o755, b"x")}) == [(b"run", "mode")]


def test_a_file_that_became_a_link_changed_its_kind() -> None:
    assert changes({b"a": A}, {b"a": "elsewhere"}) == [(b"a", "kind")]


def test_a_file_that_became_a_directory_changed_its_kind_and_its_contents_came() -> None:
    after: Names = {b"a": (0o755, {b"x": A}), b"a-b": A}
    assert changes({b"a": A}, after) == [(b"a", "kind"), (b"a-b", "added"), (b"a/x", "added")]


def test_a_directory_that_came_is_its_contents() -> None:
    after: Names = {b"d": (0o755, {b"e": (0o755, {}), b"x": A})}
    assert changes({}, after) == [(b"d/e", "added"), (b"d/x", "added")]


def test_an_empty_directory_that_went_is_reported_itself() -> None:
    assert changes({b"d": (0o755, {})}, {}) == [(b"d", "deleted")]


def test_a_directory_whose_own_mode_changed_is_reported_beside_its_contents() -> None:
    before: Names = {b"d": (0o755, {b"x": A})}
    assert changes(before, {b"d": (0o700, {b"x": B})}) == [(b"d", "mode"), (b"d/x", "modified")]


def test_a_change_carries_what_was_and_what_is() -> None:
    [change] = differing({b"a": A}, {b"a": (0o600, b"a")})
    assert (not_none(change.before).mode, not_none(change.after).mode) == (0o644, 0o600)


def test_without_a_tree_before_everything_was_added() -> None:
    assert changes(None, {b"a": A, b"d": (0o755, {b"x": A})}) == [(b"a", "added"), (b"d/x", "added")]
    assert changes({b"a": A}, None) == [(b"a", "deleted")]


def test_equal_directories_are_not_read() -> None:
    forest = Forest()
    same = (0o755, {b"x": A})
    read: list[TreeId] = []

    def reading(tree: TreeId) -> Sequence[Entry]:
        read.append(tree)
        return forest.directory(tree)

    before = StoredTree(forest.plant({b"same": same, b"y": A}), reading)
    after = StoredTree(forest.plant({b"same": same, b"y": B}), reading)
    list(compare(before, after))
    assert read == [before.root, after.root]


def test_a_tree_deeper_than_the_recursion_limit_is_compared() -> None:
    node: Node = (0o755, {b"x": A})
    forest = Forest()
    tree = forest.plant({b"x": A})
    for _ in range(1500):
        entry = forest.entry(b"d", node).replace(oid=tree.tree)
        tree = forest.plant_entries([entry])
    [change] = compare(None, StoredTree(tree, forest.directory))
    assert change.path == b"d/" * 1500 + b"x"


def test_mode_and_kind_changes_count_as_modified() -> None:
    before: Names = {b"k": A, b"m": A, b"n": A, b"o": A}
    found = differing(before, {b"k": "link", b"m": (0o600, b"a"), b"n": B, b"p": A})
    assert counts(found) == Counts(added=1, modified=3, deleted=1)


names = st.sampled_from([b"a", b"a-b", b"a.b", b"b", b"\xff", b"a\n"])
leaves = st.one_of(
    st.tuples(st.sampled_from([0o644, 0o755, 0o600]), st.sampled_from([b"", b"x", b"y"])),
    st.sampled_from(["a", "../b"]),
)


def directories(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.tuples(st.sampled_from([0o755, 0o700]), st.dictionaries(names, inner, max_size=4))


nodes: st.SearchStrategy[Node] = st.recursive(leaves, directories, max_leaves=8)
trees = st.dictionaries(names, nodes, max_size=5)


def flat(names_: Names, above: bytes = b"") -> dict[bytes, object]:
    """Every path of a tree with what it is; directories by permissions and whether empty."""
    found: dict[bytes, object] = {}
    for name, node in names_.items():
        if not isinstance(node, str) and isinstance(node[1], dict):
            found[above + name] = ("directory", node[0])
            found |= flat(node[1], above + name + b"/")
        else:
            found[above + name] = node
    return found


@given(before=trees, after=trees)
def test_differences_are_sorted_and_complete(before: Names, after: Names) -> None:
    found = changes(before, after)
    assert [path for path, _ in found] == sorted({path for path, _ in found})
    old, new = flat(before), flat(after)
    touched = {path for path, _ in found}
    for path in old.keys() | new.keys():
        if old.get(path) != new.get(path):
            # A directory that came or went may be told by its contents alone.
            assert path in touched or any(inner.startswith(path + b"/") for inner in touched)
    for path in touched:
        assert old.get(path) != new.get(path)


@given(before=trees, after=trees)
def test_the_tally_is_the_count_of_the_changes(before: Names, after: Names) -> None:
    forest = Forest()
    old = StoredTree(forest.plant(before), forest.directory)
    new = StoredTree(forest.plant(after), forest.directory)
    assert tally(old, new) == counts(compare(old, new))
