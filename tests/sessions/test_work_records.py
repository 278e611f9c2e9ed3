"""Sessions, progress and steps in the catalogue: whole, in order, and never hidden by a bad row."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from lastgood.catalogue import WorkspaceRow
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.database import CURRENT
from lastgood.catalogue.work import SessionTransaction
from lastgood.errors import Conflict, NotFound
from lastgood.model.session import Effect, Owner, Position, Progress, Session, Task
from lastgood.testing.clock import FakeClock

KEY = "aa" * 10
OTHER = "bb" * 10
OLD = Path(__file__).parents[1] / "stores_of_old" / "version-1" / "catalogue.sqlite3"


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[SqliteCatalogue]:
    opened = SqliteCatalogue.open(str(tmp_path / "catalogue.sqlite3"), clock=FakeClock(), wait=600)
    for key in (KEY, OTHER):
        opened.add_workspace(WorkspaceRow(key=key, path=f"/home/{key}", machine="m", created_at=1))
    yield opened
    opened.close()


def session(number: int, **changes: object) -> Session:
    made = Session(
        id=f"sess_{number:016x}",
        workspace_key=KEY,
        owner=Owner(host="h", pid=number, command="agent \udcff", started="1", boot="b", namespace="n"),
        started_at=number,
        heartbeat_at=number,
        goal="g",
        transcript="/home/a/\udcff.jsonl",
        heartbeat_uptime=1,
        heartbeat_boot="b",
    )
    return made.replace(**changes)


def effect(number: int, **changes: object) -> Effect:
    return Effect(
        id=f"step_{number:016x}", workspace_key=KEY, name="push", started_at=number, session="s"
    ).replace(**changes)


def opened(catalogue: SqliteCatalogue, session: Session, replacing: Sequence[Session] = ()) -> None:
    catalogue.work.change(lambda to: to.open_session(session, replacing=replacing))


def recorded(catalogue: SqliteCatalogue, effect: Effect) -> None:
    catalogue.work.change(lambda to: to.put_effect(effect))


def test_a_session_comes_back_as_it_was_recorded(catalogue: SqliteCatalogue) -> None:
    """P1."""
    opened(catalogue, session(1))
    assert catalogue.work.session(session(1).id) == session(1)
    assert list(catalogue.work.sessions(KEY)) == [session(1)]
    assert list(catalogue.work.sessions(OTHER)) == []


def test_sessions_are_newest_first_whatever_their_clocks_said(catalogue: SqliteCatalogue) -> None:
    for number in (9, 1, 5):
        opened(catalogue, session(number, exclusive=False))
    assert [one.started_at for one in catalogue.work.sessions(KEY)] == [5, 1, 9]


def test_a_second_exclusive_session_cannot_be_opened(catalogue: SqliteCatalogue) -> None:
    """P1."""
    opened(catalogue, session(1))
    with pytest.raises(Conflict):
        opened(catalogue, session(2))
    opened(catalogue, session(3, exclusive=False))
    opened(catalogue, session(4, workspace_key=OTHER))
    ended = session(1, state="ended", ended_by="taken over", ended_at=2)
    opened(catalogue, session(2), replacing=[ended])
    assert catalogue.work.session(session(1).id) == ended


def test_one_that_beat_meanwhile_is_not_recorded_as_dead(catalogue: SqliteCatalogue) -> None:
    """P1: between the decision that it is dead and the record of it."""
    opened(catalogue, session(1))
    seen_dead = session(1, state="incomplete")
    catalogue.work.change(
        lambda to: to.change_session(session(1).id, lambda found: found.replace(heartbeat_at=99))
    )
    with pytest.raises(Conflict, match="sign of life"):
        opened(catalogue, session(2), replacing=[seen_dead])
    assert [one.heartbeat_at for one in catalogue.work.sessions(KEY)] == [99]


def test_a_change_that_raises_leaves_everything_as_it_was(catalogue: SqliteCatalogue) -> None:
    opened(catalogue, session(1))
    before = Progress(goal="g")
    catalogue.work.change(lambda to: to.change_progress(KEY, lambda _: before, workspace_key=KEY))

    def refuse(_: object) -> Progress:
        raise Conflict("no")

    with pytest.raises(Conflict):
        catalogue.work.change(lambda to: to.change_progress(KEY, refuse, workspace_key=KEY))
    with pytest.raises(Conflict):
        catalogue.work.change(
            lambda to: to.change_progress(KEY, lambda _: Progress(), workspace_key=KEY, steps=refuse)  # type: ignore[arg-type]
        )
    with pytest.raises(Conflict):
        catalogue.work.change(lambda to: to.change_session(session(1).id, refuse))  # type: ignore[arg-type]
    assert catalogue.work.progress(KEY) == before
    assert catalogue.work.session(session(1).id) == session(1)


def test_what_nobody_knows_is_not_found(catalogue: SqliteCatalogue) -> None:
    with pytest.raises(NotFound):
        catalogue.work.change(lambda to: to.change_session("sess_no", lambda found: found))
    assert catalogue.work.session("\udcff") is None
    assert catalogue.work.progress("nobody") == Progress()


def test_steps_come_in_the_order_of_their_start_and_by_state(catalogue: SqliteCatalogue) -> None:
    """P6."""
    for number, state in ((3, "running"), (1, "done"), (2, "running")):
        recorded(catalogue, effect(number, state=state))
    recorded(catalogue, effect(3, state="done", ended_at=9))
    recorded(catalogue, effect(4, session=None))
    assert [one.started_at for one in catalogue.work.effects(KEY)] == [3, 1, 2, 4]
    assert [one.started_at for one in catalogue.work.effects(KEY, session="s", state="running")] == [2]
    assert [one.ended_at for one in catalogue.work.effects(KEY, state="done")] == [9, None]


def test_progress_and_its_steps_are_recorded_together(catalogue: SqliteCatalogue) -> None:
    made = catalogue.work.change(
        lambda to: to.change_progress(
            KEY,
            lambda found: found.replace(goal="g"),
            workspace_key=KEY,
            steps=lambda _: [effect(1), effect(2)],
        )
    )
    assert made == Progress(goal="g")
    assert len(catalogue.work.effects(KEY)) == 2


def test_every_change_of_many_threads_counts(catalogue: SqliteCatalogue) -> None:
    """P2."""

    def tick(name: int) -> None:
        for number in range(20):
            change = partial(add, Task(id=f"{name}-{number}", state="done"))
            catalogue.work.change(partial(changed, change))

    def changed(change: Callable[[Progress], Progress], to: SessionTransaction) -> None:
        to.change_progress(KEY, change, workspace_key=KEY)

    def add(task: Task, found: Progress) -> Progress:
        return found.replace(tasks=(*found.tasks, task))

    threads = [threading.Thread(target=tick, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({task.id for task in catalogue.work.progress(KEY).tasks}) == 80


def altered(tmp_path: Path, statement: str) -> None:
    connection = sqlite3.connect(tmp_path / "catalogue.sqlite3")
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_row_that_was_altered_hides_no_other_and_is_dropped(
    catalogue: SqliteCatalogue, tmp_path: Path
) -> None:
    """K4."""

    def aim(number: int, to: SessionTransaction) -> None:
        to.change_progress(f"sess_{number:016x}", lambda _: Progress(goal="g"), workspace_key=KEY)

    for number in (1, 2, 3):
        opened(catalogue, session(number, exclusive=False))
        catalogue.work.change(partial(aim, number))
        recorded(catalogue, effect(number))
    for table in ("session", "progress", "step"):
        altered(tmp_path, f"UPDATE {table} SET payload = 'garbage' WHERE number = 2")
    assert [one.started_at for one in catalogue.work.sessions(KEY)] == [3, 1]
    assert catalogue.work.progress(f"sess_{2:016x}") == Progress()
    assert [one.started_at for one in catalogue.work.effects(KEY)] == [1, 3]
    assert sorted(line.split()[0] for line in catalogue.mend()) == ["progress", "session", "step"]
    assert catalogue.mend() == []
    opened(catalogue, session(2, exclusive=False))
    assert len(catalogue.work.sessions(KEY)) == 3


def test_an_altered_state_of_a_session_is_not_believed(catalogue: SqliteCatalogue, tmp_path: Path) -> None:
    opened(catalogue, session(1))
    altered(tmp_path, "UPDATE session SET heartbeat_at = 10000000000000000")
    assert list(catalogue.work.sessions(KEY)) == []


def test_the_first_version_becomes_the_present_one_and_keeps_everything(tmp_path: Path) -> None:
    """A store of old gets tables for the work; what its checkpoints were stays to the last column."""
    old = tmp_path / "catalogue.sqlite3"
    shutil.copy(OLD, old)
    columns = "sequence, id, workspace_key, kind, created_at, name, commit_id, tree, manifest"
    question = f"SELECT {columns} FROM checkpoint"
    with closing(sqlite3.connect(old)) as connection:
        before = connection.execute(question).fetchall()
    opened = SqliteCatalogue.open(str(old), clock=FakeClock())
    try:
        with closing(sqlite3.connect(old)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (CURRENT.version,)
            assert connection.execute(question).fetchall() == before
        assert opened.altered() == []
        assert opened.fault() is None
        row = opened.workspaces()[0]
        opened.work.change(lambda to: to.open_session(session(1, workspace_key=row.key)))
        move = Progress(position=Position(step=1))
        assert (
            opened.work.change(lambda to: to.change_progress(row.key, lambda _: move, workspace_key=row.key))
            == move
        )
    finally:
        opened.close()
