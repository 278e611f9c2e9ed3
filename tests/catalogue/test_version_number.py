"""A catalogue of which only the version is damaged is mended; one that is newer stays as it is (K4)."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lastgood.catalogue import Query
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.database import CURRENT
from lastgood.catalogue.rebuild import mend_number
from lastgood.errors import Damaged, Unsupported
from lastgood.model.checkpoint import Checkpoint
from lastgood.testing.clock import FakeClock

Save = Callable[..., Checkpoint]

NEXT = CURRENT.version + 1
# Where SQLite keeps the number: the last of these four bytes holds ours.
PLACE = 60
FLIPPED = [place * 256 + bit for place in range(4) for bit in range(8)]


def forge(path: str, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def number(path: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def opened(path: str) -> SqliteCatalogue:
    return SqliteCatalogue.open(path, clock=FakeClock(), create=False)


@pytest.fixture
def closed(catalogue: SqliteCatalogue, save: Save) -> str:
    """Return the path of a catalogue of two checkpoints that nobody has open."""
    save(1, name="one")
    save(2)
    catalogue.close()
    return catalogue.path


@pytest.fixture
def early(catalogue: SqliteCatalogue, save: Save) -> str:
    """Return the same as it was before the version was written down a second time; with a backup."""
    save(1, name="one")
    save(2)
    forge(catalogue.path, "DELETE FROM meta WHERE name = 'version'")
    assert catalogue.back_up()
    catalogue.close()
    return catalogue.path


@pytest.mark.parametrize("flip", FLIPPED)
def test_a_flipped_bit_in_the_number_is_mended(closed: str, flip: int) -> None:
    content = bytearray(Path(closed).read_bytes())
    content[PLACE + flip // 256] ^= 1 << flip % 256
    Path(closed).write_bytes(content)
    damaged = number(closed)
    assert damaged != CURRENT.version

    told = mend_number(closed)

    again = opened(closed)
    assert number(closed) == CURRENT.version
    assert [one.sequence for one in again.find(Query())] == [2, 1]
    assert again.fault() is None
    again.close()
    # To a number of the same tables it is brought up as an older one is.
    assert told == () if 3 <= damaged < CURRENT.version else str(damaged) in told[0]


def test_a_raised_number_of_an_early_catalogue_is_mended_by_its_backup(early: str) -> None:
    forge(early, "PRAGMA user_version = 260")
    assert len(mend_number(early)) == 1
    assert number(early) == CURRENT.version


def assert_untouched(path: str) -> None:
    before = Path(path).read_bytes()
    assert mend_number(path) == ()
    assert Path(path).read_bytes() == before
    with pytest.raises((Unsupported, Damaged)):
        opened(path)


def test_a_raised_number_of_an_early_catalogue_without_backup_is_not_certain(early: str) -> None:
    for backup in Path(early).parent.glob("*backup*"):
        backup.unlink()
    forge(early, f"PRAGMA user_version = {NEXT}")
    assert_untouched(early)


def test_a_backup_that_is_damaged_proves_nothing(early: str) -> None:
    for backup in Path(early).parent.glob("*backup*"):
        backup.write_bytes(b"garbage")
    forge(early, f"PRAGMA user_version = {NEXT}")
    assert_untouched(early)


def test_a_backup_of_a_newer_one_proves_nothing(early: str, tmp_path: Path) -> None:
    plain = tmp_path / "catalogue.backup.sqlite3"
    shutil.copyfile(early, plain)
    forge(str(plain), f"PRAGMA user_version = {NEXT}")
    forge(early, f"PRAGMA user_version = {NEXT}")
    assert_untouched(early)


def test_a_catalogue_that_a_newer_one_brought_up_stays_although_nothing_else_differs(closed: str) -> None:
    """The rows of the newer one may mean something else, which nobody here can know."""
    newer = CURRENT.replace(version=NEXT, migrations=(*CURRENT.migrations, lambda _connection: None))
    SqliteCatalogue.open(closed, clock=FakeClock(), schema=newer).close()
    assert number(closed) == NEXT
    assert_untouched(closed)


def test_a_catalogue_that_a_newer_one_made_stays(path: str) -> None:
    newer = CURRENT.replace(version=NEXT, migrations=(*CURRENT.migrations, lambda _connection: None))
    SqliteCatalogue.open(path, clock=FakeClock(), schema=newer).close()
    assert_untouched(path)


def test_the_copy_that_a_newer_one_kept_of_an_early_catalogue_is_believed(early: str) -> None:
    shutil.copyfile(early, f"{early}.version-{CURRENT.version}")
    forge(early, f"PRAGMA user_version = {NEXT}")
    assert_untouched(early)


@pytest.mark.parametrize("lowered", range(-1, NEXT))
def test_a_lowered_number_gives_no_catalogue_of_a_newer_one_away(path: str, lowered: int) -> None:
    """Neither a repair nor an opening, which would bring it up, takes it for one of ours."""
    newer = CURRENT.replace(version=NEXT, migrations=(*CURRENT.migrations, lambda _connection: None))
    SqliteCatalogue.open(path, clock=FakeClock(), schema=newer).close()
    forge(path, f"PRAGMA user_version = {lowered}")
    if lowered != CURRENT.version:  # which is not looked into: every opening would pay for it
        assert_untouched(path)
        with pytest.raises(Unsupported, match=f"version {NEXT}"):
            opened(path)


@pytest.mark.parametrize("word", ["said", "not said"])
def test_a_raised_number_of_a_catalogue_of_old_is_mended(word: str, path: str) -> None:
    """One of the version before, whose tables are today's: it has not been opened here yet."""
    shutil.copyfile(Path(__file__).parents[1] / "stores_of_old" / "version-4" / "catalogue.sqlite3", path)
    if word == "not said":
        forge(path, "DELETE FROM meta WHERE name = 'version'")
        shutil.copyfile(path, Path(path).parent / "catalogue.backup.sqlite3")
    forge(path, "PRAGMA user_version = 132")
    assert len(mend_number(path)) == 1
    again = opened(path)
    assert again.fault() is None
    again.close()
    forge(path, "PRAGMA user_version = 133")
    assert len(mend_number(path)) == 1


def test_the_copy_that_somebody_kept_of_a_catalogue_of_old_is_believed(path: str) -> None:
    shutil.copyfile(Path(__file__).parents[1] / "stores_of_old" / "version-4" / "catalogue.sqlite3", path)
    shutil.copyfile(path, f"{path}.version-4")
    forge(path, "PRAGMA user_version = 132")
    assert_untouched(path)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE workspace ADD COLUMN colour TEXT",
        "CREATE TABLE more (number INTEGER PRIMARY KEY)",
        "CREATE INDEX more ON workspace (machine)",
        "CREATE VIEW more AS SELECT 1",
        "DROP INDEX run_of_workspace",
        "UPDATE workspace SET machine = 'altered'",
        f"UPDATE meta SET value = {NEXT} WHERE name = 'version'",
    ],
)
def test_whatever_else_differs_leaves_a_raised_number(closed: str, change: str) -> None:
    forge(closed, change, f"PRAGMA user_version = {NEXT}")
    assert_untouched(closed)


def test_rows_of_a_form_that_is_not_known_leave_a_raised_number(closed: str) -> None:
    """Sealed as they should be, but nothing that can be read here."""
    from lastgood.catalogue.database import prepare, reseal

    with closing(sqlite3.connect(closed, isolation_level=None)) as connection:
        prepare(connection)
        connection.execute("UPDATE checkpoint SET manifest = CAST('new' AS BLOB) WHERE sequence = 1")
        reseal(connection, "checkpoint", "ckpt_0000000000000001")
    forge(closed, f"PRAGMA user_version = {NEXT}")
    assert_untouched(closed)


@pytest.mark.parametrize("version", ["version-1", "version-2", "version-3", "version-4"])
def test_an_older_catalogue_is_no_damaged_one(version: str, path: str) -> None:
    shutil.copyfile(Path(__file__).parents[1] / "stores_of_old" / version / "catalogue.sqlite3", path)
    before = Path(path).read_bytes()
    assert mend_number(path) == ()
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("lowered", [2, 1, 0, -5])
def test_a_lowered_number_is_told_as_damage(closed: str, lowered: int) -> None:
    forge(closed, f"PRAGMA user_version = {lowered}")
    with pytest.raises(Damaged) as told:
        opened(closed)
    assert "verify --repair" in told.value.hint


def test_a_refusal_names_the_way_for_a_damaged_number(closed: str) -> None:
    forge(closed, f"PRAGMA user_version = {NEXT}")
    with pytest.raises(Unsupported) as told:
        opened(closed)
    assert "verify --repair" in told.value.hint
    assert "newer lastgood" in told.value.hint
