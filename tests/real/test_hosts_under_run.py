"""A real agent program under `run`, killed in the middle of a turn: what it said is kept, and it goes on."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.workspace import Workspace
from real.hosts import Host
from tools.command import COMMAND, Command
from tools.living import eventually
from tools.scripted_model import ANSWER, ScriptedModel

pytestmark = pytest.mark.real

WORDS = {
    "claude-code": ["-p", "--dangerously-skip-permissions"],
    "codex": ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"],
}
FIRST, SECOND = "Please begin", "go on now"


def script(said: str) -> str | None:
    """Have the agent change a file, and then take its time."""
    return "echo begun > begun.txt; sleep 600" if FIRST in said else None


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(script) as one:
        yield one


@pytest.fixture(params=sorted(WORDS))
def host(request: pytest.FixtureRequest, tmp_path: Path, project: Path, model: ScriptedModel) -> Host:
    home = tmp_path / "home"
    home.mkdir()
    return Host(request.param, home=home, project=project, model=model.url)


def start(lastgood: Command, host: Host, workspace: Workspace) -> subprocess.Popen[bytes]:
    """Start the agent under a run, and wait until it is in the middle of a turn that it wrote down."""
    lastgood.environment |= host.environment
    run = subprocess.Popen(
        [sys.executable, COMMAND, "run", "--", host.program, *WORDS[host.name], FIRST],
        cwd=lastgood.project,
        env=lastgood.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert eventually((lastgood.project / "begun.txt").exists)
    assert eventually(lambda: workspace.get_session().session.transcript is not None)
    (file,) = host.transcripts()
    assert eventually(lambda: b"begun.txt" in file.read_bytes())
    return run


def working(project: Path) -> list[int]:
    """Return the processes that work in a folder."""
    found = []
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and os.readlink(f"/proc/{pid}/cwd") == str(project):
                found.append(int(pid))
        except OSError:
            continue
    return found


def resumed(host: Host, command: str) -> None:
    """Type the command that was printed, with one more prompt, as a program would."""
    *_, session = shlex.split(command)
    host.say(SECOND, resume=session)


@pytest.mark.chance("what a real agent program does, and when")
def test_an_agent_that_was_killed_is_recovered_with_what_it_said_and_goes_on(
    host: Host, model: ScriptedModel, lastgood: Command, workspace: Workspace
) -> None:
    """P5, P7c, P8c."""
    run = start(lastgood, host, workspace)
    (agent,) = [pid for pid in working(lastgood.project) if is_program(pid, host)]
    os.kill(agent, signal.SIGKILL)
    run.wait()
    assert working(lastgood.project) == []
    goes_on(host, model, lastgood, workspace)


@pytest.mark.chance("what a real agent program does, and when")
def test_an_agent_whose_runner_was_killed_is_recovered_with_what_it_said_and_goes_on(
    host: Host, model: ScriptedModel, lastgood: Command, workspace: Workspace
) -> None:
    """P5, P7c, P8c."""
    run = start(lastgood, host, workspace)
    run.kill()
    run.wait()
    assert eventually(lambda: working(lastgood.project) == [])
    assert not any(one.conversation for one in workspace.list())
    goes_on(host, model, lastgood, workspace)


def goes_on(host: Host, model: ScriptedModel, lastgood: Command, workspace: Workspace) -> None:
    """Recover, and find the whole conversation in the newest checkpoint and with the agent itself."""
    told = lastgood("recover", "--json").json["conversation"]
    assert told["host"] == host.name
    kept = [one for one in workspace.list() if one.conversation]
    assert FIRST in str(workspace.conversation(kept[0].id))
    assert "begun.txt" in str(workspace.conversation(kept[0].id))
    assert kept[0].conversation is not None
    assert kept[0].conversation.messages == told["messages"]
    (lastgood.project / "begun.txt").unlink()
    model.asked.clear()
    resumed(host, told["resume_command"])
    asked = [one for one in model.asked if SECOND in one]
    assert asked
    assert all(FIRST in one for one in asked)
    (file,) = host.transcripts()
    assert file.read_text().count(ANSWER)


def is_program(pid: int, host: Host) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(host.program.encode() + b"\0")
    except OSError:
        return False
