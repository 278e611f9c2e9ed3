"""A service in a workspace of its own, and what it told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastgood.integrations.praisonai import CheckpointService
from tools.listening import Heard


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Return where services keep their checkpoints."""
    return tmp_path / "storage"


@pytest.fixture
def service(project: Path, storage: Path) -> CheckpointService:
    """Return a service that has not begun."""
    return CheckpointService(str(project), storage_dir=str(storage))


@pytest.fixture
def heard(service: CheckpointService) -> Heard:
    """Return what the service tells."""
    return Heard(service)
