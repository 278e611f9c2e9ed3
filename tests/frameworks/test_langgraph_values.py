"""What a graph's state holds comes back as it was, is data and nothing else, and is stored once."""

from __future__ import annotations

import asyncio
import enum
import os
import random
import uuid
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from agmi import check
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Send
from pydantic import BaseModel

from lastgood.errors import Damaged, Invalid, Unsafe
from lastgood.integrations.langgraph import LastgoodSaver
from lastgood.ledger import LedgerReader
from lastgood.workspace import Workspace
from tools.graph_states import put
from tools.memory_under_attack import SaverUnderAttack
from tools.values import not_none

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig


CONFIG: RunnableConfig = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}


@dataclass
class Plan:
    """A type of the user's own."""

    steps: list[str]


class Colour(enum.Enum):
    """Another."""

    RED = "red"


class Model(BaseModel):
    """And one of pydantic."""

    name: str
    plans: list[str] = []


VALUES = {
    "none": None,
    "texts": ["a", "ä", "\ud83d", "x" * 20_000],
    "numbers": [0, -1, 2**70, 1.5, True],
    "bytes": b"\0\xff" * 10_000,
    "bytearray": bytearray(b"abc"),
    "nested": {"a": [{"b": {}}, []], "": None},
    "keys": {1: "one", None: "none", b"b": "bytes"},
    "odd keys": {(1, 2): "pair"},
    "messages": [
        HumanMessage("hi", id="1"),
        AIMessage("x" * 3000, id="2"),
        ToolMessage("ok", tool_call_id="3"),
    ],
    "document": Document("text", metadata={"page": 1}),
    "times": [datetime(2026, 11, 21, tzinfo=UTC), timedelta(days=1), Decimal("1.10"), uuid.UUID(int=7)],
    "sets": [{1, 2}, frozenset({"a"}), deque([1, 2])],
    "path": Path("/tmp/x"),
    "graph": [Send("node", {"a": 1}), Interrupt(value="why", id="9")],
}


def came_back(saver: LastgoodSaver | InMemorySaver, value: object) -> object:
    found = not_none(saver.get_tuple(put(saver, {"it": value}, CONFIG)))
    return found.checkpoint["channel_values"]["it"]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_from_langgraphs_own_saver(name: str, workspace: Workspace) -> None:
    value = VALUES[name]
    again = came_back(LastgoodSaver(workspace), value)
    assert again == value
    if name not in {"numbers", "texts", "odd keys"}:  # what the serialiser of the others cannot write
        assert repr(again) == repr(came_back(InMemorySaver(), value))


@pytest.mark.parametrize(
    "value", [Plan(["a"]), Colour.RED, Model(name="m"), [Model(name="m")], {"x": {1: Plan([])}}]
)
def test_a_type_of_ones_own_is_refused_until_it_is_allowed(value: object, workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    with pytest.raises(Invalid, match="would come back as something else") as caught:
        put(saver, {"it": value}, CONFIG)
    assert "allow=[" in caught.value.hint
    assert saver.get_tuple(CONFIG) is None
    allowing = LastgoodSaver(workspace, allow=[Plan, Colour, (__name__, "Model")])
    assert came_back(allowing, value) == value
    with pytest.raises(Invalid, match="would come back as something else"):
        saver.get_tuple(CONFIG)
    grown = saver.with_allowlist([(__name__, "Plan"), (__name__, "Colour"), (__name__, "Model")])
    found = not_none(grown.get_tuple(CONFIG))
    assert found.checkpoint["channel_values"]["it"] == value


class Evil:
    """Runs something when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("pickles ran",))


@pytest.mark.parametrize("value", [Evil(), lambda: None, [object()], {"f": open}])
def test_what_only_a_pickle_could_hold_is_refused(value: object, workspace: Workspace) -> None:
    with pytest.raises(Invalid, match="cannot be written as data"):
        put(LastgoodSaver(workspace), {"it": value}, CONFIG)


def test_a_serialiser_that_pickles_is_refused(workspace: Workspace) -> None:
    with pytest.raises(Unsafe, match="pickle"):
        LastgoodSaver(workspace, serde=JsonPlusSerializer(pickle_fallback=True))


@pytest.mark.parametrize("form", ["pickle", "pickle+aes"])
def test_a_pickle_in_the_store_is_not_read(form: str, workspace: Workspace) -> None:
    import pickle

    saver = LastgoodSaver(workspace)
    put(saver, {"it": "harmless"}, CONFIG)
    ledger = workspace.ledger("langgraph")

    def plant(book: Any) -> None:
        (entry,) = book.entries("1")
        body = book.body(entry)
        body["values"]["it"] = (form, pickle.dumps(Evil()))
        book.put("1", entry.key, head=entry.head, body=body)

    ledger.change(plant)
    with pytest.raises(Unsafe, match="pickle"):
        saver.get_tuple(CONFIG)
    assert not os.path.exists("pickles ran")


def test_no_line_of_ours_names_pickle_but_to_refuse_it() -> None:
    from lastgood.integrations import langgraph as package

    folder = os.path.dirname(package.__file__)
    for name in os.listdir(folder):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            assert "import pickle" not in text
            assert "eval(" not in text


def test_a_state_that_holds_itself_or_lies_too_deep_is_refused(workspace: Workspace) -> None:
    endless: list[object] = []
    endless.append(endless)
    deep: object = 1
    for _ in range(5000):
        deep = {"deeper": deep}
    for value in (endless, deep):
        with pytest.raises(Invalid, match="too deep"):
            put(LastgoodSaver(workspace), {"it": value}, CONFIG)


class Reversing(JsonPlusSerializer):
    """Stands for one that encrypts: what it writes is its own affair."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        form, content = super().dumps_typed(obj)
        return f"{form}+reversed", content[::-1]

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return super().loads_typed((data[0].removesuffix("+reversed"), data[1][::-1]))


def test_with_a_serialiser_of_ones_own_nothing_of_a_value_is_stored_in_another_form(
    workspace: Workspace,
) -> None:
    saver = LastgoodSaver(workspace, serde=Reversing())
    secret = {"secret key": ["secret value" * 100]}
    assert came_back(saver, secret) == secret

    def stored(page: LedgerReader) -> str:
        (entry,) = page.entries("1")
        return repr((entry, page.body(entry)))

    text = workspace.ledger("langgraph").look(stored)
    assert "secret" not in text
    assert "terces" in text
    with pytest.raises(Invalid, match="reversed") as caught:
        LastgoodSaver(workspace).get_tuple(CONFIG)
    assert "serde=" in caught.value.hint


def test_what_later_steps_share_with_earlier_ones_is_stored_once(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    config = CONFIG
    messages: list[object] = []
    sizes = []
    chance = random.Random(2)  # where long lists are cut is for what they hold to say
    for step in range(300):
        messages.append(AIMessage(chance.randbytes(500).hex(), id=str(step)))
        config = put(saver, {"messages": messages, "files": {"a.py": "x" * 50_000}}, config)
        if step in {99, 199, 299}:
            with_log = os.path.join(workspace.store, "ledger.sqlite3")
            import sqlite3

            connection = sqlite3.connect(with_log)
            sizes.append(connection.execute("SELECT sum(length(content)) FROM piece").fetchone()[0])
            connection.close()
    first, second, third = sizes
    assert second - first < 1.5 * first
    assert third - second < 1.3 * (second - first)
    assert third < 300 * 3000
    found = not_none(saver.get_tuple(config))
    assert found.checkpoint["channel_values"]["messages"] == messages


def test_values_of_channels_that_were_not_given_again_are_those_of_the_parent(workspace: Workspace) -> None:
    saver = LastgoodSaver(workspace)
    first = put(saver, {"a": [1], "b": "kept", "c": "cleared"}, CONFIG)
    checkpoint = create_checkpoint(empty_checkpoint(), None, 2)
    checkpoint["channel_values"] = {"a": [2]}
    checkpoint["channel_versions"] = {"a": 2, "b": 1, "c": 2}
    found = not_none(saver.get_tuple(saver.put(first, checkpoint, {"step": 2}, {"a": 2, "c": 2})))
    assert found.checkpoint["channel_values"] == {"a": [2], "b": "kept"}


def test_damage_to_a_value_is_told_and_leaves_the_other_threads(workspace: Workspace, store: Path) -> None:
    """K4."""
    import sqlite3

    saver = LastgoodSaver(workspace)
    put(saver, {"it": "x" * 1000}, CONFIG)
    other: RunnableConfig = {"configurable": {"thread_id": "2", "checkpoint_ns": ""}}
    put(saver, {"it": "y" * 1000}, other)
    with sqlite3.connect(store / "ledger.sqlite3") as connection:
        connection.execute("UPDATE piece SET content = substr(content, 1, 9) WHERE number = 1")
    connection.close()
    with pytest.raises(Damaged):
        saver.get_tuple(CONFIG)
    assert saver.get_tuple(other) is not None


# The public suites for LangGraph savers, from their published packages, nothing left out.


def test_it_conforms_in_all_eight_capabilities(workspace: Workspace) -> None:
    @checkpointer_test(name="LastgoodSaver")
    async def saver() -> AsyncGenerator[LastgoodSaver, None]:
        yield LastgoodSaver(workspace)

    report = asyncio.run(validate(saver))
    assert not saver.skip_capabilities
    assert set(report.results) == {one.value for one in ALL_CAPABILITIES}
    assert len(report.results) == 8
    assert {name: one.failures for name, one in report.results.items() if one.passed is not True} == {}
    assert sum(one.tests_passed for one in report.results.values()) == 81
    assert report.conformance_level() == "FULL"


class Waiting(LastgoodSaver):
    """A saver of files that is told that it is waited for, as by a graph run with ``durability="sync"``."""

    async def aput(self, config: RunnableConfig, *given: Any, **words: Any) -> RunnableConfig:
        said = {"configurable": {**config["configurable"], "__pregel_durability": "sync"}}
        return await super().aput(cast("RunnableConfig", said), *given, **words)


async def test_with_files_it_conforms_where_its_caller_waits(workspace: Workspace) -> None:
    """The suite's own calls do not say that they do, and are refused."""

    @checkpointer_test(name="Waiting")
    async def waiting() -> AsyncGenerator[LastgoodSaver, None]:
        yield Waiting(workspace, files=True)

    report = await validate(waiting)
    assert sum(one.tests_passed for one in report.results.values()) == 81
    assert report.conformance_level() == "FULL"

    @checkpointer_test(name="LastgoodSaver")
    async def saver() -> AsyncGenerator[LastgoodSaver, None]:
        yield LastgoodSaver(workspace, files=True)

    refused = (await validate(saver)).results["put"]
    assert refused.tests_passed == 0
    assert all("does not wait for its checkpoints" in one for one in refused.failures or [])


@pytest.mark.parametrize("attack", AT_REST_ATTACKS_WITH_SNAPSHOT, ids=lambda one: str(one.name))
def test_it_rejects_the_tampering_edit(attack: type) -> None:
    adapter = SaverUnderAttack()
    result = attack().run(adapter)
    assert (result.guard, result.error) == (None, None)
    assert check.verdict(result, adapter) == "REJECTED", result.detail


def test_there_are_nine_tampering_edits() -> None:
    assert len(AT_REST_ATTACKS_WITH_SNAPSHOT) == len(check.LABELS) == 9
