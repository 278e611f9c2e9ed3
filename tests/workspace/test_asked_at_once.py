"""What a verb asks of the catalogue at once; what others change meanwhile is seen all the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.catalogue import rows
from lastgood.model.operation import RestorePlan
from lastgood.transaction import MarkTransaction
from lastgood.workspace import Workspace
from tools.forks import ended, forked
from tools.looks import looks_at


def _restored(workspace: Workspace, first: str) -> Callable[[], object]:
    return lambda: workspace.restore(first)


def _undone(workspace: Workspace, first: str) -> Callable[[], object]:
    workspace.restore(first)
    return workspace.undo


def _saved(workspace: Workspace, _first: str) -> Callable[[], object]:
    return lambda: workspace.save(kind="auto")


def _saved_again(workspace: Workspace, _first: str) -> Callable[[], object]:
    workspace.save(kind="auto")
    return lambda: workspace.save(kind="auto")


@pytest.mark.parametrize(("prepare", "most"), [(_restored, 9), (_undone, 14), (_saved, 4), (_saved_again, 2)])
def test_a_verb_looks_no_more_often_than_needed_whether_somebody_changed_the_catalogue(
    workspace: Workspace,
    project: Path,
    store: Path,
    prepare: Callable[[Workspace, str], Callable[[], object]],
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write looks twice: before it waits for its turn, and after."""
    (project / "file").write_text("one")
    subprocess.run(["git", "init", "-q", project], check=True)
    subprocess.run(["git", "-C", project, "add", "file"], check=True)
    first = workspace.save("one").checkpoint.id
    for number in range(2):  # the first of each kind loads and finds more
        (project / "file").write_text(f"two {number}")
        verb = prepare(workspace, first)
        with looks_at(store / "catalogue.sqlite3", monkeypatch) as looks:
            verb()
    assert len(looks) <= most


@pytest.fixture
def first(workspace: Workspace, project: Path) -> str:
    """Save twice, and return the first checkpoint."""
    (project / "file").write_text("one")
    saved = workspace.save("one").checkpoint.id
    (project / "file").write_text("two")
    workspace.save("two")
    return saved


def test_an_undo_leads_back_to_where_a_repair_found_the_workspace_to_stand_meanwhile(
    workspace: Workspace, first: str, project: Path
) -> None:
    """T15: a repair, or who imports, says so without the lock of the workspace."""
    middle = workspace.list()[0].id
    (project / "file").write_text("three")
    workspace.save("three")

    def repaired() -> None:
        with MarkTransaction(workspace._context) as marking:
            marking.catalogue._database.write(
                lambda connection: rows.move(connection, workspace._context.key, to=middle)
            )

    def meanwhile(_plan: RestorePlan) -> None:
        assert ended(forked(repaired)) == 0

    workspace.restore(first, consent=meanwhile)
    workspace.undo()
    assert workspace.stands_at() == middle


def test_a_step_that_failed_during_a_restore_is_not_among_those_that_it_does_not_take_back(
    workspace: Workspace, first: str
) -> None:
    """P6."""
    mailing, pushing = (workspace.step_start(name, irreversible=True) for name in ("mail", "push"))

    def failed() -> None:
        workspace.step_end(mailing, state="failed")

    def meanwhile(_plan: RestorePlan) -> None:
        assert ended(forked(failed)) == 0

    report = workspace.restore(first, consent=meanwhile)
    assert [one.name for one in report.irreversible] == [pushing.name]
