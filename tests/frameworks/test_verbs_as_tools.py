"""Agents' frameworks make tools of the verbs as they are: LangChain, the MCP SDK, Pydantic."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from mcp.client import Client
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, TypeAdapter, ValidationError, validate_call

import lastgood
from tools import public
from tools.samples import sample

# What takes or gives something that is no data: a call, a block, a connection; or any number of REFs.
NO_TOOLS = {"close", "ledger", "session", "subscribe", "within", "delete", "delete_unkept", "export"}
ANY_NUMBER = {
    name
    for name in public.verbs(lastgood.Workspace)
    for one in inspect.signature(getattr(lastgood.Workspace, name)).parameters.values()
    if one.kind is one.VAR_POSITIONAL
}
TOOLS = sorted(set(public.verbs(lastgood.Workspace)) - NO_TOOLS)
OF_SESSIONS = sorted(set(public.verbs(lastgood.OpenSession)) & {"save", "show", "heartbeat", "progress"})
VALUES = public.values()


@pytest.fixture
def project(project: Path) -> Path:
    (project / "notes.txt").write_text("good\n")
    return project


def test_the_verbs_that_take_any_number_are_those_that_are_no_tools() -> None:
    assert {"delete", "delete_unkept", "export"} == ANY_NUMBER


# --- LangChain ---


@pytest.mark.parametrize("name", TOOLS)
def test_langchain_makes_a_tool_of_each_verb(workspace: lastgood.Workspace, name: str) -> None:
    tool = StructuredTool.from_function(getattr(workspace, name))

    assert tool.name == name
    assert tool.get_input_jsonschema()["type"] == "object"


def test_langchain_saves_and_restores_a_folder(project: Path, workspace: lastgood.Workspace) -> None:
    save = StructuredTool.from_function(workspace.save)
    restore = StructuredTool.from_function(workspace.restore)
    saved = save.invoke({"message": "before", "kind": "turn", "actor": {"type": "agent", "name": "planner"}})
    (project / "notes.txt").write_text("ruined\n")

    report = restore.invoke({"ref": "@", "paths": ["notes.txt"], "only": ["files"]})

    assert saved.checkpoint.actor == lastgood.Actor(type="agent", name="planner")
    assert report.complete
    assert (project / "notes.txt").read_text() == "good\n"


def test_langchain_awaits_an_asynchronous_verb(project: Path) -> None:
    async def main() -> object:
        async with lastgood.open_async(project, store=project.parent / "store", allow_root=True) as workspace:
            return await StructuredTool.from_function(coroutine=workspace.save).ainvoke(
                {"message": "awaited"}
            )

    report = asyncio.run(main())

    assert isinstance(report, lastgood.SaveReport)
    assert report.checkpoint.message == "awaited"


def test_langchain_makes_tools_of_the_verbs_of_a_session(workspace: lastgood.Workspace) -> None:
    with workspace.session(goal="tools") as session:
        tools = {name: StructuredTool.from_function(getattr(session, name)) for name in OF_SESSIONS}
        with session.task("T01"):
            report = tools["save"].invoke({"message": "within", "tokens": 12})

    assert set(tools) == {"save", "show", "heartbeat", "progress"}
    assert (report.checkpoint.session, report.checkpoint.task) == (session.id, "T01")


# --- The MCP SDK ---


def served(*verbs: Callable[..., object]) -> MCPServer:
    server = MCPServer("lastgood")
    for verb in verbs:
        server.tool()(verb)
    return server


def called(server: MCPServer, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    async def main() -> list[Any]:
        async with Client(server) as client:
            return [await client.call_tool(name, words) for name, words in calls]

    return asyncio.run(main())


@pytest.mark.parametrize("name", TOOLS)
def test_the_mcp_sdk_makes_a_tool_of_each_verb(workspace: lastgood.Workspace, name: str) -> None:
    async def main() -> list[str]:
        async with Client(served(getattr(workspace, name))) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert asyncio.run(main()) == [name]


def test_the_mcp_sdk_saves_and_restores_a_folder_and_is_told_documents(
    project: Path, workspace: lastgood.Workspace
) -> None:
    server = served(workspace.save, workspace.restore, workspace.list, workspace.status)
    (saved,) = called(server, ("save", {"message": "before"}))
    (project / "notes.txt").write_text("ruined\n")

    restored, listed, status = called(
        server, ("restore", {"ref": "@"}), ("list", {"limit": 1}), ("status", {})
    )

    assert (project / "notes.txt").read_text() == "good\n"
    told = [json.loads(one.content[0].text) for one in (saved, restored, status)]
    assert [one["schema"] for one in told] == ["lastgood.save/1", "lastgood.restore/1", "lastgood.status/1"]
    assert listed.structured_content["result"] == [one.to_json() for one in workspace.list(limit=1)]


# --- Pydantic ---


@pytest.mark.parametrize("name", VALUES)
def test_pydantic_takes_every_value_and_writes_its_document(name: str) -> None:
    value = sample(VALUES[name])
    adapter = TypeAdapter(VALUES[name])

    assert adapter.validate_python(value) is value
    assert json.loads(adapter.dump_json(value)) == value.to_json()
    assert adapter.json_schema()["type"] == "object"


def test_a_model_has_a_report_among_its_fields(workspace: lastgood.Workspace) -> None:
    class Turn(BaseModel):
        number: int
        saved: lastgood.SaveReport

    turn = Turn(number=3, saved=workspace.save("a turn"))

    assert json.loads(turn.model_dump_json()) == {"number": 3, "saved": turn.saved.to_json()}


def test_a_validated_verb_refuses_what_it_does_not_take(workspace: lastgood.Workspace) -> None:
    save = validate_call(workspace.save)

    with pytest.raises(ValidationError, match="Input should be 'session-start'"):
        save("a turn", kind="turns")  # type: ignore[arg-type]
    assert save("a turn", kind="turn").created


# --- What a model gives where a framework lets it ---


FLAGS: dict[str, Callable[[lastgood.Workspace], object]] = {
    "force": lambda workspace: workspace.restore("@", force="false"),  # type: ignore[arg-type]
    "discard": lambda workspace: workspace.plan_restore("@", discard=0),  # type: ignore[arg-type]
    "git": lambda workspace: workspace.restore("@", git="no"),  # type: ignore[arg-type]
    "only_agent": lambda workspace: workspace.restore("@", only_agent="false"),  # type: ignore[arg-type]
    "merge": lambda workspace: workspace.undo(merge=None),  # type: ignore[arg-type]
    "roll_back": lambda workspace: workspace.recover(roll_back="false"),  # type: ignore[arg-type]
    "everywhere": lambda workspace: workspace.purge("notes.txt", everywhere="false"),  # type: ignore[arg-type]
    "allow_secrets": lambda workspace: workspace.export("a", allow_secrets="no"),  # type: ignore[arg-type]
    "allow_empty": lambda workspace: workspace.save(allow_empty="false"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_text_is_neither_true_nor_false(project: Path, workspace: lastgood.Workspace, name: str) -> None:
    """PraisonAI hands over the text "false" where its model gives that, and a text counts as True."""
    workspace.save("before")
    (project / "notes.txt").write_text("edited\n")

    with pytest.raises(lastgood.Usage, match=f"{name} is .*, not bool"):
        FLAGS[name](workspace)

    assert (project / "notes.txt").read_text() == "edited\n"


def test_langgraph_hands_its_model_what_an_error_says_and_what_to_do(workspace: lastgood.Workspace) -> None:
    def told(error: lastgood.LastgoodError) -> str:
        return str(error)

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([workspace.restore], handle_tool_errors=told))
    graph.add_edge(START, "tools")
    asked = AIMessage("", tool_calls=[{"name": "restore", "args": {"ref": "nowhere"}, "id": "1"}])

    answer = graph.compile().invoke({"messages": [asked]})["messages"][-1]

    assert answer.status == "error"
    assert "there is no checkpoint of this workspace yet" in answer.content
    assert "lastgood save" in answer.content
