"""recover: an interrupted restore is finished or taken back, and nothing is lost (rule T7)."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from lastgood.cli.opening import Console
from lastgood.cli.restoring import telling_what_is_left
from lastgood.errors import Busy, Damaged, NotFound, Storage
from lastgood.model.checkpoint import Checkpoint
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from tools.living import eventually
from tools.values import not_none

Kill = Callable[..., None]

DAY = 24 * 3600 * 1_000_000_000


@pytest.fixture
def edited(workspace: Workspace, project: Path) -> Checkpoint:
    """Save three files and a folder, then change them all."""
    (project / "folder").mkdir(mode=0o755)
    (project / "folder" / "inside").write_text("one")
    for name in ("a", "b", "c"):
        (project / name).write_text("one")
    saved = workspace.save("one").checkpoint
    shutil.rmtree(project / "folder")
    for name in ("a", "b", "c"):
        (project / name).write_text("two")
    (project / "new").write_text("two")
    return saved


def texts(project: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in project.iterdir() if path.is_file()}


ONE = {"a": "one", "b": "one", "c": "one"}
TWO = {"a": "two", "b": "two", "c": "two", "new": "two"}


@pytest.mark.parametrize("at", range(4))
def test_an_interrupted_restore_is_finished_with_its_modes(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill, at: int
) -> None:
    """T7, T10: a folder of our own that has no final permissions yet is nobody else's change."""
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-", at=at)

    report = workspace.recover()

    assert [one for one in report.outcomes if one.result in {"skipped", "failed"}] == []
    assert texts(project) == ONE
    assert (project / "folder").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("mode", [0o700, 0o770])
def test_a_folder_that_a_person_made_after_the_kill_keeps_its_permissions(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill, mode: int
) -> None:
    """T7: what the restore was going to put into it comes, and that its permissions stay is told."""
    killed(lambda: workspace.restore(edited.id), event="os.mkdir", path="folder")
    assert not (project / "folder").exists()
    (project / "folder").mkdir()
    (project / "folder").chmod(mode)

    report = workspace.recover()

    assert (project / "folder").stat().st_mode & 0o7777 == mode
    assert (project / "folder" / "inside").read_text() == "one"
    assert [one.path for one in report.omissions] == [b"folder"]


@pytest.mark.parametrize("mode", [0o700, 0o770])
def test_a_folder_that_a_person_made_after_the_kill_stays_in_a_roll_back(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill, mode: int
) -> None:
    """T7: that goes for one that the way back would have made, too."""
    (project / "gone").mkdir(mode=0o755)
    (project / "gone" / "file").write_text("mine")
    killed(lambda: workspace.restore(edited.id), event="os.rmdir", path="gone")
    for name in ("gone", "folder"):
        shutil.rmtree(project / name, ignore_errors=True)
        (project / name).mkdir()
        (project / name).chmod(mode)

    workspace.recover(roll_back=True)

    assert (project / "folder").stat().st_mode & 0o7777 == mode
    assert (project / "gone").stat().st_mode & 0o7777 == mode
    assert (project / "gone" / "file").read_text() == "mine"


@pytest.mark.parametrize("end", ["finished", "rolled back"])
def test_a_folder_of_an_interrupted_restore_keeps_no_mark_of_it(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill, end: str
) -> None:
    """T7: while it is worked in it bears a mark that nobody else's has, the sticky bit."""
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-")
    assert (project / "folder").stat().st_mode & 0o7777 == 0o1700
    workspace.recover(roll_back=end == "rolled back")
    if end == "finished":
        assert (project / "folder").stat().st_mode & 0o7777 == 0o755
    else:
        assert not (project / "folder").exists()


def test_a_recovery_tells_of_the_checkpoint_that_the_finished_restore_led_to(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill
) -> None:
    """P7, T15: not of the newest one, where the workspace does not stand any more."""
    newest = workspace.save("two").checkpoint
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-", at=1)

    report = workspace.recover()
    again = workspace.recover()

    assert report.done == "finished-restore"
    for told in (report, again):
        assert (not_none(told.checkpoint).id, told.returned) == (edited.id, True)
        assert not any(not_none(told.drift).as_dict().values())
    assert newest.id in {one.id for one in workspace.list()}


def test_a_recovery_tells_of_the_target_although_somebody_edited_meanwhile(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill
) -> None:
    """P7: what they changed is told as the difference from it."""
    workspace.save("two")
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-", at=1)
    (project / "mine").write_text("since")

    report = workspace.recover()

    assert not_none(report.checkpoint).id == edited.id
    assert not_none(report.drift).added == 1


@pytest.mark.parametrize("limit", ["paths", "rollback"])
def test_a_recovery_tells_of_the_newest_where_the_workspace_was_not_brought_elsewhere(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill, limit: str
) -> None:
    """P7, T15: some paths, or a restore that was taken back, leave it where it stood."""
    newest = workspace.save("two").checkpoint
    paths = ["a", "b"] if limit == "paths" else []
    killed(lambda: workspace.restore(edited.id, paths=paths), event="os.rename", path=".lastgood-", at=0)

    report = workspace.recover(roll_back=limit == "rollback")

    assert (not_none(report.checkpoint).id, report.returned) == (newest.id, False)


def test_what_is_missing_comes_back_from_where_the_workspace_stands(
    workspace: Workspace, project: Path
) -> None:
    """P7: an artifact of a later checkpoint does not come back into an earlier state."""
    (project / "early").write_text("one")
    workspace.progress_set(artifacts=["early"])
    first = workspace.save("one").checkpoint
    (project / "late").write_text("two")
    workspace.progress_set(artifacts=["early", "late"])
    workspace.save("two")
    workspace.restore(first.id)

    report = workspace.recover()

    assert not_none(report.checkpoint).id == first.id
    assert [one.path for one in report.artifacts] == [b"early"]
    assert not (project / "late").exists()


def test_an_interrupted_restore_that_was_finished_can_be_undone(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill
) -> None:
    """T7, T8."""
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-", at=1)
    workspace.recover()

    workspace.undo()

    assert texts(project) == TWO
    assert not (project / "folder").exists()


def test_an_interrupted_restore_that_was_rolled_back_is_no_operation(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill
) -> None:
    """T7, T8: there is nothing to undo."""
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-", at=1)

    workspace.recover(roll_back=True)

    assert texts(project) == TWO
    with pytest.raises(NotFound):
        workspace.undo()


def test_a_restore_killed_after_it_was_recorded_can_be_rolled_back(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill
) -> None:
    """T7, T8: the operation that was recorded does not stand."""
    killed(lambda: workspace.restore(edited.id), event="os.remove", path="restore.journal")
    assert texts(project) == ONE

    workspace.recover(roll_back=True)

    assert texts(project) == TWO
    with pytest.raises(NotFound):
        workspace.undo()
    workspace.redo()
    assert texts(project) == ONE


def test_an_undo_killed_after_it_was_recorded_can_be_rolled_back(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill
) -> None:
    """T7, T8: the restore stands again, and can be undone."""
    workspace.restore(edited.id)
    killed(workspace.undo, event="os.remove", path="restore.journal")
    assert texts(project) == TWO

    workspace.recover(roll_back=True)
    assert texts(project) == ONE
    workspace.undo()

    assert texts(project) == TWO


@pytest.mark.parametrize("end", ["finished", "rolled back"])
def test_an_interrupted_undo_is_settled_and_the_stack_fits(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill, end: str
) -> None:
    """T7, T8: undo and redo go on as if nothing had happened."""
    workspace.restore(edited.id)
    killed(workspace.undo, event="os.rename", path=".lastgood-", at=1)
    workspace.recover(roll_back=end == "rolled back")
    assert texts(project) == (ONE if end == "rolled back" else TWO)

    if end == "rolled back":
        workspace.undo()
    workspace.redo()
    assert texts(project) == ONE
    workspace.undo()

    assert texts(project) == TWO


def test_recovering_keeps_what_somebody_edited_in_between(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill
) -> None:
    """T7: the path is named, and a copy of the edit is not even needed."""
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-", at=1)
    (project / "c").write_text("precious")

    report = workspace.recover()

    assert (project / "c").read_text() == "precious"
    assert [one.path for one in report.outcomes if one.result == "skipped"] == [b"c"]
    workspace.undo()
    assert texts(project) == TWO | {"c": "precious"}


@pytest.mark.parametrize(
    ("event", "path", "roll_back", "type"),
    [("os.rename", ".lastgood-", False, "restore"), ("os.remove", "restore.journal", True, "undo")],
)
def test_what_a_recovery_records_counts_to_the_session_that_was_interrupted(
    workspace: Workspace,
    edited: Checkpoint,
    killed: Kill,
    event: str,
    path: str,
    type: str,
    *,
    roll_back: bool,
) -> None:
    """T7, T14."""
    id = workspace.session_start(exclusive=False).session.id
    killed(lambda: workspace.within(id).restore(edited.id, only=["files"]), event=event, path=path)

    workspace.recover(roll_back=roll_back)

    newest = workspace.operations()[0]
    assert (newest.type, newest.session) == (type, id)


def test_recovering_twice_is_harmless(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill
) -> None:
    """T7."""
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-", at=1)
    killed(workspace.recover, event="os.remove", path="restore.journal")

    workspace.recover()
    workspace.recover()

    assert texts(project) == ONE
    workspace.undo()
    assert texts(project) == TWO


def test_a_workspace_moved_during_an_interrupted_restore_is_recovered_where_it_is(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill, store: Path, tmp_path: Path
) -> None:
    """S19, T7: the journal goes with the workspace."""
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-", at=1)
    project.rename(tmp_path / "moved")
    with lastgood.open(tmp_path / "moved", store=store, maintenance="off") as moved:
        moved.attach(str(project))
        with pytest.raises(Busy):
            moved.save("too early")

        moved.recover()

        assert texts(tmp_path / "moved") == ONE


def test_nothing_is_freed_while_a_restore_waits_to_be_finished(
    project: Path, store: Path, killed: Kill, tmp_path: Path
) -> None:
    """T7, T15: guard and target are pinned, from another workspace's maintenance too."""
    (tmp_path / "other").mkdir()
    with (
        lastgood.open(project, store=store, maintenance="off") as workspace,
        lastgood.open(
            tmp_path / "other", store=store, maintenance="off", clock=FakeClock(seed=1000)
        ) as other,
    ):
        for name in ("a", "b", "c"):
            (project / name).write_text("one")
        saved = workspace.save("one").checkpoint
        for name in ("a", "b", "c"):
            (project / name).write_text("two")
        killed(lambda: workspace.restore(saved.id), event="os.rename", path=".lastgood-", at=1)
        (tmp_path / "other" / "file").write_text("other")
        other.save("other")
        other.forget(str(project))
        later = FakeClock(start=time.time_ns() + 2 * DAY, seed=2000)
        with lastgood.open(tmp_path / "other", store=store, maintenance="off", clock=later) as cleaner:
            cleaner.maintain()

        report = workspace.recover(roll_back=True)

        assert [one for one in report.outcomes if one.result == "failed"] == []
        assert texts(project) == {"a": "two", "b": "two", "c": "two"}


def test_a_roll_back_leaves_what_somebody_put_into_a_restored_folder(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill
) -> None:
    """T7, T4: a folder that is not ours alone any more stays."""
    killed(lambda: workspace.restore(edited.id), event="os.remove", path=".old")
    flag = project / "folder" / "inside"
    assert flag.exists()
    (project / "folder" / "mine").write_text("mine")

    workspace.recover(roll_back=True)

    assert (project / "folder" / "mine").read_text() == "mine"


def test_what_a_roll_back_could_not_take_back_can_be_undone(
    workspace: Workspace, project: Path, killed: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7, T8: it stays an operation."""
    folder, rmdir = project / "folder", os.rmdir
    folder.mkdir(mode=0o700)
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    folder.rmdir()
    (project / "file").write_text("two")
    killed(lambda: workspace.restore(saved.id), event="os.remove", path=".old")

    def failing(path: bytes, *, dir_fd: int | None = None) -> None:
        if path == b"folder":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rmdir(path, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", failing)
        workspace.recover(roll_back=True)
    assert folder.exists()
    workspace.undo()

    assert not folder.exists()
    assert (project / "file").read_text() == "two"


@pytest.mark.parametrize("event", ["os.rename", "os.remove"])
def test_a_journal_set_aside_leaves_no_temporary_files(
    workspace: Workspace, project: Path, killed: Kill, store: Path, event: str
) -> None:
    """T7: what its restore had set aside is back where it was, or in the guard."""
    for name in ("becomes-file", "stays"):
        (project / name).write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "becomes-file").unlink()
    (project / "becomes-file" / "deep").mkdir(parents=True)
    (project / "becomes-file" / "deep" / "inside").write_text("two")
    (project / "stays").write_text("two")
    killed(lambda: workspace.restore(saved.id), event=event, path=".old" if event == "os.remove" else "stays")
    assert list(project.rglob(".lastgood-op_*"))
    (project / ".lastgood-op_mine").write_text("somebody's own")
    journal = next(store.glob("workspaces/*/restore.journal"))
    journal.write_bytes(b"garbled")

    report = workspace.verify(repair=True)

    assert any("left" in text for text in report.repaired)
    assert [path.name for path in project.rglob(".lastgood-*")] == [".lastgood-op_mine"]
    guard = workspace.list(kind="guard")[0]
    assert workspace.read(guard.id, "becomes-file/deep/inside") == b"two"
    if (project / "becomes-file").is_dir():
        assert (project / "becomes-file" / "deep" / "inside").read_text() == "two"


def test_a_garbled_journal_is_named_and_set_aside(
    workspace: Workspace, project: Path, edited: Checkpoint, killed: Kill, store: Path
) -> None:
    """T7, K4: there is a way out, and it loses nothing."""
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=".lastgood-", at=1)
    journal = next(store.glob("workspaces/*/restore.journal"))
    journal.write_bytes(journal.read_bytes()[:-10])

    with pytest.raises(Damaged, match="journal"):
        workspace.save("blocked")
    with pytest.raises(Damaged) as caught:
        workspace.recover()
    assert "verify --repair" in caught.value.hint
    status = workspace.status()
    assert status.state == "interrupted"
    report = workspace.verify(repair=True)

    assert any("journal" in text for text in report.repaired)
    assert workspace.save("goes on").checkpoint is not None
    guard = workspace.list(kind="guard")[0]
    workspace.restore(guard.id)
    assert {name: text for name, text in texts(project).items() if name in TWO} == TWO


def test_ctrl_c_in_a_restore_says_how_to_finish_it(workspace: Workspace, project: Path, killed: Kill) -> None:
    """T7."""
    (project / "a").write_text("one")
    saved = workspace.save("one").checkpoint
    assert saved is not None
    (project / "a").write_text("two")
    console = Console({})
    killed(lambda: workspace.restore(saved.id), event="os.rename", path=".lastgood-", at=0)
    with pytest.raises(KeyboardInterrupt), telling_what_is_left(console, workspace):
        raise KeyboardInterrupt
    assert console.left == "what it was changing is half done"
    assert console.left_hint.startswith("finish it: lastgood recover\n")
    workspace.recover()
    with pytest.raises(KeyboardInterrupt), telling_what_is_left(console, workspace):
        raise KeyboardInterrupt
    assert console.left == "nothing was changed"


@pytest.mark.parametrize("which", ["journal", "names"])
def test_what_the_disk_does_not_take_of_a_restore_is_not_gone_on_from(
    workspace: Workspace,
    project: Path,
    store: Path,
    edited: Checkpoint,
    which: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T7, invariant 3: without its journal nothing is changed, without the names the journal stays."""
    place = project if which == "names" else next((store / "workspaces").iterdir())
    original, now = os.fsync, texts(project)
    then = now | {"a": ONE["a"]}
    assert then != now

    def fsync(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), os.stat(place)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(Storage):
            workspace.restore(edited.id, paths=["a"])
    assert texts(project) == (now if which == "journal" else then)
    assert len(workspace.operations()) == (which == "names")
    with pytest.raises(Busy):
        workspace.save("beside it", allow_empty=True)

    if which == "names":  # as a power cut may leave it: recorded, and the name is the one of before
        (project / "a").write_text(now["a"])
    workspace.recover()
    assert texts(project) == then
    assert len(workspace.operations()) == 1
    workspace.undo()
    assert texts(project) == now


@pytest.mark.parametrize("name", [".pack", "restore.journal.new"])
def test_a_restore_killed_while_its_guard_is_made_has_not_begun(
    workspace: Workspace, project: Path, store: Path, edited: Checkpoint, killed: Kill, name: str
) -> None:
    """T7: the journal is on its way to the disk beside the guard, and means nothing before that is there."""
    now, guards = texts(project), len(workspace.list(kind="guard"))
    killed(lambda: workspace.restore(edited.id), event="os.rename", path=name)

    (begun,) = store.glob("workspaces/*/restore.journal*")
    assert begun.name == "restore.journal.new"
    assert len(workspace.list(kind="guard")) == guards + (name != ".pack")
    assert workspace.status().state != "interrupted"
    assert texts(project) == now
    workspace.restore(edited.id)
    assert texts(project) == ONE
    workspace.undo()
    assert texts(project) == now
    assert not list(store.glob("workspaces/*/restore.journal*"))


def test_a_guard_that_the_disk_does_not_take_leaves_no_journal(
    workspace: Workspace, project: Path, store: Path, edited: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7, S13: what was to name it is on the disk by then, under the name that means nothing."""
    place, original, now = store / "objects.git" / "objects" / "pack", os.fsync, texts(project)

    def fsync(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), os.stat(place)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(Storage):
            workspace.restore(edited.id)
    assert texts(project) == now
    assert not list(store.glob("workspaces/*/restore.journal*"))
    workspace.restore(edited.id)
    assert texts(project) == ONE


def test_names_that_the_disk_did_not_take_are_on_it_before_recover_says_that_it_finished(
    workspace: Workspace, project: Path, edited: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7: every path has been right since the restore failed; only a power cut would tell that it is not."""
    original = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), os.stat(project)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(Storage):
            workspace.restore(edited.id, paths=["a"])
        with pytest.raises(Storage, match="disk does not take it"):
            workspace.recover()
    assert workspace.status().state == "interrupted"
    workspace.recover()
    assert workspace.status().state != "interrupted"


def test_a_restore_that_fails_has_closed_what_it_replaced(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it goes on beside whoever hears of the failure."""
    for number in range(60):
        (project / f"file {number}").write_text("one")
    saved = workspace.save("many").checkpoint
    for number in range(60):
        (project / f"file {number}").write_text("two")
    original = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), os.stat(project)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(descriptor)

    tasks = set(os.listdir("/proc/self/task"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(Storage):
            workspace.restore(saved.id)
    assert eventually(lambda: tasks.issuperset(os.listdir("/proc/self/task")))
    assert not [one for one in map(_opened, os.listdir("/proc/self/fd")) if one.startswith(str(project))]


def _opened(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:  # the listing's own
        return ""
