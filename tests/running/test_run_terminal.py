"""A run as a person sees it: the live display, and the questions that are asked (rule P7)."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.command import COMMAND, ROOT, Command
from tools.terminal import Terminal

_MOVES = b"\x1b[A"
_DRAWN = b"\x1b[?7l"
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.fixture
def terminal(lastgood: Command) -> Callable[..., Terminal]:
    """Return a call that runs a program (the command, if not told otherwise) on a terminal."""

    def start(
        *words: str,
        columns: int = 80,
        rows: int = 24,
        env: dict[str, str] | None = None,
        program: tuple[str, ...] = (sys.executable, COMMAND),
    ) -> Terminal:
        return Terminal(
            [*program, *words],
            cwd=lastgood.project,
            environment=lastgood.environment | (env or {}),
            columns=columns,
            rows=rows,
        )

    return start


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return a file for which tasks wait, and which is not there."""
    return tmp_path / "gate"


def task(id: str, run: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "run": run, **fields}


def waits(gate: Path, says: str = "waiting") -> str:
    return f"echo {says}; until [ -e {gate} ]; do sleep 0.02; done"


def test_what_is_over_scrolls_away_and_what_goes_on_stays_in_sight(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], gate: Path
) -> None:
    tasks = task("A", "true"), task("B", waits(gate, "last line")), task("C", "true"), task("D", "true")
    with terminal("run", plan_file(*tasks)) as seen:
        seen.until("│ last line")
        started, done, now, line, *pending, summary = seen.shown
        assert started.startswith("started session sess_")
        assert done.startswith("A: done in ")
        assert re.fullmatch(r"▸ B  \d+s", now)
        assert (line, pending) == ("  │ last line", ["  C", "  D"])
        assert re.fullmatch(r"━{5}─{15}  1/4 done · \d+s · 2 checkpoints", summary)
        gate.touch()
        assert seen.end() == 0
        said = [line.partition(" in ")[0] for line in seen.shown]
        assert said[1:] == ["A: done", "B: done", "C: done", "D: done", "done: 4 tasks"]


def test_a_long_name_leaves_room_for_attempt_and_time(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], gate: Path
) -> None:
    with terminal("run", plan_file(task("A" * 60, waits(gate))), columns=40) as seen:
        seen.until("│ waiting")
        assert re.fullmatch(r"▸ A{30,}…  \d+s", seen.shown[-3])
        gate.touch()
        assert seen.end() == 0


def test_the_sprint_is_in_sight(terminal: Callable[..., Terminal], tmp_path: Path, gate: Path) -> None:
    plan = tmp_path / "sprints.json"
    plan.write_text(json.dumps({"sprints": [{"id": "S01", "tasks": [task("A", waits(gate))]}]}))
    with terminal("run", str(plan)) as seen:
        seen.until("S01")
        assert seen.shown[-1].endswith(" · S01")
        gate.touch()
        assert seen.end() == 0
        assert any(line.startswith("sprint S01: done, ckpt_") for line in seen.shown)


def test_a_failed_attempt_shows_the_end_of_what_it_printed(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], gate: Path
) -> None:
    fails = f"seq 30; test $LASTGOOD_ATTEMPT = 2 || exit 1; {waits(gate)}"
    with terminal("run", plan_file(task("A", fails, retries=1))) as seen:
        seen.until("│ waiting")
        assert any(line.startswith("▸ A  attempt 2") for line in seen.shown)
        gate.touch()
        assert seen.end() == 0
        printed = [line for line in seen.everything if line.startswith("  | ")]
        assert printed == [f"  | {number}" for number in range(21, 31)]
        assert any(line.startswith("A: attempt 1 failed after ") for line in seen.everything)


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (80, 24), (200, 50), (20, 4), (8, 2)])
def test_it_fits_every_terminal_however_many_tasks_there_are(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], gate: Path, columns: int, rows: int
) -> None:
    tasks = [task("A" * 100, "true"), task("B", waits(gate, "漢字" * 200))]
    tasks += [task(f"task-{number:03}", "false") for number in range(200)]
    with terminal("run", plan_file(*tasks), columns=columns, rows=rows) as seen:
        seen.until("1/")
        summary = seen.shown[-1]
        if rows >= 10:
            seen.until("│ 漢字")
            assert seen.shown[-2].startswith("  and ")
            assert "1/202 done" in summary
        lines = len(seen.shown)
        gate.touch()
        assert lines <= rows
        assert seen.end() == 3


def test_a_window_that_changes_its_size_is_drawn_anew(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], gate: Path
) -> None:
    tasks = task("A", f"{waits(gate, 'x' * 70)}"), task("B", "true")
    with terminal("run", plan_file(*tasks)) as seen:
        seen.until("x" * 70)
        seen.resize(60, 12)
        seen.until(lambda: any(line.endswith("x…") and len(line) == 59 for line in seen.shown))
        seen.resize(120, 40)
        seen.until("x" * 70)
        gate.touch()
        assert seen.end() == 0
        assert [line.partition(" in ")[0] for line in seen.shown[-3:]] == [
            "A: done",
            "B: done",
            "done: 2 tasks",
        ]


def test_it_is_drawn_at_most_ten_times_a_second(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str]
) -> None:
    began = time.monotonic()
    run = "for i in $(seq 900); do echo $i; done; sleep 1"
    with terminal("run", plan_file(task("A", run))) as seen:
        assert seen.end() == 0
        assert seen.written.count(_DRAWN) <= 10 * (time.monotonic() - began) + 2


def test_nothing_that_a_task_prints_reaches_the_terminal_as_it_is(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], gate: Path
) -> None:
    hostile = "printf '\\033[2J\\033]0;owned\\007\\033[31mred\\302\\233A\\342\\200\\256\\n'"
    with terminal(
        "run", plan_file(task("A", f"{hostile}; {waits(gate, '')}"), task("B", "head -c 100000 /dev/urandom"))
    ) as seen:
        seen.until("│ \\x1b[2J\\x1b]0;owned\\x07red\\x9bA\\u202e")
        gate.touch()
        assert seen.end() == 0
        assert b"\x1b]" not in seen.written
        assert b"\x1b[2J" not in seen.written


def test_a_killed_runner_leaves_a_terminal_that_needs_no_mending(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], gate: Path
) -> None:
    with terminal("run", plan_file(task("A", waits(gate)))) as seen:
        seen.until("│ waiting")
        os.kill(seen.pid, signal.SIGKILL)
        assert seen.end() == -signal.SIGKILL
        assert b"\x1b[?25l" not in seen.written
        assert seen.written.count(b"\x1b[?7l") == seen.written.count(b"\x1b[?7h")


def test_no_colour_is_shown_where_none_is_wanted(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str]
) -> None:
    plan = plan_file(task("A", "true"), task("B", "false"))
    with terminal("run", plan) as seen:
        seen.end()
        assert _COLOUR.search(seen.written)
    with terminal("run", plan, "--fresh", env={"NO_COLOR": "1"}) as seen:
        assert seen.end() == 3
        assert not _COLOUR.search(seen.written)
        assert _DRAWN in seen.written


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_a_terminal_that_cannot_do_more_gets_plain_lines(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], term: str
) -> None:
    with terminal("run", plan_file(task("A", "echo hello")), env={"TERM": term, "NO_COLOR": "1"}) as seen:
        assert seen.end() == 0
        assert b"\x1b" not in seen.written
        assert "  | hello" in seen.shown


def test_without_rich_there_are_plain_lines(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str]
) -> None:
    start = "import sys; sys.modules['rich'] = None; from lastgood.cli.main import run; run()"
    path = {"PYTHONPATH": os.path.join(ROOT, "src")}
    program = (sys.executable, "-c", start)
    with terminal("run", plan_file(task("A", "echo hello")), program=program, env=path) as seen:
        assert seen.end() == 0
        assert _MOVES not in seen.written
        assert "  | hello" in seen.shown


def test_a_fault_in_drawing_stops_nothing_and_is_told(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], lastgood: Command
) -> None:
    start = "from rich.text import Text; del Text.truncate; from lastgood.cli.main import run; run()"
    path = {"PYTHONPATH": os.path.join(ROOT, "src")}
    plan = plan_file(task("A", "sleep 0.5"), task("B", "echo b > b"))
    with terminal("run", plan, program=(sys.executable, "-c", start), env=path) as seen:
        assert seen.end() == 1
        assert any(line.startswith("lastgood: internal fault: AttributeError at") for line in seen.shown)
        assert any(line.startswith("B: done in ") for line in seen.shown)
    assert os.listdir(lastgood.project) == ["b"]
    assert lastgood("status", "--json").json["state"] == "idle"


def test_in_the_background_no_cursor_is_moved(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str]
) -> None:
    plan = plan_file(task("A", "echo hello; sleep 0.5"))
    line = f"{sys.executable} {COMMAND} run {plan} & wait"
    with terminal(program=("bash", "-m", "-c", line)) as seen:
        assert seen.end() == 0
        assert _MOVES not in seen.written
        assert any(line.startswith("A: done in ") for line in seen.shown)


def piped(*words: str) -> tuple[str, ...]:
    """Return the words of a shell that runs the command on a terminal, but for its standard input."""
    return ("bash", "-c", ": | exec " + shlex.join([sys.executable, COMMAND, *words]))


def test_one_command_without_the_terminal_has_its_output_scroll_by(
    terminal: Callable[..., Terminal], gate: Path
) -> None:
    run = f"echo first; {waits(gate)}; exit 5"
    with terminal(program=piped("run", "--", "sh", "-c", run)) as seen:
        seen.until(lambda: "waiting" in seen.shown)
        before, first, second, below = seen.shown
        assert before.startswith("saved first: ckpt_")
        assert (first, second) == ("first", "waiting")
        assert re.fullmatch(r"\d+s · 1 checkpoint · sh -c echo first; .*", below)
        gate.touch()
        assert seen.end() == 5
        assert seen.shown[3].startswith("attempt 1 failed after ")
        assert seen.shown[4].startswith("failed in ")


def test_what_came_too_fast_to_be_shown_can_be_looked_up(terminal: Callable[..., Terminal]) -> None:
    with terminal(program=piped("run", "--", "sh", "-c", "seq 20000"), columns=300) as seen:
        assert seen.end() == 0
        (notice,) = [line for line in seen.everything if "too fast" in line]
        with open(notice.split()[-1], encoding="utf-8") as file:
            assert len(file.readlines()) == 20_000


# Questions


@pytest.fixture
def unfinished(lastgood: Command, plan_file: Callable[..., str], gate: Path) -> str:
    """Return a plan of which a run did not finish: A is done, B failed."""
    plan = plan_file(task("A", f"echo a >> {gate}.a"), task("B", f"test -e {gate}"), task("C", "true"))
    lastgood("run", plan, expect=3)
    gate.touch()
    return plan


@pytest.fixture
def other(tmp_path: Path, unfinished: str) -> str:
    """Return another plan."""
    assert unfinished
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"tasks": [task("X", "true")]}))
    return str(path)


ASKED = "What now? [s/f/r/N]"


def ends(lastgood: Command) -> list[tuple[str, str | None]]:
    """Return how the sessions stand, newest first."""
    told = lastgood("session", "list", "--json").json["sessions"]
    return [(one["state"], one["ended_by"]) for one in told]


def test_a_run_that_did_not_finish_goes_on_unasked(
    terminal: Callable[..., Terminal], unfinished: str, gate: Path
) -> None:
    """P8b."""
    with terminal("run", unfinished) as seen:
        assert seen.end() == 0
        assert any(line.startswith("going on with session sess_") for line in seen.shown)
    with open(f"{gate}.a", encoding="utf-8") as file:
        assert file.read() == "a\n"


def test_beside_the_run_of_another_plan_a_person_may_start(
    terminal: Callable[..., Terminal], other: str, unfinished: str, lastgood: Command
) -> None:
    """P8b: the older one stays, to be gone on with."""
    with terminal("run", other, columns=400) as seen:
        seen.until(ASKED)
        assert any(f"go on with its plan: lastgood run {unfinished}" in line for line in seen.shown)
        seen.type("s\n")
        assert seen.end() == 0
        assert any(line.startswith("started session sess_") for line in seen.shown)
    assert ends(lastgood) == [("ended", "finished"), ("incomplete", "error")]
    lastgood("run", unfinished)


def test_a_person_looks_at_what_did_not_finish_and_is_asked_again(
    terminal: Callable[..., Terminal], other: str
) -> None:
    """P8b: a slip of the finger decides nothing."""
    with terminal("run", other) as seen:
        seen.until(ASKED)
        assert seen.shown[-4:] == [
            "  s: start beside it",
            "  f: end it, and start fresh",
            "  r: see where it stood",
            ASKED,
        ]
        seen.type("x\n")
        seen.until("please answer s, f or r, or Enter to quit")
        seen.type("r\n")
        seen.until("end it: lastgood recover")
        seen.until(lambda: seen.shown[-1] == ASKED)
        seen.type("f\n")
        assert seen.end() == 0
        assert any("was ended; its checkpoints stay" in line for line in seen.everything)


def test_beside_the_run_of_another_plan_a_person_may_end_that(
    terminal: Callable[..., Terminal], other: str, lastgood: Command
) -> None:
    """P8b."""
    with terminal("run", other) as seen:
        seen.until(ASKED)
        seen.type("fresh\n")
        assert seen.end() == 0
    assert ends(lastgood) == [("ended", "finished"), ("ended", "fresh")]


@pytest.mark.parametrize("answer", ["\n", "n\n", "\x04"])
def test_a_person_who_says_nothing_of_it_leaves_all_as_it_is(
    terminal: Callable[..., Terminal], other: str, lastgood: Command, answer: str
) -> None:
    """P8b."""
    before = lastgood("list", "--json").json
    with terminal("run", other) as seen:
        seen.until(ASKED)
        seen.type("r\n")
        seen.until("1 failed (B)")
        seen.until(lambda: seen.shown[-1].endswith(ASKED))
        seen.type(answer)
        assert seen.end() == 130
        assert "nothing was changed" in seen.shown
    assert lastgood("list", "--json").json == before


def test_without_a_person_the_run_of_another_plan_stays_and_is_named(lastgood: Command, other: str) -> None:
    """P8b."""
    done = lastgood("run", other)
    older = lastgood("session", "list", "--json").json["sessions"][1]["id"]
    assert f"session {older} did not finish, and waits: lastgood recover {older}" in done.out
    assert ends(lastgood) == [("ended", "finished"), ("incomplete", "error")]


def test_after_ctrl_c_the_run_waits_to_be_continued(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], gate: Path
) -> None:
    plan = plan_file(task("A", waits(gate)))
    with terminal("run", plan) as seen:
        seen.until("│ waiting")
        seen.type("\x03")
        assert seen.end() == 130
        assert any(line.startswith("A: interrupted by SIGINT") for line in seen.shown)
        assert "▸" not in "".join(seen.shown)
    gate.touch()
    with terminal("run", plan) as seen:
        assert seen.end() == 0
        assert any(line.startswith("going on with session sess_") for line in seen.shown)


def test_a_task_that_will_not_end_is_told_and_ended_by_another_ctrl_c(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str]
) -> None:
    stubborn = "trap '' INT; echo waiting; while :; do sleep 0.1; done"
    with terminal("run", plan_file(task("A", stubborn))) as seen:
        seen.until("│ waiting")
        seen.type("\x03")
        seen.until("A: told to end by SIGINT: still stopping; press Ctrl-C again to end it now")
        seen.type("\x03")
        assert seen.end() == 130


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_a_program_on_a_terminal_is_neither_asked_nor_shown_more_than_it_wants(
    terminal: Callable[..., Terminal], plan_file: Callable[..., str], option: str
) -> None:
    with terminal("run", plan_file(task("A", "true")), option, columns=4000) as seen:
        assert seen.end() == 0
        assert b"\x1b[?7l" not in seen.written
        if option == "--json":
            assert [json.loads(line)["event"] for line in seen.shown][-1] == "finished"
