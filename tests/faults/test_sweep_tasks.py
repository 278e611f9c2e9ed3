"""A task among hundreds that is killed or failed at any call: its progress lies in parts (rules P8a, P6)."""

from __future__ import annotations

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_unharmed, listed, opened, two_checkpoints
from faults.stage import Stage
from faults.sweep import STOPPED, sweep
from lastgood.model import long_list
from lastgood.model.session import Progress, Task

pytestmark = pytest.mark.faults

MANY = 600
ID = "T0300"


def many_tasks(stage: Stage) -> None:
    """Build: two checkpoints, the second of hundreds of tasks that wait."""
    two_checkpoints(stage)
    with opened(stage) as workspace:
        context = workspace._context
        wanted = Progress(tasks=tuple(Task(id=f"T{number:04}") for number in range(MANY)))
        context.work.change(
            lambda work: work.change_progress(context.key, lambda _: wanted, workspace_key=context.key)
        )
        workspace.save("the third state")


@STOPPED
def test_a_task_among_hundreds_is_recorded_whole_or_not_at_all(
    injector: Injector, stage: Stage, blow: Blow
) -> None:
    stage.prepare(many_tasks)
    earlier = listed(stage)

    def check(trial: Trial, where: str) -> None:
        long_list.forget()
        ended = trial.said("done")
        with opened(stage) as workspace:
            context = workspace._context
            tasks = tuple(context.work.progress(context.key).tasks)
            assert [task.id for task in tasks] == [f"T{number:04}" for number in range(MANY)], where
            assert {task.state for task in tasks if task.id != ID} == {"pending"}, where
            assert tasks[300].state == "done" or not ended, where
            assert context.catalogue.fault() is None, where
            for one in workspace.list()[: len(workspace.list()) - len(earlier) + 1]:
                assert one.progress is not None, where
                assert [task.id for task in one.progress.tasks] == [task.id for task in tasks], where
                assert one.progress.tasks[300].state == ("pending" if one.id in earlier else "done"), where
        assert_unharmed(stage, earlier, where)

    sweep(injector, stage, "task", {"id": ID}, blow=blow, check=check, points=30)
