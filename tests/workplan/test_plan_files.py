"""Plans in files: YAML and JSON, with the line and column of every slip."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lastgood.errors import Invalid, LastgoodError, NotFound, Unsupported
from lastgood.workplan.files import read_json, read_plan, read_yaml
from lastgood.workplan.form import plan_of
from tools.workplans import documents

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
