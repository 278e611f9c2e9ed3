"""A repository for the tests of this folder; a project under git, and what real git says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from project_git.bench import Bench
from project_git.projects import Project, make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Bench(tmp_path) as made:
        yield made
