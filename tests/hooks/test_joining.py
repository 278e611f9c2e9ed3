"""What an agent types in its own shell counts to the session that hooks keep for its conversation (P1)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hooks.conftest import payload
from lastgood.hooks.event import HookEvent
from lastgood.hooks.respond import respond
from lastgood.workspace import Workspace
from tools.command import COMMAND, Command
from tools.terminal import Terminal

# Every command of a test is started below this process.
HOST, ABOVE = os.getpid(), os.getppid()


class Conversations:
    """Conversations of hosts, whose hooks tell of them in the test's process."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.workspace = workspace
        self.folder = folder

    def tells(self, name: str, kind: str, *, owner: int = HOST, **fields: Any) -> None:
        event = HookEvent(
            host="claude-code",
            kind=kind,  # type: ignore[arg-type]
            session=name,
            folder=self.workspace.path,
            transcript=str(self.transcript(name)),
            owner=owner,
            **fields,
        )
        respond(self.workspace, event, session=None)

    def transcript(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def begins(self, name: str, *, owner: int = HOST) -> str:
        """Have a conversation begin, and return the session that is kept for it."""
        line = {"type": "user", "uuid": "u", "sessionId": payload("Stop")["session_id"]}
        line["message"] = {"role": "user", "content": name}
        self.transcript(name).write_text(json.dumps(line) + "\n")
        self.tells(name, "session-start", owner=owner)
        (found,) = self.workspace.sessions(transcript=str(self.transcript(name)))
        return found.id


@pytest.fixture
def conversations(workspace: Workspace, project: Path, tmp_path: Path) -> Conversations:
    (project / "file").write_text("0\n")
    return Conversations(workspace, tmp_path)


def saved(lastgood: Command, *words: str) -> dict[str, Any]:
    """Have the command save, and return the checkpoint."""
    (lastgood.project / "file").write_text(f"{words}\n")
    found: dict[str, Any] = lastgood("save", "mine", *words, "--json").json["checkpoint"]
    return found


def test_a_save_below_a_host_has_its_session_conversation_and_progress(
    conversations: Conversations, lastgood: Command
) -> None:
    session = conversations.begins("one")
    conversations.tells("one", "prompt", text="write it")
    lastgood("task", "start", "T01")
    made = saved(lastgood)

    assert made["session"] == session
    assert made["conversation"]["messages"] == 1
    assert [one["id"] for one in made["progress"]["tasks"]] == ["T01"]
    assert made["actor"]["type"] == "agent"


def test_a_save_from_elsewhere_counts_to_nobody_s_session(
    conversations: Conversations, lastgood: Command, sleeper: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """A person's own terminal is not below the host."""
    conversations.begins("one", owner=sleeper().pid)
    made = saved(lastgood)

    assert (made["session"], made["conversation"], made["actor"]["type"]) == (None, None, "unknown")


@pytest.mark.parametrize("mark", [{}, {"CURSOR_AGENT": "1"}], ids=["typed", "agent's"])
def test_what_is_typed_in_a_terminal_below_a_host_is_an_agents_where_that_says_so(
    conversations: Conversations, lastgood: Command, mark: dict[str, str]
) -> None:
    """An editor is the host of an agent, and has terminals for a person."""
    session = conversations.begins("one")
    conversations.tells("one", "prompt", text="write it")
    (lastgood.project / "file").write_text("typed\n")
    words = [sys.executable, COMMAND, "save", "mine"]
    with Terminal(
        words, cwd=lastgood.project, environment=lastgood.environment | mark, starts=True
    ) as terminal:
        assert terminal.end() == 0

    (made,) = (one for one in conversations.workspace.list() if one.message == "mine")
    assert (made.session, made.actor.type) == ((session, "agent") if mark else (None, "person"))


def test_of_a_host_within_another_the_nearer_one_counts(
    conversations: Conversations, lastgood: Command
) -> None:
    """An agent may start another."""
    inner = conversations.begins("inner")
    conversations.begins("outer", owner=ABOVE)

    assert saved(lastgood)["session"] == inner


def test_of_two_conversations_of_a_process_the_one_in_a_turn_counts(
    conversations: Conversations, lastgood: Command
) -> None:
    """Where both are, nobody can tell whose it is."""
    first = conversations.begins("one")
    conversations.begins("two")
    assert saved(lastgood)["session"] is None
    conversations.tells("one", "prompt", text="write it")
    assert saved(lastgood, "--meta", "n=1")["session"] == first
    conversations.tells("two", "prompt", text="write it too")
    assert saved(lastgood, "--meta", "n=2")["session"] is None


def test_a_session_that_is_named_or_exclusive_comes_first(
    conversations: Conversations, lastgood: Command
) -> None:
    conversations.begins("one")
    exclusive = lastgood("session", "start", "--json").json["session"]["id"]
    assert saved(lastgood)["session"] == exclusive
    shared = lastgood("session", "start", "--shared", "--json").json["session"]["id"]
    lastgood.environment["LASTGOOD_SESSION"] = shared
    assert saved(lastgood, "--meta", "n=1")["session"] == shared


def test_an_agent_is_not_in_its_own_way(
    conversations: Conversations, lastgood: Command, workspace: Workspace
) -> None:
    """T14, P7: it may restore, undo and recover in the middle of its turn."""
    conversations.begins("one")
    at = workspace.save("good").checkpoint
    conversations.tells("one", "prompt", text="write it")
    saved(lastgood)
    lastgood("restore", at.id, "--yes")
    assert (lastgood.project / "file").read_text() == "0\n"
    lastgood("undo")
    assert (lastgood.project / "file").read_text() == "()\n"
    assert lastgood("recover", at.id, "--json").json["beside"] is None


def test_a_person_who_takes_files_back_takes_the_agents_progress_back(
    conversations: Conversations, lastgood: Command, workspace: Workspace
) -> None:
    """T11: whoever made the checkpoint; the person's terminal is not below the host."""
    conversations.begins("one")
    conversations.tells("one", "prompt", text="write it")
    before = saved(lastgood)["id"]
    lastgood("task", "start", "T01")
    lastgood("task", "done", "T01")
    (lastgood.project / "file").write_text("one\n")
    conversations.tells("one", "turn-end")
    turn = workspace.stands_at()
    assert turn is not None
    lastgood("task", "start", "T02")
    (lastgood.project / "file").write_text("two\n")

    def told() -> list[tuple[str, str]]:
        found = lastgood("progress", "show", "--json").json["progress"]["tasks"]
        return [(one["id"], one["state"]) for one in found]

    workspace.restore(turn)
    assert told() == [("T01", "done")]
    workspace.restore(before)
    assert told() == []


def test_so_does_one_who_does_after_the_host_was_killed(
    conversations: Conversations,
    lastgood: Command,
    workspace: Workspace,
    sleeper: Callable[[], subprocess.Popen[bytes]],
) -> None:
    """T11: its session waits to go on, but has no progress of its own."""
    host = sleeper()
    conversations.begins("one", owner=host.pid)
    (lastgood.project / "file").write_text("one\n")
    conversations.tells("one", "turn-end", owner=host.pid)
    turn = workspace.stands_at()
    assert turn is not None
    lastgood("task", "start", "T01")
    (lastgood.project / "file").write_text("two\n")
    host.kill()
    host.wait()

    workspace.restore(turn)
    assert lastgood("progress", "show", "--json").json["progress"]["tasks"] == []


def test_status_tells_an_agent_how_far_its_work_has_come(
    conversations: Conversations, lastgood: Command
) -> None:
    conversations.begins("one")
    lastgood("progress", "set", "--phase", "writing")
    assert lastgood("status", "--json").json["position"]["phase"] == "writing"
