"""What a program reads of a run: a line for each thing that happens, none of them longer than need be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.command import Command


@pytest.fixture
def lastgood(project: Path, store: Path) -> Command:
    """Return the command, in the project."""
    return Command(project, store)


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
