"""A catalogue in a temporary folder, and manifests to put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastgood.catalogue import WorkspaceRow
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.model.checkpoint import Checkpoint, Manifest, TreeRef
from lastgood.model.tree import Counts
from lastgood.testing.clock import FakeClock
from tools import manifests

KEY = "aa" * 10
OTHER = "bb" * 10


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where the catalogue of this test lies."""
    return str(tmp_path / "catalogue.sqlite3")


@pytest.fixture
def catalogue(path: str, clock: FakeClock) -> Iterator[SqliteCatalogue]:
    """Return a new catalogue with two workspaces."""
    opened = SqliteCatalogue.open(path, clock=clock, wait=0.2)
    for key, place in ((KEY, "/home/a/project"), (OTHER, "/home/a/other")):
        opened.add_workspace(WorkspaceRow(key=key, path=place, machine="m", created_at=1))
    yield opened
    opened.close()


@pytest.fixture
def manifest() -> Callable[..., Manifest]:
    """Return a builder of manifests: the number makes id, sequence and time; the rest can be changed."""

    def build(number: int, **changes: object) -> Manifest:
        usual: dict[str, object] = {
            "workspace": "/home/a/project",
            "workspace_key": KEY,
            "kind": "manual",
            "message": f"message {number}",
            "created_at": number * 1000,
            "root": TreeRef(tree=f"{number:040x}"),
            "changes": Counts(added=1),
            "files": 1,
            "size": 2,
        }
        return manifests.manifest(number, **(usual | changes))

    return build


@pytest.fixture
def save(catalogue: SqliteCatalogue, manifest: Callable[..., Manifest]) -> Callable[..., Checkpoint]:
    """Return a function that adds a checkpoint of a number."""

    def add(number: int, *, name: str | None = None, pinned: bool = False, **changes: object) -> Checkpoint:
        made = manifest(number, name=name, **changes)
        return catalogue.add(made, commit=f"{number:040x}", name=name, pinned=pinned)

    return add
