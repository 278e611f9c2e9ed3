"""A fresh desk for each test of the scanner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.desk import Desk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return an empty workspace with an engine in memory."""
    return Desk(tmp_path)
