"""The order of a plan's tasks, and whether two plans are the same work."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import Invalid
from lastgood.model.run import PlannedTask, WorkPlan
from lastgood.workplan.plan import command_plan, compare, cycle, fingerprint, matches, ordered
from tools.workplans import IDS, plans


def task(id: str, *needs: str, run: str = "true") -> PlannedTask:
    return PlannedTask(id=id, run=run, needs=needs)


graphs = st.lists(
    st.builds(lambda needs: tuple(dict.fromkeys(needs)), st.lists(st.sampled_from(IDS), max_size=3)),
    min_size=1,
    max_size=len(IDS),
).map(lambda all_needs: [task(id, *needs) for id, needs in zip(IDS, all_needs, strict=False)])


@given(graphs)
def test_a_task_comes_as_soon_as_it_is_first_in_the_plan_of_those_that_could_start(
    tasks: list[PlannedTask],
) -> None:
    present = {one.id for one in tasks}
    wanted: list[PlannedTask] = []
    while len(wanted) < len(tasks):
        done = {one.id for one in wanted}
        able = [one for one in tasks if one.id not in done and not (set(one.needs) & present) - done]
        if not able:
            break
        wanted.append(able[0])
    if len(wanted) < len(tasks):
        with pytest.raises(Invalid, match="need each other"):
            ordered(tasks)
    else:
        assert ordered(tasks) == tuple(wanted)


@given(graphs)
def test_tasks_that_need_each_other_are_named_as_a_circle(tasks: list[PlannedTask]) -> None:
    circle = cycle(tasks)
    needs = {one.id: one.needs for one in tasks}
    if circle:
        assert circle[0] == circle[-1]
        assert all(later in needs[earlier] for earlier, later in itertools.pairwise(circle))
    else:
        assert len(ordered(tasks)) == len(tasks)


def test_a_chain_of_ten_thousand_tasks_is_put_in_order() -> None:
    tasks = [task(str(number), str(number + 1)) for number in range(10_000)]
    assert cycle(tasks) == ()
    assert [one.id for one in ordered(tasks)] == [str(number) for number in range(9_999, -1, -1)]
    assert len(cycle([*tasks, task("10000", "0")])) == 10_002


@given(plans(), plans())
def test_two_plans_have_one_fingerprint_just_where_nothing_differs(one: WorkPlan, other: WorkPlan) -> None:
    assert (fingerprint(one) == fingerprint(other)) == compare(one, other).empty
    assert compare(one, one).empty


CHANGES = {
    "sprint": "S9",
    "run": "other",
    "check": "other",
    "irreversible": True,
    "needs": ("T01",),
    "env": {"A": "b"},
    "cwd": "other",
}


@pytest.mark.parametrize("field", CHANGES)
def test_another_piece_of_work_is_named_with_what_changed(field: str) -> None:
    old = WorkPlan(tasks=(task("T01"), task("T02")))
    new = WorkPlan(tasks=(task("T01"), task("T02").replace(**{field: CHANGES[field]})))
    assert compare(old, new).changed == (("T02", (field,)),)
    assert compare(old, new).sentences() == (f"task T02 has another {field}",)
    assert fingerprint(old) != fingerprint(new)


@pytest.mark.parametrize("field", [{"retries": 5}, {"timeout": 9.0}, {"on_failure": "keep"}, {"risky": True}])
def test_how_a_task_is_looked_after_may_change_between_two_starts(field: dict[str, object]) -> None:
    old = WorkPlan(tasks=(task("T01"),), goal="a")
    assert fingerprint(WorkPlan(tasks=(task("T01").replace(**field),), goal="b")) == fingerprint(old)


def test_new_and_gone_and_moved_tasks_are_told() -> None:
    old = WorkPlan(tasks=(task("a"), task("b"), task("c")))
    new = WorkPlan(tasks=(task("c"), task("d"), task("a", run="other").replace(check="yes")))
    assert compare(old, new).sentences() == (
        "task d is new",
        "task b is gone",
        "task a has another run and check",
        "the tasks come in another order",
    )


def test_texts_that_run_into_each_other_are_told_apart() -> None:
    plans = [
        WorkPlan(tasks=(PlannedTask(id="a", run=("x", "y")),)),
        WorkPlan(tasks=(PlannedTask(id="a", run=("xy",)),)),
        WorkPlan(tasks=(PlannedTask(id="a", run="xy"),)),
        WorkPlan(tasks=(PlannedTask(id="a", run="x y"),)),
        WorkPlan(tasks=(PlannedTask(id="a", run="x y", check="x y"),)),
    ]
    assert len({fingerprint(plan) for plan in plans}) == len(plans)


@pytest.mark.parametrize(
    ("pattern", "command", "wanted"),
    [
        ("rm -rf", "cd x && rm -rf y", True),
        ("git push", ("git", "push", "--force"), True),
        ("deploy*prod", "./deploy.sh --to prod", True),
        ("prod*deploy", "./deploy.sh --to prod", False),
        ("*", "anything", True),
        ("a*a", "a", False),
        ("DROP", "drop table", False),
    ],
)
def test_a_pattern_is_found_anywhere_in_a_command(
    pattern: str, command: str | tuple[str, ...], *, wanted: bool
) -> None:
    assert matches(pattern, command) is wanted


def test_one_command_is_a_plan_too() -> None:
    plan = command_plan(["make", "test"])
    assert plan.command
    assert plan.tasks == (PlannedTask(id="command", run=("make", "test")),)
    assert fingerprint(plan) != fingerprint(WorkPlan(tasks=plan.tasks))


@pytest.mark.parametrize("words", [[], [""], ["a", "b\0"], ["\ud800"]])
def test_what_no_program_could_be_given_is_no_command(words: list[str]) -> None:
    with pytest.raises(Invalid):
        command_plan(words)
