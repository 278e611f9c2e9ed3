"""A run whose runner is killed, or whose disk fails, at any call that changes a file (P6, P7).

Where a task makes the call, the task is what is killed. The same run started again, by somebody who
looks what happened where nobody knows, comes to what an undisturbed one comes to.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from faults.injector import Blow, Injector, Mode, Trial
from faults.scenes import assert_answered, assert_collected, opened
from faults.stage import Stage, Tree, differences, fill
from faults.sweep import STOPPED, sweep
from lastgood.model.session import SessionReport
from lastgood.workspace import Workspace

pytestmark = pytest.mark.faults

SHIPPED = ["T03"]
# A task that failed, one of which nobody knows, another of that kind after it: each needs a turn.
TURNS = 8


def outside(stage: Stage) -> Path:
    return stage.folder / "live" / "outside"


def build(stage: Stage) -> None:
    fill(stage.workspace)
    outside(stage).mkdir()
    with opened(stage) as workspace:
        workspace.save("before all", name="before")


def plan(stage: Stage) -> dict[str, Any]:
    """Return tasks of each kind; the last one fails once, and is taken back."""
    effects, tried = outside(stage) / "effects", outside(stage) / "tried"
    tasks = [
        {
            "id": "T01",
            "run": "set -e; echo T01 >> log.txt; mkdir -p new; echo one > new/one",
            "on_failure": "rollback",
        },
        {
            "id": "T02",
            "run": "set -e; echo two > two.new; mv two.new two; rm -f leaves",
            "on_failure": "keep",
        },
        {
            "id": "T03",
            "run": f"set -e; echo shipped > note; echo T03 >> {effects}",
            "irreversible": True,
        },
        {
            "id": "T04",
            "run": f"set -e; echo T04 >> log.txt; test -e {tried} || {{ touch {tried}; exit 1; }}",
            "check": "test -e note",
            "on_failure": "rollback",
            "retries": 1,
            "needs": ["T01"],
        },
    ]
    return {"goal": "all of it", "tasks": tasks}


def shipped(stage: Stage) -> list[str]:
    file = outside(stage) / "effects"
    return file.read_text().split() if file.exists() else []


def carried_out(stage: Stage) -> list[str]:
    """Start the run as often as it takes; return the irreversible tasks that it asked about."""
    asked: list[str] = []
    orders: dict[str, list[str]] = {}
    for _ in range(TURNS):
        with opened(stage) as workspace:
            if any(one.session.ended_by == "finished" for one in workspace.sessions()):
                return asked
            report = workspace.run(plan(stage), **orders)  # type: ignore[arg-type]
            undone = {one.id for one in report.tasks if one.state != "done"}
            unknown = {
                one.task for one in report.unknown_effects if one.irreversible and one.task in undone
            } & set(SHIPPED)
            asked += sorted(unknown)
            orders = {}
            for task in unknown:
                orders.setdefault("done" if task in shipped(stage) else "redo", []).append(task)
    return asked


@STOPPED
def test_a_run_stopped_at_any_call_comes_to_what_it_was_to_come_to(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(build)
    assert carried_out(stage) == []
    expected = stage.tree()
    stage.reset()

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "ran", where)
        # A run that could not tell of its end asks, as one that was killed does.
        asked = carried_out(stage)
        assert_come_to(stage, expected, where)
        assert_told(stage, asked, where)

    points = 10 if blow == Blow() else 6
    sweep(injector, stage, "run", {"plan": plan(stage)}, blow=blow, check=check, points=points)


def test_what_could_not_be_taken_back_is_before_the_run_goes_on(injector: Injector, stage: Stage) -> None:
    """Though a restore is recorded that took something else back."""
    stage.prepare(build)
    carried_out(stage)
    expected = stage.tree()
    stage.reset()
    order = {"workspace": str(stage.workspace), "store": str(stage.store), "plan": plan(stage)}
    clean = injector.run("run", order, roots=stage.roots, blow=Blow(), traced=True)
    calls = [line.split(" ", 2) for line in clean.trace.splitlines()]
    writes = [int(number) for number, _, path in calls if "/workspace/.lastgood-op" in path]
    assert writes
    for at in writes:
        stage.reset()
        trial = injector.run(
            "run", order, roots=stage.roots, blow=Blow(at=at, mode=Mode.FAIL, error=errno.EIO)
        )
        carried_out(stage)
        assert_come_to(stage, expected, f"{at}: {trial.hit}")


def the_session(workspace: Workspace, where: str) -> SessionReport:
    """Return the one session in which anything was done."""
    found = [one for one in workspace.sessions() if one.session.ended_by != "failed"]
    assert len(found) == 1, where
    return found[0]


def assert_come_to(stage: Stage, expected: Tree, where: str) -> None:
    present = stage.tree()
    assert present == expected, f"{where}\n{differences(present, expected)}"
    assert shipped(stage) == SHIPPED, where
    with opened(stage) as workspace:
        session = the_session(workspace, where)
        assert session.session.ended_by == "finished", where
        assert [one.state for one in session.progress.tasks] == ["done"] * 4, where
        assert workspace.get("@").kind == "session-end", where
    assert_collected(stage, where)


def assert_told(stage: Stage, asked: list[str], where: str) -> None:
    """What was done twice perhaps was asked about before."""
    with opened(stage) as workspace:
        session = the_session(workspace, where)
        for task in SHIPPED:
            steps = [one for one in workspace.steps(session.id) if one.task == one.name == task]
            assert len(steps) <= 1 + asked.count(task) + sum(one.state == "failed" for one in steps), where
