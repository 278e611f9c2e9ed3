"""The hooks in the real Claude Code: installed by one command, gone back from by another."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lastgood.settings import TRIGGERS
from real.hosts import Host, skip_unless_wanted, stays, working
from tools.command import Command
from tools.living import eventually, eventually_gone
from tools.scripted_model import ScriptedModel, Use

pytestmark = pytest.mark.real


def script(said: str) -> tuple[str, dict[str, Any]] | None:
    """Have each prompt carry out one command."""
    for word in ("one", "two"):
        if f"write {word}" in said:
            return "Bash", {"command": f"rm -f notes.bak; echo {word} >> notes.txt"}
    if "write and fail" in said:
        return "Bash", {"command": "echo failed >> notes.txt; exit 3"}
    if "stay" in said:
        return "Bash", {"command": "echo broken > notes.txt; touch begun; sleep 600"}
    return None


def entered(lastgood: Command, host: Host) -> None:
    """Install the hooks as a person would, and let the program work without asking."""
    lastgood.environment["HOME"] = str(host.home)
    lastgood.environment.pop("CLAUDE_CONFIG_DIR", None)
    lastgood("install", "claude-code")
    file = host.home / ".claude" / "settings.json"
    settings = json.loads(file.read_text()) | {"permissions": {"defaultMode": "bypassPermissions"}}
    file.write_text(json.dumps(settings))
    host.environment["LASTGOOD_STORE"] = str(lastgood.store)


def messages(lastgood: Command) -> list[str]:
    """Return the messages of the checkpoints, oldest first."""
    return [one["message"] for one in reversed(lastgood("list", "--json").json["checkpoints"])]


def test_turns_are_kept_under_their_prompts_and_rewound(lastgood: Command, tmp_path: Path) -> None:
    """T15: files and conversation together."""
    home = tmp_path / "home"
    home.mkdir()
    project = lastgood.project
    (project / "mine.txt").write_text("by hand\n")

    def meanwhile(said: str) -> Use:
        """Change a file between a prompt and its command: the host may not yet have written the prompt."""
        if "write one" in said:
            (project / "mine.txt").write_text("by hand, in the first turn\n")
        return script(said)

    with ScriptedModel(meanwhile) as model:
        host = Host("claude-code", home=home, project=project, model=model.url)
        entered(lastgood, host)
        host.say("write one")
        (transcript,) = host.transcripts()
        (project / "mine.txt").write_text("changed by hand\n")
        host.say("write two", resume=transcript.stem)

        told = messages(lastgood)
        order = ["session start", "write one", "before: write two", "write two"]
        assert [one for one in told if one in order and one != "session start"] == order[1:]
        assert "before: rm -f notes.bak; echo one >> notes.txt" in told
        states = {one["state"] for one in lastgood("session", "list", "--json").json["sessions"]}
        assert states == {"ended"}

        back = lastgood("rewind", "1", "--yes", "--json").json
        assert (project / "notes.txt").read_text() == "one\n"
        assert (project / "mine.txt").read_text() == "changed by hand\n"
        model.asked.clear()
        host.say("go on", resume=back["conversation"]["resume_command"].split()[-1])
        asked = [one for one in model.asked if "go on" in one]
        assert asked
        assert all("write one" in one and "write two" not in one for one in asked)


@pytest.mark.chance("what a real agent program does, and when")
def test_a_program_that_is_killed_in_a_turn_is_known_dead_and_its_turn_is_taken_back(
    lastgood: Command, tmp_path: Path
) -> None:
    """P7: the turn is what was left unfinished."""
    home = tmp_path / "home"
    home.mkdir()
    project = lastgood.project
    with ScriptedModel(script) as model:
        host = Host("claude-code", home=home, project=project, model=model.url)
        entered(lastgood, host)
        host.say("write one")
        with subprocess.Popen(
            [host.program, "-p", "stay"],
            cwd=project,
            env=host.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert eventually(lambda: stays(project))
            process.kill()
        left = working(project)  # what it had started goes on without it
        named = [one["pid"] for one in lastgood("recover", "--review", "--json").json["live_processes"]]
        assert left
        assert sorted(named) == sorted(left)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert eventually_gone(process.pid)

        status = lastgood("status", "--json").json
        assert status["state"] == "incomplete"
        lastgood("recover", "--rollback")
        assert (project / "notes.txt").read_text() == "one\n"
        assert not (project / "begun").exists()


def test_calls_of_tools_are_told_apart_and_an_agent_is_told_what_was_taken_back(
    lastgood: Command, tmp_path: Path
) -> None:
    """S22, P9: a call that failed changed files all the same."""
    home = tmp_path / "home"
    home.mkdir()
    project = lastgood.project
    (project / ".lastgood.toml").write_text('[auto]\non = ["tool"]\n')
    lastgood.environment["LASTGOOD_AUTO_ON"] = ",".join((*TRIGGERS, "tool"))
    with ScriptedModel(script) as model:
        host = Host("claude-code", home=home, project=project, model=model.url)
        entered(lastgood, host)
        host.say("write one")
        (transcript,) = host.transcripts()
        host.say("write and fail", resume=transcript.stem)

        lines = lastgood("blame", "notes.txt", "--json").json["lines"]
        assert [one["actor"]["name"] for one in lines] == ["Bash", "Bash"]
        assert len({one["actor"]["call"] for one in lines}) == 2
        assert [one["label"] for one in lines] == [
            "Bash: rm -f notes.bak; echo one >> notes.txt",
            "Bash: echo failed >> notes.txt; exit 3",
        ]

        lastgood("rewind", "1", "--only", "files", "--yes")
        assert (project / "notes.txt").read_text() == "one\n"
        model.asked.clear()
        host.say("go on", resume=transcript.stem)
        assert any("notes.txt" in one and "changed under you" in one for one in model.asked)


def test_a_sub_agent_is_gone_on_with_after_a_rewind(lastgood: Command, tmp_path: Path) -> None:
    """T11: by its own id and with what it knew, though all that the host wrote itself is lost."""
    skip_unless_wanted("claude-code")
    home = tmp_path / "home"
    home.mkdir()
    project = lastgood.project
    asked_again: list[str] = []

    def agents(said: str) -> Use:
        if "inner task" in said:
            return "echo inner > inner.txt"
        if "inner again" in said:
            return "echo again >> inner.txt"
        if "agent prompt" in said:
            how = {"description": "x", "prompt": "inner task", "subagent_type": "general-purpose"}
            return "Agent", how | {"run_in_background": False}
        if "ask it again" in said:
            return "SendMessage", {"to": asked_again[0], "message": "inner again", "summary": "go on"}
        return script(said)

    with ScriptedModel(agents) as model:
        host = Host("claude-code", home=home, project=project, model=model.url)
        entered(lastgood, host)
        host.say("agent prompt")
        (transcript,) = host.transcripts()
        (agent,) = transcript.with_suffix("").glob("subagents/*.jsonl")
        asked_again.append(agent.stem.removeprefix("agent-"))
        host.say("write two", resume=transcript.stem)

        back = lastgood("rewind", "1", "--yes", "--json").json
        transcript.unlink()
        shutil.rmtree(transcript.with_suffix(""))
        model.asked.clear()
        host.say("ask it again", resume=back["conversation"]["resume_command"].split()[-1])

    assert (project / "inner.txt").read_text() == "inner\nagain\n"
    asked = [one for one in model.asked if "inner again" in one]
    assert asked
    assert all("inner task" in one and "write two" not in one for one in asked)
