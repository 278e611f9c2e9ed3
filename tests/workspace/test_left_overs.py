"""What a restore could not take away of its own: named, in no checkpoint, cleared later (rule T12b)."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import Unsafe
from lastgood.restore.finish import settle_restore
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace
from tools.command import Command
from tools.harm import packs_of
from tools.values import not_none

Kill = Callable[..., None]

Fix = Callable[[Path], None]


@pytest.fixture
def fixed() -> Iterator[Fix]:
    """Return a call by which nobody, not even root, may change a path any more until the test ends."""
    done: list[Path] = []

    def fix(path: Path) -> None:
        if subprocess.run(["chattr", "+i", path], capture_output=True, check=False).returncode:
            pytest.skip("nothing can be made immutable here (it takes root, and a file system that knows it)")
        done.append(path)

    yield fix
    for path in done:
        _loosen(path)


def _loosen(path: Path) -> None:
    subprocess.run(["chattr", "-i", path], check=True)


def _write(project: Path, text: str) -> None:
    for name in ("closed", "open"):
        (project / name).mkdir(exist_ok=True)
        (project / name / "file").write_text(text)


def _texts(project: Path) -> list[str]:
    return [(project / name / "file").read_text() for name in ("closed", "open")]


def _ours(project: Path) -> list[Path]:
    return sorted(path for path in project.rglob(".lastgood-op_*"))


@pytest.fixture
def stopped(workspace: Workspace, project: Path, killed: Kill) -> None:
    """Leave a restore that was killed when it had exchanged both files, and let go of neither."""
    _write(project, "one")
    saved = workspace.save("one").checkpoint
    _write(project, "two")
    killed(lambda: workspace.restore(saved.id), event="os.remove", path=".old")
    assert len(_ours(project)) == 2


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("roll_back", [False, True], ids=["forward", "back"])
def test_a_directory_that_cannot_be_changed_any_more_stops_a_recovery_for_itself_alone(
    workspace: Workspace, project: Path, fixed: Fix, *, roll_back: bool
) -> None:
    """T7, T12b: the path is named with the reason, and saves go on."""
    fixed(project / "closed")

    report = workspace.recover(roll_back=roll_back)

    assert _texts(project) == ["one", "two" if roll_back else "one"]
    (left,) = _ours(project)
    (told,) = [one for one in report.outcomes if one.left is not None]
    assert told.path == b"closed/file"
    assert told.left == os.fsencode(left.relative_to(project))
    assert "operation not permitted" in (told.reason or "")
    assert told.result in {"skipped", "failed"}
    assert workspace.status().state == "idle"
    assert workspace.save("goes on", allow_empty=True).created


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("roll_back", [False, True], ids=["forward", "back"])
def test_a_directory_that_was_moved_since_is_cleared_where_it_is(
    workspace: Workspace, project: Path, *, roll_back: bool
) -> None:
    """T12b: no later save holds what is ours as if it were a person's."""
    (project / "elsewhere").mkdir()
    (project / "closed").rename(project / "elsewhere" / "moved")

    workspace.recover(roll_back=roll_back)

    assert _ours(project) == []
    assert (project / "elsewhere" / "moved" / "file").read_text() == "one"
    assert (project / "open" / "file").read_text() == ("two" if roll_back else "one")


@pytest.mark.usefixtures("stopped")
def test_what_could_not_be_cleared_is_when_it_can_be(workspace: Workspace, project: Path, fixed: Fix) -> None:
    """T12b: until then each recovery says so again, and hinders nothing."""
    fixed(project / "closed")
    workspace.recover()
    (again,) = [one for one in workspace.recover().outcomes if one.left is not None]
    assert again.result == "skipped"
    assert [note.code for note in workspace.status().health] == ["left-over"]
    _loosen(project / "closed")

    (waiting,) = _ours(project)
    report = workspace.recover()
    assert (report.omissions, report.cleared) == ((), (os.fsencode(waiting.relative_to(project)),))
    assert _ours(project) == []
    assert workspace.status().health == ()
    assert _texts(project) == ["one", "one"]
    workspace.undo()
    assert _texts(project) == ["two", "two"]


@pytest.mark.usefixtures("stopped")
def test_the_guard_of_a_recovery_holds_nothing_that_could_not_be_cleared(
    workspace: Workspace, project: Path, fixed: Fix
) -> None:
    """S1: it is a restore's own name, and no file of anybody's."""
    (project / "mine").write_text("since")
    fixed(project / "closed")

    workspace.recover()

    for one in workspace.list():
        assert not [entry.path for entry in workspace.entries(one.id) if b".lastgood-" in entry.path]


@pytest.fixture
def left(workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what a restore left on a failing disk: the file's content of before."""
    (project / "file").write_text("one")
    workspace.save("one", name="one")
    (project / "file").write_text("two")
    unlink = os.unlink

    def failing(path: bytes, *, dir_fd: int | None = None) -> None:
        if path.endswith(b".old"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing)
        workspace.restore("one")
    (found,) = _ours(project)
    return found


def test_a_directory_goes_of_which_a_failing_disk_let_go_at_the_second_attempt(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3, T10: it is not kept as if something of a person's were in it."""
    workspace.save("none", name="none", allow_empty=True)
    (project / "folder").mkdir()
    (project / "folder" / "file").write_text("one")
    unlink = os.unlink

    def failing_once(path: bytes, *, dir_fd: int | None = None) -> None:
        if path.endswith(b".old"):
            patch.undo()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing_once)
        report = workspace.restore("none")

    assert list(project.iterdir()) == []
    assert {one.result for one in report.outcomes} == {"removed"}


def test_what_a_restore_left_is_in_no_checkpoint_and_no_difference(
    workspace: Workspace, project: Path, left: Path
) -> None:
    """S1: a file of a person's of a name like that is one."""
    own = [f"{left.name}.mine", f"{left.name.rpartition('-')[0]}-notes", ".lastgood-op_ffffffffffffffff-1"]
    for name in own:
        (project / name).write_text("a person's")

    saved = workspace.save("two").checkpoint

    assert {entry.path for entry in workspace.entries(saved.id)} == {b"file", *map(os.fsencode, own)}
    assert workspace.diff(saved.id).files == ()
    drift = not_none(workspace.status().drift)
    assert not any(drift.as_dict().values())
    guard = not_none(workspace.restore("one").guard)
    assert not [entry for entry in workspace.entries(guard) if entry.path == os.fsencode(left.name)]


def test_a_restore_takes_away_nothing_that_an_earlier_one_left(
    workspace: Workspace, project: Path, left: Path
) -> None:
    """T4: neither the name nor the folder that it is in; what it plans is what it does."""
    inside = project / "folder" / left.name
    inside.parent.mkdir()
    (project / "folder" / "file").write_text("two")
    workspace.save("two")
    left.rename(inside)

    plan = workspace.plan_restore("one")
    report = workspace.restore("one")

    for steps in (plan.steps, report.outcomes):
        assert {one.path: one.action for one in steps} == {b"folder": "keep", b"folder/file": "delete"}
    assert inside.read_text() == "two"


def test_a_later_restore_does_not_bring_back_what_was_cleared(
    workspace: Workspace, project: Path, left: Path
) -> None:
    (project / "file").write_text("three")
    saved = workspace.save("three").checkpoint
    workspace.recover()
    assert not left.exists()
    (project / "file").write_text("four")

    report = workspace.restore(saved.id)

    assert [one.path for one in report.outcomes] == [b"file"]
    assert [path.name for path in project.iterdir()] == ["file"]


def test_a_name_of_a_restore_is_a_persons_file_when_nothing_is_left_any_more(
    workspace: Workspace, project: Path, left: Path
) -> None:
    """S1, K6: what the scan remembered of the directory does not count then."""
    workspace.save("two", allow_empty=True)
    content = left.read_text()
    workspace.recover()
    left.write_text(content)

    saved = workspace.save("mine").checkpoint

    assert workspace.read(saved.id, os.fsencode(left.name)) == b"two"


def test_a_copy_that_a_person_made_of_what_was_left_stays(
    workspace: Workspace, project: Path, left: Path
) -> None:
    """T12b: only the very names that a restore makes are its own."""
    copies = [project / f"{left.name}.bak", project / f"{left.name}~"]
    for copy in copies:
        copy.write_text("a person's")

    workspace.recover()

    assert sorted(path for path in project.iterdir() if path.name != "file") == sorted(copies)


@pytest.mark.usefixtures("left")
def test_status_tells_of_what_was_left_as_a_remark_and_of_everything_else_as_ever(
    project: Path, store: Path
) -> None:
    """P8: nothing waits for it, so the state is no other."""
    (project / "file").write_text("three")
    command = Command(project, store)

    document = command("status", "--json").json
    said = command("status").out

    assert document["state"] == "idle"
    assert document["drift"]["modified"] == 1
    assert [note["code"] for note in document["health"]] == ["left-over"]
    assert "a restore could not take away names of its own" in said
    assert "lastgood recover" in said
    assert "interrupted" not in said
    assert command("save", expect=0).code == 0


@pytest.mark.usefixtures("stopped")
def test_the_command_line_says_what_could_not_be_cleared_why_and_what_to_do(
    project: Path, store: Path, fixed: Fix
) -> None:
    """T10: exit code 3; 0 when it is cleared."""
    fixed(project / "closed")
    command = Command(project, store)
    for _ in range(2):
        said = command("recover", expect=3).err
        assert "closed/file (operation not permitted: closed/.lastgood-op_" in said
        assert "lastgood recover" in said
    _loosen(project / "closed")

    assert "closed" not in command("recover").err


def test_a_recovery_finishes_a_restore_before_it_clears_what_an_earlier_one_left(
    workspace: Workspace, project: Path, left: Path, killed: Kill
) -> None:
    """T7: else what goes back to its path is in the way of what is finished."""
    left.write_text("a person's words")
    (project / "file").write_text("three")
    later = workspace.save("three").checkpoint
    workspace.restore("one")
    killed(lambda: workspace.restore(later.id), event="os.rename", path=".lastgood-")

    report = workspace.recover()

    assert report.done == "finished-restore"
    assert (project / "file").read_text() == "three"
    (kept,) = [one.kept for one in report.outcomes if one.kept is not None]
    with open(kept, encoding="utf-8") as file:
        assert file.read() == "a person's words"
    assert _ours(project) == []


def test_a_restore_whose_proof_is_refused_can_be_finished(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7, invariant 3: files were written by then, so the journal stays."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    moved = project.with_name("moved")
    unlink = os.unlink

    def swapping(path: bytes, *, dir_fd: int | None = None) -> None:
        unlink(path, dir_fd=dir_fd)
        if path.endswith(b".old"):  # the file has its new content, and is not looked at yet
            project.rename(moved)
            project.symlink_to(moved)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", swapping)
        with pytest.raises(Unsafe):
            workspace.restore(saved.id)
    project.unlink()
    moved.rename(project)
    assert workspace.status().state == "interrupted"

    assert workspace.recover().done == "finished-restore"
    assert (project / "file").read_text() == "one"
    workspace.undo()
    assert (project / "file").read_text() == "two"


# After a power cut btrfs brings names back that a restore had taken away, and whose folder it had synced.


@pytest.fixture
def returned(workspace: Workspace, project: Path, killed: Kill) -> Path:
    """Return a name of a restore that is done and has closed its journal; it holds what the store has."""
    (project / "file").write_text("one")
    saved = workspace.save("one", name="one").checkpoint
    (project / "file").write_text("two")
    killed(lambda: workspace.restore(saved.id), event="os.remove", path=".old")
    (name,) = _ours(project)
    content = name.read_text()
    workspace.recover()
    assert not name.exists()
    name.write_text(content)
    return name


@pytest.mark.parametrize("suffix", ["", ".old"])
def test_a_name_of_a_restore_that_came_back_after_it_was_done_is_cleared(
    workspace: Workspace, project: Path, returned: Path, suffix: str
) -> None:
    """T7: nothing is interrupted, so no journal names it, and the next save would hold it."""
    returned.rename(returned.with_suffix(suffix))
    (project / "file").write_text("since")

    report = workspace.recover()

    assert (report.interrupted_restore, report.omissions) == (None, ())
    assert report.cleared == (os.fsencode(returned.with_suffix(suffix).name),)
    assert _ours(project) == []
    assert (project / "file").read_text() == "since"


def test_a_recovery_says_that_it_cleared_such_a_name(
    lastgood: Command, project: Path, returned: Path
) -> None:
    """T10: it does not say that there was nothing to do."""
    said = lastgood("recover").out

    assert f"cleared a temporary name of restores that are done: {returned.name}\n" in said
    assert "Nothing else is to recover." in said
    assert not returned.exists()


def test_what_the_store_lacks_of_that_is_kept_and_takes_the_place_of_nothing(
    workspace: Workspace, project: Path, returned: Path
) -> None:
    """T12b: the file is what somebody wrote last."""
    returned.write_text("in no checkpoint")

    report = workspace.recover()

    (kept,) = [one.kept for one in report.outcomes if one.kept is not None]
    with open(kept, encoding="utf-8") as file:
        assert file.read() == "in no checkpoint"
    assert (project / "file").read_text() == "one"
    assert _ours(project) == []


def test_a_recovery_leaves_names_alone_of_restores_that_it_does_not_know(
    workspace: Workspace, project: Path, returned: Path
) -> None:
    """T12b: in a copy of a folder they may be somebody else's, who waits to finish."""
    other = project / ".lastgood-op_ffffffffffffffff-1.old"
    returned.rename(other)

    workspace.recover()

    assert _ours(project) == [other]


def test_a_recovery_leaves_names_alone_of_restores_of_another_folder(
    workspace: Workspace, project: Path, returned: Path, tmp_path: Path
) -> None:
    """T13: they came with a copy, and say nothing of this folder's files."""
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    with lastgood.open(copy, store=workspace.store, maintenance="off") as other:
        report = other.recover()

    assert report.cleared == ()
    assert [path.name for path in _ours(copy)] == [returned.name]


@pytest.mark.usefixtures("returned")
def test_where_the_folder_is_gone_nothing_is_looked_for(workspace: Workspace, project: Path) -> None:
    """T12a: a run that died there can still be taken back, which makes the folder again."""
    project.rename(project.with_name("moved"))

    assert settle_restore(workspace._context, roll_back=False).left == ()


# What a killed save leaves is no damage, and what belongs to no checkpoint is counted (rules K3, K4).


DAY = 24 * 3600


def test_a_pack_that_a_killed_save_left_is_no_damage(
    workspace: Workspace, project: Path, store: Path, killed: Callable[..., None]
) -> None:
    """S14, K4: killed between a pack and its index, nothing is wrong with the store."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    killed(lambda: workspace.save("two"), event="os.rename", at=1, path="pack")
    folder = store / "objects.git" / "objects" / "pack"
    packs, indexes = ({path.stem for path in folder.glob(form)} for form in ("*.pack", "*.idx"))
    assert packs > indexes

    report = workspace.verify()

    assert (report.ok, report.faults, report.checkpoints) == (True, (), 1)
    assert workspace.verify(saved.id).ok
    assert workspace.save("two").created


def test_an_index_that_a_checkpoint_needs_is_missed(workspace: Workspace, project: Path, store: Path) -> None:
    """K4: what looks like the left-over of a save may be a loss."""
    (project / "file").write_text("one")
    workspace.save("one")
    for index in packs_of(store, ".idx"):
        index.unlink()

    report = workspace.verify()

    assert not report.ok
    assert any(".idx" in fault for fault in report.faults)
    assert workspace.verify(repair=True).ok


def test_bytes_of_no_checkpoint_are_counted(workspace: Workspace, project: Path) -> None:
    """K5: as the document of a verify says."""
    (project / "file").write_bytes(bytes(range(256)) * 40)
    first = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    workspace.save("two")
    assert workspace.verify().unreferenced_bytes == 0

    workspace.delete(first.id)

    assert workspace.verify().unreferenced_bytes > 200


@pytest.mark.parametrize("now", [True, False])
def test_what_a_killed_save_left_is_seen_before_bytes_are_freed(
    project: Path, store: Path, killed: Callable[..., None], *, now: bool
) -> None:
    """K3, K4: a checkpoint that came without its index, and may be brought back, loses nothing to a sweep."""
    clock = FakeClock()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "shared").write_text("shared")
        (project / "file").write_text("one")
        first = workspace.save("one").checkpoint
        (project / "file").write_text("two")
        killed(lambda: workspace.save("two"), event="os.rename", at=1, path="pack")
        (project / "shared").unlink()
        workspace.save("three")
        workspace.delete(first.id)

        if now:
            workspace.prune(now=True)
        clock.advance(2 * DAY)
        workspace.maintain()

        assert workspace.verify().ok
        assert workspace.verify(repair=True, deep=True).ok


# --- A journal that a kill kept from being opened: it names paths, and counts for nothing (rule T7) ---


def _begun(store: Path) -> Path:
    (folder,) = (store / "workspaces").iterdir()
    begun = folder / "restore.journal.new"
    begun.write_bytes(b"lastgood-journal 0011")
    return begun


@pytest.mark.parametrize(
    "act",
    [lambda one: one.save(), lambda one: one.restore("@"), lambda one: one.recover()],
    ids=["save", "restore", "recover"],
)
def test_what_a_kill_left_of_a_journal_that_was_never_opened_goes(
    workspace: Workspace, project: Path, store: Path, act: Callable[[Workspace], object]
) -> None:
    (project / "file").write_text("kept")
    workspace.save()
    begun = _begun(store)
    act(workspace)
    assert not begun.exists()
    assert (project / "file").read_text() == "kept"


def test_what_a_restore_under_way_writes_of_its_journal_stays(
    workspace: Workspace, project: Path, store: Path
) -> None:
    (project / "file").write_text("kept")
    workspace.save()
    context = workspace._context
    with context.locks.hold_workspace(context.key, wait=0):
        begun = _begun(store)
        settle_restore(context, roll_back=False)
        assert begun.exists()
