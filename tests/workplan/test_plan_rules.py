"""What a plan may say, how its faults are told, and the order of its tasks."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import cast

import jsonschema
import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lastgood.errors import Damaged, Invalid, LastgoodError, NotFound, Unsupported
from lastgood.model.canonical import dumps
from lastgood.model.run import PlannedTask, WorkPlan
from lastgood.workplan.files import read_json, read_plan, read_yaml
from lastgood.workplan.form import TASK_KEYS, checked_plan, plan_of
from lastgood.workplan.plan import PLAN as FORM
from lastgood.workplan.plan import (
    command_plan,
    compare,
    cycle,
    fingerprint,
    matches,
    ordered,
)
from lastgood.workplan.schema import plan_schema
from tools.workplans import IDS, documents, plans


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
    assert compare(old, new).sentences() == (f"task T02: its `{field}` was edited",)
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
        "task a: its `run` and `check` were edited",
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


# What a document has to be to count as a plan, alike by the validation and by the published schema.


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
    assert FORM.decode(FORM.encode(plan)) == plan


@given(plans())
def test_a_plan_that_a_program_made_is_checked_and_put_in_order(plan: WorkPlan) -> None:
    backwards = plan.replace(tasks=plan.tasks[::-1])
    assert checked_plan(backwards) == backwards.replace(tasks=ordered(backwards.tasks))


@given(st.binary(max_size=20) | st.just(b'{"version":1,"tasks":[{}]}'))
def test_a_record_that_is_no_plan_is_damage(text: bytes) -> None:
    with pytest.raises(Damaged):
        FORM.decode(text)


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


# Plans in files: YAML and JSON, with the line and column of every slip.


PLAN = """\
goal: migrate the billing service
sprints:
  - id: S01
    tasks:
      - id: T01
        run: claude -p "add the new schema"
        check: pytest -q tests/schema        # passes: the task is done and the checkpoint good
        retries: 2
        on_failure: rollback                 # rollback | keep | stop
      - id: T02
        run: ./deploy.sh
        irreversible: true
        needs: [T01]
"""


def written(folder: Path, content: str | bytes, name: str = "plan.yaml") -> str:
    place = folder / name
    place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(place)


def fault(folder: Path, content: str | bytes, name: str = "plan.yaml") -> tuple[object, object, str]:
    path = written(folder, content, name)
    with pytest.raises(Invalid) as raised:
        read_plan(path)
    details = raised.value.details
    if details["line"] is not None:
        assert f"{path}:{details['line']}:{details['column']}: " in raised.value.message
    return details["line"], details["column"], str(details["message"])


def test_the_plan_of_the_interface_is_read(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, PLAN))
    first, second = plan.tasks
    assert plan.goal == "migrate the billing service"
    assert (first.id, first.sprint, first.retries, first.on_failure) == ("T01", "S01", 2, "rollback")
    assert first.run == 'claude -p "add the new schema"'
    assert first.check == "pytest -q tests/schema"
    assert (second.id, second.irreversible, second.needs) == ("T02", True, ("T01",))


def test_the_source_is_the_real_path(tmp_path: Path) -> None:
    path = written(tmp_path, PLAN)
    (tmp_path / "link.yaml").symlink_to("plan.yaml")
    assert read_plan(str(tmp_path / "link.yaml")).source == os.path.realpath(path)


def test_json_gives_the_same_plan(tmp_path: Path) -> None:
    content = json.dumps(yaml.safe_load(PLAN), indent=1)
    of_yaml = read_plan(written(tmp_path, PLAN))
    for name in ("plan.json", "plan", "plan.txt", "plan.yaml"):
        assert read_plan(written(tmp_path, content, name)).tasks == of_yaml.tasks


@pytest.mark.parametrize(
    ("content", "line", "column", "says"),
    [
        (PLAN.replace("retries", "retrys"), 8, 9, "no such key"),
        (PLAN.replace("[T01]", "[T07]"), 13, 17, "no task T07"),
        (PLAN.replace("id: T02", "id: T01"), 10, 9, "another task is called T01"),
        (PLAN.replace("run: ./deploy.sh", "cwd: x"), 10, 9, "'run' is missing"),
        (PLAN.replace("run: ./deploy.sh", "run:"), 11, 9, "it is empty"),
        (PLAN + "        run: again\n", 14, 9, "is here twice"),
        (PLAN + "goal: again\n", 14, 1, "is here twice"),
        (PLAN.replace("needs: [T01]", "needs: [T01"), 14, 1, "is not YAML"),
        (PLAN.replace("    tasks:\n", "\ttasks:\n"), 4, 1, "is not YAML"),
        (PLAN + "---\ntasks: []\n", 14, 1, "a second document"),
        (PLAN.replace("true", "yes"), 12, 9, "it is the text 'yes'"),
        (PLAN.replace("id: T01", "id: 1").replace("[T01]", "[]"), 5, 9, "it is the number 1"),
        (PLAN.replace("retries: 2", "retries: !!int 2"), 8, 18, "has the tag"),
        (PLAN.replace("retries: 2", "retries: !!python/name:os.system"), 8, 18, "has the tag"),
        (PLAN.replace("needs: [T01]", "needs: &n [*n]"), 13, 20, "there is no '&n'"),
        (PLAN.replace("needs: [T01]", "? [T01]\n        : x"), 13, 11, "a key has to be a text"),
        (PLAN.replace("needs: [T01]", "<<: {a: b}"), 13, 9, "no such key"),
        ("", None, None, "the plan is empty"),
        ("# nothing\n", None, None, "the plan is empty"),
        ("- a\n- b\n", 1, 1, "it is a list"),
        ("just words\n", 1, 1, "the text 'just words'"),
        ("tasks: []\n", 1, 1, "has no tasks"),
        ("[" * 100_000, 1, 33, "nested more than 32"),
        ("tasks:\n  " + "- " * 5_000, 2, 65, "nested more than 32"),
        ("goal: \x07\n", 1, 7, "is not YAML"),
    ],
)
def test_a_slip_in_yaml_is_told_with_line_and_column(
    tmp_path: Path, content: str, line: int | None, column: int | None, says: str
) -> None:
    found = fault(tmp_path, content)
    assert found[:2] == (line, column)
    assert says in found[2]


@pytest.mark.parametrize(
    ("content", "line", "column", "says"),
    [
        ('{"tasks": [\n  {"id": "a", "run": "x", "cmd": 1}]}', 2, 27, "no such key"),
        ('{"tasks": [\n  {"id": "a" "run": "x"}]}', 2, 14, "'}' or ','"),
        ('{"tasks": [\n  {"id": "a",}]}', 2, 14, "a key in double quotes"),
        ('{"tasks": [1,\n 2', 2, 3, "']' or ','"),
        ('{"tasks": [], "tasks": []}', 1, 15, "is here twice"),
        ('{"tasks": [{"id": 1, "run": "x"}]}', 1, 13, "it is the number 1"),
        ('{"tasks": "a\nb"}', 1, 13, "no text of JSON"),
        ('{"tasks": "\\q"}', 1, 12, "no text of JSON"),
        ('{"tasks": tru}', 1, 11, "a value is missing"),
        ('{"tasks": 01}', 1, 12, "'}' or ','"),
        ('{"tasks": ' + "9" * 5_000 + "}", 1, 11, "a number without end"),
        ("{} {}", 1, 4, "behind the end"),
        ("", 1, 1, "a value is missing"),
        ("[" * 100_000, 1, 34, "nested more than 32"),
        ("null", 1, 1, "the plan is empty"),
    ],
)
def test_a_slip_in_json_is_told_with_line_and_column(
    tmp_path: Path, content: str, line: int, column: int, says: str
) -> None:
    found = fault(tmp_path, content, "plan.json")
    assert found[:2] == (line, column)
    assert says in found[2]


def test_a_plain_word_means_what_it_means_in_json_and_else_is_text() -> None:
    words = "[yes, NO, on, 0755, 1:30, 2026-01-01, 0x1F, 1_000, .5, .inf, 12, -3.5, 1e3, true, null, ~, '7']"
    value, _ = read_yaml(words, where="plan")
    assert value == [
        *("yes", "NO", "on", "0755", "1:30", "2026-01-01", "0x1F", "1_000", ".5", ".inf"),
        *(12, -3.5, 1000.0, True, None, None, "7"),
    ]


def test_an_alias_repeats_what_was_written_before(tmp_path: Path) -> None:
    content = "tasks:\n- {id: a, run: x, env: &e {A: b}}\n- {id: b, run: x, env: *e}\n"
    assert [task.env for task in read_plan(written(tmp_path, content)).tasks] == [{"A": "b"}, {"A": "b"}]


def test_aliases_do_not_swell(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "more in it than in any plan" in fault(tmp_path, "\n".join(lines))[2]


@settings(max_examples=200)
@given(documents)
def test_every_document_is_the_same_in_python_in_json_and_in_yaml(document: object) -> None:
    def outcome(value: object) -> object:
        try:
            return plan_of(value, where="plan")
        except Invalid as error:
            return [{**one, "line": 0, "column": 0} for one in error.details["faults"]]  # type: ignore[attr-defined]

    text = json.dumps(document, indent=1)
    assert read_json(text, where="plan")[0] == document
    assume("\\ud" not in text)  # YAML has no pairs of escapes
    assert outcome(read_json(text, where="plan")[0]) == outcome(document)
    for quick in (True, False):
        assert read_yaml(text, where="plan", quick=quick)[0] == document


@settings(max_examples=300)
@given(st.text(alphabet="{}[]\",:&*!?-#|>% \n\t\0\\0aé~<ud8'@`", max_size=40) | st.text(max_size=30))
def test_no_text_brings_a_reader_down(text: str) -> None:
    for read in (read_json, read_yaml, partial(read_yaml, quick=False)):
        try:
            plan_of(read(text, where="plan")[0], where="plan")
        except Invalid as error:
            assert error.message.startswith("plan")


@pytest.mark.parametrize("content", ["%YAML 1." + "9" * 5_000 + "\n---\na", '"\\U99999999"', '"\\ud800"'])
@pytest.mark.parametrize("quick", [True, False])
def test_numbers_that_the_yaml_reader_trusts_are_told(content: str, *, quick: bool) -> None:
    with pytest.raises(Invalid):
        plan_of(read_yaml(content, where="plan", quick=quick)[0], where="plan")


def test_ten_thousand_tasks_are_read(tmp_path: Path) -> None:
    content = "tasks:\n" + "".join(f"- {{id: T{n}, run: 'x', needs: [T{n - 1}]}}\n" for n in range(1, 10_000))
    assert len(read_plan(written(tmp_path, content + "- {id: T0, run: x}\n")).tasks) == 10_000


def test_no_file_is_not_found(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path / "none" / "plan.yaml"):
        with pytest.raises(NotFound, match="there is no plan"):
            read_plan(str(path))


def test_what_is_no_file_of_a_plan_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.yaml").write_bytes(b" " * ((1 << 20) + 1))
    (tmp_path / "loop").symlink_to("loop")
    for name in (".", "pipe", "large.yaml", "loop", "nul\0"):
        with pytest.raises(Invalid):
            read_plan(str(tmp_path / name))
    with pytest.raises(Invalid):
        read_plan("/dev/zero")


def test_a_file_that_is_no_text_is_told_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, b"goal: a\ntasks: \xff\n")
    with pytest.raises(Invalid, match=r"plan\.yaml:2: is no UTF-8"):
        read_plan(path)
    assert read_plan(written(tmp_path, b"\xef\xbb\xbf" + PLAN.encode())).goal


def test_without_pyyaml_json_is_read_and_yaml_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(Unsupported, match="PyYAML is not installed"):
        read_plan(written(tmp_path, PLAN))
    assert read_plan(written(tmp_path, '{"tasks": [{"id": "a", "run": "x"}]}', "plan.json")).tasks


def test_a_hostile_name_is_told_without_control_characters(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(str(tmp_path)), b"\x1b[31m\xff.yaml")
    with open(path, "wb") as file:
        file.write(b"tasks: 1")
    with pytest.raises(LastgoodError) as raised:
        read_plan(os.fsdecode(path))
    assert "\\x1b[31m\\xff.yaml:1:1" in raised.value.message
