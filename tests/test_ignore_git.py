"""Rule S5: what git ignores is ignored; git itself is the judge of every case here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.ignore import Rules, TreeRules, relative, workspace_rules
from lastgood.model.checkpoint import IgnoreState

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


class Judge:
    """A git repository that says what it would ignore."""

    def __init__(self, root: Path) -> None:
        self.root = os.fsencode(root)
        self._run("init", "-q", ".")

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=self.root, env=ENVIRONMENT, input=given, capture_output=True, check=False
        )
        assert done.returncode in {0, 1}, done.stderr
        return done.stdout

    def write(self, files: Mapping[bytes, bytes]) -> None:
        for path, content in files.items():
            full = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            Path(os.fsdecode(full)).write_bytes(content)

    def exclude(self, text: bytes) -> None:
        self.write({b".git/info/exclude": text})

    def ignored(self, paths: Sequence[bytes]) -> set[bytes]:
        said = self._run(
            "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin", given=b"\0".join(paths) + b"\0"
        ).split(b"\0")
        rows = zip(said[2::4], said[3::4], strict=False)
        return {path for pattern, path in rows if pattern and not pattern.startswith(b"!")}


def ours(
    paths: Mapping[bytes, bool], ignore_files: Mapping[bytes, bytes], *, info_exclude: bytes = b""
) -> set[bytes]:
    rules = TreeRules(
        IgnoreState(info_exclude=info_exclude),
        lambda directory: (ignore_files.get(directory), None),
    )
    return {path for path, directory in paths.items() if rules.ignored(path, directory=directory)}


def compare(
    root: Path,
    names: Sequence[bytes],
    ignore_files: Mapping[bytes, bytes],
    *,
    info_exclude: bytes = b"",
) -> None:
    judge = Judge(root)
    judge.write(dict.fromkeys(names, b""))
    judge.write({(d + b"/.gitignore").lstrip(b"/"): text for d, text in ignore_files.items()})
    judge.exclude(info_exclude)
    paths = {
        os.path.relpath(os.path.join(top, name), judge.root): directory
        for top, folders, files in os.walk(judge.root)
        for found, directory in ((folders, True), (files, False))
        for name in found
        if b".git" not in (top.split(b"/")) and name != b".git"
    }
    expected = judge.ignored(list(paths))
    assert ours(paths, ignore_files, info_exclude=info_exclude) == expected


NAMES = st.text("ab.-x", min_size=1, max_size=3).filter(lambda name: name not in {".", ".."})
PIECE = st.sampled_from(
    [
        *(
            "a",
            "b",
            "x",
            ".",
            "-",
            "ab",
            "*",
            "*",
            "**",
            "?",
            "/",
            "/",
            "/",
            "**/",
            "/**",
            "\\",
            "\\/",
            "\\*",
            " ",
            "\\ ",
        ),
        *(
            "[ab]",
            "[!a]",
            "[^b]",
            "[a-x]",
            "[]a]",
            "[!]a]",
            "[[:alpha:]]",
            "[[:punct:]]",
            "[[:bogus:]]",
            "[a",
            "[/]",
        ),
        *(
            "[a/]",
            "[\\]]",
            "[--.]",
            "[x-a]",
            "[[:]",
            "[[:alpha:]",
            "[a-]",
            "[\\a-\\b]",
            "***",
            "**a",
            "**\\/",
            "[[.]",
        ),
        *("a*", "*b", "!", "#", "\r", "\0", "\t"),
    ]
)
LINE = st.lists(PIECE, min_size=1, max_size=6).map("".join)
NEGATED = st.builds(lambda negation, line: negation + line, st.sampled_from(["", "", "!"]), LINE)
TEXT = st.builds(
    lambda lines, joint, end: (joint.join(lines) + end).encode(),
    st.lists(NEGATED, min_size=1, max_size=6),
    st.sampled_from(["\n", "\n", "\r\n"]),
    st.sampled_from(["\n", "", "\r", " ", "\n\n"]),
)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[bytes], dict[bytes, bytes], bytes]:
    parts = st.lists(NAMES, min_size=1, max_size=4)
    wanted = draw(st.lists(parts, min_size=5, max_size=25))
    folders = {"/".join(path[:depth]) for path in wanted for depth in range(len(path))}
    files = sorted({"/".join(path) for path in wanted} - folders)
    ignoring = draw(st.lists(st.sampled_from(sorted(folders)), max_size=4, unique=True))
    ignore_files = {folder.encode(): draw(TEXT) for folder in ["", *ignoring]}
    return [file.encode() for file in files], ignore_files, draw(st.one_of(st.just(b""), TEXT))


@given(tree=trees())
@settings(max_examples=300)
def test_generated_rules_ignore_what_git_ignores(
    tmp_path_factory: pytest.TempPathFactory, tree: tuple[list[bytes], dict[bytes, bytes], bytes]
) -> None:
    names, ignore_files, info_exclude = tree
    compare(tmp_path_factory.mktemp("tree"), names, ignore_files, info_exclude=info_exclude)


CLASSES = ["alnum", "alpha", "blank", "cntrl", "digit", "graph"]
CLASSES += ["lower", "print", "punct", "space", "upper", "xdigit"]


def test_every_named_class_holds_the_bytes_that_git_gives_it(tmp_path: Path) -> None:
    members = [bytes((byte,)) for byte in range(1, 256) if byte not in b"/."]
    names = [f"{number}/".encode() + b"_" + byte for number in range(2 * len(CLASSES)) for byte in members]
    rules = [f"_[[:{name}:]]" for name in CLASSES] + [f"_[![:{name}:]]" for name in CLASSES]
    compare(tmp_path, names, {str(number).encode(): rule.encode() for number, rule in enumerate(rules)})


ODD_FILES = [
    *(
        b"abc",
        b"abcx",
        b"abcd/e/x",
        b"abcd/x",
        b"foo",
        b"foo ",
        b"foo\r",
        b"#foo",
        b"!foo",
        b"a/b/c/foo",
        b"a/foo",
    ),
    *(
        b"a/b/foo",
        b"d/a/foo",
        b"\xef\xbb\xbffoo",
        b"[ab]",
        b"\\",
        b"\xff\xfe",
        b"-",
        b"]",
        b"^",
        b"new\nline",
    ),
    *(b"dir/kept", b"dir/lost", b"dir/sub/kept", b"*", b"**", b"?", b"foo\t", b"x/[/]", b"deep/1/2/3/4/foo"),
]
ODD_RULES = [
    *(
        b"",
        b"\n",
        b"foo",
        b"foo\n",
        b"foo\r\n",
        b"foo\r",
        b"foo \r\n",
        b"foo\\ ",
        b"foo\\ \\ ",
        b"foo\\\\ ",
        b"foo\t",
    ),
    *(b"#foo", b"\\#foo", b"!foo", b"\\!foo", b"*\n!foo", b"*\n!*/", b"\xef\xbb\xbffoo", b"\xef\xbb\xbf#foo"),
    *(
        b"/abc**",
        b"/abc**/x",
        b"/abc**\\/x",
        b"/abc**/**/x",
        b"abc**/x",
        b"a?c**/x",
        b"**",
        b"/**",
        b"**/",
        b"/*",
    ),
    *(
        b"/",
        b"//",
        b"///",
        b"!",
        b"!/",
        b"foo/",
        b"/foo/",
        b"a/",
        b"a/*",
        b"a/**",
        b"a/**/",
        b"**/foo",
        b"**/a/foo",
    ),
    *(
        b"a/**/foo",
        b"a/**/**/foo",
        b"**/**",
        b"**/**/foo",
        b"*/foo",
        b"*/*/foo",
        b"*\\/foo",
        b"**\\/foo",
        b"foo\\/",
    ),
    *(
        b"[ab]",
        b"\\[ab]",
        b"[",
        b"[a",
        b"[]]",
        b"[!]]",
        b"[^^]",
        b"[]-a]",
        b"[--a]",
        b"[a-]",
        b"[\\]]",
        b"[\\",
        b"[z-a]",
    ),
    *(
        b"[[:foo:]]",
        b"[[:alpha:]",
        b"[[:alpha]",
        b"[[]",
        b"[[:]",
        b"[[:]]",
        b"[:alpha:]",
        b"[[:alpha:]-z]",
        b"a[/]foo",
    ),
    *(
        b"\\",
        b"foo\\",
        b"\\f\\o\\o",
        b"\xff*",
        b"[\xf0-\xff]*",
        b"f\0oo",
        b"\0foo",
        b"new\nline",
        b"new?line",
        b"new*",
    ),
    *(
        b"dir/\n!dir/kept",
        b"dir/*\n!dir/kept",
        b"dir/**\n!kept",
        b"/*\n!/dir/\n/dir/*\n!/dir/sub/",
        b"kept\n!dir",
    ),
    *(
        b" foo",
        b"foo  ",
        b"  ",
        b"\\ ",
        b"deep/**/foo",
        b"deep/*/foo",
        b"deep/**/3/**",
        b"***",
        b"f***o",
        b"./foo",
    ),
    *(
        b"a/../foo",
        b"a//foo",
        b"?",
        b"\\?",
        b"\\*",
        b"\\**",
        b"[*]",
        b"*?",
        b"?*?",
        b"*o*o*",
        b"fo[o]",
        b"[ef][no][oe]*",
    ),
]


def test_odd_rules_ignore_what_git_ignores(tmp_path: Path) -> None:
    names = [f"{number}/".encode() + file for number in range(len(ODD_RULES)) for file in ODD_FILES]
    compare(tmp_path, names, {str(number).encode(): rule for number, rule in enumerate(ODD_RULES)})


def test_deeper_files_outrank_shallower_ones_and_info_exclude(tmp_path: Path) -> None:
    names = [b"x.log", b"a/x.log", b"a/b/x.log", b"a/b/c/x.log", b"a/y", b"a/b/y", b"b/a/y"]
    files = {b"": b"!x.log\n/a/y\n", b"a": b"*.log\n/b/y\n", b"a/b": b"!x.log\n!y\n", b"a/b/c": b"*\n!*\n"}
    compare(tmp_path, names, files, info_exclude=b"*.log\ny\n")


@given(texts=st.lists(TEXT, min_size=20, max_size=40))
@settings(max_examples=15)
def test_generated_rules_on_odd_names_ignore_what_git_ignores(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes]
) -> None:
    names = [f"{number}/".encode() + file for number in range(len(texts)) for file in ODD_FILES]
    files = {str(number).encode(): text for number, text in enumerate(texts)}
    compare(tmp_path_factory.mktemp("odd"), names, files)


@given(texts=st.lists(TEXT, min_size=5, max_size=20))
@settings(max_examples=10)
def test_rules_rewritten_for_a_directory_below_mean_the_same_there(texts: list[bytes]) -> None:
    assert_rewritten_rules_mean_the_same(texts)


def assert_rewritten_rules_mean_the_same(texts: list[bytes]) -> None:
    for text in texts:
        for folder in (b"a", b"a/b", b"abc", b"abcx/d", b"deep/1", b"x\r", b"foo"):
            names = folder.split(b"/")
            above = enter(workspace_rules(IgnoreState(), text), names)
            below = workspace_rules(IgnoreState(), relative(text, names))
            for file in ODD_FILES:
                *over, name = file.split(b"/")
                one, other = enter(above, over), enter(below, over)
                for sort in (True, False):
                    assert one.ignored(name, directory=sort) == other.ignored(name, directory=sort), text


def test_odd_rules_rewritten_for_a_directory_below_mean_the_same_there() -> None:
    assert_rewritten_rules_mean_the_same(ODD_RULES)


def enter(rules: Rules, names: Sequence[bytes]) -> Rules:
    for name in names:
        rules = rules.child(name)
    return rules
