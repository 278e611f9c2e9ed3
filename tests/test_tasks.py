"""How a task of a plan goes on, and what becomes of a run that died, told from records alone (P6, P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis import strategies as st

from lastgood.model.run import ON_FAILURE, PlannedTask
from lastgood.model.session import EFFECT_STATES, TASK_STATES, Effect, Position, Progress, Task
from lastgood.tasks import (
    attempts_of,
    back_to,
    begin,
    doubt_of,
    end,
    outlook,
    registered,
    released,
    unknown_effects,
    unseen,
)
from tools.values import not_none

if TYPE_CHECKING:
    from lastgood.literals import EffectState, TaskState


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


# How a task of a plan goes on, told from records alone (P6, P7).


START = "ckpt_" + "0" * 16


def step(number: int, state: EffectState, **changes: Any) -> Effect:
    made = Effect(
        id=f"step_{number:016x}",
        workspace_key="k",
        name="A",
        task="A",
        started_at=number,
        attempt=number,
        state=state,
        checkpoint=START,
    )
    return made.replace(**changes)


def task(state: TaskState = "pending", attempts: int = 0) -> Task:
    return Task(id="A", state=state, attempts=attempts)


def planned(**changes: Any) -> PlannedTask:
    return PlannedTask(id="A", run="true").replace(**changes)


def test_a_task_that_never_started_is_attempted() -> None:
    assert outlook(planned(irreversible=True), task=task(), steps=[]).way == "attempt"


@pytest.mark.parametrize("policy", ON_FAILURE)
@pytest.mark.parametrize("state", ["unknown", "failed"])
def test_only_a_rollback_takes_an_attempt_back(policy: str, state: EffectState) -> None:
    steps = [step(1, state)]
    look = outlook(planned(on_failure=policy), task=task("failed", 1), steps=steps)
    assert (look.way, look.back) == ("attempt", steps[0] if policy == "rollback" else None)


def test_an_attempt_before_progress_was_taken_back_stays_as_it_is() -> None:
    look = outlook(planned(on_failure="rollback"), task=task("pending", 0), steps=[step(1, "failed")])
    assert (look.way, look.back) == ("attempt", None)


def test_nothing_is_taken_back_where_no_start_was_kept() -> None:
    steps = [step(1, "unknown", checkpoint=None)]
    assert outlook(planned(on_failure="rollback"), task=task("pending", 1), steps=steps).back is None


@pytest.mark.parametrize(
    ("state", "attempts", "check", "way"),
    [
        ("pending", 1, "test", "check"),  # its runner died before or in the check
        ("pending", 1, None, "attempt"),
        ("failed", 1, "test", "attempt"),  # the check failed
        ("pending", 0, "test", "attempt"),  # progress was taken back
    ],
)
def test_a_command_that_ended_well_waits_for_its_check(
    state: TaskState, attempts: int, check: str | None, way: str
) -> None:
    look = outlook(planned(check=check), task=task(state, attempts), steps=[step(1, "done")])
    assert look.way == way


@pytest.mark.parametrize(
    ("states", "check", "way"),
    [
        (["unknown"], None, "ask"),
        (["unknown"], "test", "ask"),
        (["failed"], None, "attempt"),
        (["done"], None, "ask"),
        (["done"], "test", "check"),
        (["done", "failed"], "test", "ask"),
        (["done", "unknown"], "test", "ask"),
        (["unknown", "failed"], None, "attempt"),  # somebody said that it may be done again, and it failed
    ],
)
def test_what_is_irreversible_is_never_repeated_unawares(
    states: list[EffectState], check: str | None, way: str
) -> None:
    steps = [step(number, state) for number, state in enumerate(states, 1)]
    look = outlook(planned(irreversible=True, check=check), task=task("failed", len(steps)), steps=steps)
    assert look.way == way
    assert (doubt_of("A", look, within=()) is None) == (way != "ask")


@given(
    states=st.lists(st.sampled_from(EFFECT_STATES), max_size=4),
    state=st.sampled_from(TASK_STATES),
    irreversible=st.booleans(),
    check=st.sampled_from([None, "test"]),
    policy=st.sampled_from(ON_FAILURE),
)
def test_a_known_or_possible_effect_is_never_followed_by_another_of_an_irreversible_task(
    states: list[EffectState],
    state: TaskState,
    check: str | None,
    policy: str,
    *,
    irreversible: bool,
) -> None:
    steps = [step(number, one) for number, one in enumerate(states, 1)]
    found = planned(irreversible=irreversible, check=check, on_failure=policy)
    look = outlook(found, task=task(state, len(steps)), steps=steps)
    assert (look.way == "done") == (state == "done")
    if irreversible and look.way == "attempt":
        assert "done" not in states
        assert states[-1:] not in (["unknown"], ["running"])
    if look.way == "check":
        assert check is not None
        assert states[-1] == "done"
    assert look.back is None or policy == "rollback"


def test_a_step_within_that_nobody_saw_end_is_a_doubt() -> None:
    inner = step(1, "unknown", name="push \x1b", irreversible=True)
    look = outlook(planned(), task=task("pending", 1), steps=[step(1, "unknown")])
    said = not_none(doubt_of("A", look, within=[inner]))
    assert said.startswith("nobody saw the end of push ")
    assert "\x1b" not in said


def test_attempts_are_the_steps_that_bear_their_tasks_name() -> None:
    mine = step(1, "done")
    others = [step(2, "done", name="push"), step(3, "done", task=None), step(4, "done", task="B")]
    assert attempts_of([mine, *others], "A") == (mine,)


def test_numbers_of_attempts_never_repeat() -> None:
    """Also where progress was taken back: each has an output of its own."""
    begun = begin(Progress(), "A", steps=[step(3, "failed")], at=9)
    assert begun.tasks == (Task(id="A", state="running", attempts=4, started_at=9),)
    assert begin(begun, "A", steps=[], at=10).tasks[0].attempts == 5


def test_the_runner_has_the_last_word_on_a_task() -> None:
    said = Progress(tasks=(Task(id="A", state="skipped", attempts=1),))
    assert end(said, "A", state="done", at=5).tasks == (Task(id="A", state="done", attempts=1, ended_at=5),)
    over = Progress(tasks=(Task(id="A", state="done", attempts=1, ended_at=4),))
    assert end(over, "A", state="done", at=5) == over


def test_registering_keeps_what_is_known_and_drops_what_is_gone() -> None:
    known = Progress(tasks=tuple(Task(id=id, state="done") for id in ("own", "A", "gone")))
    found = registered(known, ["B", "A"], without=["gone"])
    assert [(one.id, one.state) for one in found.tasks] == [("B", "pending"), ("A", "done"), ("own", "done")]
    assert registered(found, ["B", "A"]) == found
