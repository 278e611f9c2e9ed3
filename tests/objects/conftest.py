from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lastgood.testing.git_store import GitStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    made = GitStore(tmp_path)
    yield made
    made.close()
