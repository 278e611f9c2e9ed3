"""A plan is carried out: order, checkpoints, checks, retries, what failure means (P1, P3, P4, P6)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood as package
from lastgood.errors import Conflict, Invalid, NotFound, Usage
from lastgood.model.run import PlannedTask, WorkPlan
from lastgood.settings import AutoSettings, Settings
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from tools.command import COMMAND, started
from tools.runs import Told, states, wait_for
from tools.values import not_none


def test_a_plan_is_carried_out_in_a_session_of_its_own(workspace: Workspace, told: Told) -> None:
    """P1, P2: the session is exclusive and finished at the end; its tasks are known from the start."""
    plan = {"goal": "both", "tasks": [{"id": "A", "run": "echo a > a"}, {"id": "B", "run": "echo b > b"}]}
    report = workspace.run(plan, observer=told)
    assert (report.state, states(report)) == ("done", {"A": "done", "B": "done"})
    session = workspace.get_session(report.session)
    assert (session.state, session.session.ended_by, session.session.goal) == ("ended", "finished", "both")
    assert session.session.exclusive
    assert session.session.owner.pid == os.getpid()
    first = told.events[0]
    assert (first.type, [task.state for task in first.tasks]) == ("started", ["pending", "pending"])
    assert told.types == ["started", *(["task-started", "task-done"] * 2), "finished"]
    assert sorted(os.listdir(workspace.path)) == ["a", "b"]


def test_checkpoints_are_made_around_every_task(workspace: Workspace) -> None:
    """P3, P4."""
    tasks = [{"id": "A", "run": "echo a > a"}]
    last = [{"id": "B", "run": "true", "irreversible": True}]
    report = workspace.run({"sprints": [{"id": "S", "tasks": tasks}, {"id": "T", "tasks": last}]})
    made = [(one.kind, one.manifest.task, one.manifest.moment) for one in reversed(workspace.list())]
    assert made == [
        ("session-start", None, None),
        ("auto", "A", "before"),
        ("task", "A", "after"),
        ("sprint", None, "after"),
        ("risky", "B", "before"),
        ("task", "B", "after"),
        ("sprint", None, "after"),
        ("session-end", None, None),
    ]
    assert {one.session for one in workspace.list()} == {report.session}
    assert workspace.get("task:A").metrics.tasks_total == 2
    assert report.checkpoint == workspace.get("@").id


def test_a_checked_task_has_one_checkpoint_which_shows_what_it_changed(workspace: Workspace) -> None:
    """P3, T15: the one from before its check is given up when that has passed, or has failed."""
    passes = {"id": "A", "run": "echo a > a", "check": "test -s a"}
    fails = {"id": "B", "run": "echo b > b", "check": "false", "on_failure": "keep"}
    workspace.run({"tasks": [passes, fails]})
    made = [(one.kind, one.manifest.task, one.good) for one in reversed(workspace.list())]
    assert made == [
        ("session-start", None, None),
        ("task", "A", True),
        ("error", "B", False),
        ("session-end", None, None),
    ]
    task = workspace.get("task:A")
    assert workspace.get("@good").id == task.id
    assert (task.manifest.changes.added, task.manifest.changes.modified) == (1, 0)
    assert workspace.get("@start").id == task.manifest.previous
    assert workspace.operations() == ()


def test_what_a_check_changes_is_kept_as_it_was_before(workspace: Workspace) -> None:
    workspace.run({"tasks": [{"id": "A", "run": "echo a > a", "check": "echo other > a"}]})
    after, before = workspace.list()[1:3]
    assert (before.message, after.kind) == ("task A before its check", "task")
    assert workspace.read(before.id, "a") == b"a\n"
    assert after.good is None


def test_a_checkpoint_that_somebody_named_during_the_check_stays(workspace: Workspace) -> None:
    name = f"{sys.executable} {COMMAND} name $LASTGOOD_CHECKPOINT tried"
    workspace.run({"tasks": [{"id": "A", "run": "echo a > a", "check": name}]})
    assert workspace.get("tried").message == "task A before its check"


def test_tasks_wait_for_what_they_need(workspace: Workspace, outside: Path) -> None:
    log = outside / "log"
    tasks = [
        {"id": "late", "run": f"echo late >> {log}", "needs": ["early"]},
        {"id": "early", "run": f"echo early >> {log}"},
    ]
    assert workspace.run({"tasks": tasks}).state == "done"
    assert log.read_text().split() == ["early", "late"]


def test_a_task_whose_need_failed_is_skipped_and_says_why(workspace: Workspace, told: Told) -> None:
    tasks = [
        {"id": "A", "run": "exit 7", "on_failure": "keep"},
        {"id": "B", "run": "true", "needs": ["A"]},
        {"id": "C", "run": "true", "needs": ["B"]},
        {"id": "D", "run": "true"},
    ]
    report = workspace.run({"tasks": tasks}, observer=told)
    assert (report.state, report.reason) == ("failed", "task A failed: it ended with exit code 7")
    assert states(report) == {"A": "failed", "B": "skipped", "C": "skipped", "D": "done"}
    assert [event.reason for event in told.of("task-skipped")] == [
        "it needs A, which failed",
        "it needs B, which was skipped",
    ]
    assert workspace.get_session(report.session).state == "incomplete"


def test_stop_ends_the_run_and_leaves_the_files(workspace: Workspace, project: Path) -> None:
    tasks = [{"id": "A", "run": "echo half > half; exit 1"}, {"id": "B", "run": "true"}]
    report = workspace.run({"tasks": tasks})
    assert states(report) == {"A": "failed", "B": "pending"}
    assert (project / "half").read_text() == "half\n"
    assert workspace.list(kind="error")[0].manifest.task == "A"


def test_rollback_takes_back_what_a_failed_attempt_did(
    workspace: Workspace, project: Path, told: Told
) -> None:
    """T3, T17: and its files can still be had."""
    (project / "kept").write_text("before\n")
    (project / "gone").write_text("here\n")
    task = {"id": "A", "run": "echo after > kept; rm gone; echo new > new; exit 1", "on_failure": "rollback"}
    report = workspace.run({"tasks": [task, {"id": "B", "run": "true"}]}, observer=told)
    assert states(report) == {"A": "failed", "B": "done"}
    assert sorted(os.listdir(project)) == ["gone", "kept"]
    assert (project / "kept").read_text() == "before\n"
    (event,) = told.of("rolled-back")
    assert sorted(event.paths) == [b"gone", b"kept", b"new"]
    held = workspace.get(event.checkpoint or "")
    assert (held.kind, held.manifest.task) == ("error", "A")
    workspace.undo()
    assert (project / "new").read_text() == "new\n"


def test_a_failed_attempt_is_tried_again_from_where_it_began(
    workspace: Workspace, project: Path, outside: Path, told: Told
) -> None:
    run = f"ls > seen; echo x >> {outside}/tries; test $(wc -l < {outside}/tries) -ge 3"
    report = workspace.run(
        {"tasks": [{"id": "A", "run": run, "retries": 2, "on_failure": "rollback"}]}, observer=told
    )
    assert report.state == "done"
    assert (project / "seen").read_text() == "seen\n"
    assert [event.attempt for event in told.of("task-started")] == [1, 2, 3]
    assert report.tasks[0].attempts == 3
    assert [step.state for step in workspace.steps(report.session)] == ["failed", "failed", "done"]


def test_no_more_attempts_are_made_than_allowed(workspace: Workspace, told: Told) -> None:
    report = workspace.run({"tasks": [{"id": "A", "run": "exit 1", "retries": 1}]}, observer=told)
    assert (report.state, report.exit_code) == ("failed", 1)
    assert len(told.of("attempt-failed")) == 2
    assert told.types[-2:] == ["task-failed", "finished"]


def test_a_check_decides_whether_a_task_is_done_and_good(workspace: Workspace, told: Told) -> None:
    tasks = [
        {"id": "A", "run": "echo a > a", "check": "grep -q a a"},
        {"id": "B", "run": "echo b > b", "check": "grep -q x b", "on_failure": "keep"},
    ]
    report = workspace.run({"tasks": tasks}, observer=told)
    assert states(report) == {"A": "done", "B": "failed"}
    assert report.reason == "task B failed: its check failed: exit code 1"
    assert workspace.get("task:A").good is True
    assert workspace.get("@good").id == workspace.get("task:A").id
    assert workspace.list(kind="error")[0].good is False
    assert told.of("task-done")[0].good is True


def test_a_check_that_changes_files_passes_but_proves_nothing(workspace: Workspace, told: Told) -> None:
    report = workspace.run({"tasks": [{"id": "A", "run": "true", "check": "echo x > made"}]}, observer=told)
    assert report.state == "done"
    assert workspace.get("task:A").good is None
    assert "says nothing of the checkpoint: changed while it was being checked: made" in told.notices


def test_a_task_takes_no_longer_than_its_time(workspace: Workspace, told: Told) -> None:
    report = workspace.run({"tasks": [{"id": "A", "run": "sleep 600", "timeout": 0.3}]}, observer=told)
    assert report.reason == "task A failed: it was stopped after 0.3 s"
    assert report.exit_code is None


def test_a_check_shares_the_time_of_its_task(project: Path, store: Path, told: Told) -> None:
    """Most of which has gone by when the check begins."""
    clock = FakeClock()
    told.on("check-started", lambda _event: clock.advance(599.9))
    task = {"id": "A", "run": "true", "check": "sleep 1000", "timeout": 600}
    with package.open(project, store=store, maintenance="off", clock=clock) as workspace:
        report = workspace.run({"tasks": [task]}, observer=told)
    assert not_none(report.reason).startswith("task A failed: its check failed: ")


def test_a_command_finds_the_run_in_its_environment(workspace: Workspace, project: Path) -> None:
    task = {
        "id": "A",
        "run": 'echo "$LASTGOOD_SESSION $LASTGOOD_TASK $LASTGOOD_ATTEMPT $OWN $(pwd)" > said',
        "env": {"OWN": "word"},
        "check": 'test "$LASTGOOD_TASK$OWN" = Aword',
    }
    report = workspace.run({"tasks": [task]})
    assert report.state == "done"
    assert (project / "said").read_text() == f"{report.session} A 1 word {project}\n"


def test_a_command_runs_in_its_folder(workspace: Workspace, project: Path) -> None:
    (project / "sub").mkdir()
    task = {"id": "A", "run": "touch here", "check": "test -f here", "cwd": "sub"}
    assert workspace.run({"tasks": [task]}).state == "done"
    assert (project / "sub" / "here").exists()


def test_a_folder_that_is_not_there_is_a_failure_of_the_task(workspace: Workspace) -> None:
    report = workspace.run({"tasks": [{"id": "A", "run": "true", "cwd": "nowhere"}]})
    assert not_none(report.reason).startswith("task A failed: it could not be started: ")
    assert report.exit_code == 127


def test_lines_are_told_and_the_output_is_kept(workspace: Workspace, told: Told) -> None:
    task = {"id": "A.b", "run": "echo one; echo two >&2; printf three"}
    report = workspace.run({"tasks": [task]}, observer=told)
    assert [event.line for event in told.of("output")] == ["one", "two", "three"]
    assert report.outputs is not None
    (name,) = os.listdir(report.outputs)
    path = os.path.join(report.outputs, name)
    with open(path, "rb") as file:
        assert file.read() == b"one\ntwo\nthree"
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_flood_of_lines_is_kept_and_told_in_part(workspace: Workspace, told: Told) -> None:
    report = workspace.run({"tasks": [{"id": "A", "run": "seq 200000"}]}, observer=told)
    assert report.state == "done"
    lines = told.of("output")
    assert len(lines) < 50_000
    assert lines[-1].line == "200000"
    assert "came too fast to be told one by one" in told.notices


def test_a_checkpoint_is_made_by_interval_while_a_task_runs(
    project: Path, store: Path, outside: Path, told: Told
) -> None:
    """P3."""
    settings = Settings(auto=AutoSettings(interval=0.2))

    def let_it_end(_event: object) -> None:
        if told.of("task-started"):
            (outside / "seen").touch()

    told.on("checkpoint", let_it_end)
    run = f"echo half > half; until test -e {outside}/seen; do sleep 0.05; done; rm half"
    with package.open(project, store=store, maintenance="off", settings=settings) as workspace:
        report = workspace.run({"tasks": [{"id": "A", "run": run, "timeout": 600}]}, observer=told)
        while_running = [one for one in workspace.list(kind="auto") if one.message == "while task A runs"]
    assert report.state == "done"
    assert {one.manifest.task for one in while_running} == {"A"}


def test_a_run_makes_no_checkpoints_that_are_switched_off(project: Path, store: Path) -> None:
    """K7: but what a rollback needs is made."""
    settings = Settings(auto=AutoSettings(enabled=False))
    with package.open(project, store=store, maintenance="off", settings=settings) as workspace:
        workspace.run({"tasks": [{"id": "A", "run": "echo a > a"}]})
        assert workspace.list() == ()
        workspace.run({"tasks": [{"id": "B", "run": "echo b > b; exit 1", "on_failure": "rollback"}]})
        assert [one.kind for one in workspace.list()] == ["error", "auto"]
    assert os.listdir(project) == ["a"]


def test_what_a_person_edits_meanwhile_is_kept(workspace: Workspace, project: Path, told: Told) -> None:
    """T17: a rollback takes back the attempt's changes, not those that came after it."""
    (project / "mine").write_text("one\ntwo\nthree\n")

    def edit(_event: object) -> None:
        (project / "mine").write_text("one\ntwo\nthree, edited\n")
        (project / "notes").write_text("a person's\n")

    told.on("attempt-failed", edit)
    run = "sed -i s/one/ONE/ mine; touch junk; exit 1"
    workspace.run({"tasks": [{"id": "A", "run": run, "on_failure": "rollback"}]}, observer=told)
    assert (project / "mine").read_text() == "one\ntwo\nthree, edited\n"
    assert sorted(os.listdir(project)) == ["mine", "notes"]


def test_an_edit_that_conflicts_with_a_rollback_stays_and_is_named(
    workspace: Workspace, project: Path, told: Told
) -> None:
    """T17."""
    (project / "mine").write_text("one\n")
    told.on("attempt-failed", lambda _event: (project / "mine").write_text("a person's\n"))
    task = {"id": "A", "run": "echo two > mine; exit 1", "on_failure": "rollback"}
    workspace.run({"tasks": [task]}, observer=told)
    assert (project / "mine").read_text() == "a person's\n"
    named = [event for event in told.of("noticed") if event.paths]
    assert [event.paths for event in named] == [(b"mine",)]


def test_what_no_checkpoint_holds_is_not_taken_back_and_named(
    workspace: Workspace, project: Path, told: Told
) -> None:
    """T4, S7."""
    task = {
        "id": "A",
        "run": "truncate -s 40M big; mkfifo pipe; touch small; exit 1",
        "on_failure": "rollback",
    }
    workspace.run({"tasks": [task]}, observer=told)
    assert sorted(os.listdir(project)) == ["big", "pipe"]
    (notice,) = told.of("noticed")
    assert notice.paths == (b"big", b"pipe")
    assert notice.reason == "not taken back, as no checkpoint holds it: too-large, unsupported"


def test_everything_can_be_taken_back_but_the_folder_itself(workspace: Workspace, project: Path) -> None:
    """T3."""
    (project / "file").write_text("kept\n")
    (project / "folder").mkdir()
    (project / "folder" / "inner").write_text("inner\n")
    run = "rm -r file folder; mkdir file; touch file/new; ln -s /etc/passwd folder; exit 1"
    workspace.run({"tasks": [{"id": "A", "run": run, "on_failure": "rollback"}]})
    assert (project / "file").read_text() == "kept\n"
    assert (project / "folder" / "inner").read_text() == "inner\n"


def test_a_sprint_is_done_when_all_its_tasks_are(workspace: Workspace, told: Told) -> None:
    sprints = [
        {"id": "S1", "tasks": [{"id": "A", "run": "true"}, {"id": "B", "run": "true", "needs": ["C"]}]},
        {"id": "S2", "tasks": [{"id": "C", "run": "true"}, {"id": "D", "run": "exit 1"}]},
    ]
    workspace.run({"sprints": sprints}, observer=told)
    assert [event.sprint for event in told.of("sprint-done")] == ["S1"]
    assert [one.metadata["sprint"] for one in workspace.list(kind="sprint")] == ["S1"]


def test_one_command_is_a_plan_too(workspace: Workspace, project: Path) -> None:
    report = workspace.run(["sh", "-c", "echo $0 > said; exit 5", "two words"])
    assert (report.state, report.exit_code) == ("failed", 5)
    assert (project / "said").read_text() == "two words\n"
    assert report.plan.command
    session = workspace.get_session(report.session)
    assert session.state == "ended"
    assert workspace.status().state == "idle"


def test_a_plan_may_be_made_by_a_program(workspace: Workspace) -> None:
    tasks = (PlannedTask(id="B", run="true", needs=("A",)), PlannedTask(id="A", run=("true",)))
    report = workspace.run(WorkPlan(tasks=tasks))
    assert [task.id for task in report.tasks] == ["A", "B"]


def test_a_file_with_faults_is_refused_before_anything_happens(
    workspace: Workspace, plan_file: Callable[..., str]
) -> None:
    path = plan_file({"id": "A", "run": "true", "retrys": 1})
    with pytest.raises(Invalid, match="retrys"):
        workspace.run(path)
    assert workspace.sessions() == ()


@pytest.mark.parametrize("given", [7, None, [1, 2], {"tasks": []}, {}, []])
def test_what_is_no_plan_is_refused(workspace: Workspace, given: Any) -> None:
    with pytest.raises((Usage, Invalid)):
        workspace.run(given)
    assert workspace.sessions() == ()


def test_unknown_choices_and_tasks_are_refused(workspace: Workspace) -> None:
    plan: dict[str, Any] = {"tasks": [{"id": "task-1", "run": "true"}]}
    with pytest.raises(Usage, match="no choice"):
        workspace.run(plan, choice="maybe")  # type: ignore[arg-type]
    with pytest.raises(Usage, match="no task 'task-2'") as caught:
        workspace.run(plan, done=["task-2"])
    assert caught.value.hint == "did you mean task-1?"
    with pytest.raises(Usage, match="list of ids"):
        workspace.run(plan, redo="task-1")
    with pytest.raises(Usage, match="cannot be done and be done again"):
        workspace.run(plan, redo=["task-1"], done=["task-1"])
    with pytest.raises(Usage, match="a run that begins has nothing"):
        workspace.run(plan, done=["task-1"])
    with pytest.raises(Usage, match="cannot be called"):
        workspace.run(plan, observer=7)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        workspace.run(plan, choice="review")
    assert workspace.sessions() == ()


def test_a_run_is_refused_beside_a_session_that_lives(workspace: Workspace) -> None:
    """P1."""
    with workspace.session(goal="by hand") as session, pytest.raises(Conflict, match=session.id):
        workspace.run({"tasks": [{"id": "A", "run": "true"}]})


def test_a_run_that_lost_its_workspace_stops(
    workspace: Workspace, outside: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    """P1: whoever took over does not find its task at work."""
    monkeypatch.setattr("lastgood.workspace.running.context.BEAT", 0.1)
    told.on("output", lambda _event: workspace.session_start(goal="mine", force=True))
    task = {"id": "A", "run": f"echo started; sleep 600; touch {outside}/late"}
    with pytest.raises(Conflict, match="another session took over; its run was stopped at task A") as caught:
        workspace.run({"tasks": [task]}, observer=told)
    assert "lastgood status" in (caught.value.hint or "")
    assert "LASTGOOD_SESSION" not in (caught.value.hint or "")
    new, old = workspace.sessions()
    assert (new.state, new.session.goal) == ("active", "mine")
    assert (old.state, old.session.ended_by) == ("ended", "taken over")
    assert not (outside / "late").exists()


def test_an_observer_that_fails_harms_nothing(workspace: Workspace, told: Told) -> None:
    told.on("task-started", lambda _event: 1 / 0)
    assert workspace.run({"tasks": [{"id": "A", "run": "true"}]}, observer=told).state == "done"


def test_the_observers_of_the_workspace_are_told_too(workspace: Workspace) -> None:
    heard: list[str] = []
    workspace.subscribe(lambda event: heard.append(event.type))
    workspace.run({"tasks": [{"id": "A", "run": "exit 1", "on_failure": "rollback"}]})
    assert heard[:2] == ["session_started", "saved"]
    assert "session_ended" in heard
    assert {"task_changed", "saved", "restored"} <= set(heard)


def test_a_task_may_say_itself_that_it_failed(workspace: Workspace, project: Path, store: Path) -> None:
    """P2: what works within the session is heard."""
    (project / "fail.py").write_text(
        "import lastgood, os\n"
        "with lastgood.open('.', store=os.environ['LASTGOOD_STORE'], maintenance='off') as workspace:\n"
        "    workspace.task_fail('A', reason='gave up')\n"
    )
    source = os.path.dirname(os.path.dirname(package.__file__))
    task = {"id": "A", "run": "python3 fail.py", "env": {"PYTHONPATH": source}}
    report = workspace.run({"tasks": [task]})
    assert report.reason == "task A failed: it said itself that it failed"


def test_a_task_that_leaves_processes_behind_is_told(workspace: Workspace, told: Told) -> None:
    workspace.run({"tasks": [{"id": "A", "run": "sleep 61 & echo started"}]}, observer=told)
    assert "sleep 61" in told.notices


def test_whoever_asks_for_it_gets_every_byte_that_the_commands_write(
    workspace: Workspace, told: Told
) -> None:
    plan = {
        "tasks": [{"id": "A", "run": "printf 'a\\n\\n\\377\\r\\nb'; yes | head -n 5000", "check": "echo no"}]
    }
    parts: list[bytes] = []
    workspace.run(plan, observer=told, output=parts.append)
    assert b"".join(parts) == b"a\n\n\xff\r\nb" + b"y\n" * 5000
    assert "too fast" not in told.notices
    workspace.run(plan, output=lambda part: part[-1:] + 1)  # type: ignore[operator]  # a fault of its own


# A plan that lies in the workspace: what a person writes into it after a crash is not taken back (T17).


WAITING = "echo half > half.txt; touch {outside}/waiting; sleep 600"


def killed(project: Path, store: Path, outside: Path, *, run: str) -> str:
    """Have a runner killed in the one task of a plan in the project, and return the plan's path."""
    plan = project / "plan.json"
    task = {"id": "A", "run": run.format(outside=outside), "on_failure": "rollback"}
    plan.write_text(json.dumps({"tasks": [task]}))
    body = f"import lastgood; lastgood.open({str(project)!r}, store={str(store)!r}).run({str(plan)!r})"
    with started(body) as runner:
        wait_for(outside / "waiting")
        runner.kill()
    return str(plan)


def test_a_plan_edited_after_a_crash_stays_edited_when_the_task_is_taken_back(
    workspace: Workspace, project: Path, store: Path, outside: Path, told: Told
) -> None:
    """P7, T17: everything else of the attempt is taken back, deletions included."""
    (project / "old.txt").write_text("old\n")
    plan = killed(project, store, outside, run="rm old.txt; " + WAITING)
    edited = json.dumps({"tasks": [{"id": "A", "run": "echo whole > whole.txt", "on_failure": "rollback"}]})
    (project / "plan.json").write_text(edited)

    report = workspace.run(plan, rebase=True, observer=told)
    assert states(report) == {"A": "done"}
    assert (project / "plan.json").read_text() == edited
    assert not (project / "half.txt").exists()
    assert (project / "old.txt").read_text() == "old\n"
    assert (project / "whole.txt").exists()
    (back,) = told.of("rolled-back")
    assert sorted(back.paths) == [b"half.txt", b"old.txt"]


def test_where_only_the_plan_changed_since_nothing_is_taken_back(
    workspace: Workspace, project: Path, store: Path, outside: Path, told: Told
) -> None:
    """P7, T17."""
    plan = killed(project, store, outside, run="touch {outside}/waiting; sleep 600")
    edited = json.dumps({"tasks": [{"id": "A", "run": "true", "on_failure": "rollback"}]}, indent=1)
    (project / "plan.json").write_text(edited)
    assert workspace.run(plan, rebase=True, observer=told).state == "done"
    assert (project / "plan.json").read_text() == edited
    assert [event.paths for event in told.of("rolled-back")] in ([], [()])


def test_what_a_failed_task_itself_wrote_into_the_plan_is_taken_back(
    workspace: Workspace, project: Path, told: Told
) -> None:
    """T17."""
    plan = project / "plan.json"
    task = {"id": "A", "run": "echo '# junk' >> plan.json; false", "on_failure": "rollback"}
    plan.write_text(json.dumps({"tasks": [task]}))
    before = plan.read_text()
    assert workspace.run(str(plan), observer=told).state == "failed"
    assert plan.read_text() == before


# Agents commit: a task that fails after that is taken back in its files, and what stays is said (T9).


def test_a_rollback_leaves_the_commits_of_a_failed_attempt_and_says_so(
    workspace: Workspace, project: Path, git: Callable[..., str], told: Told
) -> None:
    """T9."""
    (project / "app.py").write_text("good\n")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "The first")
    commit = 'echo "bad $LASTGOOD_ATTEMPT" > app.py && git commit -q -a -m "Attempt $LASTGOOD_ATTEMPT"'
    task = {"id": "A", "run": f"{commit}; false", "on_failure": "rollback", "retries": 1}
    report = workspace.run({"tasks": [task]}, observer=told)
    assert states(report) == {"A": "failed"}
    assert (project / "app.py").read_text() == "good\n"
    assert git(project, "log", "--format=%s").split("\n")[:3] == ["Attempt 2", "Attempt 1", "The first"]
    heads = git(project, "log", "--format=%h", "--abbrev=12", "-2").split()
    said = "the project's HEAD is not taken back: it stands at {}, 1 commit on"
    assert told.notices.split("\n") == [said.format(head) for head in reversed(heads)]


def test_repositories_that_a_failed_attempt_moved_or_took_away_are_named(
    workspace: Workspace, project: Path, git: Callable[..., str], told: Told
) -> None:
    """T9: no checkpoint holds a repository."""
    for place in (project, project / "gone", project / "moved"):
        place.mkdir(exist_ok=True)
        (place / "file").write_text("good\n")
        git(place, "init", "-q", "-b", "main")
        git(place, "add", "file")
        git(place, "commit", "-q", "-m", "The first")
    commit = "(cd moved && git commit -q --allow-empty -m second)"
    tasks = [
        {"id": "A", "run": f"{commit}; rm -rf gone; false", "on_failure": "rollback"},
        {"id": "B", "run": "rm -rf .git; false", "on_failure": "rollback"},
    ]
    workspace.run({"tasks": tasks}, observer=told)
    assert (project / "gone" / "file").read_text() == "good\n"
    assert [(event.task, event.reason, event.paths) for event in told.of("noticed")] == [
        ("A", "a nested repository is gone, and no checkpoint holds it", (b"gone",)),
        ("A", "the HEAD of a nested repository is not taken back", (b"moved",)),
        ("B", "the project's HEAD is not taken back: it stands at no commit", ()),
    ]
