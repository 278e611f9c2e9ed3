"""A repository for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adapters.project.projects import make_project

if TYPE_CHECKING:
    from pathlib import Path

    from adapters.project.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")
