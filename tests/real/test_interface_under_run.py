"""Claude Code's own interface on the terminal that a run lends it: keys, a stop, another size, a kill."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from real.hosts import Host, is_program, working
from tools.command import COMMAND, Command
from tools.living import eventually
from tools.scripted_model import ANSWER, ScriptedModel
from tools.terminal import Shell

pytestmark = pytest.mark.real

FIRST, SECOND, THIRD = "the first prompt", "begin with a tool", "the third prompt"
RUN = f"{sys.executable} {COMMAND} run"
# What its interface shows where the next prompt is typed.
_READY = "bypass permissions on"


def script(said: str) -> str | None:
    """Have the agent change a file, and then take its time."""
    return "echo begun > begun.txt; sleep 600" if SECOND in said else None


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(script) as one:
        yield one


@pytest.fixture
def host(tmp_path: Path, project: Path, model: ScriptedModel) -> Host:
    """Return Claude Code as one who has used it before has it: it asks nothing at its start."""
    home = tmp_path / "home"
    home.mkdir()
    one = Host("claude-code", home=home, project=project, model=model.url)
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    settings = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": ["none"], "rejected": []},
        "projects": {str(project): trusted},
    }
    (home / ".claude.json").write_text(json.dumps(settings))
    return one


def shows(shell: Shell, text: str) -> None:
    """Wait until the interface is there, with a text."""
    shell.until(lambda: any(text in line for line in shell.shown) and _READY in shell.shown[-1])


@pytest.mark.chance("what a real agent program does, and when")
def test_its_interface_is_usable_under_run_and_goes_on_after_a_kill(
    host: Host, model: ScriptedModel, lastgood: Command, tmp_path: Path
) -> None:
    """P5, P7c, P8c."""
    with Shell(cwd=lastgood.project, environment=lastgood.environment | host.environment) as shell:
        before = shell.settings(tmp_path / "before")
        shell.type(f"{RUN} -- {host.program} --dangerously-skip-permissions\n")
        shows(shell, "Claude Code")
        shell.type(FIRST)
        shows(shell, FIRST)
        shell.type("\r")
        shows(shell, ANSWER)

        shell.type("\x1a")
        shell.until("Stopped")
        shell.at_prompt()
        shell.type("fg\n")
        shows(shell, ANSWER)

        shell.resize(120, 30)
        shell.until(lambda: "─" * 120 in shell.shown and _READY in shell.shown[-1])

        shell.type(SECOND)
        shows(shell, SECOND)
        shell.type("\r")
        assert eventually((lastgood.project / "begun.txt").exists)
        shell.type("\x03")
        shell.until("Interrupted")
        (agent,) = (pid for pid in working(lastgood.project) if is_program(pid, host))

        os.kill(agent, signal.SIGKILL)
        shell.until("killed by SIGKILL")
        shell.at_prompt()
        after = shell.settings(tmp_path / "after")
        # The first line has its size; where the others are broken depends on that.
        assert after.partition("\n")[2].split() == before.partition("\n")[2].split()
        told = lastgood("recover", "--json").json["conversation"]
        assert told["host"] == "claude-code"
        said = str(lastgood("show", "@", "--conversation").out)
        assert FIRST in said
        assert SECOND in said

    model.asked.clear()
    host.say(THIRD, resume=told["resume_command"].split()[-1])
    asked = [one for one in model.asked if THIRD in one]
    assert asked
    assert all(FIRST in one for one in asked)
