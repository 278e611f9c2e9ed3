"""A run that is asked to end, and asked again: it says what came of it, unless somebody insists (P7)."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.command import COMMAND, ROOT, Command
from tools.runs import catches, wait_for

# As many tasks as no pipe holds the report of.
MANY = 3000
_PIPE = 65_536


@pytest.fixture
def lastgood(project: Path, store: Path) -> Command:
    return Command(project, store)


def started(command: Command, *words: str) -> subprocess.Popen[bytes]:
    """Start a program in the project, without a terminal, in a group of its own."""
    return subprocess.Popen(
        words,
        cwd=command.project,
        env=command.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.fixture
def stuck(
    lastgood: Command, plan_file: Callable[..., str], outside: Path
) -> Callable[[int], subprocess.Popen[bytes]]:
    """Return a call that starts a run and asks it to end, and lets it say only a part of what came of it."""
    tasks: list[dict[str, Any]] = [{"id": "first", "run": f"touch {outside}/began; sleep 600"}]
    tasks += [{"id": f"T{number:05}", "run": "true"} for number in range(MANY)]

    def ask(number: int) -> subprocess.Popen[bytes]:
        one = started(lastgood, sys.executable, COMMAND, "run", plan_file(*tasks), "--json")
        assert one.stdout is not None
        output, told = one.stdout.fileno(), b""
        fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, _PIPE)
        while b'"event":"task-started"' not in told:
            told += os.read(output, _PIPE)
        wait_for(outside / "began")
        one.send_signal(number)
        ends = time.monotonic() + 90
        while _waiting(output) < _PIPE / 2:  # a page that is half read counts as a whole one
            assert time.monotonic() < ends
            time.sleep(0.02)
        return one

    return ask


def _waiting(descriptor: int) -> int:
    """Return how many bytes a pipe holds."""
    amount = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, amount)
    return amount[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_came_of_a_run_is_told_whole_though_it_is_asked_to_end_again(
    lastgood: Command, stuck: Callable[[int], subprocess.Popen[bytes]], number: signal.Signals
) -> None:
    one = stuck(number)
    one.send_signal(number)
    out, err = one.communicate(timeout=120)
    assert (one.returncode, err) == (128 + number, b"")
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["report"]["state"], last["report"]["signal"]) == (
        "finished",
        "interrupted",
        number,
    )
    assert lastgood("status", "--json").json["state"] == "incomplete"


def test_a_run_that_is_asked_to_end_again_and_again_is_killed(
    lastgood: Command, stuck: Callable[[int], subprocess.Popen[bytes]]
) -> None:
    one = stuck(signal.SIGINT)
    while one.poll() is None:
        one.send_signal(signal.SIGINT)
        time.sleep(0.2)
    one.communicate()
    assert one.returncode == -signal.SIGINT
    assert lastgood("status", "--json").json["state"] == "incomplete"


def test_a_signal_that_comes_twice_at_once_was_meant_once(
    lastgood: Command, plan_file: Callable[..., str], outside: Path
) -> None:
    """As timeout(1) sends it, to the process and to its group: the task has its time to end.

    What counts as at once is long here: a busy machine may stop either of them in between.
    """
    tidies = f"trap 'sleep 0.5; touch {outside}/tidied; exit 1' TERM"
    plan = plan_file({"id": "A", "run": f"{tidies}; touch {outside}/began; sleep 600 & wait"})
    program = (
        "from lastgood.workspace.running import context as signals; signals._ECHO = 600.0;"
        " from lastgood.cli.main import run; run()"
    )
    lastgood.environment["PYTHONPATH"] = os.path.join(ROOT, "src")
    one = started(lastgood, "timeout", "600", sys.executable, "-c", program, "run", plan)
    wait_for(outside / "began")
    one.send_signal(signal.SIGTERM)
    out, _ = one.communicate(timeout=120)
    assert b"A: interrupted by SIGTERM" in out
    assert (outside / "tidied").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_waits_for_what_another_left_ends_with_the_code_of_the_signal(
    lastgood: Command, plan_file: Callable[..., str], outside: Path, number: signal.Signals
) -> None:
    """P7: nothing has begun yet; what is left here does not end by itself."""
    plan = plan_file({"id": "A", "run": f"touch {outside}/began; sleep 600"})
    one = started(lastgood, sys.executable, COMMAND, "run", plan)
    wait_for(outside / "began")
    one.kill()
    one.communicate()
    (session,) = lastgood("session", "list", "--json").json["sessions"]
    environment = lastgood.environment | {"LASTGOOD_SESSION": session["id"]}
    with subprocess.Popen(["sleep", "600"], env=environment) as orphan:
        second = started(lastgood, sys.executable, COMMAND, "run", plan, "--continue")
        while not catches(second.pid, signal.SIGTERM):
            assert second.poll() is None
            time.sleep(0.02)
        second.send_signal(number)
        _, err = second.communicate(timeout=120)
        assert (second.returncode, err.splitlines()[0]) == (128 + number, b"lastgood: interrupted")
        orphan.kill()
    assert lastgood("session", "show", session["id"], "--json").json["session"]["state"] == "incomplete"
