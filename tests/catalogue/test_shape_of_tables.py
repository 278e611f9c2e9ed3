"""Damage to the words that made the tables: no page shows it, and it is found and mended (K4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from lastgood.catalogue import Query
from lastgood.catalogue.backup import is_sound, soundest_backup
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.rebuild import restore_from_backup
from lastgood.errors import Damaged
from lastgood.model.checkpoint import Checkpoint
from lastgood.testing.clock import FakeClock

Save = Callable[..., Checkpoint]

FLIPS = {
    "a column": ("operation", " at INTEGER", " au INTEGER"),
    "a column of the checkpoints": ("checkpoint", "gaps TEXT", "gapq TEXT"),
    "a table": ("step", "TABLE step", "TABLE stdp"),
    "a reference": ("checkpoint", "workspace (key)", "workspaca (key)"),
    "what is filled in": ("run", "DEFAULT 0", "DEFAULT 1"),
    "an index": ("operation_of_workspace", "(workspace_key, number)", "(workspace_key, undone)"),
}


def flip(path: str, name: str, before: str, after: str) -> None:
    """Alter the words that made a table or an index, and where it is a table's name, that as well."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    changed = connection.execute(
        "UPDATE sqlite_master SET sql = replace(sql, :before, :after),"
        " name = CASE WHEN :before = 'TABLE ' || name THEN substr(:after, 7) ELSE name END,"
        " tbl_name = CASE WHEN :before = 'TABLE ' || tbl_name THEN substr(:after, 7) ELSE tbl_name END"
        " WHERE name = :name AND sql LIKE '%' || :before || '%'",
        {"name": name, "before": before, "after": after},
    ).rowcount
    connection.commit()
    connection.close()
    assert changed == 1


@pytest.mark.parametrize("what", FLIPS)
def test_altered_words_of_a_table_are_damage_that_a_repair_mends(
    catalogue: SqliteCatalogue, save: Save, what: str
) -> None:
    for number in (1, 2):
        save(number, message=f"message {number}")
    catalogue.back_up()
    save(3)
    path = catalogue.path
    catalogue.close()
    flip(path, *FLIPS[what])

    assert not is_sound(path)
    restore_from_backup(path, generation="another", at=1)

    mended = SqliteCatalogue.open(path, clock=FakeClock(), create=False)
    assert mended.fault() is None
    assert {one.message for one in mended.find(Query())} >= {"message 1", "message 2"}
    mended.mend()
    mended.close()


def test_a_catalogue_with_altered_words_pushes_no_sound_backup_out(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    save(1)
    catalogue.back_up()
    sound = soundest_backup(catalogue.path)
    save(2)
    flip(catalogue.path, *FLIPS["a reference"])
    again = SqliteCatalogue.open(catalogue.path, clock=FakeClock(), create=False)
    with pytest.raises(Damaged):
        again.back_up()
    again.close()
    assert soundest_backup(catalogue.path) == sound
