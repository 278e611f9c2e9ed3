"""Where a rollback leads when work was taken back, restored or tried again before (P7b)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.workspace import Workspace
from tools.command import COMMAND, PATIENCE, Command, killed_restore, told
from tools.telling import Host

LASTGOOD = f"'{sys.executable}' '{COMMAND}'"
START = f"export LASTGOOD_SESSION=$({LASTGOOD} session start -q --goal prices)"
DIE = "kill -9 $$"

Shell = Callable[[str], subprocess.CompletedProcess[str]]


def script(*lines: str) -> str:
    """Return a shell's script; a line that begins with a colon is one of lastgood."""
    return "\n".join(f"{LASTGOOD} {line[1:]}" if line.startswith(":") else line for line in lines)


def names(project: Path) -> set[str]:
    return {path.name for path in project.iterdir()}


# What an attempt left is no ground to stand on.


def test_what_an_attempt_left_does_not_come_back_when_another_one_died(
    lastgood: Command, shell: Shell
) -> None:
    """P7b: the session's own end saved it, and that is the newest checkpoint."""
    shell(
        script(
            START,
            ":task start A; echo A > a",
            ":task done A",
            ":task start B; echo x > bad",
            ":task fail B",
            ":session end --incomplete",
        )
    )
    lastgood("recover", "prices", "--rollback")
    assert names(lastgood.project) == {"a"}
    (id,) = [one["id"] for one in lastgood("session", "list", "--json").json["sessions"]]
    again = f"export LASTGOOD_SESSION={id}"
    shell(script(again, ":task start B; echo y > b2", ":session end --incomplete"))

    lastgood("recover", "prices", "--rollback")

    assert names(lastgood.project) == {"a"}


def test_a_branch_that_was_left_by_a_restore_is_no_ground(lastgood: Command, shell: Shell) -> None:
    """P7b: the way back is that of the history, not of the numbers."""
    shell(
        script(
            "echo 1 > f",
            f"{START}; echo 2 > f",
            ":save one; echo x > bad",
            ":save two",
            ":restore one -y",
            f":task start C; echo 3 > f; {DIE}",
        )
    )
    lastgood("recover", "prices", "--rollback")
    assert names(lastgood.project) == {"f"}
    assert (lastgood.project / "f").read_text() == "2\n"


def test_the_end_of_an_unfinished_attempt_is_no_ground_for_another_task(
    lastgood: Command, shell: Shell
) -> None:
    """P7b: nor what was saved when it failed."""
    shell(
        script(
            START,
            ":task start A; echo A > a",
            ":task done A",
            ":task start B; echo x > bad",
            ":task fail B",
            ":session end --incomplete",
        )
    )
    lastgood("recover", "prices", "--continue")
    (id,) = [one["id"] for one in lastgood("session", "list", "--json").json["sessions"]]
    shell(script(f"export LASTGOOD_SESSION={id}", f":task start C; echo c > c; {DIE}"))
    lastgood("recover", "prices", "--rollback", "--force")
    assert names(lastgood.project) == {"a"}


def test_where_another_session_stopped_is_ground_for_the_next_one(lastgood: Command, shell: Shell) -> None:
    """P7b: it had no task under way."""
    shell(script(START, "echo 1 > f", ":session end --incomplete"))
    shell(script(START.replace("prices", "taxes"), f":task start A; echo 2 > g; {DIE}"))
    lastgood("recover", "taxes", "--rollback")
    assert names(lastgood.project) == {"f"}


# What was restored inside a session, and what is saved at the ends of turns.


@pytest.mark.parametrize(
    "restored", ["restore one a -y", "restore one -y --only files -- a", "restore one a --merge -y"]
)
def test_a_restore_of_some_paths_does_not_move_where_a_rollback_leads(
    lastgood: Command, shell: Shell, restored: str
) -> None:
    """P7b: a guard and some paths are no reason to go back further."""
    shell(
        script(
            f"{START}; echo 1 > a",
            ":save one; echo 2 > a; echo 2 > b",
            ":save two",
            ":task start T; echo bad > a; echo junk > junk",
            f":{restored}; echo worse > b",
            DIE,
        )
    )
    lastgood("recover", "--rollback")
    assert names(lastgood.project) == {"a", "b"}
    assert (lastgood.project / "a").read_text() == "2\n"
    assert (lastgood.project / "b").read_text() == "2\n"


def test_files_that_were_restored_within_a_task_leave_that_under_way(lastgood: Command, shell: Shell) -> None:
    """P7b: all files went back to before it, and its work began anew."""
    shell(
        script(
            f"{START}; echo 1 > a",
            ":save one",
            ":task start T; echo bad > a",
            ":restore one -y --only files; echo worse > a",
            DIE,
        )
    )
    lastgood("recover", "--rollback")
    assert (lastgood.project / "a").read_text() == "1\n"


def test_between_tasks_it_is_the_end_of_the_last_one_that_is_still_there(
    lastgood: Command, shell: Shell
) -> None:
    """P7b: what a restore took back was done later, and does not come again."""
    shell(
        script(
            START,
            ":task start A; echo A > a",
            ":task done A",
            ":task start B; echo B > b",
            ":task done B",
            ":restore task:A -y; echo junk > junk",
            DIE,
        )
    )
    lastgood("recover", "--rollback")
    assert names(lastgood.project) == {"a"}


def test_a_second_rollback_leads_where_the_first_one_did(lastgood: Command, shell: Shell) -> None:
    """P7b: to what was saved before the task, though another one had ended earlier."""
    shell(
        script(
            START,
            ":task start A; echo A > a",
            ":task done A; echo wip > wip",
            f":save wip; {LASTGOOD} task start B; echo junk > junk",
            DIE,
        )
    )
    first = lastgood("recover", "--rollback", "--json").json["rolled_back_to"]
    (lastgood.project / "junk").write_text("again")
    second = lastgood("recover", "--rollback", "--json").json["rolled_back_to"]
    assert (first, names(lastgood.project)) == (second, {"a", "wip"})


def test_the_end_of_the_turn_before_is_where_the_open_turn_began(lastgood: Command, shell: Shell) -> None:
    """P7b: a host may save no more than the ends of turns."""
    turn = ":save -q --kind turn turn"
    shell(script(f"{START}; echo 1 > f", turn, "echo 2 > f", turn, "echo broken > f", DIE))
    lastgood("recover", "--rollback")
    assert (lastgood.project / "f").read_text() == "2\n"


def test_the_checkpoint_before_the_open_turn_is_where_it_began(lastgood: Command, shell: Shell) -> None:
    """P7b: what a person changed between two turns stays."""
    before, after = (f":save -q --kind turn --meta moment={one} turn" for one in ("before", "after"))
    shell(
        script(
            f"{START}; echo 1 > f",
            before,
            "echo 2 > f",
            after,
            "echo by hand > f",
            before,
            "echo broken > f",
            ":save -q --kind tool tool; echo worse > f",
            DIE,
        )
    )
    lastgood("recover", "--rollback")
    assert (lastgood.project / "f").read_text() == "by hand\n"


# Whose progress comes with the files.


def test_a_finished_session_lends_a_waiting_one_no_tasks(lastgood: Command, shell: Shell) -> None:
    """P7b: a checkpoint of it is refused, with what to do instead; that works."""
    shell(script(START, ":task start A; echo A > a", ":task done A", ":session end"))
    ended = lastgood("list", "--json").json["checkpoints"][0]["id"]
    shell(script(START.replace("prices", "taxes"), f":task start B; echo B > b; {DIE}"))

    refused = lastgood("recover", ended, "--rollback", expect=13)

    told(refused, 13)
    assert "belongs to another session" in refused.err
    assert f"lastgood restore {ended[:13]}" in refused.err
    assert names(lastgood.project) == {"a", "b"}
    lastgood("restore", ended, "-y")
    lastgood("recover", "taxes", "--continue")
    assert names(lastgood.project) == {"a"}
    assert tasks_of(lastgood, "taxes") in ({}, {"B": "pending"})


def test_files_of_before_a_session_bring_no_tasks_of_another_one(lastgood: Command, shell: Shell) -> None:
    """P7b: where its own first checkpoint is gone, it is the end of the one before."""
    shell(script(START, ":task start A; echo A > a", ":task done A", ":session end"))
    shell(script(START.replace("prices", "taxes"), f":task start B; echo B > b; {DIE}"))
    first = lastgood("list", "--kind", "session-start", "--json").json["checkpoints"][0]["id"]
    lastgood("delete", first, "-y")

    lastgood("recover", "taxes", "--rollback")

    assert names(lastgood.project) == {"a"}
    assert tasks_of(lastgood, "taxes") == {"B": "pending"}


def tasks_of(lastgood: Command, goal: str) -> dict[str, str]:
    """Return how the tasks of a session stand."""
    found = lastgood("session", "list", "--json").json["sessions"]
    (session,) = [one for one in found if one["goal"] == goal]
    return {one["id"]: one["state"] for one in session["progress"]["tasks"]}


# A restore that was killed waits as well.

MANY = "for n in $(seq 60); do echo $n > f$n; done"


def test_very_many_deletions_are_asked_about_beside_a_restore_that_was_killed(
    lastgood: Command, shell: Shell
) -> None:
    """P7b, T16: that is taken back first; then the plan of the rollback is known, and asked about."""
    shell(script(f"{START}; echo 1 > a", ":save one; echo 2 > a", f":task start T; {MANY}; {DIE}"))
    killed_restore(lastgood, "one")

    refused = lastgood("recover", "--rollback", "--continue", expect=15)

    assert "60 files" in refused.err
    assert (lastgood.project / "f60").exists()
    assert (lastgood.project / "a").read_text() == "2\n"
    assert lastgood("status", "--json").json["state"] == "incomplete"
    plan = refused.err.split("--plan ")[1].split()[0]
    lastgood("recover", "--rollback", "--continue", "--plan", plan)
    assert not (lastgood.project / "f60").exists()


def test_a_restore_that_was_killed_is_taken_back_beside_a_run_that_died(
    lastgood: Command, shell: Shell
) -> None:
    """T7, P7: and its files stay as they are then."""
    shell(script(f"{START}; echo 1 > a", ":save one; echo 2 > a", f":task start T; echo junk > junk; {DIE}"))
    killed_restore(lastgood, "one")
    done = lastgood("recover", "--rollback")
    assert "rolled the interrupted restore back" in done.out
    assert (lastgood.project / "a").read_text() == "2\n"
    assert names(lastgood.project) == {"a", "junk"}
    assert "is active" not in done.out
    assert lastgood("status", "--json").json["state"] == "incomplete"


def test_a_run_that_was_taken_back_waits_until_somebody_goes_on_with_it(
    lastgood: Command, shell: Shell
) -> None:
    """P7: nobody is said to be at work in it, however often it is taken back."""
    shell(script(START, ":task start A; echo A > a", ":task done A", ":task start B; echo B > b", DIE))
    done = lastgood("recover", "--rollback")
    run = lastgood("session", "list", "--json").json["sessions"][0]["id"]
    assert f"Session {run} waits: nobody is at work in it.\n" in done.out
    assert f"lastgood recover {run} --continue" in done.err
    assert f"{run} is incomplete: it was taken back, and waits" in lastgood("status").out
    again = lastgood("recover", "--rollback", "--json").json
    assert (again["done"], again["edited"]) == ("rolled-back", [])
    assert lastgood("recover", "--continue", "--json").json["done"] == "continue"
    assert lastgood("status", "--json").json["state"] == "active"


def test_a_run_is_taken_back_and_gone_on_with_in_one_call(lastgood: Command, shell: Shell) -> None:
    """P7."""
    shell(script(START, f":task start A; echo A > a; {DIE}"))
    done = lastgood("recover", "--rollback", "--continue", "--json").json
    assert (done["done"], done["session"]["state"]) == ("continue", "active")
    assert names(lastgood.project) == set()


def test_who_is_named_as_owner_goes_on_with_what_is_taken_back(lastgood: Command, shell: Shell) -> None:
    """P7."""
    shell(script(START, f":task start A; echo A > a; {DIE}"))
    done = lastgood("recover", "--rollback", "--owner-pid", str(os.getpid()), "--json").json
    assert (done["done"], done["session"]["state"]) == ("continue", "active")


def test_very_many_deletions_are_asked_about_where_a_checkpoint_is_named(
    lastgood: Command, shell: Shell
) -> None:
    """P7b, T16: whether a run waits or none does."""
    (lastgood.project / "a").write_text("1")
    saved = lastgood.save()
    shell(MANY)
    assert "60 files" in lastgood("recover", saved, "--rollback", expect=15).err
    shell(script(START, f":task start T; {DIE}"))
    assert "60 files" in lastgood("recover", saved, "--rollback", expect=15).err
    assert (lastgood.project / "f60").exists()


# What passed its check, restores of restores, other sessions' checkpoints, tasks without files.


def test_a_checked_checkpoint_on_a_branch_that_was_left_is_no_ground(lastgood: Command, shell: Shell) -> None:
    """P7b: the session's own `@good` counts along the history from `@`."""
    lastgood("save", "first", "--allow-empty")
    work = [START, ":task start t1; echo x > unwanted", ":task done t1", ":check @ -- true"]
    shell(script(*work, ":restore first --yes", ":task start t2; echo y > half", DIE))
    lastgood("recover", "--rollback")
    assert names(lastgood.project) == set()


def test_what_an_earlier_restore_took_back_stays_so_after_another_one(
    lastgood: Command, shell: Shell
) -> None:
    """P7b: an attempt that was taken back is not the first one any more."""
    lastgood("save", "first", "--allow-empty")
    begun = [START, ":task start t1; echo x > junk", ":task fail t1", ":restore first --yes"]
    between = ["echo good > good", ":save m1", "echo worse > good", ":restore m1 --yes"]
    shell(script(*begun, *between, ":task start t1; echo z > half", DIE))
    lastgood("recover", "--rollback")
    assert names(lastgood.project) == {"good"}
    assert (lastgood.project / "good").read_text() == "good\n"


def test_a_checkpoint_of_nobody_between_two_tasks_leaves_the_first_one_done(
    lastgood: Command, shell: Shell
) -> None:
    """P7b, P6: what was done before the target is not done again."""
    outside = f"env -u LASTGOOD_SESSION {LASTGOOD} save by-hand"
    work = [START, ":task start t1; echo x > one", ":task done t1", f"echo y > two; {outside}"]
    shell(script(*work, ":task start t2; echo z > half", DIE))
    done = lastgood("recover", "--rollback")
    assert names(lastgood.project) == {"one", "two"}
    assert "Tasks: 1 done, 1 pending (t2)." in done.out


def test_the_files_of_a_rollback_are_brought_back_alone_where_the_progress_went_on(
    lastgood: Command, shell: Shell
) -> None:
    """P7b, T8: as the refusal says, which a session's own undo leads to."""
    shell(script(START, ":task start A; echo A > a", ":task done A", ":task start B; echo B > b", DIE))
    id = lastgood("recover", "--rollback", "--continue", "--json").json["session"]["id"]
    assert names(lastgood.project) == {"a"}
    within = {"LASTGOOD_SESSION": id}
    lastgood("task", "start", "B", env=within)
    inside = lastgood("undo", env=within, expect=10).err
    assert "what was done outside it: env -u LASTGOOD_SESSION lastgood undo\n" in inside
    refused = lastgood("undo", expect=13).err
    assert "keep the progress as it is: lastgood undo --merge\n" in refused

    lastgood("undo", "--merge")

    assert names(lastgood.project) == {"a", "b"}
    states = lastgood("progress", "show", "--json", env=within).json["progress"]["tasks"]
    assert [one["state"] for one in states] == ["done", "running"]


def test_an_undo_of_a_rollback_that_changed_no_file_brings_the_progress_back(
    lastgood: Command, shell: Shell
) -> None:
    shell(script(START, ":task start t1", ":task done t1", ":task start t2", DIE))
    lastgood("recover", "@start", "--rollback")
    lastgood("undo")
    (session,) = lastgood("session", "list", "--json").json["sessions"]
    assert {one["id"]: one["state"] for one in session["progress"]["tasks"]}["t1"] == "done"


def test_the_line_that_goes_on_with_one_command_says_how_it_is_checked(lastgood: Command) -> None:
    """P7: without its check it would be other work."""
    lastgood("run", "--check", "test -e ok", "--retries", "0", "--", "true", expect=None)
    words = [sys.executable, COMMAND, "run", "--check", "test -e ok", "--timeout", "1m", "--", "sleep", "60"]
    with subprocess.Popen(words, cwd=lastgood.project, env=lastgood.environment) as runner:
        while "sleep 60" not in lastgood("session", "list").out:
            pass
        runner.kill()
    assert "run --check 'test -e ok' --timeout 60s -- sleep 60" in lastgood("status").out


NUMBERED = (
    "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])"
)


def killed(lastgood: Command, pid: Path) -> None:
    """Run a command that changes a file, and kill its runner."""
    (lastgood.project / "a").write_text("0\n", encoding="utf-8")
    script = f"echo agent > a; kill -9 $(cat {pid}); sleep 30"
    words = [
        sys.executable,
        "-c",
        NUMBERED,
        str(pid),
        sys.executable,
        COMMAND,
        "run",
        "--",
        "sh",
        "-c",
        script,
    ]
    subprocess.run(
        words,
        cwd=lastgood.project,
        env=lastgood.environment,
        check=False,
        capture_output=True,
        timeout=PATIENCE,
    )


def test_a_command_that_was_taken_back_is_over(lastgood: Command, tmp_path: Path) -> None:
    """P7b: there is nothing in it to go on from, and other work begins unasked."""
    killed(lastgood, tmp_path / "pid")
    left = lastgood("status").out
    assert "run the command again: lastgood run -- sh -c" in left
    assert "1 task" not in left
    done = lastgood("recover", "--rollback")
    assert "is over, its command taken back" in done.out
    assert "Tasks:" not in done.out
    assert (lastgood.project / "a").read_text(encoding="utf-8") == "0\n"
    assert lastgood("status", "--json").json["state"] == "idle"
    assert "start beside" not in lastgood.terminal("run", "--", "true").out


def test_what_one_command_left_is_told_without_tasks(lastgood: Command, tmp_path: Path) -> None:
    killed(lastgood, tmp_path / "pid")
    said = lastgood("recover", "--review").out
    assert "what the command did elsewhere, started" in said
    assert "task" not in said.lower()


# Sessions that hooks keep: their turns have no task (P7b).


def test_what_a_person_changed_before_the_open_turn_stays(workspace: Workspace, project: Path) -> None:
    """P7b: the turn began there, and not where the one before ended."""
    (project / "mine").write_text("1")
    host = Host(workspace, project)
    host.tells("session-start")
    host.asked("write it")
    (project / "plan").write_text("a plan")
    host.tells("turn-end")
    (project / "mine").write_text("2")
    host.asked("tidy up")
    (project / "plan").unlink()

    (session,) = workspace.sessions()
    workspace.recover(session.id, roll_back=True, force=True)

    assert ((project / "mine").read_text(), (project / "plan").read_text()) == ("2", "a plan")


def test_a_second_rollback_leads_no_further_than_the_open_turn(workspace: Workspace, project: Path) -> None:
    """P7b: what a person changed before the prompt stays, also once the turn was taken back, and undone."""
    (project / "mine").write_text("1")
    host = Host(workspace, project)
    host.tells("session-start")
    (project / "mine").write_text("2")
    host.asked("tidy up")
    (project / "plan").write_text("a plan")
    (session,) = workspace.sessions()
    workspace.recover(session.id, roll_back=True, force=True)

    workspace.recover(session.id, roll_back=True, force=True)
    workspace.undo()
    workspace.recover(session.id, roll_back=True, force=True)

    assert ((project / "mine").read_text(), (project / "plan").exists()) == ("2", False)


def test_what_a_rewind_took_back_does_not_come_back(workspace: Workspace, project: Path) -> None:
    """P7b: nothing of the session leads to where one stands then; where it began may be deleted by then."""
    (project / "mine").write_text("1")
    kept = workspace.save("mine").checkpoint
    host = Host(workspace, project)
    host.asked("write it")
    began = workspace.stands_at()
    (project / "junk").write_text("junk")
    host.tells("turn-end")
    host.asked("tidy up")
    (project / "mine").write_text("wrecked")
    workspace.restore(kept, force=True)
    workspace.delete(began or "")
    (project / "late").write_text("by the agent, which still ran")

    (session,) = workspace.sessions()
    report = workspace.recover(session.id, roll_back=True, force=True)

    assert report.rolled_back_to == kept.id
    assert sorted(one.name for one in project.iterdir()) == ["mine"]
    assert (project / "mine").read_text() == "1"
