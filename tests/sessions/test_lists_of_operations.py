"""Long lists of progress that operations name are kept as long as they may be needed (P8a, T7, T8)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lastgood
from lastgood.errors import Damaged, NotFound
from lastgood.model import long_list
from lastgood.model.operation import OPERATION, Journal, Part, RestorePlan
from lastgood.model.session import PROGRESS, Progress
from lastgood.restore.parts.progress import settle
from lastgood.transaction import RecoverTransaction
from tools.harm import lose
from tools.unlocked import writers
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.workspace import Workspace

MANY = 40


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    """Begin as a process that has seen no list yet."""
    long_list.forget()


def worked(workspace: Workspace, *, first: int = 0, tasks: int = MANY) -> Checkpoint:
    """Do some tasks, and return the checkpoint of the last one's end."""
    for number in range(first, tasks - 1):
        workspace.task_skip(f"T{number:04}")
    return done(workspace, f"T{tasks - 1:04}")


def done(workspace: Workspace, task: str) -> Checkpoint:
    """Write a file in a task."""
    (Path(workspace.path) / "file").write_text(task)
    workspace.task_start(task)
    return not_none(workspace.task_done(task).saved).checkpoint


def plain(progress: Progress) -> Progress:
    """Return progress with its tasks as somebody else reads them."""
    return progress.replace(tasks=tuple(progress.tasks))


def seen(workspace: Workspace) -> Progress:
    long_list.forget()
    return plain(workspace.progress())


def lists_of(workspace: Workspace, checkpoint: Checkpoint | None) -> list[str]:
    """Return the lists that a checkpoint's commit holds, by name."""
    words = ["git", "--git-dir", f"{workspace.store}/objects.git", "ls-tree", "--name-only"]
    told = subprocess.run(
        [*words, f"{not_none(checkpoint).commit}:progress"], capture_output=True, text=True, check=True
    )
    return told.stdout.split()


def left_unfinished(workspace: Workspace) -> tuple[str, Checkpoint, Progress]:
    """Leave a session in a task of which no checkpoint knows; return its id, an earlier one, its progress."""
    id = workspace.session_start(goal="g").session.id
    own = workspace.within(id)
    made = worked(own)
    done(own, "T0003")
    own.task_start("T0005")
    own.session_end(finished=False)
    return id, made, plain(workspace.get_session(id).progress)


def test_what_an_operation_says_does_not_grow_with_the_tasks(workspace: Workspace) -> None:
    """P8a: nor does its plan."""
    sizes = []
    for first, tasks in ((0, 30), (100, 600)):
        made = worked(workspace, first=first, tasks=tasks)
        done(workspace, "T0001")
        plan = workspace.plan_restore(made.id)
        workspace.apply(plan)
        sizes.append(len(OPERATION.encode(workspace.operations()[0])) + len(repr(plan.parts)))
    assert sizes[1] < sizes[0] + 100


def test_a_guard_holds_what_an_undo_needs_of_a_session_that_waits(workspace: Workspace) -> None:
    """P8a: the guard's own progress is that of the workspace."""
    id, made, before = left_unfinished(workspace)
    long_list.forget()

    report = workspace.restore(made.id)

    assert plain(workspace.get_session(id).progress) != before
    assert lists_of(workspace, workspace._context.catalogue.get(not_none(report.guard))) == ["before-tasks"]
    workspace.prune(keep=1, now=True)
    long_list.forget()
    workspace.undo()
    long_list.forget()
    assert plain(workspace.get_session(id).progress) == before
    assert workspace.verify(deep=True).ok


def test_retention_keeps_both_ends_of_a_restore_of_many_tasks(workspace: Workspace) -> None:
    """K1, T8: what is undone after a prune can be done again after another."""
    made = worked(workspace)
    wanted = seen(workspace)
    for number in range(4):
        done(workspace, f"T{number:04}")
    before = seen(workspace)
    workspace.restore(made.id, only=["progress"])
    for number in range(3):
        workspace.save(f"later {number}", allow_empty=True)

    workspace.prune(keep=1, now=True)
    workspace.undo()
    assert seen(workspace) == before
    workspace.prune(keep=1, now=True)
    workspace.redo()
    assert seen(workspace) == wanted


def test_what_went_with_its_checkpoint_is_offered_no_more(workspace: Workspace) -> None:
    """K3, T8: that is no damage."""
    made = worked(workspace)
    done(workspace, "T0001")
    workspace.task_start("T0002")
    report = workspace.restore(made.id)
    (Path(workspace.path) / "file").write_text("later")
    workspace.save("later")
    (Path(workspace.path) / "file").write_text(f"T{MANY - 1:04}")
    workspace.delete(not_none(report.guard))
    assert [one.type for one in workspace.operations(can="undo")] == ["delete", "restore"]
    workspace.prune(now=True, keep=100)
    long_list.forget()

    assert workspace.operations(can="undo") == ()
    with pytest.raises(NotFound):
        workspace.undo()


@pytest.mark.damages
def test_an_undo_whose_tasks_cannot_be_read_is_refused_and_can_leave_them(workspace: Workspace) -> None:
    """T8, T1: before the first write; --merge takes back the files and says what stays."""
    made = worked(workspace)
    done(workspace, "T0001")
    report = workspace.restore(made.id)
    present = seen(workspace)
    guard = not_none(workspace._context.catalogue.get(not_none(report.guard)))
    lose(Path(workspace.store), f"{guard.commit}:progress/tasks/0000/00")
    long_list.forget()

    with pytest.raises(Damaged, match="nothing was undone") as caught:
        workspace.undo()
    assert "--merge" in not_none(caught.value.hint)
    assert (Path(workspace.path) / "file").read_text() == f"T{MANY - 1:04}"

    undone = workspace.undo(merge=True)
    assert [(one.scope, one.result) for one in undone.parts] == [("progress", "kept")]
    assert (Path(workspace.path) / "file").read_text() == "T0001"
    assert seen(workspace) == present


# A part of a list, one of its folders, and its own tree.
DEPTHS = ["0000/00", "0000", ""]


def damage(workspace: Workspace, checkpoint: Checkpoint, depth: str, *, name: str = "tasks") -> None:
    """Garble what a checkpoint holds of a list, and be a process that has seen no list."""
    lose(Path(workspace.store), f"{checkpoint.commit}:progress/{name}/{depth}".rstrip("/"))
    long_list.forget()


@pytest.mark.damages
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_redo_whose_tasks_cannot_be_read_is_refused_and_can_leave_them(
    workspace: Workspace, depth: str
) -> None:
    """T8, T1: as an undo is."""
    made = worked(workspace)
    done(workspace, "T0001")
    workspace.restore(made.id)
    workspace.undo()
    present = seen(workspace)
    damage(workspace, made, depth)

    with pytest.raises((Damaged, NotFound), match="nothing was redone") as caught:
        workspace.redo()
    assert "--merge" in not_none(caught.value.hint)
    assert (Path(workspace.path) / "file").read_text() == "T0001"
    assert seen(workspace) == present

    redone = workspace.redo(merge=True)
    assert [(one.scope, one.result) for one in redone.parts] == [("progress", "kept")]
    assert "cannot be read" in not_none(redone.parts[0].reason)
    assert (Path(workspace.path) / "file").read_text() == f"T{MANY - 1:04}"
    assert seen(workspace) == present


@pytest.mark.damages
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_forced_undo_leaves_tasks_that_cannot_be_read(workspace: Workspace, depth: str) -> None:
    """T8: force overrules what changed since; it makes nothing of what is lost."""
    made = worked(workspace)
    done(workspace, "T0001")
    report = workspace.restore(made.id)
    present = seen(workspace)
    guard = not_none(workspace._context.catalogue.get(not_none(report.guard)))
    damage(workspace, guard, depth)

    undone = workspace.undo(force=True)

    assert [(one.scope, one.result) for one in undone.parts] == [("progress", "kept")]
    assert (Path(workspace.path) / "file").read_text() == "T0001"
    assert seen(workspace) == present


@pytest.mark.damages
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_rollback_says_that_the_tasks_before_cannot_be_read(workspace: Workspace, depth: str) -> None:
    """T7: one of a restore that was killed when it had put its progress in force."""
    made = worked(workspace)
    done(workspace, "T0001")
    plan = workspace.plan_restore(made.id)
    guard = begin(workspace, plan)
    (part,) = plan.parts
    with RecoverTransaction(workspace._context) as recovering:
        assert settle(recovering, part).result == "restored"
    present = seen(workspace)
    damage(workspace, guard, depth)

    report = workspace.recover(roll_back=True)

    assert [(one.scope, one.result) for one in report.parts] == [("progress", "failed")]
    assert "cannot be read" in not_none(report.parts[0].reason)
    assert seen(workspace) == present
    assert (Path(workspace.path) / "file").read_text() == "T0001"
    assert workspace.status().state != "interrupted"


@pytest.mark.damages
def test_a_list_that_a_guard_holds_for_an_operation_is_proven(workspace: Workspace) -> None:
    """K4: and named where it is lost."""
    _, made, _ = left_unfinished(workspace)
    guard = not_none(workspace.restore(made.id).guard)
    commit = not_none(workspace._context.catalogue.get(guard)).commit
    assert workspace.verify(deep=True).ok

    lose(Path(workspace.store), f"{commit}:progress/before-tasks/0000/00")

    damaged = {one.id: one.files for one in workspace.verify().damaged}
    assert damaged[guard] == (b"progress/before-tasks",)


def test_an_export_leaves_what_an_operation_needs_behind(workspace: Workspace, tmp_path: Path) -> None:
    """S17: a guard arrives with what is its own."""
    _, made, _ = left_unfinished(workspace)
    guard = not_none(workspace.restore(made.id).guard)
    workspace.export(tmp_path / "parcel", guard, made.id)
    (tmp_path / "elsewhere").mkdir()

    with lastgood_open(tmp_path / "elsewhere", tmp_path / "other") as there:
        there.import_file(tmp_path / "parcel")
        there.import_file(tmp_path / "parcel")
        arrived = there._context.catalogue.get(guard)
        assert not_none(arrived).manifest.copy_of is not None
        assert lists_of(there, there._context.catalogue.get(made.id)) == ["tasks"]
        assert there.verify(deep=True).ok


def lastgood_open(folder: Path, store: Path) -> Workspace:
    return lastgood.open(folder, store=store, maintenance="off")


def test_a_purge_keeps_what_an_operation_needs(workspace: Workspace) -> None:
    """S5: the reduced copy of a guard has the lists of the guard."""
    id, made, before = left_unfinished(workspace)
    secret = Path(workspace.path) / "secret"
    secret.write_text("a secret")
    workspace.restore(made.id)
    workspace.purge("secret")
    long_list.forget()

    workspace.undo(force=True)

    long_list.forget()
    assert plain(workspace.get_session(id).progress) == before
    assert workspace.verify(deep=True).ok


# What earlier releases wrote: both sides whole.


def whole(part: Part, workspace: Workspace) -> Part:
    """Return a part as earlier releases wrote it."""
    from lastgood.restore.parts.progress import _of

    context = workspace._context
    before, after = (
        {"key": side["key"], "progress": PROGRESS.write(plain(_of(context, side)))}
        for side in (part.before, part.after)
    )
    return part.replace(before=before, after=after)


def test_an_operation_of_an_earlier_release_is_undone_and_done_again(workspace: Workspace) -> None:
    """T8."""
    made = worked(workspace)
    wanted = seen(workspace)
    done(workspace, "T0001")
    before = seen(workspace)
    plan = workspace.plan_restore(made.id)
    old = plan.replace(parts=tuple(whole(part, workspace) for part in plan.parts))
    workspace.apply(old)
    assert f"T{MANY - 1:04}" in OPERATION.encode(workspace.operations()[0])
    assert seen(workspace) == wanted

    workspace.undo()
    assert seen(workspace) == before
    workspace.redo()
    assert seen(workspace) == wanted


@pytest.mark.parametrize("form", ["named", "whole"])
@pytest.mark.parametrize("roll_back", [False, True], ids=["finished", "rolled back"])
def test_an_interrupted_restore_is_settled_whoever_began_it(
    workspace: Workspace, form: str, *, roll_back: bool
) -> None:
    """T7: also one whose journal an earlier release wrote."""
    made = worked(workspace)
    wanted = seen(workspace)
    done(workspace, "T0001")
    before = seen(workspace)
    plan = workspace.plan_restore(made.id)
    if form == "whole":
        plan = plan.replace(parts=tuple(whole(part, workspace) for part in plan.parts))
    begin(workspace, plan)
    long_list.forget()

    workspace.recover(roll_back=roll_back)

    assert seen(workspace) == (before if roll_back else wanted)
    assert (Path(workspace.path) / "file").read_text() == ("T0001" if roll_back else f"T{MANY - 1:04}")
    if not roll_back:
        workspace.undo()
        assert seen(workspace) == before


@pytest.mark.damages
@pytest.mark.parametrize("depth", DEPTHS)
def test_an_interrupted_restore_is_finished_although_its_tasks_are_lost(
    workspace: Workspace, depth: str
) -> None:
    """T7, T10: all else waits for that; the progress stays, and that is told."""
    made = worked(workspace)
    done(workspace, "T0001")
    before = seen(workspace)
    begin(workspace, workspace.plan_restore(made.id))
    damage(workspace, made, depth)

    with lastgood.open(workspace.path, store=workspace.store) as another:  # which has read no folder yet
        report = another.recover()

    assert [(one.scope, one.result) for one in report.parts] == [("progress", "failed")]
    assert "cannot be read" in not_none(report.parts[0].reason)
    assert seen(workspace) == before
    assert (Path(workspace.path) / "file").read_text() == f"T{MANY - 1:04}"
    assert workspace.status().state != "interrupted"
    workspace.undo()
    assert (Path(workspace.path) / "file").read_text() == "T0001"
    assert seen(workspace) == before


def begin(workspace: Workspace, plan: RestorePlan) -> Checkpoint:
    """Leave a restore as one that was killed before it changed anything; return its guard."""
    context = workspace._context
    guard = workspace.save("before", kind="guard", allow_empty=True).checkpoint
    journal = Journal(
        operation="op_0123456789abcdef",
        type="restore",
        of=None,
        started_at=context.clock.now(),
        guard=guard.id,
        target_tree=plan.target,
        plan=plan,
    )
    writers(context).journal.open(journal)
    return guard
