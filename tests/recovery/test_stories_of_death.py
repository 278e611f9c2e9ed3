"""An agent died or broke things: one command brings its user back, whatever ended it (P7, P7a, P7b, P7d)."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.command import COMMAND, Command, killed_restore, told

LASTGOOD = f"'{sys.executable}' '{COMMAND}'"
START = f"{LASTGOOD} session start -q --goal prices"

Shell = Callable[[str], subprocess.CompletedProcess[str]]


def task(id: str, *, change: str = ":") -> str:
    return f"{LASTGOOD} task start {id} && {change} && {LASTGOOD} task done {id}"


HALF = f"{LASTGOOD} task start T2; echo broken > prices; echo junk > junk"
SCRIPT = f"{START}; {task('T1', change='echo 10 > prices')}; {HALF}"


def sessions(lastgood: Command) -> dict[str, str]:
    return {one["goal"]: one["state"] for one in lastgood("session", "list", "--json").json["sessions"]}


def states(lastgood: Command) -> dict[str, str]:
    (session,) = lastgood("session", "list", "--json").json["sessions"]
    return {one["id"]: one["state"] for one in session["progress"]["tasks"]}


def wrecked(project: Path) -> bool:
    return (project / "prices").read_text() == "broken\n" and (project / "junk").exists()


def restored(project: Path) -> bool:
    return (project / "prices").read_text() == "10\n" and not (project / "junk").exists()


# A run that died: status says so, recover goes on, --rollback takes half-done work back.


@pytest.mark.parametrize("death", ["kill -KILL $$", "kill -TERM $$", "kill -HUP $$", "exit 3"])
def test_a_shell_that_died_is_told_and_taken_back_by_one_command(
    lastgood: Command, shell: Shell, death: str
) -> None:
    shell(f"{SCRIPT}; {death}")
    assert wrecked(lastgood.project)
    assert "incomplete" in lastgood("status").out

    done = lastgood("recover", "--rollback")

    assert restored(lastgood.project)
    assert "Files taken back to ckpt_" in done.out
    assert "Tasks: 1 done, 1 pending (T2)." in done.out
    assert "take the files back with: lastgood undo" in done.err
    lastgood("undo")
    assert wrecked(lastgood.project)


def test_a_shell_that_died_goes_on_where_it_stood(lastgood: Command, shell: Shell) -> None:
    shell(f"{SCRIPT}; kill -9 $$")
    done = lastgood("recover")
    assert "Tasks: 1 done, 1 pending (T2)." in done.out
    assert done.out.endswith("Ready to continue.\n")
    assert wrecked(lastgood.project)
    assert sessions(lastgood) == {"prices": "active"}


def test_after_a_plain_recovery_files_can_still_be_taken_back(lastgood: Command, shell: Shell) -> None:
    """P7b."""
    shell(f"{SCRIPT}; kill -9 $$")
    lastgood("recover")
    done = lastgood("recover", "--rollback")
    assert restored(lastgood.project)
    assert "Files taken back to" in done.out


PROGRAM = """
import os, signal, sys
import lastgood
with lastgood.open(maintenance="off") as workspace, workspace.session(goal="prices") as session:
    with session.task("T1"):
        open("prices", "w").write("10\\n")
    with session.task("T2"):
        open("prices", "w").write("broken\\n")
        open("junk", "w").close()
        DEATH
"""


@pytest.mark.parametrize(
    "death",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGHUP)",
        "raise RuntimeError('no')",
        "sys.exit(3)",
    ],
)
def test_a_program_that_died_is_taken_back_whatever_ended_it(lastgood: Command, death: str) -> None:
    """P7b: also where it made a checkpoint of the damage on its way out."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("DEATH", death)],
        cwd=lastgood.project,
        env=lastgood.environment | {"PYTHONPATH": str(Path(COMMAND).parent / "src")},
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0
    assert wrecked(lastgood.project)
    assert "incomplete" in lastgood("status").out
    lastgood("recover", "--rollback")
    assert restored(lastgood.project)
    assert states(lastgood) == {"T1": "done", "T2": "pending"}


def test_an_agent_with_a_new_shell_for_each_call_is_taken_back(lastgood: Command) -> None:
    agent = (
        "import os, signal, subprocess, sys\n"
        "for line in sys.argv[1:]: subprocess.run(['sh', '-c', line], check=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    lines = [START, f"{LASTGOOD} task start T1", "echo 10 > prices", f"{LASTGOOD} task done T1"]
    lines += [f"{LASTGOOD} task start T2", "echo broken > prices; echo junk > junk"]
    subprocess.run(
        [sys.executable, "-c", agent, *lines],
        cwd=lastgood.project,
        env=lastgood.environment,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert wrecked(lastgood.project)
    assert "incomplete" in lastgood("status").out
    lastgood("recover", "--rollback")
    assert restored(lastgood.project)


MANY_SHELLS = """
import subprocess, sys
from concurrent.futures import ThreadPoolExecutor
first, beat = sys.argv[1:]
subprocess.run(["sh", "-c", first], check=True, stdout=subprocess.DEVNULL)
busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
with ThreadPoolExecutor(4) as pool:
    codes = list(pool.map(lambda _: subprocess.run(["sh", "-c", beat + " >&2"]).returncode, range(30)))
for one in busy:
    one.kill()
print(sum(codes), flush=True)
sys.stdin.read()
"""


def test_an_agent_that_lives_through_many_shells_is_never_taken_for_dead(lastgood: Command) -> None:
    """P1, P7a: under load, four of them at a time; nor is it taken for living afterwards."""
    seen = []
    with subprocess.Popen(
        [sys.executable, "-c", MANY_SHELLS, SCRIPT, f"{LASTGOOD} session heartbeat -q"],
        cwd=lastgood.project,
        env=lastgood.environment,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdout is not None
        is_done = False
        while not is_done:
            is_done = bool(select.select([agent.stdout], [], [], 1)[0])
            seen += lastgood("session", "list", "--json").json["sessions"]
        failed = agent.stdout.readline()
        refused = lastgood("recover", "--rollback", expect=None)
        agent.kill()

    assert failed == "0\n"
    assert {one["state"] for one in seen} == {"active"}
    assert refused.code == 13
    assert wrecked(lastgood.project)
    assert sessions(lastgood) == {"prices": "incomplete"}
    lastgood("recover", "--rollback")
    assert restored(lastgood.project)


def test_a_session_that_is_ended_with_tasks_left_has_not_finished(lastgood: Command, shell: Shell) -> None:
    """P7b, P8."""
    done = shell(f"{SCRIPT}; {LASTGOOD} session end")
    assert done.returncode == 0
    assert "left incomplete" in done.stdout
    assert "lastgood recover sess_" in done.stderr
    assert "incomplete" in lastgood("status").out
    lastgood("recover", "--rollback")
    assert restored(lastgood.project)


def test_a_session_whose_tasks_are_done_ends(lastgood: Command, shell: Shell) -> None:
    shell(f"{START}; {task('T1')}; {LASTGOOD} task start T2; {LASTGOOD} task fail T2; {LASTGOOD} session end")
    assert sessions(lastgood) == {"prices": "ended"}


# Of whom nobody knows whether they live.


def test_of_a_session_that_nobody_is_proven_to_be_at_recover_asks(lastgood: Command, shell: Shell) -> None:
    """P7a: exit code 2, with what is known, and the three lines to type."""
    shell(f"{START}; kill -9 $$")
    refused = lastgood("recover", expect=2)
    told(refused, 2)
    assert "(prices): last sign of life " in refused.err
    assert "its owner is unknown" in refused.err
    for option in ("--continue", "--rollback", "--fresh"):
        assert "lastgood recover sess_" in refused.err
        assert option in refused.err
    assert sessions(lastgood) == {"prices": "active"}


@pytest.mark.parametrize(
    ("option", "state"), [("--continue", "active"), ("--rollback", "incomplete"), ("--fresh", "ended")]
)
def test_what_was_chosen_is_done(lastgood: Command, shell: Shell, option: str, state: str) -> None:
    """P7a."""
    shell(f"{START}; echo broken > prices; kill -9 $$")
    lastgood("recover", option)
    assert sessions(lastgood) == {"prices": state}
    assert (lastgood.project / "prices").exists() == (option != "--rollback")


def test_beside_an_owner_that_is_proven_to_live_nothing_is_recovered(lastgood: Command) -> None:
    """P7a: but by force."""
    with subprocess.Popen(["sleep", "600"]) as agent:
        id = lastgood("session", "start", "-q", "--owner-pid", str(agent.pid)).out.strip()
        for option in ("--continue", "--rollback", "--fresh"):
            refused = lastgood("recover", option, expect=13)
            assert f"held by process {agent.pid} (" in refused.err
        assert lastgood("recover", "--continue", "--force", "--json").json["session"]["id"] == id
        agent.kill()


def test_a_session_of_the_very_shell_keeps_nobody_from_recovering_a_checkpoint(lastgood: Command) -> None:
    """P7, P7a."""
    lastgood("progress", "set", "--phase", "Construction", "--step", "1/3")
    saved = lastgood.save()
    lastgood("progress", "set", "--phase", "Construction", "--step", "2/3")
    lastgood("session", "start", "-q")
    for task in "T1", "T2":  # by which the owner is found: whoever runs these tests
        lastgood("task", "start", task)
        lastgood("task", "skip", task)
    said = lastgood("recover", saved).out
    assert said.startswith(f"Recovering from checkpoint {saved[:13]} (")
    assert "Resuming Construction phase, step 1/3.\n" in said
    assert said.endswith("Ready to continue.\n")
    assert "step 1/3" in lastgood("progress", "show").out


def test_beside_a_session_of_an_unknown_owner_nothing_is_said_to_be_nothing(
    lastgood: Command, shell: Shell
) -> None:
    """P7a."""
    saved = lastgood.save()
    shell(f"{START}; kill -9 $$")
    said = lastgood("recover", saved)
    assert "nothing to recover" not in said.out
    assert "(prices) did not finish: lastgood recover sess_" in said.err


def test_on_a_terminal_a_person_is_asked_about_it(lastgood: Command, shell: Shell) -> None:
    """P7a."""
    shell(f"{START}; echo broken > prices; kill -9 $$")
    asked = lastgood.terminal("recover", answers="b\nn\n", expect=130).out
    assert "did not finish, its owner is unknown" in asked
    assert "delete  prices" in asked
    assert "What is there now is saved first: `lastgood undo` brings it back." in asked
    assert (lastgood.project / "prices").exists()
    lastgood.terminal("recover", answers="b\ny\n")
    assert not (lastgood.project / "prices").exists()


AGENT = """
import subprocess, sys
subprocess.run(["sh", "-c", sys.argv[1]], check=True, stdout=subprocess.DEVNULL)
print("begun", flush=True)
sys.stdin.read()
"""


@contextmanager
def at_work(lastgood: Command, script: str) -> Iterator[None]:
    """Have an agent carry out a script by a shell of its own, and go on living."""
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, script],
        cwd=lastgood.project,
        env=lastgood.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "begun\n"
        yield
        agent.kill()


def test_who_goes_on_with_a_dead_run_does_not_evict_an_agent_at_work(lastgood: Command, shell: Shell) -> None:
    """P1, P7a: though both were begun below the same shell; by force it does, and says so."""
    shell(f"{SCRIPT}; kill -9 $$")
    with at_work(lastgood, f"{LASTGOOD} session start -q --goal taxes; true"):
        refused = lastgood("recover", "prices", "--continue", expect=13)
        assert "cannot go on beside sess_" in refused.err
        assert sessions(lastgood) == {"taxes": "active", "prices": "incomplete"}
        forced = lastgood("recover", "prices", "--continue", "--force", "--json").json
        assert forced["took_over"].startswith("sess_")
        assert sessions(lastgood) == {"taxes": "ended", "prices": "active"}


def test_a_rollback_that_is_refused_leaves_the_session_as_it_was(lastgood: Command, shell: Shell) -> None:
    """P7a, T14: nobody is proven to be at it, and another one has a task under way."""
    shell(f"{START}; echo broken > prices; true")
    other = f"LASTGOOD_SESSION=$({LASTGOOD} session start -q --shared --goal taxes); export LASTGOOD_SESSION"
    with at_work(lastgood, f"{other}; {LASTGOOD} task start T9; true"):
        before = lastgood("session", "list", "--json").json
        prices = next(one["id"] for one in before["sessions"] if one["goal"] == "prices")
        assert "is at task T9" in lastgood("recover", prices, "--rollback", expect=13).err
        assert lastgood("session", "list", "--json").json["sessions"] == before["sessions"]
    assert (lastgood.project / "prices").exists()


# Where a rollback leads.


def test_the_checkpoint_before_the_first_attempt_counts(lastgood: Command, shell: Shell) -> None:
    """P7b: what an attempt that failed left is no ground to stand on."""
    again = f"{LASTGOOD} task start T2; echo worse > prices; {LASTGOOD} task fail T2"
    shell(f"{START}; {task('T1', change='echo 10 > prices')}; {again}; {again}; {HALF}; kill -9 $$")
    lastgood("recover", "--rollback")
    assert restored(lastgood.project)


def test_a_failed_task_with_one_done_later_is_no_target(lastgood: Command, shell: Shell) -> None:
    """P7b."""
    failed = f"{LASTGOOD} task start T1; echo tried > tried; {LASTGOOD} task fail T1"
    shell(f"{START}; {failed}; {task('T2', change='echo 10 > prices')}; echo junk > junk; kill -9 $$")
    lastgood("recover", "--rollback")
    assert restored(lastgood.project)
    assert (lastgood.project / "tried").exists()


def test_a_failure_that_ended_the_run_is_taken_back(lastgood: Command, shell: Shell) -> None:
    """P7b."""
    shell(f"{START}; {task('T1', change='echo 10 > prices')}; {HALF}; {LASTGOOD} task fail T2; kill -9 $$")
    lastgood("recover", "--rollback")
    assert restored(lastgood.project)


def test_a_newer_good_checkpoint_of_the_session_is_the_ground(lastgood: Command, shell: Shell) -> None:
    """P7b."""
    good = (
        f"echo good > prices; LASTGOOD_SESSION=$S {LASTGOOD} save -q half --check true; echo broken > prices"
    )
    shell(f"S=$({START}); {task('T1')}; {LASTGOOD} task start T2; {good}; kill -9 $$")
    lastgood("recover", "--rollback")
    assert (lastgood.project / "prices").read_text() == "good\n"


def test_tasks_done_after_the_target_are_named_and_pending_again(lastgood: Command, shell: Shell) -> None:
    """P7b."""
    both = f"{LASTGOOD} task start T1; {task('T2', change='echo 20 > prices')}"
    shell(f"{START}; {both}; kill -9 $$")
    done = lastgood("recover", "--rollback")
    assert "To be done again, as they were done after it: T2." in done.out
    assert states(lastgood) == {"T1": "pending", "T2": "pending"}
    assert not (lastgood.project / "prices").exists()


def test_without_tasks_it_is_the_beginning_of_the_session(lastgood: Command, shell: Shell) -> None:
    """P7b."""
    (lastgood.project / "prices").write_text("10\n")
    save = f"LASTGOOD_SESSION=$S {LASTGOOD} save -q one"
    shell(f"S=$({START}); echo 20 > prices; {save}; echo 30 > prices; {save}; kill -9 $$")
    lastgood("recover", "--rollback")
    assert (lastgood.project / "prices").read_text() == "10\n"


def test_what_changed_after_the_last_sign_of_life_is_named_first(lastgood: Command, shell: Shell) -> None:
    """P7b."""
    shell(f"{SCRIPT}; kill -9 $$")
    (lastgood.project / "prices").write_text("by hand\n")
    done = lastgood("recover", "--rollback")
    assert "last sign of life" in done.err
    assert "  prices\n" in done.err
    assert restored(lastgood.project)


def test_a_rollback_that_changes_nothing_does_not_claim_to_have(lastgood: Command, shell: Shell) -> None:
    """P7b."""
    shell(f"{START}; {task('T1', change='echo 10 > prices')}; {LASTGOOD} task start T2; kill -9 $$")
    done = lastgood("recover", "--rollback")
    assert "No file was taken back: all are as in ckpt_" in done.out
    assert "Files taken back" not in done.out


def test_very_many_deletions_are_asked_about(lastgood: Command, shell: Shell) -> None:
    """P7b, T16: off a terminal the plan's id says yes."""
    shell(f"{START}; {LASTGOOD} task start T1; for n in $(seq 60); do echo $n > f$n; done; kill -9 $$")
    refused = lastgood("recover", "--rollback", expect=15)
    assert "60 files" in refused.err
    plan = refused.err.split("--plan ")[1].split()[0]
    assert (lastgood.project / "f1").exists()
    lastgood("recover", "--rollback", "--plan", plan)
    assert not (lastgood.project / "f1").exists()


def test_where_nothing_died_a_rollback_leads_to_the_checkpoint_that_was_named(lastgood: Command) -> None:
    """P7b."""
    prices = lastgood.project / "prices"
    prices.write_text("10\n")
    saved = lastgood.save()
    prices.write_text("20\n")
    lastgood.save()
    done = lastgood("recover", saved, "--rollback")
    assert prices.read_text() == "10\n"
    assert "Files taken back to" in done.out
    told(lastgood("recover", "--rollback", expect=10), 10)


# Position and progress: what is told is what is recorded.


def test_whoever_recovers_an_older_checkpoint_goes_on_from_its_position(lastgood: Command) -> None:
    """P7."""
    (lastgood.project / "a").write_text("1")
    lastgood("progress", "set", "--phase", "Construction", "--iteration", "2")
    older = lastgood.save("--name", "older")
    (lastgood.project / "a").write_text("2")
    lastgood("progress", "set", "--iteration", "3")
    shown = lastgood("recover", older).out
    assert "Resuming Construction phase, iteration 2." in shown
    assert lastgood("progress", "show", "--json").json["position"]["iteration"] == 2


# Several of them.


def test_several_dead_runs_are_told_with_goal_age_and_what_was_left(lastgood: Command, shell: Shell) -> None:
    """P7d: and each is found by its goal."""
    shell(f"{SCRIPT}; kill -9 $$")
    with subprocess.Popen(["sleep", "600"]) as agent:
        second = lastgood("session", "start", "--goal", "taxes", "--owner-pid", str(agent.pid))
        agent.kill()
    assert "did not finish" in second.err
    refused = lastgood("recover", expect=11)
    assert "(prices): last sign of life " in refused.err
    assert "1 of 2 tasks left (T2)" in refused.err
    assert "(taxes): last sign of life " in refused.err
    lastgood("recover", "prices", "--rollback")
    assert restored(lastgood.project)
    assert sessions(lastgood) == {"prices": "incomplete", "taxes": "incomplete"}


# A session that starts beside one that did not finish.


def test_a_start_beside_one_that_did_not_finish_says_so_and_both_stay(
    lastgood: Command, shell: Shell
) -> None:
    """P7d: off a terminal; the older one stays to be had by its goal."""
    shell(f"{SCRIPT}; kill -9 $$")
    started = lastgood("session", "start", "--goal", "next")
    assert "did not finish; see where it stood: lastgood recover sess_" in started.err
    assert sessions(lastgood) == {"next": "active", "prices": "incomplete"}
    lastgood("recover", "prices", "--rollback", "--continue")
    assert restored(lastgood.project)
    assert sessions(lastgood) == {"next": "incomplete", "prices": "active"}


@pytest.mark.parametrize(
    ("answers", "code", "found"),
    [
        ("c\n", 0, {"prices": "active"}),
        ("f\n", 0, {"next": "active", "prices": "ended"}),
        ("r\nc\n", 0, {"prices": "active"}),
        ("\n", 130, {"prices": "incomplete"}),
    ],
)
def test_on_a_terminal_a_start_asks_about_one_that_did_not_finish(
    lastgood: Command, shell: Shell, answers: str, code: int, found: dict[str, str]
) -> None:
    """P7d."""
    shell(f"{SCRIPT}; kill -9 $$")
    done = lastgood.terminal("session", "start", "--goal", "next", answers=answers, expect=code)
    assert "(prices): stopped without finishing" in done.out
    assert ("Tasks: 1 done, 1 running (T2)." in done.out) == answers.startswith("r")
    assert sessions(lastgood) == found


@pytest.mark.parametrize(
    ("answers", "code", "found"),
    [
        ("f\nf\n", 0, {"next": "active", "taxes": "ended", "prices": "ended"}),
        ("f\nc\n", 0, {"taxes": "ended", "prices": "active"}),
        ("f\n\n", 130, {"taxes": "ended", "prices": "incomplete"}),
        ("what\nc\n", 0, {"taxes": "active", "prices": "incomplete"}),
    ],
)
def test_on_a_terminal_a_start_asks_about_each_that_did_not_finish(
    lastgood: Command, shell: Shell, answers: str, code: int, found: dict[str, str]
) -> None:
    """P7d: the newest first."""
    shell(f"{SCRIPT}; kill -9 $$")
    shell(f"{SCRIPT.replace('prices', 'taxes')}; kill -9 $$")
    done = lastgood.terminal("session", "start", "--goal", "next", answers=answers, expect=code)
    assert ("please answer c, f or r" in done.out) == answers.startswith("what")
    assert sessions(lastgood) == found


def test_what_was_taken_over_by_force_is_had_back_by_its_goal(lastgood: Command, shell: Shell) -> None:
    """P7d, P1: no hint leads to what cannot be recovered."""
    shell(f"{START}; {LASTGOOD} task start T1")
    lastgood("session", "start", "--goal", "next", "--force")
    lastgood("recover", "prices", "--continue")
    assert sessions(lastgood) == {"next": "incomplete", "prices": "active"}


# A checkout made anew elsewhere, with the store beside it.


def test_a_fresh_checkout_finds_what_was_left_elsewhere(
    lastgood: Command, shell: Shell, tmp_path: Path
) -> None:
    """P7d, P8: so that the check of the AIWF guide works there as it is written."""
    shell(f"{SCRIPT}; kill -9 $$")
    lastgood.project.rename(tmp_path / "gone")
    checkout = tmp_path / "runner" / lastgood.project.name
    checkout.mkdir(parents=True)
    there = Command(checkout, lastgood.store)
    assert "incomplete" in there("checkpoint", "status").out
    assert f"lastgood workspace attach {lastgood.project}" in there("report").out
    shown = there("recover")
    assert "(prices) of " in shown.out
    assert f"lastgood workspace attach {lastgood.project}" in shown.err
    there("workspace", "attach", str(lastgood.project))
    assert "incomplete" in there("checkpoint", "status").out
    there("recover", "--rollback", "--continue")
    assert (checkout / "prices").read_text() == "10\n"
    assert "incomplete" not in there("checkpoint", "status").out


def test_another_project_hears_nothing_of_what_was_left_elsewhere(
    lastgood: Command, shell: Shell, tmp_path: Path
) -> None:
    """P8: its folder is there."""
    shell(f"{SCRIPT}; kill -9 $$")
    other = tmp_path / "runner" / lastgood.project.name
    other.mkdir(parents=True)
    assert "incomplete" not in Command(other, lastgood.store)("status").out


# Retention.


def test_retention_keeps_where_an_unfinished_session_is_taken_back_to(
    lastgood: Command, shell: Shell
) -> None:
    """K1: with its reason."""
    shell(f"{SCRIPT}; kill -9 $$")
    for n in range(3):
        (lastgood.project / "later").write_text(str(n))
        lastgood.save()
    decisions = lastgood("prune", "--keep", "1", "--json").json
    assert any("recover --rollback of sess_" in one["reason"] for one in decisions["keep"])
    lastgood("recover", "--rollback")
    assert restored(lastgood.project)


def test_after_a_killed_restore_was_finished_recover_tells_where_the_workspace_stands(
    lastgood: Command,
) -> None:
    """P7: the checkpoint that it equals now, not the newest."""
    prices = lastgood.project / "prices"
    ids = []
    for text in ("10", "20"):
        prices.write_text(text)
        ids.append(lastgood.save())
    killed_restore(lastgood, ids[0])
    done = lastgood("recover", "--json").json
    assert prices.read_text() == "10"
    assert (done["done"], done["checkpoint"]["id"]) == ("finished-restore", ids[0])
