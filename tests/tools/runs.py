"""Runs of plans as tests see them: what was told, a runner that can be killed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lastgood.model.run import RunEvent, RunReport
from tools.living import eventually


class Told:
    """Remembers what a run told, and can act upon it."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []
        self.actions: list[tuple[str, Callable[[RunEvent], object]]] = []

    def __call__(self, event: RunEvent) -> None:
        self.events.append(event)
        for type, action in self.actions:
            if event.type == type:
                action(event)

    def on(self, type: str, action: Callable[[RunEvent], object]) -> None:
        self.actions.append((type, action))

    def of(self, type: str) -> list[RunEvent]:
        return [event for event in self.events if event.type == type]

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events if event.type not in {"output", "checkpoint"}]

    @property
    def notices(self) -> str:
        return "\n".join(event.reason or "" for event in self.of("noticed"))


def states(report: RunReport) -> dict[str, str]:
    return {task.id: task.state for task in report.tasks}


class Runner:
    """A process that carries out a plan; killed like any other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self, number: int = signal.SIGTERM) -> dict[str, Any]:
        self.process.send_signal(number)
        return self.report()

    def report(self) -> dict[str, Any]:
        out, _ = self.process.communicate(timeout=120)
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found


def catches(pid: int, number: int) -> bool:
    """Tell whether a process has its own way with a signal; not when it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            found = next((line for line in file if line.startswith("SigCgt:")), "SigCgt: 0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool(int(found.split()[1], 16) >> (number - 1) & 1)


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    assert eventually(path.exists), f"{path} never came"
