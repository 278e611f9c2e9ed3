"""The command, in a project and a store of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.command import Command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lastgood(project: Path, store: Path) -> Command:
    return Command(project, store)
