"""A repository for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from project_git.projects import make_project

if TYPE_CHECKING:
    from pathlib import Path

    from project_git.projects import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")
