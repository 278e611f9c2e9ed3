"""Whatever verb has a workspace scanned, it does not notice that the process that scans was killed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood import workspace as scanning
from lastgood.errors import Busy
from lastgood.scanner import scan
from lastgood.workspace import Workspace
from tools.killing import Killer

Verb = Callable[[Workspace], object]


@pytest.fixture
def killer(project: Path, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Killer:
    """Return what kills the processes that scan the workspace, of which two checkpoints were made."""
    killer = Killer(tmp_path, monkeypatch, call="ftruncate")
    monkeypatch.setattr(sys, "executable", str(killer.python))
    monkeypatch.setattr(scanning, "_count", lambda: 1)  # as beside another thread
    monkeypatch.setattr(scan, "MOST_FILES", -1)  # as if there were many files
    (project / "a").write_text("first")
    workspace.save("first", name="first")
    (project / "a").write_text("second")
    workspace.save("second")
    return killer


VERBS: dict[str, Verb] = {
    "save": lambda workspace: workspace.save("third"),
    "restore": lambda workspace: workspace.restore("first"),
    "undo": lambda workspace: workspace.undo(),
    "diff": lambda workspace: workspace.diff("first"),
    "status": lambda workspace: workspace.status(),
}
CHECK: dict[str, Verb] = {"check": lambda workspace: workspace.check("latest", ["true"])}


@pytest.mark.parametrize("verb", VERBS | CHECK)
def test_a_killed_scan_is_not_noticed(workspace: Workspace, project: Path, killer: Killer, verb: str) -> None:
    if verb == "undo":
        workspace.restore("first")
    (project / "b").write_text("new")
    killer.kill(1)
    (VERBS | CHECK)[verb](workspace)
    assert len(killer.killed) == 1


def test_a_check_that_cannot_look_at_the_workspace_is_made_aside(
    workspace: Workspace, killer: Killer
) -> None:
    killer.kill(99)
    report = workspace.check("latest", ["true"])
    assert (report.good, report.aside) == (True, True)


@pytest.mark.parametrize("verb", VERBS)
def test_scans_that_are_killed_again_and_again_are_told(
    workspace: Workspace, project: Path, store: Path, killer: Killer, verb: str
) -> None:
    if verb == "undo":
        workspace.restore("first")
    (project / "b").write_text("new")
    killer.kill(99)
    with pytest.raises(Busy, match="killed"):
        VERBS[verb](workspace)
    assert list((store / "tmp").iterdir()) == []
    killer.kill(0)
    VERBS[verb](workspace)
