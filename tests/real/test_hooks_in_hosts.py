"""The hooks in the other real hosts: installed by one command, gone back from by another."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from lastgood.settings import TRIGGERS
from real.hosts import Host, skip_unless_wanted, stays, working
from tools.command import COMMAND, Command
from tools.living import eventually, eventually_gone, lives
from tools.scripted_model import ScriptedModel

pytestmark = pytest.mark.real

# Gemini CLI in every run of the checks, the others where scripts/hosts asks for them.
HOSTS = ["gemini-cli"]
MORE = ["codex", "opencode", "cline"]
# By which tool each edits a file, and what that is told.
EDITS: dict[str, tuple[str, Any]] = {
    "gemini-cli": ("write_file", lambda file: {"file_path": file, "content": "by a tool\n"}),
    "opencode": ("write", lambda file: {"filePath": file, "content": "by a tool\n"}),
    "cline": ("editor", lambda file: {"path": file, "new_text": "by a tool\n"}),
    "codex": (
        "exec_command",
        lambda file: {
            "cmd": f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {os.path.basename(file)}\n"
            "+by a tool\n*** End Patch\nEOF",
            "login": False,
        },
    ),
}
# By which tool each has a sub-agent do something, and what that is told.
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemini-cli": ("invoke_agent", {"agent_name": "generalist", "prompt": "inner task"}),
    "opencode": ("task", {"description": "x", "prompt": "inner task", "subagent_type": "general"}),
    "cline": ("spawn_agent", {"systemPrompt": "You work.", "task": "inner task"}),
    "codex": ("multi_agent_v1.spawn_agent", {"message": "inner task"}),
}
# Codex itself refuses an rm -f that nobody may approve.
BY_SHELL = "cp mine.txt copy.txt; echo shell >> notes.txt"
STAYS = "echo broken > notes.txt; touch begun; sleep 600"


def runs(host: str, command: str) -> str | tuple[str, dict[str, Any]]:
    """Return how a host's agent has a shell carry something out."""
    return ("run_commands", {"commands": [command]}) if host == "cline" else command


@pytest.fixture(params=[*HOSTS, *MORE])
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    if found in MORE:
        skip_unless_wanted(found)
    return found


@pytest.fixture
def model(name: str, project: Path) -> Iterator[ScriptedModel]:
    def script(said: str) -> str | tuple[str, dict[str, Any]] | None:
        if "agent prompt" in said and "inner task" not in said:
            return AGENTS[name]
        if "second prompt" in said or "inner task" in said:
            return runs(name, BY_SHELL)
        if "first prompt" in said:
            tool, how = EDITS[name]
            return tool, how(str(project / "notes.txt"))
        if "list prompt" in said:
            return "todowrite", {"todos": [{"content": "one thing", "status": "pending", "priority": "high"}]}
        if "save prompt" in said:
            return runs(name, f"echo more >> notes.txt; {sys.executable} {COMMAND} save mine")
        return runs(name, STAYS) if "stay prompt" in said else None

    with ScriptedModel(script) as one:
        yield one


@pytest.fixture
def host(name: str, model: ScriptedModel, lastgood: Command, tmp_path: Path) -> Host:
    """Return a host in which the hooks were installed as a person would, that works without asking."""
    home = tmp_path / "home"
    home.mkdir()
    found = Host(name, home=home, project=lastgood.project, model=model.url, hooks=True)
    lastgood.environment |= {"HOME": str(home), **{key: str(home / where) for key, where in XDG.items()}}
    lastgood("install", name)
    found.environment["LASTGOOD_STORE"] = str(lastgood.store)
    return found


XDG = {"XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}


def kept(lastgood: Command) -> list[tuple[str, str]]:
    """Return kinds and messages of the checkpoints, oldest first."""
    found = lastgood("list", "--json").json["checkpoints"]
    return [(one["kind"], one["message"]) for one in reversed(found)]


def resumed(host: Host) -> str:
    """Return what the one conversation is resumed by."""
    (found,) = host.transcripts()
    return host.session_of(found)


def test_an_agent_is_told_what_was_taken_back_under_it(
    name: str, host: Host, model: ScriptedModel, lastgood: Command
) -> None:
    """P9: each of these hosts takes that; Cline takes a conversation up again on a terminal alone."""
    if name == "cline":
        pytest.skip("it is not resumed without a terminal")
    host.say("first prompt")
    session = resumed(host)
    lastgood("rewind", "1", "--only", "files", "--yes")
    assert not (lastgood.project / "notes.txt").exists()
    model.asked.clear()
    host.say("go on", resume=session)
    assert any("changed under you: notes.txt" in one for one in model.asked)


@pytest.mark.parametrize("name", ["opencode"], indirect=True)
def test_calls_of_tools_are_told_apart(name: str, host: Host, lastgood: Command) -> None:
    """S22: by the one of these hosts that tells of both ends of each."""
    lastgood.environment["LASTGOOD_AUTO_ON"] = ",".join((*TRIGGERS, "tool"))
    host.environment["LASTGOOD_AUTO_ON"] = lastgood.environment["LASTGOOD_AUTO_ON"]
    lastgood("install", name)
    (lastgood.project / "mine.txt").write_text("mine\n")
    host.say("first prompt")
    host.say("second prompt", resume=resumed(host))

    lines = lastgood("blame", "notes.txt", "--json").json["lines"]
    assert [one["actor"]["name"] for one in lines] == ["write", "bash"]
    assert all(one["actor"]["call"] for one in lines)


def test_what_an_agent_saves_in_its_own_shell_is_of_its_session(host: Host, lastgood: Command) -> None:
    """P1: nobody told that shell which it is; it has the conversation, too."""
    host.say("save prompt")

    kept = {one["message"]: one for one in lastgood("list", "--json").json["checkpoints"]}
    assert kept["mine"]["session"] == kept["save prompt"]["session"]
    assert kept["mine"]["conversation"]["source"].startswith(str(host.home))
    assert kept["mine"]["actor"]["type"] == "agent"
    assert kept["mine"]["actor"].get("name", host.name) == host.name


def test_what_a_sub_agent_does_is_of_the_turn_that_began_it(host: Host, lastgood: Command) -> None:
    """P1, P6: its own prompt is no turn, nor its conversation a session that nobody would end."""
    (lastgood.project / "mine.txt").write_text("by hand\n")
    host.say("agent prompt")

    assert [message for kind, message in kept(lastgood) if kind == "turn"] == ["agent prompt"]
    (session,) = lastgood("session", "list", "--json").json["sessions"]
    assert session["state"] == "ended"


@pytest.mark.parametrize("name", ["codex", "gemini-cli", "opencode"], indirect=True)
def test_what_a_sub_agent_said_comes_back_with_the_conversation(
    name: str, host: Host, model: ScriptedModel, lastgood: Command
) -> None:
    """T11: under a parent of its own, with the to-do list."""
    skip_unless_wanted(name)
    (lastgood.project / "mine.txt").write_text("by hand\n")
    host.say("agent prompt")
    source = lastgood("list", "--json").json["checkpoints"][0]["conversation"]["source"]
    session = host.session_of(Path(source))
    if name == "opencode":
        host.say("list prompt", resume=session)
    host.say("first prompt", resume=session)

    back = lastgood("rewind", "1", "--yes", "--json").json
    *taken, resume = back["conversation"]["resume_command"].split(" && ")
    copy = shlex.split(resume)[-1]
    for command in taken:
        text = command.replace("opencode", shlex.quote(host.program), 1)
        subprocess.run(["sh", "-c", text], cwd=host.project, env=host.environment, check=True)
    model.asked.clear()
    host.say("go on", resume=copy)
    assert any("agent prompt" in one and "first prompt" not in one for one in model.asked if "go on" in one)
    if name == "gemini-cli":
        (beside,) = Path(source).parent.glob(f"{copy}/*.jsonl")
        assert "inner task" in beside.read_text()
        return
    if name == "codex":
        heads = [path.read_text().partition("\n")[0] for path in host.transcripts()]
        assert sum(f'"parent_thread_id":"{copy}"' in head for head in heads) == 1
        return
    with closing(sqlite3.connect(Path(source).parent)) as database:
        (agent,) = database.execute("SELECT id FROM session WHERE parent_id = ?", (copy,)).fetchone()
        said = database.execute("SELECT data FROM part WHERE session_id = ?", (agent,)).fetchall()
        todo = database.execute("SELECT content, status FROM todo WHERE session_id = ?", (copy,)).fetchall()
        told = database.execute("SELECT data FROM part WHERE session_id = ?", (copy,)).fetchall()
    assert any("inner task" in one for (one,) in said)
    assert todo == [("one thing", "pending")]
    assert any(agent in one for (one,) in told)


@pytest.mark.parametrize("name", ["opencode"], indirect=True)
def test_a_tool_that_ran_when_its_host_was_killed_comes_back_as_broken_off(
    name: str, host: Host, model: ScriptedModel, lastgood: Command
) -> None:
    """P7c, T11: opencode takes it in, and goes on with what it says of it."""
    with host.started("stay prompt") as process:
        assert eventually(lambda: stays(lastgood.project))
        left = working(lastgood.project)
        process.kill()
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    (source,) = host.transcripts()
    kept = lastgood("save", "killed", "--transcript", str(source), "--json").json["checkpoint"]["id"]
    with closing(sqlite3.connect(source.parent, isolation_level=None)) as database:
        database.execute("DELETE FROM session")
    back = lastgood("restore", kept, "--only", "conversation", "--yes", "--json").json
    taken, _, resume = back["conversation"]["resume_command"].rpartition(" && ")
    host.do(*shlex.split(taken)[1:])
    model.asked.clear()
    host.say("go on", resume=shlex.split(resume)[-1])
    (asked,) = (one for one in model.asked if "go on" in one)
    assert STAYS in asked
    assert "Tool execution aborted" in asked


def test_turns_are_kept_under_their_prompts_and_rewound(
    host: Host, model: ScriptedModel, lastgood: Command
) -> None:
    """T15: edits by tool and by shell, with the conversation, which the host then resumes."""
    project = lastgood.project
    (project / "mine.txt").write_text("by hand\n")
    host.say("first prompt")
    assert (project / "notes.txt").read_text() == "by a tool\n"
    # Cline takes a conversation up again on a terminal alone.
    host.say("second prompt", resume=None if host.name == "cline" else resumed(host))
    assert (project / "notes.txt").read_text() == "by a tool\nshell\n"

    told = kept(lastgood)
    assert [one for one in told if one[0] in {"turn", "risky"}] == [
        ("turn", "first prompt"),
        ("risky", f"before: {BY_SHELL}"),
        ("turn", "second prompt"),
    ]
    states = {one["state"] for one in lastgood("session", "list", "--json").json["sessions"]}
    assert states == {"ended"}
    first = next(
        one for one in lastgood("list", "--json").json["checkpoints"] if one["message"] == "first prompt"
    )
    assert first["conversation"]["messages"] > 0
    assert first["conversation"]["source"].startswith(str(host.home))

    back = lastgood("rewind", "1", "--yes", "--json").json
    assert (project / "notes.txt").read_text() == "by a tool\n"
    assert (project / "mine.txt").read_text() == "by hand\n"
    if host.name == "cline":  # which has no way to take a conversation in
        return
    model.asked.clear()
    command = back["conversation"]["resume_command"]
    before, _, resume = command.rpartition(" && ")
    if before:
        host.do(*shlex.split(before)[1:])
    host.say("go on", resume=shlex.split(resume)[-1])
    asked = [one for one in model.asked if "go on" in one]
    assert asked
    assert all("first prompt" in one and "second prompt" not in one for one in asked)


@pytest.mark.chance("what a real agent program does, and when")
def test_a_host_that_is_killed_in_a_turn_is_known_dead_and_its_turn_is_taken_back(
    host: Host, lastgood: Command
) -> None:
    """P7: the turn is what was left unfinished."""
    project = lastgood.project
    host.say("first prompt")
    with host.started("stay prompt") as process:
        assert eventually(lambda: stays(project))
        # What it had started would go on without it, and end its turn if that were killed first.
        left = [pid for pid in working(project) if pid != process.pid]
        process.kill()
        process.wait()
        named = {one["pid"] for one in lastgood("recover", "--review", "--json").json["live_processes"]}
        # One that ends by itself, since its host has gone, may or may not be named.
        assert {pid for pid in left if lives(pid)} <= named <= set(left)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert eventually_gone(process.pid)

    assert lastgood("status", "--json").json["state"] == "incomplete"
    lastgood("recover", "--rollback")
    assert (project / "notes.txt").read_text() == "by a tool\n"
    assert not (project / "begun").exists()
