"""Paths that an export brings: none that no disk can hold, none of files that are not its own (T12, S17)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lastgood
from lastgood.errors import Damaged, Invalid, NotFound
from lastgood.model.session import Position, Progress
from parcels import facts_of, lines, members_of, rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lastgood.workspace import Workspace

NOWHERE = ("a\0b", "../outside", "/etc/passwd", "a//b")


@pytest.fixture
def parcel(workspace: Workspace, project: Path, tmp_path: Path) -> Path:
    """The export of a session with an artifact and a transcript; its folder is gone afterwards."""
    (project / "draft.md").write_text("draft\n")
    (tmp_path / "said.jsonl").write_text('{"role": "user", "content": "hello"}\n')
    with workspace.session("write", transcript=tmp_path / "said.jsonl") as session:
        session.progress(artifacts=["draft.md"])
        session.save("one", allow_empty=True)
    workspace.export(tmp_path / "out.tar")
    return tmp_path / "out.tar"


def altered(parcel: Path, key: str, value: object) -> Path:
    """Write an export in which every fact of some name says something else."""

    def alter(fact: Any) -> Any:
        if isinstance(fact, dict):
            return {name: value if name == key else alter(item) for name, item in fact.items()}
        return [alter(item) for item in fact] if isinstance(fact, list) else fact

    members = members_of(parcel)
    facts = alter(facts_of(members))
    assert json.dumps(value) in json.dumps(facts)
    return rebuilt(parcel.with_name("altered.tar"), members | {"facts.jsonl": lines(facts)})


@pytest.fixture
def there(tmp_path: Path) -> Path:
    (tmp_path / "there").mkdir()
    return tmp_path / "there"


@pytest.mark.parametrize("path", NOWHERE)
def test_an_artifact_that_is_no_path_in_a_workspace_is_not_imported(
    parcel: Path, there: Path, tmp_path: Path, path: str
) -> None:
    with lastgood.open(there, store=tmp_path / "other", maintenance="off") as workspace:
        with pytest.raises(Damaged, match="artifact"):
            workspace.import_file(altered(parcel, "artifacts", [path]))
        assert workspace.list(all_workspaces=True) == ()


@pytest.mark.parametrize("path", ["/etc/hostname", "/a\0b"])
def test_no_transcript_is_taken_in_because_an_export_names_it(
    parcel: Path, there: Path, tmp_path: Path, path: str
) -> None:
    """S17: what lies at a path here is not the conversation of a session that was elsewhere."""
    with lastgood.open(there, store=tmp_path / "other", maintenance="off") as workspace:
        report = workspace.import_file(altered(parcel, "transcript", path))
        sessions = workspace._context.work.sessions(report.workspaces[0].key)
    assert [session.transcript for session in sessions] == [None]


@pytest.mark.parametrize("path", NOWHERE[:3])
def test_a_store_that_holds_such_an_artifact_stays_usable(workspace: Workspace, path: str) -> None:
    """T12: what an import of an earlier release brought is missing, and never made."""
    workspace.save("one", allow_empty=True)
    work, key = workspace._context.work, workspace._context.key
    work.change(
        lambda to: to.change_progress(
            key, lambda _: Progress(position=Position(artifacts=(path.encode(),))), workspace_key=key
        )
    )
    workspace.save("two", allow_empty=True)
    report = workspace.recover()
    assert [(one.path, one.state) for one in report.artifacts] == [(path.encode(), "missing")]
    assert workspace.status().state == "idle"


def test_a_transcript_that_no_disk_can_hold_costs_no_save(workspace: Workspace) -> None:
    """P5: it is as one that is not there."""
    transcripts = workspace._context.transcripts
    refused: list[tuple[type[Exception], Callable[[bytes], object]]] = [
        (Invalid, transcripts.open),
        (NotFound, transcripts.beside),
    ]
    for error, ask in refused:
        with pytest.raises(error, match="no path of a file"):
            ask(b"/a\0b")
