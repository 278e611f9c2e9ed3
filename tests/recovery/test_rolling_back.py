"""Where a rollback leads when work was taken back, restored or tried again before (P7b)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.command import COMMAND, Command

LASTGOOD = f"'{sys.executable}' '{COMMAND}'"
START = f"export LASTGOOD_SESSION=$({LASTGOOD} session start -q --goal prices)"
DIE = "kill -9 $$"

Shell = Callable[[str], subprocess.CompletedProcess[str]]


def script(*lines: str) -> str:
    """Return a shell's script; a line that begins with a colon is one of lastgood."""
    return "\n".join(f"{LASTGOOD} {line[1:]}" if line.startswith(":") else line for line in lines)


def names(project: Path) -> set[str]:
    return {path.name for path in project.iterdir()}


# What an attempt left is no ground to stand on.


def test_what_an_attempt_left_does_not_come_back_when_another_one_died(
    lastgood: Command, shell: Shell
) -> None:
    """P7b: the session's own end saved it, and that is the newest checkpoint."""
    shell(
        script(
            START,
            ":task start A; echo A > a",
            ":task done A",
            ":task start B; echo x > bad",
            ":task fail B",
            ":session end --incomplete",
        )
    )
    lastgood("recover", "prices", "--rollback")
    assert names(lastgood.project) == {"a"}
    (id,) = [one["id"] for one in lastgood("session", "list", "--json").json["sessions"]]
    again = f"export LASTGOOD_SESSION={id}"
    shell(script(again, ":task start B; echo y > b2", ":session end --incomplete"))

    lastgood("recover", "prices", "--rollback")

    assert names(lastgood.project) == {"a"}


def test_a_branch_that_was_left_by_a_restore_is_no_ground(lastgood: Command, shell: Shell) -> None:
    """P7b: the way back is that of the history, not of the numbers."""
    shell(
        script(
            "echo 1 > f",
            f"{START}; echo 2 > f",
            ":save one; echo x > bad",
            ":save two",
            ":restore one -y",
            f":task start C; echo 3 > f; {DIE}",
        )
    )
    lastgood("recover", "prices", "--rollback")
    assert names(lastgood.project) == {"f"}
    assert (lastgood.project / "f").read_text() == "2\n"


def test_the_end_of_an_unfinished_attempt_is_no_ground_for_another_task(
    lastgood: Command, shell: Shell
) -> None:
    """P7b: nor what was saved when it failed."""
    shell(
        script(
            START,
            ":task start A; echo A > a",
            ":task done A",
            ":task start B; echo x > bad",
            ":task fail B",
            ":session end --incomplete",
        )
    )
    lastgood("recover", "prices", "--continue")
    (id,) = [one["id"] for one in lastgood("session", "list", "--json").json["sessions"]]
    shell(script(f"export LASTGOOD_SESSION={id}", f":task start C; echo c > c; {DIE}"))
    lastgood("recover", "prices", "--rollback", "--force")
    assert names(lastgood.project) == {"a"}


def test_where_another_session_stopped_is_ground_for_the_next_one(lastgood: Command, shell: Shell) -> None:
    """P7b: it had no task under way."""
    shell(script(START, "echo 1 > f", ":session end --incomplete"))
    shell(script(START.replace("prices", "taxes"), f":task start A; echo 2 > g; {DIE}"))
    lastgood("recover", "taxes", "--rollback")
    assert names(lastgood.project) == {"f"}
