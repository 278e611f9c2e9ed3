"""Verbs do without the collector of cycles, and leave it as they found it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.errors import NotFound
from lastgood.workspace import Workspace, door

Looks = list[str]


@pytest.fixture
def looks() -> Iterator[Looks]:
    """Have the collector look often, and write down that it did."""
    enabled, thresholds, seen = gc.isenabled(), gc.get_threshold(), list[str]()

    def note(phase: str, _facts: dict[str, int]) -> None:
        seen.append(phase)

    gc.enable()
    gc.set_threshold(1000)
    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


def test_no_cycles_are_looked_for_during_a_verb(
    workspace: Workspace, project: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_count", int)  # a worker of xdist has threads
    for word in ("one", "two"):
        for number in range(1000):
            (project / f"file{number}").write_text(word)
        workspace.save(word)
    before = len(looks)
    workspace.restore("@~1")
    assert len(looks) - before < 12
    assert gc.isenabled()


def test_the_collector_goes_on_after_a_verb_that_failed(workspace: Workspace, looks: Looks) -> None:
    with pytest.raises(NotFound):
        workspace.undo()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(workspace: Workspace, looks: Looks) -> None:
    gc.disable()
    workspace.save("one", allow_empty=True)
    assert not gc.isenabled()
