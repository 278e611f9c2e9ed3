"""A project under git, opened as a workspace, and what real git says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aligning.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Bench(tmp_path) as made:
        yield made
