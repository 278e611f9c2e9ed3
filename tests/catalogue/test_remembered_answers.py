"""What a process that stays remembers of the catalogue is what is there, whoever changed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.work import SessionTransaction
from lastgood.model.checkpoint import Checkpoint
from lastgood.model.session import Owner, Session
from lastgood.testing.clock import FakeClock

KEY = "aa" * 10


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
    assert database.known(("pair",), ask)[1] == "another"
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
