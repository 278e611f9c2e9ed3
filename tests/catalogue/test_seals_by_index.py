"""A flipped id is told from its index entry, whatever SQLite takes the id from (rule K4)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import lastgood


def places(catalogue: Path, id: str) -> list[int]:
    """Return where an id stands in the file: in the row, in the index, in the row's compressed manifest."""
    content = catalogue.read_bytes()
    found = [at for at in range(len(content)) if content.startswith(id.encode(), at)]
    assert len(found) == 2
    connection = sqlite3.connect(catalogue)
    (manifest,) = connection.execute("SELECT manifest FROM checkpoint WHERE id = ?", (id,)).fetchone()
    connection.close()
    return [*found, content.index(manifest)]


@pytest.mark.parametrize("place", range(3))
def test_an_id_altered_in_one_place_is_mended(project: Path, store: Path, place: int) -> None:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        for number in range(3):
            (project / "file").write_text(str(number))
            workspace.save(str(number))
        workspace.maintain()
        ids = [one.id for one in workspace.list()]
    catalogue = store / "catalogue.sqlite3"
    sqlite3.connect(catalogue).execute("PRAGMA wal_checkpoint(TRUNCATE)").connection.close()
    content = bytearray(catalogue.read_bytes())
    content[places(catalogue, ids[0])[place] + 20] ^= 1
    catalogue.write_bytes(content)

    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert not workspace.verify().ok
    with lastgood.open(project, store=store, maintenance="off", repair=True) as workspace:
        assert workspace.verify(repair=True).ok

        assert [workspace.get(id).id for id in ids] == ids
