"""recover on the command line: the sentences, the questions, the exit codes (rules P7, P8)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import lastgood as package
from lastgood.cli.plans import standing_lines
from lastgood.errors import Conflict
from lastgood.model.run import RecoverReport
from lastgood.model.session import Living
from lastgood.workspace import Workspace
from lastgood.workspace.session import OpenSession
from tools.command import COMMAND, Command, told, told_as_document
from tools.living import eventually

Died = Callable[..., str]

SHORT = r"ckpt_[0-9a-f]{8}"


# Blocks that are entered and never left: a run that is killed leaves none.
left: list[AbstractContextManager[object]] = []


def work(session: OpenSession[Workspace]) -> None:
    folder = session.workspace.path
    session.progress(phase="Construction", iteration=3, step=12, steps=15, artifacts=["draft.md"])
    with open(f"{folder}/draft.md", "w", encoding="utf-8") as file:
        file.write("a draft")
    with session.task("T01"):
        pass
    left.append(session.task("T02"))
    left[-1].__enter__()
    left.append(session.step("deploy", irreversible=True))
    left[-1].__enter__()


def test_the_sentences_of_a_recovery_with_nothing_dead(lastgood: Command) -> None:
    """The words of the AIWG guide."""
    draft = lastgood.project / "draft.md"
    draft.write_text("a draft")
    words = ["--phase", "Construction", "--iteration", "3", "--step", "12/15", "--artifact", "draft.md"]
    lastgood("progress", "set", *words)
    lastgood("checkpoint", "create", "--name", "iteration-3-complete")
    draft.unlink()

    shown = lastgood("checkpoint", "recover").out

    assert re.fullmatch(
        rf"Recovering from most recent checkpoint iteration-3-complete \({SHORT}\)\.\n"
        r"Resuming Construction phase, iteration 3, step 12/15\.\n"
        r"In-progress artifact draft\.md reloaded\.\n"
        r"Ready to continue\.\n",
        shown,
    ), shown
    assert draft.read_text() == "a draft"


def test_the_sentences_of_a_recovery_of_one_checkpoint(lastgood: Command) -> None:
    (lastgood.project / "a").write_text("1")
    lastgood("progress", "set", "--phase", "Construction", "--iteration", "2", "--step", "15/15")
    saved = lastgood.save()
    shown = lastgood("checkpoint", "recover", saved).out
    assert re.fullmatch(
        rf"Recovering from checkpoint {SHORT} \(auto, \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\)\.\n"
        r"Resuming Construction phase, iteration 2, step 15/15\.\n"
        r"No in-progress artifacts\.\n"
        r"Ready to continue\.\n",
        shown,
    ), shown


def test_without_a_terminal_the_only_dead_run_goes_on(lastgood: Command, died: Died) -> None:
    id = died(work, goal="ship it")
    shown = lastgood("recover").out
    assert "Resuming Construction phase, iteration 3, step 12/15.\n" in shown
    assert "In-progress artifact draft.md is in place.\n" in shown
    assert "Tasks: 1 done, 1 pending (T02).\n" in shown
    assert "Effect unknown: step deploy of task T02, irreversible, started " in shown
    assert f"Session {id} is active again: export LASTGOOD_SESSION={id}\n" in shown
    assert shown.endswith("Ready to continue.\n")
    assert lastgood("status", "--json").json["state"] == "active"


def test_the_document_of_a_recovery(lastgood: Command, died: Died) -> None:
    id = died(work)
    document = lastgood("recover", "--continue", "--json").json
    assert document["schema"] == "lastgood.recover/1"
    assert (document["state"], document["done"]) == ("active", "continue")
    assert (document["session"]["id"], document["session"]["state"]) == (id, "active")
    assert document["checkpoint"]["session"] == id
    assert document["position"]["step"] == 12
    assert [(one["id"], one["state"]) for one in document["tasks"]] == [("T01", "done"), ("T02", "pending")]
    assert [one["name"] for one in document["unknown_effects"]] == ["deploy", "T02"]
    assert (document["live_processes"], document["git_matches"], document["files"]) == ([], None, [])
    assert document["artifacts"] == [{"path": "draft.md", "state": "present"}]


def test_fresh_says_what_to_type(lastgood: Command, died: Died) -> None:
    id = died(work, goal="ship it")
    shown = lastgood("recover", "--fresh").out
    assert f"Session {id} was ended; its checkpoints stay, and no file was touched.\n" in shown
    assert "Effect unknown: step deploy" in shown
    assert shown.endswith("lastgood session start --goal 'ship it'\n")
    assert "incomplete" not in lastgood("status").out


def test_review_only_tells(lastgood: Command, died: Died) -> None:
    id = died(work)
    done = lastgood("recover", "--review")
    assert f"Session {id}: stopped without finishing, process " in done.out
    assert "It stood at Construction phase, iteration 3, step 12/15.\n" in done.out
    assert "Tasks: 1 done, 1 running (T02).\n" in done.out
    assert f"go on: lastgood recover {id} --continue" in done.err
    assert "incomplete" in lastgood("status").out


def test_what_outlived_a_run_is_told_with_the_way_to_stop_it() -> None:
    """P7: it may write again into what is taken back."""
    left = (Living(pid=71, command="sleep 600"), Living(pid=72, command="make " + "x" * 99))
    first, second, way = standing_lines(RecoverReport(state="incomplete", live_processes=left), now=0)
    assert first == "Still running: process 71 (sleep 600)."
    assert second.endswith("x…).")
    assert way == "  stop them: kill 71 72"


def test_several_dead_runs_are_listed(lastgood: Command, died: Died) -> None:
    """P7."""
    first, second = died(), died()
    for words in (["recover"], ["recover", "--continue"], ["recover", "--fresh"]):
        done = lastgood(*words, expect=11)
        assert first in done.err
        assert second in done.err
        assert "--continue" in done.err
        told_as_document(lastgood(*words, "--json", expect=11), 11)
    assert first in lastgood("recover", first, "--continue").out


def test_rollback_takes_the_files_back(lastgood: Command, died: Died) -> None:
    died(work)
    (lastgood.project / "late").write_text("late")
    done = lastgood("recover", "--continue", "--rollback")
    assert "Files taken back to ckpt_" in done.out
    assert "take the files back with: lastgood undo" in done.err
    assert not (lastgood.project / "late").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--continue", "--fresh"],
        ["--review", "--fresh"],
        ["--fresh", "--rollback"],
        ["--review", "--rollback"],
        ["--owner-pid", "0"],
        ["--owner-pid", "me"],
        ["--continue", "one", "two"],
    ],
)
def test_what_contradicts_itself_is_refused(lastgood: Command, died: Died, words: list[str]) -> None:
    id = died()
    told(lastgood("recover", *words, expect=2), 2)
    assert lastgood("session", "show", id, "--json").json["session"]["state"] == "incomplete"


@pytest.mark.parametrize(
    ("answers", "code", "state"),
    [
        ("c\n", 0, "active"),
        ("continue\n", 0, "active"),
        ("e\n", 0, "ended"),
        ("\n", 130, "incomplete"),
        ("x\n\n", 130, "incomplete"),
    ],
)
def test_on_a_terminal_a_person_decides(
    lastgood: Command, died: Died, answers: str, code: int, state: str
) -> None:
    id = died(work)
    done = lastgood.terminal("recover", answers=answers, expect=code)
    assert "It stood at Construction phase" in done.out
    assert lastgood("session", "show", id, "--json").json["session"]["state"] == state


def test_on_a_terminal_one_of_several_is_picked(lastgood: Command, died: Died) -> None:
    first, second = died(), died()
    done = lastgood.terminal("recover", answers="2\nc\n")
    assert f"  1  Session {second}" in done.out
    assert f"Session {first} is active again" in done.out


def test_on_a_terminal_nothing_is_asked_when_nothing_died(lastgood: Command) -> None:
    (lastgood.project / "a").write_text("1")
    lastgood("save")
    assert "Ready to continue." in lastgood.terminal("recover").out


def test_the_check_of_the_aiwf_guide_finds_an_incomplete_session(lastgood: Command, died: Died) -> None:
    """P8: `status` says so, and ends with 0."""
    check = f'if {COMMAND} checkpoint status | grep -q "incomplete"; then echo "Found incomplete session"; fi'

    def found() -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", check],
            cwd=lastgood.project,
            env=lastgood.environment | {"PATH": f"{os.path.dirname(COMMAND)}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    (lastgood.project / "a").write_text("1")
    lastgood("save")
    assert found() == ""
    died(work)
    assert found() == "Found incomplete session\n"
    lastgood("recover", "--fresh")
    assert found() == ""


def test_a_run_goes_on_where_its_store_was_brought_by_import(
    lastgood: Command, died: Died, tmp_path: Path
) -> None:
    """P7, P8: on a fresh runner, where nobody can see its owner."""
    id = died(work, goal="ship it")
    lastgood("export", str(tmp_path / "kept.lastgood"))
    lastgood.project.rename(tmp_path / "not on that machine")
    runner = tmp_path / "runner"
    runner.mkdir()
    there = Command(runner, tmp_path / "store of the runner")
    there("import", str(tmp_path / "kept.lastgood"), "--attach")
    assert "incomplete" in there("checkpoint", "status").out

    document = there("recover", "--continue", "--rollback", "--json").json

    assert (document["done"], document["session"]["id"]) == ("continue", id)
    assert (runner / "draft.md").read_text() == "a draft"
    assert [one["name"] for one in document["unknown_effects"]] == ["deploy", "T02"]
    assert "incomplete" not in there("checkpoint", "status").out


def test_hostile_words_are_shown_escaped(lastgood: Command, died: Died) -> None:
    def die(session: OpenSession[Workspace]) -> None:
        session.progress(phase="x\u202ey", artifacts=[b"a\nb\xff"])
        left.append(session.step("s\u2066p", irreversible=True))
        left[-1].__enter__()

    died(die, goal="\u202eevil 'goal'")
    for words in (["--review"], ["--continue"]):
        shown = lastgood("recover", *words)
        assert not any(ch in shown.out + shown.err for ch in "\u202e\u2066")
        assert "a\\x0ab\\xff" in shown.out
        json.loads(lastgood("recover", "--review", "--json").out)


# Recovering and ending beside sessions that live: who holds them, and what to type (P1, P7, T14).


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
    assert eventually((tmp_path / "began").exists)
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
    assert caught.value.hint == f"end it: lastgood session end {other}\nor take over from it: --force"

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
    assert lastgood("recover", "--review", "--json").json["took_over"] is None


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
        assert f"ask it to end: kill {runner.pid}\n  and go on with it later: " in refused.err
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
