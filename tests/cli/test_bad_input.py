"""What bad input gets: a typed error that says what, why and what to do; nothing lost, nothing written."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastgood as package
from faults.cli import as_nobody
from lastgood.errors import LastgoodError
from tools.alike import AlikeClock
from tools.command import Command, told, told_as_document
from tools.harm import packs_of
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
    "a..b": 10,
    "two\nlines": 10,
    "@{": 12,
    "@{tomorrow}": 12,
    "@~-1": 12,
    "@nothing": 12,
    "latest:src": 10,
    "x" * 200: 10,
    "task:": 12,
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
    for ref, code in (("nosuch", 10), ("", 2), ("@{", 12)):
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
        ("list", "--since", "someday"),
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
        ("rewind", "1", "--plan"),
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
    assert f"log {path}" in done.err
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


# What a store or a setting that is not as it should be gets, told by the command.


VERBS = (("save",), ("list",), ("status",), ("restore", "one", "--yes"), ("undo",), ("delete", "one"))

ROOT = os.geteuid() == 0


def refused(command: Command, code: int, *, verbs: tuple[tuple[str, ...], ...] = VERBS) -> None:
    """Assert that every verb refuses, and that neither the workspace nor the store is any different."""
    before = picture(command.project), picture(command.store)
    for words in verbs:
        told(command(*words, expect=None), code)
        told_as_document(command(*words, "--json", expect=None), code)
    assert (picture(command.project), picture(command.store)) == before


@pytest.mark.skipif(not ROOT, reason="giving a folder away takes root")
def test_a_store_of_another_user_is_refused(kept: Command) -> None:
    os.chown(kept.store, 65534, 65534)
    refused(kept, 15)


def test_a_store_of_a_newer_format_is_left_as_it_is(kept: Command) -> None:
    (kept.store / "format").write_text('{"engine":"git","format":99}\n', encoding="utf-8")
    refused(kept, 17)


def test_a_store_that_is_a_file_or_holds_something_else_is_refused(lastgood: Command) -> None:
    lastgood.store.mkdir()
    (lastgood.store / "thesis.txt").write_text("mine\n", encoding="utf-8")
    lastgood.store.chmod(0o755)
    refused(lastgood, 15)
    assert lastgood.store.stat().st_mode & 0o777 == 0o755, "a folder that is not ours stays as it is"
    shutil.rmtree(lastgood.store)
    lastgood.store.write_text("mine\n", encoding="utf-8")
    told(lastgood("save", expect=None), 15)
    assert lastgood.store.read_text(encoding="utf-8") == "mine\n"


def test_a_store_without_its_catalogue_says_how_to_bring_it_back(kept: Command) -> None:
    for file in kept.store.glob("catalogue.sqlite3*"):
        file.unlink()
    refused(kept, 16)
    assert "verify --repair" in kept("list", expect=16).err


def test_a_catalogue_that_is_no_database_is_damage(kept: Command) -> None:
    for file in kept.store.glob("catalogue.sqlite3*"):
        file.unlink()
    (kept.store / "catalogue.sqlite3").write_bytes(b"rubbish" * 1000)
    for words in VERBS:
        told(kept(*words, expect=None), 16)
    kept("verify", "--repair", expect=None)
    assert [one["name"] for one in kept("list", "--json").json["checkpoints"]] == ["two", "one"]


@pytest.mark.parametrize("column", ["manifest", "tree", "commit_id", "name", "gaps"])
def test_a_damaged_row_is_found_and_costs_nothing(kept: Command, column: str) -> None:
    ids = [one["id"] for one in kept("list", "--json").json["checkpoints"]]
    database = sqlite3.connect(kept.store / "catalogue.sqlite3")
    with database:
        database.execute(f"UPDATE checkpoint SET {column} = '{{' WHERE name = 'one'")
    database.close()
    assert "two" in kept("list", expect=None).out
    assert kept("show", "two").out
    found = kept("verify", expect=16)
    assert "fault" in found.out
    assert "0 of" not in found.out
    kept("verify", "--repair")
    kept("verify", "--deep")
    assert [one["id"] for one in kept("list", "--json").json["checkpoints"]] == ids
    kept("restore", ids[1], "--yes")
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "first\n"


@pytest.mark.damages
@pytest.mark.parametrize("verb", [("restore", "one", "--yes"), ("diff", "one"), ("show", "one", "--files")])
def test_a_damaged_pack_is_damage_and_nothing_is_written(kept: Command, verb: tuple[str, ...]) -> None:
    for pack in packs_of(kept.store):
        content = bytearray(pack.read_bytes())
        content[12:-20] = bytes(len(content) - 32)
        pack.chmod(0o600)
        pack.write_bytes(content)
    before = picture(kept.project)
    told(kept(*verb, expect=None), 16)
    told_as_document(kept(*verb, "--json", expect=None), 16)
    assert picture(kept.project) == before
    assert kept("list").out.count("ckpt_") == 2


def test_a_full_disk_is_told_and_costs_nothing_earlier(kept: Command) -> None:
    (kept.project / "large.bin").write_bytes(os.urandom(1 << 20))
    listed, before = kept("list", "--json").json, picture(kept.project)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        told(kept("save", "too much", expect=None), 1)
        told_as_document(kept("save", "too much", "--json", expect=None), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (kept("list", "--json").json, picture(kept.project)) == (listed, before)
    kept("verify", "--deep")
    kept("save", "now there is room")


@pytest.fixture
def sealed(kept: Command) -> Iterator[Command]:
    """Return the command with its store on a medium that cannot be written."""
    if not ROOT or os.system(f"mount --bind {kept.store} {kept.store} 2>/dev/null") != 0:
        pytest.skip("mounting takes root")
    try:
        assert os.system(f"mount -o remount,bind,ro {kept.store}") == 0
        yield kept
    finally:
        os.system(f"umount {kept.store}")


def test_a_store_on_a_read_only_medium_is_told(sealed: Command) -> None:
    before = picture(sealed.store)
    (sealed.project / "a.txt").write_text("third\n", encoding="utf-8")
    told(sealed("save", expect=None), 1)
    told(sealed("restore", "one", "--yes", expect=None), 1)
    assert (sealed.project / "a.txt").read_text(encoding="utf-8") == "third\n"
    assert picture(sealed.store) == before


def test_a_store_on_a_read_only_medium_is_exported(sealed: Command, tmp_path: Path) -> None:
    """It is copied away just there; what is gathered meanwhile lies beside the file, and goes again."""
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "kept.txt").write_text("mine\n", encoding="utf-8")
    file = tmp_path / "away" / "all.tar"
    sealed("export", str(file))
    assert sorted(os.listdir(file.parent)) == ["all.tar", "kept.txt"]
    other = str(tmp_path / "other")
    sealed("--store", other, "import", str(file))
    assert sealed("--store", other, "list").out.count("ckpt_") == 2
    sealed("--store", other, "verify", "--deep")


def test_a_lock_that_a_read_only_medium_lacks_is_not_called_missing(sealed: Command) -> None:
    assert not (sealed.store / "locks" / "maintenance.lock").exists()
    assert "maintenance.lock: Read-only file system" in sealed("verify", expect=1).err


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('[capture]\nexcldue = ["x"]\n', "exclude"),
        ('[capture]\nexclude = "x"\n', "exclude"),
        ('[captre]\nexclude = ["x"]\n', "capture"),
        ("[capture\n", "TOML"),
        ('durability = "fast"\n', "durability"),
        ("[retention]\nmax_checkpoints = 1\n", "max_checkpoints"),
        ("\xff", "TOML"),
    ],
)
def test_a_wrong_setting_names_file_and_key(lastgood: Command, text: str, word: str) -> None:
    """K7: `config` refuses it and makes nothing; a save says the same, and goes on."""
    (lastgood.project / ".lastgood.toml").write_bytes(text.encode("latin-1"))
    done = lastgood("config", expect=None)
    told(done, 12)
    told_as_document(lastgood("config", "--json", expect=None), 12)
    assert not lastgood.store.exists()
    saved = lastgood("save")
    for said in (done.err, saved.err):
        assert ".lastgood.toml" in said
        assert word in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LASTGOOD_CAPTURE_MAX_FILE_SIZE", "many"),
        ("LASTGOOD_CAPTURE_EXCLUED", "x"),
        ("LASTGOOD_DURABILITY", "no"),
    ],
)
def test_a_wrong_variable_is_named(lastgood: Command, name: str, value: str) -> None:
    done = lastgood("save", env={name: value}, expect=None)
    told(done, 12)
    assert name in done.err or name.removeprefix("LASTGOOD_").lower() in done.err.replace(".", "_")
