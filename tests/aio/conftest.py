"""What the tests of the asynchronous face share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lastgood
from tools.event_loops import Loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lastgood.aio import Opening


@pytest.fixture(params=["asyncio", "trio"])
def loop(request: pytest.FixtureRequest) -> Loop:
    return Loop(request.param)


@pytest.fixture
def opening(project: Path, store: Path) -> Callable[[], Opening]:
    """Return a call that opens the project; for `async with`."""
    return lambda: lastgood.open_async(project, store=store, maintenance="off")
