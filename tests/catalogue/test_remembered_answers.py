"""What a process that stays remembers of the catalogue is what is there, whoever changed it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from types import FrameType

import pytest

from lastgood.catalogue import WorkspaceRow, rows
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.work import SessionTransaction
from lastgood.errors import LastgoodError, Unsupported
from lastgood.model.checkpoint import Checkpoint, Manifest
from lastgood.model.operation import Instant, Operation
from lastgood.model.session import Owner, Session
from lastgood.testing.clock import FakeClock
from tools.looks import looks_at
from tools.values import not_none

KEY = "aa" * 10
OTHER = "bb" * 10


@pytest.fixture
def other(path: str, catalogue: SqliteCatalogue, clock: FakeClock) -> Iterator[SqliteCatalogue]:
    """Return the same catalogue as another process has it open, while this one remembers."""
    catalogue.remember()
    opened = SqliteCatalogue.open(path, clock=clock, wait=0.2)
    yield opened
    opened.close()


def _session(id: str) -> Session:
    return Session(id=id, workspace_key=KEY, owner=Owner(host="h"), started_at=1, heartbeat_at=1)


def test_what_somebody_else_changed_is_told(
    catalogue: SqliteCatalogue, other: SqliteCatalogue, save: Callable[..., Checkpoint]
) -> None:
    kept = save(1)
    assert catalogue.get(kept.id) == kept
    assert catalogue.work.sessions(KEY, state="active") == ()
    other.set_pinned(kept.id, pinned=True)
    other.work.change(lambda work: work.open_session(_session("sess_1")))
    other.set_generation("another")

    found = catalogue.get(kept.id)
    assert found is not None
    assert found.pinned
    assert [one.id for one in catalogue.work.sessions(KEY, state="active")] == ["sess_1"]
    assert catalogue.generation() == "another"


def test_what_it_changed_itself_is_told(
    catalogue: SqliteCatalogue, other: SqliteCatalogue, save: Callable[..., Checkpoint]
) -> None:
    first = save(1)
    assert catalogue.stands_at(KEY) == first.id
    second = save(2)

    latest = catalogue.latest_facts(KEY)
    assert latest is not None
    assert latest.newest.id == catalogue.stands_at(KEY) == second.id
    assert other.stands_at(KEY) == second.id


def test_what_changed_while_it_was_asked_is_asked_for_again(
    catalogue: SqliteCatalogue, other: SqliteCatalogue
) -> None:
    def ask() -> tuple[str, str]:
        before = catalogue.generation()
        other.set_generation("another")
        return before, catalogue.generation()

    def once_more() -> tuple[str, str]:
        return catalogue.generation(), "asked anew"

    database = catalogue._database
    before, within = database.known(("pair",), ask)
    assert before == within
    assert database.known(("pair",), once_more) == ("another", "asked anew")


def test_what_was_asked_lately_is_looked_up_at_rest(
    catalogue: SqliteCatalogue, other: SqliteCatalogue
) -> None:
    asked = []

    def ask() -> int:
        asked.append(1)
        return len(asked)

    database = catalogue._database
    assert [database.known(("number",), ask) for _ in range(2)] == [1, 1]
    other.set_generation("another")
    catalogue.ask_again(KEY)
    assert len(asked) == 2
    assert database.known(("number",), ask) == 2


def test_what_was_taken_back_is_not_told(catalogue: SqliteCatalogue, other: SqliteCatalogue) -> None:
    def fail(work: SessionTransaction) -> None:
        work.open_session(_session("sess_1"))
        assert [one.id for one in catalogue.work.sessions(KEY, state="active")] == ["sess_1"]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        catalogue.work.change(fail)
    assert catalogue.work.sessions(KEY, state="active") == other.work.sessions(KEY, state="active") == ()


def _told(catalogue: SqliteCatalogue, asked: str) -> tuple[object, ...]:
    """Return what a save asks of the catalogue."""
    return (
        catalogue.latest_facts(KEY),
        catalogue.stands_at(KEY),
        catalogue.latest_facts(OTHER),
        catalogue.next_sequence(),
        catalogue.generation(),
        catalogue.get(asked),
        catalogue.work.sessions(KEY, state="active"),
        catalogue.stood(KEY),
        catalogue.workspace(KEY),
    )


@pytest.mark.parametrize("beside", ["nobody", "somebody"])
def test_what_is_known_after_a_checkpoint_was_added_is_what_is_there(
    beside: str, catalogue: SqliteCatalogue, other: SqliteCatalogue, manifest: Callable[..., Manifest]
) -> None:
    """It is not asked for again, as long as nobody else changes anything."""
    kinds: tuple[dict[str, object], ...] = (
        {},
        {"kind": "guard"},
        {"partial": True},
        {"workspace_key": OTHER},
        {"kind": "guard"},
        {},
    )
    for number, change in enumerate(kinds, start=1):
        made = manifest(number, **change)
        assert _told(catalogue, made.id) == _told(other, made.id)
        if beside == "somebody":
            other.add(manifest(number + 50), commit="f" * 40, name=None, pinned=False)
        catalogue.add(made, commit=f"{number:040x}", name=None, pinned=False)
        assert _told(catalogue, made.id) == _told(other, made.id)


@pytest.mark.parametrize("beside", ["nobody", "somebody"])
def test_what_is_known_after_an_operation_was_recorded_is_what_is_there(
    beside: str, catalogue: SqliteCatalogue, other: SqliteCatalogue, save: Callable[..., Checkpoint]
) -> None:
    """Wherever the workspace stood before, and stands then."""
    first, second, guard = save(1), save(2), save(3, kind="guard")
    gone = save(4)
    ids = (second.id, second.id, None, first.id, first.id, guard.id, gone.id, None, "of nothing", second.id)
    for number, stands in enumerate(ids):
        assert _told(catalogue, first.id) == _told(other, first.id)
        if stands == gone.id:
            catalogue.delete([gone.id], at=Instant(at=1))
            assert _told(catalogue, first.id) == _told(other, first.id)
        if beside == "somebody":
            other.set_pinned(first.id, pinned=number % 2 == 0)
        operation = Operation(id=f"op_{number}", workspace_key=KEY, type="restore", at=number, stands=stands)
        catalogue.add_operation(operation)
        assert _told(catalogue, first.id) == _told(other, first.id)
        catalogue.set_undone(operation.id, undone=True)
        assert _told(catalogue, first.id) == _told(other, first.id)


def test_an_operation_says_where_its_workspace_stood_when_it_was_recorded(
    catalogue: SqliteCatalogue,
    other: SqliteCatalogue,
    save: Callable[..., Checkpoint],
    manifest: Callable[..., Manifest],
) -> None:
    """T15: also where somebody has moved it since it was asked for."""
    first = save(1)
    assert catalogue.stood(KEY) == catalogue.stands_at(KEY) == first.id
    second = other.add(manifest(2), commit=f"{2:040x}", name=None, pinned=False)
    third = other.add(manifest(3), commit=f"{3:040x}", name=None, pinned=False)
    other.delete([third.id], at=Instant(at=1))

    made = catalogue.add_operation(
        Operation(id="op_1", workspace_key=KEY, type="restore", at=1, stands=second.id)
    )

    assert made.stood == third.id
    assert [made] == other.operations(KEY)
    assert catalogue.stands_at(KEY) == other.stands_at(KEY) == second.id


@pytest.mark.parametrize(("moves", "waits"), [(1, []), (9, [True])])
def test_nobody_waits_while_an_operation_is_written_out(
    catalogue: SqliteCatalogue,
    other: SqliteCatalogue,
    save: Callable[..., Checkpoint],
    moves: int,
    waits: list[bool],
) -> None:
    """One of 100,000 steps takes a fifth of a second; one moved again and again is written under the lock."""
    places = [save(number) for number in range(12)]
    left = iter(places[:moves])
    encoded: list[bool] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_code is not rows.operation_columns.__code__:
            return
        sys.setprofile(None)
        is_held = not_none(catalogue._database._connection).in_transaction
        encoded.append(is_held)
        if not is_held and (place := next(left, None)) is not None:
            moved = Operation(id=f"op_{place.id}", workspace_key=KEY, type="restore", at=1, stands=place.id)
            other.add_operation(moved)
        sys.setprofile(watch)

    operation = Operation(id="op_1", workspace_key=KEY, type="restore", at=1, stands=places[0].id)
    sys.setprofile(watch)
    try:
        made = catalogue.add_operation(operation.replace(stood=places[-1].id))
    finally:
        sys.setprofile(None)

    assert [held for held in encoded if held] == waits
    assert made.stood == places[min(moves, len(encoded) - len(waits)) - 1].id
    assert made == other.operations(KEY)[0]


def test_what_is_not_known_is_found_by_one_look_at_the_file(
    catalogue: SqliteCatalogue, other: SqliteCatalogue, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.generation()
    other.set_generation("another")
    with looks_at(path, monkeypatch) as looks:
        assert catalogue.generation() == "another"
    assert len(looks) == 1


def test_an_operation_brings_its_workspace(catalogue: SqliteCatalogue, other: SqliteCatalogue) -> None:
    key = "cc" * 10
    assert catalogue.workspace(key) is None
    row = WorkspaceRow(key=key, path="/elsewhere", machine="m", created_at=1)
    catalogue.add_operation(Operation(id="op_1", workspace_key=key, type="delete", at=1), workspace=row)
    assert catalogue.workspace(key) == other.workspace(key) == row


def test_a_checkpoint_brings_its_workspace(
    catalogue: SqliteCatalogue, other: SqliteCatalogue, manifest: Callable[..., Manifest]
) -> None:
    key = "cc" * 10
    row = WorkspaceRow(key=key, path="/elsewhere", machine="m", created_at=1)
    for number in (1, 2):
        made = manifest(number, workspace_key=key)
        catalogue.add(made, commit=f"{number:040x}", name=None, pinned=False, workspace=row)
    assert catalogue.workspace(key) == other.workspace(key) == row
    assert other.stands_at(key) == made.id
    assert other.altered() == []


def test_an_operation_of_a_workspace_that_is_not_there_is_refused(catalogue: SqliteCatalogue) -> None:
    key = "cc" * 10
    with pytest.raises(LastgoodError):
        catalogue.add_operation(Operation(id="op_1", workspace_key=key, type="delete", at=1))
    assert catalogue.operations(key) == []


def test_what_comes_just_after_its_own_change_is_told(
    catalogue: SqliteCatalogue, other: SqliteCatalogue, save: Callable[..., Checkpoint]
) -> None:
    catalogue.generation()
    save(1)
    other.set_generation("another")
    assert catalogue.generation() == "another"


def test_questions_of_one_moment_are_answered_as_of_that(
    catalogue: SqliteCatalogue, other: SqliteCatalogue
) -> None:
    def ask() -> tuple[str, str]:
        before = catalogue.generation()
        other.set_generation("another")
        assert catalogue.work.sessions(KEY, state="active") == ()
        return before, str(catalogue._one("SELECT value FROM meta WHERE name = 'generation'"))

    before, within = catalogue.moment(ask)
    assert before in within
    assert catalogue.generation() == "another"


@pytest.mark.parametrize("lasts", [True, False])
def test_what_a_moment_came_to_is_remembered_if_it_lasts(
    catalogue: SqliteCatalogue, other: SqliteCatalogue, *, lasts: bool
) -> None:
    asked: list[str] = []

    def ask() -> str:
        asked.append(catalogue.generation())
        return asked[-1]

    def moment() -> str:
        return catalogue.moment(ask, key=("generation", 1), lasts=lambda _found: lasts)

    assert moment() == moment()
    assert len(asked) == (1 if lasts else 2)
    other.set_generation("another")
    assert moment() == "another"
    catalogue.set_generation("its own")
    assert moment() == "its own"


def test_what_changed_during_a_moment_is_not_remembered_of_it(
    catalogue: SqliteCatalogue, other: SqliteCatalogue
) -> None:
    def ask() -> str:
        other.set_generation("another")
        return "before"

    assert catalogue.moment(ask, key=("generation", 1)) == "before"
    assert catalogue.moment(catalogue.generation, key=("generation", 1)) == "another"


def test_a_moment_that_ends_by_an_error_is_over(catalogue: SqliteCatalogue, other: SqliteCatalogue) -> None:
    def ask() -> None:
        catalogue.generation()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        catalogue.moment(ask)
    other.set_generation("another")
    assert catalogue.generation() == "another"
    catalogue.set_generation("its own")
    assert other.generation() == "its own"


def test_nothing_is_written_to_a_catalogue_that_a_newer_lastgood_has_brought_up_meanwhile(
    catalogue: SqliteCatalogue, path: str, save: Callable[..., Checkpoint]
) -> None:
    catalogue.remember()
    save(1)
    save(2)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")
    with pytest.raises(Unsupported):
        save(3)
