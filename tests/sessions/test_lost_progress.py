"""Progress of which a checkpoint's list cannot be read: all else of it is shown, and comes back (T11, K4)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lastgood.errors import Damaged
from lastgood.model import long_list
from tools.command import Command
from tools.harm import lose
from tools.unlocked import writers
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.session import Task
    from lastgood.workspace import Workspace

pytestmark = pytest.mark.damages

FIRST, LAST = "progress/tasks/0000/00", "progress/tasks/0000/01"


def hurt(store: Path, commit: str, path: str = FIRST) -> None:
    """Damage an object of a checkpoint, and be a process that has seen no list."""
    lose(store, f"{commit}:{path}")
    long_list.forget()


def worked(workspace: Workspace, *, tasks: int = 20) -> Checkpoint:
    """Do some tasks in a session, and return the checkpoint of the last one's end."""
    file = Path(workspace.path) / "file"
    for number in range(tasks - 1):
        workspace.task_skip(f"T{number:02}")
    file.write_text("wanted")
    workspace.task_start("last")
    return not_none(workspace.task_done("last").saved).checkpoint


@pytest.mark.parametrize("path", [FIRST, "progress/tasks/0000", "progress/tasks"])
def test_a_save_stores_anew_what_it_refers_to_and_cannot_be_read(workspace: Workspace, path: str) -> None:
    """P8a, S13: what is saved can be read, though a pack still names what it has garbled."""
    first = worked(workspace)
    wanted = tuple(first.manifest.progress.tasks)
    hurt(Path(workspace.store), first.commit, path)

    second = workspace.save("the same tasks", allow_empty=True).checkpoint

    long_list.forget()
    assert tuple(workspace.get(second.id).manifest.progress.tasks) == wanted
    long_list.forget()
    assert tuple(workspace.get(first.id).manifest.progress.tasks) == wanted


def test_files_come_back_where_the_tasks_of_the_checkpoint_cannot_be_read(workspace: Workspace) -> None:
    """T11: progress stays as it is, and that is told."""
    target = worked(workspace)
    workspace.task_start("more")
    (Path(workspace.path) / "file").write_text("edited")
    before = workspace.progress()
    hurt(Path(workspace.store), target.commit, LAST)

    planned = workspace.preview(workspace.plan_restore(target.id))
    report = workspace.restore(target.id)

    assert (Path(workspace.path) / "file").read_text() == "wanted"
    assert workspace.progress() == before
    assert [(part.scope, part.result) for part in planned.parts] == [("progress", "kept")]
    assert [(part.scope, part.result) for part in report.parts] == [("progress", "kept")]
    assert target.short_id in not_none(report.parts[0].reason)
    assert not report.complete


def test_a_lost_part_that_is_in_force_keeps_no_progress_from_coming_back(workspace: Workspace) -> None:
    """T11, P8a: what would not change is not read."""
    target = worked(workspace)
    wanted = workspace.progress().tasks
    workspace.task_start("more")
    hurt(Path(workspace.store), target.commit, FIRST)

    report = workspace.restore(target.id)

    long_list.forget()
    assert workspace.progress().tasks == wanted
    assert report.complete


def test_a_list_of_the_same_tasks_is_not_read_to_be_put_back(workspace: Workspace) -> None:
    """T11: nothing of it would change."""
    target = worked(workspace)
    (Path(workspace.path) / "file").write_text("edited")
    hurt(Path(workspace.store), target.commit)

    report = workspace.restore(target.id)

    assert not report.parts
    assert report.complete


def test_a_restore_of_progress_alone_says_that_it_cannot_be_read(
    workspace: Workspace, lastgood: Command
) -> None:
    """T11: that is no success."""
    target = worked(workspace)
    workspace.task_start("more")
    hurt(Path(workspace.store), target.commit, LAST)

    alone = lastgood("restore", target.id, "--yes", "--only", "progress", expect=3)
    whole = lastgood("restore", target.id, "--yes", expect=3)

    assert "nothing was restored: the progress of" in alone.out
    assert "all but the progress already is as in" in whole.out
    assert "progress: left as it is" in whole.out


def test_a_task_that_was_done_is_told_again_beside_damage(workspace: Workspace) -> None:
    """P2: its own part can be read, so no other checkpoint is made."""
    target = worked(workspace)
    workspace.task_start("more")
    hurt(Path(workspace.store), target.commit)

    again = workspace.task_done("last")

    assert again.saved is None
    assert not_none(again.task).state == "done"


def test_a_task_whose_own_part_is_lost_is_told_again(workspace: Workspace) -> None:
    """P2: the old checkpoint tells nothing of it."""
    target = worked(workspace)
    workspace.task_start("more")
    hurt(Path(workspace.store), target.commit, "progress/tasks/0000/01")

    assert not_none(workspace.task_done("last").task).state == "done"


def test_show_tells_all_but_the_tasks(workspace: Workspace, lastgood: Command) -> None:
    """K4: their numbers stand in the record."""
    made = worked(workspace)
    shown = lastgood("show", made.id, "--json").json["checkpoint"]
    hurt(Path(workspace.store), made.commit)

    text, document = lastgood("show", made.id), lastgood("show", made.id, "--json").json["checkpoint"]

    assert "Completed task last" in text.out
    assert "20 tasks: 1 done, 19 skipped; which they are cannot be read" in text.out
    assert document == shown | {"progress": shown["progress"] | {"tasks": None}}


def left_unfinished(workspace: Workspace) -> tuple[Workspace, Checkpoint]:
    """Leave a session at a task, and return the workspace within it with the checkpoint before that."""
    own = workspace.within(workspace.session_start(goal="g").session.id)
    made = worked(own)
    own.task_start("open")
    (Path(workspace.path) / "file").write_text("half")
    own.session_end(finished=False)
    return own, made


def test_a_rollback_takes_what_cannot_be_read_from_the_progress_in_force(workspace: Workspace) -> None:
    """P7b: what had ended by then stays done, what came later has to be done again."""
    own, made = left_unfinished(workspace)
    hurt(Path(workspace.store), made.commit)

    report = workspace.recover(roll_back=True)

    assert report.rolled_back_to == made.id
    assert (Path(workspace.path) / "file").read_text() == "wanted"
    found = {task.id: task.state for task in own.get_session().progress.tasks}
    assert (found["T00"], found["last"], found["open"]) == ("skipped", "done", "pending")
    assert len(found) == 21


def test_recover_tells_where_work_that_ended_stood(workspace: Workspace, lastgood: Command) -> None:
    """P7: by the record of its session."""
    own = workspace.within(workspace.session_start(goal="g").session.id)
    worked(own)
    (Path(workspace.path) / "file").write_text("more")
    own.session_end()
    workspace.close()
    hurt(lastgood.store, lastgood("show", "@", "--json").json["checkpoint"]["commit"])

    assert "1 done, 19 skipped" in lastgood("recover").out


# --- Rows of the progress in force ---


def drop_row(workspace: Workspace, number: int = 1, *, of: str = "tasks") -> None:
    """Delete a part of a list in force, and be a process that has seen no list."""
    with closing(sqlite3.connect(f"{workspace.store}/catalogue.sqlite3")) as connection, connection:
        like = f"%/{of}/{number:05}"
        assert connection.execute("DELETE FROM progress WHERE id LIKE ?", (like,)).rowcount == 1
    long_list.forget()


def skipped(workspace: Workspace, *, tasks: int = 40) -> tuple[Task, ...]:
    for number in range(tasks):
        workspace.task_skip(f"T{number:02}")
    return tuple(workspace.progress().tasks)


def test_a_lost_row_of_tasks_is_named_and_written_again_from_a_checkpoint(workspace: Workspace) -> None:
    """K4, P8a."""
    wanted = skipped(workspace)
    workspace.save("all")
    drop_row(workspace)

    told = workspace.verify()
    report = workspace.verify(repair=True)
    long_list.forget()

    assert [fault for fault in told.faults if "lacks parts of its 40 tasks" in fault]
    assert [line for line in report.repaired if line.endswith("40 tasks: written again")]
    assert report.ok
    assert tuple(workspace.progress().tasks) == wanted


def test_a_lost_row_of_tasks_is_taken_from_the_backup_of_the_catalogue(workspace: Workspace) -> None:
    """K4: no checkpoint has them."""
    wanted = skipped(workspace)
    writers(workspace._context).catalogue.back_up()
    drop_row(workspace)

    workspace.verify(repair=True)
    long_list.forget()

    assert tuple(workspace.progress().tasks) == wanted


def test_status_counts_tasks_of_an_altered_row_and_hands_none_of_them_out(
    workspace: Workspace, lastgood: Command
) -> None:
    """P8a, K4: their numbers stand in the record; who asks for the tasks themselves has them proven."""
    with workspace.session(goal="many") as session:
        skipped(workspace)
        with closing(sqlite3.connect(f"{workspace.store}/catalogue.sqlite3")) as connection, connection:
            statement = (
                "UPDATE progress SET payload = replace(payload, 'T20', 'X20') WHERE id LIKE '%/tasks/00001'"
            )
            assert connection.execute(statement).rowcount == 1
        long_list.forget()

        report = not_none(workspace.status().session)
        document = lastgood("status", "--json", env={"LASTGOOD_SESSION": session.id}).json

        assert report.progress.count("skipped") == 40
        with pytest.raises(Damaged):
            tuple(report.progress.tasks)
        assert document["session"]["progress"]["tasks"] is None
        assert [task.id for task in workspace.progress().tasks] == [
            f"T{number:02}" for number in (*range(16), *range(32, 40))
        ]


def test_the_tasks_that_status_tells_are_those_of_its_moment(workspace: Workspace) -> None:
    """P8a: whenever they are asked for."""
    with workspace.session(goal="many"):
        wanted = skipped(workspace)
        long_list.forget()
        report = not_none(workspace.status().session)
        workspace.task_start("more")
        long_list.forget()

        assert tuple(report.progress.tasks) == wanted


def test_what_is_left_of_the_tasks_is_kept_and_counted(workspace: Workspace) -> None:
    """K4: nothing has the others any more."""
    wanted = skipped(workspace)
    drop_row(workspace)

    report = workspace.verify(repair=True)
    long_list.forget()

    assert [line for line in report.repaired if line.endswith("40 tasks: 24 are left")]
    assert tuple(workspace.progress().tasks) == (*wanted[:16], *wanted[32:])
    assert workspace.verify().ok


def test_rows_of_both_lists_are_written_again_together(workspace: Workspace) -> None:
    """K4, P8a: mending one takes nothing from the other."""
    for number in range(20):
        workspace.task_skip(f"T{number:02}")
        workspace.feature_start(f"F{number:02}")
        workspace.feature_done(f"F{number:02}")
    found = workspace.progress()
    wanted = tuple(found.tasks), tuple(found.features.completed)
    workspace.save("all")
    drop_row(workspace)
    drop_row(workspace, of="completed")

    report = workspace.verify(repair=True)
    long_list.forget()

    again = workspace.progress()
    assert (tuple(again.tasks), tuple(again.features.completed)) == wanted
    assert len([line for line in report.repaired if line.endswith("written again")]) == 2


def test_the_catalogue_and_a_checkpoint_make_up_for_each_other(workspace: Workspace) -> None:
    """K4, P8a: of one list each has lost another part."""
    wanted = skipped(workspace, tasks=20)
    made = workspace.save("all").checkpoint
    drop_row(workspace, 0)
    hurt(Path(workspace.store), made.commit, "progress/tasks/0000/01")

    report = workspace.verify(repair=True)
    long_list.forget()

    assert report.damaged == ()
    assert tuple(workspace.progress().tasks) == wanted
    assert tuple(workspace.get(made.id).manifest.progress.tasks) == wanted


def test_tasks_of_a_later_moment_than_their_record_are_kept_and_told(workspace: Workspace) -> None:
    """K4: the record was altered, so that it is as a backup has it; its parts are sound."""
    skipped(workspace)
    writers(workspace._context).catalogue.back_up()
    workspace.task_start("T20")
    workspace.task_done("T20")
    wanted = tuple(workspace.progress().tasks)
    with closing(sqlite3.connect(f"{workspace.store}/catalogue.sqlite3")) as connection, connection:
        connection.execute("UPDATE progress SET payload = payload || ' ' WHERE NOT instr(id, '/')")
    long_list.forget()

    report = workspace.verify(repair=True)
    long_list.forget()

    assert [line for line in report.repaired if line.endswith("40 are kept, not all of one moment")]
    assert tuple(workspace.progress().tasks) == wanted


def test_a_program_that_knows_the_tasks_writes_a_lost_row_again(workspace: Workspace) -> None:
    """P8a: with the next change."""
    wanted = skipped(workspace)
    known = dict(long_list._known_lists)
    drop_row(workspace)
    long_list._known_lists.update(known)

    workspace.task_skip("more")
    long_list.forget()

    assert tuple(workspace.progress().tasks)[:-1] == wanted
    assert workspace.verify().ok


def test_a_catalogue_is_rebuilt_although_rows_of_its_tasks_are_lost(
    workspace: Workspace, lastgood: Command
) -> None:
    """K4, P8a: what no file has any more keeps nobody from all else."""
    skipped(workspace)
    writers(workspace._context).catalogue.back_up()
    workspace.task_skip("more")
    drop_row(workspace, 2)
    workspace.close()
    with closing(sqlite3.connect(lastgood.store / "catalogue.sqlite3")) as connection, connection:
        connection.execute("DROP TABLE run")

    done = lastgood("verify", "--repair", "--json").json
    found = lastgood("progress", "--json").json["progress"]["tasks"]

    assert done["ok"]
    assert [line for line in done["repaired"] if "lacks parts of its 41 tasks" in line]
    assert [task["id"] for task in found[:32]] == [f"T{number:02}" for number in range(32)]


# --- Trees of checkpoints ---


def test_lost_trees_of_an_earlier_checkpoint_are_made_again(workspace: Workspace) -> None:
    """P8a, K4: by what was recorded since, and their ids prove them."""
    made = []
    for number in range(19):
        workspace.task_start(f"T{number:02}")
        workspace.feature_start(f"F{number:02}")
        workspace.feature_done(f"F{number:02}")
        made.append(not_none(workspace.task_done(f"T{number:02}").saved).checkpoint)
    wanted = tuple(made[17].manifest.progress.tasks)
    for number, tree in ((16, "tasks/0000"), (17, "tasks"), (18, "completed")):
        hurt(Path(workspace.store), made[number].commit, f"progress/{tree}")

    report = workspace.verify(repair=True)
    long_list.forget()

    assert report.damaged == ()
    assert "3 lists of progress stored again, as other records tell them" in report.repaired
    assert tuple(workspace.get(made[17].id).manifest.progress.tasks) == wanted


def test_a_lost_tree_is_made_again_by_a_later_checkpoint(workspace: Workspace) -> None:
    """P8a: the progress in force tells another story by now."""
    made = []
    for number in range(20):
        (Path(workspace.path) / "file").write_text(f"{number}")
        workspace.task_start(f"T{number:02}")
        made.append(not_none(workspace.task_done(f"T{number:02}").saved).checkpoint)
    workspace.task_start("T00")
    hurt(Path(workspace.store), made[17].commit, "progress/tasks")

    assert workspace.verify(repair=True).damaged == ()
