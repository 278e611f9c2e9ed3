"""What is said of each event, and how lines are drawn over one another."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from lastgood.cli.running.display import Board, output_line, told, told_late
from lastgood.cli.running.live import Region
from lastgood.documents import event_document, record
from lastgood.model.canonical import dumps
from lastgood.model.run import RunEvent
from lastgood.model.session import Task
from lastgood.workspace import Workspace
from lastgood.workspace.running.attempt import LINE_LIMIT, Lines
from tools.command import COMMAND, Command

SESSION = "sess_0123456789abcdef"

CHECKPOINT = "ckpt_0123456789abcdef"

EVENTS = (
    "started",
    "task-started",
    "output",
    "checkpoint",
    "check-started",
    "attempt-failed",
    "rolled-back",
    "task-done",
    "task-failed",
    "task-skipped",
    "sprint-done",
    "noticed",
    "interrupted",
    "finished",
)


def event(type: Any, **fields: Any) -> RunEvent:
    return RunEvent(type=type, at=1_700_000_000_000_000_000, session=SESSION, **fields)


def words(type: Any, **fields: Any) -> list[str]:
    return [text for _, text in told(event(type, **fields), command=False)]


def test_every_event_but_output_and_the_end_is_told_in_words() -> None:
    said = {
        type: words(type, task="T01", attempt=2, reason="because", sprint="S1", checkpoint=CHECKPOINT)
        for type in EVENTS
    }
    assert {type for type, lines in said.items() if not lines} == {"output", "checkpoint", "finished"}


def test_names_and_reasons_with_control_characters_are_shown_escaped() -> None:
    shown = words("task-skipped", task="a\x1b[2Jb", reason="no\nway\x07")
    assert shown == ["a\\x1b[2Jb: skipped: no\\x0away\\x07"]
    assert words("rolled-back", task="T", paths=(b"a\xff\n.py",))[1] == "    a\\xff\\x0a.py"


def test_only_the_first_paths_of_many_are_shown() -> None:
    shown = words("rolled-back", task="T", paths=tuple(b"f%d" % number for number in range(12)))
    assert len(shown) == 12
    assert shown[-1] == "    and 2 more"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain", "plain"),
        ("10%\r20%\r30%", "30%"),
        ("windows\r", "windows"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("up\x1b[A and gone\x1b[2K", "up\\x1b[A and gone\\x1b[2K"),
        ("a\tb", "a       b"),
        ("bell\x07", "bell\\x07"),
        ("\udcff", "\\xff"),
        ("right to left \u202e", "right to left \\u202e"),
        ("", ""),
    ],
)
def test_a_line_of_output_is_shown_as_a_terminal_would_leave_it_and_escaped(line: str, shown: str) -> None:
    assert output_line(line) == shown


def test_a_line_of_a_megabyte_is_cut_before_it_is_looked_at() -> None:
    assert len(output_line("x" * (1 << 20), limit=80)) == 320


def test_a_document_has_the_fields_that_are_set() -> None:
    document = event_document(event("output", task="T01", line="caf\udce9"))
    assert json.loads(dumps(document)) == {
        "schema": "lastgood.run/1",
        "event": "output",
        "at": "2023-11-14T22:13:20.000Z",
        "session": SESSION,
        "task": "T01",
        "line": "caf\ufffd",
    }
    back = event_document(event("rolled-back", paths=(b"a", b"\xff"), checkpoint=CHECKPOINT, good=False))
    assert back["paths"] == ["a", {"bytes": "/w=="}]
    assert back["good"] is False


def test_events_and_reports_answer_every_field_of_their_documents(workspace: Workspace) -> None:
    seen: list[RunEvent] = []
    plan = {"goal": "g", "tasks": [{"id": "A", "run": "echo a; exit 1", "on_failure": "rollback"}]}
    report = workspace.run(plan, observer=seen.append)
    for one in seen:
        fields = set(event_document(one)) - {"schema", "event"}
        assert [field for field in fields if not hasattr(one, field)] == []
    assert [field for field in record(report) if not hasattr(report, field)] == []
    assert report.goal == "g"


def board(*events: RunEvent) -> Board:
    made = Board(lambda: 0.0)
    for one in events:
        made.take(one)
    return made


TASKS = (Task(id="T01"), Task(id="T02"), Task(id="T03", state="done"))


def test_a_board_knows_how_each_task_stands() -> None:
    seen = board(
        event("started", tasks=TASKS),
        event("task-started", task="T01", attempt=2),
        event("output", task="T01", line="hello"),
        event("checkpoint", checkpoint=CHECKPOINT),
    )
    assert (seen.task, seen.attempt, seen.line, seen.checkpoints) == ("T01", 2, "hello", 1)
    assert (seen.pending(), seen.count("done"), seen.count("running")) == (["T02"], 1, 1)
    seen.take(event("task-failed", task="T01"))
    assert (seen.task, seen.count("failed")) == (None, 1)


def test_the_output_of_an_attempt_before_is_forgotten() -> None:
    seen = board(event("task-started", task="T01"), event("output", line="old"))
    seen.take(event("task-started", task="T01", attempt=2))
    assert (seen.line, list(seen.tail)) == ("", [])


def test_a_checkpoint_while_a_task_runs_is_told_with_the_next_event_unless_it_is_for_the_check() -> None:
    made = event("checkpoint", checkpoint=CHECKPOINT, kind="auto", task="T01")
    seen = board(event("task-started", task="T01"), made)
    assert list(told_late(seen, command=False)) == []
    seen.take(event("output", line="on"))
    assert [text for _, text in told_late(seen, command=False)] == ["T01: checkpoint ckpt_01234567 (auto)"]
    seen.take(made)
    seen.take(event("check-started", task="T01", checkpoint=CHECKPOINT))
    assert list(told_late(seen, command=False)) == []


class Glass:
    """A terminal that a region is drawn on."""

    def __init__(self, columns: int, rows: int) -> None:
        self.region = Region(colour=True)
        self.screen = pyte.HistoryScreen(columns, rows, history=1000)
        self._stream = pyte.ByteStream(self.screen)

    def draw(self, lines: Sequence[str], above: Sequence[str] = ()) -> None:
        texts = [Text(line, style="bold") for line in lines]
        drawn = self.region.drawn(texts, above=above, columns=self.screen.columns)
        self._stream.feed(drawn.replace(b"\n", b"\r\n"))

    @property
    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display if line.strip()]


def test_what_is_drawn_replaces_what_was_drawn_before() -> None:
    glass = Glass(40, 10)
    glass.draw(["one", "two", "three and more"])
    glass.draw(["uno", "dos"])
    assert glass.shown == ["uno", "dos"]
    glass.draw([])
    assert glass.shown == []
    assert (glass.screen.cursor.x, glass.screen.cursor.y) == (0, 0)


def test_what_stays_scrolls_away_above_what_is_drawn() -> None:
    glass = Glass(40, 5)
    for number in range(20):
        glass.draw([f"running {number}", "footer"], above=[f"done {number}"])
    assert glass.shown == ["done 18", "done 19", "running 19", "footer"]
    over = ["".join(row[x].data for x in range(40)).rstrip() for row in glass.screen.history.top]
    assert over == [f"done {number}" for number in range(18)]


@pytest.mark.parametrize("line", ["x" * 200, "漢字" * 100, "a\u0301" * 100, "👩‍👩‍👧" * 50])
def test_a_line_that_is_too_long_is_cut_and_never_wraps(line: str) -> None:
    glass = Glass(40, 10)
    glass.draw([line, "footer"])
    glass.draw([line, "footer"])
    assert len(glass.shown) == 2
    assert glass.shown[1] == "footer"


def test_a_line_that_stays_may_wrap() -> None:
    glass = Glass(40, 10)
    glass.draw(["running"], above=["y" * 60])
    glass.draw(["running"], above=["next"])
    assert glass.shown == ["y" * 40, "y" * 20, "next", "running"]


def test_after_the_shell_wrote_below_it_is_drawn_anew() -> None:
    glass = Glass(40, 10)
    glass.draw(["running"])
    glass.region.forget()
    glass.draw(["running on"])
    assert glass.shown == ["running", "running on"]


def test_without_colour_nothing_is_styled() -> None:
    drawn = Region(colour=False).drawn([Text("one", style="bold red")], above=[], columns=40)
    assert b"m" not in drawn
    assert b"m" in Region(colour=True).drawn([Text("one", style="bold red")], above=[], columns=40)


def test_a_terminal_that_became_narrower_has_broken_lines_in_two() -> None:
    region = Region(colour=False)
    region.drawn([Text("x" * 60), Text("short")], above=[], columns=80)
    assert region.drawn([Text("x")], above=[], columns=40).count(b"\x1b[A") == 3


# What other verbs say of a run that did not finish: how its plan goes on (P7, P8).


# Writes its number down, then becomes another program of the same number.
NUMBERED = "import os, sys; open('pid', 'w').write(str(os.getpid())); os.execv(sys.argv[1], sys.argv[1:])"

KILLS = "import os, signal, time; os.kill(int(open('pid').read()), signal.SIGKILL); time.sleep(30)"


def test_status_and_recover_name_the_plan_that_goes_on(
    project: Path, store: Path, plan_file: Callable[..., str]
) -> None:
    """P7, P8."""
    lastgood = Command(project, store)
    plan = plan_file({"id": "A", "run": "exit 1"})
    lastgood("run", plan, expect=3)
    assert f"go on with its plan: lastgood run {plan}" in lastgood("status").out
    assert f"is active again; go on with its plan: lastgood run {plan}" in lastgood("recover").out
    assert "going on with session" in lastgood("run", plan, expect=3).out


def test_a_command_whose_runner_was_killed_is_named_too(project: Path, store: Path) -> None:
    """P8."""
    lastgood = Command(project, store)
    words = [sys.executable, "-c", NUMBERED, sys.executable, COMMAND, "run", "--", "python3", "-c", KILLS]
    subprocess.run(words, cwd=project, env=lastgood.environment, check=False, capture_output=True)
    assert "run the command again: lastgood run -- python3 -c 'import os" in lastgood("status").out


# What a program reads of a run: a line for each thing that happens, none of them longer than need be.


def test_a_line_says_only_of_those_tasks_how_they_stand_that_stand_otherwise(
    lastgood: Command, plan_file: Callable[..., str]
) -> None:
    tasks = [{"id": f"T{number}", "run": "true"} for number in range(4)]
    plan = plan_file(
        *tasks, {"id": "bad", "run": "false", "on_failure": "keep"}, {"id": "not", "run": "true"}
    )
    lines = [json.loads(line) for line in lastgood("run", plan, "--json", expect=3).out.splitlines()]
    assert lines[0]["event"] == "started"
    assert [task["id"] for task in lines[0]["tasks"]] == ["T0", "T1", "T2", "T3", "bad", "not"]
    standing: dict[str, Any] = {}
    for line in lines:
        changed = line.get("tasks", [])
        assert len(changed) <= 1 or line is lines[0]
        assert all(standing.get(task["id"]) != task for task in changed)
        standing |= {task["id"]: task for task in changed}
    assert list(standing.values()) == lines[-1]["report"]["tasks"]


# Lines out of output that comes in parts.


ALL = 10**9


def told_of(parts: list[bytes]) -> list[str]:
    lines = Lines()
    return [line for part in parts for line in lines.of(part, most=ALL)[0]] + lines.rest()


@given(st.lists(st.binary(max_size=40)))
def test_lines_are_the_same_however_the_output_is_cut_into_parts(parts: list[bytes]) -> None:
    told = told_of(parts)
    whole = b"".join(parts).replace(b"\r", b"\n").split(b"\n")
    assert told == [line.decode("utf-8", "replace") for line in whole if line]


def test_a_line_is_told_when_it_ends() -> None:
    lines = Lines()
    assert lines.of(b"one", most=ALL) == ([], 0)
    assert lines.of(b" two\nthr", most=ALL) == (["one two"], 0)
    assert lines.of(b"ee", most=ALL) == ([], 0)
    assert lines.rest() == ["three"]
    assert lines.rest() == []


def test_a_progress_bar_is_told_as_it_moves() -> None:
    assert Lines().of(b"10%\r20%\r\n", most=ALL) == (["10%", "20%"], 0)


def test_a_line_without_end_takes_bounded_memory_and_is_told_in_pieces() -> None:
    told = told_of([b"x" * 65536] * 100)
    assert "".join(told) == "x" * 6_553_600
    assert max(len(line) for line in told) == LINE_LIMIT


@given(
    st.lists(st.binary(max_size=40).map(lambda part: part.replace(b"x", b"\n")), max_size=5),
    st.integers(1, 5),
)
def test_of_a_flood_the_first_lines_and_the_last_are_told_and_the_others_counted(
    parts: list[bytes], most: int
) -> None:
    lines, every = Lines(), Lines()
    for part in parts:
        told, untold = lines.of(part, most=most)
        whole, _ = every.of(part, most=ALL)
        assert len(told) + untold == len(whole)
        assert len(told) == min(len(whole), most)
        assert told == whole if not untold else told == [*whole[: most - 1], whole[-1]]
    assert lines.rest() == every.rest()


def test_of_a_flood_of_long_lines_no_more_is_told_either() -> None:
    for part in (b"x" * 1_000_000, (b"y" * 10_000 + b"\n") * 100, b"\n" * 1_000_000 + b"z\n"):
        told, untold = Lines().of(part, most=10)
        assert len(told) <= 10
        assert bool(untold) == (b"z" not in part)
        assert max(map(len, told)) <= LINE_LIMIT
