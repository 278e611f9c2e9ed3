"""log: the checkpoints at which a path changed, and what it was then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lastgood
from lastgood import LastgoodError, Workspace
from tools.harm import packs_of
from tools.values import not_none


def told(workspace: Workspace, path: str, *, guards: bool = False) -> list[tuple[str, str, int, int]]:
    """Return message, status, lines added and removed of each change of a path, oldest first."""
    report = workspace.log(path, guards=guards)
    return [
        (one.checkpoint.message, one.status, one.additions, one.deletions) for one in reversed(report.changes)
    ]


def save(workspace: Workspace, message: str) -> str:
    return not_none(workspace.save(message, allow_empty=True).checkpoint).id


def test_a_file_is_told_where_it_came_changed_and_went(workspace: Workspace, project: Path) -> None:
    file, other = project / "file", project / "other"
    other.write_text("0")
    save(workspace, "before")
    file.write_text("one\n")
    save(workspace, "came")
    other.write_text("1")
    save(workspace, "other alone")
    file.write_text("one\ntwo\n")
    save(workspace, "grew")
    file.unlink()
    save(workspace, "went")
    assert told(workspace, "file") == [
        ("came", "added", 1, 0),
        ("grew", "modified", 1, 0),
        ("went", "deleted", 0, 2),
    ]


def test_each_change_has_the_size_that_the_file_had_then(workspace: Workspace, project: Path) -> None:
    for content in ("a", "abc"):
        (project / "file").write_text(content)
        save(workspace, content)
    (project / "file").unlink()
    save(workspace, "gone")
    assert [one.size for one in workspace.log("file").changes] == [None, 3, 1]


def test_a_folder_is_told_with_all_that_changed_in_it(workspace: Workspace, project: Path) -> None:
    (project / "folder").mkdir()
    (project / "folder" / "a").write_text("1\n")
    (project / "folder" / "b").write_text("1\n")
    save(workspace, "came")
    (project / "folder" / "a").write_text("1\n2\n")
    (project / "folder" / "b").unlink()
    save(workspace, "changed")
    changed, came = workspace.log("folder").changes
    assert (came.status, came.files, came.size) == ("added", 2, None)
    assert (changed.status, changed.files, changed.additions, changed.deletions) == ("modified", 2, 1, 1)


def test_permissions_and_another_kind_are_changes(workspace: Workspace, project: Path) -> None:
    file = project / "file"
    file.write_text("x")
    save(workspace, "file")
    file.chmod(0o755)
    save(workspace, "mode")
    file.unlink()
    file.symlink_to("elsewhere")
    save(workspace, "link")
    assert [one.status for one in workspace.log("file").changes] == ["kind", "mode", "added"]


def test_binary_contents_have_no_lines(workspace: Workspace, project: Path) -> None:
    (project / "file").write_bytes(b"\0\1")
    save(workspace, "one")
    (change,) = workspace.log("file").changes
    assert (change.binary, change.additions, change.size) == (True, 0, 2)


def test_a_gap_is_neither_a_deletion_nor_a_change(workspace: Workspace, project: Path) -> None:
    """S7: what a checkpoint does not know, it does not tell."""
    file = project / "file"
    file.write_text("x")
    save(workspace, "one")
    file.write_bytes(bytes(33 << 20))
    save(workspace, "too large")
    file.write_text("x")
    save(workspace, "as before")
    assert told(workspace, "file") == [("one", "added", 1, 0)]


def test_what_a_guard_alone_holds_is_told_when_guards_are_asked_for(
    workspace: Workspace, project: Path
) -> None:
    file = project / "file"
    file.write_text("good\n")
    good = save(workspace, "good")
    file.write_text("precious\n")
    workspace.restore(good)
    assert [one.checkpoint.message for one in workspace.log("file").changes] == ["good"]
    guard = workspace.log("file", guards=True).changes[0].checkpoint
    assert guard.kind == "guard"
    assert workspace.read(guard.id, "file") == b"precious\n"


def test_a_limit_is_how_many_are_told(workspace: Workspace, project: Path) -> None:
    for turn in range(4):
        (project / "file").write_text(str(turn))
        save(workspace, str(turn))
    assert [one.checkpoint.message for one in workspace.log("file", limit=2).changes] == ["3", "2"]


def test_a_name_that_is_no_text_is_found(workspace: Workspace, project: Path) -> None:
    """S3."""
    name = os.fsdecode(b"na\xffme")
    (project / name).write_text("x")
    save(workspace, "one")
    assert len(workspace.log(name).changes) == 1


def test_of_a_path_that_was_never_held_the_nearest_is_named(workspace: Workspace, project: Path) -> None:
    (project / "settings.py").write_text("x")
    save(workspace, "one")
    with pytest.raises(LastgoodError) as caught:
        workspace.log("setings.py")
    assert (caught.value.code, caught.value.hint) == ("not-found", "did you mean settings.py?")


def test_a_damaged_checkpoint_hides_no_other(workspace: Workspace, project: Path, store: Path) -> None:
    """K4."""
    file = project / "file"
    file.write_text("one\n")
    save(workspace, "one")
    packs = set((store / "objects.git/objects/pack").glob("*.pack"))
    file.write_text("two\n")
    save(workspace, "two")
    (pack,) = set((store / "objects.git/objects/pack").glob("*.pack")) - packs
    file.write_text("three\n")
    save(workspace, "three")
    workspace.close()
    pack.unlink()
    with lastgood.open(project, store=store, allow_root=True) as again:
        assert [one.checkpoint.message for one in again.log("file").changes] == ["three", "one"]


def test_the_workspace_itself_is_told_as_a_folder(workspace: Workspace, project: Path) -> None:
    for turn in range(2):
        (project / "file").write_text(str(turn))
        save(workspace, str(turn))
    assert [(message, status) for message, status, _, _ in told(workspace, ".")] == [
        ("0", "added"),
        ("1", "modified"),
    ]


def test_a_known_path_is_not_called_unknown_where_nothing_can_be_read(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """K4."""
    (project / "file").write_text("one")
    save(workspace, "one")
    workspace.close()
    for pack in packs_of(store):
        pack.unlink()
    with lastgood.open(project, store=store) as again, pytest.raises(lastgood.Damaged):
        again.log("file")


def test_checkpoints_that_came_in_another_order_are_told_by_what_was_before_each(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """Imports may bring the later ones first; where the path is a gap in all before, that has an end."""
    ids = []
    for turn, size in (("P", 33 << 20), ("Q", 33 << 20), ("C", 5)):
        (project / "big").write_bytes(bytes(size))
        (project / "a").write_text(turn)
        ids.append(save(workspace, turn))
    files = [tmp_path / f"{number}.export" for number in range(3)]
    for file, id in zip(files, ids, strict=True):
        workspace.export(file, id)
    workspace.close()
    target, elsewhere = tmp_path / "other-store", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with lastgood.open(elsewhere, store=target) as other:  # so that the numbers of the three are taken
        for number in range(4):
            (elsewhere / "file").write_text(str(number))
            other.save(str(number))
    with lastgood.open(project, store=target) as again:
        for file in reversed(files):
            again.import_file(file)
        assert told(again, "big") == [("C", "added", 0, 0)]
        changes = {one.checkpoint.message: one.status for one in again.log("a").changes}
        assert changes == {"P": "added", "Q": "modified", "C": "modified"}
