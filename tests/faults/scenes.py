"""Prepared stages, and what has to be true of them after a blow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import lastgood
from faults.injector import Trial
from faults.stage import Stage, Tree, alter, contents_of, differences, edit, fill, tree_of
from lastgood.errors import Busy
from lastgood.workspace import Workspace
from tools.judge import git_faults

IGNORED = b"debug.log"


@contextmanager
def opened(stage: Stage, *, watch: bool = False) -> Iterator[Workspace]:
    """Open the live workspace of a stage in this process."""
    with lastgood.open(
        stage.workspace, store=stage.store, maintenance="off", allow_root=True, watch=watch
    ) as workspace:
        yield workspace


def two_checkpoints(stage: Stage) -> None:
    """Build: a checkpoint named first, one named second, and unsaved work of a person."""
    fill(stage.workspace)
    with opened(stage) as workspace:
        workspace.save("the first state", name="first")
        alter(stage.workspace)
        workspace.save("the second state", name="second")
    edit(stage.workspace)


def target_of(stage: Stage) -> Tree:
    """Return what the workspace has to be after restoring the first checkpoint of `two_checkpoints`."""
    folder = stage.folder / "target"
    if not folder.exists():
        folder.mkdir()
        fill(folder)
    tree = tree_of(folder)
    tree[IGNORED] = tree_of(stage.template / "workspace")[IGNORED]  # ignored: kept as it is
    return tree


def listed(stage: Stage) -> tuple[str, ...]:
    with opened(stage) as workspace:
        return tuple(one.id for one in workspace.list())


def assert_answered(trial: Trial, word: str, where: str) -> None:
    """It was killed, or said what came of it."""
    spoke = trial.killed or trial.said(word) is not None or trial.said("failed") is not None
    assert spoke, f"{where}: no typed answer: {trial.status} {trial.lines}"


def assert_unharmed(stage: Stage, earlier: tuple[str, ...], where: str) -> None:
    """Every earlier checkpoint is there and proven, and the next save works by itself."""
    with opened(stage) as workspace:
        report = workspace.verify()
        assert report.ok, f"{where}: {report}"
        ids = tuple(one.id for one in workspace.list())
        assert ids[len(ids) - len(earlier) :] == earlier, f"{where}: lost {set(earlier) - set(ids)}"
        before = stage.tree()
        saved = workspace.save("the next save", allow_empty=True)
        assert saved.created, where
        assert_holds(stage, workspace, saved.checkpoint.id, before, where)


def assert_holds(stage: Stage, workspace: Workspace, ref: str, tree: Tree, where: str) -> None:
    """Prove a checkpoint by restoring it aside: it holds a tree, but for the ignored file."""
    aside = stage.folder / "live" / "aside"
    report = workspace.restore(ref, to=aside)
    assert not report.omissions, where
    expected = {path: node for path, node in tree.items() if path != IGNORED}
    found = tree_of(aside)
    assert found == expected, f"{where}: the checkpoint holds\n{differences(found, expected)}"


def assert_collected(stage: Stage, where: str) -> None:
    """What an interrupted run left in the store goes away by maintenance."""
    with opened(stage) as workspace:
        workspace.maintain()
        report = workspace.verify()
        assert report.ok, f"{where}: {report}"
    left = [path for path in stage.store.rglob("*") if path.is_file() and "tmp" in path.name.lower()]
    assert not left, f"{where}: {left}"
    assert git_faults(stage.store) == "", where


def assert_settled(
    stage: Stage, trial: Trial, where: str, *, start: Tree, target: Tree, roll_back: bool
) -> None:
    """After a blow to a restore: whole before, whole after, or recoverable to exactly either."""
    with opened(stage) as workspace:
        state = workspace.status().state
        if state == "interrupted":
            with pytest.raises(Busy):
                workspace.save("beside an interrupted restore")
            with pytest.raises(Busy):
                workspace.restore("second")
    if state == "interrupted":
        _assert_recovers(stage, where, roll_back=roll_back, expected=start if roll_back else target)
        if not roll_back:
            _assert_undoes(stage, where, start)
        return
    assert_nothing_ours(stage, where)
    present = stage.tree()
    if trial.said("incomplete") is not None or present == target:
        _assert_undoes(stage, where, start)
        return
    assert trial.said("restored") is None, f"{where}: said restored\n{differences(present, target)}"
    assert present == start, f"{where}: neither start nor target\n{differences(present, start)}"


def recover(workspace: Workspace, *, roll_back: bool) -> None:
    """Finish what was interrupted, or take it back; where it is over there is nothing to take back (P7b)."""
    if not roll_back or workspace.status().state == "interrupted":
        workspace.recover(roll_back=roll_back)


def assert_nothing_ours(stage: Stage, where: str) -> None:
    """Nothing temporary of ours stays in a workspace where no restore waits to be finished (rule T12b)."""
    left = [path for path in stage.tree() if b".lastgood-" in path]
    assert not left, f"{where}: {left}"


def _assert_recovers(stage: Stage, where: str, *, roll_back: bool, expected: Tree) -> None:
    way = "back" if roll_back else "forward"
    with opened(stage) as workspace:
        workspace.recover(roll_back=roll_back)
        assert workspace.status().state == "idle", f"{where}, {way}"
        present = stage.tree()
        assert present == expected, f"{where}: recovered {way}\n{differences(present, expected)}"
        assert workspace.verify().ok, f"{where}, {way}"


def _assert_undoes(stage: Stage, where: str, start: Tree) -> None:
    with opened(stage) as workspace:
        workspace.undo()
    present = stage.tree()
    assert present == start, f"{where}: undone\n{differences(present, start)}"


def assert_nothing_lost(stage: Stage, before: Tree, where: str) -> None:
    """Every content that was there before is in the workspace still, or in a listed checkpoint."""
    missing = contents_of(before) - contents_of(stage.tree())
    with opened(stage) as workspace:
        for checkpoint in workspace.list() if missing else ():
            for entry in workspace.entries(checkpoint.id):
                if missing and entry.kind == "file":
                    missing.discard(workspace.read(checkpoint.id, entry.path))
    assert not missing, f"{where}: lost {missing}"


def assert_found(stage: Stage, words: set[bytes], trial: Trial | None, where: str) -> None:
    """What a person wrote is in the workspace, a checkpoint, or a place outside that was named.

    Without the trial that named them, all such places count.
    """
    missing = {one for one in words if not any(one in held for held in contents_of(stage.tree()))}
    if missing and trial is not None:
        named = {line.partition(" ")[2] for line in trial.lines if line.startswith("kept ")}
        kept = [content for path in named for content in _contents_at(path)]
        missing = {one for one in missing if not any(one in held for held in kept)}
    elif missing:
        kept = [
            held for folder in stage.store.glob("workspaces/*/kept") for held in contents_of(tree_of(folder))
        ]
        missing = {one for one in missing if not any(one in held for held in kept)}
    if missing:
        with opened(stage) as workspace:
            for checkpoint in workspace.list():
                for entry in workspace.entries(checkpoint.id):
                    if missing and entry.kind == "file":
                        held = workspace.read(checkpoint.id, entry.path)
                        missing = {one for one in missing if one not in held}
    assert not missing, f"{where}: lost {sorted(missing)}"


def _contents_at(path: str) -> list[bytes]:
    if os.path.isdir(path):
        return [
            held
            for place, _, names in os.walk(path)
            for name in names
            for held in _contents_at(f"{place}/{name}")
        ]
    with open(path, "rb") as file:
        return [file.read()]
