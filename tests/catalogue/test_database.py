"""The file: its making, its mode, its versions, its neighbours."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from lastgood.catalogue import Query, image
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.database import APPLICATION_ID, CURRENT, Schema, open_uri
from lastgood.errors import Busy, Damaged, Storage, Unsupported, Usage
from lastgood.model.checkpoint import Checkpoint, Manifest
from lastgood.testing.clock import FakeClock
from tools.forks import be_nobody, ended, forked, said_by_fork

Save = Callable[..., Checkpoint]

SOURCE = Path(__file__).parents[2] / "src"

KEY = "aa" * 10

ADD_MANY = """
import os, sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from lastgood.host import SystemClock
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.model.checkpoint import decode
from lastgood.catalogue import WorkspaceRow
path, text, count, clock = sys.argv[3], sys.argv[4], int(sys.argv[5]), SystemClock()
for turn in range(3):
    catalogue = SqliteCatalogue.open(path, clock=clock, wait=60)
    catalogue.add_workspace(WorkspaceRow(key="aa" * 10, path="/p", machine="m", created_at=1))
    for _ in range(count):
        manifest = decode(text).replace(id="ckpt_" + clock.random().hex())
        print(catalogue.add(manifest, commit="0" * 40, name=None, pinned=False).sequence, manifest.id)
    catalogue.close()
"""


def permissions(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_files_are_private_whatever_the_umask(path: str, clock: FakeClock) -> None:
    """S18."""
    before = os.umask(0)
    try:
        catalogue = SqliteCatalogue.open(path, clock=clock)
        catalogue.set_generation("x")
        catalogue.back_up()
        names = [str(one) for one in Path(path).parent.iterdir() if one.is_file()]
        assert {permissions(name) for name in names} == {0o600}
        assert {path, path + "-wal", path + "-shm"} < set(names)
        catalogue.close()
    finally:
        os.umask(before)


def test_what_has_to_be_durable_is_flushed_whatever_the_settings_say(path: str, clock: FakeClock) -> None:
    catalogue = SqliteCatalogue.open(path, clock=clock, durability="fast")
    write = catalogue._database.write
    flushed = write(lambda known: known.execute("PRAGMA synchronous").fetchone(), durable=True)
    usual = write(lambda known: known.execute("PRAGMA synchronous").fetchone())
    catalogue.close()
    assert (flushed, usual) == ((2,), (1,))


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("fast", 1)])
def test_durability_sets_when_sqlite_flushes(
    path: str, clock: FakeClock, durability: str, level: int
) -> None:
    """S13."""
    catalogue = SqliteCatalogue.open(path, clock=clock, durability=durability)  # type: ignore[arg-type]
    read = catalogue._database.read
    assert read(lambda connection: connection.execute("PRAGMA synchronous").fetchone()) == (level,)
    assert read(lambda connection: connection.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
    assert read(lambda connection: connection.execute("PRAGMA foreign_keys").fetchone()) == (1,)
    catalogue.close()


def test_a_newer_catalogue_is_unsupported_and_untouched(path: str, clock: FakeClock) -> None:
    SqliteCatalogue.open(path, clock=clock).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {CURRENT.version + 1}")
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(Unsupported, match=rf"version {CURRENT.version + 1}.*up to {CURRENT.version}"):
        SqliteCatalogue.open(path, clock=clock)
    assert Path(path).read_bytes() == before


def test_another_program_s_database_is_refused(path: str, clock: FakeClock) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(Damaged, match="not a catalogue of lastgood"):
        SqliteCatalogue.open(path, clock=clock)


def test_an_empty_file_is_no_new_catalogue(path: str, clock: FakeClock) -> None:
    Path(path).touch()
    with pytest.raises(Damaged):
        SqliteCatalogue.open(path, clock=clock)


def test_an_older_catalogue_is_brought_up_with_a_copy_kept(
    path: str, clock: FakeClock, catalogue: SqliteCatalogue, save: Save
) -> None:
    added = save(1)
    catalogue.close()

    def grow(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE workspace ADD COLUMN colour TEXT")

    newer = CURRENT.replace(version=CURRENT.version + 1, migrations=(*CURRENT.migrations, grow))
    SqliteCatalogue.open(path, clock=clock, schema=newer).close()
    again = SqliteCatalogue.open(path, clock=clock, schema=newer)
    assert again.get(added.id) == added
    again.close()
    with pytest.raises(Unsupported):
        SqliteCatalogue.open(path, clock=clock)
    kept = SqliteCatalogue.open(f"{path}.version-{CURRENT.version}", clock=clock)
    assert kept.get(added.id) == added
    kept.close()


def test_what_an_older_program_added_after_a_failed_upgrade_is_in_the_kept_copy(
    path: str, clock: FakeClock, catalogue: SqliteCatalogue, save: Save
) -> None:
    """The copy that an upgrade left which came no further is not the state that is brought up later."""

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE nonsense ADD COLUMN colour TEXT")

    def grow(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE workspace ADD COLUMN colour TEXT")

    save(1)
    newer = CURRENT.replace(version=CURRENT.version + 1, migrations=(*CURRENT.migrations, fail))
    with pytest.raises(Damaged):
        SqliteCatalogue.open(path, clock=clock, schema=newer)
    added = save(2)  # by the older program, which was open all the while
    SqliteCatalogue.open(
        path, clock=clock, schema=newer.replace(migrations=(*CURRENT.migrations, grow))
    ).close()
    with pytest.raises(Unsupported):
        save(3)
    kept = SqliteCatalogue.open(f"{path}.version-{CURRENT.version}", clock=clock)
    assert kept.get(added.id) == added
    kept.close()


def test_a_migration_that_fails_changes_nothing(path: str, clock: FakeClock) -> None:
    SqliteCatalogue.open(path, clock=clock).close()

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE workspace ADD COLUMN colour TEXT")
        connection.execute("ALTER TABLE nonsense ADD COLUMN colour TEXT")

    newer = CURRENT.replace(version=CURRENT.version + 1, migrations=(*CURRENT.migrations, fail))
    with pytest.raises(Damaged):
        SqliteCatalogue.open(path, clock=clock, schema=newer)
    SqliteCatalogue.open(path, clock=clock).close()


def test_a_writer_that_does_not_end_makes_others_busy(
    path: str, catalogue: SqliteCatalogue, save: Save
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy):
        save(1)
    assert catalogue.count() == 0  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    save(1)


def test_a_change_that_fails_leaves_no_transaction_behind(catalogue: SqliteCatalogue, save: Save) -> None:
    """S14."""

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM workspace")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        catalogue._database.write(fail)
    save(1)
    assert len(catalogue.workspaces()) == 2


def test_eight_processes_add_at_once_from_nothing(path: str, manifest: Callable[..., Manifest]) -> None:
    """S15, S16: they race to make the catalogue too."""
    from lastgood.model.checkpoint import encode

    text = encode(manifest(1)).decode()
    command = [sys.executable, "-c", ADD_MANY, str(SOURCE), "", path, text, "10"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    answers = [process.communicate()[0].split() for process in running]
    assert [process.returncode for process in running] == [0] * 8
    own = [[int(word) for word in answer[::2]] for answer in answers]
    assert all(numbers == sorted(numbers) for numbers in own)
    together = sorted(number for numbers in own for number in numbers)
    assert together == list(range(1, 241))
    catalogue = SqliteCatalogue.open(path, clock=FakeClock())
    assert catalogue.fault() is None
    assert len({one.id for one in catalogue.find(Query())}) == 240
    catalogue.close()
    assert not [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".new")]


def test_threads_share_one_catalogue(catalogue: SqliteCatalogue, save: Save) -> None:
    threads = [
        threading.Thread(target=lambda first=first: [save(number) for number in range(first, first + 20)])
        for first in (100, 200, 300)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert catalogue.count() == 60
    assert catalogue.fault() is None


def test_a_forked_child_works_on_a_connection_of_its_own(catalogue: SqliteCatalogue, save: Save) -> None:
    save(1)

    def work() -> None:
        save(2)
        catalogue.close()

    assert ended(forked(work)) == 0
    save(3)
    assert [int(one.id[5:], 16) for one in catalogue.find(Query())] == [3, 2, 1]


def test_a_forked_child_waits_for_no_thread_that_it_does_not_have(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    """A program forks while another thread asks, which holds what is asked in turns."""
    save(1)
    asks, ends = threading.Event(), threading.Event()

    def ask() -> None:
        asks.set()
        ends.wait()

    def work() -> None:
        signal.alarm(60)  # who waits for ever is ended
        assert catalogue.count() == 1
        save(2)

    thread = threading.Thread(target=catalogue.moment, args=(ask,))
    thread.start()
    try:
        asks.wait()
        assert ended(forked(work)) == 0
    finally:
        ends.set()
        thread.join()
    assert catalogue.count() == 2


@pytest.mark.chance("how far a writer is when it is killed")
def test_a_killed_writer_leaves_whole_checkpoints(path: str, manifest: Callable[..., Manifest]) -> None:
    """S14, S16: what it printed is there, and nobody has to wait for it."""
    from lastgood.model.checkpoint import encode

    text = encode(manifest(1)).decode()
    command = [sys.executable, "-u", "-c", ADD_MANY, str(SOURCE), "", path, text, "100000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = [process.stdout.readline().split()[1] for _ in range(25)]
    process.kill()
    printed += [line.split()[1] for line in process.stdout if line.endswith("\n") and len(line.split()) == 2]
    process.wait()
    process.stdout.close()
    catalogue = SqliteCatalogue.open(path, clock=FakeClock(), wait=1)
    assert catalogue.fault() is None
    assert set(printed) <= {one.id for one in catalogue.find(Query())}
    catalogue.set_generation("goes on")
    catalogue.close()


def test_a_full_disk_is_a_storage_error_and_adds_nothing(catalogue: SqliteCatalogue, save: Save) -> None:
    """S14: the limit on file sizes stands for the disk's."""
    save(1)
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = os.path.getsize(catalogue.path + "-wal")
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5000, before[1]))
    try:
        with pytest.raises(Storage):
            save(2, message="x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [int(one.id[5:], 16) for one in catalogue.find(Query())] == [1]
    assert save(3).sequence == 2
    assert catalogue.fault() is None


def as_a_reader(folder: Path, work: Callable[[], str]) -> str:
    """Do something as somebody who may read a folder's files and write nothing."""
    for name in folder.iterdir():
        name.chmod(0o444)
    folder.chmod(0o555)

    def read() -> str:
        be_nobody()
        return work()

    answer = said_by_fork(read)
    folder.chmod(0o755)
    return answer


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Return a folder that other users can reach (the temporary folders of tests are private)."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "store"
        place.parent.chmod(0o755)
        place.mkdir()
        yield place


def look_and_change(path: Path) -> str:
    try:
        catalogue = SqliteCatalogue.open(str(path), clock=FakeClock(), wait=0.2)
        seen = len(catalogue.find(Query()))
    except Storage as error:
        return f"unreadable: {error.message}"
    try:
        catalogue.set_generation("x")
    except Storage as error:
        return f"{seen} seen, {error.message}"
    return "changed"


def test_a_catalogue_on_a_read_only_medium_can_be_read(
    open_place: Path, catalogue: SqliteCatalogue, save: Save
) -> None:
    save(1)
    catalogue.close()
    copy = open_place / "catalogue.sqlite3"
    copy.write_bytes(Path(catalogue.path).read_bytes())
    answer = as_a_reader(open_place, lambda: look_and_change(copy))
    assert answer.startswith("1 seen")
    assert "read-only" in answer


@pytest.mark.parametrize("beside", [("-wal",), ("-wal", "-shm")], ids=["log", "log-and-index"])
def test_a_read_only_catalogue_with_a_log_tells_all(
    open_place: Path, catalogue: SqliteCatalogue, save: Save, beside: tuple[str, ...]
) -> None:
    save(1)
    copy = open_place / "catalogue.sqlite3"
    for suffix in ("", *beside):
        Path(f"{copy}{suffix}").write_bytes(Path(catalogue.path + suffix).read_bytes())
    answer = as_a_reader(open_place, lambda: look_and_change(copy))
    assert answer.startswith("1 seen")
    assert "read-only" in answer


def test_a_catalogue_of_an_older_version_is_read_where_it_cannot_be_brought_up(
    open_place: Path, tmp_path: Path, clock: FakeClock
) -> None:
    old = Schema(version=3, statements=CURRENT.statements, migrations=CURRENT.migrations)
    path = tmp_path / "old.sqlite3"
    SqliteCatalogue.open(str(path), clock=clock, schema=old).close()
    copy = open_place / "catalogue.sqlite3"
    copy.write_bytes(path.read_bytes())
    answer = as_a_reader(open_place, lambda: look_and_change(copy))
    assert answer.startswith("0 seen")
    assert "read-only" in answer


def test_a_path_of_odd_bytes_works(tmp_path: Path, clock: FakeClock) -> None:
    folder = os.fsencode(tmp_path) + b"/a \xff?#%41\nb"
    os.mkdir(folder)
    path = os.fsdecode(folder + b"/catalogue.sqlite3")
    catalogue = SqliteCatalogue.open(path, clock=clock)
    catalogue.set_generation("x")
    assert catalogue.back_up()
    assert catalogue.generation() == "x"
    catalogue.close()
    assert sorted(os.listdir(folder)) == [b"catalogue.backup.sqlite3.gz", b"catalogue.sqlite3"]


def test_a_folder_that_is_not_there_is_a_storage_error(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(Storage):
        SqliteCatalogue.open(str(tmp_path / "none" / "catalogue.sqlite3"), clock=clock)


def test_a_backup_that_the_disk_refuses_is_a_storage_error(
    catalogue: SqliteCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(Storage, match="Input/output error"):
            catalogue.back_up()
    assert catalogue.back_up()


def test_an_emptied_log_takes_no_room(catalogue: SqliteCatalogue, path: str) -> None:
    for number in range(20):
        catalogue.set_generation(str(number))
    assert os.path.getsize(path + "-wal") > 0

    catalogue.empty_log()

    assert os.path.getsize(path + "-wal") == 0
    assert catalogue.generation() == "19"


def test_emptying_the_log_waits_for_nobody(catalogue: SqliteCatalogue, path: str) -> None:
    """K3: no save waits for maintenance, nor maintenance for a save."""
    catalogue.set_generation("one")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE meta SET value = 'two' WHERE name = 'generation'")

    catalogue.empty_log()

    assert catalogue.generation() == "one"
    other.execute("COMMIT")
    other.close()
    catalogue.set_generation("three")
    catalogue.empty_log()
    assert catalogue.generation() == "three"


def test_the_log_stays_small_however_much_is_written(catalogue: SqliteCatalogue, path: str) -> None:
    for number in range(800):
        catalogue.set_generation(str(number))

    assert os.path.getsize(path + "-wal") < 1_500_000


def test_a_workspace_that_is_there_is_left_without_writing(catalogue: SqliteCatalogue, path: str) -> None:
    """Each save says which workspace it is of; only the first has to write that."""
    row = catalogue.workspaces()[0]
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    catalogue.add_workspace(row.replace(path="/elsewhere"))

    assert catalogue.workspace(row.key) == row
    other.close()


def test_a_closed_catalogue_says_so(catalogue: SqliteCatalogue) -> None:
    catalogue.close()
    with pytest.raises(Usage, match="closed"):
        catalogue.count()


def test_creation_can_be_forbidden(path: str, clock: FakeClock) -> None:
    with pytest.raises(Damaged):
        SqliteCatalogue.open(path, clock=clock, create=False)
    assert not os.path.exists(path)


def test_an_interrupted_creation_is_taken_up(path: str, clock: FakeClock) -> None:
    Path(path + ".new").write_bytes(b"half")
    Path(path + ".new-journal").write_bytes(b"half")
    SqliteCatalogue.open(path, clock=clock).close()
    assert os.listdir(os.path.dirname(path)) == ["catalogue.sqlite3"]


def test_the_application_id_is_as_published() -> None:
    assert APPLICATION_ID.to_bytes(4, "big") == b"lstg"


# A database read without opening it: nothing that is committed is missing, nothing else is there.


ALL = "SELECT number, content FROM thing ORDER BY number"


def make(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 37")
    connection.execute("CREATE TABLE thing (number INTEGER PRIMARY KEY, content BLOB)")
    return connection


def copied(path: Path) -> list[tuple[int, bytes]]:
    connection, _ = image.copy(str(path), lambda: open_uri(str(path), "immutable=1", wait=0))
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return connection.execute(ALL).fetchall()
    finally:
        connection.close()


def as_sqlite_reads(path: Path, folder: Path) -> list[tuple[int, bytes]]:
    """Let SQLite itself read copies of the files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", folder / f"copy{suffix}")
    connection = sqlite3.connect(folder / "copy")
    try:
        return connection.execute(ALL).fetchall()
    finally:
        connection.close()


def test_a_copy_holds_what_was_committed_whatever_happened_to_the_log(tmp_path: Path) -> None:
    """Invariant 6: the log is part of the truth; S14: what is not committed does not exist."""
    random = Random(4)
    path = tmp_path / "things"
    connection = make(path)
    for _ in range(250):
        draw = random.random()
        if draw < 0.6:
            content = random.randbytes(random.randrange(9000))
            connection.execute("INSERT INTO thing (content) VALUES (?)", (content,))
        elif draw < 0.8:
            connection.execute("DELETE FROM thing WHERE number % 7 = ?", (random.randrange(7),))
        elif draw < 0.83:
            connection.execute("VACUUM")
        elif draw < 0.9:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        else:
            before = connection.execute(ALL).fetchall()
            connection.execute("PRAGMA cache_size = 3")  # so that the log gets pages of what is not over
            connection.execute("BEGIN")
            for _ in range(20):
                connection.execute("INSERT INTO thing (content) VALUES (?)", (random.randbytes(3000),))
            assert copied(path) == before
            connection.execute(random.choice(["ROLLBACK", "COMMIT"]))
            assert copied(path) == connection.execute(ALL).fetchall()
    assert os.path.getsize(f"{path}-wal") > 0
    assert copied(path) == connection.execute(ALL).fetchall()
    connection.close()


@pytest.mark.parametrize("harm", ["cut", "flipped", "no header", "grown"])
def test_of_a_harmed_log_a_copy_holds_what_sqlite_reads_of_it(tmp_path: Path, harm: str) -> None:
    """S14: a transaction whose log is torn did not happen, and neither did those after it."""
    random = Random(harm)
    path = tmp_path / "things"
    connection = make(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    for number in range(12):
        connection.execute("INSERT INTO thing (content) VALUES (?)", (random.randbytes(500 * number),))
    kept = tmp_path / "kept"
    kept.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", kept / f"things{suffix}")
    connection.close()
    log = kept / "things-wal"
    whole, seen = log.read_bytes(), set()
    for _ in range(12):
        at = random.randrange(32, len(whole))
        torn = bytearray(whole)
        if harm == "cut":
            del torn[at:]
        elif harm == "grown":
            torn += random.randbytes(at)
        else:
            torn[at if harm == "flipped" else at % 32] ^= 1 << random.randrange(8)
        log.write_bytes(torn)
        found = copied(kept / "things")
        assert found == as_sqlite_reads(kept / "things", tmp_path / "judge")
        seen.add(len(found))
    assert len(seen) > 1 or harm in {"grown", "no header"}


def test_what_was_written_since_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "things"
    connection = make(path)
    known = image.stamps_of(str(path))
    assert image.stamps_of(str(path)) == known
    connection.execute("INSERT INTO thing (content) VALUES (x'00')")
    assert image.stamps_of(str(path)) != known
    connection.close()


def test_sqlite_is_loaded_without_a_module_that_whoever_asks_for_it_later_gets_whole() -> None:
    """Where another thread could meet what stands in for that, it is loaded like any other."""
    code = """
import sys
if sys.argv[1] == "beside":
    from _thread import allocate_lock, start_new_thread
    begun, held = allocate_lock(), allocate_lock()
    begun.acquire()
    held.acquire()
    start_new_thread(lambda: (begun.release(), held.acquire()), ())
    begun.acquire()
from lastgood.catalogue.sqlite import sqlite3
early = "functools" in sys.modules
connection = sqlite3.connect(":memory:")
rows = [connection.execute("SELECT ?", (one,)).fetchone() for one in (1, 2)]
from functools import cache, partial
import sqlite3 as usual
print(early, rows, cache(len)("ab"), usual.connect(":memory:").execute("SELECT 3").fetchone())
"""
    rest = "[(1,), (2,)] 2 (3,)"
    for where, early in (("alone", False), ("beside", True)):
        command = [sys.executable, "-S", "-c", code, where]
        said = subprocess.check_output(command, env={"PYTHONPATH": str(SOURCE)}, text=True)
        assert said == f"{early} {rest}\n"


def test_to_copy_leaves_the_locks_of_other_connections_alone(tmp_path: Path) -> None:
    """S16: to close the file in this process would drop what SQLite holds on it."""
    path = tmp_path / "things"
    connection = make(path)
    connection.execute("INSERT INTO thing (content) VALUES (x'00')")
    held = _locked(path)
    assert held[0] == fcntl.F_RDLCK
    assert held[-1] == os.getpid()
    copied(path)
    assert _locked(path) == held
    connection.close()


# As another process: of its own locks a process is told nothing.
_LOCKED = """
import fcntl, os, struct, sys
form = "hhqqi"
whole = struct.pack(form, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
with open(sys.argv[1], "r+b") as file:
    print(*struct.unpack(form, fcntl.fcntl(file, fcntl.F_GETLK, whole)))
"""


def _locked(path: Path) -> tuple[int, ...]:
    """Return the kind, place and owner of the first lock on a file, as fcntl(2) tells it."""
    told = subprocess.run([sys.executable, "-c", _LOCKED, path], capture_output=True, check=True).stdout
    kind, _, start, length, owner = map(int, told.split())
    return kind, start, length, owner
