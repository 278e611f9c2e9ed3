"""Long records are kept compressed: smaller, and never taken for what they are not (P2, K4)."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.catalogue import rows
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.rebuild import restore_from_backup
from lastgood.errors import Damaged
from lastgood.model.session import Progress, Task
from lastgood.testing.clock import FakeClock

if TYPE_CHECKING:
    from lastgood.model.session import TaskState

OLD = Path(__file__).parents[1] / "stores_of_old" / "version-4" / "catalogue.sqlite3"
OLD_KEY = "a1" * 10
KEY = "aa" * 10
MANY = 2000


def many(state: TaskState = "pending") -> Progress:
    return Progress(goal="all of it", tasks=tuple(Task(id=f"T{n:05}", state=state) for n in range(MANY)))


def kept(path: str) -> list[tuple[str, int]]:
    """Return the kind and size of what rows keep of progress."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT typeof(payload), length(payload) FROM progress").fetchall()


def test_long_progress_is_kept_compressed_and_comes_back_as_it_was(catalogue: SqliteCatalogue) -> None:
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: many(), workspace_key=KEY))
    ((kind, size),) = kept(catalogue.path)
    assert kind == "blob"
    assert size < 20 * MANY
    assert catalogue.work.progress(KEY) == many()
    assert catalogue.altered() == []
    assert catalogue.fault() is None


def test_short_progress_is_kept_as_text(catalogue: SqliteCatalogue) -> None:
    short = Progress(goal="g", tasks=(Task(id="T01"),))
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: many(), workspace_key=KEY))
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: short, workspace_key=KEY))
    assert kept(catalogue.path)[0][0] == "text"
    assert catalogue.work.progress(KEY) == short


def test_compressed_progress_that_was_altered_is_not_believed(catalogue: SqliteCatalogue) -> None:
    """K4: also where it could still be unpacked."""
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: many(), workspace_key=KEY))
    with closing(sqlite3.connect(catalogue.path, isolation_level=None)) as connection:
        other = b"\x01" + zlib.compress(b'{"goal":"another"}')
        connection.execute("UPDATE progress SET payload = ?", (other,))
    assert catalogue.work.progress(KEY) == Progress()
    assert catalogue.fault() == f"altered: progress {KEY}"


def test_a_repair_keeps_compressed_progress(catalogue: SqliteCatalogue) -> None:
    """Of what is newer than the backup too."""
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: many(), workspace_key=KEY))
    assert catalogue.back_up()
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: many("done"), workspace_key=KEY))
    catalogue.close()
    path = Path(catalogue.path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        index = "SELECT rootpage FROM sqlite_master WHERE name = 'operation_of_workspace'"
        ((page,),) = connection.execute(index).fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
    assert restore_from_backup(str(path), generation="g", at=1)
    again = SqliteCatalogue.open(str(path), clock=FakeClock(), create=False)
    assert again.work.progress(KEY) == many("done")
    again.close()


def test_progress_of_the_fourth_version_is_read_and_then_kept_anew(path: str) -> None:
    shutil.copyfile(OLD, path)
    catalogue = SqliteCatalogue.open(path, clock=FakeClock(), create=False)
    before = catalogue.work.progress(OLD_KEY)
    assert (before.goal, before.count("done"), before.count("pending")) == ("all of it", 50, 50)
    assert {kind for kind, _ in kept(path)} == {"text"}
    after = catalogue.work.change(
        lambda to: to.change_progress(
            OLD_KEY, lambda found: found.replace(goal="more"), workspace_key=OLD_KEY
        )
    )
    assert after == before.replace(goal="more")
    assert {kind for kind, _ in kept(path)} == {"text", "blob"}
    assert catalogue.work.progress(OLD_KEY) == after
    assert catalogue.fault() is None
    catalogue.close()


@given(text=st.text(st.characters(max_codepoint=127), max_size=50), times=st.sampled_from([1, 100, 1000]))
def test_every_record_comes_back_as_it_was(text: str, times: int) -> None:
    assert rows.unpack_record(rows.pack_record(text * times)) == text * times


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x02",
        b"\x01",
        b"\x01garbage",
        b"\x01" + zlib.compress(b"x" * 5000)[:-3],
        b"\x01" + zlib.compress(b"\xff" * 5000),
        b"\x01" + zlib.compress(bytes(300 << 20), 9),
    ],
    ids=["nothing", "another form", "no content", "garbage", "cut short", "no ASCII", "a bomb"],
)
def test_what_is_no_record_is_damaged(value: bytes) -> None:
    with pytest.raises(Damaged):
        rows.unpack_record(value)
