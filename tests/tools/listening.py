"""Hears what a drop-in tells."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lastgood.integrations.praisonai import CheckpointEvent, CheckpointService


class Heard:
    """Everything a service told, in order."""

    def __init__(self, service: CheckpointService) -> None:
        self.events: list[tuple[str, Any]] = []
        for event in CheckpointEvent:
            service.on(event, self._listener(event.value))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def _listener(self, name: str) -> Any:
        return lambda said: self.events.append((name, said))


def is_there(path: str) -> bool:
    """Tell whether a path exists, from within a coroutine."""
    return os.path.lexists(path)


def names_in(folder: Path) -> list[str]:
    """Return what a folder holds, by name."""
    return sorted(os.listdir(folder))
