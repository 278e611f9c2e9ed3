"""A catalogue of which only the version is damaged is mended; one that is newer stays as it is (K4)."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from lastgood.catalogue import Query, database
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.database import CURRENT, reseal
from lastgood.catalogue.rebuild import mend_number
from lastgood.errors import Damaged, Unsupported
from lastgood.files import sync_file
from lastgood.model.checkpoint import Checkpoint
from lastgood.model.session import Progress, Task
from lastgood.testing.clock import FakeClock
from tools.living import eventually

Save = Callable[..., Checkpoint]

NEXT = CURRENT.version + 1
# Where SQLite keeps the number: the last of these four bytes holds ours.
PLACE = 60

STORES = Path(__file__).parents[1] / "stores_of_old"
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


@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_a_raised_number_of_an_earlier_version_is_mended_by_the_tables_that_it_has(
    path: str, version: int
) -> None:
    shutil.copyfile(STORES / f"version-{version}" / "catalogue.sqlite3", path)
    forge(path, "PRAGMA user_version = 260", f"INSERT OR REPLACE INTO meta VALUES ('version', {version})")

    assert mend_number(path) == (
        f"the catalogue's version was set from 260 to {version}: its number was damaged",
    )
    opened(path).close()
    assert number(path) == CURRENT.version


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
@pytest.mark.parametrize("version", ["version-4", "version-5"])
def test_a_raised_number_of_a_catalogue_of_old_is_mended(version: str, word: str, path: str) -> None:
    """One of a version before that has the tables of today: it has not been opened here yet."""
    shutil.copyfile(Path(__file__).parents[1] / "stores_of_old" / version / "catalogue.sqlite3", path)
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


@pytest.mark.parametrize("version", ["version-1", "version-2", "version-3", "version-4", "version-5"])
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


# Ctrl-C, whenever it comes, leaves no transaction open and is told as what it is (S16).


@pytest.fixture
def ctrl_c() -> Iterator[partial[None]]:
    """Return a call without a line of Python in it: what it sends is met by whatever comes next."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield partial(os.kill, os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("catalogue")
def test_while_it_waits_for_its_turn_to_write(path: str, clock: FakeClock, ctrl_c: partial[None]) -> None:
    """The signal is met when the turn has come: the transaction has begun just then."""
    catalogue = SqliteCatalogue.open(path, clock=clock, wait=60)
    with (
        closing(catalogue),
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        about_to = threading.Event()

        def interrupt() -> None:
            about_to.wait()
            time.sleep(0.05)
            ctrl_c()
            other.execute("COMMIT")

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come anywhere from here on
            about_to.set()
            catalogue._database.write(lambda _: pytest.fail("it was interrupted before"))
        interrupting.join()
        catalogue._database.write(lambda connection: connection.execute("SELECT 1").fetchall())
        other.execute("BEGIN IMMEDIATE")


@pytest.mark.parametrize("way", ["read", "write"])
def test_while_seals_are_computed(catalogue: SqliteCatalogue, ctrl_c: partial[None], way: str) -> None:
    """What is raised in a function of ours, SQLite tells as a failure of that function."""

    def interrupted(connection: sqlite3.Connection) -> object:
        connection.create_function("ctrl_c", 0, ctrl_c)
        return connection.execute("SELECT ctrl_c(), seal_of(key) FROM workspace").fetchall()

    with pytest.raises(KeyboardInterrupt):
        getattr(catalogue._database, way)(interrupted)
    assert not catalogue._database.read(lambda connection: connection.in_transaction)


# A store of old that several programs open at once with a newer lastgood (rule S16).


OLD = Path(__file__).parents[1] / "stores_of_old" / "version-1" / "catalogue.sqlite3"

SOURCE = Path(database.__file__).parents[2]


def opening(path: Path) -> subprocess.Popen[bytes]:
    """Open the catalogue in a process of its own."""
    program = (
        "import sys\n"
        "from lastgood.catalogue.checkpoints import SqliteCatalogue\n"
        "from lastgood.testing.clock import FakeClock\n"
        "SqliteCatalogue.open(sys.argv[1], clock=FakeClock()).close()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(path)], env={"PYTHONPATH": str(SOURCE)}, stderr=subprocess.PIPE
    )


def waits(pid: int, folder: Path) -> bool:
    """Tell whether a process is after its turn in a folder: it has that open."""
    try:
        return str(folder) in [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:  # one that was open is closed again
        return False


def test_two_that_bring_a_store_of_old_up_do_not_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "catalogue.sqlite3"
    shutil.copy(OLD, path)
    with closing(sqlite3.connect(OLD)) as connection:
        before = list(connection.iterdump())
    others: list[subprocess.Popen[bytes]] = []

    def beside(name: str) -> None:
        """Let another open it when the copy of this one is written but not yet in its place."""
        if not others:
            others.append(opening(path))
            assert eventually(lambda: others[0].poll() is not None or waits(others[0].pid, tmp_path))
        sync_file(name)

    monkeypatch.setattr(database, "sync_file", beside)
    SqliteCatalogue.open(str(path), clock=FakeClock()).close()
    _, said = others[0].communicate()
    assert (others[0].returncode, said) == (0, b"")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (CURRENT.version,)
    assert sorted(name for name in os.listdir(tmp_path) if "version" in name or ".new" in name) == [
        "catalogue.sqlite3.version-1"
    ]
    with closing(sqlite3.connect(tmp_path / "catalogue.sqlite3.version-1")) as connection:
        assert list(connection.iterdump()) == before


def test_who_waited_for_a_newer_one_does_not_write_into_what_that_made(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.sqlite3"
    shutil.copy(OLD, path)
    turn = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    other = opening(path)
    assert eventually(lambda: other.poll() is not None or waits(other.pid, tmp_path))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {CURRENT.version + 1}")
    os.close(turn)
    _, said = other.communicate()
    assert other.returncode == 1
    assert b"errors.Unsupported" in said


def test_one_that_is_brought_up_while_it_is_open_is_not_called_damaged(tmp_path: Path) -> None:
    """Rows of a newer form are told for what they are, and nothing of ours goes in beside them."""
    path = tmp_path / "catalogue.sqlite3"
    shutil.copy(OLD, path)
    with closing(SqliteCatalogue.open(str(path), clock=FakeClock())) as catalogue:
        (known, *_) = catalogue.find(Query())
        key = known.manifest.workspace_key
        catalogue.work.change(
            lambda to: to.change_progress(key, lambda _: Progress(goal="ours"), workspace_key=key)
        )
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            database.prepare(connection)
            connection.execute(f"PRAGMA user_version = {CURRENT.version + 1}")
            connection.execute("UPDATE progress SET payload = ?", (b"\x7f a newer form",))
            connection.execute("UPDATE checkpoint SET manifest = ? WHERE id = ?", (b"\x7f newer", known.id))
            reseal(connection, "progress", key)
            reseal(connection, "checkpoint", known.id)
        for ask in (
            lambda: catalogue.work.progress(key),
            lambda: catalogue.find(Query()),
            lambda: catalogue.get(known.id),
            lambda: catalogue.set_damaged({known.id: "by us"}),
            lambda: catalogue.work.change(
                lambda to: to.change_progress(
                    key, lambda _: Progress(tasks=(Task(id="T01"),)), workspace_key=key
                )
            ),
        ):
            with pytest.raises(Unsupported, match="written by a newer lastgood"):
                ask()
        assert [row.key for row in catalogue.workspaces()]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT payload FROM progress").fetchall() == [(b"\x7f a newer form",)]
        assert connection.execute("SELECT count(*) FROM checkpoint WHERE damaged = 'by us'").fetchone() == (
            0,
        )
