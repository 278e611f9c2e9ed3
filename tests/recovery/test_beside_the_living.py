"""Recovering and ending beside sessions that live: who holds them, and what to type (P1, P7, T14)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lastgood as package
from lastgood.errors import Conflict
from lastgood.workspace import Workspace
from tools.command import COMMAND, Command, told

Died = Callable[..., str]


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that is not ours to be in, though we made it."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


@pytest.fixture
def run(lastgood: Command, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Return a runner at its first task, and the id of its session."""
    plan = tmp_path / "a plan.yaml"
    plan.write_text(f"goal: prices\ntasks: [{{id: A, run: 'touch {tmp_path}/began; sleep 600'}}]\n")
    one = subprocess.Popen(
        [sys.executable, COMMAND, "run", str(plan)],
        cwd=lastgood.project,
        env=lastgood.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    ends = time.monotonic() + 90
    while not (tmp_path / "began").exists():
        assert time.monotonic() < ends
        time.sleep(0.02)
    (session,) = lastgood("session", "list", "--json").json["sessions"]
    yield one, session["id"]
    one.send_signal(signal.SIGTERM)
    one.wait(timeout=120)


def held_by(session: str, pid: int) -> list[str]:
    return [session, f"held by process {pid} (", ", since 20", "last heartbeat 20"]


# Force


def test_a_run_goes_on_by_force_beside_one_that_it_takes_over_from(
    workspace: Workspace, died: Died, agent: subprocess.Popen[bytes]
) -> None:
    """P1, T14: what that one had begun nobody will see the end of."""
    dead = died()
    other = workspace.session_start(owner_pid=agent.pid).session.id
    workspace.within(other).task_start("T9")
    with pytest.raises(Conflict) as caught:
        workspace.recover(dead)
    for words in (dead, *held_by(other, agent.pid)):
        assert words in caught.value.message
    assert caught.value.hint == f"end it: lastgood session end {other}    or take over from it: --force"

    report = workspace.recover(dead, force=True)
    assert (report.done, report.took_over and report.took_over.id) == ("continue", other)
    assert workspace.get_session(dead).state == "active"
    taken = workspace.get_session(other).session
    assert (taken.state, taken.ended_by) == ("ended", "taken over")
    assert [step.state for step in workspace.steps(other)] == ["unknown"]
    with pytest.raises(Conflict, match="another session took over"):
        workspace.within(other).task_done("T9")


def test_files_come_back_by_force_beside_a_session_at_a_task(
    workspace: Workspace, project: Path, died: Died
) -> None:
    """T14: one that holds nothing, and so is not taken over from."""
    dead = died()
    (project / "late").write_text("late")
    guest = workspace.session_start(exclusive=False).session.id
    workspace.within(guest).task_start("T9")
    with pytest.raises(Conflict, match="T9") as caught:
        workspace.recover(dead, choice="continue", roll_back=True)
    assert "--force" in caught.value.hint
    assert workspace.get_session(dead).state == "incomplete"
    report = workspace.recover(dead, choice="continue", roll_back=True, force=True)
    assert (report.done, report.took_over) == ("continue", None)
    assert not (project / "late").exists()
    assert workspace.get_session(guest).state == "active"
    workspace.undo(force=True)
    assert (project / "late").read_text() == "late"


def test_artifacts_come_back_by_force_while_another_session_works(
    workspace: Workspace, project: Path, agent: subprocess.Popen[bytes]
) -> None:
    """T14: that one goes on."""
    (project / "draft.md").write_text("one")
    workspace.progress_set(artifacts=["draft.md"])
    saved = workspace.save("one").checkpoint.id
    id = workspace.session_start(owner_pid=agent.pid).session.id
    (project / "draft.md").unlink()
    assert [one.state for one in workspace.recover(saved).artifacts] == ["missing"]
    report = workspace.recover(saved, force=True)
    assert [one.state for one in report.artifacts] == ["reloaded"]
    assert (report.beside and report.beside.id) == id
    assert workspace.get_session(id).state == "active"


def test_force_is_awaited_too(project: Path, store: Path, died: Died) -> None:
    dead = died()

    async def main() -> tuple[Any, str]:
        async with package.open_async(project, store=store, maintenance="off") as workspace:
            started = await workspace.session_start()
            return await workspace.recover(dead, force=True), started.session.id

    report, other = asyncio.run(main())
    assert report.took_over.id == other


def test_force_is_said_on_the_command_line(
    lastgood: Command, died: Died, agent: subprocess.Popen[bytes]
) -> None:
    dead = died()
    other = lastgood("session", "start", "-q", "--owner-pid", str(agent.pid)).out.strip()
    refused = lastgood("recover", dead, expect=13)
    assert "take over from it: --force" in refused.err
    done = lastgood("recover", dead, "--force")
    assert f"took over from {other}: process {agent.pid} (" in done.err
    assert f"Session {dead} is active again" in done.out
    assert lastgood("recover", "--json").json["took_over"] is None


@pytest.mark.parametrize("choice", ["--fresh", "--review"])
def test_where_nobody_is_disturbed_force_says_nothing(lastgood: Command, died: Died, choice: str) -> None:
    id = died()
    told(lastgood("recover", choice, "--force", expect=2), 2)
    assert lastgood("session", "show", id, "--json").json["session"]["state"] == "incomplete"


# Words


def test_recovering_beside_a_session_at_work_tells_who_is_at_work(
    lastgood: Command, run: tuple[subprocess.Popen[bytes], str]
) -> None:
    runner, id = run
    done = lastgood("recover")
    assert done.out.startswith(f"Session {id} (prices) is at work: process {runner.pid} (")
    assert ", since 20" in done.out
    assert done.out.endswith("There is nothing to recover.\n")
    assert "lastgood status" in done.err
    assert lastgood("recover", "--review").out == done.out
    document = lastgood("recover", "--json").json
    assert (document["state"], document["beside"], document["done"]) == ("active", id, None)
    for words in (("recover", id), ("recover", id, "--fresh")):
        refused = lastgood(*words, expect=13)
        for said in (*held_by(id, runner.pid), "there is nothing to recover of it", f"kill {runner.pid}"):
            assert said in refused.err
    assert runner.poll() is None


def test_the_session_of_a_run_under_way_is_not_ended_beside_its_runner(
    lastgood: Command, run: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    """P1: its task would go on outside any session."""
    runner, id = run
    for words in ((), (id,), ("--incomplete",)):
        refused = lastgood("session", "end", *words, expect=13)
        for said in (f"{id} is a run under way", *held_by(id, runner.pid)):
            assert said in refused.err
        assert f"ask it to end: kill {runner.pid}    and go on with it later: " in refused.err
        assert f"lastgood run '{tmp_path}/a plan.yaml'" in refused.err
    assert lastgood("session", "show", id, "--json").json["session"]["state"] == "active"
    subprocess.run(["kill", str(runner.pid)], check=True)
    assert runner.wait(timeout=120) == 143
    review = lastgood("recover", "--review")
    assert f"go on with its plan: lastgood run '{tmp_path}/a plan.yaml'" in review.err
    lastgood("session", "end", id)
    assert lastgood("session", "show", id, "--json").json["session"]["state"] == "ended"


def test_whoever_wants_to_work_beside_a_run_hears_who_carries_it_out(
    lastgood: Command, run: tuple[subprocess.Popen[bytes], str]
) -> None:
    """P1."""
    runner, id = run
    started = lastgood("session", "start", expect=13).err
    second = lastgood("run", "--", "true", expect=13).err
    for refused in (started, second):
        for said in (id, f"process {runner.pid} (", ", since 20", f"ask it to end: kill {runner.pid}"):
            assert said in refused
    assert "session start --force" in started


def test_a_living_session_that_is_no_run_is_ended_by_whoever_says_so(
    workspace: Workspace, agent: subprocess.Popen[bytes]
) -> None:
    """P1: hooks and people end what an agent began."""
    id = workspace.session_start(owner_pid=agent.pid).session.id
    assert workspace.session_end().session.id == id


def test_a_program_ends_its_own_session(workspace: Workspace) -> None:
    with workspace.session(owner_pid=os.getpid()) as session:
        id = session.id
    assert workspace.get_session(id).state == "ended"
