"""Catalogues as earlier versions wrote them: every later version reads them (tests/stores_of_old)."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lastgood.catalogue import Query
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.rebuild import restore_from_backup
from lastgood.testing.clock import FakeClock
from tools.values import not_none

OLD = Path(__file__).parents[1] / "stores_of_old"
KEY = "a1" * 10


@pytest.mark.parametrize("version", sorted(one.name for one in OLD.iterdir() if one.is_dir()))
def test_an_old_catalogue_tells_all_it_held(version: str, tmp_path: Path) -> None:
    path = tmp_path / "catalogue.sqlite3"
    shutil.copyfile(OLD / version / "catalogue.sqlite3", path)
    catalogue = SqliteCatalogue.open(str(path), clock=FakeClock())
    assert catalogue.fault() is None
    third, second, first = catalogue.find(Query(deleted=True))
    assert (first.name, first.pinned, first.commit, first.sequence) == ("first", True, "1" * 40, 1)
    assert first.message == "step 1"
    assert first.manifest.workspace == "/home/ada/caf\udce9"
    assert first.manifest.gaps[0].path == b"big\xff"
    assert not_none(first.manifest.git).nested[0].path == b"sub"
    assert first.manifest.ignore.info_exclude == b"*.log\n"
    assert (second.kind, second.deleted_at) == ("guard", 1767225700000000000)
    assert (third.partial, third.damaged) == (True, "lost")
    (operation,) = catalogue.operations(KEY)
    assert (operation.type, operation.undone, operation.steps[0].path) == ("restore", True, b"a\xff")
    row = not_none(catalogue.workspace(KEY))
    assert (row.path, row.machine) == ("/home/ada/caf\udce9", "0123456789abcdef0123")
    assert catalogue.generation() == "0011223344556677"
    assert catalogue.next_sequence() == 4
    catalogue.close()


@pytest.mark.parametrize("version", sorted(one.name for one in OLD.iterdir() if one.is_dir()))
def test_an_old_catalogue_goes_on_with_rows_of_the_present_form(version: str, tmp_path: Path) -> None:
    """Old rows keep their manifests as text, new ones compressed; a repair keeps both."""
    path = tmp_path / "catalogue.sqlite3"
    shutil.copyfile(OLD / version / "catalogue.sqlite3", path)
    catalogue = SqliteCatalogue.open(str(path), clock=FakeClock())
    (old, *_) = catalogue.find(Query(deleted=True))
    manifest = old.manifest.replace(id="ckpt_00000000000000ff", message="new", sequence=4)
    catalogue.add(manifest, commit="f" * 40, name=None, pinned=False)
    assert catalogue.fault() is None
    assert catalogue.back_up()
    catalogue.close()
    content = bytearray(path.read_bytes())
    content[:16] = b"no SQLite at all"
    path.write_bytes(content)

    restore_from_backup(str(path), generation="g", at=1)

    catalogue = SqliteCatalogue.open(str(path), clock=FakeClock(), create=False)
    assert catalogue.fault() is None
    assert [one.sequence for one in catalogue.find(Query(deleted=True))] == [4, 3, 2, 1]
    newest = not_none(catalogue.get(manifest.id))
    assert newest.manifest == manifest
    catalogue.close()


@pytest.mark.parametrize(
    "version", ["version-2", "version-3", "version-4", "version-5", "version-6", "version-7", "version-8"]
)
def test_a_backup_of_an_earlier_version_brings_everything_back(version: str, tmp_path: Path) -> None:
    """K4: it lacks the columns that came later."""
    path = tmp_path / "catalogue.sqlite3"
    shutil.copyfile(OLD / version / "catalogue.sqlite3", tmp_path / "catalogue.backup.sqlite3")
    path.write_bytes(b"no SQLite at all")

    restore_from_backup(str(path), generation="g", at=1)

    assert_as_it_was(path)


@pytest.mark.parametrize("version", ["version-2", "version-3", "version-4", "version-5"])
def test_a_damaged_catalogue_of_an_earlier_version_yields_its_rows(version: str, tmp_path: Path) -> None:
    """K4: what tells where a workspace is stands in no manifest."""
    path = tmp_path / "catalogue.sqlite3"
    shutil.copyfile(OLD / version / "catalogue.sqlite3", path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'checkpoint_by_name'")

    assert restore_from_backup(str(path), generation="g", at=1)

    assert_as_it_was(path)


def assert_as_it_was(path: Path) -> None:
    with closing(SqliteCatalogue.open(str(path), clock=FakeClock(), create=False)) as catalogue:
        assert catalogue.fault() is None
        assert [one.sequence for one in catalogue.find(Query(deleted=True))] == [3, 2, 1]
        row = not_none(catalogue.workspace(KEY))
        assert (row.path, row.machine) == ("/home/ada/caf\udce9", "0123456789abcdef0123")
