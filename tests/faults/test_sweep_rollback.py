"""A run that died is taken back, killed at any call: its files and its progress, or neither (P7b)."""

from __future__ import annotations

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import opened
from faults.stage import Stage, Tree, differences, fill
from faults.sweep import sweep_both_ways

pytestmark = pytest.mark.faults

# A long list, which journals only name.
MANY = 18
States = dict[str, str]


def a_run_that_died(stage: Stage) -> None:
    """Build: one task was done while another one was under way, which is left so."""
    fill(stage.workspace)
    with opened(stage) as workspace:
        session = workspace.session_start(goal="prices").session.id
        inside = workspace.within(session)
        for number in range(MANY):
            inside.task_skip(f"skipped {number}")
        inside.task_start("T1")
        inside.task_start("T2")
        (stage.workspace / "made").write_text("by T2")
        (stage.workspace / "README.md").write_text("half done")
        inside.task_done("T2")
        workspace.session_end(session, finished=False)


def seen(stage: Stage) -> tuple[Tree, States]:
    with opened(stage) as workspace:
        (session,) = workspace.sessions()
        return stage.tree(), {task.id: task.state for task in session.progress.tasks}


def test_a_rollback_killed_at_any_call_takes_back_files_and_progress_or_neither(
    injector: Injector, stage: Stage
) -> None:
    """T7, P7b: no task stays done whose files are gone, whichever way what was interrupted is settled."""
    stage.prepare(a_run_that_died)
    start, began = seen(stage)
    skipped = {f"skipped {number}": "skipped" for number in range(MANY)}
    assert began == skipped | {"T1": "running", "T2": "done"}
    with opened(stage) as workspace:
        workspace.recover(roll_back=True)
    target, states = seen(stage)
    assert (b"made" in target, states) == (False, dict.fromkeys(began, "pending"))

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert trial.killed or trial.said("recovered"), f"{where}: {trial.lines}"
        with opened(stage) as workspace:
            if workspace.status().state == "interrupted":
                workspace.recover(roll_back=roll_back)
        tree, found = seen(stage)
        if tree == target:
            assert found == states, f"{where}: the files are back, and not the progress: {found}"
            return
        assert tree == start, f"{where}: in between\n{differences(tree, start)}"
        assert found["T2"] == "done", f"{where}: the progress is back, and not the files: {found}"

    sweep_both_ways(injector, stage, "recover", {"roll_back": True}, blow=Blow(), check=check, points=40)
