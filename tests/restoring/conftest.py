"""The command, in the project of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from command import Command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def command(project: Path, store: Path) -> Command:
    return Command(project, store)
