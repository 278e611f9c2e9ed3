"""Values and reports are short where a person prints them, and whole where a program takes them as JSON."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.model.long_list import LongList
from lastgood.model.session import TASKS, list_kind
from tools import public
from tools.samples import sample

ROOT = Path(__file__).parents[2]
VALUES = public.values()


@pytest.mark.parametrize("name", VALUES)
def test_every_value_prints_as_one_short_line(name: str) -> None:
    shown = repr(sample(VALUES[name]))

    assert shown.startswith(f"{name}(")
    assert len(shown) <= 100
    assert "\n" not in shown


@pytest.mark.parametrize("name", VALUES)
def test_every_value_can_be_written_as_json_in_one_call(name: str) -> None:
    told = sample(VALUES[name]).to_json()

    assert isinstance(told, dict)
    assert json.loads(json.dumps(told)) == told


def test_every_value_can_be_in_a_set() -> None:
    for cls in VALUES.values():
        assert len({sample(cls), sample(cls)}) == 1


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "kept.txt").write_text("kept\n")
    return tmp_path / "project"


def opened(project: Path) -> lastgood.Workspace:
    return lastgood.open(project, store=project.parent / "store", allow_root=True, maintenance="off")


def command(project: Path, *words: str) -> dict[str, Any]:
    place = ("-C", str(project), "--store", str(project.parent / "store"), "--allow-root", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "lastgood", *place, *words],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "LASTGOOD_MAINTENANCE": "off"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


READERS: dict[str, tuple[tuple[str, ...], Callable[[lastgood.Workspace], Any]]] = {
    "status": (("status",), lambda workspace: workspace.status()),
    "diff": (("diff",), lambda workspace: workspace.diff()),
    "log": (("log", "kept.txt"), lambda workspace: workspace.log("kept.txt")),
    "verify": (("verify",), lambda workspace: workspace.verify()),
    "progress": (("progress", "show"), lambda workspace: workspace.progress_report()),
    "report": (("report",), lambda workspace: workspace.report()),
    "prune": (("prune", "--keep", "1", "--dry-run"), lambda workspace: workspace.plan_prune(keep=1)),
    "purge": (("purge", "kept.txt", "--dry-run"), lambda workspace: workspace.plan_purge("kept.txt")),
}


@pytest.mark.parametrize("verb", READERS)
def test_what_a_program_is_told_is_the_document_of_the_command_line(project: Path, verb: str) -> None:
    words, look = READERS[verb]
    with opened(project) as workspace:
        workspace.save("one")
        (project / "kept.txt").write_text("changed\n")
        told = look(workspace).to_json()

    assert steady(told) == steady(command(project, *words))


WRITERS: dict[str, tuple[tuple[str, ...], Callable[[lastgood.Workspace], Any]]] = {
    "save": (("save", "two"), lambda workspace: workspace.save("two")),
    "check": (("check", "@", "--", "true"), lambda workspace: workspace.check("@", ["true"])),
    "restore": (("restore", "@", "--yes"), lambda workspace: workspace.restore("@")),
    "undo": (("undo",), lambda workspace: workspace.undo()),
    "delete": (("delete", "@", "--yes"), lambda workspace: workspace.delete("@")),
    "prune": (("prune", "--dry-run"), lambda workspace: workspace.prune()),
    "recover": (("recover",), lambda workspace: workspace.recover()),
    "purge": (("purge", "kept.txt", "--yes"), lambda workspace: workspace.purge("kept.txt")),
    "session": (("session", "start"), lambda workspace: workspace.session_start()),
    "progress": (("progress", "set", "--phase", "x"), lambda workspace: workspace.progress_set(phase="x")),
}


@pytest.mark.parametrize("verb", WRITERS)
def test_a_report_has_the_form_of_the_document_of_its_verb(project: Path, verb: str) -> None:
    words, act = WRITERS[verb]
    twin = project.parent / "twin" / "project"
    for one in (project, twin):
        one.mkdir(parents=True, exist_ok=True)
        (one / "kept.txt").write_text("kept\n")
        with opened(one) as workspace:
            workspace.save("one")
            (one / "kept.txt").write_text("changed\n")
            workspace.restore("@")
    with opened(project) as workspace:
        told = act(workspace).to_json()
    said = command(twin, *words)

    assert (told["schema"], set(told)) == (said["schema"], set(said))


def steady(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without what the moment of the question decides."""
    moving = {"period", "store_bytes", "store_parts", "sizes", "buckets"}
    told = {key: one for key, one in document.items() if key not in moving}
    if told.get("resident_note"):  # the command line's hint names the folder and the store that it was given
        told["resident_note"] = {key: one for key, one in told["resident_note"].items() if key != "hint"}
    return told


def test_a_checkpoint_is_told_as_in_documents(project: Path) -> None:
    with opened(project) as workspace:
        checkpoint = workspace.save("one").checkpoint

    assert checkpoint.to_json() == command(project, "show", "@")["checkpoint"]


def test_an_event_of_a_failure_says_what_failed(project: Path) -> None:
    heard: list[lastgood.Event] = []
    with opened(project) as workspace:
        workspace.subscribe(heard.append)
        with pytest.raises(lastgood.NotFound):
            workspace.delete("nowhere")

    report = heard[0].to_json()["report"]
    assert isinstance(report, dict)
    assert report["code"] == "not-found"


def test_a_workspace_prints_as_its_path(project: Path) -> None:
    with opened(project) as workspace:
        assert repr(workspace) == f"Workspace('{project}')"
        assert repr(workspace.within("sess_0")) == f"Workspace('{project}', session='sess_0')"


def test_a_session_prints_as_its_id(workspace: lastgood.Workspace) -> None:
    session = workspace.session(goal="migrate")
    assert repr(session) == "OpenSession(not begun)"
    with session:
        assert repr(session) == f"OpenSession({session.id!r})"
    assert repr(session) == f"OpenSession({session.id!r}, ended)"


async def test_what_a_loop_sees_prints_as_what_it_is_of(project: Path, store: Path) -> None:
    async with lastgood.open_async(project, store=store) as workspace:
        assert repr(workspace) == f"AsyncWorkspace(Workspace({str(project)!r}))"
        async with workspace.session(goal="migrate") as session:
            assert repr(session) == f"AsyncSession(OpenSession({session.id!r}))"


def test_a_session_saves_with_all_that_a_workspace_does() -> None:
    of_session, of_workspace = (
        inspect.signature(cls.save).parameters for cls in (lastgood.OpenSession, lastgood.Workspace)
    )
    assert [str(one) for one in of_session.values()] == [str(one) for one in of_workspace.values()]


def test_a_long_list_is_shown_without_being_read() -> None:
    """P8a: it may be damaged, and whoever debugs wants to see the rest."""
    stored: Any = LongList(list_kind(TASKS), size=60, counts={"done": 60}, oid=bytes(20))
    assert repr(lastgood.Progress(goal="g", tasks=stored)) == "Progress(goal='g', tasks=<60 items>)"
