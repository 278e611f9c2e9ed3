"""What each host sends, as recorded from it: the events that it comes to, and where they lead."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.cli.table_of_work import HOSTS
from lastgood.hooks.event import HookEvent
from lastgood.hooks.respond import respond
from lastgood.hooks.table import host_named, host_of
from lastgood.workspace import Workspace
from tools.values import not_none

PAYLOADS = Path(__file__).parent / "payloads"
ALL = [(file.parent.name, file.stem) for file in sorted(PAYLOADS.glob("*/*.json"))]

# What each recorded payload comes to; what is not named comes to nothing.
KINDS = {
    "claude-code": {
        "SessionStart": "session-start",
        "UserPromptSubmit": "prompt",
        "SessionStart-compact": "session-start",
        "UserPromptSubmit-notification": "prompt",
        "PreToolUse": "tool",
        "PreToolUse-agent": "tool",
        "PreCompact": "compaction",
        "PostToolUse": "tool-end",
        "PostToolUseFailure": "tool-failed",
        "PostToolBatch": "batch-end",
        "Stop": "turn-end",
        "SessionEnd": "session-end",
    },
    "codex": {
        "SessionStart": "session-start",
        "UserPromptSubmit": "prompt",
        "PreModelRequest": "batch-end",
        "PreToolUse": "tool",
        "PreToolUse-apply_patch": "tool",
        "PostToolUse": "tool-end",
        "PreCompact": "compaction",
        "SessionStart-compact": "session-start",
        "Interrupt": "turn-end",
        "SubagentStart": "agent-start",
        "UserPromptSubmit-agent": "agent-start",
        "PreModelRequest-agent": "batch-end",
        "PreToolUse-agent": "tool",
        "PostToolUse-agent": "tool-end",
        "SubagentStop": "agent-end",
        "Stop": "turn-end",
        "SessionEnd": "session-end",
    },
    "gemini-cli": {
        "SessionStart": "session-start",
        "BeforeAgent": "prompt",
        "BeforeModel": "batch-end",
        "BeforeTool": "tool",
        "BeforeTool-replace": "tool",
        "BeforeTool-write_file": "tool",
        "AfterTool": "tool-end",
        "AfterTool-exit3": "tool-end",
        "AfterTool-replace": "tool-failed",
        "AfterTool-write_file": "tool-end",
        "AfterTool-cancelled": "tool-end",
        "AfterTool-invoke_agent": "tool-end",
        "BeforeTool-within_agent": "tool",
        "PreCompress-manual": "compaction",
        "AfterAgent": "turn-end",
        "SessionEnd": "session-end",
    },
    "opencode": {
        "session.start": "session-start",
        "chat.message": "prompt",
        "tool.execute.before": "tool",
        "tool.execute.before-agent": "tool",
        "tool.execute.before-write": "tool",
        "tool.execute.after": "tool-end",
        "session.idle": "turn-end",
        "session.idle-cut": "turn-end",
        "session.compacting": "compaction",
        "dispose": "session-end",
    },
    "cline": {
        "TaskStart": "prompt",
        "PreToolUse": "tool",
        "PreToolUse-editor": "tool",
        "PostToolUse-editor": "tool-failed",
        "PostToolUse-exit3": "tool-failed",
        "PostToolUse-cancelled": "tool-failed",
        "TaskStart-agent": "agent-start",
        "PreToolUse-agent": "tool",
        "TaskComplete-agent": "agent-end",
        "TaskComplete": "turn-end",
    },
    "cursor": {
        "sessionStart": "session-start",
        "beforeSubmitPrompt": "prompt",
        "beforeShellExecution": "tool",
        "afterShellExecution": "tool-end",
        "preToolUse": "tool",
        "postToolUse": "tool-end",
        "postToolUseFailure": "tool-failed",
        "afterFileEdit": "tool-end",
        "preCompact": "compaction",
        "stop": "turn-end",
        "sessionEnd": "session-end",
    },
}
# Of each host one turn: what it sends before it, at its beginning, before a risky command, at its end.
TURNS = {
    "codex": ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SessionEnd"),
    "gemini-cli": ("SessionStart", "BeforeAgent", "BeforeTool", "AfterAgent", "SessionEnd"),
    "opencode": ("session.start", "chat.message", "tool.execute.before", "session.idle", "dispose"),
    "cursor": ("sessionStart", "beforeSubmitPrompt", "beforeShellExecution", "stop", "sessionEnd"),
}


def payload(host: str, name: str) -> dict[str, Any]:
    """Return a recorded payload."""
    found: dict[str, Any] = json.loads((PAYLOADS / host / f"{name}.json").read_text())
    return found


def event(host: str, name: str, **fields: object) -> HookEvent | None:
    """Return what a recorded payload comes to, with some fields changed."""
    environment = {"XDG_DATA_HOME": "/nonexistent"}
    return host_named(host).event_of(payload(host, name) | fields, environment, caller=os.getpid())


@pytest.mark.parametrize(("host", "name"), ALL)
def test_what_a_host_sent_comes_to_its_event(host: str, name: str) -> None:
    found = event(host, name)
    assert (None if found is None else found.kind) == KINDS[host].get(name)
    if found is not None:
        assert (found.host, found.folder) == (host, "/home/user/project")
        assert found.session
        assert found.transcript is None or found.agent or found.session[:8] in found.transcript
        assert "@" not in str(found)


@pytest.mark.parametrize(("host", "name"), ALL)
def test_whose_it_is_shows_in_its_shape(host: str, name: str) -> None:
    found = host_of(payload(host, name))
    assert found is not None
    assert host == found.NAME


def test_what_no_host_sends_is_nobody_s() -> None:
    assert host_of({"event": "Stop"}) is None


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("said", [{}, {"hook_event_name": "OfNextYear"}, {"hook_event_name": 3, "cwd": []}])
def test_what_a_host_says_beside_that_is_passed_over(host: str, said: dict[str, object]) -> None:
    assert host_named(host).event_of(said, {}, caller=os.getpid()) is None


def test_a_tool_s_event_says_what_it_does_and_to_what() -> None:
    shell, edit = event("codex", "PreToolUse"), event("gemini-cli", "BeforeTool-write_file")
    assert (shell and shell.command, shell and shell.call) == (
        "rm -f notes.bak; echo one >> notes.txt",
        "call_1",
    )
    assert edit is not None
    assert (edit.tool, edit.command, edit.paths) == ("write_file", None, ("/home/user/project/notes.txt",))


PATCH = (
    "*** Begin Patch\n*** Update File: src/a b.py\n*** Move to: c.py\n-x\n*** Delete File: old\n*** End Patch"
)


@pytest.mark.parametrize(
    "command",
    [f"apply_patch <<'EOF'\n{PATCH}\nEOF", f"cd /x && apply_patch <<END\n{PATCH}\nEND\n", PATCH],
)
def test_a_patch_that_codex_applies_is_an_edit(command: str) -> None:
    """It names what it changes, and `Patch` in it is no program: no command of a shell, so not risky."""
    tool = "apply_patch" if command == PATCH else "Bash"
    found = not_none(event("codex", "PreToolUse", tool_name=tool, tool_input={"command": command}))
    assert (found.tool, found.command) == ("apply_patch", None)
    assert found.paths == ("src/a b.py", "c.py", "old")


@pytest.mark.parametrize(
    "command",
    [
        f"apply_patch <<'EOF'\n{PATCH}\nEOF\nrm -rf x",
        f"apply_patch <<'EOF' && rm -rf x\n{PATCH}\nEOF",
        f"cd $(rm -rf x) && apply_patch <<'EOF'\n{PATCH}\nEOF",
        f"apply_patch <<EOF\n{PATCH}$(rm -rf x)\nEOF",
        f"apply_patch <<'EOF'\n{PATCH}\nEOF\nrm -rf x; cat <<'EOF'\nEOF",
        f"apply_patch <<'EOF'\n{PATCH}",
        "apply_patch < x",
    ],
)
def test_what_does_more_than_apply_a_patch_is_a_command(command: str) -> None:
    found = not_none(event("codex", "PreToolUse", tool_input={"command": command}))
    assert (found.tool, found.command) == ("Bash", command)


def test_gemini_cli_compacts_only_where_a_person_has_it_do_so() -> None:
    """It says that it may before every request to the model."""
    assert event("gemini-cli", "PreCompress") is None
    assert not_none(event("gemini-cli", "PreCompress-manual")).kind == "compaction"


def test_gemini_cli_goes_on_in_the_file_that_it_began(tmp_path: Path) -> None:
    """Resumed in another minute it tells of a second one."""
    first, second = (tmp_path / f"session-2026-01-01T10-{minute}-0123abcd.jsonl" for minute in ("00", "05"))
    first.write_text("{}\n{}\n")
    second.write_text("{}\n")
    found = event("gemini-cli", "SessionStart", transcript_path=str(second))
    assert found is not None
    assert found.transcript == str(first)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ('"edit now"', "edit now"),
        ('"say \\"edit now\\" to me"', 'say "edit now" to me'),
        ('"one" and "two"', '"one" and "two"'),
        ('"edit"', '"edit"'),
        ('edit "all" now', 'edit "all" now'),
        ('"', '"'),
        ("", ""),
    ],
)
def test_a_prompt_of_opencode_is_told_as_it_was_typed(said: str, text: str) -> None:
    """Its `run` puts quotes around a word of several."""
    assert not_none(event("opencode", "chat.message", text=said)).text == text


def test_a_prompt_that_claude_code_writes_itself_is_told_by_its_summary() -> None:
    """It tells its agent so that what went on in the background is over."""
    notified = not_none(event("claude-code", "UserPromptSubmit-notification"))
    assert (notified.text, notified.is_hosts) == ('Agent "inner" finished', True)
    assert not not_none(event("claude-code", "UserPromptSubmit")).is_hosts


def test_codex_gives_the_end_of_a_session_little_time() -> None:
    found = event("codex", "SessionEnd")
    assert not_none(not_none(found).seconds) < 3


def test_what_a_sub_agent_of_codex_does_is_of_the_session_that_began_it(tmp_path: Path) -> None:
    """It has a conversation of its own, and tells of a prompt in it; the first is found by the session."""
    told = payload("codex", "PreToolUse-agent")
    first = tmp_path / "2026" / "11" / "23" / f"rollout-2026-11-23T23-59-59-{told['session_id']}.jsonl"
    inner = tmp_path / "2026" / "11" / "24" / os.path.basename(told["transcript_path"])
    assert told["session_id"] not in inner.name
    for file in (first, inner):
        file.parent.mkdir(parents=True)
        file.write_text("{}\n")

    def found() -> str | None:
        return not_none(event("codex", "PreToolUse-agent", transcript_path=str(inner))).transcript

    assert found() == str(first)
    beside = inner.parent / first.name
    first.rename(beside)
    assert found() == str(beside)
    beside.unlink()
    assert found() == str(inner)


def test_what_a_sub_agent_of_cline_begins_is_no_turn() -> None:
    inner = not_none(event("cline", "TaskStart-agent"))
    assert (inner.kind, not_none(event("cline", "TaskStart")).agent) == ("agent-start", None)
    assert inner.agent


def test_of_calls_of_opencode_beside_each_other_none_is_named() -> None:
    """S22: nor is there a look before one, unless it is risky, which would find what another is at."""
    alone = not_none(event("opencode", "tool.execute.after"))
    assert (alone.tool, alone.call, alone.changes) == ("write", "call_2", ("/home/user/project/notes.txt",))
    assert not_none(event("opencode", "tool.execute.after", failed=True)).kind == "tool-failed"
    together = not_none(event("opencode", "tool.execute.after", beside=True))
    assert (together.kind, together.tool) == ("batch-end", None)
    assert event("opencode", "tool.execute.before-write", beside=True) is None
    assert not_none(event("opencode", "tool.execute.before", beside=True)).kind == "tool"


def test_a_sub_agent_of_opencode_works_in_the_session_that_began_it() -> None:
    """Else its session would be one that nobody ends."""
    inner = not_none(event("opencode", "tool.execute.before-agent"))
    assert inner.agent not in {None, inner.session}
    assert inner.session == payload("opencode", "session.start")["sessionID"]


@pytest.mark.parametrize(
    ("host", "name", "field"),
    [
        ("codex", "Interrupt", {}),
        ("opencode", "session.idle-cut", {}),
        ("cline", "TaskComplete", {"hookName": "agent_abort"}),
        ("cursor", "stop", {"status": "aborted"}),
    ],
)
def test_a_turn_that_a_person_broke_off_is_told_so(host: str, name: str, field: dict[str, str]) -> None:
    assert not_none(event(host, name, **field)).is_cut
    whole = {"codex": "Stop", "opencode": "session.idle", "cline": "TaskComplete", "cursor": "stop"}
    assert not not_none(event(host, whole[host])).is_cut


@pytest.fixture
def workspace(project: Path, store: Path) -> Iterator[Workspace]:
    with lastgood.open(project, store=store, maintenance="off") as opened:
        yield opened


@pytest.mark.parametrize("host", TURNS)
def test_a_turn_is_kept_under_its_prompt_and_rewound(
    host: str, workspace: Workspace, project: Path, tmp_path: Path
) -> None:
    start, prompt, risky, answered, ended = TURNS[host]
    transcript = tmp_path / "conversation.jsonl"
    own: dict[str, object] = {"transcript_path": str(transcript), "cwd": str(project)}
    own |= {"directory": str(project), "workspace_roots": [str(project)]}

    def tells(name: str, **fields: object) -> None:
        respond(workspace, not_none(event(host, name, **own, **fields)), session=None)

    (project / "file").write_text("as it was")
    tells(start)
    for text in ("one", "two"):
        transcript.write_text("{}\n")
        tells(prompt, prompt=f"write {text}", text=f"write {text}")
        (project / "file").write_text("half")
        tells(risky)
        (project / "file").write_text(text)
        tells(answered)
    tells(ended)

    command = not_none(event(host, risky)).command
    told = [(one.kind, one.message) for one in reversed(workspace.list())]
    assert [one for one in told if one[0] in ("turn", "risky")] == [
        ("risky", f"before: {command}"),
        ("turn", "write one"),
        ("risky", f"before: {command}"),
        ("turn", "write two"),
    ]
    assert workspace.sessions()[0].session.state == "ended"
    workspace.rewind(1)
    assert (project / "file").read_text() == "one"


def test_a_task_of_cline_is_a_session_of_one_turn(
    workspace: Workspace, project: Path, tmp_path: Path
) -> None:
    """It tells of no end of its process; what was asked for stands in its own record."""
    session = payload("cline", "TaskStart")["sessionContext"]["rootSessionId"]
    folder = tmp_path / session
    folder.mkdir()
    (folder / f"{session}.json").write_text('{"prompt": "write one"}')
    (folder / f"{session}.messages.json").write_text('{"messages": []}')
    (project / "file").write_text("as it was")
    for name in ("TaskStart", "PreToolUse", "TaskComplete"):
        said = payload("cline", name) | {"workspaceRoots": [str(project)]}
        said["sessionContext"] = {"rootSessionId": session}
        found = host_named("cline").event_of(
            said, {"CLINE_SESSION_DATA_DIR": str(tmp_path)}, caller=os.getpid()
        )
        respond(workspace, not_none(found), session=None)
        (project / "file").write_text(name)

    told = [(one.kind, one.message) for one in workspace.list() if one.kind != "session-end"]
    assert told[:2] == [("turn", "write one"), ("risky", "before: rm -f notes.bak; echo one >> notes.txt")]
    assert workspace.sessions()[0].session.state == "ended"


def test_a_conversation_that_is_kept_nowhere_is_told_by_its_host_s_process(
    workspace: Workspace, project: Path
) -> None:
    """Cursor has it so where transcripts are switched off."""
    (project / "file").write_text("as it was")
    for name in ("sessionStart", "beforeSubmitPrompt", "stop", "sessionEnd"):
        (project / "file").write_text(name)
        found = event("cursor", name, transcript_path=None, workspace_roots=[str(project)])
        respond(workspace, not_none(found), session=None)

    assert ("turn", "write one") in [(one.kind, one.message) for one in workspace.list()]
    (session,) = workspace.sessions()
    assert session.session.state == "ended"
