"""A database read without opening it: nothing that is committed is missing, nothing else is there."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from lastgood.catalogue import image
from lastgood.catalogue.database import open_uri

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


def test_to_copy_leaves_the_locks_of_other_connections_alone(tmp_path: Path) -> None:
    """S16: to close the file in this process would drop what SQLite holds on it."""
    path = tmp_path / "things"
    connection = make(path)
    connection.execute("INSERT INTO thing (content) VALUES (x'00')")
    held = _locked(path)
    assert held
    copied(path)
    assert _locked(path) == held
    connection.close()


def _locked(path: Path) -> list[str]:
    number = path.stat().st_ino
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return [line.partition(":")[2] for line in lines if f":{number} " in line]
