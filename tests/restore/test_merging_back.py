"""Restoring and undoing with what changed since kept (rules T8, T17)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lastgood
from lastgood.errors import Conflict, NotFound, Unsafe, Unsupported, Usage
from lastgood.model.checkpoint import Checkpoint
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace

if TYPE_CHECKING:
    from lastgood.literals import Favour


MIDDLE = "".join(f"{number}\n" for number in range(10))


class Line:
    """A project with a checkpoint to go back to, one that is the base, and changes since."""

    def __init__(self, workspace: Workspace, project: Path) -> None:
        self.workspace = workspace
        self.project = project
        for name in ("agent", "person", "both", "clash", "mine"):
            self.write(name, f"top\n{MIDDLE}end\n")
        self.target = self.save("target")
        for name in ("agent", "both"):
            self.write(name, f"agent\n{MIDDLE}end\n")
        self.write("clash", "agent\n")
        self.write("made", "by the agent\n")
        self.base = self.save("base")
        self.write("person", "person\n")
        self.write("both", f"agent\n{MIDDLE}person\n")
        self.write("clash", "person\n")
        self.write("note", "by a person\n")
        (project / "mine").unlink()

    def write(self, name: str, text: str) -> None:
        (self.project / name).write_text(text)

    def save(self, message: str) -> Checkpoint:
        return self.workspace.save(message).checkpoint

    def texts(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.project.iterdir()}


@pytest.fixture
def line(workspace: Workspace, project: Path) -> Line:
    return Line(workspace, project)


def test_a_merge_takes_back_the_agent_and_keeps_the_person(line: Line) -> None:
    """T17: by default since the newest complete checkpoint."""
    beside = f"clash.lastgood-{line.target.short_id}"
    report = line.workspace.restore(line.target.id, merge=True)
    assert line.texts() == {
        "agent": f"top\n{MIDDLE}end\n",
        "person": "person\n",
        "both": f"top\n{MIDDLE}person\n",
        "clash": "person\n",
        beside: f"top\n{MIDDLE}end\n",
        "note": "by a person\n",
    }
    assert report.conflicts == (b"clash",)
    assert [(one.path, one.result, one.reason) for one in report.omissions] == [
        (b"clash", "skipped", "conflict")
    ]
    assert not report.complete
    assert line.workspace.verify(deep=True).ok


def test_a_merge_of_a_path_that_was_deleted_since_keeps_it_so_and_says_it(line: Line) -> None:
    """T17, T10: it is in the checkpoint, and stays deleted."""
    report = line.workspace.restore(line.target.id, merge=True, paths=["mine"])

    assert [(one.path, one.result, one.reason) for one in report.outcomes] == [
        (b"mine", "kept", "deleted since, which a merge keeps")
    ]
    assert report.complete
    assert not (line.project / "mine").exists()


def test_a_merge_of_a_path_that_only_its_base_has_keeps_it_deleted_too(line: Line) -> None:
    """T17, T10: the target never had it."""
    (line.project / "made").unlink()

    report = line.workspace.restore(line.target.id, merge=True, paths=["made"])

    assert [(one.path, one.result) for one in report.outcomes] == [(b"made", "kept")]


def test_a_merge_of_a_path_in_conflict_that_is_gone_says_that_it_is_in_conflict(line: Line) -> None:
    """T17: a person deleted what the agent had changed; the target's version is put beside."""
    (line.project / "clash").unlink()

    report = line.workspace.restore(line.target.id, merge=True, paths=["clash"])

    assert [(one.result, one.reason) for one in report.outcomes if one.path == b"clash"] == [
        ("skipped", "conflict")
    ]
    assert not (line.project / "clash").exists()
    with pytest.raises(NotFound, match="neither the checkpoint nor the workspace has nothing"):
        line.workspace.restore(line.target.id, merge=True, paths=["nothing"])


def test_a_merge_is_undone_and_brought_again(line: Line) -> None:
    """T8, T17: exactly, also after a sweep of what no checkpoint holds."""
    before = line.texts()
    line.workspace.restore(line.target.id, merge=True)
    merged = line.texts()
    line.workspace.undo()
    assert line.texts() == before
    line.workspace.maintain()
    line.workspace.redo()
    assert line.texts() == merged


def test_a_merge_whose_outcome_was_freed_is_no_damage(project: Path, store: Path) -> None:
    """T8, K3: what it had made was in the guard of the undo, and that goes after a while."""
    clock = FakeClock()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        line = Line(workspace, project)
        workspace.name(line.target.id, "target")
        workspace.restore("target", merge=True)
        workspace.undo()
        line.save("goes on")
        for _ in range(3):
            clock.advance(8 * 24 * 3600)
            workspace.maintain()
        before = line.texts()

        with pytest.raises(NotFound, match="let go and freed") as caught:
            workspace.redo(force=True)

        assert line.texts() == before
        assert "--merge" in (caught.value.hint or "")
        assert workspace.verify().ok


def test_a_plan_of_a_merge_is_carried_out_as_planned(line: Line) -> None:
    """T1, T17: the plan stores nothing; what it merged is merged again when it is time."""
    plan = line.workspace.plan_restore(line.target.id, merge=True)
    before = line.texts()
    assert line.workspace.plan_restore(line.target.id, merge=True).id == plan.id
    assert line.workspace.plan_restore(line.target.id, merge=True, base="@~1").id != plan.id
    assert line.workspace.plan_restore(line.target.id, merge=True, conflict="ours").id != plan.id
    assert line.texts() == before
    line.workspace.apply(plan)
    assert line.texts()["both"] == f"top\n{MIDDLE}person\n"


def test_a_plan_is_refused_when_what_it_merges_changed(line: Line) -> None:
    """T1: the plan is what happens."""
    plan = line.workspace.plan_restore(line.target.id, merge=True)
    line.write("both", "again\n")
    with pytest.raises(Conflict) as caught:
        line.workspace.apply(plan)
    assert caught.value.details["paths"] == ["both"]
    assert line.texts()["both"] == "again\n"


def test_another_base_keeps_other_changes(line: Line) -> None:
    """T17: from the target itself on everything is kept."""
    before = line.texts()
    report = line.workspace.restore(line.target.id, merge=True, base=line.target.id)
    assert line.texts() == before
    assert report.planned.empty


@pytest.mark.parametrize(
    ("conflict", "clash", "complete"),
    [("ours", "person\n", True), ("theirs", f"top\n{MIDDLE}end\n", True), ("markers", "<<<<<<< now", False)],
)
def test_a_choice_settles_conflicts(line: Line, conflict: Favour, clash: str, *, complete: bool) -> None:
    """T17: ours, theirs, or marks in the file, which are still to be settled by somebody."""
    report = line.workspace.restore(line.target.id, merge=True, conflict=conflict)
    assert line.texts()["clash"].startswith(clash)
    assert line.texts()["both"] == f"top\n{MIDDLE}person\n"
    assert not any("lastgood-" in name for name in line.texts())
    assert report.complete is complete


def test_what_does_not_go_together_is_refused(line: Line, workspace: Workspace, tmp_path: Path) -> None:
    """T13, T17: and nothing is touched."""
    before = line.texts()
    for options in (
        {"base": "@"},
        {"conflict": "ours"},
        {"merge": True, "conflict": "mine"},
        {"merge": True, "only": ["progress"]},
    ):
        with pytest.raises(Usage):
            line.workspace.restore(line.target.id, **options)
    with pytest.raises(Usage):
        workspace.undo(force=True, merge=True)
    (tmp_path / "other").mkdir()
    with lastgood.open(tmp_path / "other", store=workspace.store, maintenance="off") as other:
        (tmp_path / "other" / "file").write_text("other")
        stranger = other.save("other").checkpoint.id
    with pytest.raises(Unsafe):
        line.workspace.restore(line.target.id, merge=True, base=stranger)
    assert line.texts() == before


def test_without_git_only_what_needs_it_is_refused(project: Path, store: Path) -> None:
    """T17: with what to do about it, before anything is touched."""
    environment = dict(os.environ) | {"PATH": "/nonexistent"}
    with lastgood.open(project, store=store, maintenance="off", environment=environment) as workspace:
        line = Line(workspace, project)
        before = line.texts()
        with pytest.raises(Unsupported, match="git") as caught:
            workspace.restore(line.target.id, merge=True)
        assert caught.value.hint
        assert line.texts() == before
        report = workspace.restore(line.target.id, merge=True, paths=["agent", "person"])
        assert report.complete
        assert line.texts()["agent"].startswith("top")


def test_a_merge_of_the_users_own_settings_runs_nothing(line: Line, project: Path) -> None:
    """S12, T12: attributes and drivers of the workspace have no effect."""
    (project / ".gitattributes").write_text("* merge=evil\n")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text('[merge "evil"]\n\tdriver = touch ran\n')
    line.workspace.restore(line.target.id, merge=True)
    assert (project / "both").read_text().endswith("person\n")
    assert not (project / "ran").exists()


def test_an_undo_that_merges_keeps_what_changed_since(workspace: Workspace, project: Path) -> None:
    """T8, T17: base is the state after the restore."""
    texts = {"text": f"new\n{MIDDLE}end\n", "edited": "new\n", "deleted": "new\n", "gone": "new\n"}
    for name in ("text", "edited", "gone"):
        (project / name).write_text(f"old\n{MIDDLE}end\n")
    target = workspace.save("old").checkpoint.id
    for name, text in texts.items():
        (project / name).write_text(text)
    guard = workspace.save("new").checkpoint
    workspace.restore(target)
    (project / "text").write_text(f"old\n{MIDDLE}since\n")
    (project / "edited").write_text("since\n")
    (project / "gone").unlink()
    (project / "since").write_text("since\n")

    report = workspace.undo(merge=True)

    beside = f".lastgood-{guard.short_id}"
    assert {path.name: path.read_text() for path in project.iterdir()} == {
        "text": f"new\n{MIDDLE}since\n",
        "edited": "since\n",
        f"edited{beside}": "new\n",
        "deleted": "new\n",
        f"gone{beside}": "new\n",
        "since": "since\n",
    }
    assert sorted(one.path for one in report.omissions) == [b"edited", b"gone"]
    assert not report.complete
    workspace.redo(merge=True)
    assert (project / "text").read_text() == f"old\n{MIDDLE}since\n"


def test_a_name_beside_takes_no_names_place(line: Line) -> None:
    """T17, T12: whatever has the name already, it stays."""
    taken = line.project / f"clash.lastgood-{line.target.short_id}"
    taken.symlink_to("/etc/passwd")
    line.workspace.restore(line.target.id, merge=True)
    assert os.readlink(taken) == "/etc/passwd"
    assert (line.project / f"clash.lastgood-{line.target.short_id}-2").read_text().startswith("top")


def test_hostile_names_merge_as_others_do(workspace: Workspace, project: Path) -> None:
    """S3, T17: names of any bytes, also where they have to be cut."""
    names = [b"new\nline", b"\xff\xfe", b"-p", b"x" * 255]
    root = os.fsencode(project)

    def put(text: bytes) -> None:
        for name in names:
            with open(os.path.join(root, name), "wb") as file:
                file.write(text)

    put(b"one\n")
    target = workspace.save("one").checkpoint
    put(b"two\n")
    workspace.save("two")
    put(b"three\n")
    report = workspace.restore(target.id, merge=True)
    assert set(report.conflicts) == set(names)
    beside = {name for name in os.listdir(root) if name not in names}
    assert len(beside) == len(names)
    for name in beside:
        with open(os.path.join(root, name), "rb") as file:
            assert file.read() == b"one\n"


# What undo, redo and merges owe when a part cannot come back or a path is limited (rules K1, T8, T17).


Git = Callable[..., str]


@pytest.fixture
def realigned(workspace: Workspace, project: Path, git: Git) -> Path:
    """Return a project that was just restored with HEAD and index, from contents that were staged alone."""
    git(project, "init", "-q")
    file = project / "file"
    file.write_text("target\n")
    git(project, "add", "file")
    target = workspace.save("target").checkpoint
    file.write_text("staged alone\n")
    git(project, "add", "file")
    file.write_text("later\n")
    workspace.restore(target.id, only=["files", "git"])
    return project


def test_an_undo_refuses_while_git_has_lost_what_was_staged(
    workspace: Workspace, realigned: Path, git: Git
) -> None:
    """T8: and it says how to undo all the same."""
    git(realigned, "prune", "--expire=now")

    with pytest.raises(Unsafe) as raised:
        workspace.undo()

    assert "undo --merge" in (raised.value.hint or "")
    assert (realigned / "file").read_text() == "target\n"


@pytest.mark.parametrize("way", ["force", "merge"])
def test_files_come_back_although_git_has_lost_what_was_staged(
    workspace: Workspace, realigned: Path, git: Git, way: str
) -> None:
    """T8: HEAD and index stay, and the report says why."""
    git(realigned, "prune", "--expire=now")

    report = workspace.undo(force=way == "force", merge=way == "merge")

    assert (realigned / "file").read_text() == "later\n"
    assert [(part.scope, part.result) for part in report.parts] == [("git", "kept")]


def test_files_come_back_by_force_although_the_repository_is_gone(
    workspace: Workspace, realigned: Path
) -> None:
    """T8: what can be taken back is."""
    shutil.rmtree(realigned / ".git")

    report = workspace.undo(force=True)

    assert (realigned / "file").read_text() == "later\n"
    assert [(part.scope, part.result) for part in report.parts] == [("git", "kept")]


@pytest.mark.parametrize("mark", ["name", "pin"])
def test_a_prune_done_again_spares_what_was_marked_since(
    workspace: Workspace, project: Path, mark: str
) -> None:
    """K1: named and pinned checkpoints stay for ever."""
    made = []
    for text in ("one", "two", "three"):
        (project / "file").write_text(text)
        made.append(workspace.save(text).checkpoint.id)
    workspace.prune(keep=1)
    workspace.undo()
    if mark == "name":
        workspace.name(made[0], "precious")
    else:
        workspace.pin(made[0])

    workspace.redo()

    assert {one.id for one in workspace.list()} == {made[0], made[2]}


def test_a_folder_is_put_beside_a_conflict_once(workspace: Workspace, project: Path) -> None:
    """T17: the same merge again finds it there."""
    (project / "place").mkdir()
    (project / "place" / "inside").write_text("target\n")
    target = workspace.save("target").checkpoint
    shutil.rmtree(project / "place")
    (project / "place").write_text("base\n")
    workspace.save("base")
    (project / "place").write_text("mine\n")
    workspace.restore(target.id, merge=True)
    names = sorted(os.listdir(project))

    workspace.restore(target.id, merge=True)

    assert sorted(os.listdir(project)) == names


def test_a_merge_of_a_path_lists_the_conflict_above_it(workspace: Workspace, project: Path) -> None:
    """T17: a file where there is a folder by now, which was changed."""
    (project / "place").write_text("a file\n")
    target = workspace.save("target").checkpoint
    os.unlink(project / "place")
    (project / "place").mkdir()
    (project / "place" / "inside").write_text("base\n")
    workspace.save("base")
    (project / "place" / "inside").write_text("mine\n")

    report = workspace.restore(target.id, paths=["place/inside"], merge=True)

    assert (b"place", "skipped", "conflict") in {
        (one.path, one.result, one.reason) for one in report.outcomes
    }
    assert not report.complete


@pytest.fixture
def clashed(workspace: Workspace, project: Path) -> Path:
    """Return a file that was restored by a restore of its own, the second one, and changed since."""
    file, other = project / "file", project / "other"
    file.write_text("saved")
    other.write_text("saved")
    saved = workspace.save("saved").checkpoint.id
    other.write_text("changed")
    workspace.restore(saved, paths=["other"])
    file.write_text("changed")
    workspace.restore(saved, paths=["file"])
    file.write_text("changed again")
    return file


def test_an_undo_that_takes_nothing_back_can_be_tried_again(workspace: Workspace, clashed: Path) -> None:
    """T8, T17: the other version lies beside, and that is no part of what was restored."""
    for _ in range(2):
        report = workspace.undo(merge=True)
        assert [(one.path, one.result) for one in report.omissions] == [(b"file", "skipped")]
        assert len(list(clashed.parent.glob("file.lastgood-*"))) == 1

    workspace.undo(force=True)

    assert clashed.read_text() == "changed"
    assert clashed.with_name("other").read_text() == "saved"
    assert [len(workspace.operations(can=way)) for way in ("undo", "redo")] == [1, 1]


def test_a_redo_that_does_nothing_again_can_be_tried_again(workspace: Workspace, clashed: Path) -> None:
    """T8, T17."""
    clashed.write_text("saved")
    workspace.undo()
    clashed.write_text("changed again")

    assert not workspace.redo(merge=True).complete
    assert not workspace.redo(merge=True).complete
    workspace.redo(force=True)

    assert clashed.read_text() == "saved"


def test_an_undo_that_was_finished_by_hand_is_done(workspace: Workspace, clashed: Path) -> None:
    """T8: with the version that an undo put beside."""
    workspace.undo(merge=True)
    (beside,) = clashed.parent.glob("file.lastgood-*")
    beside.rename(clashed)

    workspace.undo(merge=True)

    assert clashed.read_text() == "changed"
    assert [one.steps[0].path for one in workspace.operations(can="undo")] == [b"other"]


def test_an_undo_that_takes_some_of_it_back_is_done(workspace: Workspace, project: Path) -> None:
    """T8, T17: what it left is listed, and has its version beside."""
    for name in ("here", "there"):
        (project / name).write_text("saved")
    saved = workspace.save("saved").checkpoint.id
    for name in ("here", "there"):
        (project / name).write_text("changed")
    workspace.restore(saved)
    (project / "there").write_text("changed again")

    assert [one.path for one in workspace.undo(merge=True).omissions] == [b"there"]

    assert (project / "here").read_text() == "changed"
    assert not workspace.operations(can="undo")
