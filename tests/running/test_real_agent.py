"""A plan whose tasks are a real agent program, driven by a scripted model on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from real.hosts import Host
from tools.command import COMMAND, Command
from tools.scripted_model import ScriptedModel

pytestmark = pytest.mark.real

WORDS = {
    "claude-code": "-p --dangerously-skip-permissions",
    "codex": "exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox",
}
GREETING = """\
goal: a small package, written by an agent
tasks:
  - id: greeting
    run: '"$AGENT" $WORDS "Please write greeting.py"'
    check: '"$PYTHON" -c "import greeting; assert greeting.greet() == 1"'
    timeout: 20m
"""
FAREWELL = """\
  - id: farewell
    run: '"$AGENT" $WORDS "Please write farewell.py, attempt $LASTGOOD_ATTEMPT"'
    check: '"$PYTHON" -c "import farewell; assert farewell.part() == 2"'
    retries: 1
    timeout: 20m
    on_failure: rollback
    needs: [greeting]
"""
JOURNAL = """\
  - id: journal
    run: '"$AGENT" $WORDS "Please add a line to journal.txt"'
    on_failure: rollback
    needs: [greeting]
"""


class Agent:
    """The agent's program and the model that tells it what to do.

    ``waiting`` is set while it thinks about what its last tool did; it goes on when ``think`` is.
    """

    def __init__(self) -> None:
        self.waiting = threading.Event()
        self.think = threading.Event()
        self.think.set()
        self._wrote_journal = False

    def script(self, said: str) -> str | None:
        """Answer a prompt of the plan: write a module, badly at the first attempt of the second one."""
        if "Please write greeting.py" in said:
            return "printf 'def greet():\\n    return 1\\n' > greeting.py"
        if "Please write farewell.py, attempt 1" in said:
            return "echo 'def part(:' > farewell.py"
        if "Please write farewell.py" in said:
            return "printf 'def part():\\n    return 2\\n' > farewell.py"
        if "Please add a line to journal.txt" in said:
            self._wrote_journal = True
            return "echo done >> journal.txt"
        if self._wrote_journal:
            self.waiting.set()
            self.think.wait(600)
        return None


@pytest.fixture
def agent() -> Iterator[Agent]:
    """Return an agent that never hangs the test's end."""
    one = Agent()
    yield one
    one.think.set()


@pytest.fixture(params=["claude-code", "codex"])
def lastgood(
    tmp_path: Path, project: Path, store: Path, agent: Agent, request: pytest.FixtureRequest
) -> Iterator[Command]:
    """Return the command, in an environment in which the agent's program finds its model."""
    home = tmp_path / "home"
    home.mkdir()
    with ScriptedModel(agent.script) as model:
        host = Host(request.param, home=home, project=project, model=model.url)
        command = Command(project, store)
        command.environment |= host.environment
        command.environment |= {"AGENT": host.program, "WORDS": WORDS[host.name]}
        command.environment |= {"PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}
        yield command


def finished(out: str) -> dict[str, Any]:
    (last,) = [one for line in out.splitlines() if (one := json.loads(line))["event"] == "finished"]
    return {task["id"]: (task["state"], task["attempts"]) for task in last["report"]["tasks"]}


@pytest.mark.chance("what a real agent program does, and when")
def test_an_agent_works_through_a_plan_and_its_slip_is_taken_back(lastgood: Command, project: Path) -> None:
    """P3, P6."""
    (project / "plan.yaml").write_text(GREETING + FAREWELL + JOURNAL)
    ran = lastgood("run", "plan.yaml", "--json")
    assert finished(ran.out) == {"greeting": ("done", 1), "farewell": ("done", 2), "journal": ("done", 1)}
    lines = [json.loads(line) for line in ran.out.splitlines()]
    (back,) = [line for line in lines if line["event"] == "rolled-back"]
    assert back["paths"] == ["farewell.py"]
    assert (project / "farewell.py").read_text() == "def part():\n    return 2\n"
    assert (project / "journal.txt").read_text() == "done\n"
    said = [line["line"] for line in lines if line["event"] == "output"]
    assert any("scripted model" in line for line in said)
    assert lastgood("show", "@good", "--json").json["checkpoint"]["good"]


@pytest.mark.chance("what a real agent program does, and when")
def test_a_run_killed_while_the_agent_thinks_goes_on_and_does_nothing_twice(
    lastgood: Command, agent: Agent, project: Path
) -> None:
    """P6, P7."""
    (project / "plan.yaml").write_text(GREETING + JOURNAL)
    agent.think.clear()
    words = [sys.executable, COMMAND, "run", "plan.yaml", "--json"]
    runner = subprocess.Popen(words, cwd=project, env=lastgood.environment, stdout=subprocess.DEVNULL)
    try:
        assert agent.waiting.wait(300)
    finally:
        runner.kill()
        runner.wait()
    gone(str(project))
    agent.think.set()
    assert (project / "journal.txt").read_text() == "done\n"
    assert "incomplete" in lastgood("status").out

    ran = lastgood("run", "plan.yaml", "--json")
    assert finished(ran.out) == {"greeting": ("done", 1), "journal": ("done", 2)}
    started = [line for text in ran.out.splitlines() if (line := json.loads(text))["event"] == "task-started"]
    assert [line["task"] for line in started] == ["journal"]
    assert (project / "journal.txt").read_text() == "done\n"


def gone(folder: str) -> None:
    """Wait until no process works in a folder any more: nobody but the runner's watcher ends them."""
    while any(_works_in(pid, folder) for pid in os.listdir("/proc") if pid.isdigit()):
        time.sleep(0.02)


def _works_in(pid: str, folder: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == folder
    except OSError:
        return False
