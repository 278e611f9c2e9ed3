"""The limits take no more than they must, and maintenance leaves nothing behind (rules K1, K3)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import lastgood
from lastgood.actions import maintain
from lastgood.model.settings import LimitSettings
from lastgood.testing.clock import FakeClock
from lastgood.workspace.upkeep import Upkeep

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_store_that_is_too_large_loses_no_more_while_bytes_wait_to_be_freed(
    project: Path, store: Path
) -> None:
    """K1, K3: bytes go a day later; until then the same excess is not taken away again."""
    limits = LimitSettings(max_store_size=2_000_000)
    settings = lastgood.Settings(limits=limits)
    with lastgood.open(project, store=store, maintenance="off", settings=settings) as workspace:
        for number in range(22):
            (project / "file").write_bytes(os.urandom(100_000))
            workspace.save(str(number))
        workspace.maintain()
        first = len(workspace.list())
        for _ in range(5):
            workspace.maintain()

        assert first < 22
        assert len(workspace.list()) >= 18


def test_maintenance_that_ended_is_let_go(project: Path, store: Path) -> None:
    """A long-lived caller gathers no dead processes."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        for number in range(64):
            (project / "file").write_text(str(number))
            workspace.save(str(number))
        upkeep = Upkeep("background")
        upkeep.after_save(workspace._context)
        child = upkeep._child
        assert child is not None
        for _ in range(200):
            upkeep.after_save(workspace._context)
            if upkeep._child != child:
                break
            time.sleep(0.05)

        assert upkeep._child != child
        if upkeep._child is not None:
            os.waitpid(upkeep._child, 0)


def test_an_operation_is_forgotten_by_age_only_if_there_are_many(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T8: what can be undone may be old."""
    clock = FakeClock()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        for text in ("one", "two", "three", "four"):
            (project / "file").write_text(text)
            workspace.save(text, name=text)
        for text in ("one", "two", "three"):
            workspace.restore(text)
        clock.advance(91 * 24 * 3600)
        workspace.maintain()
        assert len(workspace.operations()) == 3

        monkeypatch.setattr(maintain, "OPERATIONS_KEPT", 2)
        workspace.maintain()

        assert len(workspace.operations()) == 2
        workspace.undo()
        assert (project / "file").read_text() == "two"
