"""undo and redo: in order, whatever was done in between (rule T8)."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest

import lastgood
from lastgood.errors import Conflict, Invalid, LastgoodError, NotFound
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from tools.values import not_none

DAY = 24 * 3600


def saved(workspace: Workspace, file: Path, *texts: str) -> list[str]:
    """Save a file with one text after the other, and return the ids."""
    ids = []
    for text in texts:
        file.write_text(text)
        ids.append(workspace.save(text).checkpoint.id)
    return ids


def test_redo_brings_the_last_undone_and_not_an_older_one(workspace: Workspace, project: Path) -> None:
    """T8: a new restore ends the line of those undone before it."""
    file = project / "file"
    ids = saved(workspace, file, "one", "two", "three")
    workspace.restore(ids[0])
    workspace.undo()
    workspace.restore(ids[1])
    workspace.undo()

    workspace.redo()

    assert file.read_text() == "two"
    with pytest.raises(NotFound):
        workspace.redo()


def test_several_restores_are_undone_and_brought_again_in_order(workspace: Workspace, project: Path) -> None:
    """T8: repeatedly, in order."""
    file = project / "file"
    ids = saved(workspace, file, "one", "two", "three")
    workspace.restore(ids[0])
    workspace.restore(ids[1])

    seen = []
    for verb in (workspace.undo, workspace.undo, workspace.redo, workspace.redo, workspace.undo):
        verb()
        seen.append(file.read_text())

    assert seen == ["one", "three", "one", "two", "one"]


def test_an_undo_and_a_redo_each_name_the_checkpoint_that_they_lead_to(
    workspace: Workspace, project: Path
) -> None:
    """T8: so that what refuses them, and what tells of them, names no other state."""
    first, _ = saved(workspace, project / "file", "one", "two")
    guard = workspace.restore(first).guard

    targets = [workspace.undo().operation.target, workspace.redo().operation.target]

    assert targets == [guard, first]


def test_an_undo_goes_back_however_far(workspace: Workspace, project: Path) -> None:
    """T8: past all that was undone before."""
    file = project / "file"
    file.write_text("one")
    first = workspace.save("one").checkpoint.id
    file.write_text("two")
    workspace.save("two")
    workspace.restore(first)
    for _ in range(12):
        workspace.undo()
        workspace.redo()

    workspace.undo()

    assert file.read_text() == "two"
    with pytest.raises(NotFound):
        workspace.undo()


def test_restores_and_deletions_are_undone_in_order(workspace: Workspace, project: Path) -> None:
    """T8: deletes are on the same stack, and saves between do not matter."""
    file = project / "file"
    file.write_text("one")
    first = workspace.save("one").checkpoint
    file.write_text("two")
    second = workspace.save("two").checkpoint
    workspace.restore(first.id)
    (project / "other").write_text("other")
    workspace.save("other")
    workspace.delete(second.id)

    workspace.undo()
    assert workspace.get(second.id).id == second.id
    assert file.read_text() == "one"
    workspace.undo()

    assert file.read_text() == "two"
    assert (project / "other").read_text() == "other"


def test_a_deletion_that_can_no_longer_be_undone_does_not_bar_the_way(project: Path, store: Path) -> None:
    """T8, K3: after the grace time it is off the stack."""
    clock = FakeClock()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        file = project / "file"
        file.write_text("one")
        first = workspace.save("one").checkpoint
        file.write_text("two")
        second = workspace.save("two").checkpoint
        file.write_text("three")
        workspace.save("three")
        workspace.restore(first.id)
        workspace.delete(second.id)
        clock.advance(DAY + DAY // 2)
        workspace.maintain()

        workspace.undo()

        assert file.read_text() == "three"


def test_a_redo_never_deletes_what_was_pinned_since(workspace: Workspace, project: Path) -> None:
    """K1: pinned is for ever."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    workspace.delete(saved.id)
    workspace.undo()
    workspace.pin(saved.id)

    with pytest.raises(Invalid, match="pinned"):
        workspace.redo()

    assert workspace.get(saved.id).pinned


def test_a_deletion_of_nothing_is_refused(workspace: Workspace, project: Path) -> None:
    """K2: and leaves nothing to undo."""
    (project / "file").write_text("one")
    workspace.save("one")

    with pytest.raises(LastgoodError):
        workspace.delete()

    assert workspace.operations() == ()


def test_two_undos_at_once_take_back_two_restores(workspace: Workspace, project: Path, store: Path) -> None:
    """S16, T8: what is undone is decided when nobody else is at it."""
    file = project / "file"
    ids = saved(workspace, file, "one", "two", "three")
    workspace.restore(ids[0])
    workspace.restore(ids[1])
    failures: list[BaseException] = []

    def undo() -> None:
        try:
            with lastgood.open(project, store=store, maintenance="off") as own:
                own.undo()
        except LastgoodError as error:
            failures.append(error)

    threads = [threading.Thread(target=undo) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert file.read_text() == "three"


def test_an_undo_of_what_was_freed_says_so(project: Path, store: Path) -> None:
    """T8, K3: it is no damage when a deleted guard's bytes were freed."""
    clock = FakeClock()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "file").write_text("one")
        first = workspace.save("one").checkpoint
        (project / "file").write_text("two")
        guard = not_none(workspace.restore(first.id).guard)
        workspace.delete(guard)
        clock.advance(2 * DAY)
        workspace.maintain()

        with pytest.raises(NotFound, match="freed"):
            workspace.undo()

        assert (project / "file").read_text() == "one"


def test_an_undo_passes_over_paths_that_are_right_already(workspace: Workspace, project: Path) -> None:
    """T8: what somebody has put back by hand is no conflict."""
    for name in ("a", "b"):
        (project / name).write_text("one")
    first = workspace.save("one").checkpoint
    for name in ("a", "b"):
        (project / name).write_text("two")
    workspace.restore(first.id)
    (project / "a").write_text("two")

    workspace.undo()

    assert [(project / name).read_text() for name in ("a", "b")] == ["two", "two"]


def test_an_undo_of_some_paths_leaves_the_others(workspace: Workspace, project: Path) -> None:
    """T8, T11: a restore of paths is undone as far as it went."""
    (project / "src").mkdir()
    for name in ("src/a", "b"):
        (project / name).write_text("one")
    first = workspace.save("one").checkpoint
    for name in ("src/a", "b"):
        (project / name).write_text("two")
    workspace.restore(first.id, paths=["src/"])
    (project / "b").write_text("three")

    workspace.undo()

    assert (project / "src" / "a").read_text() == "two"
    assert (project / "b").read_text() == "three"


def test_an_undo_keeps_a_file_over_the_cap(project: Path, store: Path) -> None:
    """T2, T8: over the cap, and yet nothing is lost."""
    capture = lastgood.Settings().capture.replace(max_file_size=1000)
    settings = lastgood.Settings(capture=capture)
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        (project / "file").write_text("small")
        first = workspace.save("one").checkpoint
        (project / "file").write_text("large" * 1000)
        workspace.restore(first.id)
        assert (project / "file").read_text() == "small"

        workspace.undo()

        assert (project / "file").read_text() == "large" * 1000


def test_an_undo_refuses_a_new_file_in_a_place_it_would_write(workspace: Workspace, project: Path) -> None:
    """T8: also where the restore had deleted something."""
    (project / "keep").write_text("keep")
    first = workspace.save("one").checkpoint
    (project / "new").write_text("new")
    workspace.restore(first.id)
    assert not (project / "new").exists()
    (project / "new").write_text("newer")

    with pytest.raises(Conflict) as caught:
        workspace.undo()

    assert caught.value.details["paths"] == ["new"]


def test_an_undo_that_took_nothing_back_can_be_tried_again(workspace: Workspace, project: Path) -> None:
    """T8, T10: what failed as a whole was not done."""
    (project / "thing").write_text("one")
    first = workspace.save("one").checkpoint
    (project / "thing").write_text("two")
    workspace.restore(first.id)
    (project / "thing").unlink()
    (project / "thing").mkdir()
    (project / "thing" / ".git").mkdir()

    report = workspace.undo(force=True)
    assert {one.result for one in report.outcomes} <= {"skipped", "kept"}
    assert (project / "thing" / ".git").exists()
    (project / "thing").rename(project / "elsewhere")
    (project / "thing").write_text("one")
    workspace.undo()

    assert (project / "thing").read_text() == "two"


# What `undo --list` offers (T8).


def test_what_a_prune_made_final_is_not_offered(workspace: Workspace, project: Path) -> None:
    """T8, K3: a deletion whose bytes are freed cannot be undone, and undo passes over it."""
    ids = []
    for text in ("one", "two"):
        (project / "file").write_text(text)
        ids.append(workspace.save(text).checkpoint.id)
    (project / "file").write_text("in the guard alone")
    workspace.restore(ids[0])
    workspace.delete(ids[1])
    assert [one.type for one in workspace.operations(can="undo")] == ["delete", "restore"]

    workspace.prune(now=True)

    assert [one.type for one in workspace.operations(can="undo")] == ["restore"]
    assert [one.type for one in workspace.operations()] == ["delete", "restore"]


def test_a_restore_whose_guard_was_freed_is_not_offered_nor_anything_before_it(
    workspace: Workspace, project: Path
) -> None:
    """T8, K3."""
    ids = saved(workspace, project / "file", "one", "two", "three")
    workspace.restore(ids[1])
    (project / "file").write_text("nowhere else")
    guard = not_none(workspace.restore(ids[0]).guard)
    workspace.delete(guard)
    workspace.prune(now=True)

    assert workspace.operations(can="undo") == ()
    with pytest.raises(NotFound):
        workspace.undo()


def test_what_a_new_restore_made_final_is_not_offered_to_redo(workspace: Workspace, project: Path) -> None:
    """T8."""
    ids = saved(workspace, project / "file", "one", "two", "three")
    workspace.restore(ids[0])
    workspace.undo()
    (undone,) = workspace.operations(can="redo")
    assert undone.target == ids[0]
    workspace.restore(ids[1])
    assert workspace.operations(can="redo") == ()


def test_redo_is_offered_what_was_undone_in_its_order(workspace: Workspace, project: Path) -> None:
    """T8."""
    ids = saved(workspace, project / "file", "one", "two", "three")
    workspace.restore(ids[0])
    workspace.restore(ids[1])
    workspace.undo()
    workspace.undo()
    assert [one.target for one in workspace.operations(can="redo")] == ids[:2]


def test_an_undo_leads_back_to_where_the_workspace_stood_not_to_the_newest(
    workspace: Workspace, project: Path
) -> None:
    """T8."""
    file = project / "file"
    ids = saved(workspace, file, "one", "two", "three")
    workspace.restore(ids[0])
    workspace.restore(ids[1])

    workspace.undo()

    assert (workspace.get("@").id, file.read_text()) == (ids[0], "one")


def test_where_nothing_can_be_undone_the_way_on_is_named(workspace: Workspace) -> None:
    with pytest.raises(NotFound) as undone:
        workspace.undo()
    with pytest.raises(NotFound) as redone:
        workspace.redo()
    assert "lastgood restore @" in not_none(undone.value.hint)
    assert not_none(redone.value.hint).endswith("lastgood undo --list")


def test_a_directory_that_was_made_goes_although_its_permissions_were_refused(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T8: what took effect of a step that failed is taken back, too."""
    (project / "made").mkdir(mode=0o750)
    first = workspace.save("one").checkpoint
    (project / "made").rmdir()
    workspace.save("two")

    fchmod = os.fchmod

    def refused(descriptor: int, mode: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}") == str(project / "made"):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        fchmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", refused)
    report = workspace.restore(first.id)
    monkeypatch.undo()
    assert [one.result for one in report.outcomes] == ["failed"]
    assert (project / "made").is_dir()

    workspace.undo()

    assert not (project / "made").exists()


def test_a_plan_says_what_an_undo_and_a_redo_do_and_touches_nothing(
    workspace: Workspace, project: Path
) -> None:
    """T8, T1."""
    (project / "file").write_text("one")
    workspace.save("one", name="one")
    (project / "file").write_text("two")
    (project / "new").write_text("new")
    restored = workspace.restore("one")

    for look, act in ((workspace.plan_undo, workspace.undo), (workspace.plan_redo, workspace.redo)):
        before = {path.name: path.read_text() for path in project.iterdir()}
        plan = look()
        assert plan.operation.id == restored.operation
        assert {path.name: path.read_text() for path in project.iterdir()} == before
        done = act()
        assert [(one.path, one.action) for one in plan.files] == [
            (one.path, one.action) for one in done.files
        ]


def test_a_plan_of_an_undo_refuses_what_the_undo_would(workspace: Workspace, project: Path) -> None:
    """T8: and shows what either way would do."""
    (project / "file").write_text("one")
    workspace.save("one", name="one")
    (project / "file").write_text("two")
    workspace.restore("one")
    (project / "file").write_text("since")

    with pytest.raises(Conflict, match="changed since"):
        workspace.plan_undo()
    assert [one.action for one in workspace.plan_undo(force=True).files] == ["write"]
    assert workspace.plan_undo(merge=True).conflicts == (b"file",)
    assert (project / "file").read_text() == "since"


def test_a_plan_of_undoing_a_delete_names_the_checkpoints(workspace: Workspace, project: Path) -> None:
    """T8."""
    (project / "file").write_text("one")
    one = workspace.save("one").checkpoint
    workspace.delete(one)
    assert workspace.plan_undo().checkpoints == (one.id,)
    workspace.undo()
    assert workspace.plan_redo().checkpoints == (one.id,)
    workspace.pin(one)
    with pytest.raises(LastgoodError, match="pinned"):
        workspace.plan_redo()


def test_no_process_is_looked_at_for_what_an_undo_takes(workspace: Workspace, project: Path) -> None:
    """T14: whose it is, the catalogue alone says, and that at one moment."""
    (project / "file").write_text("one")
    workspace.save("one", name="one")
    (project / "file").write_text("two")
    restored = workspace.restore("one")
    workspace.session_start(owner_pid=os.getppid())
    looked: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and os.path.basename(frame.f_code.co_filename) in {"processes.py", "procfs.py"}:
            looked.append(frame.f_code.co_name)

    sys.setprofile(look)
    try:
        able = workspace.operations(can="undo")
    finally:
        sys.setprofile(None)

    assert [one.id for one in able] == [restored.operation]
    assert not looked
