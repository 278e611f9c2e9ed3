"""A store of old that several programs open at once with a newer lastgood (rule S16)."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lastgood.catalogue import Query, database
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.database import CURRENT, reseal
from lastgood.errors import Unsupported
from lastgood.files import sync_file
from lastgood.model.session import Progress, Task
from lastgood.testing.clock import FakeClock
from living import eventually

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
