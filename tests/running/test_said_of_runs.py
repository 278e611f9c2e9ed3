"""What other verbs say of a run that did not finish: how its plan goes on (P7, P8)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.command import COMMAND, Command

# Writes its number down, then becomes another program of the same number.
NUMBERED = "import os, sys; open('pid', 'w').write(str(os.getpid())); os.execv(sys.argv[1], sys.argv[1:])"
KILLS = "import os, signal, time; os.kill(int(open('pid').read()), signal.SIGKILL); time.sleep(30)"


def test_status_and_recover_name_the_plan_that_goes_on(
    project: Path, store: Path, plan_file: Callable[..., str]
) -> None:
    """P7, P8."""
    lastgood = Command(project, store)
    plan = plan_file({"id": "A", "run": "exit 1"})
    lastgood("run", plan, expect=3)
    assert f"go on with its plan: lastgood run {plan}" in lastgood("status").out
    assert f"is active again; go on with its plan: lastgood run {plan}" in lastgood("recover").out
    assert "going on with session" in lastgood("run", plan, expect=3).out


def test_a_command_whose_runner_was_killed_is_named_too(project: Path, store: Path) -> None:
    """P8."""
    lastgood = Command(project, store)
    words = [sys.executable, "-c", NUMBERED, sys.executable, COMMAND, "run", "--", "python3", "-c", KILLS]
    subprocess.run(words, cwd=project, env=lastgood.environment, check=False, capture_output=True)
    assert "go on with its plan: lastgood run -- python3 -c 'import os" in lastgood("status").out
