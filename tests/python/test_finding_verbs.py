"""A stranger finds each verb by what it is for."""

from __future__ import annotations

import inspect
import pydoc
import re

import pytest

import lastgood

# The words of the published interface.
PUBLISHED = [
    "save",
    "list",
    "get",
    "diff",
    "plan_restore",
    "apply",
    "restore",
    "rewind",
    "undo",
    "redo",
    "delete",
    "pin",
    "name",
    "check",
    "plan_prune",
    "prune",
    "verify",
    "recover",
    "status",
    "report",
    "session",
    "subscribe",
]


def public(cls: type) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]


def test_the_help_of_a_workspace_has_each_verb_once_in_its_group() -> None:
    groups = re.findall(r"^- .*(?:\n  .*)*", inspect.getdoc(lastgood.Workspace) or "", re.MULTILINE)
    told = re.findall(r"``(\w+)``", "\n".join(groups))

    assert sorted(told) == public(lastgood.Workspace)
    assert len(groups) <= 9


def test_the_groups_stand_at_the_top_of_what_help_prints() -> None:
    shown = pydoc.plain(pydoc.render_doc(lastgood.Workspace))

    assert 0 < shown.index("Every day:") < shown.index("Methods defined here")


def test_the_asynchronous_workspace_has_the_same_verbs() -> None:
    assert public(lastgood.AsyncWorkspace) == public(lastgood.Workspace)


@pytest.mark.parametrize("cls", [lastgood.Workspace, lastgood.AsyncWorkspace])
def test_the_verbs_of_the_published_interface_are_there(cls: type) -> None:
    assert set(PUBLISHED) - set(public(cls)) == set()


@pytest.mark.parametrize("name", public(lastgood.Workspace))
def test_every_verb_says_in_one_sentence_what_it_does(name: str) -> None:
    said = inspect.getdoc(inspect.getattr_static(lastgood.Workspace, name)) or ""

    assert re.match(r"[A-Z][^\n]{8,}[.;:]", said), said
