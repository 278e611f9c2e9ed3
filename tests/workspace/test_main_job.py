"""The main job: save, wreck, look, restore, undo."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.errors import Conflict, Invalid, NotFound, Unsafe
from lastgood.settings import CaptureSettings
from lastgood.workspace import Workspace
from tools.values import not_none
from tools.wreckage import picture


@pytest.fixture
def furnished(project: Path) -> Path:
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("print('good')\n")
    (project / "src" / "tool.sh").write_text("#!/bin/sh\n")
    (project / "src" / "tool.sh").chmod(0o750)
    (project / "empty").mkdir()
    (project / "link").symlink_to("src/app.py")
    (project / "key").write_text("secret")
    (project / "key").chmod(0o600)
    return project


def wreck(project: Path) -> None:
    (project / "src" / "app.py").write_text("print('bad')\n")
    (project / "src" / "tool.sh").unlink()
    (project / "empty").rmdir()
    (project / "link").unlink()
    (project / "link").mkdir()
    (project / "link" / "inside").write_text("new")
    (project / "key").chmod(0o644)
    (project / "rubbish").write_text("rubbish")


def test_a_wrecked_workspace_comes_back_byte_for_byte(workspace: Workspace, furnished: Path) -> None:
    """T3: additions, edits, deletions, modes and kinds all come out right."""
    before = picture(furnished)
    saved = workspace.save("good").checkpoint
    wreck(furnished)

    report = workspace.restore(saved.id)

    assert report.omissions == ()
    assert picture(furnished) == before


def test_undo_and_redo_go_back_and_forth(workspace: Workspace, furnished: Path) -> None:
    """T8: repeatedly, in order."""
    good = picture(furnished)
    saved = workspace.save("good").checkpoint
    wreck(furnished)
    bad = picture(furnished)
    workspace.restore(saved.id)

    for _ in range(2):
        workspace.undo()
        assert picture(furnished) == bad
        workspace.redo()
        assert picture(furnished) == good


def test_undo_works_after_a_restart(workspace: Workspace, furnished: Path, store: Path) -> None:
    """T8: the stack is in the store, not in the process."""
    saved = workspace.save("good").checkpoint
    wreck(furnished)
    bad = picture(furnished)
    workspace.restore(saved.id)
    workspace.close()

    with lastgood.open(furnished, store=store) as again:
        again.undo()

    assert picture(furnished) == bad


def test_an_undo_refuses_when_its_paths_changed_since(workspace: Workspace, furnished: Path) -> None:
    """T8: the changed paths are listed."""
    saved = workspace.save("good").checkpoint
    wreck(furnished)
    workspace.restore(saved.id)
    (furnished / "src" / "app.py").write_text("precious")

    with pytest.raises(Conflict) as caught:
        workspace.undo()

    assert caught.value.details["paths"] == ["src/app.py"]
    assert (furnished / "src" / "app.py").read_text() == "precious"


def test_a_forced_undo_keeps_a_copy_of_what_it_overwrites(workspace: Workspace, furnished: Path) -> None:
    """T8: a guard is taken all the same."""
    saved = workspace.save("good").checkpoint
    wreck(furnished)
    bad = picture(furnished)
    workspace.restore(saved.id)
    (furnished / "src" / "app.py").write_text("precious")

    report = workspace.undo(force=True)

    assert picture(furnished) == bad
    assert workspace.read(not_none(report.guard), "src/app.py") == b"precious"


def test_an_unchanged_workspace_makes_no_checkpoint(workspace: Workspace, furnished: Path) -> None:
    """S10: the report says since when."""
    first = workspace.save("one").checkpoint

    second = workspace.save()

    assert (second.created, second.reason, second.unchanged_since) == (False, "unchanged", first.id)


@pytest.mark.parametrize(
    "said",
    [{"message": "two"}, {"name": "two"}, {"metadata": {"is": "two"}}, {"pin": True}, {"check": "true"}],
)
def test_what_is_said_of_an_unchanged_workspace_makes_a_checkpoint(
    workspace: Workspace, furnished: Path, said: Any
) -> None:
    """S10: who says something about a moment means it."""
    workspace.save("one")

    assert workspace.save(**said).created


@pytest.mark.parametrize("kind", ["turn", "tool", "auto", "risky", "guard"])
def test_an_automatic_save_of_an_unchanged_workspace_makes_none_whatever_it_says(
    workspace: Workspace, furnished: Path, kind: Any
) -> None:
    """S10."""
    workspace.save("one")

    assert not workspace.save("two", kind=kind).created


def test_who_wants_no_checkpoint_of_an_unchanged_workspace_says_so(
    workspace: Workspace, furnished: Path
) -> None:
    """S10."""
    first = workspace.save("one").checkpoint

    second = workspace.save("two", allow_empty=False)

    assert (second.created, second.unchanged_since) == (False, first.id)


def test_a_plan_touches_nothing(workspace: Workspace, furnished: Path) -> None:
    """T1: a dry run is what would happen, and nothing else."""
    saved = workspace.save("good").checkpoint
    wreck(furnished)
    bad = picture(furnished)

    plan = workspace.plan_restore(saved.id)

    assert not plan.empty
    assert picture(furnished) == bad
    assert len(workspace.list()) == 1
    assert workspace.plan_restore(saved.id).id == plan.id


def test_a_plan_is_refused_when_one_of_its_paths_changed_since(workspace: Workspace, furnished: Path) -> None:
    """T1: the plan is what happens, or nothing does."""
    saved = workspace.save("good").checkpoint
    wreck(furnished)
    plan = workspace.plan_restore(saved.id)
    (furnished / "rubbish").write_text("changed")

    with pytest.raises(Conflict) as caught:
        workspace.apply(plan)

    assert caught.value.details["paths"] == ["rubbish"]
    assert (furnished / "rubbish").read_text() == "changed"


def test_a_plan_survives_changes_elsewhere(workspace: Workspace, furnished: Path) -> None:
    """T1: only the plan's own paths count."""
    saved = workspace.save("good").checkpoint
    (furnished / "src" / "app.py").write_text("bad")
    plan = workspace.plan_restore(saved.id, paths=["src"])
    (furnished / "other").write_text("elsewhere")

    workspace.apply(plan)

    assert (furnished / "src" / "app.py").read_text() == "print('good')\n"
    assert (furnished / "other").read_text() == "elsewhere"


def test_some_paths_come_back_alone(workspace: Workspace, furnished: Path) -> None:
    """T3: a scope limits a restore."""
    saved = workspace.save("good").checkpoint
    wreck(furnished)

    workspace.restore(saved.id, paths=["src/tool.sh", "empty"])

    assert (furnished / "src" / "tool.sh").exists()
    assert (furnished / "empty").is_dir()
    assert (furnished / "src" / "app.py").read_text() == "print('bad')\n"
    assert (furnished / "rubbish").exists()


def test_a_restore_aside_touches_nothing_else(workspace: Workspace, furnished: Path, tmp_path: Path) -> None:
    """T11: `to` writes into a new folder."""
    good = picture(furnished)
    saved = workspace.save("good").checkpoint
    wreck(furnished)
    bad = picture(furnished)

    workspace.restore(saved.id, to=tmp_path / "aside")

    assert picture(tmp_path / "aside") == good
    assert picture(furnished) == bad


def test_a_restore_aside_refuses_a_folder_that_is_not_empty(
    workspace: Workspace, furnished: Path, tmp_path: Path
) -> None:
    """T11: new or empty."""
    saved = workspace.save("good").checkpoint
    (tmp_path / "aside").mkdir()
    (tmp_path / "aside" / "mine").write_text("mine")

    with pytest.raises(Unsafe):
        workspace.restore(saved.id, to=tmp_path / "aside")

    assert (tmp_path / "aside" / "mine").read_text() == "mine"


def test_a_checkpoint_of_another_workspace_is_refused(
    workspace: Workspace, furnished: Path, tmp_path: Path, store: Path
) -> None:
    """T13: a snapshot belongs to one workspace."""
    saved = workspace.save("good").checkpoint
    other = tmp_path / "other"
    other.mkdir()

    with lastgood.open(other, store=store) as elsewhere, pytest.raises(Unsafe, match="another workspace"):
        elsewhere.restore(saved.id)

    assert list(other.iterdir()) == []


def test_a_guard_holds_an_ignored_file_that_is_overwritten(workspace: Workspace, project: Path) -> None:
    """T2: ignored, and yet nothing is lost."""
    (project / "build").write_text("captured")
    saved = workspace.save("one").checkpoint
    (project / "build").unlink()
    (project / ".gitignore").write_text("build\n")
    workspace.save("two")
    (project / "build").write_text("ignored and precious")

    report = workspace.restore(saved.id)

    assert (project / "build").read_text() == "captured"
    assert workspace.read(not_none(report.guard), "build") == b"ignored and precious"
    workspace.undo()
    assert (project / "build").read_text() == "ignored and precious"


def test_a_deletion_is_undone(workspace: Workspace, furnished: Path) -> None:
    """T8: deletes are on the stack too."""
    saved = workspace.save("good").checkpoint

    workspace.delete(saved.id)
    assert workspace.list() == ()
    workspace.undo()

    assert [one.id for one in workspace.list()] == [saved.id]


def test_a_pinned_checkpoint_is_not_deleted(workspace: Workspace, furnished: Path) -> None:
    saved = workspace.save("good", pin=True).checkpoint

    with pytest.raises(Invalid, match="pinned"):
        workspace.delete(saved.id)

    assert len(workspace.list()) == 1


def test_rewind_goes_checkpoints_back_where_there_are_no_turns(workspace: Workspace, project: Path) -> None:
    for number in range(3):
        (project / "file").write_text(str(number))
        workspace.save(f"step {number}")

    workspace.rewind(2)

    assert (project / "file").read_text() == "0"


def test_rewind_without_turns_counts_only_checkpoints_whose_files_differ(
    workspace: Workspace, project: Path
) -> None:
    """T15: as a run leaves them, several with the same files; the newest of those is gone back to."""
    (project / "file").write_text("0")
    workspace.save("start")
    for number in (1, 2):
        (project / "file").write_text(str(number))
        workspace.save(f"error {number}")
        workspace.save(f"end {number}", allow_empty=True)
        workspace.save(f"begin {number + 1}", allow_empty=True)

    assert [workspace.rewind_target(number).message for number in (1, 2)] == ["begin 2", "start"]
    with pytest.raises(NotFound, match="before `@`: 2"):
        workspace.rewind_target(3)


def test_permissions_alone_come_back_at_any_depth(workspace: Workspace, project: Path) -> None:
    """T1: git's trees are the same then."""
    deep = project / "a" / "b" / "file"
    deep.parent.mkdir(parents=True)
    deep.write_text("as it is")
    deep.chmod(0o600)
    first = workspace.save("closed").checkpoint
    deep.chmod(0o640)
    workspace.save("open")

    workspace.restore(first.id)

    assert deep.stat().st_mode & 0o777 == 0o600


def test_rewind_counts_a_state_of_which_the_modes_alone_differ(workspace: Workspace, project: Path) -> None:
    """T15."""
    (project / "file").write_text("same")
    for mode in (0o600, 0o640):
        (project / "file").chmod(mode)
        workspace.save(oct(mode))

    assert workspace.rewind_target().message == oct(0o600)


def test_the_checkpoint_that_rewind_goes_to_has_its_tasks(workspace: Workspace, project: Path) -> None:
    """T15, P1: what is told of the progress that it leads to is that of the checkpoint."""
    workspace.task_start("T01")
    for number in range(2):
        (project / "file").write_text(str(number))
        workspace.save(f"step {number}")

    assert [task.id for task in not_none(workspace.rewind_target().progress).tasks] == ["T01"]


def test_rewind_goes_to_before_the_last_turn(workspace: Workspace, project: Path) -> None:
    """S20: a turn's checkpoint holds the state after the turn."""
    for number in range(3):
        (project / "file").write_text(str(number))
        workspace.save(f"turn {number}", kind="turn")

    workspace.rewind()

    assert (project / "file").read_text() == "1"


def take_turns(workspace: Workspace, project: Path, count: int) -> None:
    """Save before each turn, as what a person said changes a file; the agent's work changes another."""
    for number in range(1, count + 1):
        (project / "user").write_text(f"turn {number}")
        begin_turn(workspace, number)
        (project / "agent").write_text(f"turn {number}")


def begin_turn(workspace: Workspace, number: int) -> bool:
    return workspace.save(f"turn {number}", kind="turn", metadata={"moment": "before"}).created


def test_rewind_goes_back_to_a_turn_that_began_again(workspace: Workspace, project: Path) -> None:
    """S20, T15: nothing differed when it began again, so that it has no checkpoint of its own (S10)."""
    take_turns(workspace, project, 3)
    workspace.rewind(2)
    assert not begin_turn(workspace, 2)
    (project / "agent").write_text("turn 2, again")

    workspace.rewind()

    assert [(project / name).read_text() for name in ("user", "agent")] == ["turn 2", "turn 1"]


def test_rewind_goes_on_back_where_nothing_changed_since(workspace: Workspace, project: Path) -> None:
    """S20, T15, S5: what the first one kept as it was, being private, is no change since."""
    (project / ".gitignore").write_text(".env\n")
    (project / ".env").write_text("KEY=first")
    take_turns(workspace, project, 3)
    (project / ".env").write_text("KEY=second")
    seen = []
    for _ in range(3):
        workspace.rewind()
        seen.append((project / "user").read_text())

    assert seen == ["turn 3", "turn 2", "turn 1"]


def test_rewind_brings_back_a_folder_that_is_gone(workspace: Workspace, project: Path) -> None:
    """T12a, T15."""
    take_turns(workspace, project, 2)
    workspace.rewind()
    shutil.rmtree(project)

    workspace.rewind()

    assert (project / "user").read_text() == "turn 2"


def test_rewind_past_the_beginning_is_not_found(workspace: Workspace, furnished: Path) -> None:
    workspace.save("one")

    with pytest.raises(NotFound):
        workspace.rewind(5)


def test_verify_finds_nothing_wrong_with_a_sound_store(workspace: Workspace, furnished: Path) -> None:
    """K4: also by a trial restore of each checkpoint."""
    workspace.save("one")
    wreck(furnished)
    workspace.save("two")

    report = workspace.verify(deep=True)

    assert report.ok
    assert report.checkpoints == 2


def test_status_counts_the_drift(workspace: Workspace, furnished: Path) -> None:
    workspace.save("one")
    wreck(furnished)

    drift = not_none(workspace.status().drift)

    assert (drift.added, drift.deleted) == (2, 2)


def test_the_diff_is_a_patch_that_git_takes(
    workspace: Workspace, furnished: Path, git: object, tmp_path: Path
) -> None:
    assert callable(git)
    saved = workspace.save("good").checkpoint
    (furnished / "src" / "app.py").write_text("print('better')\n")
    (furnished / "binary").write_bytes(b"\0\1\2" * 100)
    (furnished / "large").write_bytes(b"one line\n" * 1_000_000)
    (furnished / "empty").touch()
    (furnished / "src" / "tool.sh").unlink()
    workspace.restore(saved.id, to=tmp_path / "aside")

    report = workspace.diff()

    assert report.patch is not None
    told = {one.path for one in report.files if one.binary}
    assert told == {b"binary", b"large"}
    assert [one.path for one in report.files if one.large] == [b"large"]
    assert b"# /dev/null and b/binary differ: binary\n" in report.patch
    (tmp_path / "patch").write_bytes(report.patch)
    git(tmp_path / "aside", "apply", str(tmp_path / "patch"))
    for path in told:
        (furnished / path.decode()).unlink()
    assert picture(tmp_path / "aside") == picture(furnished)


def test_observers_are_told_and_cannot_harm(workspace: Workspace, furnished: Path) -> None:
    told = []

    def observer(event: lastgood.Event) -> None:
        told.append(event.type)
        message = "an observer's own fault"
        raise RuntimeError(message)

    workspace.subscribe(observer)
    saved = workspace.save("good").checkpoint
    wreck(furnished)
    workspace.restore(saved.id)
    workspace.undo()

    # The second "saved" is of the guard; undo needs none, as nothing was changed since.
    assert told == ["saved", "restored", "saved", "undone"]


def test_a_large_file_that_goes_on_growing_is_no_change(project: Path, store: Path) -> None:
    """S10: the gap is the same one."""
    settings = lastgood.Settings(capture=CaptureSettings(max_file_size=10))
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        (project / "log").write_text("x" * 100)
        workspace.save("one")
        (project / "log").write_text("x" * 200)

        assert not workspace.save().created
