"""What a document has to be to count as a plan, alike by the validation and by the published schema."""

from __future__ import annotations

import json
import os
import re
from typing import cast

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.errors import Damaged, Invalid
from lastgood.model.canonical import dumps
from lastgood.model.run import PlannedTask, WorkPlan
from lastgood.workplan.form import TASK_KEYS, checked_plan, plan_of
from lastgood.workplan.plan import decode_plan, encode_plan, ordered
from lastgood.workplan.schema import plan_schema
from workplans import documents, plans

PUBLISHED = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "workplan.schema.json")
SCHEMA = jsonschema.Draft202012Validator(plan_schema())
# What no schema can say.
BEYOND = re.compile(
    "another (task|sprint) is called|there is no task|tasks need each other|has to be a time of more than 0"
)
T1 = {"id": "T01", "run": "true"}


def faults(document: object) -> list[dict[str, str]]:
    try:
        plan_of(document, where="plan")
    except Invalid as error:
        return cast("list[dict[str, str]]", error.details["faults"])
    return []


@settings(max_examples=400)
@given(documents)
def test_the_schema_and_the_validation_agree(document: object) -> None:
    found = [fault for fault in faults(document) if not BEYOND.search(fault["message"])]
    assert SCHEMA.is_valid(document) == (not found), found


def test_the_schema_is_one_and_is_published_as_it_is() -> None:
    jsonschema.Draft202012Validator.check_schema(plan_schema())
    with open(PUBLISHED, encoding="utf-8") as file:
        assert json.load(file) == plan_schema()


@given(plans())
def test_a_plan_survives_being_kept(plan: WorkPlan) -> None:
    assert decode_plan(encode_plan(plan)) == plan


@given(plans())
def test_a_plan_that_a_program_made_is_checked_and_put_in_order(plan: WorkPlan) -> None:
    backwards = plan.replace(tasks=plan.tasks[::-1])
    assert checked_plan(backwards) == backwards.replace(tasks=ordered(backwards.tasks))


@given(st.binary(max_size=20) | st.just(b'{"version":1,"tasks":[{}]}'))
def test_a_record_that_is_no_plan_is_damage(text: bytes) -> None:
    with pytest.raises(Damaged):
        decode_plan(text)


@pytest.mark.parametrize(
    ("document", "key", "says", "hint"),
    [
        ({"tasks": [{**T1, "retrys": 1}]}, "tasks[0].retrys", "no such key", "did you mean retries?"),
        ({"tasks": [{**T1, "colour": 1}]}, "tasks[0].colour", "no such key", "keys here: id, run"),
        ({"sprints": [{"id": "S", "taskz": [T1]}]}, "sprints[0].taskz", "no such key", "mean tasks?"),
        ({"tasks": [T1], "gaol": "x"}, "gaol", "no such key", "did you mean goal?"),
        ({"tasks": [{"id": "a"}]}, "tasks[0]", "'run' is missing", "command that does the work"),
        ({"tasks": [{"id": "a", "run": ""}]}, "tasks[0].run", "no command", "write something"),
        ({"tasks": [{"id": "a", "run": " \n"}]}, "tasks[0].run", "no command", "write something"),
        ({"tasks": [{"id": "a", "run": []}]}, "tasks[0].run", "no command", "name"),
        ({"tasks": [{"id": "a", "run": ["", "x"]}]}, "tasks[0].run", "no command", "name"),
        ({"tasks": [{"id": "a", "run": ["x", 0.5]}]}, "tasks[0].run[1]", "the number 0.5", "in quotes"),
        ({"tasks": [{"id": "a", "run": True}]}, "tasks[0].run", "it is true", ""),
        ({"tasks": [T1, T1]}, "tasks[1].id", "another task is called T01", "see tasks[0].id"),
        ({"tasks": [{**T1, "needs": ["T10"]}]}, "tasks[0].needs[0]", "no task T10", "did you mean T01?"),
        ({"tasks": [{**T1, "needs": ["T01"]}]}, "tasks[0].needs", "T01 needs T01", "take one"),
        ({"tasks": [{**T1, "needs": "T01"}]}, "tasks[0].needs", "a list of ids", ""),
        ({"tasks": []}, "tasks", "has no tasks", "at least one"),
        ({"sprints": []}, "sprints", "has no sprints", "at least one"),
        ({"sprints": [{"id": "S", "tasks": []}]}, "sprints[0].tasks", "has no tasks", "at least one"),
        ({"tasks": [T1], "sprints": []}, "sprints", "has no sprints", ""),
        ({"goal": "x"}, "", "neither tasks nor sprints", "write tasks"),
        ({}, "", "the plan is empty", "a plan has tasks"),
        (None, "", "the plan is empty", "a plan has tasks"),
        ([], "", "it is a list", ""),
        ({"tasks": [None]}, "tasks[0]", "it is empty", ""),
        ({"tasks": [{**T1, "on_failure": "rolback"}]}, "tasks[0].on_failure", "one of", "mean rollback?"),
        ({"tasks": [{**T1, "irreversible": "yes"}]}, "tasks[0].irreversible", "true or false", ""),
        ({"tasks": [{**T1, "timeout": 0}]}, "tasks[0].timeout", "more than 0", ""),
        ({"tasks": [{**T1, "timeout": float("nan")}]}, "tasks[0].timeout", "more than 0", ""),
        ({"tasks": [{**T1, "timeout": "soon"}]}, "tasks[0].timeout", "the text 'soon'", ""),
        ({"tasks": [{**T1, "retries": 2.0}]}, "tasks[0].retries", "whole number", ""),
        ({"tasks": [{**T1, "retries": 10**9999}]}, "tasks[0].retries", "too many digits", ""),
        ({"tasks": [{**T1, "cwd": "../x"}]}, "tasks[0].cwd", "no folder of the workspace", "without"),
        ({"tasks": [{**T1, "cwd": "/etc"}]}, "tasks[0].cwd", "no folder of the workspace", "relative"),
        ({"tasks": [{**T1, "env": {"A=B": "x"}}]}, "tasks[0].env.A=B", "name of a variable", "no '='"),
        ({"tasks": [{**T1, "env": {1: "x"}}]}, "tasks[0].env.1", "name of a variable", ""),
        ({"tasks": [{**T1, "env": {"A": 10**9999}}]}, "tasks[0].env.A", "too many digits", "quotes"),
        ({"tasks": [{**T1, "env": {"LASTGOOD_TASK": "x"}}]}, "tasks[0].env.LASTGOOD_TASK", "runner", "away"),
        ({"tasks": [{**T1, "run": "\ud800"}]}, "tasks[0].run", "is no Unicode text", ""),
        ({"tasks": [{**T1, "run": "x" * 100_001}]}, "tasks[0].run", "100001 characters", ""),
        ({"tasks": [T1], "goal": "\udc80"}, "goal", "is no Unicode text", ""),
        ({"tasks": [{**T1, "id": 1}]}, "tasks[0].id", "the number 1", "write it in quotes"),
        ({"tasks": [{**T1, "id": "../x"}]}, "tasks[0].id", "cannot be an id", "letters"),
        ({"tasks": [{**T1, "\x1b[31m": 1}]}, "tasks[0].\\x1b[31m", "no such key", ""),
    ],
)
def test_a_slip_is_told_with_its_key_and_what_to_write(
    document: object, key: str, says: str, hint: str
) -> None:
    with pytest.raises(Invalid) as raised:
        plan_of(document, where="plan.yaml")
    found = [fault for fault in faults(document) if fault["key"] == key and says in fault["message"]]
    assert found, faults(document)
    assert hint in found[0]["hint"]
    assert raised.value.exit_code == 12


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(Invalid) as raised:
        plan_of({"tasks": [{"id": "a", "runs": "x"}], "goal": 3}, where="plan.yaml")
    assert raised.value.message.splitlines() == [
        "plan.yaml has 3 faults",
        "plan.yaml: goal: has to be a text; it is the number 3 (write it in quotes)",
        "plan.yaml: tasks[0].runs: there is no such key (did you mean run?)",
        f"plan.yaml: tasks[0]: the key 'run' is missing (run: {TASK_KEYS['run'].says})",
    ]
    dumps(raised.value.details)


def test_ten_thousand_faults_are_told_as_some() -> None:
    document = {"tasks": [{"id": f"T{number}", "run": "x", "needs": ["no"]} for number in range(10_000)]}
    unknown = {f"key{number}": 1 for number in range(100_000)}
    for many in (document, unknown):
        with pytest.raises(Invalid, match=r"has 100 faults or more(.|\n)*and 90 more"):
            plan_of(many, where="plan.yaml")


def test_more_tasks_than_a_record_of_progress_can_hold_are_no_plan() -> None:
    document = {"tasks": [{"id": f"T{number}", "run": "x"} for number in range(10_001)]}
    with pytest.raises(Invalid, match="the limit is 10000"):
        plan_of(document, where="plan.yaml")


def test_what_a_plan_says_for_all_tasks_is_laid_below_what_each_says() -> None:
    plan = plan_of(
        {
            "env": {"A": "plan", "B": 2},
            "cwd": "./sub//dir/",
            "risky": ["rm -rf", "git*push"],
            "tasks": [
                {"id": "a", "run": "rm -rf x", "env": {"A": "task"}, "timeout": "1h30m", "needs": ["c", "c"]},
                {"id": "b", "run": ["git", "-C", "x", "push"], "cwd": ".", "risky": False},
                {"id": "c", "run": ["git", "-C", 5, "push"], "cwd": "other"},
            ],
        },
        where="plan",
    )
    b, c, a = plan.tasks
    assert (a.env, a.cwd, a.risky, a.timeout) == ({"A": "task", "B": "2"}, "sub/dir", True, 5400.0)
    assert (b.env, b.cwd, b.risky, b.timeout) == ({"A": "plan", "B": "2"}, None, False, None)
    assert (c.run, c.cwd, c.risky, a.needs) == (("git", "-C", "5", "push"), "other", True, ("c",))


def test_sprints_keep_their_order_and_name_their_tasks() -> None:
    document = {
        "sprints": [
            {"id": "S02", "tasks": [{**T1, "needs": ["T02"]}]},
            {"id": "S01", "tasks": [{"id": "T02", "run": "true"}, {"id": "T03", "run": "true"}]},
        ]
    }
    plan = plan_of(document, where="plan")
    assert plan.sprints == ("S02", "S01")
    assert [(task.id, task.sprint) for task in plan.tasks] == [("T02", "S01"), ("T01", "S02"), ("T03", "S01")]


def test_a_plan_that_a_program_made_wrong_is_refused_as_a_file_would_be() -> None:
    with pytest.raises(Invalid, match=r"the plan: tasks\[0\].cwd"):
        checked_plan(WorkPlan(tasks=(PlannedTask(id="a", run="x", cwd="../y"),)))
    with pytest.raises(Invalid, match="the plan is empty"):
        checked_plan(WorkPlan(tasks=()))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"goal": "\udc80"}, "goal: is no Unicode text"),
        ({"sprints": ("a\nb",)}, r"sprints\[0\].id: 'a\\x0ab' cannot be an id"),
        ({"sprints": ("S1", "S1")}, "another sprint is called S1"),
        ({"sprints": ("S1",), "tasks": (PlannedTask(id="a", run="x", sprint="S2"),)}, "mean S1"),
    ],
)
def test_so_is_what_a_program_called_wrongly(changes: dict[str, object], says: str) -> None:
    plan = WorkPlan(tasks=(PlannedTask(id="a", run="x"),))
    with pytest.raises(Invalid) as raised:
        checked_plan(plan.replace(**changes))
    assert re.search(says, f"{raised.value.message} {raised.value.hint}")
