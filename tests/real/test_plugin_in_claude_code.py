"""The plugin and the MCP server in the real Claude Code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from real.hosts import Host
from tools.command import COMMAND, ROOT, Command
from tools.scripted_model import ScriptedModel, Use

pytestmark = pytest.mark.real

PLUGIN = os.path.join(ROOT, "plugins", "claude-code")


def script(prefix: str, **consent: bool) -> Any:
    """Have each prompt use one tool of the server."""

    def use(said: str) -> tuple[str, dict[str, Any]] | None:
        if "save my place" in said:
            return f"{prefix}save", {"message": "my place", "name": "mine"}
        if "bring it back" in said:
            return f"{prefix}restore", {"ref": "mine", "only": ["files"], **consent}
        return None

    return use


class Steps:
    """Has each prompt use some tools, one after the other."""

    def __init__(self, uses: Mapping[str, Sequence[Use]]) -> None:
        self._uses = uses
        self._left: list[Use] = []

    def __call__(self, said: str) -> Use:
        self._left = next((list(uses) for prompt, uses in self._uses.items() if prompt in said), self._left)
        return self._left.pop(0) if self._left else None


@pytest.fixture
def home(tmp_path: Path, lastgood: Command) -> Path:
    """Return a home whose owner lets the program work, with lastgood among their programs."""
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    settings = {"permissions": {"defaultMode": "bypassPermissions"}}
    (home / ".claude" / "settings.json").write_text(json.dumps(settings))
    program = home / "bin" / "lastgood"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {COMMAND} "$@"\n')
    program.chmod(0o755)
    return home


def host_of(home: Path, lastgood: Command, model: str) -> Host:
    host = Host("claude-code", home=home, project=lastgood.project, model=model)
    host.environment["PATH"] = f"{home / 'bin'}:{os.defpath}"
    host.environment["LASTGOOD_STORE"] = str(lastgood.store)
    return host


def test_the_validator_has_no_complaint(tmp_path: Path, lastgood: Command, home: Path) -> None:
    host = host_of(home, lastgood, "http://127.0.0.1:9")

    host.do("plugin", "validate", "--strict", PLUGIN)
    host.do("plugin", "validate", "--strict", ROOT)


def test_the_plugin_keeps_turns_and_its_tools_go_back(lastgood: Command, home: Path) -> None:
    """T1, T15: hooks, skill and server together."""
    notes = lastgood.project / "notes.txt"
    notes.write_text("good\n")
    with ScriptedModel(script("mcp__plugin_lastgood_lastgood__", confirm=True)) as model:
        host = host_of(home, lastgood, model.url)
        host.do("plugin", "marketplace", "add", ROOT)
        host.do("plugin", "install", "lastgood@lastgood")
        host.say("save my place")
        notes.write_text("ruined\n")
        host.say("bring it back")

    assert notes.read_text() == "good\n"
    kept = lastgood("list", "--all", "--json").json["checkpoints"]
    assert {"my place", "save my place"} <= {one["message"] for one in kept}
    (mine,) = [one for one in kept if one["name"] == "mine"]
    assert mine["actor"] == {"type": "agent", "name": "claude-code"}
    assert mine["session"]
    assert mine["conversation"]["source"]
    assert any("lastgood:checkpoints" in one for one in model.asked)


def test_beside_hooks_in_the_settings_each_turn_is_kept_once(lastgood: Command, home: Path) -> None:
    """As with `lastgood install claude-code`: the plugin's tell of the same, at the same moment."""
    lastgood.environment["HOME"] = str(home)
    with ScriptedModel(lambda said: "rm -f x; echo one >> notes.txt" if "write" in said else None) as model:
        host = host_of(home, lastgood, model.url)
        host.do("plugin", "marketplace", "add", ROOT)
        host.do("plugin", "install", "lastgood@lastgood")
        assert "the plugin lastgood@lastgood" in lastgood("install", "claude-code").err
        host.say("write once")
        (transcript,) = host.transcripts()
        host.say("write twice", resume=transcript.stem)

    kept = lastgood("list", "--json").json["checkpoints"]
    turns = [one["message"] for one in reversed(kept) if one["kind"] == "turn"]
    assert turns == ["write once", "write twice"]
    assert len({one["session"] for one in kept}) == 2  # each process has had one


def test_the_server_alone_is_added_by_one_command(lastgood: Command, home: Path) -> None:
    """T1: a program without a person answers each question with no."""
    notes = lastgood.project / "notes.txt"
    notes.write_text("good\n")
    lastgood("save", "--name", "mine")
    notes.write_text("ruined\n")
    with ScriptedModel(script("mcp__lastgood__")) as model:
        host = host_of(home, lastgood, model.url)
        host.do("mcp", "add", "lastgood", "--", "lastgood", "mcp")
        host.say("bring it back")

    assert notes.read_text() == "ruined\n"
    assert any("whoever was asked did not agree" in one for one in model.asked)


def test_one_sentence_takes_back_the_last_two_prompts(lastgood: Command, home: Path) -> None:
    """T1, T8, T15: a person says what they want, sees what would happen, says yes, and has it back again."""
    notes, mine = lastgood.project / "notes.txt", lastgood.project / "mine.txt"
    mine.write_text("by hand\n")
    prefix = "mcp__plugin_lastgood_lastgood__"
    uses: dict[str, list[Use]] = {
        f"write {word}": [f"echo {word} >> notes.txt"] for word in ("one", "two", "three")
    }
    uses["undo what you did in the last two prompts"] = [
        (f"{prefix}plan_rewind", {"turns": 2}),
        (f"{prefix}rewind", {"turns": 2, "only": ["files"]}),
    ]
    uses["no, bring it back"] = [(f"{prefix}undo", {})]
    said_yes = {"hookEventName": "Elicitation", "action": "accept", "content": {"go_ahead": True}}
    (home / "yes.json").write_text(json.dumps({"hookSpecificOutput": said_yes}))
    answering = {"type": "command", "command": f"cat >> {home}/questions; cat {home}/yes.json"}
    settings = home / ".claude" / "settings.json"
    settings.write_text(
        json.dumps(json.loads(settings.read_text()) | {"hooks": {"Elicitation": [{"hooks": [answering]}]}})
    )

    with ScriptedModel(Steps(uses)) as model:
        host = host_of(home, lastgood, model.url)
        prompts = ["write one", "write two", "write three", "undo what you did in the last two prompts"]
        host.talk(*prompts, options=["--plugin-dir", PLUGIN])
        assert notes.read_text() == "one\n"
        assert mine.read_text() == "by hand\n"
        (transcript,) = host.transcripts()
        host.talk("no, bring it back", options=["--plugin-dir", PLUGIN, "--resume", transcript.stem])

    assert notes.read_text() == "one\ntwo\nthree\n"
    questions = (home / "questions").read_text()
    assert "1 file to write" in questions
    assert "write notes.txt" in questions
    assert str(lastgood.project) in questions
    assert "Take back the restore" in questions


def test_each_command_of_the_plugin_does_what_it_says(lastgood: Command, home: Path) -> None:
    """Typed by a person who allows nothing but what a command may do by itself."""
    (home / ".claude" / "settings.json").write_text("{}")
    (lastgood.project / "plan.yaml").write_text("tasks:\n  - id: one\n    run: touch made\n")
    (lastgood.project / "notes.txt").write_text("good\n")
    commands = {
        "/lastgood:save it works": 'lastgood save "it works"',
        "/lastgood:list": "lastgood list --limit 20",
        "/lastgood:restore @": "lastgood restore @ --dry-run",
        "/lastgood:run plan.yaml": "lastgood run plan.yaml",
        "/lastgood:rewind 1": "lastgood rewind 1 --dry-run",
        "/lastgood:undo": "lastgood undo --list",
        "/lastgood:recover": "lastgood recover --review",
    }
    left = list(commands.values())

    def typed(said: str) -> Use:
        """Type what the command's text tells to type first."""
        return left.pop(0) if "`lastgood " in said and left else None

    with ScriptedModel(typed) as model:
        host = host_of(home, lastgood, model.url)
        ends = host.talk(*commands, options=["--plugin-dir", PLUGIN])

    assert not left, "a command told the model nothing to type"
    assert [json.loads(end)["permission_denials"] for end in ends] == [[]] * len(commands)
    assert (lastgood.project / "made").exists()
    asked = "\n".join(model.asked)
    for said in ("saved ckpt_", "it works", "plan_", "nothing to recover"):
        assert said in asked, said
