"""What the tests of the asynchronous face share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from lastgood.aio import Opening


@pytest.fixture
def opening(project: Path, store: Path) -> Callable[[], Opening]:
    """Return a call that opens the project; for `async with`."""
    return lambda: lastgood.open_async(project, store=store, maintenance="off")
