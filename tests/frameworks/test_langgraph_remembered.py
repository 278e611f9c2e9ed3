"""What a saver remembers of states that it wrote or read makes it quick, and never changes an answer."""

from __future__ import annotations

import random
import sqlite3
from collections import OrderedDict, defaultdict
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread, current_thread
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

import lastgood
from lastgood.errors import Damaged, Invalid
from lastgood.integrations.langgraph import LastgoodSaver
from lastgood.ledger.file import LedgerFile
from lastgood.workspace import Workspace
from tools.graph_states import put
from tools.values import not_none

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

# Those of a line have the same bytes in msgpack, or nearly.
ALIKE: list[Any] = [
    [1, 2], (1, 2), {1, 2},
    b"x", bytearray(b"x"), "x",
    {"a": b"x"}, {"a": bytearray(b"x")}, {"a": "x"},
    {"a": (1,)}, {"a": [1]},
    {1: "a"}, {"1": "a"}, {b"1": "a"}, {True: "a"}, {None: "a"}, {1.5: "a"},
    1, True, 1.0, -1, 0, False, 0.0, None, "", [], {},
    1 << 63, 1 << 64, -(1 << 63), -(1 << 64), 1e300,
    "\ud800", {"a": "\ud800"}, "é" * 5000, b"\0" * 20_000, "y" * 300,
    {"a": list(range(20))}, {"a": {"b": [{"c": [{"d": "e" * 400}]}]}}, [[[]]],
    {"\0langgraph delta snapshot of": 1}, _DeltaSnapshot([1, {"a": 2}]),
    datetime(2026, 11, 21, tzinfo=UTC), {"at": datetime(2026, 11, 21, tzinfo=UTC)},
    OrderedDict(a=1), {"a": OrderedDict(b=1)}, defaultdict(int, a=1),
    AIMessage("hello", id="1"), [AIMessage("hello", id="1")],
]  # fmt: skip


def thread(name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


def values_of(saver: LastgoodSaver, config: RunnableConfig) -> dict[str, Any]:
    found: dict[str, Any] = not_none(saver.get_tuple(config)).checkpoint["channel_values"]
    return found


def as_told(value: object) -> str:
    """Return a value with its types, those of what is in it too: 1 is not True."""
    if isinstance(value, dict):
        items = (f"{as_told(key)}: {as_told(one)}" for key, one in value.items())
        return f"{type(value).__name__}({', '.join(items)})"
    if isinstance(value, list):
        return f"[{', '.join(map(as_told, value))}]"
    return f"{type(value).__name__} {value!r}"


def message(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"message {number} " * 20, "id": number}


@pytest.fixture
def statements(workspace: Workspace) -> list[str]:
    """Return what SQLite is asked by the ledger from here on."""
    asked: list[str] = []
    file: Any = workspace.ledger("langgraph")
    file._file._connection.set_trace_callback(asked.append)
    return asked


@pytest.mark.parametrize("seed", range(6))
def test_items_of_a_long_list_come_back_as_they_do_by_themselves(seed: int, workspace: Workspace) -> None:
    """Whatever order they are met in, and whoever reads: who wrote them, or another."""
    saver = LastgoodSaver(workspace)
    alone = [as_told(values_of(saver, put(saver, {"it": one}, thread("one")))["it"]) for one in ALIKE]
    order = list(range(len(ALIKE))) * 2
    random.Random(seed).shuffle(order)
    wanted = [alone[place] for place in order]
    config = put(saver, {"it": [ALIKE[place] for place in order]}, thread("all"))

    for reader in (saver, saver, LastgoodSaver(workspace)):
        assert [as_told(one) for one in values_of(reader, config)["it"]] == wanted
    grown = put(saver, {"it": [ALIKE[place] for place in order], "more": {"of": [1] * 20}}, config)
    assert [as_told(one) for one in values_of(saver, grown)["it"]] == wanted


def test_a_state_that_was_read_is_its_readers_own(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    config = put(saver, {"messages": [message(number) for number in range(100)]}, thread("1"))
    first = values_of(saver, config)
    first["messages"][0]["content"] = "changed"
    first["messages"].append("more")
    not_none(saver.get_tuple(config)).metadata["step"] = 99
    assert values_of(saver, config)["messages"] == [message(number) for number in range(100)]
    assert not_none(saver.get_tuple(config)).metadata["step"] == 1


def test_a_long_state_is_read_by_a_few_questions(workspace: Workspace, statements: list[str]) -> None:
    """Not by one a message; and what was read before is not asked for again."""
    config = put(LastgoodSaver(workspace), {"messages": [message(n) for n in range(600)]}, thread("1"))
    statements.clear()
    saver = LastgoodSaver(workspace)
    values_of(saver, config)
    assert len(statements) < 40
    statements.clear()
    values_of(saver, config)
    assert [one for one in statements if "FROM piece" in one] == []


def test_a_step_asks_for_and_writes_its_own_pieces_alone(workspace: Workspace, statements: list[str]) -> None:
    saver = LastgoodSaver(workspace)
    config = put(saver, {"messages": [message(n) for n in range(600)]}, thread("1"))
    statements.clear()
    put(saver, {"messages": [message(n) for n in range(601)]}, config)
    assert len([one for one in statements if " piece " in one]) < 12


def test_what_one_thread_holds_is_stored_for_another_too(workspace: Workspace, project: Path) -> None:
    """A book holds its own pieces: that an item was packed for another one does not count."""
    saver = LastgoodSaver(workspace)
    messages = [message(number) for number in range(50)]
    for name in "12":
        put(saver, {"messages": messages}, thread(name))
    saver.delete_thread("1")
    put(saver, {"messages": messages[:40]}, thread("1"))
    with lastgood.open(project, store=workspace.store, maintenance="off") as other:
        reader = LastgoodSaver(other)
        assert values_of(reader, thread("1"))["messages"] == messages[:40]
        assert values_of(reader, thread("2"))["messages"] == messages
        assert other.verify().faults == ()


def test_a_step_that_failed_is_written_whole_when_it_comes_again(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    messages: list[Any] = [message(number) for number in range(50)]
    with pytest.raises(Invalid):
        put(saver, {"messages": [*messages, object()]}, thread("1"))
    config = put(saver, {"messages": messages}, thread("1"))
    assert values_of(LastgoodSaver(workspace), config)["messages"] == messages
    assert workspace.verify().faults == ()


def test_what_a_failed_step_had_stored_is_known_to_no_other_thread(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was rolled back; whoever comes between that and the forgetting must not rely on it."""
    saver, between = LastgoodSaver(workspace), Event()
    messages: list[Any] = [message(number) for number in range(50)]
    forget = LedgerFile.forget

    def slowly(file: LedgerFile) -> None:
        if current_thread().name == "failing":
            between.set()
            sleep(0.2)  # time enough for the other, if nothing held it up
        forget(file)

    monkeypatch.setattr(LedgerFile, "forget", slowly)

    def fail() -> None:
        with pytest.raises(Invalid):
            put(saver, {"messages": [*messages, object()]}, thread("1"))

    failing = Thread(target=fail, name="failing")
    put(saver, {"messages": messages[:1]}, thread("2"))
    failing.start()
    assert between.wait(60)
    config = put(saver, {"messages": messages}, thread("2"))
    failing.join()
    assert values_of(LastgoodSaver(workspace), config)["messages"] == messages
    assert workspace.verify().faults == ()


def test_what_was_removed_and_comes_again_is_stored_again(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    config, messages = thread("1"), [message(number) for number in range(50)]
    for _ in range(3):
        config = put(saver, {"messages": messages}, config)
        saver.prune(["1"])
        config = put(saver, {"messages": messages[::-1]}, config)
        saver.prune(["1"])
    assert values_of(LastgoodSaver(workspace), thread("1"))["messages"] == messages[::-1]
    assert workspace.verify().faults == ()


def test_what_is_remembered_does_not_hide_an_edit_from_outside(workspace: Workspace, store: Path) -> None:
    """K4: every piece is proven anew once somebody else changed the ledger."""
    saver = LastgoodSaver(workspace)
    config = put(saver, {"messages": [message(number) for number in range(100)]}, thread("1"))
    values_of(saver, config)
    with closing(sqlite3.connect(store / "ledger.sqlite3")) as connection:
        connection.execute("UPDATE piece SET content = substr(content, 1, 9) WHERE number = 3")
        connection.commit()
    with pytest.raises(Damaged):
        values_of(saver, config)


def test_what_was_written_here_is_read_anew_once_somebody_else_was_at_it(
    workspace: Workspace, store: Path
) -> None:
    """K4: also what nobody here has read yet."""
    saver = LastgoodSaver(workspace)
    config = put(saver, {"messages": [message(number) for number in range(100)]}, thread("1"))
    with closing(sqlite3.connect(store / "ledger.sqlite3")) as connection:
        connection.execute("UPDATE piece SET content = substr(content, 1, 9)")
        connection.commit()
    with pytest.raises(Damaged):
        values_of(saver, config)


def test_a_step_that_was_written_here_is_read_without_its_pieces(
    workspace: Workspace, statements: list[str]
) -> None:
    saver = LastgoodSaver(workspace)
    config = put(saver, {"messages": [message(number) for number in range(100)]}, thread("1"))
    statements.clear()
    assert values_of(saver, config)["messages"] == [message(number) for number in range(100)]
    assert [one for one in statements if "FROM piece" in one] == []


def test_an_item_that_is_also_a_length_of_a_longer_list_comes_back_as_both(workspace: Workspace) -> None:
    """They are one piece, and two things: a value, and some of another's items."""
    saver = LastgoodSaver(workspace)
    # Some of these lists are cut first where their beginning, by itself, is not cut.
    lists = [
        [{"number": number, "of": "x" * 80} for number in range(begin, begin + 40)]
        for begin in range(0, 1200, 40)
    ]
    parts = [one[:length] for one in lists for length in range(5, 11)]
    config = put(saver, {"a": parts, "b": lists}, thread("1"))
    for reader in (saver, LastgoodSaver(workspace)):
        assert values_of(reader, config) == {"a": parts, "b": lists}


def test_a_list_longer_than_what_is_remembered_comes_back(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lastgood.integrations.langgraph import values
    from lastgood.ledger import file

    monkeypatch.setattr(values, "_PACKED_MOST", 4000)
    monkeypatch.setattr(file, "_ENCODED_MOST", 4000)
    monkeypatch.setattr(file, "_HELD_MOST", 4000)
    saver = LastgoodSaver(workspace)
    messages: list[Any] = []
    config = thread("1")
    for number in range(40):
        messages.append(message(number) if number % 2 else AIMessage(str(number), id=str(number)))
        config = put(saver, {"messages": messages}, config)
        assert values_of(saver, config)["messages"] == messages
