"""Clocks that jump back a day and forward ten years between saves: order and leases hold (S15, P1)."""

from __future__ import annotations

from pathlib import Path

import pytest

import lastgood
from lastgood.errors import Conflict, Usage
from lastgood.testing.clock import FakeClock
from tools.values import not_none

DAY = 86_400
TEN_YEARS = 10 * 365 * DAY
JUMPS = (-DAY, TEN_YEARS, -TEN_YEARS - DAY, TEN_YEARS, -DAY)


def test_the_order_of_checkpoints_is_that_of_their_saves(project: Path, store: Path) -> None:
    """S15."""
    clock = FakeClock()
    made = []
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        for number, jump in enumerate(JUMPS):
            (project / "file").write_text(str(number))
            made.append(workspace.save(str(number)).checkpoint)
            clock.jump(jump)
            clock.advance(1)
        assert [one.id for one in workspace.list()] == [one.id for one in reversed(made)]
        assert workspace.get("@").id == made[-1].id
        assert [workspace.get(f"@~{back}").id for back in range(len(made))] == [
            one.id for one in reversed(made)
        ]
        assert [one.sequence for one in made] == sorted({one.sequence for one in made})
        for one in made:
            workspace.restore(one.id)
            assert (project / "file").read_text() == one.message
        assert workspace.verify().ok


def test_a_session_lives_and_is_continued_whatever_the_clock_says(project: Path, store: Path) -> None:
    """P1, P7: only time that really passed ends a lease."""
    clock = FakeClock()
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        id = workspace.session_start(goal="long").session.id
        inside = workspace.within(id)
        for number, jump in enumerate(JUMPS):
            inside.task_start(f"T{number}")
            (project / "file").write_text(str(number))
            clock.jump(jump)
            with pytest.raises(Usage, match="nobody is proven to be at it"):
                workspace.recover()
            with pytest.raises(Conflict):
                workspace.session_start()
            clock.advance(3600)
            inside.task_done(f"T{number}")
        clock.advance(DAY + 1)
        report = workspace.recover()
        assert (not_none(report.session).id, report.done) == (id, "continue")
        assert [one.state for one in report.tasks] == ["done"] * len(JUMPS)
        for jump in JUMPS:
            clock.jump(jump)
            assert workspace.get_session(id).state == "active"
        assert workspace.get("@").position is None
        assert [one.task for one in workspace.list(session=id, kind="task")] == [
            f"T{number}" for number in reversed(range(len(JUMPS)))
        ]
