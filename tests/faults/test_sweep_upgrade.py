"""An upgrade of the catalogue that is killed or failed at any call (rules S13, S14, K4)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_answered, assert_unharmed, listed, opened, two_checkpoints
from faults.stage import Stage
from faults.sweep import each_of, sweep
from lastgood.catalogue.backup import shape_fault
from lastgood.catalogue.database import CURRENT, INDEXES, kept_copy, prepare, second_version, version

pytestmark = pytest.mark.faults

MANY = 20


def made_by(number: int, stage: Stage) -> None:
    """Build: two checkpoints and many tasks, as a release that wrote a version left them."""
    two_checkpoints(stage)
    with opened(stage) as workspace:
        for task in range(MANY):
            workspace.task_skip(f"T{task:02}")
    with closing(sqlite3.connect(catalogue_of(stage))) as connection, connection:
        for name in (name for since, names in INDEXES.items() if since > number for name in names):
            connection.execute(f"DROP INDEX {name}")
        connection.execute("UPDATE meta SET value = ? WHERE name = 'version'", (number,))
        connection.execute(f"PRAGMA user_version = {number}")


def catalogue_of(stage: Stage) -> Path:
    return stage.store / "catalogue.sqlite3"


def numbers(path: Path) -> tuple[int, int | None]:
    with closing(sqlite3.connect(path)) as connection:
        return version(connection), second_version(connection)


@pytest.mark.parametrize("number", [7, CURRENT.version - 1])
@each_of("killed", "full", "bad-disk")
def test_an_upgrade_stopped_at_any_call_is_whole_or_not_there(
    injector: Injector, stage: Stage, number: int, blow: Blow
) -> None:
    """Whoever opens it next brings it up, from what it was or from what it is."""
    stage.prepare(lambda stage: made_by(number, stage))
    earlier = listed(stage)
    left = set()

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "listed", where)
        found = numbers(catalogue_of(stage))
        assert found in {(number, number), (CURRENT.version,) * 2}, f"{where}: {found}"
        left.add(found[0])
        copy = Path(kept_copy(str(catalogue_of(stage)), number))
        if found[0] == CURRENT.version:
            assert copy.exists(), f"{where}: brought up without a copy"
        if copy.exists():
            assert numbers(copy) == (number, number), where
        with opened(stage) as workspace:
            assert len(workspace.progress().tasks) == MANY, where
        assert_unharmed(stage, earlier, where)
        with closing(sqlite3.connect(catalogue_of(stage), isolation_level=None)) as connection:
            prepare(connection)
            assert shape_fault(connection) is None, where

    sweep(injector, stage, "list", {}, blow=blow, check=check, points=20)
    assert left == {number, CURRENT.version}
