"""Damage to the catalogue's file: found, named, and mended from what is left (K4, invariant 6)."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.catalogue import Query, rebuild, rows
from lastgood.catalogue.backup import ask, clear, is_sound, pack, soundest_backup, unpack
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.database import RESCUE
from lastgood.catalogue.rebuild import restore_from_backup
from lastgood.errors import Busy, Damaged, Storage
from lastgood.model.checkpoint import Checkpoint, Manifest, encode
from lastgood.model.operation import Instant, Operation
from lastgood.model.run import PlannedRun, WorkPlan
from lastgood.model.session import Effect, Owner, Session
from lastgood.testing.clock import FakeClock
from tools.long_form import LONG
from tools.values import not_none

Save = Callable[..., Checkpoint]

KEY = "aa" * 10
AT = 1_767_225_600_000_000_000


def repair(path: str) -> tuple[str, ...]:
    return restore_from_backup(path, generation="new generation", at=AT)


def reopened(path: str) -> SqliteCatalogue:
    catalogue = SqliteCatalogue.open(path, clock=FakeClock(), create=False)
    assert catalogue.fault() is None
    return catalogue


def numbers(catalogue: SqliteCatalogue) -> list[tuple[int, bool]]:
    return [(one.sequence, one.recovered) for one in catalogue.find(Query())]


def alter(path: str, statement: str) -> None:
    """Change a row behind the catalogue's back, as a flipped bit would."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()


def wreck(path: str) -> None:
    """Overwrite pages in the middle of the file."""
    with open(path, "r+b") as file:
        size = os.path.getsize(path)
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 4096 * 3)


def test_a_backup_is_written_only_when_something_changed(catalogue: SqliteCatalogue, save: Save) -> None:
    save(1)
    assert catalogue.back_up()
    assert not catalogue.back_up()
    save(2)
    assert catalogue.back_up()
    folder = Path(catalogue.path).parent
    assert sorted(one.name for one in folder.glob("*backup*")) == [
        "catalogue.backup.sqlite3.1.gz",
        "catalogue.backup.sqlite3.gz",
    ]
    assert all(is_sound(str(one)) for one in folder.glob("*backup*"))


def test_a_lost_backup_is_written_again(catalogue: SqliteCatalogue) -> None:
    """K6."""
    catalogue.back_up()
    Path(catalogue.path).with_name("catalogue.backup.sqlite3.gz").write_bytes(b"no database")
    assert catalogue.back_up()
    assert soundest_backup(catalogue.path) is not None


def test_the_soundest_backup_passes_over_a_damaged_one(catalogue: SqliteCatalogue, save: Save) -> None:
    assert soundest_backup(catalogue.path) is None
    catalogue.back_up()
    save(1)
    catalogue.back_up()
    newest = Path(catalogue.path).with_name("catalogue.backup.sqlite3.gz")
    assert soundest_backup(catalogue.path) == str(newest)
    plain = newest.with_name("plain")
    unpack(str(newest), str(plain))
    alter(str(plain), "UPDATE checkpoint SET name = 'altered'")
    pack(str(plain), str(newest))
    assert soundest_backup(catalogue.path) == str(newest.with_name("catalogue.backup.sqlite3.1.gz"))


@pytest.mark.parametrize("harm", ["cut short", "one byte changed", "empty", "not compressed"])
def test_a_backup_that_does_not_unpack_is_passed_over(
    catalogue: SqliteCatalogue, save: Save, harm: str
) -> None:
    """K4: and the next backup does not take it for one that is up to date."""
    catalogue.back_up()
    save(1)
    catalogue.back_up()
    newest = Path(catalogue.path).with_name("catalogue.backup.sqlite3.gz")
    content = bytearray(newest.read_bytes())
    middle = len(content) // 2
    content[middle] ^= 0x55
    harmed = {
        "cut short": newest.read_bytes()[:-9],
        "one byte changed": bytes(content),
        "empty": b"",
        "not compressed": b"SQLite format 3\0" * 100,
    }
    newest.write_bytes(harmed[harm])
    assert soundest_backup(catalogue.path) == str(newest.with_name("catalogue.backup.sqlite3.1.gz"))
    assert catalogue.back_up()
    assert soundest_backup(catalogue.path) == str(newest)
    assert sorted(one.name for one in newest.parent.glob("*backup*")) == [
        "catalogue.backup.sqlite3.1.gz",
        "catalogue.backup.sqlite3.gz",
    ]


def test_backups_of_an_earlier_release_are_used_until_there_are_two_newer(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    """They lie there as plain databases."""
    folder = Path(catalogue.path).parent
    for number, name in ((1, "catalogue.backup.sqlite3.1"), (2, "catalogue.backup.sqlite3")):
        save(number)
        copy = sqlite3.connect(folder / name)
        source = sqlite3.connect(catalogue.path)
        source.backup(copy)
        source.close()
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.close()
    older = str(folder / "catalogue.backup.sqlite3")
    assert soundest_backup(catalogue.path) == older
    assert not catalogue.back_up()
    save(3)
    assert catalogue.back_up()
    assert [one.name for one in sorted(folder.glob("*backup*"))] == [
        "catalogue.backup.sqlite3",
        "catalogue.backup.sqlite3.gz",
    ]
    assert is_sound(older)
    save(4)
    assert catalogue.back_up()
    assert [one.name for one in sorted(folder.glob("*backup*"))] == [
        "catalogue.backup.sqlite3.1.gz",
        "catalogue.backup.sqlite3.gz",
    ]


def test_a_backup_that_was_cut_short_leaves_the_one_before_and_is_taken_up(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    """Invariant 6: killed between its two renames, or with its work half done."""
    save(1)
    catalogue.back_up()
    newest = Path(catalogue.path).with_name("catalogue.backup.sqlite3.gz")
    before = newest.with_name("catalogue.backup.sqlite3.1.gz")
    newest.rename(before)
    for rest in ("fresh", "fresh.new", "new", "plain"):
        newest.with_name(f"catalogue.backup.sqlite3.{rest}").write_bytes(b"half")
    assert soundest_backup(catalogue.path) == str(before)
    save(2)

    assert catalogue.back_up()

    assert soundest_backup(catalogue.path) == str(newest)
    assert sorted(newest.parent.glob("*backup*")) == [before, newest]
    assert is_sound(str(before))


def test_a_table_whose_name_is_no_text_is_damage_like_any_other(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    """Python fails to read what SQLite says of it."""
    save(1)
    catalogue.back_up()
    path = catalogue.path
    catalogue.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_master SET name = CAST(x'c8c8' AS TEXT), sql = 'x' WHERE name = 'run'")
    connection.commit()
    connection.close()
    with pytest.raises(Damaged):
        reopened(path)
    assert repair(path)
    assert reopened(path).count() == 1


def test_several_look_into_one_backup_at_once(catalogue: SqliteCatalogue, save: Save) -> None:
    save(1)
    catalogue.back_up()
    packed = str(Path(catalogue.path).with_name("catalogue.backup.sqlite3.gz"))

    def count(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count(*) FROM checkpoint").fetchone()[0])

    def another(connection: sqlite3.Connection) -> tuple[int, int]:
        clear(packed)
        return ask(packed, count), count(connection)

    assert ask(packed, another) == (1, 1)
    assert list(Path(packed).parent.glob("*plain*")) == []


def test_what_a_killed_look_left_behind_goes_and_what_is_looked_into_stays(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    save(1)
    catalogue.back_up()
    packed = Path(catalogue.path).with_name("catalogue.backup.sqlite3.gz")
    left, used = (packed.with_name(f"catalogue.backup.sqlite3.plain-{one}") for one in "12")
    left.write_bytes(b"half")
    with used.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        clear(str(packed))
        assert list(packed.parent.glob("*plain*")) == [used]
    clear(str(packed))
    assert list(packed.parent.glob("*plain*")) == []


def test_a_backup_is_what_gunzip_brings_back(catalogue: SqliteCatalogue, save: Save) -> None:
    """Plain formats: it can be read without lastgood."""
    save(1)
    catalogue.back_up()
    packed = Path(catalogue.path).with_name("catalogue.backup.sqlite3.gz")
    assert packed.stat().st_mode & 0o777 == 0o600
    plain = packed.with_name("plain")
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    connection = sqlite3.connect(plain)
    assert connection.execute("SELECT count(*) FROM checkpoint").fetchone() == (1,)
    connection.close()


def test_a_damaged_catalogue_pushes_no_sound_backup_out(catalogue: SqliteCatalogue, save: Save) -> None:
    save(1)
    catalogue.back_up()
    save(2)
    alter(catalogue.path, "UPDATE checkpoint SET name = 'altered' WHERE sequence = 2")
    for _ in range(2):
        with pytest.raises(Damaged):
            catalogue.back_up()
    folder = Path(catalogue.path).parent
    assert [one.name for one in folder.glob("*backup*")] == ["catalogue.backup.sqlite3.gz"]
    assert soundest_backup(catalogue.path) is not None


def test_a_catalogue_that_is_gone_is_damaged_not_empty(catalogue: SqliteCatalogue, save: Save) -> None:
    save(1)
    catalogue.back_up()
    catalogue.close()
    os.unlink(catalogue.path)
    with pytest.raises(Damaged, match="missing") as caught:
        SqliteCatalogue.open(catalogue.path, clock=FakeClock())
    assert "verify --repair" in caught.value.hint
    repair(catalogue.path)
    assert numbers(reopened(catalogue.path)) == [(1, True)]


def test_a_catalogue_gone_from_beside_its_log_is_damaged(catalogue: SqliteCatalogue, save: Save) -> None:
    save(1)
    log = Path(catalogue.path + "-wal").read_bytes()
    catalogue.close()
    os.unlink(catalogue.path)
    Path(catalogue.path + "-wal").write_bytes(log)
    with pytest.raises(Damaged):
        SqliteCatalogue.open(catalogue.path, clock=FakeClock())
    repair(catalogue.path)
    assert numbers(reopened(catalogue.path)) == []
    assert not os.path.exists(catalogue.path + "-wal") or os.path.getsize(catalogue.path + "-wal") == 0


@pytest.mark.parametrize("size", [0, 1, 50, 100, 4096, 5000])
def test_a_truncated_catalogue_comes_back_from_its_backup(
    catalogue: SqliteCatalogue, save: Save, size: int
) -> None:
    save(1)
    catalogue.back_up()
    save(2)
    catalogue.close()
    os.truncate(catalogue.path, size)
    with pytest.raises(Damaged):
        SqliteCatalogue.open(catalogue.path, clock=FakeClock()).find(Query())
    done = repair(catalogue.path)
    again = reopened(catalogue.path)
    assert (1, True) in numbers(again)
    assert again.generation() == "new generation"
    assert any("set aside" in line for line in done)
    (aside,) = (Path(catalogue.path).parent / "damaged").iterdir()
    assert os.path.getsize(aside / "catalogue.sqlite3") == size


def test_rows_of_a_damaged_catalogue_are_salvaged(catalogue: SqliteCatalogue, save: Save) -> None:
    for number in range(1, 41):
        save(number, message="m" * 3000)
    catalogue.set_name(f"ckpt_{40:016x}", "newer than the backup")
    catalogue.back_up()
    for number in range(41, 81):
        save(number, message="m" * 3000)
    catalogue.set_name(f"ckpt_{1:016x}", "since")
    operation = Operation(id="op_1", workspace_key=KEY, type="delete", at=1)
    catalogue.add_operation(operation)
    catalogue.close()
    wreck(catalogue.path)
    again = SqliteCatalogue.open(catalogue.path, clock=FakeClock())
    assert again.fault() is not None
    again.close()
    repair(catalogue.path)
    mended = reopened(catalogue.path)
    found = numbers(mended)
    assert {sequence for sequence, _ in found} >= set(range(1, 41))
    assert len([sequence for sequence, _ in found if sequence > 40]) >= 35
    assert [one.sequence for one in mended.find(Query(called="since"))] == [1]
    assert mended.operations(KEY) == [operation]
    assert mended.next_sequence() > max(sequence for sequence, _ in found)


@pytest.mark.parametrize("size", [16, 100, 4096], ids=["mark", "header", "page"])
def test_of_a_catalogue_whose_beginning_is_gone_every_row_is_salvaged(
    catalogue: SqliteCatalogue, save: Save, size: int
) -> None:
    """By its first bytes SQLite tells a database from anything else, and by its first page what is where."""
    save(1)
    catalogue.back_up()
    save(2)
    catalogue.set_name(f"ckpt_{1:016x}", "since")
    operation = Operation(id="op_1", workspace_key=KEY, type="delete", at=1)
    catalogue.add_operation(operation)
    catalogue.close()
    with open(catalogue.path, "r+b") as file:
        file.write(bytes(size))
    repair(catalogue.path)
    mended = reopened(catalogue.path)
    assert numbers(mended) == [(2, False), (1, False)]
    assert [one.sequence for one in mended.find(Query(called="since"))] == [1]
    assert mended.operations(KEY) == [operation]


def test_without_a_backup_salvage_is_all_there_is(catalogue: SqliteCatalogue, save: Save) -> None:
    for number in range(1, 41):
        save(number, message="m" * 3000)
    catalogue.close()
    wreck(catalogue.path)
    repair(catalogue.path)
    assert len(numbers(reopened(catalogue.path))) >= 35


def test_a_sound_catalogue_is_left_alone(catalogue: SqliteCatalogue, save: Save) -> None:
    save(1)
    catalogue.close()
    before = Path(catalogue.path).read_bytes()
    assert repair(catalogue.path) == ()
    assert Path(catalogue.path).read_bytes() == before


@pytest.mark.parametrize("ends", ["_set_aside", "rename"])
def test_an_interrupted_repair_is_finished_by_the_next(
    catalogue: SqliteCatalogue, save: Save, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    save(1)
    catalogue.back_up()
    catalogue.close()
    os.truncate(catalogue.path, 4096)
    rename = os.rename

    def killed(*_arguments: object, **_named: object) -> list[str]:
        raise KeyboardInterrupt

    def killed_at_the_last(old: str, new: str) -> None:
        if new == catalogue.path:
            raise KeyboardInterrupt
        rename(old, new)

    with monkeypatch.context() as patch:
        if ends == "rename":
            patch.setattr(os, "rename", killed_at_the_last)
        else:
            patch.setattr(rebuild, ends, killed)
        with pytest.raises(KeyboardInterrupt):
            repair(catalogue.path)
    with pytest.raises(Damaged, match="interrupted"):
        SqliteCatalogue.open(catalogue.path, clock=FakeClock())
    assert ("finished" if ends == "rename" else "rebuilt") in repair(catalogue.path)[0]
    assert numbers(reopened(catalogue.path)) == [(1, True)]


def test_a_deleted_log_loses_only_what_the_engine_can_give_back(
    catalogue: SqliteCatalogue, save: Save, manifest: Callable[..., Manifest]
) -> None:
    """The rows of the log are gone; the commits are not."""
    save(1)
    catalogue.close()
    again = SqliteCatalogue.open(catalogue.path, clock=FakeClock())
    again.add(manifest(2), commit="2" * 40, name=None, pinned=False)
    lost = catalogue.path + ".lost"
    shutil.copy(catalogue.path, lost)
    without = reopened(lost)
    assert numbers(without) == [(1, False)]
    without.adopt(manifest(2), commit="2" * 40)
    assert numbers(without) == [(2, True), (1, False)]
    again.close()


def put_back(catalogue: SqliteCatalogue, older: str) -> SqliteCatalogue:
    """Close a catalogue, put an older copy into its place, and open that."""
    catalogue.close()
    for suffix in ("-wal", "-shm"):
        Path(catalogue.path + suffix).unlink(missing_ok=True)
    shutil.copy(older, catalogue.path)
    return reopened(catalogue.path)


def kept_older(catalogue: SqliteCatalogue) -> str:
    catalogue.empty_log()
    return shutil.copy(catalogue.path, catalogue.path + ".older")


def session(name: str) -> Session:
    return Session(
        id=f"ses_{name}",
        workspace_key=KEY,
        owner=Owner(host="h"),
        started_at=1,
        heartbeat_at=1,
        exclusive=False,
    )


def do_work(catalogue: SqliteCatalogue, name: str, *, after: int = 0) -> None:
    """Record an operation, a session with its plan and progress, and a step that refers to them."""
    work, id = catalogue.work, f"ses_{name}"
    catalogue.add_operation(Operation(id=f"op_{name}", workspace_key=KEY, type="delete", at=1, session=id))
    plan = PlannedRun(session=id, workspace_key=KEY, fingerprint=name, plan=WorkPlan(tasks=()))
    work.change(lambda to: to.open_session(session(name), run=plan))
    work.change(lambda to: to.change_progress(id, lambda was: was.replace(goal=name), workspace_key=KEY))
    work.change(
        lambda to: to.put_effect(
            Effect(id=f"step_{name}", workspace_key=KEY, name=name, session=id, started_at=1, after=after)
        )
    )


def test_rows_of_an_older_catalogue_that_was_put_back_come_under_new_numbers(
    catalogue: SqliteCatalogue,
) -> None:
    """K4: the backup gave their numbers to others; what refers to them does so by their ids."""
    do_work(catalogue, "both")
    older = kept_older(catalogue)
    for number in range(3):
        do_work(catalogue, f"lost-{number}")
    catalogue.back_up()
    again = put_back(catalogue, older)
    do_work(again, "since")
    again.close()

    repair(catalogue.path)

    mended = reopened(catalogue.path)
    names = ["since", "lost-2", "lost-1", "lost-0", "both"]
    assert [one.id for one in mended.operations(KEY)] == [f"op_{name}" for name in names]
    assert [one.session for one in mended.operations(KEY)] == [f"ses_{name}" for name in names]
    work = mended.work
    assert [one.id for one in work.sessions(KEY)] == [f"ses_{name}" for name in names]
    assert [one.session for one in work.runs(KEY, limit=9)] == [f"ses_{name}" for name in names]
    assert [one.session for one in work.effects(KEY)] == [f"ses_{name}" for name in names[::-1]]
    assert [work.progress(f"ses_{name}").goal for name in names] == names


def test_nobody_changes_a_catalogue_between_its_reading_and_its_replacing(
    catalogue: SqliteCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K4: a session has it open; what it recorded then would be in the one that is set aside."""
    older = kept_older(catalogue)
    catalogue.back_up()
    do_work(catalogue, "lost")
    catalogue.back_up()
    put_back(catalogue, older).close()
    beside = SqliteCatalogue.open(catalogue.path, clock=FakeClock(), create=False, wait=0)
    rename = os.rename
    moved: list[str] = []

    def renamed(old: str, new: str) -> None:
        with pytest.raises(Storage if moved[1:] else Busy):  # then it is gone from its place
            do_work(beside, "beside")
        moved.append(new)
        rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", renamed)
        repair(catalogue.path)
    assert moved[0] == catalogue.path + RESCUE
    assert moved[-1] == catalogue.path
    do_work(beside, "later")
    assert [one.id for one in reopened(catalogue.path).operations(KEY)] == ["op_later", "op_lost"]


def test_what_was_recorded_since_a_repair_that_was_killed_is_in_the_next(
    catalogue: SqliteCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K4: somebody who has the catalogue open goes on with it as long as it is in its place."""
    older = kept_older(catalogue)
    catalogue.back_up()
    do_work(catalogue, "lost")
    catalogue.back_up()
    beside = put_back(catalogue, older)

    def killed(*_arguments: object, **_named: object) -> list[str]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rebuild, "_set_aside", killed)
        with pytest.raises(KeyboardInterrupt):
            repair(catalogue.path)
    do_work(beside, "since")
    repair(catalogue.path)
    assert {one.id for one in reopened(catalogue.path).operations(KEY)} == {"op_since", "op_lost"}


def test_a_step_of_an_older_catalogue_stays_after_the_checkpoint_that_it_was_after(
    catalogue: SqliteCatalogue, save: Save, manifest: Callable[..., Manifest]
) -> None:
    """That one has another number now, by which alone its steps know it."""
    save(1)
    do_work(catalogue, "both", after=1)
    older = kept_older(catalogue)
    for number in range(2, 12):
        save(number)
    do_work(catalogue, "lost", after=3)
    catalogue.back_up()
    again = put_back(catalogue, older)
    do_work(again, "before", after=1)
    since = again.add(manifest(20, sequence=2), commit=f"{20:040x}", name=None, pinned=False)
    assert since.sequence == 2
    do_work(again, "since", after=2)
    again.close()

    repair(catalogue.path)

    mended = reopened(catalogue.path)
    found = not_none(mended.get(since.id))
    placed = {one.name: one.after for one in mended.work.effects(KEY)}
    assert placed == {"both": 1, "lost": 3, "before": 1, "since": found.sequence}
    assert found.sequence == 12


def test_no_row_of_a_backup_goes_for_another_that_has_its_number(catalogue: SqliteCatalogue) -> None:
    """K4: an older catalogue that was put back, and changed more often since than the backup."""
    do_work(catalogue, "both")
    older = kept_older(catalogue)
    do_work(catalogue, "lost")
    catalogue.back_up()
    again = put_back(catalogue, older)
    for number in range(3):
        do_work(again, f"since-{number}")
    again.close()
    alter(catalogue.path, "DROP INDEX run_of_workspace")

    repair(catalogue.path)

    mended = reopened(catalogue.path)
    names = {"both", "lost", "since-0", "since-1", "since-2"}
    assert {one.id for one in mended.operations(KEY)} == {f"op_{name}" for name in names}
    assert {one.id for one in mended.work.sessions(KEY)} == {f"ses_{name}" for name in names}
    assert {one.id for one in mended.work.effects(KEY)} == {f"step_{name}" for name in names}


def test_an_altered_row_of_an_older_catalogue_is_no_sound_one_under_a_new_number(
    catalogue: SqliteCatalogue,
) -> None:
    older = kept_older(catalogue)
    for name in ("lost", "more"):
        do_work(catalogue, name)
    catalogue.back_up()
    again = put_back(catalogue, older)
    do_work(again, "since")
    again.close()
    alter(catalogue.path, "UPDATE operation SET undone = 1")
    alter(catalogue.path, "UPDATE session SET heartbeat_at = 7")

    repair(catalogue.path)

    mended = reopened(catalogue.path)
    assert [one.id for one in mended.operations(KEY)] == ["op_more", "op_lost"]
    assert [one.id for one in mended.work.sessions(KEY)] == ["ses_more", "ses_lost"]
    assert [one.id for one in mended.work.effects(KEY)] == ["step_lost", "step_more", "step_since"]
    assert mended.work.run("ses_since") is not None


ALTERED = [
    "message",
    "commit_id = 'zz'",
    "commit_id = x'ff00'",
    "tree = 'not hex'",
    "deleted_at = 1",
    "name = 'other'",
    "created_at = created_at + 1",
    "kind = 'guard'",
    "sequence = 77",
    "manifest = '{}'",
    "manifest = x'ff'",
    "manifest = CAST(x'7bff7d' AS TEXT)",
    "gaps = 5",
    "verdict = 'nonsense'",
]


@pytest.mark.parametrize("change", ALTERED)
def test_an_altered_row_is_found_hides_no_other_and_is_mended(
    catalogue: SqliteCatalogue, save: Save, manifest: Callable[..., Manifest], change: str
) -> None:
    """K4: SQLite itself would never notice."""
    save(1)
    save(2, name="mine", pinned=True)
    if change == "message":
        kept = rows.pack_manifest(encode(manifest(2, message="massage 2")))
        change = f"manifest = x'{kept.hex()}'"
    alter(catalogue.path, f"UPDATE checkpoint SET {change} WHERE id = 'ckpt_{2:016x}'")
    assert "altered: checkpoint ckpt_" in (catalogue.fault() or "")
    found = catalogue.find(Query(deleted=True))
    assert sorted(one.damaged is None for one in found) == [False, True]
    facts = not_none(catalogue.latest_facts(KEY))
    assert facts.newest.sequence == 1
    with pytest.raises(Damaged):
        catalogue.commits()
    assert catalogue.forget(lambda _deleted: True) == []
    catalogue.set_damaged({f"ckpt_{2:016x}": None})
    assert catalogue.fault() is not None  # a change does not launder it
    assert catalogue.adopt(manifest(1), commit=f"{1:040x}") is None
    mended = not_none(catalogue.adopt(manifest(2, name="mine"), commit=f"{2:040x}"))
    assert mended.manifest == manifest(2, name="mine")
    assert (mended.damaged, mended.deleted_at, mended.sequence) == (None, None, 2)
    assert mended.pinned
    assert catalogue.fault() is None


def test_altered_operations_are_left_out_and_dropped(catalogue: SqliteCatalogue) -> None:
    kept = Operation(id="op_1", workspace_key=KEY, type="delete", at=1)
    catalogue.add_operation(kept)
    catalogue.add_operation(kept.replace(id="op_2"))
    alter(
        catalogue.path, "UPDATE operation SET payload = replace(payload, 'delete', 'prune') WHERE id = 'op_2'"
    )
    assert catalogue.operations(KEY) == [kept]
    assert "operation op_2" in (catalogue.fault() or "")
    assert len(catalogue.mend()) == 1
    assert catalogue.fault() is None
    assert catalogue.operations(KEY) == [kept]


def test_a_disk_that_fails_while_a_backup_is_looked_into_is_told_as_that(
    catalogue: SqliteCatalogue, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(1)
    catalogue.back_up()
    alter(catalogue.path, "UPDATE workspace SET path = x'2f'")
    opening = os.open

    def opened(path: str, flags: int, mode: int = 0o777) -> int:
        if "plain" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opening(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        with pytest.raises(Storage, match="Input/output error"):
            catalogue.mend()
    assert catalogue.mend()


def test_an_altered_operation_is_mended_as_the_backup_has_it(catalogue: SqliteCatalogue) -> None:
    first = Operation(id="op_1", workspace_key=KEY, type="delete", at=1)
    catalogue.add_operation(first)
    assert catalogue.back_up()
    catalogue.add_operation(first.replace(id="op_2"))
    alter(catalogue.path, "UPDATE operation SET payload = replace(payload, 'delete', 'prune')")
    assert catalogue.operations(KEY) == []
    assert sorted(catalogue.mend()) == [
        "operation op_1 is as the backup has it: its record was altered",
        "operation op_2 dropped: its record was altered",
    ]
    assert catalogue.fault() is None
    assert catalogue.operations(KEY) == [first]
    assert catalogue.mend() == []


def test_a_row_whose_id_was_altered_comes_back_under_its_own(catalogue: SqliteCatalogue) -> None:
    catalogue.add_operation(Operation(id="op_1", workspace_key=KEY, type="delete", at=1))
    assert catalogue.back_up()
    alter(catalogue.path, "UPDATE operation SET id = 'op_x'")
    catalogue.mend()
    assert [one.id for one in catalogue.operations(KEY)] == ["op_1"]


def test_a_header_that_forbids_writing_is_damage_that_a_repair_mends(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    """SQLite takes a file whose form for writing it does not know for read-only, and says no more."""
    save(1, name="one")
    catalogue.close()
    with open(catalogue.path, "r+b") as stream:
        stream.seek(18)
        stream.write(b"\x03")
    again = SqliteCatalogue.open(catalogue.path, clock=FakeClock(), create=False)
    assert "form 3 for writing" in (again.fault() or "")
    with pytest.raises(Damaged, match="form 3 for writing") as raised:
        again.set_pinned(f"ckpt_{1:016x}", pinned=True)
    assert "verify --repair" in raised.value.hint
    again.close()
    assert restore_from_backup(catalogue.path, generation="mended", at=1)
    mended = SqliteCatalogue.open(catalogue.path, clock=FakeClock(), create=False)
    mended.set_pinned(f"ckpt_{1:016x}", pinned=True)
    assert mended.fault() is None
    mended.close()


def test_an_altered_workspace_stays_one_although_a_save_moves_it(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    """K4: only what was sound is sealed."""
    save(1)
    assert catalogue.fault() is None
    alter(catalogue.path, f"UPDATE workspace SET path = x'2f61' WHERE key = '{KEY}'")
    save(2)
    assert catalogue.fault() == f"altered: workspace {KEY}"
    catalogue.mend()
    assert catalogue.stands_at(KEY) == f"ckpt_{2:016x}"


def test_an_altered_workspace_gets_its_path_back(catalogue: SqliteCatalogue, save: Save) -> None:
    save(1)
    alter(catalogue.path, f"UPDATE workspace SET path = x'2f61' WHERE key = '{KEY}'")
    assert catalogue.fault() == f"altered: workspace {KEY}"
    catalogue.mend()
    row = not_none(catalogue.workspace(KEY))
    assert row.path == "/home/a/project"
    assert catalogue.fault() is None


def positions(body: bytes) -> list[int]:
    """Return which bytes are flipped; in the short form, a tenth of those amid nothing but zeros."""
    free = [position for position in range(7, len(body), 41) if not any(body[position - 7 : position + 8])]
    left_out = set(free if not LONG else ()) - set(free[::10])
    return [position for position in range(7, len(body), 41) if position not in left_out]


def test_every_flipped_byte_is_noticed_or_harmless(
    catalogue: SqliteCatalogue, save: Save, arena: Path
) -> None:
    """K4: after a flip the catalogue gives the same answers, or says that it is damaged."""
    save(1, name="one")
    save(2, message="longer " * 40)
    catalogue.delete([f"ckpt_{1:016x}"], at=Instant(at=5))
    catalogue.add_operation(Operation(id="op_1", workspace_key=KEY, type="delete", at=1))
    catalogue.close()
    body = Path(catalogue.path).read_bytes()

    def answers(path: str) -> object:
        opened = SqliteCatalogue.open(path, clock=FakeClock(), wait=0, create=False)
        try:
            if opened.fault() is not None:
                return None
            return (
                opened.find(Query(deleted=True)),
                opened.operations(KEY),
                opened.workspaces(),
            )
        finally:
            opened.close()

    expected = answers(catalogue.path)
    folder = arena / "flips"
    for position in positions(body):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        copy = folder / "catalogue.sqlite3"
        copy.write_bytes(body[:position] + bytes([body[position] ^ 0x10]) + body[position + 1 :])
        try:
            found = answers(str(copy))
        except Damaged:
            continue
        assert found in (None, expected), f"byte {position} was flipped unnoticed"
