"""Commits that no row names: of a save that was killed, or that a catalogue lost (invariants 4, 6)."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from lastgood.testing.clock import FakeClock
from lastgood.workspace import Workspace

Kill = Callable[..., None]


@pytest.mark.parametrize("loss", ["rescued without adoption", "older copy put back", "nothing left"])
def test_what_a_catalogue_lost_is_not_freed_before_somebody_may_notice(
    project: Path, store: Path, loss: str
) -> None:
    """Invariants 4, 6: a checkpoint without a row may be one that can be brought back."""
    clock = FakeClock(step=0.001)

    def opened(*, repair: bool = False) -> Workspace:
        return lastgood.open(project, store=store, maintenance="off", clock=clock, repair=repair)

    with opened() as workspace:
        (project / "file").write_text("one")
        one = workspace.save("one").checkpoint
        workspace.maintain()
        older = gzip.decompress((store / "catalogue.backup.sqlite3.gz").read_bytes())
        (project / "file").write_text("two")
        two = workspace.save("two").checkpoint
    for path in store.glob("catalogue*" if loss == "nothing left" else "catalogue.sqlite3*"):
        path.unlink()
    if loss == "older copy put back":
        (store / "catalogue.sqlite3").write_bytes(older)
    clock.advance(20 * 24 * 3600)
    with opened(repair=loss != "older copy put back") as workspace:
        for text in ("three", "four", "five"):
            (project / "file").write_text(text)
            workspace.save(text)
            workspace.maintain()

    with opened(repair=True) as workspace:
        workspace.verify(repair=True)

        assert workspace.read(one.id, "file") == b"one"
        assert workspace.read(two.id, "file") == b"two"
        assert workspace.verify(deep=True).ok
        clock.advance(40 * 24 * 3600)
        assert not any("repair" in said for said in workspace.maintain())


def test_bytes_that_no_row_ever_named_are_freed_after_a_month(
    project: Path, store: Path, killed: Kill
) -> None:
    """R1: a save that was killed before its row was written."""
    clock = FakeClock(step=0.001)
    with lastgood.open(project, store=store, maintenance="off", clock=clock) as workspace:
        (project / "file").write_text("one")
        workspace.save("one")
        (project / "file").write_bytes(random.Random(1).randbytes(100_000))
        killed(lambda: workspace.save("killed"), event="os.rename", path=".idx")
        clock.random()  # the child has drawn its ids
        clock.random()
        workspace.maintain()
        (project / "file").write_text("three")
        workspace.save("three")
        workspace.maintain()
        assert workspace._context.engine.stored_bytes() > 100_000

        clock.advance(31 * 24 * 3600)
        workspace.maintain()

        assert workspace._context.engine.stored_bytes() < 100_000
        assert workspace.verify(deep=True).ok
