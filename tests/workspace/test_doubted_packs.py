"""Packs that nothing relies on are told where somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.workspace import Workspace

pytestmark = pytest.mark.damages


def packs_of(workspace: Workspace) -> tuple[str, str]:
    """Return what the examination says of packs: how it stands with them, and what to do."""
    (finding,) = (one for one in workspace.examine() if one.code == "packs")
    return finding.state, finding.hint


def test_damaged_packs_are_told_by_doctor_and_by_maintenance(
    workspace: Workspace, project: Path, spoil: Callable[[], None]
) -> None:
    (project / "a").write_text("content")
    workspace.save("first")
    assert packs_of(workspace) == ("good", "")
    assert not any("verify --repair" in line for line in workspace.maintain())
    spoil()
    workspace.verify()
    state, hint = packs_of(workspace)
    assert state == "note"
    assert "lastgood verify --repair" in hint
    assert any("lastgood verify --repair" in line for line in workspace.maintain())
    workspace.verify(repair=True)
    assert packs_of(workspace) == ("good", "")
