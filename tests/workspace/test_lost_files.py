"""No small file of the store is the only proof of something: what else is there tells what is lost (K4)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from lastgood.catalogue import WorkspaceRow
from lastgood.errors import Storage
from lastgood.ledger_anchor import LedgerAnchor, LedgerState, find_store
from lastgood.store import mend_machine, store_machine
from lastgood.workspace import Workspace
from lastgood.workspace.verify import agreed_machine, own_machine
from tools.command import Command
from tools.harm import flip, packs_of

OWN = "0123456789abcdef"


@pytest.fixture
def kept(project: Path, store: Path) -> Command:
    """Return the command in a project with two checkpoints."""
    command = Command(project, store)
    (project / "a.txt").write_text("first\n", encoding="utf-8")
    command("save", "one", "--name", "one")
    (project / "a.txt").write_text("second\n", encoding="utf-8")
    command("save", "two", "--name", "two")
    return command


def reopened(project: Path, store: Path, *, repair: bool = False) -> Workspace:
    return lastgood.open(project, store=store, maintenance="off", repair=repair)


def row(machine: str) -> WorkspaceRow:
    return WorkspaceRow(key=f"key of {machine}", path="/x", machine=machine, created_at=0)


@pytest.mark.parametrize("content", [None, b"", b"garbled"], ids=["missing", "emptied", "garbled"])
def test_every_verb_works_without_the_file_machine(
    kept: Command, project: Path, store: Path, content: bytes | None
) -> None:
    listed = kept("list", "--json").json["checkpoints"]
    (store / "machine").unlink() if content is None else (store / "machine").write_bytes(content)

    assert kept("list", "--json").json["checkpoints"] == listed
    kept("status")
    kept("restore", "one", "--to", str(project.parent / "aside"))
    assert (project.parent / "aside" / "a.txt").read_text() == "first\n"
    assert "unchanged" in kept("save").out
    assert "machine: the store's own id is missing or garbled" in kept("verify", expect=16).out
    assert "the store's own id was written anew" in kept("verify", "--repair").out
    kept("verify")
    assert kept("list", "--json").json["checkpoints"] == listed


@pytest.mark.usefixtures("kept")
def test_every_verb_works_with_any_flipped_bit_in_the_file_format(project: Path, store: Path) -> None:
    content = (store / "format").read_bytes()
    for bit in range(0, 8 * len(content), 11):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        (store / "format").write_bytes(flipped)
        with reopened(project, store) as workspace:
            assert workspace.read("one", "a.txt") == b"first\n"
            assert [fault.partition(":")[0] for fault in workspace.verify().faults] == ["format"], bit
        with reopened(project, store, repair=True) as workspace:
            assert workspace.verify(repair=True).repaired == ("the store's mark of format was written anew",)
            assert workspace.verify(repair=True).repaired == ()


def test_a_save_after_the_objects_were_deleted_keeps_everything_anew(
    kept: Command, project: Path, store: Path
) -> None:
    """K4: what the scan cache remembers, and the last checkpoint, prove nothing that is not stored."""
    shutil.rmtree(store / "objects.git")

    saved = kept("save", "--json").json["checkpoint"]["id"]

    with reopened(project, store) as workspace:
        assert workspace.read(saved, "a.txt") == b"second\n"
        report = workspace.verify()
    assert saved not in {one.id for one in report.damaged}
    assert "unchanged" in kept("save").out


def test_a_save_after_an_older_store_was_put_back_beside_a_newer_scan_cache_keeps_everything_anew(
    project: Path, store: Path
) -> None:
    """S14: a copy that was taken while saves went on may have a cache of after its objects."""
    with reopened(project, store) as workspace:
        workspace.save("one")
    facts = [path for path in store.iterdir() if path.name != "workspaces"]
    older = project.parent / "older"
    shutil.copytree(store, older)
    (project / "inner").mkdir()
    (project / "inner/a.txt").write_text("second\n", encoding="utf-8")
    with reopened(project, store) as workspace:
        workspace.save("two")
        workspace.save("three")
    for path in facts:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        (older / path.name).rename(path)

    with reopened(project, store) as workspace:
        saved = workspace.save("four").checkpoint
        assert workspace.verify().ok
        assert workspace.read(saved.id, "inner/a.txt") == b"second\n"


def test_what_is_saved_by_a_program_that_was_there_before_a_repair_is_in_the_new_catalogue(
    project: Path, store: Path
) -> None:
    """S13: it has the catalogue open that the repair set aside."""
    with reopened(project, store) as workspace:
        workspace.save("one")
    with reopened(project, store) as workspace:
        with (store / "catalogue.sqlite3").open("r+b") as file:
            file.seek(100)
            file.write(b"\xff" * 60)
        with reopened(project, store, repair=True) as repairing:
            repairing.verify(repair=True)
        (project / "a.txt").write_text("second\n", encoding="utf-8")
        saved = workspace.save("two", name="two").checkpoint

        with reopened(project, store) as another:
            assert another.get("two").id == saved.id


def test_a_save_into_a_store_that_was_taken_away_fails_and_makes_no_catalogue(
    project: Path, store: Path
) -> None:
    with reopened(project, store) as workspace:
        workspace.save("one")
        store.rename(project.parent / "elsewhere")
        (project / "a.txt").write_text("second\n", encoding="utf-8")
        for _ in range(2):
            with pytest.raises(Storage, match="is not there any more"):
                workspace.save("two")
    assert not (store / "catalogue.sqlite3").exists()


def test_an_older_catalogue_that_was_put_back_is_told_and_brought_up_to_its_backup(
    kept: Command, project: Path, store: Path
) -> None:
    shutil.copyfile(store / "catalogue.sqlite3", project.parent / "older")
    kept("name", "two", "renamed")
    kept("maintain")
    (project / "a.txt").write_text("third\n", encoding="utf-8")
    kept("save", "three")
    before = kept("list", "--json").json["checkpoints"]
    shutil.copyfile(project.parent / "older", store / "catalogue.sqlite3")

    assert "catalogue.sqlite3: it is older than its backup" in kept("verify", expect=16).out
    kept("maintain", expect=16)
    # Nothing is freed of what only the backup names.
    assert "older than its backup" in kept("prune", "--keep", "1", "--now", "--yes", expect=16).err
    kept("verify", "--repair")

    after = kept("list", "--json").json["checkpoints"]
    assert [one["id"] for one in after] == [one["id"] for one in before]
    assert [one["name"] for one in after] == [None, "renamed", "one"]
    kept("maintain")


def test_what_was_saved_after_an_older_catalogue_was_put_back_keeps_its_name_and_pin(
    kept: Command, project: Path, store: Path
) -> None:
    """K4: its number is that of another checkpoint, which the backup names."""
    shutil.copyfile(store / "catalogue.sqlite3", project.parent / "older")
    for number in range(3):
        (project / "a.txt").write_text(f"later {number}\n", encoding="utf-8")
        kept("save", f"later {number}")
    kept("maintain")
    shutil.copyfile(project.parent / "older", store / "catalogue.sqlite3")
    (project / "a.txt").write_text("after\n", encoding="utf-8")
    kept("save", "after", "--pin")
    kept("name", "@", "precious")
    kept("verify", "--repair")

    found = {one["message"]: one for one in kept("list", "--json").json["checkpoints"]}

    assert {"one", "two", "later 0", "later 1", "later 2", "after"} == set(found)
    assert (found["after"]["name"], found["after"]["pinned"]) == ("precious", True)
    assert kept("verify", "--deep").code == 0


def test_a_damaged_file_is_listed_as_lost_and_hides_no_other(
    kept: Command, project: Path, store: Path
) -> None:
    (project / "b.txt").write_text("in a pack of its own\n", encoding="utf-8")
    kept("save", "three", "--name", "three")
    with reopened(project, store) as workspace:
        oid = next(one.oid for one in workspace.entries("three") if one.path == b"a.txt")
    for index in packs_of(store, ".idx"):
        if bytes.fromhex(oid) in index.read_bytes():
            index.with_suffix(".pack").unlink()
    kept("verify", "--repair", expect=16)

    with reopened(project, store) as workspace:
        assert [(one.path, one.lost) for one in workspace.entries("three")] == [
            (b"a.txt", True),
            (b"b.txt", False),
        ]
        assert workspace.read("three", "b.txt") == b"in a pack of its own\n"
    assert "lost" in kept("show", "three", "--files").out


def test_checkpoints_whose_sound_packs_an_earlier_release_set_aside_come_back(
    kept: Command, store: Path
) -> None:
    before = kept("list", "--json").json["checkpoints"]
    packs, aside = store / "objects.git" / "objects" / "pack", store / "objects.git" / "damaged"
    aside.mkdir()
    for path in [*packs.iterdir()]:
        path.rename(aside / path.name)
    assert kept("verify", expect=16).code == 16

    assert "taken out of what was set aside before" in kept("verify", "--repair").out

    assert kept("list", "--json").json["checkpoints"] == before
    assert kept("verify", "--deep").code == 0
    assert "set aside before" not in kept("verify", "--repair").out


def test_a_damaged_backup_is_told_set_aside_and_made_again(kept: Command, store: Path) -> None:
    kept("maintain")
    backup = store / "catalogue.backup.sqlite3.gz"
    backup.write_bytes(backup.read_bytes() + b"x")

    assert f"its backup {backup.name} is damaged" in kept("verify", expect=16).out
    assert "set aside" in kept("verify", "--repair").out
    assert (store / "damaged" / backup.name).exists()
    assert backup.exists()
    kept("verify")


@pytest.mark.parametrize("name", ["catalogue.sqlite3", "ledger.sqlite3"])
def test_a_file_whose_header_names_an_unknown_form_is_mended(
    kept: Command, project: Path, store: Path, name: str
) -> None:
    """SQLite calls a flipped bit in the schema's format an error of the statement."""
    with reopened(project, store) as workspace:
        workspace.ledger("notes").change(lambda book: book.put("book", "key", head="kept"))
        workspace.maintain()
    flip(store / name, 47, bits=1 << 1)

    kept("verify", expect=16)
    kept("verify", "--repair")

    with reopened(project, store) as workspace:
        assert workspace.read("one", "a.txt") == b"first\n"
        assert workspace.ledger("notes").look(lambda book: book.entry("book", "key")) is not None


def test_a_ledger_of_an_unknown_version_keeps_nothing_else_from_its_repair(
    kept: Command, project: Path, store: Path
) -> None:
    with reopened(project, store) as workspace:
        workspace.ledger("notes").change(lambda book: book.put("book", "key", head="kept"))
        workspace.maintain()
    flip(store / "ledger.sqlite3", 62, bits=1 << 4)  # of its version
    content = (store / "ledger.sqlite3").read_bytes()
    (store / "machine").unlink()

    done = kept("verify", "--repair", expect=16).out

    assert "the store's own id was written anew" in done
    assert "was written by a newer lastgood" in done
    assert (store / "ledger.sqlite3").read_bytes() == content


def test_the_id_of_a_store_is_told_by_the_rows_that_were_given_it(tmp_path: Path) -> None:
    """S19: on a machine without an id of its own the store's id stands for it."""
    store = os.fsencode(tmp_path)
    system = row("f" * 20)
    assert own_machine(store, [row(OWN), row(OWN), system]) == OWN
    assert own_machine(store, [system]) == store_machine(store)
    assert own_machine(store, [row(OWN), row(OWN[::-1])]) == store_machine(store)
    mend_machine(store, "1" + OWN[1:])
    assert own_machine(store, [row(OWN)]) == OWN  # one digit is damage
    mend_machine(store, OWN[::-1])
    assert own_machine(store, [row(OWN)]) == OWN[::-1]  # the row came from another store
    assert agreed_machine([row(OWN), row(OWN)]) == OWN
    assert agreed_machine([row(OWN), system]) is None


def test_the_id_of_a_store_is_told_by_what_was_seen_of_its_ledger(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    for store, ledger in ((OWN, "ledger-1"), (OWN[::-1], "ledger-2")):
        anchor = LedgerAnchor(folder, store=store)
        anchor.key()
        with anchor.watch() as watch:
            watch.advance(LedgerState(ledger=ledger, serial=3, seal=b"x"))
    assert find_store(folder, ledger="ledger-2") == OWN[::-1]
    assert find_store(folder, ledger="ledger-3") is None


def test_the_ledger_of_a_store_that_lost_its_id_is_still_the_one_last_seen(
    project: Path, store: Path
) -> None:
    with reopened(project, store) as workspace:
        workspace.ledger("notes").change(lambda book: book.put("book", "key", head="kept"))
    stored = (store / "machine").read_bytes()
    (store / "machine").unlink()
    with reopened(project, store) as workspace:
        assert workspace.ledger("notes").look(lambda book: book.entry("book", "key")) is not None
        workspace.verify(repair=True)
    assert (store / "machine").read_bytes() == stored


def test_a_checkpoint_whose_row_is_lost_is_counted_and_listed_again(
    kept: Command, project: Path, store: Path
) -> None:
    with reopened(project, store) as workspace:
        (project / "a.txt").write_text("third\n", encoding="utf-8")
        lost = workspace.save("three").checkpoint.id
        (store / "catalogue.sqlite3-wal").rename(project.parent / "log")
        shutil.copytree(store, project.parent / "copy")
    copy = Command(project, project.parent / "copy")
    assert lost not in copy("list", "--json").out
    assert copy("verify", "--json").json["unlisted"] == 1
    assert "1 checkpoint stored and not listed" in copy("verify").out
    copy("verify", "--repair")
    assert lost in copy("list", "--json").out


# Packs that nothing relies on are told where somebody looks.


def told_of_packs(workspace: Workspace) -> tuple[str, str]:
    """Return what the examination says of packs: how it stands with them, and what to do."""
    (finding,) = (one for one in workspace.examine() if one.code == "packs")
    return finding.state, finding.hint


@pytest.mark.damages
def test_damaged_packs_are_told_by_doctor_and_by_maintenance(
    workspace: Workspace, project: Path, spoil: Callable[[], None]
) -> None:
    (project / "a").write_text("content")
    workspace.save("first")
    assert told_of_packs(workspace) == ("good", "")
    assert not any("verify --repair" in line for line in workspace.maintain())
    spoil()
    workspace.verify()
    state, hint = told_of_packs(workspace)
    assert state == "note"
    assert "lastgood verify --repair" in hint
    assert any("lastgood verify --repair" in line for line in workspace.maintain())
    workspace.verify(repair=True)
    assert told_of_packs(workspace) == ("good", "")


@pytest.mark.parametrize("lost", ["objects.git", "objects.git/objects/pack"], ids=["all", "packs"])
def test_status_and_doctor_say_that_no_pack_has_the_checkpoints(
    kept: Command, store: Path, lost: str
) -> None:
    shutil.rmtree(store / lost)
    found = {one["code"]: one for one in kept("doctor", "--json", expect=1).json["findings"]}
    assert found["lost"]["state"] == "bad"
    assert found["lost"]["message"].startswith("2 of 2 checkpoints are lost")
    notes = [one["code"] for one in kept("status", "--json").json["health"]]
    assert "lost-checkpoint" in notes


def test_nothing_is_told_as_lost_that_lies_in_other_packs_than_at_first(kept: Command) -> None:
    kept("maintain")
    assert "lost" not in {one["code"] for one in kept("doctor", "--json").json["findings"]}
    assert "lost-checkpoint" not in {one["code"] for one in kept("status", "--json").json["health"]}
