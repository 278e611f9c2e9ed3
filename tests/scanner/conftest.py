"""A fresh desk for each test of the scanner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return an empty workspace with an engine in memory."""
    return Desk(tmp_path)
