"""Whose what hosts tell of is, and what agents are told of what changed under them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pytest

from hooks.conftest import Agent, payload
from lastgood.catalogue import work
from lastgood.catalogue.database import Database
from lastgood.errors import NotFound
from lastgood.hooks.claude_code import event_of
from lastgood.hooks.event import HookEvent
from lastgood.hooks.respond import Reply, respond
from lastgood.hooks.table import host_named
from lastgood.literals import Kind
from lastgood.model.checkpoint import Actor
from lastgood.model.session import EFFECT, Effect
from lastgood.settings import TRIGGERS, AutoSettings, Settings
from lastgood.workspace import Workspace
from tools.telling import Host

AGENT = Actor(type="agent", name="claude-code")
PERSON = Actor(type="person")
WITH_TOOLS = Settings(auto=AutoSettings(on=(*TRIGGERS, "tool")))


@pytest.fixture
def host(workspace: Workspace, project: Path) -> Host:
    (project / "file").write_text("0\n")
    started = Host(workspace, project)
    started.tells("session-start", text="startup")
    return started


def whose(workspace: Workspace, path: str = "file") -> list[str]:
    """Return who changed each line."""
    words: list[str] = []
    for one in workspace.blame(path).lines:
        assert one.first is not None
        assert one.last is not None
        actor = one.by.actor
        said = [
            "unsaved" if one.by.checkpoint is None else "-" if one.by.initial else actor.name or actor.type
        ]
        words += said * (one.last - one.first + 1)
    return words


def test_a_turn_costs_the_same_after_many(
    workspace: Workspace, project: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the turns before it no more is read than of two."""

    def read_by_a_turn() -> int:
        read: list[str] = []
        with monkeypatch.context() as patched:
            patched.setattr(work, "EFFECT", _Noted(read))
            host.asked("go on")
            (project / "file").write_text(f"{len(read)} {time.monotonic_ns()}\n")
            host.tells("turn-end")
        return len(read)

    for _ in range(2):
        read_by_a_turn()
    before = read_by_a_turn()
    for _ in range(4):
        read_by_a_turn()
    assert read_by_a_turn() == before


def test_a_turn_begins_and_ends_in_the_commit_of_its_checkpoint(
    workspace: Workspace, project: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: a power cut leaves neither without the other."""
    commits: list[object] = []
    write = Database.write

    def noted(self: Database, work: Callable[[Connection], object], **given: Any) -> object:
        commits.append(work)
        return write(self, work, **given)

    monkeypatch.setattr(Database, "write", noted)
    for word in ("by hand", "by the agent"):
        commits.clear()
        (project / "file").write_text(word)
        host.asked("go on") if word == "by hand" else host.tells("turn-end")
        assert len(commits) == 1
    made, asked = workspace.list(limit=2)
    (turn,) = workspace.steps()
    assert (turn.stood, turn.after, turn.state) == (asked.id, asked.sequence, "done")
    assert made.manifest.metadata["began-at"] == asked.id
    assert turn.ended_at is not None
    assert turn.started_at > asked.manifest.created_at
    assert turn.ended_at > made.manifest.created_at


def test_what_a_person_changed_is_kept_though_the_turn_is_of_no_session(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """LASTGOOD_SESSION may name one that nobody knows any more."""
    (project / "file").write_text("by hand")
    event = HookEvent(host="claude-code", kind="prompt", session="one", folder=str(project), text="go on")
    with pytest.raises(NotFound):
        respond(workspace, event, session="ses_0123456789abcdef")
    assert workspace.list(limit=1)[0].message == "before: go on"


class _Noted:
    """Reads steps as ever, and notes it."""

    def __init__(self, read: list[str]) -> None:
        self._read = read

    def decode(self, text: str) -> Effect:
        self._read.append(text)
        return EFFECT.decode(text)

    def encode(self, effect: Effect) -> str:
        return EFFECT.encode(effect)


def test_turns_are_the_agents_and_what_is_between_the_persons(
    workspace: Workspace, project: Path, host: Host
) -> None:
    file = project / "file"
    host.asked("write it")
    file.write_text("0\n1\n")
    host.tells("turn-end")
    file.write_text("0\n1\n2\n")
    host.asked("go on")
    file.write_text("0\n1\n2\n3\n")
    host.tells("tool", command="rm -rf x")
    file.write_text("0\n1\n2\n3\n4\n")
    host.tells("turn-end")
    file.write_text("0\n1\n2\n3\n4\n5\n")
    host.tells("session-end")

    agent = "claude-code"
    assert whose(workspace) == ["-", agent, "person", agent, agent, "person"]
    labels = [one.by.label for one in workspace.blame("file").lines]
    assert labels[1:5] == ["write it", "before: go on", "go on", "go on"]


def test_what_a_turn_left_that_nobody_saw_end_may_be_anybodys(
    workspace: Workspace, project: Path, host: Host
) -> None:
    host.asked("write it")
    (project / "file").write_text("0\n1\n")
    host.asked("do it otherwise")

    assert whose(workspace) == ["-", "unknown"]


@pytest.mark.parametrize(
    "event",
    [("compaction", {}), ("turn-end", {}), ("tool", {"command": "rm -rf x"})],
    ids=["compaction", "turn-end", "risky"],
)
def test_what_is_kept_outside_of_a_turn_is_not_the_agents(
    workspace: Workspace, project: Path, host: Host, event: tuple[str, dict[str, Any]]
) -> None:
    """And `restore --only-agent` leaves it there."""
    host.asked("write it")
    (project / "file").write_text("0\n1\n")
    host.tells("turn-end")
    (project / "file").write_text("0\n1\n2\n")
    (project / "mine").write_text("mine\n")
    kind, fields = event
    host.tells(kind, **fields)

    assert whose(workspace) == ["-", "claude-code", "unknown"]
    steps = {one.path: one.action for one in workspace.plan_restore(only_agent=True).steps}
    assert steps.get(b"mine", "keep") == "keep"


def test_what_is_kept_when_a_host_compacts_within_a_turn_is_the_agents(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """Claude Code and Codex tell of a start of the session then; outside of a turn it is the person's."""
    host.asked("write it")
    (project / "file").write_text("0\n1\n")
    host.tells("session-start", text="compact")
    host.tells("turn-end")
    (project / "file").write_text("0\n1\n2\n")
    host.tells("session-start", text="compact")

    assert whose(workspace) == ["-", "claude-code", "person"]


def test_a_turn_that_its_host_tells_was_broken_off_is_named_so_and_the_agents(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """Unlike one of which nobody heard until the next."""
    host.asked("write it")
    (project / "file").write_text("0\n1\n")
    host.tells("turn-end", is_cut=True)
    host.asked("go on")

    assert [one.message for one in workspace.list() if one.kind == "turn"] == ["interrupted: write it"]
    assert whose(workspace) == ["-", "claude-code"]
    workspace.rewind(1)
    assert (project / "file").read_text() == "0\n"


def test_what_came_before_a_prompt_of_the_hosts_own_may_be_anybodys(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """Something in the background was at work between the turns."""
    host.asked("write it")
    host.tells("turn-end")
    (project / "file").write_text("0\n1\n")
    host.tells("prompt", text="it is over", is_hosts=True)

    assert whose(workspace) == ["-", "unknown"]


def test_a_session_whose_end_is_told_of_twice_ends_once(workspace: Workspace, host: Host) -> None:
    """As Gemini CLI does when it is left."""
    host.tells("session-end")
    host.tells("session-end")

    (session,) = workspace.sessions()
    assert session.state == "ended"


def test_a_turn_whose_host_was_killed_lasts_until_that_is_noticed(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """What a person saves next may be the agent's; what another agent does after its first turn is not."""
    file = project / "file"
    with subprocess.Popen(["sleep", "600"]) as process:
        killed = Host(workspace, project, name="two")
        killed.tells("session-start", owner=process.pid)
        killed.tells("prompt", text="write it", owner=process.pid)
        file.write_text("0\n1\n")
        process.kill()
    workspace.save("by hand", actor=PERSON)
    file.write_text("0\n1\n2\n")
    workspace.save("by hand", actor=PERSON)
    for lines in ("0\n1\n2\n3\n", "0\n1\n2\n3\n4\n"):
        host.asked("go on")
        file.write_text(lines)
        host.tells("turn-end")

    assert whose(workspace) == ["-", "unknown", "unknown", "unknown", "claude-code"]


def test_beside_a_task_of_another_session_nobody_knows(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """As of `run`: told so at once, and of what was saved before it ended too."""
    file = project / "file"
    run = workspace.within(workspace.session_start(exclusive=True).session.id)
    host.asked("write it")
    run.task_start("make")
    file.write_text("0\n1\n")
    host.tells("turn-end")
    file.write_text("0\n1\n2\n")
    workspace.save("by hand", actor=PERSON)
    run.task_done("make")
    file.write_text("0\n1\n2\n3\n")
    host.asked("go on")
    file.write_text("0\n1\n2\n3\n4\n")
    host.tells("turn-end")

    assert whose(workspace) == ["-", "unknown", "unknown", "person", "claude-code"]


def test_calls_of_tools_are_told_apart_where_they_make_checkpoints(
    opened: Callable[..., Workspace], project: Path
) -> None:
    """What came between two of them may be a person's, or that of what one left running: nobody knows."""
    workspace = opened(settings=WITH_TOOLS)
    file = project / "file"
    file.write_text("0\n")
    host = Host(workspace, project)
    host.tells("session-start")
    host.asked("write it")
    host.tells("tool", tool="Write", call="a", paths=("file",))
    file.write_text("0\n1\n")
    host.used("Write", "a", paths=("file",))
    file.write_text("0\n1\n2\n")
    host.tells("tool", tool="Bash", command="echo", call="b")
    file.write_text("0\n1\n2\n3\n")
    host.tells("tool-failed", tool="Bash", command="echo", call="b")
    host.tells("tool", tool="Bash", command="true", call="c")
    host.tells("batch-end")
    file.write_text("0\n1\n2\n3\n4\n")
    host.tells("batch-end")
    host.tells("turn-end")

    assert whose(workspace) == ["-", "Write", "unknown", "Bash", "claude-code"]
    made = [one for one in workspace.list() if one.kind == "tool"]
    assert [(one.message, one.actor.call) for one in reversed(made)] == [
        ("Write: file", "a"),
        ("before: Bash: echo", None),
        ("Bash: echo", "b"),
        ("tools used beside each other", None),
    ]


def whys(workspace: Workspace, path: str = "file") -> list[str | None]:
    """Return why nobody is known, change by change."""
    return [one.by.why for one in workspace.blame(path).lines]


def test_a_tool_that_names_its_file_changed_no_other(opened: Callable[..., Workspace], project: Path) -> None:
    """What a person's editor wrote meanwhile is not the tool's, nor taken back; a shell names no file."""
    workspace = opened(settings=WITH_TOOLS)
    for name in ("file", "mine"):
        (project / name).write_text("0\n")
    host = Host(workspace, project)
    host.tells("session-start")
    host.asked("write it")
    host.tells("tool", tool="Write", call="a", paths=("file",))
    (project / "file").write_text("0\n1\n")
    (project / "mine").write_text("0\nmine\n")
    host.tells("batch-end", tool="Write", call="a", paths=("file",), changes=(str(project / "file"),))
    host.tells("tool", tool="Bash", call="b", command="make")
    (project / "made").write_text("1\n")
    host.tells("batch-end", tool="Bash", call="b", command="make")
    host.tells("turn-end")

    assert whose(workspace) == ["-", "Write"]
    assert whose(workspace, "mine") == ["-", "unknown"]
    assert whys(workspace, "mine") == [None, "unnamed"]
    assert whose(workspace, "made") == ["Bash"]
    workspace.restore(only_agent=True)
    assert (project / "mine").read_text() == "0\nmine\n"
    assert (project / "file").read_text() == "0\n"
    assert not (project / "made").exists()


def test_only_tools_that_edit_one_file_name_what_they_change() -> None:
    sent = payload("PostToolBatch")
    [call] = sent["tool_calls"]
    write = call | {"tool_name": "Write", "tool_input": {"file_path": "/x/a", "content": ""}}
    edit = call | {"tool_name": "Edit", "tool_input": {"file_path": "/x/b"}}
    other = call | {"tool_name": "mcp__x__y", "tool_input": {"path": "/x"}}

    def of(*calls: object) -> tuple[str, ...] | None:
        event = event_of(sent | {"tool_calls": list(calls)}, {}, caller=1)
        assert event is not None
        return event.changes

    assert of(write, edit) == ("/x/a", "/x/b")
    assert of(write) == ("/x/a",)
    assert of(write, call) is of(call) is of(other) is None


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "path"])
def test_what_a_restore_within_a_turn_brought_is_not_the_agents(
    workspace: Workspace, project: Path, host: Host, *, whole: bool
) -> None:
    """T8: nor what its undo brings; what the agent did beside it is, and goes."""
    file, beside = project / "file", project / "beside"
    file.write_text("0\nmine\n")
    workspace.save("as I want it")
    file.write_text("0\n")
    host.asked("write it")
    workspace.restore("as I want it", paths=[] if whole else ["file"], only=["files"])
    beside.write_text("1\n")
    host.tells("turn-end")

    assert whose(workspace)[1] != "claude-code"
    workspace.restore(only_agent=True)
    assert file.read_text() == "0\nmine\n"
    assert not beside.exists()


def test_why_nobody_knows_of_a_path_that_was_restored_within_a_turn(
    workspace: Workspace, project: Path, host: Host
) -> None:
    file = project / "file"
    file.write_text("0\nmine\n")
    workspace.save("as I want it")
    file.write_text("0\n")
    host.asked("write it")
    workspace.restore("as I want it", paths=["file"])
    host.tells("turn-end")

    assert (whose(workspace)[1], whys(workspace)[1]) == ("unknown", "restored")
    [kept] = [one for one in workspace.plan_restore(only_agent=True).steps if one.path == b"file"]
    assert kept.action == "keep"


def test_a_restore_within_a_turn_that_was_undone_at_once_changed_nothing(
    workspace: Workspace, project: Path, host: Host
) -> None:
    file = project / "file"
    host.asked("write it")
    file.write_text("0\n1\n")
    workspace.restore("@", paths=["file"])
    workspace.undo()
    host.tells("turn-end")

    assert whose(workspace) == ["-", "claude-code"]


def test_what_a_whole_restore_within_a_turn_left_alone_is_not_the_agents(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """S5: a private file that is there stays as it is, and differs from the place that was restored to."""
    (project / ".gitignore").write_text(".env\n")
    (project / ".env").write_text("KEY=1\n")
    workspace.save("old key")
    (project / ".env").write_text("KEY=mine\n")
    host.asked("write it")
    (project / "made").write_text("1\n")
    workspace.restore("old key")
    (project / "file").write_text("0\n1\n")
    host.tells("turn-end")

    assert whose(workspace, ".env") == ["unknown"]
    workspace.restore(only_agent=True, paths=[".env", "file"])
    assert (project / ".env").read_text() == "KEY=mine\n"
    assert (project / "file").read_text() == "0\n"


def test_who_saves_outside_of_any_session_is_not_the_author_for_that(
    workspace: Workspace, project: Path
) -> None:
    """Nor whoever calls it a turn; between turns of a session a person's save is theirs."""
    file = project / "file"
    file.write_text("0\n")
    workspace.save("begin")
    file.write_text("0\n1\n")
    workspace.save("by hand", actor=PERSON)
    file.write_text("0\n1\n2\n")
    workspace.save("by an agent", kind="turn", actor=AGENT)
    host = Host(workspace, project)
    file.write_text("0\n1\n2\n3\n")
    host.tells("session-start")
    file.write_text("0\n1\n2\n3\n4\n")
    workspace.save("by hand", actor=PERSON)
    host.asked("write it")
    file.write_text("0\n1\n2\n3\n4\n5\n")
    workspace.save("by an agent", actor=AGENT)
    host.tells("turn-end")

    assert whose(workspace) == ["-", "unknown", "unknown", "unknown", "person", "claude-code"]
    assert whys(workspace) == [None, "no-session", "outside-turn", "no-session", None, None]


@pytest.mark.parametrize("kind", ["manual", "task", "sprint", "feature", "iteration", "risky", "interrupt"])
def test_what_an_agent_saves_outside_of_its_turns_is_nobodys_whatever_its_kind(
    workspace: Workspace, project: Path, host: Host, kind: Kind
) -> None:
    """And within the only one under way it is the agent's."""
    task = "one" if kind == "task" else None
    file, mine = project / "file", project / "mine"
    host.asked("write it")
    file.write_text("0\n1\n")
    workspace.save("by an agent", kind=kind, actor=AGENT, task=task)
    host.tells("turn-end")
    mine.write_text("mine\n")
    inside = workspace.within(workspace.sessions()[0].id)
    inside.save("by an agent", kind=kind, actor=AGENT, task=task)
    mine.write_text("mine\nmine\n")
    workspace.save("by an agent", kind=kind, actor=AGENT)

    assert whose(workspace) == ["-", "claude-code"]
    assert whys(workspace, "mine") == ["outside-turn", "outside-turn"]
    workspace.restore(only_agent=True)
    assert (file.read_text(), mine.read_text()) == ("0\n", "mine\nmine\n")


@pytest.mark.parametrize("kind", ["turn", "tool", "auto", "error", "task"])
def test_what_is_typed_names_no_agent_outside_of_its_turns(agent: Agent, kind: str) -> None:
    """Kinds that hosts and runs keep by themselves included."""
    file = agent.project / "file"
    agent.quietly("SessionStart")
    agent.turn("write it", "as it was\nnow\n")
    file.write_text("as it was\nnow\nmine\n")
    agent.lastgood("save", "x", "--kind", kind, env={"CLAUDECODE": "1"})

    assert agent.lastgood("blame", "file", "--json").json["lines"][-1]["actor"]["type"] == "unknown"


@pytest.mark.parametrize("told", ["save", "compaction"])
def test_what_is_kept_after_a_turn_was_cut_short_is_nobodys(
    workspace: Workspace, project: Path, host: Host, told: str
) -> None:
    """The host's death, or Esc, is told by nobody: the agent may have left off long before."""
    with subprocess.Popen(["sleep", "600"]) as process:
        cut = Host(workspace, project, name="two")
        cut.tells("session-start", owner=process.pid)
        cut.tells("prompt", text="write it", owner=process.pid)
        (project / "file").write_text("0\nmine\n")
        if told == "compaction":
            cut.tells("compaction", owner=process.pid)
        process.kill()
    if told == "save":
        workspace.save("by an agent", actor=AGENT)

    assert whose(workspace) == ["-", "unknown"]


def test_what_a_look_did_not_see_that_was_broken_off_is_nobodys(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """S9: the look before a prompt; `@` passes over it."""
    (project / "mine").write_text("mine\n")
    (project / "file").write_text("0\nmine\n")
    assert workspace.save("before: write it", kind="auto", actor=PERSON, budget=1e-9).checkpoint.partial
    workspace.within(workspace.sessions()[0].id).step_start("write it")
    (project / "made").write_text("1\n")
    host.tells("turn-end")

    assert whose(workspace, "mine") == ["unknown"]
    assert whys(workspace, "mine") == ["partial"]
    assert (project / "mine").exists()


@pytest.mark.parametrize("by", ["a person", "the caller's policy"])
def test_what_a_look_did_not_see_stays_nobodys_when_that_is_deleted(
    workspace: Workspace, project: Path, host: Host, by: str
) -> None:
    """The look at which a turn began, and the one with which another ended."""
    inside = workspace.within(workspace.sessions()[0].id)
    (project / "mine").write_text("mine\n")
    first = workspace.save("before: write it", kind="auto", actor=PERSON, budget=1e-9).checkpoint
    inside.step_start("write it")
    (project / "file").write_text("1\n")
    host.tells("turn-end")
    host.asked("go on")
    (project / "agents").write_text("agent's\n")
    last = inside.save("go on", kind="turn", actor=AGENT, budget=1e-9).checkpoint
    inside.step_end(inside.steps()[-1])
    host.asked("once more")
    delete = workspace.delete if by == "a person" else workspace.delete_unkept
    delete(first.id, last.id)

    assert whys(workspace, "mine") == ["partial"]
    assert whys(workspace, "agents") == ["during-turn"]


def test_what_a_look_did_not_see_stays_nobodys_after_a_prune(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """K1: that there was such a look is known as long as the turn whose beginning it is."""
    (project / "mine").write_text("mine\n")
    workspace.save("before: write it", kind="auto", actor=PERSON, budget=1e-9)
    inside = workspace.within(workspace.sessions()[0].id)
    inside.step_start("write it")
    (project / "file").write_text("1\n")
    host.tells("turn-end")
    for number in range(12):
        (project / "other").write_text(f"{number}\n")
        host.asked("go on")
        (project / "file").write_text(f"{number}\n")
        host.tells("turn-end")
    report = workspace.prune()

    assert whys(workspace, "mine") == ["partial"]
    assert [one.reason for one in report.keep if workspace.get(one.id).partial] == [
        "what it did not see is in one that is kept"
    ]
    workspace.restore(only_agent=True)
    assert (project / "mine").exists()


def test_what_a_person_changes_after_a_turn_that_changed_nothing_is_theirs(
    workspace: Workspace, project: Path, host: Host
) -> None:
    host.asked("look")
    host.tells("turn-end")
    (project / "file").write_text("0\n1\n")
    host.asked("write it")

    assert whose(workspace) == ["-", "person"]


def test_calls_of_tools_make_none_unless_that_is_asked_for(
    workspace: Workspace, project: Path, host: Host
) -> None:
    host.asked("write it")
    (project / "file").write_text("0\n1\n")
    host.used("Write", "a")

    assert "tool" not in {one.kind for one in workspace.list()}


def test_beside_another_sessions_turn_nobody_knows_and_a_shared_file_is_told(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """T14: to the person, with both sessions and the path; by `status` too, and no more than is known."""
    other = Host(workspace, project, name="two")
    other.tells("session-start")
    host.asked("write it")
    other.asked("write it too")
    (project / "file").write_text("0\n1\n")
    assert host.tells("turn-end") == Reply()
    (project / "file").write_text("0\n1\n2\n")
    reply = other.tells("turn-end")

    assert whose(workspace) == ["-", "unknown", "claude-code"]
    sessions = sorted({one.session for one in workspace.list() if one.session})
    assert reply.message is not None
    assert "file changed while sessions" in reply.message
    assert all(session in reply.message for session in sessions)
    [note] = [one for one in workspace.status().health if one.code == "shared-file"]
    assert "in which is not known" in note.message

    host.asked("once more")
    (project / "file").write_text("0\n1\n2\n3\n")
    reply = host.tells("turn-end")
    assert reply.message is not None
    assert "file changed in sessions" in reply.message

    other.tells("session-end")
    assert not [one for one in workspace.status().health if one.code == "shared-file"]


def test_an_agent_is_told_at_its_next_prompt_what_was_taken_back_under_it(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """P9: once, by at most ten paths and the checkpoint."""
    host.asked("write it")
    for number in range(12):
        (project / f"file{number:02}").write_text("one")
    host.tells("turn-end")
    target = workspace.rewind_target(1)
    workspace.rewind(1, only=["files"])

    context = host.asked("go on").context

    assert context is not None
    assert "file00, file01" in context
    assert "file10" not in context
    assert "and 2 more" in context
    assert target.short_id in context
    host.tells("turn-end")
    assert host.asked("and on").context is None


def test_an_agent_is_told_of_an_undo(workspace: Workspace, project: Path, host: Host) -> None:
    """P9: a restore that was taken back at once is none."""
    host.asked("write it")
    (project / "file").write_text("1\n")
    host.tells("turn-end")
    workspace.rewind(1, only=["files"])
    workspace.undo()
    assert host.asked("go on").context is None

    workspace.rewind(1, only=["files"])
    host.tells("turn-end")
    host.asked("look")
    host.tells("turn-end")
    workspace.undo()
    context = host.asked("and on").context
    assert context is not None
    assert "undone" in context
    assert "file" in context


def test_an_agent_that_is_resumed_is_told_when_it_starts(
    workspace: Workspace, project: Path, host: Host
) -> None:
    """P9: though its session ended before; a new conversation knows nothing that could be wrong."""
    host.asked("write it")
    (project / "file").write_text("1\n")
    host.tells("turn-end")
    host.tells("session-end")
    workspace.rewind(1, only=["files"])

    context = host.tells("session-start", text="resume").context
    assert context is not None
    assert "file" in context
    assert host.asked("go on").context is None
    assert Host(workspace, project, name="new").tells("session-start").context is None


def test_a_host_that_takes_nothing_at_its_start_is_told_at_its_first_prompt(
    workspace: Workspace, project: Path
) -> None:
    """P9: opencode, which is resumed in another process."""
    resumed = Host(workspace, project, host="opencode")
    resumed.asked("write it")
    (project / "file").write_text("1\n")
    resumed.tells("turn-end")
    resumed.tells("session-end")
    workspace.rewind(1, only=["files"])

    resumed.tells("session-start")
    context = resumed.asked("go on").context
    assert context is not None
    assert "file" in context
    resumed.tells("turn-end")
    assert resumed.asked("and on").context is None


def test_of_calls_that_ran_beside_each_other_none_is_named() -> None:
    """As Claude Code sent them: one by itself is; one that changes no files counts not."""
    sent = payload("PostToolBatch")
    [call] = sent["tool_calls"]
    read = {"tool_name": "Read", "tool_input": {"file_path": "x"}, "tool_use_id": "r"}

    def of(*calls: object) -> tuple[str | None, str | None] | None:
        event = event_of(sent | {"tool_calls": list(calls)}, {}, caller=1)
        return None if event is None else (event.tool, event.call)

    assert of(call) == of(call, read) == ("Bash", "toolu_scripted")
    assert of(call, call) == (None, None)
    assert of(read) is None
    assert of("odd", None, 3) is None
    assert event_of(sent | {"tool_calls": "odd"}, {}, caller=1) is None


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("claude-code", "UserPromptSubmit"),
        ("codex", "UserPromptSubmit"),
        ("gemini-cli", "BeforeAgent"),
    ],
)
def test_each_host_is_told_at_its_own_event(host: str, said: str) -> None:
    """P9."""
    found = host_named(host).informed("prompt", "a text")

    own = {"hookEventName": said, "additionalContext": "a text"}
    assert found == {"hookSpecificOutput": own}
    assert host_named(host).informed("turn-end", "a text") is None


def test_opencode_is_told_by_its_plugin_and_who_takes_nothing_by_nobody() -> None:
    """P9."""
    assert host_named("opencode").informed("prompt", "a text") == {"context": "a text"}
    assert [host_named(one).informed("prompt", "a text") for one in ("cline", "cursor")] == [None, None]


def test_what_was_taken_back_is_told_in_the_hosts_own_way(agent: Agent) -> None:
    """P9: by the command; what is told else is told of no event at which the host takes nothing."""
    agent.quietly("SessionStart")
    agent.turn("write it", "one")
    agent.lastgood("rewind", "1", "--only", "files", "--yes")

    said = json.loads(agent.tells("UserPromptSubmit").stdout)["hookSpecificOutput"]
    assert said["hookEventName"] == "UserPromptSubmit"
    assert "changed under you: file" in said["additionalContext"]
    assert "outside of" not in said["additionalContext"]  # its own restore, by a tool, may be what is told
    agent.answered()


def test_calls_of_tools_are_entered_where_they_make_checkpoints(agent: Agent) -> None:
    """And taken out again with it; the hook has a look at a call only then."""
    lastgood = agent.lastgood

    def entered() -> dict[str, list[dict[str, Any]]]:
        lastgood("install", "claude-code", "--project")
        settings = lastgood.project / ".claude" / "settings.json"
        found: dict[str, list[dict[str, Any]]] = json.loads(settings.read_text())["hooks"]
        return found

    plain = entered()
    lastgood("config", "set", "auto.on", "tool", "--project")
    with_tools = entered()
    assert set(with_tools) - set(plain) == {"PostToolBatch"}
    assert all(groups[0]["hooks"][0]["args"][-1] == "--tools" for groups in with_tools.values())
    assert "Write" in with_tools["PreToolUse"][0]["matcher"]
    lastgood("install", "claude-code", "--project", "--check")

    agent.quietly("SessionStart")
    agent.asked("write it")
    (agent.project / "file").write_text("one\n")
    own = {"transcript_path": str(agent.transcript), "cwd": str(agent.project)}
    agent.sends(json.dumps(payload("PostToolBatch") | own))
    assert "tool" not in dict(agent.told())
    agent.sends(json.dumps(payload("PostToolBatch") | own), "--tools")
    assert agent.told()[-1] == ("tool", "Bash: echo two >> notes.txt; exit 3")

    lastgood("config", "unset", "auto.on", "--project")
    assert entered() == plain
