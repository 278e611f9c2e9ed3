"""Names and trees that must not be written (rule T12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import Unsafe
from lastgood.model.path_safety import (
    NameRules,
    faults,
    name_fault,
    path_fault,
    path_faults,
    refuse_faults,
)
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry, StoredTree, TreeId
from lastgood.paths import is_git_alias
from tools.forest import Forest, folder

ALIASES = [
    b".git",
    b".GIT",
    b".Git",
    b"git~1",
    b"GIT~1",
    b"git~2",
    b".git.",
    b".git ",
    b".git . .",
    b".git::$INDEX_ALLOCATION",
    b".git:stream",
    b"git~1::$INDEX_ALLOCATION",
    b"folder\\.git",
    b".git\\config",
    ".g\u200cit".encode(),
    ".g\u200bit".encode(),
    "\ufeff.git".encode(),
    ".gi\u00adt".encode(),
    ".GI\u2064T".encode(),
]
ORDINARY = [
    b".gitignore",
    b".gitmodules",
    b".gitattributes",
    b".git2",
    b"git",
    b"git~",
    b"git~a",
    b"x.git",
    b" .git",
    b"CON",
    b"nul.txt",
    b"..\\evil",
    b"new\nline",
    b"\xff\xfe",
    b"-rf",
    b"...",
    "\u202etxt.exe".encode(),
    b"n" * 255,
]


@pytest.mark.parametrize("name", ALIASES)
def test_every_alias_of_git_is_known(name: bytes) -> None:
    assert is_git_alias(name)
    assert name_fault(name) == "is .git or an alias of it"


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_odd_names_may_be_written(name: bytes) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"../evil", b"/etc", b"a\0b", b"n" * 256])
def test_a_name_that_is_none_is_refused(name: bytes) -> None:
    assert name_fault(name) is not None


@given(st.binary(max_size=300))
def test_any_name_gets_an_answer(name: bytes) -> None:
    fault = name_fault(name)
    assert fault is not None or (0 < len(name) <= 255 and b"/" not in name)


def test_a_path_is_as_bad_as_its_worst_component() -> None:
    assert path_fault(b"a/b") is None
    assert path_fault(b"sub/.GIT/config") is not None
    assert path_fault(b"a/../b") is not None
    assert path_fault(b"/a") is not None
    assert path_fault(b"d/" * 2048 + b"x") == "is too long a path"


PIECES = [b"", b"a", b"b.c", b".", b"..", b".git", b"git~1", b".d", b"a\\b", b"\0", b"\xff", b"n" * 250]
PATHS = st.lists(st.sampled_from(PIECES), max_size=4).map(b"/".join)


@given(st.lists(PATHS, max_size=6))
def test_many_paths_are_judged_as_each_is_alone(paths: list[bytes]) -> None:
    """T12."""
    alone = [(path, path_fault(path)) for path in paths]
    assert [(one.path, one.reason) for one in path_faults(paths)] == [one for one in alone if one[1]]


def found(forest: Forest, root: TreeId, rules: NameRules | None = None) -> list[bytes]:
    return [fault.path for fault in faults(StoredTree(root, forest.directory), rules=rules)]


def test_a_link_and_a_directory_of_one_name_are_refused() -> None:
    forest = Forest()
    link = Entry(name=b"a", kind=LINK, mode=0, oid=forest.blob(b"/tmp"))
    directory = Entry(name=b"a", kind=DIRECTORY, mode=0o755, oid=forest.plant({b"x": (0o644, b"")}).tree)
    assert found(forest, forest.plant_entries([link, directory])) == [b"a"]


def test_names_that_differ_only_in_case_matter_where_case_does_not() -> None:
    forest = Forest()
    root = forest.plant({b"A": (0o644, b""), b"a": (0o644, b""), "é".encode(): "", "e\u0301".encode(): ""})
    assert found(forest, root) == []
    assert len(found(forest, root, NameRules(folds=True))) == 2


def test_a_bad_name_deep_inside_is_named_by_its_path() -> None:
    forest = Forest()
    root = forest.plant({b"sub": folder({b".GIT": folder({b"config": (0o644, b"")})})})
    assert found(forest, root) == [b"sub/.GIT"]


def test_a_bomb_is_refused_without_walking_it() -> None:
    forest = Forest()
    tree = forest.plant({b"f%d" % number: (0o644, b"") for number in range(10)})
    for _ in range(9):
        entries = [Entry(name=b"d%d" % n, kind=DIRECTORY, mode=0o755, oid=tree.tree) for n in range(10)]
        tree = forest.plant_entries(entries)
    with pytest.raises(Unsafe, match="holds more than 1000000 entries"):
        refuse_faults(StoredTree(tree, forest.directory))


def test_a_tree_of_many_different_entries_is_none() -> None:
    """S7: what a save holds can be restored, however much it is."""
    forest = Forest()
    large = {b"%d" % n: folder({b"%d" % m: (0o644, b"%d" % (n * m)) for m in range(9)}) for n in range(9)}
    assert found(forest, forest.plant(large), NameRules(most_entries=50)) == []
    same = folder({b"%d" % m: (0o644, b"") for m in range(9)})
    for _ in range(2):
        same = folder({b"%d" % m: same for m in range(9)})
    alike = {b"%d" % n: same for n in range(9)}
    assert found(forest, forest.plant(alike), NameRules(most_entries=50)) == [b""]


def test_a_path_beyond_what_the_platform_opens_is_refused() -> None:
    forest = Forest()
    tree = forest.plant({b"x": (0o644, b"")})
    for _ in range(3000):
        tree = forest.plant_entries([Entry(name=b"d", kind=DIRECTORY, mode=0o755, oid=tree.tree)])
    with pytest.raises(Unsafe, match="holds too long a path"):
        refuse_faults(StoredTree(tree, forest.directory))


def test_the_refusal_names_the_paths() -> None:
    forest = Forest()
    root = forest.plant_entries([Entry(name=b"..", kind=FILE, mode=0o644, oid=forest.blob(b""))])
    with pytest.raises(Unsafe) as caught:
        refuse_faults(StoredTree(root, forest.directory))
    assert caught.value.details == {"paths": [".."]}
