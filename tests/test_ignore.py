"""Rules S5, S6 and T4: which names are left out of a checkpoint, and which all the same get in."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

from lastgood.ignore import UNREADABLE, Includes, Rules, TreeRules, workspace_rules
from lastgood.model.checkpoint import IgnoreState
from lastgood.settings import BUILT_IN_EXCLUDES

if TYPE_CHECKING:
    from lastgood.ignore import Text


def rules(gitignore: Text = None, lastgoodignore: Text = None, **state: object) -> Rules:
    return workspace_rules(IgnoreState(**state), gitignore, lastgoodignore=lastgoodignore)  # type: ignore[arg-type]


def ignores(found: Rules, name: bytes) -> bool:
    return found.ignored(name, directory=False)


def test_the_built_in_excludes_are_ignored_at_every_depth() -> None:
    found = rules(excludes=BUILT_IN_EXCLUDES)
    for depth in (found, found.child(b"a"), found.child(b"a").child(b"b")):
        assert depth.ignored(b"node_modules", directory=True)
        assert ignores(depth, b"x.pyc")
        assert not ignores(depth, b"x.py")


@pytest.mark.parametrize("line", ["#*#", "*.c.[012]*.*", "x*y", "*a*b*", "[!a]?*c*", "lib*.so.*"])
def test_what_the_names_of_a_directory_can_meet_ignores_the_same_of_them(line: str) -> None:
    found = rules(b"\\#*\n*k*p*\n" + line.encode() + b"\n!*k*p*\n!x*y.*\n")
    names = [
        b"#a#",
        b"m.c.0.x",
        b"m.c.3.x",
        b"xy",
        b"x1y.z",
        b"aab",
        b"keep",
        b"bcc",
        b"libz.so.1",
        b"a-x",
        b"#",
    ]
    for some in (names, names[::2], names[1::2], *([name] for name in names)):
        among = found.among(b"\0".join(some))
        assert [name for name in some if among.ignored(name, directory=False)] == [
            name for name in some if ignores(found, name)
        ]


def test_a_gitignore_can_take_a_built_in_exclude_back() -> None:
    found = rules(b"!venv\n", excludes=BUILT_IN_EXCLUDES)
    assert not found.ignored(b"venv", directory=True)


def test_info_exclude_outranks_the_built_in_but_not_the_configured_excludes() -> None:
    found = rules(excludes=("venv", "*.iso"), info_exclude=b"!venv\n!*.iso\n")
    assert not ignores(found, b"venv")
    assert ignores(found, b"x.iso")


def test_info_exclude_outranks_the_global_file() -> None:
    found = rules(global_exclude=b"*.a\n!*.b\n", info_exclude=b"!*.a\n*.b\n")
    assert not ignores(found, b"x.a")
    assert ignores(found, b"x.b")


def test_a_lastgoodignore_outranks_the_gitignore_beside_it() -> None:
    found = rules(b"data\n!kept\n", b"!data\nkept\n")
    assert not ignores(found, b"data")
    assert ignores(found, b"kept")


def test_a_gitignore_outranks_a_lastgoodignore_above_it() -> None:
    assert not ignores(rules(None, b"*.db\n").child(b"a", b"!x.db\n"), b"x.db")


def test_a_link_to_a_directory_is_no_directory_to_the_rules() -> None:
    found = rules(b"out/\n")
    assert found.ignored(b"out", directory=True)
    assert not found.ignored(b"out", directory=False)


def test_nothing_is_ignored_where_rules_are_unreadable() -> None:
    found = rules(b"*\n").child(b"a", UNREADABLE)
    assert not ignores(found, b"x")
    assert not found.readable
    assert not found.child(b"b", b"*").readable


def test_the_same_directory_has_the_same_fingerprint_while_the_rules_are_the_same() -> None:
    assert rules(b"x\n").child(b"a", b"y").fingerprint == rules(b"x\n").child(b"a", b"y").fingerprint


@pytest.mark.parametrize(
    "other",
    [
        rules(b"y\n").child(b"a").child(b"a"),
        rules().child(b"a", b"x\n").child(b"a"),
        rules().child(b"a").child(b"a", b"x\n"),
        rules(None, b"x\n").child(b"a").child(b"a"),
        rules(info_exclude=b"x\n").child(b"a").child(b"a"),
        rules(excludes=("x",)).child(b"a").child(b"a"),
        rules().child(b"a", UNREADABLE).child(b"a"),
    ],
)
def test_other_rules_have_another_fingerprint(other: Rules) -> None:
    assert rules(b"x\n").child(b"a").child(b"a").fingerprint != other.fingerprint


def test_directories_with_equal_rules_share_them() -> None:
    found = rules(b"/dist\n*.log\nsrc/**/gen\n")
    assert found.child(b"a") is found.child(b"b")
    assert found.child(b"src").child(b"a") is found.child(b"src").child(b"b")


def past(files: dict[bytes, Text], path: bytes, **state: object) -> bool | None:
    found = TreeRules(IgnoreState(**state), lambda folder: (files.get(folder), None))  # type: ignore[arg-type]
    return found.ignored(path, directory=False)


def test_a_path_below_an_ignored_directory_is_ignored_whatever_a_deeper_file_says() -> None:
    assert past({b"": b"out/\n", b"out": b"!kept\n"}, b"out/kept") is True


def test_a_tree_is_asked_for_no_ignore_files_below_an_ignored_directory() -> None:
    asked = []

    def texts(folder: bytes) -> tuple[Text, Text]:
        asked.append(folder)
        return (b"out/\n" if not folder else None), None

    found = TreeRules(IgnoreState(), texts)
    assert found.ignored(b"out/a/b", directory=False)
    assert found.ignored(b"out/a/b", directory=False)
    assert asked == [b""]


def test_what_unreadable_rules_say_of_a_path_is_unknown() -> None:
    files: dict[bytes, Text] = {b"": b"out/\n", b"a": UNREADABLE}
    assert past(files, b"a/x") is None
    assert past(files, b"a/b/x") is None
    assert past(files, b"b/x") is False
    assert past(files, b"out/x") is True
    assert past({b"": UNREADABLE}, b"x") is None
    assert past({}, b"x", readable=False) is None


def test_an_included_path_is_matched_although_in_an_ignored_directory() -> None:
    found = Includes(["/build/local.db"])
    assert found.matches(b"build/local.db", directory=False)
    assert not found.matches(b"a/build/local.db", directory=False)
    assert found.may_match_below(b"build")
    assert not found.may_match_below(b"dist")
    assert not found.may_match_below(b"build/sub")


def test_an_included_directory_includes_all_below_it() -> None:
    found = Includes(["data/", "!data/cache"])
    assert found.matches(b"data", directory=True)
    assert found.matches(b"data/a/b", directory=False)
    assert found.matches(b"data/cache", directory=False)
    assert found.may_match_below(b"data/a")


def test_a_later_include_can_take_an_earlier_one_back() -> None:
    found = Includes([".env*", "!.env.example"])
    assert found.matches(b"a/.env.local", directory=False)
    assert not found.matches(b".env.example", directory=False)


def test_an_include_without_a_slash_opens_no_ignored_directory() -> None:
    found = Includes([".env"])
    assert found.matches(b"node_modules/x/.env", directory=False)
    assert not found.may_match_below(b"node_modules")


def test_an_include_for_any_depth_opens_every_ignored_directory() -> None:
    found = Includes(["**/.env"])
    assert found.may_match_below(b"node_modules")
    assert found.may_match_below(b"node_modules/a")


def test_no_include_opens_no_directory() -> None:
    found = Includes([])
    assert not found.matches(b"a", directory=True)
    assert not found.may_match_below(b"a")


HOSTILE = [
    b"a*" * 40 + b"b",
    b"*a?" * 100 + b"b",
    b"[ab]*" * 60 + b"c",
    b"?" * 5000,
    b"*?" * 5000,
    b"a" * 100_000,
    b"**/a*" * 50 + b"b",
    b"**/" * 1000 + b"b",
    b"/" + b"**/*/" * 200 + b"b",
    b"[" * 10_000,
    b"[[:" * 10_000,
    b"\\" * 10_001,
    b"[a-z]" * 300,
    b"!" * 1000 + b"a",
]


@pytest.mark.parametrize("pattern", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_pattern_costs_steps_in_proportion_to_its_length_and_the_names(pattern: bytes) -> None:
    lines = 0

    def count(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    name = b"a" * 255
    previous = sys.gettrace()
    sys.settrace(count)
    found = rules(pattern)
    for _ in range(20):
        found.ignored(name, directory=False)
        found = found.child(name)
    sys.settrace(previous)
    assert lines < 60 * (len(pattern) + 20 * len(name)) + 20 * 300 * pattern.count(b"/")
