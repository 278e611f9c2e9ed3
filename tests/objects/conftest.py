from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.testing.git_store import GitStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    made = GitStore(tmp_path)
    yield made
    made.close()
