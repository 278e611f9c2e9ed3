"""How often the verbs that are called most commit to the catalogue: each commit waits for the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lastgood.workspace import Workspace

Commits = Callable[[], int]


@pytest.fixture
def commits(store: Path) -> Commits:
    """Return a call that counts the transactions committed so far."""

    def count() -> int:
        with closing(sqlite3.connect(store / "catalogue.sqlite3")) as connection:
            row = connection.execute("SELECT value FROM meta WHERE name = 'changes'").fetchone()
        return int(row[0])

    return count


def test_a_save_commits_once(workspace: Workspace, project: Path, commits: Commits) -> None:
    (project / "file").write_text("one")
    workspace.save("one")
    before = commits()
    (project / "file").write_text("two")
    workspace.save("two")
    assert commits() - before == 1


def test_a_restore_commits_its_guard_and_its_operation(
    workspace: Workspace, project: Path, commits: Commits
) -> None:
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint
    (project / "file").write_text("two")
    before = commits()
    workspace.restore(saved.id)
    assert commits() - before == 2
