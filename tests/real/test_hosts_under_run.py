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

from lastgood.conversation.files import TranscriptFiles
from lastgood.workspace import Workspace
from real.hosts import GEMINI, Host, is_program, skip_unless_wanted, working
from tools.command import COMMAND, Command
from tools.living import eventually
from tools.scripted_model import ANSWER, BEGUN, ScriptedModel

pytestmark = pytest.mark.real

WORDS = {
    "claude-code": ["-p", "--dangerously-skip-permissions"],
    "codex": ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"],
    "gemini-cli": [*GEMINI, "-p"],
    "opencode": ["run"],
}
FIRST, SECOND = "Please begin", "go on now"
# What it has written down when it is in the middle of its turn: Gemini CLI and opencode a tool's use when
# that has ended.
BEFORE = {
    "claude-code": b"begun.txt",
    "codex": b"begun.txt",
    "gemini-cli": FIRST.encode(),
    "opencode": BEGUN.encode(),
}


def script(said: str) -> str | None:
    """Have the agent change a file, and then take its time.

    Gemini CLI says a prompt that got no answer once more, with the next one.
    """
    begins = FIRST in said and SECOND not in said
    return "echo begun > begun.txt; sleep 600" if begins else None


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(script) as one:
        yield one


@pytest.fixture(params=sorted(WORDS))
def host(request: pytest.FixtureRequest, tmp_path: Path, project: Path, model: ScriptedModel) -> Host:
    if request.param == "opencode":  # which takes long to start
        skip_unless_wanted("opencode")
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
    assert eventually(lambda: BEFORE[host.name] in whole(file))
    return run


def whole(transcript: Path) -> bytes:
    """Return a transcript as it is now."""
    file = TranscriptFiles(b"/nonexistent").open(os.fsencode(transcript))
    try:
        return file.read(0, file.place().size)
    finally:
        file.close()


@pytest.mark.chance("what a real agent program does, and when")
@pytest.mark.parametrize("host", ["claude-code", "codex"], indirect=True)
def test_an_agent_that_was_killed_is_recovered_with_what_it_said_and_goes_on(
    host: Host, model: ScriptedModel, lastgood: Command, workspace: Workspace
) -> None:
    """P5, P7c, P8c; Gemini CLI and opencode, which take long to start, are killed in the last test."""
    run = start(lastgood, host, workspace)
    agent = min(pid for pid in working(lastgood.project) if is_program(pid, host))
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


@pytest.mark.chance("what a real agent program does, and when")
def test_an_agent_whose_transcript_is_gone_goes_on_after_the_printed_restore(
    host: Host, model: ScriptedModel, lastgood: Command, workspace: Workspace
) -> None:
    """P7c, T11: each printed line, typed."""
    run = start(lastgood, host, workspace)
    agent = min(pid for pid in working(lastgood.project) if is_program(pid, host))
    os.kill(agent, signal.SIGKILL)
    run.wait()
    (lost,) = host.transcripts()
    if host.name == "opencode":
        host.do("session", "delete", lost.name)
    else:
        lost.unlink()
    told = lastgood("recover").out
    restore = next(line.partition("bring it back: ")[2] for line in told.splitlines() if " gone" in line)
    done = lastgood(*shlex.split(restore)[1:], "--yes")
    lines = (done.out + done.err).splitlines()
    command = next(line.partition("go on with it: ")[2] for line in lines if "go on with it" in line)
    resumes(host, model, command)


def goes_on(host: Host, model: ScriptedModel, lastgood: Command, workspace: Workspace) -> None:
    """Recover, and find the whole conversation in the newest checkpoint and with the agent itself."""
    told = lastgood("recover", "--json").json["conversation"]
    assert told["host"] == host.name
    kept = [one for one in workspace.list() if one.conversation]
    assert FIRST in str(workspace.conversation(kept[0].id))
    assert BEFORE[host.name].decode() in str(workspace.conversation(kept[0].id))
    assert kept[0].conversation is not None
    assert kept[0].conversation.messages == told["messages"]
    resumes(host, model, told["resume_command"])


def resumes(host: Host, model: ScriptedModel, command: str) -> None:
    """Type the printed command with one more prompt: the program knows what was said."""
    model.asked.clear()
    before, _, resume = command.rpartition(" && ")
    if before:
        host.do(*shlex.split(before)[1:])
    host.say(SECOND, resume=shlex.split(resume)[-1])
    asked = [one for one in model.asked if SECOND in one]
    assert asked
    assert all(FIRST in one for one in asked)
    # In another minute Gemini CLI begins a second file.
    assert any(ANSWER.encode() in whole(file) for file in host.transcripts())
