"""recover: the run that died goes on, or is given up, and nothing is done twice unawares (P6, P7, P8)."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path

import pytest

import lastgood
from lastgood.catalogue.database import prepare, reseal
from lastgood.errors import Ambiguous, Busy, Conflict, LastgoodError, NotFound, Usage
from lastgood.model.checkpoint import Checkpoint
from lastgood.settings import AutoSettings, Settings
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from lastgood.workspace.session import OpenSession
from tools.command import Command
from tools.forks import die_before, ended, forked
from tools.harm import lose
from tools.values import not_none

Died = Callable[..., str]


# Blocks that are entered and never left: a run that is killed leaves none.
left: list[AbstractContextManager[object]] = []


def work(session: OpenSession[Workspace]) -> None:
    """Finish one task, and die in the next while deploying."""
    folder = session.workspace.path
    session.progress(phase="Construction", iteration=3, step=12, steps=15, artifacts=["draft.md"])
    with open(f"{folder}/draft.md", "w", encoding="utf-8") as file:
        file.write("a draft")
    with session.task("T01"), open(f"{folder}/one", "w", encoding="utf-8") as file:
        file.write("1")
    for block in (session.task("T02"), session.step("lint"), session.step("deploy", irreversible=True)):
        left.append(block)
        block.__enter__()
    with open(f"{folder}/two", "w", encoding="utf-8") as file:
        file.write("half")


def states(workspace: Workspace, session: str) -> dict[str, tuple[str, int]]:
    return {task.id: (task.state, task.attempts) for task in workspace.get_session(session).progress.tasks}


def go_back_half_way(session: OpenSession[Workspace]) -> None:
    """Save twice, and die in a restore of the first of them."""
    for text in ("first", "second"):
        with open(f"{session.workspace.path}/one", "w", encoding="utf-8") as file:
            file.write(text)
        session.save(text, name=text)
    die_before("os.rename", path=".lastgood-")
    session.workspace.restore("first")


def test_a_run_that_died_while_it_restored_goes_on_from_where_that_leads(
    workspace: Workspace, project: Path, died: Died
) -> None:
    """T7, P7: the restore is finished, and what is told is not its last checkpoint."""
    died(go_back_half_way)

    report = workspace.recover()

    assert (report.done, report.interrupted_restore) == ("continue", "finished-restore")
    assert (project / "one").read_text() == "first"
    assert (not_none(report.checkpoint).name, report.returned) == ("first", True)
    assert not any(not_none(report.drift).as_dict().values())


def test_a_dead_run_is_continued_with_the_present_files(
    workspace: Workspace, project: Path, died: Died
) -> None:
    id = died(work, goal="ship it")

    report = workspace.recover()

    assert (report.done, report.state) == ("continue", "active")
    assert report.session is not None
    assert (report.session.id, report.session.state) == (id, "active")
    assert report.session.session.goal == "ship it"
    assert (project / "two").read_text() == "half"
    assert states(workspace, id) == {"T01": ("done", 1), "T02": ("pending", 1)}
    assert report.position is not None
    assert (report.position.phase, report.position.step) == ("Construction", 12)
    assert not_none(report.drift).added == 1
    assert [(one.path, one.state) for one in report.artifacts] == [(b"draft.md", "present")]


def test_steps_whose_end_nobody_saw_are_reported_the_irreversible_ones_first(
    workspace: Workspace, died: Died
) -> None:
    """P6."""
    died(work)
    report = workspace.recover()
    assert [(one.name, one.state, one.irreversible) for one in report.unknown_effects] == [
        ("deploy", "unknown", True),
        ("T02", "unknown", False),
        ("lint", "unknown", False),
    ]


def test_the_continued_session_goes_on_and_finishes(workspace: Workspace, died: Died) -> None:
    """P6: what was done stays done."""
    id = died(work)
    workspace.recover(owner_pid=os.getpid())
    inside = workspace.within(id)
    inside.task_start("T02")
    inside.task_done("T02")
    assert states(workspace, id) == {"T01": ("done", 1), "T02": ("done", 2)}
    inside.session_end(id)
    assert workspace.recover().session is None


def test_a_step_done_in_a_later_attempt_is_told_no_more(workspace: Workspace, died: Died) -> None:
    """P6."""
    id = died(work)
    workspace.recover(owner_pid=os.getpid())
    inside = workspace.within(id)
    inside.task_start("T02")
    inside.step_end(inside.step_start("deploy", task="T02", irreversible=True), state="done")
    inside.session_break_off(id, reason="again")
    assert [one.name for one in workspace.recover(choice="review").unknown_effects] == ["T02", "lint"]


def test_fresh_ends_the_session_and_touches_no_file(workspace: Workspace, project: Path, died: Died) -> None:
    id = died(work)
    before = {path.name: path.read_bytes() for path in project.iterdir()}

    report = workspace.recover(choice="fresh")

    assert (report.done, report.state) == ("fresh", "idle")
    session = workspace.get_session(id).session
    assert (session.state, session.ended_by) == ("ended", "fresh")
    assert {path.name: path.read_bytes() for path in project.iterdir()} == before
    assert {one.name for one in report.unknown_effects} == {"deploy", "T02", "lint"}
    assert workspace.list(session=id)[0].progress is not None
    assert workspace.session_start(goal="anew").session.state == "active"


def test_review_changes_nothing(workspace: Workspace, store: Path, died: Died) -> None:
    id = died(work)
    before = (workspace.get_session(id), workspace.list(), workspace.operations())

    report = workspace.recover(choice="review")

    assert (report.done, report.state) == ("review", "incomplete")
    assert [one.name for one in report.unknown_effects] == ["deploy", "T02", "lint"]
    assert (workspace.get_session(id), workspace.list(), workspace.operations()) == before


def test_a_graceful_interruption_is_recovered_too(workspace: Workspace) -> None:
    with pytest.raises(KeyboardInterrupt), workspace.session() as session:
        raise KeyboardInterrupt
    report = workspace.recover()
    assert (not_none(report.session).id, report.done) == (session.id, "continue")


def test_rollback_takes_files_and_progress_back_to_the_last_checkpoint(
    workspace: Workspace, project: Path, died: Died
) -> None:
    id = died(work)

    report = workspace.recover(choice="continue", roll_back=True)

    assert report.done == "continue"
    assert not (project / "two").exists()
    assert (project / "one").read_text() == "1"
    assert states(workspace, id) == {"T01": ("done", 1), "T02": ("pending", 1)}
    assert not_none(report.drift).as_dict() == {"added": 0, "modified": 0, "deleted": 0}
    workspace.undo()
    assert (project / "two").read_text() == "half"


def test_rollback_to_an_earlier_checkpoint_has_later_tasks_done_again(
    workspace: Workspace, project: Path, died: Died
) -> None:
    """P6: what cannot be undone is named."""

    def deploy(session: OpenSession[Workspace]) -> None:
        with session.task("T01"), session.step("deploy", irreversible=True):
            (project / "one").write_text("1")

    id = died(deploy)
    first = workspace.list(session=id, kind="session-start")[0]

    report = workspace.recover(first.id, roll_back=True)

    assert not (project / "one").exists()
    assert states(workspace, id) == {"T01": ("pending", 1)}
    assert [one.name for one in report.irreversible] == ["deploy"]


def test_without_rollback_a_checkpoint_only_says_which_run_is_meant(
    workspace: Workspace, project: Path, died: Died
) -> None:
    id = died(work)
    first = workspace.list(session=id)[-1]
    report = workspace.recover(first.id)
    assert (report.done, report.checkpoint) == ("continue", first)
    assert (project / "two").read_text() == "half"
    assert states(workspace, id)["T01"] == ("done", 1)


def test_a_run_without_a_checkpoint_is_not_rolled_back(project: Path, store: Path) -> None:
    settings = Settings(auto=AutoSettings(enabled=False))
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        with pytest.raises(KeyboardInterrupt), workspace.session() as session:
            raise KeyboardInterrupt
        if workspace.list(session=session.id):
            workspace.delete(*(one.id for one in workspace.list(session=session.id)))
        with pytest.raises(NotFound):
            workspace.recover(roll_back=True)
        assert workspace.get_session(session.id).state == "incomplete"
        assert workspace.recover().checkpoint is None


def test_whoever_names_the_dead_session_recovers_it_too(workspace: Workspace, died: Died) -> None:
    """An agent that is started anew with the environment of before."""
    id = died(work)
    mine = workspace.within(id)
    assert mine.recover(choice="review").state == "incomplete"
    assert mine.recover().done == "continue"


def test_of_several_dead_runs_one_has_to_be_named(workspace: Workspace, died: Died) -> None:
    first, second = died(), died()
    for choice in (None, "continue", "fresh"):
        with pytest.raises(Ambiguous) as caught:
            workspace.recover(choice=choice)
        assert caught.value.details["candidates"] == [second, first]
    assert workspace.get_session(first).session.state == "incomplete"
    review = workspace.recover(choice="review")
    assert (not_none(review.session).id, [one.id for one in review.waiting]) == (second, [first])

    report = workspace.recover(first, choice="continue")

    assert (not_none(report.session).id, [one.id for one in report.waiting]) == (first, [second])


def test_a_checkpoint_of_a_dead_run_names_it(workspace: Workspace, died: Died) -> None:
    first, second = died(), died()
    report = workspace.recover(workspace.list(session=first)[0].id)
    assert not_none(report.session).id == first
    assert workspace.get_session(second).state == "incomplete"


def test_a_run_does_not_go_on_beside_a_living_one(workspace: Workspace, died: Died) -> None:
    """P1."""
    id = died()
    with workspace.session():
        with pytest.raises(Conflict):
            workspace.recover(id)
        assert workspace.recover(id, choice="fresh").done == "fresh"


def test_what_is_not_dead_is_refused(workspace: Workspace, died: Died) -> None:
    id = died()
    workspace.recover(owner_pid=os.getpid())
    with pytest.raises(Conflict):
        workspace.recover(id)
    workspace.session_end(id)
    with pytest.raises(Conflict):
        workspace.recover(id)
    with pytest.raises(NotFound):
        workspace.recover("sess_0123456789abcdef")
    with pytest.raises(NotFound):
        workspace.recover("nobody")


@pytest.mark.parametrize("given", [{"choice": "forget"}, {"owner_pid": 0}, {"owner_pid": "1"}, {"ref": 7}])
def test_bad_input_is_refused_and_settles_nothing(
    workspace: Workspace, died: Died, given: dict[str, object]
) -> None:
    id = died()
    with pytest.raises(Usage):
        workspace.recover(**given)  # type: ignore[arg-type]  # the point of the test
    assert workspace.get_session(id).state == "incomplete"


def test_an_owner_that_does_not_run_is_refused(workspace: Workspace, died: Died) -> None:
    id = died()
    with pytest.raises(NotFound):
        workspace.recover(owner_pid=2**22 + 1)
    assert workspace.get_session(id).state == "incomplete"


def test_the_lease_lives_with_its_new_owner(workspace: Workspace, died: Died) -> None:
    id = died()
    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    workspace.recover(owner_pid=owner.pid)
    assert workspace.get_session(id).state == "active"
    owner.kill()
    owner.wait()
    assert workspace.get_session(id).state == "incomplete"
    assert workspace.recover().done == "continue"


def test_processes_that_the_run_left_are_named(workspace: Workspace, tmp_path: Path, died: Died) -> None:
    def leave(session: OpenSession[Workspace]) -> None:
        child = subprocess.Popen(["sleep", "1000"], env={**os.environ, **session.environment})
        (tmp_path / "pid").write_text(str(child.pid))

    died(leave)
    pid = int((tmp_path / "pid").read_text())
    try:
        report = workspace.recover(choice="review")
        assert [(one.pid, one.command) for one in report.live_processes] == [(pid, "sleep 1000")]
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_moved_head_is_told_with_its_number_of_commits(
    workspace: Workspace, project: Path, git: Callable[..., str], died: Died
) -> None:
    git(project, "init", "-q")
    git(project, "commit", "-q", "--allow-empty", "-m", "one")
    died(work)
    assert workspace.recover(choice="review").git_matches is True
    for message in ("two", "three"):
        git(project, "commit", "-q", "--allow-empty", "-m", message)
    report = workspace.recover()
    assert report.git_matches is False
    assert not_none(report.head_moved).commits == 2


def test_an_interrupted_restore_is_finished_before_the_run_goes_on(
    workspace: Workspace, project: Path, died: Died
) -> None:
    """T7."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint.id
    (project / "file").write_text("two")

    def restore(session: OpenSession[Workspace]) -> None:
        die_before("os.rename", path=".lastgood-")
        session.workspace.restore(saved)

    id = died(restore)
    review = workspace.recover(choice="review")
    assert (review.state, (project / "file").read_text()) == ("interrupted", "two")

    report = workspace.recover()

    assert (report.interrupted_restore, report.done) == ("finished-restore", "continue")
    assert not_none(report.session).id == id
    assert (project / "file").read_text() == "one"


def test_several_dead_runs_do_not_keep_an_interrupted_restore_waiting(
    workspace: Workspace, project: Path, died: Died
) -> None:
    """T7."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint.id
    (project / "file").write_text("two")
    died()

    def restore(session: OpenSession[Workspace]) -> None:
        die_before("os.rename", path=".lastgood-")
        session.workspace.restore(saved)

    died(restore)
    report = workspace.recover()
    assert (report.done, report.interrupted_restore) == ("finished-restore", "finished-restore")
    assert len(report.waiting) == 2


def test_of_two_who_recover_at_once_one_wins(workspace: Workspace, store: Path, died: Died) -> None:
    id = died(work)
    results: list[object] = []
    start = threading.Barrier(4)

    def recover() -> None:
        with lastgood.open(workspace.path, store=store, maintenance="off") as mine:
            start.wait()
            try:
                results.append(mine.recover(id).done)
            except LastgoodError as error:
                results.append(type(error))

    threads = [threading.Thread(target=recover) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Who comes when it is settled already is asked what else there is to be done (P7a).
    assert results.count("continue") == 1
    assert {one for one in results if one != "continue"} <= {Conflict, Usage}
    assert states(workspace, id)["T02"] == ("pending", 1)


def test_a_session_started_by_force_meanwhile_wins(workspace: Workspace, died: Died) -> None:
    """P1: whoever comes second is told."""
    id = died(work)
    with workspace.session(force=True), pytest.raises(Conflict):
        workspace.recover(id)


@pytest.mark.parametrize("roll_back", [False, True])
def test_a_recovery_killed_anywhere_can_be_run_again(
    workspace: Workspace, project: Path, store: Path, died: Died, *, roll_back: bool
) -> None:
    """P7: either the run is dead as before, or it goes on and everything was told to the store."""
    id = died(work)
    for event in range(0, 3000, 23 if roll_back else 5):
        status = ended(forked(partial(_recover_and_die, project, store, at=event, roll_back=roll_back)))
        if status == 0:
            break
        assert status == -signal.SIGKILL
        with lastgood.open(project, store=store, maintenance="off") as again:
            states_now = states(again, id)
            if again.get_session(id).session.state == "active" and states_now["T02"][0] == "pending":
                again.session_break_off(id, reason="for the next trial", save=False)
            assert states_now["T01"] == ("done", 1)
            assert again.recover(choice="review").unknown_effects[0].name == "deploy"
    else:
        pytest.fail("the recovery never ended")
    report = workspace.recover(choice="review")
    assert (report.session is None) or report.session.id == id
    assert workspace.get_session(id).state == "incomplete" or states(workspace, id)["T02"] == ("pending", 1)


def _recover_and_die(project: Path, store: Path, *, at: int, roll_back: bool) -> None:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        die_before("open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect", "fcntl.flock", at=at)
        workspace.recover(choice="continue", roll_back=roll_back)


def test_with_nothing_dead_the_position_of_the_latest_checkpoint_is_told(
    workspace: Workspace, project: Path
) -> None:
    (project / "draft.md").write_text("a draft")
    workspace.progress_set(phase="Construction", iteration=3, step=12, steps=15, artifacts=["draft.md"])
    saved = workspace.save("one", name="iteration-3-complete").checkpoint
    workspace.progress_set(step=13)
    report = workspace.recover()
    assert (report.done, report.checkpoint, report.session) == (None, saved, None)
    assert report.position is not None
    assert (report.position.step, report.position.steps) == (12, 15)


def test_with_nothing_dead_it_goes_by_where_the_workspace_stands(workspace: Workspace, project: Path) -> None:
    """P7, T15: no artifact of a later checkpoint comes into files that go back to an earlier one."""
    (project / "file").write_text("one")
    first = workspace.save("one").checkpoint
    (project / "report.txt").write_text("of the second")
    (project / "file").write_text("two")
    workspace.progress_set(artifacts=["report.txt"])
    workspace.save("two")
    workspace.restore(first.id, only=["files"])
    (project / "file").write_text("one, and more")

    report = workspace.recover()

    assert (report.checkpoint, report.returned) == (first, True)
    assert [one.state for one in report.artifacts] == ["missing"]
    assert not (project / "report.txt").exists()
    assert workspace.recover(choice="review").checkpoint == first


def test_missing_artifacts_are_reloaded_and_nothing_else(workspace: Workspace, project: Path) -> None:
    for name in ("draft.md", "kept.md", "other"):
        (project / name).write_text("one")
    workspace.progress_set(artifacts=["draft.md", "kept.md", "never.md"])
    workspace.save("one")
    for name in ("draft.md", "other"):
        (project / name).unlink()
    (project / "kept.md").write_text("two")

    report = workspace.recover()

    assert [(one.path, one.state) for one in report.artifacts] == [
        (b"draft.md", "reloaded"),
        (b"kept.md", "present"),
        (b"never.md", "missing"),
    ]
    assert (project / "draft.md").read_text() == "one"
    assert (project / "kept.md").read_text() == "two"
    assert not (project / "other").exists()
    workspace.undo()
    assert not (project / "draft.md").exists()


def test_artifacts_are_let_be_while_another_session_works(workspace: Workspace, project: Path) -> None:
    (project / "draft.md").write_text("one")
    workspace.progress_set(artifacts=["draft.md"])
    saved = workspace.save("one").checkpoint.id
    with workspace.session():
        (project / "draft.md").unlink()
        report = workspace.recover(saved)
        assert report.state == "active"
        assert [one.state for one in report.artifacts] == ["missing"]


def test_a_lease_without_a_process_is_dead_when_it_ran_out(project: Path, store: Path) -> None:
    """P1, P7a: neither before, nor because somebody set the clock; until then recover asks."""
    clock = FakeClock()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        id = workspace.session_start().session.id
        for jump in (10 * 365 * 86_400, -11 * 365 * 86_400):
            clock.jump(jump)
            with pytest.raises(Usage, match="nobody is proven to be at it"):
                workspace.recover()
            assert workspace.get_session(id).state == "active"
        clock.advance(86_401)
        report = workspace.recover()
        assert (not_none(report.session).id, report.done) == (id, "continue")


def test_a_store_that_waits_for_a_restore_of_another_process_says_busy(
    workspace: Workspace, died: Died
) -> None:
    """The recovery of one workspace is one at a time."""
    died()
    context = workspace._context
    with context.locks.recovery(context.key, wait=0):
        twin = workspace.within("none")
        twin._use(context.replace(wait=0.1))
        with pytest.raises(Busy):
            twin.recover()


@pytest.mark.damages
def test_a_rollback_does_not_pass_over_files_for_the_sake_of_lost_progress(
    workspace: Workspace, project: Path, store: Path, died: Died
) -> None:
    """P7b, K4: of what is damaged beside the files the report says that it did not come back."""

    def work(session: OpenSession[Workspace]) -> None:
        for number in range(20):
            with session.task(f"T{number:02}"):
                (project / "a").write_text(f"{number}")
        session.workspace.task_start("half")
        (project / "a").write_text("half")

    died(work)
    last = workspace.get("@")
    lose(store, f"{last.commit}:progress/tasks/0000/01")
    workspace.verify()
    assert workspace.get(last.id).damaged == "progress/tasks cannot be read"

    report = workspace.recover(choice="continue", roll_back=True)

    assert report.rolled_back_to == last.id
    assert (project / "a").read_text() == "19"
    assert not_none(report.checkpoint).damaged == "progress/tasks cannot be read"
    assert report.passed_over == ()


@pytest.fixture
def damaged(workspace: Workspace, project: Path, store: Path, died: Died) -> Checkpoint:
    """Return the damaged checkpoint of a task that was done last, in a run that died in another one."""

    def work(session: OpenSession[Workspace]) -> None:
        for name in ("A", "B"):
            with session.task(name):
                (project / "a").write_text(name)
        session.workspace.task_start("half")

    died(work)
    later, *_ = [one for one in workspace.list() if one.moment == "after"]
    lose(store, f"{later.commit}:workspace/a")
    workspace.verify()
    return later


@pytest.mark.damages
def test_a_rollback_names_the_checkpoints_whose_files_are_damaged(
    workspace: Workspace, project: Path, damaged: Checkpoint
) -> None:
    """P7b, K4: it leads to an older one, and says so."""

    report = workspace.recover(choice="continue", roll_back=True)

    assert (project / "a").read_text() == "A"
    assert damaged.id in report.passed_over


@pytest.mark.damages
def test_a_review_names_the_checkpoints_that_a_rollback_passes_over(
    workspace: Workspace, damaged: Checkpoint, lastgood: Command
) -> None:
    """P7b, K4: before anybody decides."""

    report = workspace.recover(choice="review")
    done = lastgood("recover", "--review")

    assert damaged.id in report.passed_over
    assert f"A rollback passes over, as their files are damaged: {damaged.short_id}" in done.err


@pytest.mark.damages
def test_a_rollback_without_a_target_names_what_is_damaged(
    workspace: Workspace, project: Path, store: Path, died: Died
) -> None:
    """P7b, K4: what was passed over is why."""

    def work(session: OpenSession[Workspace]) -> None:
        (project / "a").write_text("half")

    died(work)
    for one in workspace.list():
        lose(store, f"{one.commit}:workspace")
    workspace.verify()
    hit = [one.id for one in workspace.list() if one.session is not None]

    with pytest.raises(NotFound) as caught:
        workspace.recover(choice="continue", roll_back=True)

    assert caught.value.details == {"passed_over": hit}
    assert "damaged" in caught.value.message
    assert "verify --repair" in caught.value.hint


@pytest.mark.damages
def test_a_rollback_along_a_history_that_leads_back_to_itself_ends(
    workspace: Workspace, project: Path, store: Path, died: Died
) -> None:
    """P7b: as imports may have brought it, out of order and in part."""

    def work(session: OpenSession[Workspace]) -> None:
        for number in range(3):
            (project / "a").write_text(f"{number}")
            session.workspace.save("turn", kind="turn")

    died(work)
    made = workspace.list()
    for one in made:
        lose(store, f"{one.commit}:workspace")
    workspace.verify()
    workspace.close()
    with closing(sqlite3.connect(store / "catalogue.sqlite3", isolation_level=None)) as connection:
        prepare(connection)
        connection.execute("UPDATE checkpoint SET previous = ? WHERE id = ?", (made[0].id, made[-1].id))
        reseal(connection, "checkpoint", made[-1].id)

    with lastgood.open(project, store=store) as again, pytest.raises(NotFound):
        again.recover(choice="continue", roll_back=True)


def test_many_unknown_effects_are_told_in_a_few_lines(
    workspace: Workspace, died: Died, lastgood: Command
) -> None:
    """P7: the first few and how many more there are; all of them in JSON."""

    def work(session: OpenSession[Workspace]) -> None:
        for number in range(14):
            block = session.step(f"step {number}")
            left.append(block)
            block.__enter__()

    died(work)

    text, document = lastgood("recover", "--review").out, lastgood("recover", "--review", "--json").json

    assert text.count("Effect unknown: step") == 10
    assert "Effect unknown: and 4 more; --json names all." in text
    assert len(document["unknown_effects"]) == 14
