"""A workspace in a real folder, restores of it without the rest of lastgood, and the command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.command import Command
from tools.forest import Field


@pytest.fixture
def field(tmp_path: Path) -> Field:
    """An empty workspace."""
    root = os.fsencode(tmp_path / "workspace")
    os.mkdir(root)
    return Field(root)


@pytest.fixture
def command(project: Path, store: Path) -> Command:
    return Command(project, store)
