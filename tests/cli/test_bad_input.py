"""What bad input gets: a typed error that says what, why and what to do; nothing lost, nothing written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lastgood as package
from faults.cli import as_nobody
from lastgood.errors import LastgoodError
from tools.alike import AlikeClock
from tools.command import Command, told, told_as_document
from tools.wreckage import picture

# Every verb that takes a REF, with the words that come after it.
VERBS_OF_REFS = (
    ("show",),
    ("diff",),
    ("restore", "--yes"),
    ("restore", "--dry-run"),
    ("recover",),
    ("delete",),
    ("pin",),
    ("unpin",),
    ("verify",),
    ("name",),
)
BAD_REFS = {
    "nosuch": 10,
    "ckpt_0123456789abcdef": 10,
    "000000000000": 10,
    "@good": 10,
    "@start": 10,
    "@~99": 10,
    "@{99d}": 10,
    "task:T01": 10,
    "step:3": 10,
    "": 2,
    "--what": 2,
    "-9": 2,
    "a..b": 12,
    "two\nlines": 12,
    "@{": 12,
    "@{tomorrow}": 12,
    "@~-1": 12,
    "@nothing": 12,
    "latest:src": 12,
    "x" * 200: 12,
}


@pytest.mark.parametrize("ref", BAD_REFS, ids=ascii)
def test_a_bad_ref_is_told_and_changes_nothing(kept: Command, ref: str) -> None:
    before = picture(kept.project), _facts(kept.store)
    told(kept("restore", "--yes", ref, expect=None), BAD_REFS[ref])
    told_as_document(kept("--json", "show", ref, expect=None), BAD_REFS[ref])
    assert (picture(kept.project), _facts(kept.store)) == before


@pytest.mark.parametrize("verb", VERBS_OF_REFS, ids=" ".join)
def test_every_verb_refuses_a_bad_ref(kept: Command, verb: tuple[str, ...]) -> None:
    before = picture(kept.project), _facts(kept.store)
    for ref, code in (("nosuch", 10), ("", 2), ("a..b", 12)):
        told(kept(*verb, ref, *(("fine",) if verb == ("name",) else ()), expect=None), code)
    assert (picture(kept.project), _facts(kept.store)) == before


def _facts(store: Path) -> dict[bytes, tuple[str, int, str]]:
    """Return the store's files but for the log of the catalogue, which a reader may tidy."""
    volatile = (b"catalogue.sqlite3", b"locks/", b"workspaces/")
    return {path: found for path, found in picture(store).items() if not path.startswith(volatile)}


def test_an_ambiguous_ref_lists_the_candidates_and_changes_nothing(lastgood: Command) -> None:
    with package.open(
        lastgood.project, store=lastgood.store, maintenance="off", clock=AlikeClock()
    ) as workspace:
        ids = [workspace.save(allow_empty=True).checkpoint.id for _ in range(2)]
    listed = lastgood("list", "--json").json
    for ref in ("abcd", "ckpt_abcdab"):
        for words in (("show", ref), ("delete", ref), ("restore", ref, "--yes")):
            done = lastgood(*words, expect=None)
            told(done, 11)
            assert all(one in done.err for one in ids)
        told_as_document(lastgood("show", ref, "--json", expect=None), 11)
    assert lastgood("list", "--json").json == listed


@pytest.mark.parametrize(
    "name", ["", "..", "a..b", "-x", ".x", "a:b", "@x", "a\nb", "latest", "ckpt_abcd", "x" * 101]
)
def test_a_bad_name_is_told_and_makes_no_checkpoint(kept: Command, name: str) -> None:
    before = kept("list", "--json").json
    told(kept("save", f"--name={name}", expect=None), 12)
    words = ("name", "@", "--", name) if name.startswith("-") else ("name", "@", name)
    told(kept(*words, expect=None), 12)
    assert kept("list", "--json").json == before


@pytest.mark.parametrize("verb", ["save", "list", "status", "restore", "verify", "config"])
@pytest.mark.parametrize(
    ("folder", "code"),
    [
        ("missing", 10),
        ("a-file", 15),
        ("a-file/below", 10),
        ("/", 15),
        ("/usr", 15),
        ("~", 15),
        ("bad\x01name", 10),
    ],
)
def test_a_folder_that_cannot_be_a_workspace_is_refused(
    lastgood: Command, verb: str, folder: str, code: int
) -> None:
    (lastgood.project / "a-file").write_text("mine\n", encoding="utf-8")
    place = os.path.join(lastgood.project, os.path.expanduser(folder))
    words = (verb, "@", "--dry-run") if verb == "restore" else (verb,)
    told(lastgood("-C", place, *words, expect=None), code)
    told_as_document(lastgood("-C", place, *words, "--json", expect=None), code)
    assert not lastgood.store.exists()
    assert picture(lastgood.project).keys() == {b"a-file"}


def test_a_folder_that_may_not_be_read_is_refused(project: Path, store: Path) -> None:
    (project / "a.txt").write_text("mine\n", encoding="utf-8")
    theirs = store.parent / "theirs"
    theirs.mkdir()
    project.chmod(0o700)

    def look() -> str:
        try:
            package.open(project, store=theirs / "store")
        except LastgoodError as error:
            return f"{error.code}: {error.message}"
        return "opened"

    said = as_nobody(look, folder=theirs)
    if os.geteuid() == 0:
        assert said == f"unsafe: {project} cannot be read"
    assert not (theirs / "store").exists() or os.geteuid() != 0


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--limit", "0"),
        ("list", "--limit", "ten"),
        ("list", "--since", "yesterday"),
        ("list", "--kind", "odd"),
        ("save", "--budget", "soon"),
        ("save", "--kind", "odd"),
        ("save", "--meta", "nothing"),
        ("save", "one", "two"),
        ("rewind", "0"),
        ("rewind", "-1"),
        ("rewind", "one"),
        ("restore",),
        ("restore", "@"),
        ("restore", "@", "a.txt", "--yes"),
        ("restore", "@", "--yes", "--"),
        ("restore", "@", "--yes", "--", ""),
        ("restore", "@", "--to", "", "--yes"),
        ("restore", "@", "--only", "memory", "--yes"),
        ("diff", "@", "@", "@"),
        ("diff", "--previous", "-x"),
        ("delete",),
        ("pin",),
        ("name", "@"),
        ("undo", "ckpt_1234"),
        ("workspace",),
        ("workspace", "burn"),
        ("workspace", "forget"),
        ("workspace", "forget", "."),
        ("completion",),
        ("completion", "cmd"),
        ("help", "nothing"),
        ("verfy",),
        ("save", "--nmae", "x"),
        (),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_a_usage_error_and_does_nothing(
    kept: Command, words: tuple[str, ...]
) -> None:
    before = picture(kept.project), kept("list", "--json").json
    told(kept(*words, expect=None), 2)
    told_as_document(kept("--json", *words, expect=None), 2)
    assert (picture(kept.project), kept("list", "--json").json) == before


@pytest.mark.parametrize("path", ["../elsewhere", "/etc/passwd", "src/../../elsewhere"])
def test_a_path_that_leads_out_is_refused(kept: Command, path: str) -> None:
    before = picture(kept.project)
    told(kept("restore", "one", "--yes", "--", path, expect=None), 12)
    told(kept("diff", "one", "--", path, expect=None), 12)
    assert picture(kept.project) == before


def test_an_occupied_folder_is_not_written_into(kept: Command, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "thesis.txt").write_text("mine\n", encoding="utf-8")
    told(kept("restore", "@", "--to", str(there), expect=None), 15)
    assert picture(there).keys() == {b"thesis.txt"}
    told(kept("restore", "@", "--to", str(there / "thesis.txt"), expect=None), 15)


@pytest.mark.parametrize("path", ["a.txt", "src/b.py", "./a.txt", "src"])
@pytest.mark.parametrize("words", [("show",), ("delete",), ("pin",), ("unpin",), ("delete", "one")])
def test_a_path_where_only_a_checkpoint_fits_is_told_as_one(
    kept: Command, words: tuple[str, ...], path: str
) -> None:
    """K2: with what to type, and nothing is done."""
    before = kept("list", "--json").json

    done = kept(*words, path, expect=None)

    assert done.code in {10, 12}
    assert f"'{path}' is a path, and `{words[0]}` takes a checkpoint" in done.err
    assert f"diff @ -- {path}" in done.err
    assert kept("list", "--json").json == before


def test_a_name_is_not_given_to_a_path(kept: Command) -> None:
    """K2."""
    done = kept("name", "a.txt", "better", expect=None)

    assert done.code == 10
    assert "`name` takes a checkpoint" in done.err


def test_what_is_neither_a_checkpoint_nor_a_path_is_not_found(kept: Command) -> None:
    """K2."""
    done = kept("show", "never-heard-of", expect=None)

    assert done.code == 10
    assert "lastgood list" in done.err
    assert "path" not in done.err
