"""A fresh desk for each test of the scanner, which stays in its process."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastgood.scanner import scan
from tools.desk import Desk


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no scan move elsewhere where the machine is slow, and a thread of a restore about to end."""
    monkeypatch.setattr(scan, "_SECONDS", 3600.0)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return an empty workspace with an engine in memory."""
    return Desk(tmp_path)
