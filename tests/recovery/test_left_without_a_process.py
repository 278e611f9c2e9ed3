"""A run that was gone on with, and that no process holds: what it is in the way of, and what helps (P1)."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from tools.command import COMMAND, Command
from tools.living import eventually
from tools.terminal import Terminal

LASTGOOD = f"{shlex.quote(sys.executable)} {shlex.quote(COMMAND)}"
STAYS = "sh -c 'touch began; test -e ready || sleep 600'"


@pytest.fixture
def left(lastgood: Command) -> str:
    """Return the session of a run that was killed, and that a person went on with on a terminal."""
    (lastgood.project / "file").write_text("as it was\n")
    words = [sys.executable, COMMAND, "run", "--", *shlex.split(STAYS)]
    with subprocess.Popen(
        words, cwd=lastgood.project, env=lastgood.environment, stderr=subprocess.DEVNULL
    ) as run:
        assert eventually((lastgood.project / "began").exists)
        run.kill()
    (one,) = lastgood("session", "list", "--json").json["sessions"]
    assert eventually(lambda: not lastgood("recover", "--review", "--json").json["live_processes"])
    assert "Ready to continue." in typed(lastgood, f"{LASTGOOD} recover {one['id']} --continue")
    (same,) = lastgood("session", "list", "--json").json["sessions"]
    assert (same["id"], same["state"]) == (one["id"], "active")
    return str(one["id"])


def typed(lastgood: Command, script: str) -> str:
    """Return what a script shows on a terminal of its own."""
    with Terminal(
        ["sh", "-c", f"{script}; true"], cwd=lastgood.project, environment=lastgood.environment, columns=300
    ) as terminal:
        assert terminal.end() == 0
        return "\n".join(terminal.everything)


def test_another_run_is_told_since_when_nobody_holds_it_and_what_helps(lastgood: Command, left: str) -> None:
    """P1: there is nothing to wait for."""
    shown = typed(lastgood, f"{LASTGOOD} run -- true")
    assert re.search(
        rf"session {left} is active in this workspace: no process is known to hold it; "
        r"last sign of life \d+ (s|min) ago",
        shown,
    )
    assert f"go on with it: lastgood run -- {STAYS}" in shown
    assert f"or end it: lastgood recover {left} --fresh" in shown
    assert "wait until" not in shown


def test_each_line_that_the_refusal_proposes_does_what_it_says(lastgood: Command, left: str) -> None:
    shown = typed(lastgood, f"{LASTGOOD} run -- true")
    (go_on,) = re.findall(r"go on with it: lastgood (.*)", shown)
    (give_up,) = re.findall(r"or end it: lastgood (.*)", shown)
    assert f"{left} did not finish" not in typed(lastgood, f"touch ready; {LASTGOOD} {go_on}")
    (one,) = lastgood("session", "list", "--json").json["sessions"]
    assert (one["id"], one["state"]) == (left, "ended")
    assert give_up == f"recover {left} --fresh"


def test_a_run_begins_once_it_was_given_up(lastgood: Command, left: str) -> None:
    """P7a."""
    typed(lastgood, f"{LASTGOOD} recover {left} --fresh")
    typed(lastgood, f"{LASTGOOD} run -- touch made")
    assert (lastgood.project / "made").exists()


def test_a_fresh_run_of_another_command_ends_it_and_says_so(lastgood: Command, left: str) -> None:
    """P8b: the consent is the option."""
    shown = typed(lastgood, f"{LASTGOOD} run --fresh -- touch made")
    assert f"session {left} was ended" in shown
    assert (lastgood.project / "made").exists()
    states = {one["id"]: one["state"] for one in lastgood("session", "list", "--json").json["sessions"]}
    assert states.pop(left) == "ended"
    assert list(states.values()) == ["ended"]


def test_a_fresh_run_ends_no_session_of_work_by_hand(lastgood: Command) -> None:
    """P1: nobody can see whether somebody works in it."""
    typed(lastgood, f"{LASTGOOD} session start --goal taxes")
    (one,) = lastgood("session", "list", "--json").json["sessions"]
    shown = typed(lastgood, f"{LASTGOOD} run --fresh -- touch made")
    assert f"go on with it: export LASTGOOD_SESSION={one['id']}" in shown
    assert f"or end it: lastgood recover {one['id']} --fresh" in shown
    assert not (lastgood.project / "made").exists()
    (same,) = lastgood("session", "list", "--json").json["sessions"]
    assert same["state"] == "active"


def test_a_fresh_run_ends_no_run_that_somebody_is_proven_to_be_at(lastgood: Command, left: str) -> None:
    """P1: whoever goes on with it by hand named a process that lives."""
    agent = subprocess.Popen(["sleep", "600"])
    try:
        lastgood("recover", left, "--continue", "--force", "--owner-pid", str(agent.pid))
        shown = typed(lastgood, f"{LASTGOOD} run --fresh -- touch made")
        assert f"it is held by process {agent.pid} (" in shown
        assert not (lastgood.project / "made").exists()
    finally:
        agent.kill()
        agent.wait()


def test_giving_up_the_run_of_a_command_proposes_that_command(lastgood: Command, left: str) -> None:
    """P7: a session that is started by hand would stand in the next run's way."""
    shown = typed(lastgood, f"{LASTGOOD} recover {left} --fresh")
    assert f"Start anew from the present files: lastgood run -- {STAYS}" in shown
    assert "session start" not in shown


def test_a_session_set_aside_by_its_own_shell_is_not_told_as_dead(lastgood: Command) -> None:
    """P1, P7: its owner lives, and works in another session by now."""
    words = ("session start -q", "task start T01 -q", "session start -q", "status")
    done = subprocess.run(
        ["bash", "-c", " && ".join(f"{LASTGOOD} {one}" for one in words)],
        cwd=lastgood.project,
        env=lastgood.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    first = done.stdout.split()[0]
    shown = lastgood("recover", first, "--review").out
    assert "left unfinished for another session" in shown
    assert "is gone" not in shown
    assert f"{first} is incomplete: it was left unfinished for another session" in done.stdout
