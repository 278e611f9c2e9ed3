"""What becomes of a run that died (rules P6, P7)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from lastgood.model.session import EFFECT_STATES, TASK_STATES, Effect, Position, Progress, Task
from lastgood.tasks import back_to, released, unknown_effects, unseen

TASKS = some.lists(
    some.builds(
        Task,
        id=some.sampled_from("abcde"),
        state=some.sampled_from(TASK_STATES),
        attempts=some.integers(0, 9),
    ),
    unique_by=lambda task: task.id,
).map(tuple)
EFFECTS = some.lists(
    some.builds(
        Effect,
        id=some.uuids().map(str),
        workspace_key=some.just("k"),
        name=some.sampled_from("xyz"),
        started_at=some.just(1),
        irreversible=some.booleans(),
        state=some.sampled_from(EFFECT_STATES),
    )
)


def states(progress: Progress) -> dict[str, tuple[str, int]]:
    return {task.id: (task.state, task.attempts) for task in progress.tasks}


@given(TASKS)
def test_only_running_tasks_are_released_and_keep_their_attempts(tasks: tuple[Task, ...]) -> None:
    after = states(released(Progress(tasks=tasks)))
    assert after == {
        task.id: ("pending" if task.state == "running" else task.state, task.attempts) for task in tasks
    }


@given(TASKS, TASKS)
def test_going_back_forgets_no_task_and_no_attempt(now: tuple[Task, ...], then: tuple[Task, ...]) -> None:
    before, back = states(Progress(tasks=now)), states(back_to(Progress(tasks=now), Progress(tasks=then)))
    earlier = {task.id: task for task in then}
    assert set(back) == set(before) | set(earlier)
    for id, (state, attempts) in back.items():
        assert state != "running"
        assert attempts >= max(
            before[id][1] if id in before else 0, earlier[id].attempts if id in earlier else 0
        )
        if id not in earlier:
            assert state == "pending"


def test_going_back_brings_the_position_of_then() -> None:
    then = Progress(position=Position(step=2, steps=9))
    assert back_to(Progress(goal="it", position=Position(step=7)), then).position.step == 2
    assert back_to(Progress(goal="it"), then).goal == "it"


@given(EFFECTS)
def test_of_each_step_the_last_attempt_says_whether_its_end_was_seen(effects: list[Effect]) -> None:
    """P6."""
    told = unknown_effects(effects)
    last = {effect.name: effect for effect in effects}
    assert {effect.name for effect in told} == {
        name for name, effect in last.items() if effect.state in ("running", "unknown")
    }
    assert [effect.irreversible for effect in told] == sorted(
        (one.irreversible for one in told), reverse=True
    )


@given(EFFECTS)
def test_steps_under_way_become_unknown(effects: list[Effect]) -> None:
    anew = unseen(effects)
    assert [one.id for one in anew] == [one.id for one in effects if one.state == "running"]
    assert all(one.state == "unknown" for one in anew)
