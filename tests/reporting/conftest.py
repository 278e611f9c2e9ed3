"""The command, in a project and a store of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.command import Command


@pytest.fixture
def lastgood(project: Path, store: Path) -> Command:
    return Command(project, store)
