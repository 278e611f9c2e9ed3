"""The tools are the verbs: the same words, the same answers, described once."""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any

import anyio
import jsonschema
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

import lastgood
from lastgood import documents
from lastgood.aio.bridge import MOST_AT_ONCE
from lastgood.cli.table import spellings
from lastgood.errors import Unsupported
from lastgood.mcp_server.answers import LISTED
from lastgood.mcp_server.schemas import of_report
from lastgood.mcp_server.server import INSTRUCTIONS
from lastgood.mcp_server.signatures import clause, description
from lastgood.mcp_server.tools import FORMS, Form
from lastgood.value import Value
from mcp_server.conftest import ERAS, Served
from tools import public
from tools.command import ROOT
from tools.samples import sample

SECRET = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
OF_MCP = {"plan", "confirm", "workspace"}
BY_NAME = {form.name: form for form in FORMS}


def listed(served: Served) -> dict[str, Any]:
    async def talk(client: Client) -> Any:
        return (await client.list_tools()).tools

    return {one.name: one for one in served.talk(talk)}


# --- One description ---


def test_the_tools_are_called_as_the_verbs_are() -> None:
    verbs = {*spellings(), *public.verbs(lastgood.Workspace)}

    assert {form.name for form in FORMS} <= verbs
    assert {"save", "list", "show", "diff", "plan_restore", "restore", "undo", "redo", "rewind"} <= {*BY_NAME}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_what_a_tool_says_is_what_its_verb_says(modern: Served, form: Form) -> None:
    tool = listed(modern)[form.name]
    given = inspect.signature(form.verb).parameters

    assert tool.description == description(form.verb)
    for name, said in tool.input_schema["properties"].items():
        if name in given and clause(form.verb, name):
            assert said["description"] == clause(form.verb, name)
        else:
            assert name in {*given, *OF_MCP, *form.flags}


def test_no_tool_runs_a_command_nor_reaches_beyond_the_workspace(modern: Served) -> None:
    """T12: a client that lets an agent use these lets it do nothing else by them."""
    taken = {name for tool in listed(modern).values() for name in tool.input_schema["properties"]}

    assert taken.isdisjoint({"check", "to", "transcript", "messages", "owner_pid", "all_workspaces"})


@pytest.mark.parametrize("name", ["list", "show", "diff", "log", "cat", "status", "plan_restore"])
def test_what_only_looks_says_so(modern: Served, name: str) -> None:
    assert listed(modern)[name].annotations.read_only_hint


@pytest.mark.parametrize("name", ["restore", "rewind", "undo", "redo", "recover"])
def test_what_may_take_away_says_so(modern: Served, name: str) -> None:
    annotations = listed(modern)[name].annotations

    assert annotations.destructive_hint
    assert not annotations.read_only_hint


@pytest.mark.parametrize("verb", documents._VERBS, ids=str)
def test_every_answer_is_of_the_schema_that_is_told(verb: str) -> None:
    cls: type[Value] = getattr(lastgood, verb)
    said = documents.told(sample(cls))

    schema = of_report(str(said["schema"]).split(".")[1].split("/")[0], cls)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(json.dumps(said)), schema)


def test_the_instructions_name_tools_that_are_there() -> None:
    assert {"plan_restore", "plan_rewind"} <= {word.strip("(),.") for word in INSTRUCTIONS.split()} & {
        *BY_NAME
    }


# --- What is said, and what is refused ---


def test_a_checkpoint_bears_the_name_of_the_agent(modern: Served) -> None:
    """S20."""

    async def talk(client: Client) -> Any:
        return await client.call_tool("save", {"message": "mine"})

    saved = modern.talk(talk).structured_content["checkpoint"]
    assert saved["message"] == "mine"
    assert saved["actor"]["type"] == "agent"
    assert saved["actor"]["name"]


def test_a_checkpoint_belongs_to_the_session_of_the_host_above(
    modern: Served, workspace: lastgood.Workspace, sleeper: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """P1: and to nobody else's; of two conversations to that in which a turn is under way."""
    mine = workspace.session_start(owner_pid=os.getpid(), exclusive=False).session.id
    workspace.session_start(owner_pid=sleeper().pid, exclusive=False)
    assert [one.id for one in workspace.sessions(own=True)] == [mine]
    newer = workspace.session_start(owner_pid=os.getpid(), exclusive=False).session.id
    workspace.within(mine).step_start("write it")

    assert modern.done("save", message="within")["checkpoint"]["session"] == mine
    for one in mine, newer:
        workspace.session_end(one)
    assert modern.done("save", message="after")["checkpoint"]["session"] is None


def test_a_word_that_no_tool_takes_is_refused(modern: Served) -> None:
    """K2: a misspelt dry run is no restore."""
    error = modern.refused("restore", ref="first", dry_run=True, confirm=True)

    assert error["code"] == "usage"
    assert (modern.project / "notes.txt").read_text() == "ruined\n"


def test_a_value_of_a_wrong_form_is_refused_as_anywhere(modern: Served) -> None:
    assert modern.refused("list", limit="many")["code"] == "usage"
    assert modern.refused("save", kind="holiday")["code"] == "usage"
    assert modern.refused("list", limit=-1)["code"] == "usage"
    assert modern.refused("diff", paths=[{"bytes": "no base64"}])["code"] == "usage"


@pytest.mark.parametrize("tool", [form.name for form in FORMS if "paths" in form.takes.split()])
def test_no_paths_at_all_are_not_every_path(modern: Served, tool: str) -> None:
    """K2."""
    given: dict[str, Any] = {"ref": "first"} if tool.endswith("restore") else {}
    given |= {"confirm": True} if tool in {"restore", "rewind"} else {}
    assert modern.refused(tool, **given, paths=[])["code"] == "usage"
    assert modern.refused(tool, **given, paths="[]")["code"] == "usage"
    assert (modern.project / "notes.txt").read_text() == "ruined\n"


@pytest.mark.parametrize("word", ["yes", "on", "true", 1])
def test_a_yes_is_said_as_true_and_nothing_else(modern: Served, word: object) -> None:
    """T1."""
    assert modern.refused("restore", ref="first", confirm=word)["code"] == "usage"
    assert modern.refused("restore", ref="first", confirm=True, force=word)["code"] == "usage"
    assert modern.refused("cat", ref="first", path="notes.txt", private=word)["code"] == "usage"
    assert modern.refused("show", ref="first", files=word)["code"] == "usage"
    assert (modern.project / "notes.txt").read_text() == "ruined\n"


@pytest.mark.parametrize("text", ["null", "true", "[1]", '{"a": 1}', "7"])
def test_a_text_is_taken_as_it_is(modern: Served, text: str) -> None:
    (modern.project / text).write_text("kept\n")

    assert modern.done("save", message=text, task=text)["checkpoint"]["task"] == text
    assert modern.done("cat", ref=text, path=text)["content"] == "kept\n"
    assert modern.done("list", message=text)["checkpoints"]


def test_a_list_may_come_as_the_text_of_its_json(modern: Served) -> None:
    """Some clients write every list so."""
    assert [one["path"] for one in modern.done("diff", paths='["new.txt"]')["files"]] == ["new.txt"]


def test_a_failure_is_the_error_document(modern: Served) -> None:
    error = modern.refused("show", ref="nothing-of-that-name")

    assert error["code"] == "not-found"
    assert error["hint"]


def test_a_list_is_short_and_leaves_guards_out(modern: Served, workspace: lastgood.Workspace) -> None:
    for number in range(25):
        workspace.save(f"number {number}", allow_empty=True)
    workspace.restore("first")

    found = modern.done("list")["checkpoints"]
    assert len(found) == 20
    assert {one["kind"] for one in found} == {"manual"}


def test_show_tells_of_files_and_changes_if_asked(modern: Served) -> None:
    modern.done("save", message="second")

    said = modern.done("show", ref="@", files=True, stat=True)
    assert [one["path"] for one in said["entries"]] == ["new.txt", "notes.txt"]
    assert {one["status"] for one in said["stat"]} == {"added", "modified"}
    assert "entries" not in modern.done("show", ref="@")


def test_a_path_that_is_no_text_comes_and_goes_as_bytes(modern: Served) -> None:
    (modern.project / "odd-\udcff").write_text("odd\n")
    modern.done("save", message="odd")
    (path,) = [
        one["path"]
        for one in modern.done("show", ref="@", files=True)["entries"]
        if one["path"] != str(one["path"])
    ]

    assert modern.done("cat", ref="@", path=path)["content"] == "odd\n"
    assert modern.done("diff", paths=[path])["files"] == []


# --- What leaves ---


def test_secrets_of_known_shapes_leave_no_answer(modern: Served) -> None:
    """S17."""
    (modern.project / "notes.txt").write_text(f"token = {SECRET}\n")

    async def talk(client: Client) -> Any:
        calls = {
            "diff": {},
            "save": {"message": f"with {SECRET}"},
            "cat": {"ref": "@", "path": "notes.txt"},
            "list": {},
            "show": {"ref": "@"},
        }
        return [await client.call_tool(name, words) for name, words in calls.items()]

    for answer in modern.talk(talk):
        assert not answer.is_error, answer.content
        assert SECRET not in str(answer)


def test_ordinary_documents_are_as_the_command_tells_them(
    modern: Served, workspace: lastgood.Workspace
) -> None:
    """S17: what is left out is secrets, and no more."""
    assert modern.done("diff") == workspace.diff().to_json()
    plan = workspace.preview(workspace.plan_restore("first"))
    assert modern.done("plan_restore", ref="first") == plan.to_json() | {"dry_run": True}
    assert modern.done("log", path="notes.txt") == workspace.log("notes.txt").to_json()


def test_private_files_are_named_and_their_contents_told_only_if_asked(modern: Served) -> None:
    """S5."""
    (modern.project / ".git").mkdir()
    (modern.project / ".gitignore").write_text(".env\n")
    (modern.project / ".env").write_text("COLOUR=blue\n")
    modern.done("save", message="with a private file")
    (modern.project / ".env").write_text("COLOUR=red\n")

    assert modern.refused("cat", ref="@", path=".env")["code"] == "unsafe"
    assert modern.done("cat", ref="@", path=".env", private=True)["content"] == "COLOUR=blue\n"
    quiet = modern.done("diff")
    assert ".env" in str(quiet)
    assert "blue" not in str(quiet)
    assert "blue" in str(modern.done("diff", private=True))


def test_a_file_that_is_no_text_comes_as_bytes_unless_it_shows_a_secret(modern: Served) -> None:
    """S17."""
    (modern.project / "plain.bin").write_bytes(b"\xff\x00\x01")
    (modern.project / "leaky.bin").write_bytes(b"\xff\x00" + SECRET.encode())
    modern.done("save", message="bytes")

    assert modern.done("cat", ref="@", path="plain.bin")["content"] == {"bytes": "/wAB"}
    assert modern.refused("cat", ref="@", path="leaky.bin")["code"] == "unsafe"


def test_an_answer_that_would_be_very_long_says_how_to_ask_for_less(modern: Served) -> None:
    (modern.project / "long.txt").write_text("0123456789\n" * 450_000)

    assert modern.refused("diff")["code"] == "invalid"
    assert modern.done("diff", patch=False)["files"]


def test_of_very_many_paths_some_are_told_and_how_many_more(modern: Served) -> None:
    """T1: with all of them an agent's host would cut the answer, or keep it from the agent."""
    for number in range(LISTED):
        (modern.project / f"made-{number}.txt").write_text("new\n")

    looked = modern.done("plan_restore", ref="first")
    done = modern.done("restore", plan=looked["plan"])

    for one in looked, done:
        assert len(one["files"]) == LISTED
        assert one["more"] == {"files": 2}
        assert sum(one["counts"].values()) == LISTED + 2


# --- Resources ---


def test_a_folder_that_is_no_workspace_has_no_resources_and_says_why(tmp_path: Path, store: Path) -> None:
    """S11."""
    nobody = Served(Path(tempfile.gettempdir()), store, era="2026-07-28")

    async def talk(client: Client) -> Any:
        return (await client.list_resources()).resources

    assert nobody.talk(talk) == []
    assert nobody.refused("save")["code"] == "unsafe"


def test_a_call_that_is_cancelled_ends_and_the_server_goes_on(modern: Served, store: Path) -> None:
    """A save that waits for a lock is over when its caller hears of it, and leaves nothing."""
    (lock,) = (one for one in (store / "locks").iterdir() if one.name == "store.lock")

    async def talk(client: Client) -> Any:
        with lock.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with anyio.move_on_after(0.2) as scope:
                await client.call_tool("save", {"message": "never"})
        return scope.cancelled_caught, await client.call_tool("save", {"message": "afterwards"})

    cancelled, after = modern.talk(talk)
    assert cancelled
    assert not after.is_error
    assert [one["message"] for one in modern.done("list")["checkpoints"]] == ["afterwards", "before"]


def test_several_calls_at_once_are_all_carried_out(modern: Served) -> None:
    """S16."""

    async def talk(client: Client) -> Any:
        calls = (client.call_tool("save", {"message": f"number {one}"}) for one in range(5))
        return await asyncio.gather(*calls)

    ids = {answer.structured_content["checkpoint"]["id"] for answer in modern.talk(talk)}
    assert len(ids) == 5


def test_no_more_calls_are_carried_out_at_once_than_anywhere(modern: Served) -> None:
    """However many a client asks for."""
    guard, under_way, most = Lock(), 0, 0

    def work(_workspace: lastgood.Workspace) -> None:
        nonlocal under_way, most
        with guard:
            under_way += 1
            most = max(most, under_way)
        sleep(0.02)
        with guard:
            under_way -= 1

    async def all_at_once() -> None:
        await asyncio.gather(*(modern.server.within(work) for _ in range(4 * MOST_AT_ONCE)))

    asyncio.run(all_at_once())
    assert most <= MOST_AT_ONCE


def test_checkpoints_and_their_files_are_resources(modern: Served) -> None:
    async def talk(client: Client) -> Any:
        (one,) = (await client.list_resources()).resources
        held = await client.read_resource(one.uri)
        file = await client.read_resource(f"{one.uri}/notes.txt")
        named = await client.read_resource("checkpoint://first")
        return one, held.contents[0].text, file.contents[0].text, named.contents[0].text  # type: ignore[union-attr]

    one, held, file, named = modern.talk(talk)
    assert one.name == "first"
    assert [entry["path"] for entry in json.loads(held)["entries"]] == ["notes.txt"]
    assert file == "good\n"
    assert named == held


def test_what_a_resource_is_called_can_be_completed(modern: Served) -> None:
    async def talk(client: Client) -> Any:
        of = ResourceTemplateReference(uri="checkpoint://{ref}/{+path}")
        refs = await client.complete(of, {"name": "ref", "value": "fi"})
        paths = await client.complete(of, {"name": "path", "value": "no"}, {"ref": "first"})
        nothing = await client.complete(of, {"name": "path", "value": ""}, {"ref": "absent"})
        return [one.completion.values for one in (refs, paths, nothing)]

    assert modern.talk(talk) == [["first"], ["notes.txt"], []]


@pytest.mark.parametrize(
    "uri", ["checkpoint://nothing-here", "checkpoint://first/absent", "checkpoint://first/../../etc/passwd"]
)
def test_a_resource_that_is_not_there_is_an_error(modern: Served, uri: str) -> None:
    async def talk(client: Client) -> Any:
        with pytest.raises(MCPError):
            await client.read_resource(uri)

    modern.talk(talk)


def test_progress_is_told_to_a_client_that_asks(modern: Served) -> None:
    told: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async def talk(client: Client) -> Any:
        return await client.call_tool("save", {"message": "heard"}, progress_callback=hear)

    modern.talk(talk)
    assert told[0] == "saving"


# --- Where it is not installed ---


def test_without_the_sdk_the_command_says_how_to_have_it(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from lastgood.cli.main import main

    monkeypatch.setitem(sys.modules, "mcp", None)

    assert main(["mcp"]) == Unsupported.exit_code
    said = capfdbinary.readouterr().err
    assert b"lastgood[mcp]" in said
    assert sys.executable.encode() in said


def test_nothing_but_the_server_loads_the_sdk() -> None:
    source = Path(ROOT) / "src" / "lastgood"
    loads = re.compile(r"^\s*(?:from|import) mcp(?:_types)?\b", re.MULTILINE)
    files = (file for file in source.rglob("*.py") if loads.search(file.read_text()))
    loading = {file.relative_to(source).as_posix() for file in files}

    assert "mcp_server/server.py" in loading
    assert {one for one in loading if not one.startswith("mcp_server/")} == {"cli/verbs/mcp.py"}


@pytest.mark.parametrize("era", ERAS[:1])
def test_a_file_is_told_of_before_there_is_a_store(project: Path, tmp_path: Path, era: str) -> None:
    """Looking makes no store, and what another process scans would be asked of one."""
    store = tmp_path / "no store"
    (project / "new").write_text("line\n")

    lines = Served(project, store, era=era).done("blame", path="new")["lines"]

    assert [one["checkpoint"] for one in lines] == [None]
    assert not store.exists()
