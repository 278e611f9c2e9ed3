"""Where nothing can be written: below what became a file, or a link that no disk can hold (T1, T8, T12)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import Conflict, Unsafe
from lastgood.model.operation import Journal
from lastgood.restore.finish import settle_restore
from lastgood.workspace import Workspace
from tools.command import Command
from tools.planting import link_to, planted
from tools.unlocked import writers


@pytest.fixture
def folder(workspace: Workspace, project: Path) -> Path:
    """Restore a state without one of the two files of a folder."""
    folder = project / "folder"
    folder.mkdir(mode=0o750)
    (folder / "stays").write_text("stays")
    saved = workspace.save("without").checkpoint
    (folder / "goes").write_text("goes")
    workspace.restore(saved.id)
    return folder


def test_a_plan_is_refused_when_a_folder_that_it_writes_into_is_gone(
    workspace: Workspace, project: Path
) -> None:
    """T1: the plan is what happens, or nothing is."""
    folder = project / "folder"
    folder.mkdir()
    (folder / "one").write_text("one")
    (folder / "two").write_text("two")
    (project / "top").write_text("top")
    saved = workspace.save("both").checkpoint
    (folder / "one").unlink()
    (project / "top").write_text("changed")
    plan = workspace.plan_restore(saved.id)
    shutil.rmtree(folder)
    folder.write_text("by somebody")

    with pytest.raises(Conflict) as caught:
        workspace.apply(plan)

    assert caught.value.details["paths"] == ["folder"]
    assert (folder.read_text(), (project / "top").read_text()) == ("by somebody", "changed")


@pytest.mark.parametrize("instead", [None, "by somebody"])
def test_an_undo_is_refused_when_a_folder_that_it_writes_into_is_gone(
    workspace: Workspace, folder: Path, instead: str | None
) -> None:
    """T8: it says so, and can be asked for again once the folder is back."""
    shutil.rmtree(folder)
    if instead is not None:
        folder.write_text(instead)

    with pytest.raises(Conflict) as caught:
        workspace.undo()

    assert caught.value.details["paths"] == ["folder"]
    assert "--force" in (caught.value.hint or "")


def test_an_undo_that_merges_makes_a_folder_again_that_is_gone(workspace: Workspace, folder: Path) -> None:
    """T8, T17: somebody took away what was there, and the undo brings what was not."""
    shutil.rmtree(folder)

    report = workspace.undo(merge=True)

    assert report.complete
    assert {path.name for path in folder.iterdir()} == {"goes"}
    assert folder.stat().st_mode & 0o777 == 0o750
    workspace.redo()
    assert not list(folder.iterdir())


def test_an_undo_that_merges_leaves_a_file_where_a_folder_was(workspace: Workspace, folder: Path) -> None:
    """T8, T17: a conflict is listed, and the undo can still be had by force."""
    shutil.rmtree(folder)
    folder.write_text("by somebody")

    report = workspace.undo(merge=True)

    assert [(one.path, one.result) for one in report.omissions] == [(b"folder/goes", "skipped")]
    assert "conflict" in (report.omissions[0].reason or "")
    assert folder.read_text() == "by somebody"
    assert workspace.undo(force=True).complete
    assert (folder / "goes").read_text() == "goes"


def test_an_undo_of_which_nothing_succeeds_does_not_say_that_it_did(
    command: Command, folder: Path, workspace: Workspace
) -> None:
    """T8, T10: and names no way back from what was not done."""
    shutil.rmtree(folder)
    folder.write_text("by somebody")
    workspace.close()

    done = command("undo", "--merge", expect=3)

    assert done.out.startswith("nothing was undone of the restore of ")
    assert "redo" not in done.out
    assert "to undo all the same (the present state is saved first): lastgood undo --force" in done.out


def test_an_undo_that_merges_decides_a_path_once(workspace: Workspace, project: Path) -> None:
    """T10, T17: a folder that a restore made a file of, and that somebody took away, is one conflict."""
    place = project / "place"
    place.write_text("file")
    saved = workspace.save("file").checkpoint
    place.unlink()
    place.mkdir()
    (place / "inside").write_text("inside")
    workspace.restore(saved.id)
    place.unlink()

    report = workspace.undo(merge=True)

    assert [(one.path, one.result) for one in report.outcomes] == [
        (b"place", "skipped"),
        (b"place/inside", "skipped"),
    ]
    assert not place.exists()
    assert workspace.undo(force=True).complete
    assert (place / "inside").read_text() == "inside"


@pytest.fixture
def unfolded(workspace: Workspace, project: Path) -> Path:
    """Restore a state in which a folder takes the place of a file."""
    place = project / "place"
    place.mkdir()
    (place / "inside").write_text("inside")
    saved = workspace.save("folder").checkpoint
    shutil.rmtree(place)
    place.write_text("file")
    (project / "other").write_text("other")
    workspace.restore(saved.id)
    return place


@pytest.mark.parametrize("ignored", ["", "place/new\n"])
def test_an_undo_is_refused_when_something_came_into_a_folder_that_was_a_file(
    workspace: Workspace, unfolded: Path, ignored: str
) -> None:
    """T8: all of it, and nothing is half undone."""
    (unfolded / "new").write_text("new")
    (unfolded.parent / ".gitignore").write_text(ignored)

    with pytest.raises(Conflict) as caught:
        workspace.undo()

    assert caught.value.details["paths"] == ["place/new"]
    assert not (unfolded.parent / "other").exists()


def test_an_undo_that_merges_leaves_a_folder_in_which_something_is_new(
    workspace: Workspace, unfolded: Path
) -> None:
    """T17: what is new stays, and the file that was there is a conflict."""
    (unfolded / "new").write_text("new")

    report = workspace.undo(merge=True)

    assert [(one.path, one.reason) for one in report.omissions] == [(b"place", "conflict: holds place/new")]
    assert {path.name for path in unfolded.iterdir()} == {"new"}
    assert (unfolded.parent / "other").read_text() == "other"


@pytest.mark.parametrize("ignored", ["", "new\n"])
@pytest.mark.parametrize("below", [".", "inner/most"])
def test_a_plan_is_refused_when_something_came_into_a_folder_that_becomes_a_file(
    workspace: Workspace, project: Path, below: str, ignored: str
) -> None:
    """T1, T4: however deep below it."""
    (project / ".gitignore").write_text(ignored)
    place = project / "place"
    place.write_text("file")
    saved = workspace.save("file").checkpoint
    place.unlink()
    (place / below).mkdir(parents=True)
    (place / "inside").write_text("inside")
    plan = workspace.plan_restore(saved.id)
    (place / below / "new").write_text("new")

    with pytest.raises(Conflict):
        workspace.apply(plan)

    assert {path.name for path in place.rglob("*") if path.is_file()} == {"inside", "new"}


# Links that no file system can hold: refused before the first write, and no store is lost to them (T12).


IMPOSSIBLE = {
    "NUL": b"a\0b",
    "nothing": b"",
    "too long": b"x" * 4096,
    "enormous": b"y" * (1 << 20),
}

impossible = pytest.mark.parametrize("target", IMPOSSIBLE.values(), ids=IMPOSSIBLE)


@impossible
def test_a_restore_of_one_is_refused_before_the_first_write(
    workspace: Workspace, project: Path, target: bytes
) -> None:
    """T12, T1: nothing is written, nothing is left open, and the plan alone is refused as well."""
    (project / "mine").write_text("mine")
    workspace.save("mine")
    bad = planted(workspace, {b"mine": b"theirs", b"l": link_to(target)})
    before = len(workspace.list())

    with pytest.raises(Unsafe, match="l is a link"):
        workspace.plan_restore(bad.id)
    with pytest.raises(Unsafe, match="l is a link"):
        workspace.restore(bad.id)
    with pytest.raises(Unsafe, match="l is a link"):
        workspace.restore(bad.id, to=project.parent / "aside")

    assert sorted(one.name for one in project.iterdir()) == ["mine"]
    assert (project / "mine").read_text() == "mine"
    assert not list((project.parent / "aside").iterdir())
    assert len(workspace.list()) == before
    assert workspace.status().state == "idle"
    (project / "mine").write_text("more")
    assert workspace.save("more").created


@impossible
def test_sound_paths_beside_one_come_back(workspace: Workspace, project: Path, target: bytes) -> None:
    """T12: a store that holds such a thing stays usable."""
    bad = planted(workspace, {b"mine": b"theirs", b"l": link_to(target)})

    assert workspace.restore(bad.id, paths=["mine"]).complete

    assert (project / "mine").read_text() == "theirs"
    assert workspace.diff(bad.id, None).files
    assert workspace.verify().ok


@impossible
def test_an_export_that_holds_one_is_not_imported(
    workspace: Workspace, tmp_path: Path, target: bytes
) -> None:
    """T12: nothing of it is taken in."""
    planted(workspace, {b"deep": {b"l": link_to(target)}})
    workspace.export(tmp_path / "bad.tar")
    (tmp_path / "elsewhere").mkdir()

    with lastgood.open(tmp_path / "elsewhere", store=tmp_path / "other", maintenance="off") as there:
        with pytest.raises(Unsafe, match="deep/l is a link"):
            there.import_file(tmp_path / "bad.tar")

        assert not [one for one in there.workspaces() if one.checkpoints]
        assert there.verify(deep=True).ok


@pytest.mark.parametrize("roll_back", [False, True])
def test_an_interrupted_restore_of_one_is_settled(
    workspace: Workspace, project: Path, *, roll_back: bool
) -> None:
    """T7: what an earlier release began is finished but for the link, or taken back, and work goes on."""
    (project / "mine").write_text("mine")
    kept = workspace.save("mine").checkpoint
    good = planted(workspace, {b"mine": b"theirs", b"l": link_to(b"mine")})
    bad = planted(workspace, {b"l": link_to(b"a\0b")})
    plan = workspace.plan_restore(good.id)
    context = workspace._context
    wrong = context.engine.directory(workspace._view.tree(bad).root)[0]
    steps = tuple(one.replace(want=wrong) if one.path == b"l" else one for one in plan.steps)
    writers(context).journal.open(
        Journal(
            operation="op_0123456789abcdef",
            type="restore",
            of=None,
            started_at=context.clock.now(),
            guard=kept.id,
            target_tree=plan.target,
            plan=plan.replace(steps=steps),
            session=None,
        )
    )

    settled = settle_restore(context, roll_back=roll_back)

    assert settled.done is not None
    failed = {one.path for one in settled.outcomes if one.result == "failed"}
    assert failed == (set() if roll_back else {b"l"})
    assert (project / "mine").read_text() == ("mine" if roll_back else "theirs")
    (project / "mine").write_text("later")
    assert workspace.save("later").created
