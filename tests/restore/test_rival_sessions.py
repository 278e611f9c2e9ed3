"""Restores beside sessions at work, and undo within one (rule T14)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import Conflict, NotFound
from lastgood.workspace import Workspace


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that is not ours to be in, though we made it."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


@pytest.fixture
def first(workspace: Workspace, project: Path) -> str:
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint.id
    (project / "file").write_text("two")
    return saved


def start(workspace: Workspace, **terms: object) -> str:
    return workspace.session_start(**terms).session.id  # type: ignore[arg-type]


def test_a_restore_beside_a_session_that_holds_the_workspace_is_refused(
    workspace: Workspace, project: Path, first: str, agent: subprocess.Popen[bytes]
) -> None:
    """T14: naming the session and its owner; a plan is too, an undo is not."""
    id = start(workspace, owner_pid=agent.pid)
    plan = workspace.plan_restore(first, force=True)

    for verb in (workspace.restore, workspace.plan_restore):
        with pytest.raises(Conflict, match=id) as caught:
            verb(first)
        assert str(agent.pid) in caught.value.message
        assert "--force" in caught.value.hint
    with pytest.raises(Conflict):
        workspace.apply(plan.replace(force=False))
    assert (project / "file").read_text() == "two"
    workspace.restore(first, force=True)
    assert (project / "file").read_text() == "one"
    workspace.undo()
    assert (project / "file").read_text() == "two"


def test_a_session_whose_owner_died_bars_nobody(
    workspace: Workspace, project: Path, first: str, agent: subprocess.Popen[bytes]
) -> None:
    """T14, P1: a task that ran when it died neither."""
    within = workspace.within(start(workspace, owner_pid=agent.pid))
    within.task_start("T1")
    agent.kill()
    agent.wait()
    workspace.restore(first, only=["files"])
    assert (project / "file").read_text() == "one"


def test_the_owner_and_what_runs_below_it_are_not_barred(workspace: Workspace, first: str) -> None:
    """T14: by process, also without naming the session."""
    within = workspace.within(start(workspace, owner_pid=os.getpid()))
    within.task_start("T1")
    assert workspace.restore(first, only=["files"]).operation is not None
    workspace.undo()
    code = f"import lastgood; lastgood.open({workspace.path!r}, store={workspace.store!r}).restore({first!r})"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_task_that_runs_bars_those_outside_its_session(
    workspace: Workspace, project: Path, first: str
) -> None:
    """T14: though no process owns it; without a task it bars nobody."""
    id = start(workspace)
    workspace.restore(first, only=["files"])
    workspace.undo()
    within = workspace.within(id)
    within.task_start("T1")
    with pytest.raises(Conflict, match="T1"):
        workspace.restore(first)
    within.restore(first, only=["files"])
    assert (project / "file").read_text() == "one"


def test_sessions_of_hosts_bar_each_other_while_they_are_at_a_task(workspace: Workspace, first: str) -> None:
    """T14: exclusive or not."""
    one, two = (workspace.within(start(workspace, exclusive=False)) for _ in range(2))
    two.restore(first, only=["files"])
    two.undo()
    one.task_start("T1")
    with pytest.raises(Conflict, match="T1"):
        two.restore(first)
    one.task_done("T1")
    two.restore(first, only=["files"])


def test_a_restore_of_another_workspace_is_not_barred(
    workspace: Workspace, tmp_path: Path, agent: subprocess.Popen[bytes]
) -> None:
    """T14: it is about one workspace."""
    start(workspace, owner_pid=agent.pid)
    (tmp_path / "other").mkdir()
    with lastgood.open(tmp_path / "other", store=workspace.store, maintenance="off") as other:
        (tmp_path / "other" / "file").write_text("one")
        saved = other.save("one").checkpoint.id
        (tmp_path / "other" / "file").write_text("two")
        other.restore(saved)


def test_undo_within_a_session_takes_back_its_own(workspace: Workspace, project: Path) -> None:
    """T14, T8: the newest of that session, and redo brings that again."""
    one, two = (workspace.within(start(workspace, exclusive=False)) for _ in range(2))
    for name in ("a", "b"):
        (project / name).write_text("one")
    target = workspace.save("one").checkpoint.id
    for name in ("a", "b"):
        (project / name).write_text("two")
    one.restore(target, paths=["a"])
    two.restore(target, paths=["b"])

    def texts() -> list[str]:
        return [(project / name).read_text() for name in ("a", "b")]

    one.undo()
    assert texts() == ["two", "one"]
    with pytest.raises(NotFound, match="session"):
        one.undo()
    with pytest.raises(NotFound):
        two.redo()
    one.redo()
    assert texts() == ["one", "one"]
    workspace.undo()
    assert texts() == ["one", "two"]


def test_a_restore_counts_to_the_session_that_holds_the_workspace(workspace: Workspace, first: str) -> None:
    """T14: also where its caller names none."""
    id = start(workspace)
    workspace.restore(first, only=["files"])
    assert workspace.operations()[0].session == id


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("how", ["save", "restore"])
def test_undo_leaves_what_another_session_changed(
    workspace: Workspace, project: Path, how: str, *, force: bool
) -> None:
    """T14: told by that session's checkpoints, or by its own restores; it is listed, and stays."""
    one, two = (workspace.within(start(workspace, exclusive=False)) for _ in range(2))
    names = ("a", "b")
    (project / "b").write_text("zero")
    older = workspace.save("zero").checkpoint.id
    for text in ("one", "two"):
        for name in names:
            (project / name).write_text(text)
        workspace.save(text)
    one.restore("@~1", only=["files"])
    assert [(project / name).read_text() for name in names] == ["one", "one"]
    if how == "save":
        (project / "b").write_text("of the other")
        two.save("of the other", kind="turn")
    else:
        two.restore(older, paths=["b"])
    theirs = (project / "b").read_text()

    report = one.undo(force=force)

    assert (project / "a").read_text() == "two"
    assert (project / "b").read_text() == theirs
    [kept] = [one for one in report.outcomes if one.path == b"b"]
    assert kept.result == "kept"
    assert "session sess_" in str(kept.reason)
    assert report.complete


@pytest.mark.parametrize("force", [False, True])
def test_undo_leaves_a_folder_into_which_another_session_put_something(
    workspace: Workspace, project: Path, *, force: bool
) -> None:
    """T14: although the undo would make a file of it again."""
    one, two = (workspace.within(start(workspace, exclusive=False)) for _ in range(2))
    place = project / "place"
    place.mkdir()
    (place / "inside").write_text("inside")
    workspace.save("folder")
    (place / "inside").unlink()
    place.rmdir()
    place.write_text("file")
    one.restore("@", only=["files"])
    (place / "theirs").write_text("theirs")
    two.save("of the other", kind="turn")

    report = one.undo(force=force)

    assert (place / "theirs").read_text() == "theirs"
    assert [one.result for one in report.outcomes if one.path == b"place"] == ["kept"]


def test_what_nobody_saved_is_nobodys(workspace: Workspace, project: Path, first: str) -> None:
    """T8, T14: a change that cannot be laid at another session's door refuses the undo, as ever."""
    one, two = (workspace.within(start(workspace, exclusive=False)) for _ in range(2))
    one.restore(first, only=["files"])
    (project / "other").write_text("of the other")
    two.save("beside")
    (project / "file").write_text("by somebody")
    with pytest.raises(Conflict):
        one.undo()
    assert (project / "file").read_text() == "by somebody"


def test_an_operation_outside_sessions_has_no_others(workspace: Workspace, project: Path, first: str) -> None:
    """T8, T14: a person is asked what is to become of what a session changed since."""
    workspace.restore(first, only=["files"])
    within = workspace.within(start(workspace, exclusive=False))
    (project / "file").write_text("by the session")
    within.save("by the session", kind="turn")
    with pytest.raises(Conflict):
        workspace.undo()
