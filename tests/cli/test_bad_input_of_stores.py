"""What a store or a setting that is not as it should be gets, told by the command."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3

import pytest

from tools.command import Command, told, told_as_document
from tools.wreckage import picture

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
    packs = sorted((kept.store / "objects.git" / "objects" / "pack").glob("*.pack"), key=os.path.getmtime)
    for pack in packs:
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


@pytest.mark.skipif(not ROOT, reason="mounting takes root")
def test_a_store_on_a_read_only_medium_is_told(kept: Command) -> None:
    before = picture(kept.project), picture(kept.store)
    if os.system(f"mount --bind {kept.store} {kept.store} 2>/dev/null") != 0:
        pytest.skip("mounting is not allowed here")
    try:
        assert os.system(f"mount -o remount,bind,ro {kept.store}") == 0
        (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
        told(kept("save", expect=None), 1)
        told(kept("restore", "one", "--yes", expect=None), 1)
        assert (kept.project / "a.txt").read_text(encoding="utf-8") == "third\n"
    finally:
        os.system(f"umount {kept.store}")
    assert picture(kept.store) == before[1]


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
