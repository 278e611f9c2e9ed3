"""A run that died goes on: what is done stays done, nothing irreversible is repeated unawares (P6, P7)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood as package
from lastgood.errors import Busy, Conflict, NotFound, Usage
from lastgood.model.run import RunEvent
from lastgood.model.session import Owner
from lastgood.processes import ProcFiles
from lastgood.workspace import Workspace
from lastgood.workspace.running.resume import plan_from
from lastgood.workspace.running.workspace import RunWorkspace
from tools.living import eventually
from tools.runs import Runner, Told, states, wait_for
from tools.values import not_none

Start = Callable[..., Runner]
Plan = Callable[..., str]


def killed_in(runner: Start, plan: str, outside: Path) -> None:
    """Have a runner killed while its task waits for a file that never comes."""
    one = runner(plan)
    wait_for(outside / "waiting")
    one.kill()
    (outside / "waiting").unlink()


def seen_of(session: str, commands: list[str]) -> None:
    """Wait until just these commands live that bear the mark of a session."""
    assert eventually(lambda: [one.command for one in ProcFiles().marked(session)] == commands)


def waiting(outside: Path, *, before: str = "true", count: str = "effects") -> str:
    """Return a command that counts its effect, and waits to be killed when it runs for the first time."""
    first = f"touch {outside}/again {outside}/waiting; sleep 600"
    return f"{before}; echo x >> {outside}/{count}; test -e {outside}/again || {{ {first}; }}"


def test_done_tasks_are_skipped_and_the_rest_is_carried_out(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path, told: Told
) -> None:
    """P6, P7."""
    tasks = [
        {"id": "A", "run": f"echo a >> {outside}/A"},
        {"id": "B", "run": waiting(outside)},
        {"id": "C", "run": f"echo c >> {outside}/C"},
    ]
    plan = plan_file(*tasks)
    killed_in(runner, plan, outside)
    (died,) = workspace.status().incomplete
    report = workspace.run(plan, observer=told)
    assert (report.state, report.continued, report.session) == ("done", True, died.id)
    assert (outside / "A").read_text() == "a\n"
    assert (outside / "C").read_text() == "c\n"
    assert [(one.task, one.irreversible) for one in report.unknown_effects] == [("B", False)]
    assert "nobody saw the end of task B" in told.notices
    assert [task.attempts for task in report.tasks] == [1, 2, 1]
    assert told.events[0].continued
    assert len(workspace.sessions()) == 1


def test_an_interrupted_attempt_is_rolled_back_to_where_it_began(
    workspace: Workspace, runner: Start, plan_file: Plan, project: Path, outside: Path, told: Told
) -> None:
    """P7: what it left is kept."""
    (project / "kept").write_text("before\n")
    before = "ls > seen; echo half > half; echo after > kept"
    task = {"id": "A", "run": waiting(outside, before=before), "on_failure": "rollback"}
    plan = plan_file(task)
    killed_in(runner, plan, outside)
    assert (project / "half").exists()
    report = workspace.run(plan, observer=told)
    assert report.state == "done"
    (event,) = told.of("rolled-back")
    assert sorted(event.paths) == [b"half", b"kept", b"seen"]
    assert (project / "seen").read_text() == "kept\nseen\n"
    held = workspace.get(event.checkpoint or "")
    assert (held.kind, held.manifest.task) == ("error", "A")


@pytest.mark.parametrize("policy", ["keep", "stop"])
def test_other_policies_go_on_from_the_files_as_they_are(
    workspace: Workspace,
    runner: Start,
    plan_file: Plan,
    project: Path,
    outside: Path,
    told: Told,
    policy: str,
) -> None:
    task = {"id": "A", "run": waiting(outside, before="echo x >> grown"), "on_failure": policy}
    plan = plan_file(task)
    killed_in(runner, plan, outside)
    assert workspace.run(plan, observer=told).state == "done"
    assert (project / "grown").read_text() == "x\nx\n"
    assert told.of("rolled-back") == []


def test_an_irreversible_task_of_which_nobody_saw_the_end_is_never_repeated_by_itself(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path, told: Told
) -> None:
    """P6."""
    tasks = [
        {"id": "A", "run": waiting(outside), "irreversible": True},
        {"id": "B", "run": f"touch {outside}/B"},
    ]
    plan = plan_file(*tasks)
    killed_in(runner, plan, outside)
    for _ in range(2):
        report = workspace.run(plan, observer=told)
        assert (report.state, states(report)) == ("failed", {"A": "pending", "B": "pending"})
        assert [(one.task, one.irreversible) for one in report.unknown_effects] == [("A", True)]
        assert "--done A" in (report.reason or "")
    assert (outside / "effects").read_text() == "x\n"
    assert workspace.status().state == "incomplete"


def test_a_person_may_say_that_it_happened(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path, told: Told
) -> None:
    """P6."""
    tasks = [
        {"id": "A", "run": waiting(outside), "irreversible": True},
        {"id": "B", "run": "true", "needs": ["A"]},
    ]
    plan = plan_file(*tasks)
    killed_in(runner, plan, outside)
    report = workspace.run(plan, done=["A"], observer=told)
    assert (report.state, report.unknown_effects) == ("done", ())
    assert (outside / "effects").read_text() == "x\n"
    assert [step.state for step in workspace.steps(report.session)] == ["done", "done"]
    assert workspace.get("task:A").manifest.progress.tasks[0].state == "done"


def test_a_person_may_say_that_it_is_to_be_done_again(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path
) -> None:
    """P6."""
    plan = plan_file({"id": "A", "run": waiting(outside), "irreversible": True})
    killed_in(runner, plan, outside)
    assert workspace.run(plan, redo=["A"]).state == "done"
    assert (outside / "effects").read_text() == "x\nx\n"


def test_only_the_check_is_made_again_when_the_command_had_ended(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path
) -> None:
    """P6: the command is known to have had its effect."""
    task = {
        "id": "A",
        "run": f"echo x >> {outside}/effects",
        "check": waiting(outside, count="checks"),
        "irreversible": True,
    }
    plan = plan_file(task)
    killed_in(runner, plan, outside)
    report = workspace.run(plan)
    assert (report.state, report.unknown_effects) == ("done", ())
    assert (outside / "effects").read_text() == "x\n"
    assert (outside / "checks").read_text() == "x\nx\n"


def test_an_irreversible_command_is_not_run_again_because_its_check_failed(
    workspace: Workspace, plan_file: Plan, outside: Path
) -> None:
    """P6: on the next start the check is made again, and only that."""
    task = {
        "id": "A",
        "run": f"echo x >> {outside}/effects",
        "check": f"test -e {outside}/healthy",
        "irreversible": True,
    }
    plan = plan_file(task)
    assert workspace.run(plan).state == "failed"
    assert workspace.run(plan).state == "failed"
    (outside / "healthy").touch()
    assert workspace.run(plan).state == "done"
    assert (outside / "effects").read_text() == "x\n"


def test_an_irreversible_command_that_was_stopped_is_not_tried_again(
    workspace: Workspace, outside: Path
) -> None:
    """P6: nobody knows whether it had its effect."""
    run = f"echo x >> {outside}/effects; kill -9 $$"
    plan: dict[str, Any] = {"tasks": [{"id": "A", "run": run, "retries": 3, "irreversible": True}]}
    report = workspace.run(plan)
    assert [one.task for one in report.unknown_effects] == ["A"]
    assert "--redo A" in (workspace.run(plan).reason or "")
    assert (outside / "effects").read_text() == "x\n"


def test_a_task_taken_back_by_a_restore_is_not_repeated_if_it_is_irreversible(
    workspace: Workspace, plan_file: Plan, outside: Path
) -> None:
    """P6: progress that was taken back does not take back a deployment."""
    tasks = [
        {"id": "A", "run": f"echo x >> {outside}/effects", "irreversible": True},
        {"id": "B", "run": f"test -e {outside}/ready"},
    ]
    plan = plan_file(*tasks)
    report = workspace.run(plan)
    assert states(report) == {"A": "done", "B": "failed"}
    start = next(one for one in workspace.list() if one.kind == "session-start")
    workspace.within(report.session).recover(report.session, choice="continue")
    workspace.within(report.session).restore(start.id, only=["progress"])
    workspace.within(report.session).session_end(finished=False)
    (outside / "ready").touch()
    again = workspace.run(plan)
    assert again.reason == (
        "task A, which cannot be taken back, was carried out before, though it is not done now;"
        " go on with --done A, or with --redo A"
    )
    assert (outside / "effects").read_text() == "x\n"


def test_a_step_within_a_task_is_not_repeated_unawares_either(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path
) -> None:
    """P6: what the task's own program marked as irreversible, and nobody saw end."""
    body = (
        "import lastgood, pathlib, sys, time\n"
        f"outside = pathlib.Path({str(outside)!r})\n"
        "if (outside / 'again').exists(): sys.exit()\n"
        "(outside / 'again').touch()\n"
        "workspace = lastgood.open(maintenance='off')\n"
        "workspace.step_start('push', task='A', irreversible=True)\n"
        "(outside / 'waiting').touch()\n"
        "time.sleep(600)\n"
    )
    source = os.path.dirname(os.path.dirname(package.__file__))
    plan = plan_file({"id": "A", "run": ["python3", "-c", body], "env": {"PYTHONPATH": source}})
    killed_in(runner, plan, outside)
    report = workspace.run(plan)
    assert report.reason == (
        "nobody saw the end of push, a step of task A that cannot be taken back: look whether it happened;"
        " go on with --done A, or with --redo A"
    )
    assert workspace.run(plan, redo=["A"]).state == "done"


def test_what_recover_began_to_continue_is_taken_up_by_the_run(
    workspace: Workspace, plan_file: Plan, outside: Path
) -> None:
    """P7."""
    plan = plan_file({"id": "A", "run": f"test -e {outside}/ready"})
    session = workspace.run(plan).session
    workspace.recover(choice="continue")
    assert workspace.status().state == "active"
    (outside / "ready").touch()
    report = workspace.run(plan)
    assert (report.state, report.session, report.continued) == ("done", session, True)


def test_a_session_that_was_ended_by_hand_is_not_taken_for_finished(
    workspace: Workspace, plan_file: Plan
) -> None:
    plan = plan_file({"id": "A", "run": "exit 1"})
    session = workspace.run(plan).session
    workspace.recover(choice="continue")
    workspace.session_end(session)
    with pytest.raises(NotFound, match="has ended, and cannot be continued"):
        workspace.run(plan, choice="continue")


def test_a_failed_task_gets_a_new_attempt(workspace: Workspace, plan_file: Plan, outside: Path) -> None:
    tasks = [
        {"id": "A", "run": f"test -e {outside}/ready", "on_failure": "keep"},
        {"id": "B", "run": "true", "needs": ["A"]},
    ]
    plan = plan_file(*tasks)
    assert states(workspace.run(plan)) == {"A": "failed", "B": "skipped"}
    (outside / "ready").touch()
    report = workspace.run(plan)
    assert (report.state, report.tasks[0].attempts) == ("done", 2)


def test_edits_between_two_starts_are_kept_by_a_rollback(
    workspace: Workspace, runner: Start, plan_file: Plan, project: Path, outside: Path
) -> None:
    """T17: what the interruption left is known, so a person's later edits can be told from it."""
    (project / "mine").write_text("one\ntwo\nthree\n")
    before = "ls > seen; sed -i s/one/ONE/ mine"
    task = {"id": "A", "run": waiting(outside, before=before), "on_failure": "rollback"}
    plan = plan_file(task)
    one = runner(plan)
    wait_for(outside / "waiting")
    assert one.end(signal.SIGTERM)["state"] == "interrupted"
    (project / "mine").write_text((project / "mine").read_text() + "four\n")
    (project / "notes").write_text("a person's\n")
    assert workspace.run(plan).state == "done"
    assert (project / "seen").read_text() == "mine\nnotes\nseen\n"
    assert (project / "mine").read_text() == "ONE\ntwo\nthree\nfour\n"


def test_a_rollback_that_a_person_undid_is_not_done_again(
    workspace: Workspace, plan_file: Plan, project: Path, outside: Path, told: Told
) -> None:
    """T8: whoever undoes it wants the files as the attempt left them."""
    run = f"echo half >> half; test -e {outside}/ready"
    plan = plan_file({"id": "A", "run": run, "on_failure": "rollback"})
    workspace.run(plan)
    assert not (project / "half").exists()
    workspace.undo()
    (outside / "ready").touch()
    assert workspace.run(plan, observer=told).state == "done"
    assert told.of("rolled-back") == []
    assert (project / "half").read_text() == "half\nhalf\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_task_and_leaves_a_checkpoint(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path, number: signal.Signals
) -> None:
    """P3: kind interrupt; P8: incomplete."""
    plan = plan_file({"id": "A", "run": waiting(outside)}, {"id": "B", "run": "true"})
    one = runner(plan)
    wait_for(outside / "waiting")
    report = one.end(number)
    assert (report["state"], report["signal"]) == ("interrupted", number)
    assert report["reason"] == f"interrupted by {number.name}"
    (checkpoint,) = workspace.list(kind="interrupt")
    assert checkpoint.manifest.task == "A"
    (session,) = workspace.status().incomplete
    assert session.session.ended_by == "interrupted"
    assert workspace.run(plan).state == "done"


async def test_a_run_that_is_cancelled_is_interrupted_and_over_when_its_caller_hears_of_it(
    project: Path, store: Path, outside: Path
) -> None:
    """P3, P8."""
    begun = asyncio.Event()

    def hear(event: RunEvent) -> None:
        if event.type == "output":
            begun.set()

    async with package.open_async(project, store=store, maintenance="off") as workspace:
        run = f"echo begun; sleep 600; touch {outside}/late"
        running = asyncio.create_task(workspace.run({"tasks": [{"id": "A", "run": run}]}, observer=hear))
        beginning = asyncio.create_task(begun.wait())
        # A run that fails before it begins is not waited for, and says below what came of it.
        await asyncio.wait([running, beginning], return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (session,) = await workspace.sessions()
        assert (session.state, session.session.ended_by) == ("incomplete", "interrupted")
        assert [one.kind for one in await workspace.list(limit=1)] == ["interrupt"]
    assert not (outside / "late").exists()


def test_a_run_that_finished_is_not_carried_out_again_when_asked_to_go_on(
    workspace: Workspace, plan_file: Plan, outside: Path
) -> None:
    """So that whatever starts it anew after a crash may always say so."""
    plan = plan_file({"id": "A", "run": f"echo x >> {outside}/effects"})
    with pytest.raises(NotFound):
        workspace.run(plan, choice="continue")
    first = workspace.run(plan)
    again = workspace.run(plan, choice="continue")
    assert (again.state, again.session) == ("done", first.session)
    assert (outside / "effects").read_text() == "x\n"
    assert workspace.run(plan, again=True).session != first.session
    assert (outside / "effects").read_text() == "x\nx\n"


def test_a_run_may_begin_afresh(workspace: Workspace, runner: Start, plan_file: Plan, outside: Path) -> None:
    """P7."""
    plan = plan_file({"id": "A", "run": f"echo x >> {outside}/A"}, {"id": "B", "run": waiting(outside)})
    killed_in(runner, plan, outside)
    report = workspace.run(plan, choice="fresh")
    assert (report.state, report.continued) == ("done", False)
    assert (outside / "A").read_text() == "x\nx\n"
    new, old = workspace.sessions()
    assert (new.id, old.session.ended_by) == (report.session, "fresh")


def test_a_review_tells_and_changes_nothing(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path
) -> None:
    """P7."""
    plan = plan_file({"id": "A", "run": "true"}, {"id": "B", "run": waiting(outside)})
    killed_in(runner, plan, outside)
    (died,) = workspace.status().incomplete
    report = workspace.run(plan, choice="review")
    assert (report.session, report.state) == (died.id, "interrupted")
    assert states(report) == {"A": "done", "B": "running"}
    assert [one.task for one in report.unknown_effects] == ["B"]
    assert report.checkpoint is not None
    assert workspace.status().incomplete == (died,)


def test_another_plan_is_another_run(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path, tmp_path: Path
) -> None:
    plan = plan_file({"id": "A", "run": waiting(outside)})
    killed_in(runner, plan, outside)
    other = tmp_path / "other.json"
    other.write_text('{"tasks": [{"id": "A", "run": "true"}]}')
    assert workspace.run(str(other)).continued is False
    assert workspace.run(["true"]).continued is False
    assert workspace.run(plan).continued is True


def test_a_command_that_was_interrupted_goes_on_in_its_session(
    workspace: Workspace, runner: Start, outside: Path
) -> None:
    command = ["sh", "-c", waiting(outside)]
    one = runner(command)
    wait_for(outside / "waiting")
    one.kill()
    report = workspace.run(command)
    assert (report.state, report.continued) == ("done", True)


def test_several_runs_that_died_are_named(workspace: Workspace, plan_file: Plan) -> None:
    """P7."""
    plan = plan_file({"id": "A", "run": "true"})
    ids = []
    for _ in range(2):
        ids.append(RunWorkspace(workspace).open_run(plan_from(plan), goal=None).session.id)
        workspace.session_break_off(ids[-1], reason="test")
    with pytest.raises(Usage, match="2 runs of this plan did not finish") as refused:
        workspace.run(plan)
    assert [line.split()[1].rstrip(":") for line in refused.value.message.splitlines()[1:]] == [
        ids[1],
        ids[0],
    ]
    assert workspace.run(plan, choice="review").session == ids[1]
    assert workspace.run(plan, choice="fresh").state == "done"
    assert workspace.status().state == "idle"


def test_a_run_that_was_taken_over_cannot_go_on(workspace: Workspace, plan_file: Plan) -> None:
    plan = plan_file({"id": "A", "run": "exit 1"})
    first = workspace.run(plan).session
    workspace.recover(first, choice="continue")
    workspace.session_start(force=True)
    workspace.session_end()
    assert workspace.get_session(first).session.ended_by == "taken over"
    with pytest.raises(NotFound, match="has ended, and cannot be continued"):
        workspace.run(plan, choice="continue")


def test_a_live_run_is_left_alone(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path
) -> None:
    """P1."""
    plan = plan_file({"id": "A", "run": waiting(outside)})
    one = runner(plan)
    wait_for(outside / "waiting")
    with pytest.raises(Conflict, match=f"process {one.process.pid}"):
        workspace.run(plan)
    with pytest.raises(NotFound, match="is under way"):
        workspace.run(plan, choice="review")
    one.end()


def test_of_several_that_begin_at_once_one_carries_the_plan_out(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path
) -> None:
    """P1, S16: the others do not wait for it to end, either."""
    plan = plan_file({"id": "A", "run": waiting(outside)})
    started = [runner(plan) for _ in range(3)]
    wait_for(outside / "waiting")
    assert eventually(lambda: sum(one.process.poll() is None for one in started) == 1)
    (living,) = (one for one in started if one.process.poll() is None)
    assert living.end()["state"] == "interrupted"
    assert len(workspace.sessions()) == 1
    assert (outside / "effects").read_text() == "x\n"


def hidden(workspace: Workspace, session: str) -> None:
    """Have a session look like that of a runner in another container of this machine."""
    context = workspace._context
    boot = context.processes.boot()
    owner = Owner(host="container", pid=7, command="lastgood", started="1", boot=boot, namespace="pid:[1]")
    context.work.change(
        lambda to: to.change_session(session, lambda found: found.replace(owner=owner, state="active"))
    )


def test_a_runner_that_cannot_be_seen_is_known_to_be_gone_by_its_lock(
    workspace: Workspace, plan_file: Plan, outside: Path
) -> None:
    """S16, P1: a container that was started anew does not have to wait for a lease."""
    plan = plan_file({"id": "A", "run": f"test -e {outside}/ready"})
    session = workspace.run(plan).session
    hidden(workspace, session)
    assert workspace.status().state == "active"
    (outside / "ready").touch()
    report = workspace.run(plan)
    assert (report.state, report.session) == ("done", session)


def test_a_runner_that_cannot_be_seen_but_lives_is_left_alone(
    workspace: Workspace, runner: Start, plan_file: Plan, outside: Path
) -> None:
    """S16, P1."""
    plan = plan_file({"id": "A", "run": waiting(outside)})
    one = runner(plan)
    wait_for(outside / "waiting")
    hidden(workspace, workspace.sessions()[0].id)
    with pytest.raises(Conflict, match=r"process 7 .* on container"):
        workspace.run(plan)
    assert one.process.poll() is None
    assert one.end()["state"] == "interrupted"


def test_what_a_dead_runner_left_running_is_named(
    workspace: Workspace,
    runner: Start,
    plan_file: Plan,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P7."""
    monkeypatch.setattr("lastgood.workspace.running.resume.PATIENCE", 0.2)
    plan = plan_file({"id": "A", "run": waiting(outside)})
    killed_in(runner, plan, outside)
    (died,) = workspace.status().incomplete
    environment = dict(os.environ) | {"LASTGOOD_SESSION": died.id}
    seen_of(died.id, [])  # what the runner had started has been ended
    with subprocess.Popen(["sleep", "62"], env=environment) as orphan:
        seen_of(died.id, ["sleep 62"])  # the kernel knows its words a moment after it started
        with pytest.raises(Busy, match="sleep 62") as caught:
            workspace.run(plan)
        assert caught.value.hint == f"end them, then try again: kill {orphan.pid}"
        assert workspace.status().incomplete == (died,)
        orphan.kill()
        orphan.wait()
    assert workspace.run(plan).state == "done"


def test_nothing_is_said_twice_or_done_to_what_is_done(
    workspace: Workspace, plan_file: Plan, outside: Path, told: Told
) -> None:
    tasks = [
        {"id": "A", "run": f"echo x >> {outside}/A", "irreversible": True},
        {"id": "B", "run": f"test -e {outside}/ready"},
    ]
    plan = plan_file(*tasks)
    workspace.run(plan)
    (outside / "ready").touch()
    report = workspace.run(plan, redo=["A"], observer=told)
    assert report.state == "done"
    assert told.of("task-skipped")[0].reason == "it is done; it is not done again"
    assert (outside / "A").read_text() == "x\n"


def test_orders_without_a_run_to_go_on_with_are_refused(workspace: Workspace, plan_file: Plan) -> None:
    plan = plan_file({"id": "A", "run": "true"})
    with pytest.raises(Usage, match="a run that begins has nothing"):
        workspace.run(plan, redo=["A"])
    assert len(workspace.sessions()) == 0


def test_a_fresh_start_with_orders_for_the_old_run_gives_nothing_up(
    workspace: Workspace, plan_file: Plan
) -> None:
    plan = plan_file({"id": "A", "run": "exit 1"})
    workspace.run(plan)
    with pytest.raises(Usage, match="a run that begins has nothing"):
        workspace.run(plan, choice="fresh", done=["A"])
    assert len(workspace.status().incomplete) == 1


def test_a_run_that_was_gone_on_with_leads_back_to_where_it_began(
    workspace: Workspace, project: Path, plan_file: Plan, outside: Path
) -> None:
    """P7: not to where it was taken up again."""
    (project / "file").write_text("before\n")
    plan = plan_file({"id": "A", "run": "echo a > file"}, {"id": "B", "run": f"test -e {outside}/ready"})
    first = workspace.run(plan)
    assert first.state == "failed"
    (outside / "ready").touch()
    second = workspace.run(plan)
    assert (second.state, second.continued, second.start) == ("done", True, first.start)
    assert workspace.read(not_none(second.start), "file") == b"before\n"
