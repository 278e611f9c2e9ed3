"""The session store passes the SDK's own suite, and the files of its moments come back with it."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    SessionStore,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
)
from claude_agent_sdk._internal.session_store_validation import validate_session_store_options
from claude_agent_sdk.testing import run_session_store_conformance

import lastgood
from lastgood import AsyncWorkspace
from lastgood.errors import Busy, Damaged, Invalid, LastgoodError, NotFound
from lastgood.integrations.claude_agent_sdk import LastgoodSessionStore
from lastgood.workspace import Workspace
from tools.values import not_none

if TYPE_CHECKING:
    from claude_agent_sdk import SessionKey

SESSION = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def make_store(tmp_path: Path, store: Path) -> Iterator[Callable[[], LastgoodSessionStore]]:
    """Return a call that makes a session store of a new workspace."""
    with ExitStack() as opened:

        def make() -> LastgoodSessionStore:
            folder = tempfile.mkdtemp(prefix="project-", dir=tmp_path)
            workspace = lastgood.open(folder, store=store, maintenance="off")
            return LastgoodSessionStore(opened.enter_context(workspace))

        yield make


def test_it_passes_the_suite_of_the_sdk_with_nothing_left_out(
    make_store: Callable[[], LastgoodSessionStore],
) -> None:
    for name in ("list_sessions", "list_session_summaries", "delete", "list_subkeys"):
        assert getattr(LastgoodSessionStore, name) is not getattr(SessionStore, name)
    asyncio.run(run_session_store_conformance(make_store))


def test_it_passes_the_suite_under_trio_too(make_store: Callable[[], LastgoodSessionStore]) -> None:
    trio.run(run_session_store_conformance, make_store)


def test_every_method_of_the_protocol_is_awaited() -> None:
    for name, method in inspect.getmembers(SessionStore, inspect.iscoroutinefunction):
        assert inspect.iscoroutinefunction(getattr(LastgoodSessionStore, name))
        mine = inspect.signature(getattr(LastgoodSessionStore, name))
        assert list(mine.parameters) == list(inspect.signature(method).parameters)


def key_of(workspace: Workspace | AsyncWorkspace) -> SessionKey:
    return {"project_key": project_key_for_directory(workspace.path), "session_id": SESSION}


def uuid_of(number: int) -> str:
    return f"00000000-0000-4000-9000-{number:012}"


def prompt(number: int, text: str) -> Any:
    return line(number, "user", {"role": "user", "content": text})


def answer(number: int, text: str) -> Any:
    return line(number, "assistant", {"role": "assistant", "content": [{"type": "text", "text": text}]})


def line(number: int, type: str, message: object) -> Any:
    return {
        "type": type,
        "uuid": uuid_of(number),
        "parentUuid": uuid_of(number - 1) if number > 1 else None,
        "sessionId": SESSION,
        "timestamp": f"2026-11-21T10:00:{number:02}.000Z",
        "message": message,
    }


async def turn(sessions: LastgoodSessionStore, number: int, text: str, project: Path) -> None:
    """Have a turn that writes a file: the prompt's hook, the work, the lines."""
    place = f"/home/.claude/projects/{project_key_for_directory(str(project))}"
    said = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": SESSION,
        "transcript_path": f"{place}/{SESSION}.jsonl",
        "prompt": text,
    }
    assert await sessions.before_prompt(said, None, {"signal": None}) == {}  # type: ignore[arg-type]
    (project / "work.txt").write_text(f"{text}\n")
    workspace = sessions.workspace
    await sessions.append(key_of(workspace), [prompt(number, text), answer(number + 1, f"did {text}")])


async def test_the_files_come_back_to_before_a_prompt_or_to_after_its_turn(
    workspace: Workspace, project: Path
) -> None:
    """T8: the restore can be undone."""
    sessions = LastgoodSessionStore(workspace)
    (project / "work.txt").write_text("a person's\n")

    for number, text in ((1, "first"), (3, "second"), (5, "third")):
        await turn(sessions, number, text, project)
    wanted = {1: "a person's\n", 2: "first\n", 3: "first\n", 4: "second\n", 5: "second\n", 6: "third\n"}
    for number, content in wanted.items():
        assert (await sessions.restore_files(SESSION, message=uuid_of(number))).complete
        assert (project / "work.txt").read_text() == content
    assert await sessions.files_of(SESSION) == await sessions.files_of(SESSION, message=uuid_of(6))
    workspace.undo()
    assert (project / "work.txt").read_text() == "second\n"


async def test_one_call_goes_back_to_before_a_prompt_with_files_and_conversation(
    workspace: Workspace, project: Path
) -> None:
    """T11: the session that went wrong stays; what was said before the prompt is one to be resumed."""
    sessions = LastgoodSessionStore(workspace)
    (project / "work.txt").write_text("a person's\n")
    for number, text in ((1, "first"), (3, "second"), (5, "third")):
        await turn(sessions, number, text, project)

    newest = await sessions.rewind(SESSION)

    assert (newest.prompt, newest.files.complete) == ("third", True)
    assert (project / "work.txt").read_text() == "second\n"
    assert await said_in(sessions, newest.session_id) == ["first", "did first", "second", "did second"]
    assert len(await said_in(sessions, SESSION)) == 6

    older = await sessions.rewind(SESSION, message=uuid_of(3))

    assert (project / "work.txt").read_text() == "first\n"
    assert await said_in(sessions, older.session_id) == ["first", "did first"]

    beginning = await sessions.rewind(SESSION, message=uuid_of(1))

    assert (beginning.session_id, beginning.prompt) == (None, "first")
    assert (project / "work.txt").read_text() == "a person's\n"

    again = await sessions.rewind(not_none(newest.session_id))  # a copy has the files of what it is a copy of

    assert (project / "work.txt").read_text() == "first\n"
    assert await said_in(sessions, again.session_id) == ["first", "did first"]


async def said_in(sessions: LastgoodSessionStore, session: str | None) -> list[str]:
    found = await get_session_messages_from_store(
        sessions, not_none(session), directory=sessions.workspace.path
    )
    contents = [one.message["content"] for one in found]
    return [one if isinstance(one, str) else one[0]["text"] for one in contents]


async def test_a_rewind_that_cannot_be_done_leaves_everything(workspace: Workspace, project: Path) -> None:
    sessions = LastgoodSessionStore(workspace)
    await sessions.append(key_of(workspace), [prompt(1, "first"), answer(2, "did")])  # no hook: no files
    for session, message in ((SESSION, None), (SESSION, uuid_of(2)), (uuid_of(9), None)):
        with pytest.raises(NotFound):
            await sessions.rewind(session, message=message)
    await turn(sessions, 3, "second", project)
    with pytest.raises(LastgoodError):
        await sessions.rewind(SESSION, paths=["../outside"])
    listed = await list_sessions_from_store(sessions, directory=workspace.path)
    assert [one.session_id for one in listed] == [SESSION]
    assert (project / "work.txt").read_text() == "second\n"


async def test_checkpoints_are_labelled_by_what_was_said(workspace: Workspace, project: Path) -> None:
    """S20: the prompt, the answer, the tool."""
    sessions = LastgoodSessionStore(workspace)
    await turn(sessions, 1, "make it loud\n\nand soon", project)
    (project / "work.txt").write_text("louder")
    call = {"type": "tool_use", "name": "Edit", "input": {"file_path": "work.txt", "old_string": "x"}}
    await sessions.append(key_of(workspace), [line(3, "assistant", {"role": "assistant", "content": [call]})])
    (project / "work.txt").write_text("loudest")
    results = {"role": "user", "content": [{"type": "tool_result", "content": "done"}]}
    await sessions.append(key_of(workspace), [line(4, "user", results)])

    assert [one.message for one in workspace.list()] == [
        f"Claude session {SESSION}",
        "Edit work.txt",
        "did make it loud and soon",
        "before: make it loud and soon",
    ]


async def test_checkpoints_hold_the_conversation_so_far(workspace: Workspace, project: Path) -> None:
    """P5: that before a prompt what was said before it, that after a turn the turn too."""
    sessions = LastgoodSessionStore(workspace)
    await turn(sessions, 1, "first", project)
    await turn(sessions, 3, "second", project)
    (project / "work.txt").write_text("third\n")
    lines = not_none(await sessions.load(key_of(workspace)))
    said: Any = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": "third"}
    await sessions.before_prompt(said, None, {"signal": None})

    held = {one.message: one for one in workspace.list()}

    assert list(held) == ["before: third", "did second", "did first", "before: first"]
    assert held["before: first"].manifest.conversation is None
    assert list(workspace.conversation(held["did first"].id)) == lines[:2]
    assert list(workspace.conversation(held["did second"].id)) == lines
    assert list(workspace.conversation(held["before: third"].id)) == lines


async def test_talk_makes_no_checkpoint_before_its_turn_ends(workspace: Workspace, project: Path) -> None:
    """S10: lines come one by one; each that changes no file has the checkpoint of before."""
    sessions = LastgoodSessionStore(workspace)
    call = {"type": "tool_use", "name": "Read", "input": {"file_path": "work.txt"}}
    content = {"role": "assistant", "content": [call]}
    result = {"role": "user", "content": [{"type": "tool_result", "content": "text"}]}
    parts = [{"type": "text", "text": "it is"}]
    batches = [
        prompt(1, "what is in it?"),
        line(2, "assistant", content),
        line(3, "user", result),
        line(4, "assistant", {"role": "assistant", "content": parts, "stop_reason": None}),
        line(5, "assistant", {"role": "assistant", "content": parts, "stop_reason": "end_turn"}),
    ]
    (project / "work.txt").write_text("text")

    counts = []
    for one in batches:
        await sessions.append(key_of(workspace), [one])
        counts.append(len(workspace.list()))

    assert counts == [1, 1, 1, 1, 2]
    assert len(list(workspace.conversation(workspace.list()[0].id))) == 5


@pytest.fixture
def transcript(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which the program itself keeps the session, with a turn in it."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    folder = tmp_path / "claude" / "projects" / project_key_for_directory(str(project))
    folder.mkdir(parents=True)
    for one in (tmp_path / "claude", folder.parent, folder):
        one.chmod(0o700)
    file = folder / f"{SESSION}.jsonl"
    said = [prompt(1, "first"), answer(2, "did first")]
    file.write_text("".join(json.dumps({**one, "cwd": str(project)}) + "\n" for one in said))
    file.chmod(0o600)
    return file


def test_where_the_program_keeps_a_transcript_it_is_what_checkpoints_hold(
    workspace: Workspace, project: Path, transcript: Path
) -> None:
    """T11: so a restore gives one back that the program resumes."""
    sessions = LastgoodSessionStore(workspace)
    (project / "work.txt").write_text("first")
    asyncio.run(sessions.append(key_of(workspace), [prompt(1, "first"), answer(2, "did first")]))
    (kept,) = workspace.list()
    held = not_none(kept.manifest.conversation)
    assert (held.form, held.messages, os.fsdecode(held.source or b"")) == ("claude-code", 2, str(transcript))
    assert workspace.transcript(kept.id) == transcript.read_bytes()

    before = transcript.read_bytes()
    (project / "work.txt").write_text("ruined")
    with transcript.open("a") as file:
        file.write(json.dumps(prompt(3, "ruin it")) + "\n")
    report = workspace.restore(kept.id)

    brought = not_none(report.conversation)
    assert (project / "work.txt").read_text() == "first"
    assert str(brought["resume_command"]).startswith("claude --resume ")
    (fork,) = (one for one in transcript.parent.glob("*.jsonl") if one != transcript)
    assert fork.read_bytes() == before.replace(SESSION.encode(), fork.stem.encode())


def test_the_transcript_that_a_hook_names_is_held(
    workspace: Workspace, project: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    sessions = LastgoodSessionStore(workspace)
    (project / "work.txt").write_text("first")
    said: Any = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": SESSION,
        "transcript_path": str(transcript),
        "prompt": "second",
    }
    assert asyncio.run(sessions.before_prompt(said, None, {"signal": None})) == {}
    (kept,) = workspace.list()
    assert workspace.transcript(kept.id) == transcript.read_bytes()


def test_a_transcript_that_cannot_be_read_costs_nothing(
    workspace: Workspace, project: Path, transcript: Path
) -> None:
    """What was handed over is held instead."""
    sessions = LastgoodSessionStore(workspace)
    transcript.unlink()
    os.mkfifo(transcript)
    (project / "work.txt").write_text("first")
    said = [prompt(1, "first"), answer(2, "did first")]
    asyncio.run(sessions.append(key_of(workspace), said))
    (kept,) = workspace.list()
    assert list(workspace.conversation(kept.id)) == said


async def test_an_asynchronous_workspace_keeps_sessions_too(project: Path, store: Path) -> None:
    async with lastgood.open_async(project, store=store, maintenance="off") as workspace:
        sessions = LastgoodSessionStore(workspace)
        (project / "work.txt").write_text("a person's")
        for number, text in ((1, "first"), (3, "second")):
            await turn(sessions, number, text, project)
        assert (await sessions.rewind(SESSION)).files.complete
        assert (project / "work.txt").read_text() == "first\n"
        await workspace.undo()
        assert (project / "work.txt").read_text() == "second\n"


async def test_what_a_person_changed_between_turns_lies_before_the_next_prompt(
    workspace: Workspace, project: Path
) -> None:
    sessions = LastgoodSessionStore(workspace)

    await turn(sessions, 1, "first", project)
    (project / "work.txt").write_text("mended by a person\n")
    await turn(sessions, 3, "second", project)
    await sessions.restore_files(SESSION, message=uuid_of(3))
    assert (project / "work.txt").read_text() == "mended by a person\n"


async def test_without_the_hook_a_prompt_has_the_files_of_the_turn_before(
    workspace: Workspace, project: Path
) -> None:
    sessions = LastgoodSessionStore(workspace)

    for number, text in ((1, "first"), (3, "second")):
        (project / "work.txt").write_text(text)
        await sessions.append(key_of(workspace), [prompt(number, text), answer(number + 1, "did")])
    assert await sessions.files_of(SESSION, message=uuid_of(1)) is None
    await sessions.restore_files(SESSION, message=uuid_of(3))
    assert (project / "work.txt").read_text() == "first"


async def test_a_fork_has_the_files_of_what_it_is_a_copy_of(workspace: Workspace, project: Path) -> None:
    sessions = LastgoodSessionStore(workspace)

    await turn(sessions, 1, "first", project)
    await turn(sessions, 3, "second", project)
    fork = await fork_session_via_store(
        sessions, SESSION, directory=workspace.path, up_to_message_id=uuid_of(2)
    )
    copied = await get_session_messages_from_store(sessions, fork.session_id, directory=workspace.path)
    assert len(copied) == 2
    assert copied[1].uuid != uuid_of(2)
    await sessions.restore_files(fork.session_id, message=copied[1].uuid)
    listed = await list_sessions_from_store(sessions, directory=workspace.path)
    assert {one.session_id for one in listed} == {SESSION, fork.session_id}
    assert (project / "work.txt").read_text() == "first\n"


def test_lines_that_come_twice_are_kept_once(workspace: Workspace, project: Path) -> None:
    sessions = LastgoodSessionStore(workspace)

    async def talk() -> list[Any]:
        for _ in range(2):
            await sessions.append(
                key_of(workspace), [prompt(1, "hello"), prompt(1, "hello"), answer(2, "hi")]
            )
        await sessions.append(key_of(workspace), [{"type": "mode"}])
        await sessions.append(key_of(workspace), [{"type": "mode"}])
        return await sessions.load(key_of(workspace)) or []

    assert [one["type"] for one in asyncio.run(talk())] == ["user", "assistant", "mode", "mode"]


async def test_where_files_cannot_be_kept_the_lines_are_and_trying_again_adds_none(
    workspace: Workspace, project: Path
) -> None:
    """S14: the failure is told."""
    sessions = LastgoodSessionStore(workspace)
    batch: list[Any] = [prompt(1, "hello"), {"type": "mode"}]
    away = project.with_name("away")

    os.rename(project, away)
    for _ in range(3):
        with pytest.raises(LastgoodError):
            await sessions.append(key_of(workspace), batch)
    assert len(await sessions.load(key_of(workspace)) or []) == 2
    assert await sessions.files_of(SESSION) is None
    said: Any = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": "more"}
    told = await sessions.before_prompt(said, None, {"signal": None})
    assert "could not keep the files" in str(told)
    os.rename(away, project)
    (project / "work.txt").write_text("kept")
    await sessions.append(key_of(workspace), batch)
    assert len(await sessions.load(key_of(workspace)) or []) == 2
    assert await sessions.files_of(SESSION) is not None


def test_another_process_resumes_what_one_kept(project: Path, store: Path) -> None:
    lines = [prompt(number, f"text {number} " * 500) for number in range(1, 60)]
    with lastgood.open(project, store=store, maintenance="off") as first:
        asyncio.run(LastgoodSessionStore(first).append(key_of(first), lines))
    with lastgood.open(project, store=store, maintenance="off") as second:
        assert asyncio.run(LastgoodSessionStore(second).load(key_of(second))) == lines
        assert second.verify().faults == ()


def test_sessions_of_many_writers_do_not_mix(workspace: Workspace) -> None:
    sessions = LastgoodSessionStore(workspace, files=False)

    async def write(session: str) -> None:
        for number in range(5):
            entry: Any = {"type": "x", "n": number, "session": session}
            await sessions.append({"project_key": "p", "session_id": session}, [entry])

    async def everyone() -> list[Any]:
        names = [f"session {number}" for number in range(8)]
        await asyncio.gather(*map(write, names))
        return [await sessions.load({"project_key": "p", "session_id": name}) for name in names]

    for number, found in enumerate(asyncio.run(everyone())):
        assert [(one["n"], one["session"]) for one in found] == [(n, f"session {number}") for n in range(5)]


def test_the_options_get_the_store_and_the_hook_beside_those_that_are_there(workspace: Workspace) -> None:
    async def own(*_given: object) -> Any:
        return {}

    given = ClaudeAgentOptions(hooks={"UserPromptSubmit": [HookMatcher(hooks=[own])], "Stop": []})
    sessions = LastgoodSessionStore(workspace)
    options = sessions.attached(given)
    assert options.session_store is sessions
    assert options.hooks is not None
    assert [one.hooks for one in options.hooks["UserPromptSubmit"]] == [[own], [sessions.before_prompt]]
    assert given.session_store is None
    validate_session_store_options(options)
    without = LastgoodSessionStore(workspace, files=False).attached(ClaudeAgentOptions())
    assert without.hooks is None


def test_lines_are_handed_over_as_they_come_unless_told_otherwise(workspace: Workspace) -> None:
    """P5."""
    sessions = LastgoodSessionStore(workspace)
    assert sessions.attached(ClaudeAgentOptions()).session_store_flush == "eager"
    assert sessions.attached(ClaudeAgentOptions(), flush="batched").session_store_flush == "batched"


async def test_what_names_nothing_is_told(workspace: Workspace, project: Path) -> None:
    sessions = LastgoodSessionStore(workspace)

    await turn(sessions, 1, "first", project)
    with pytest.raises(NotFound, match="has no message"):
        await sessions.files_of(SESSION, message=uuid_of(99))
    with pytest.raises(NotFound, match="no files were kept"):
        await sessions.restore_files("00000000-0000-4000-8000-000000000099")
    with pytest.raises(Invalid, match="NUL"):
        await sessions.load({"project_key": "a\0b", "session_id": "c"})
    with pytest.raises(Invalid, match="JSON"):
        await sessions.append(key_of(workspace), [{"type": "x", "what": object()}])  # type: ignore[typeddict-unknown-key]


def test_an_altered_line_is_found_out(workspace: Workspace, store: Path) -> None:
    """K4."""
    import sqlite3

    sessions = LastgoodSessionStore(workspace, files=False)
    asyncio.run(sessions.append(key_of(workspace), [prompt(1, "harmless"), answer(2, "yes")]))
    with sqlite3.connect(store / "ledger.sqlite3") as connection:
        connection.execute("UPDATE entry SET body = replace(body, 'harmless', 'harmful!')")
    connection.close()
    with pytest.raises(Damaged):
        asyncio.run(sessions.load(key_of(workspace)))


def test_while_a_restore_waits_to_be_finished_the_lines_are_kept_all_the_same(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """T7: saves are refused meanwhile, and say so."""
    sessions = LastgoodSessionStore(workspace)
    (project / "work.txt").write_text("x")
    workspace.save()
    (journal,) = (store / "workspaces").iterdir()
    (journal / "restore.journal").write_text("{}")
    with pytest.raises((Busy, Damaged)):
        asyncio.run(sessions.append(key_of(workspace), [prompt(1, "hello")]))
    assert len(asyncio.run(sessions.load(key_of(workspace))) or []) == 1


def test_a_message_that_says_it_is_a_copy_of_itself_has_no_files(workspace: Workspace) -> None:
    """What a transcript says of where it comes from may be a ring."""
    sessions = LastgoodSessionStore(workspace)
    odd: Any = {**prompt(1, "ring"), "forkedFrom": {"sessionId": SESSION, "messageUuid": uuid_of(1)}}

    async def talk() -> str | None:
        await sessions.append(key_of(workspace), [odd])
        return await sessions.files_of(SESSION, message=uuid_of(1))

    assert asyncio.run(talk()) is None


def test_a_hook_that_is_told_no_prompt_stops_nobody(workspace: Workspace) -> None:
    odd: Any = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION}
    told = LastgoodSessionStore(workspace).before_prompt(odd, None, {"signal": None})
    assert asyncio.run(told) == {}
