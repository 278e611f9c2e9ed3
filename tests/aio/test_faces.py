"""The asynchronous face is the synchronous one, awaited: name by name, word by word."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import lastgood
from lastgood.aio import AsyncSession, AsyncWorkspace, Opening
from lastgood.aio.workspace import AsyncLedger
from lastgood.errors import Usage
from lastgood.ledger import Ledger
from lastgood.workspace import Workspace, open_workspace
from lastgood.workspace.session import OpenSession

# What an event loop needs no waiting for: it looks at nothing.
PLAIN = {"path", "remarks", "store", "settings", "subscribe", "session", "within"}
PLAIN_IN_SESSIONS = {
    "id",
    "started",
    "ended",
    "environment",
    "workspace",
    "task",
    "feature",
    "sprint",
    "step",
    "once",
}
# The same words; the answer is the asynchronous one's own.
OTHER_ANSWERS = {"session", "within", "ledger", "task", "feature", "sprint", "step", "once"}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def parameters(function: object) -> list[inspect.Parameter]:
    assert callable(function)
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize(("face", "core"), [(AsyncWorkspace, Workspace), (AsyncSession, OpenSession)])
def test_both_faces_have_the_same_names(face: type, core: type) -> None:
    assert public(face) == public(core)


@pytest.mark.parametrize(
    ("face", "core", "name"),
    [(AsyncWorkspace, Workspace, name) for name in sorted(public(Workspace))]
    + [(AsyncSession, OpenSession, name) for name in sorted(public(OpenSession))],
)
def test_a_name_takes_and_returns_the_same_on_both_faces(face: type, core: type, name: str) -> None:
    mine, theirs = getattr(face, name), getattr(core, name)
    if isinstance(theirs, property):
        assert isinstance(mine, property)
        assert mine.__doc__ == theirs.__doc__
        return
    assert parameters(mine) == parameters(theirs)
    if name not in OTHER_ANSWERS:
        assert inspect.signature(mine).return_annotation == inspect.signature(theirs).return_annotation
        assert name == "subscribe" or inspect.getdoc(mine) == inspect.getdoc(theirs) or name == "close"


@pytest.mark.parametrize(
    ("face", "plain"),
    [(AsyncWorkspace, PLAIN), (AsyncSession, PLAIN_IN_SESSIONS)],
    ids=["workspace", "session"],
)
def test_whatever_looks_at_a_disk_is_awaited(face: type, plain: set[str]) -> None:
    assert {name for name in public(face) if not inspect.iscoroutinefunction(getattr(face, name))} == plain


def test_a_ledger_has_the_same_words_on_both_faces() -> None:
    assert public(AsyncLedger) == public(Ledger)
    for name in public(Ledger):
        assert parameters(getattr(AsyncLedger, name)) == parameters(getattr(Ledger, name))


def test_both_are_opened_by_the_same_words() -> None:
    assert parameters(lastgood.open_async) == parameters(open_workspace)
    assert lastgood.open_async is lastgood.aio.open_async


def test_without_an_event_loop_the_other_face_is_named(project: Path, store: Path) -> None:
    opening = lastgood.open_async(project, store=store)
    assert isinstance(opening, Opening)
    with pytest.raises(Usage, match="no event loop runs here") as caught:
        opening.__await__().send(None)
    assert "lastgood.open(path)" in caught.value.hint


@pytest.mark.parametrize("statement", ["import lastgood", "import lastgood; lastgood.open"])
def test_importing_the_package_loads_no_event_loop_and_no_integration(statement: str) -> None:
    program = (
        f"import sys; {statement}; "
        "print([one for one in sys.modules if one.startswith("
        "('asyncio', 'trio', 'anyio', 'lastgood.aio', 'lastgood.integrations', 'opentelemetry'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_asynchronous_face_loads_neither_trio_nor_anyio_by_itself() -> None:
    program = (
        "import sys, lastgood; lastgood.open_async; print({'trio', 'anyio', 'sniffio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
