"""What a person reads in lists: on a terminal, in a pipe, of runs, of guards, of words."""

from __future__ import annotations

import re
import sys

import pytest

from lastgood.cli.wording import table
from tools.command import COMMAND, Command
from tools.terminal import Terminal

LONG = "a message that goes on and on " * 12 + "to its end"


def seen(command: Command, *words: str, columns: int = 80, **environment: str) -> list[str]:
    """Return what a person sees on a terminal without colour."""
    with Terminal(
        [sys.executable, COMMAND, *words],
        cwd=command.project,
        environment=command.environment | {"NO_COLOR": "1", "PAGER": "cat"} | environment,
        columns=columns,
    ) as terminal:
        terminal.end()
        return terminal.everything


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


# --- In a pipe (K5) ---


@pytest.mark.parametrize(
    "words", [("list",), ("list", "--all"), ("log", "a.txt"), ("undo", "--list"), ("session", "list")]
)
def test_a_table_in_a_pipe_has_the_columns_of_a_wide_terminal(kept: Command, words: tuple[str, ...]) -> None:
    kept("session", "start", "--goal", "migrate")
    kept("restore", "one", "--yes")
    piped = kept(*words).out.splitlines()
    shown = [line for line in seen(kept, *words, columns=200) if line]
    assert cells(piped[0]) == cells(shown[0])
    assert len(piped) > 1
    for line, on_terminal in zip(piped[1:], shown[1:], strict=False):
        times = r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d"
        assert cells(re.sub(times, "", line)) == cells(re.sub(times, "", on_terminal))


def test_a_table_in_a_pipe_is_not_cut_and_has_a_line_a_row(kept: Command) -> None:
    kept("save", f"{LONG}\nsecond line", "--allow-empty")
    header, *rows = kept("list", env={"COLUMNS": "40"}).out.splitlines()
    assert len(rows) == 3
    assert LONG in rows[0]
    assert "\x1b" not in "".join([header, *rows])
    for words in (("log", "a.txt"), ("list", "--all-workspaces")):
        assert all("ckpt_" in row for row in kept(*words).out.splitlines()[1:])


def test_one_long_name_makes_no_other_row_long() -> None:
    rows = [("ID", "Name", "Kind"), ("1", "x" * 500, "manual"), ("2", "short", "manual")]
    header, long, short = table(rows, flexible=(1,), limit=None)
    assert "x" * 500 + "  manual" in long
    assert len(short) < 100
    assert header.index("Kind") == short.index("manual")
