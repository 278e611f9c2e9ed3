"""The copy of the ledger and the repair by it, killed or failed at any call (K4)."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_answered, opened
from faults.stage import Stage, fill
from faults.sweep import STOPPED, sweep
from lastgood.workspace import Workspace
from tools.harm import flip

pytestmark = pytest.mark.faults

COPY = "ledger.backup.sqlite3.gz"
LEDGER = ("ledger.sqlite3", "ledger.sqlite3-wal", "ledger.sqlite3-shm")


def _write(workspace: Workspace, book: str, numbers: range) -> None:
    ledger = workspace.ledger("test")
    for number in numbers:
        ledger.change(
            lambda to, n=number: to.put(book, f"{n:02}", mark="m", body=[f"{n} " * 200])  # type: ignore[misc]
        )


def _read(workspace: Workspace) -> dict[str, list[object]]:
    return workspace.ledger("test").look(
        lambda book: {
            name: [(one.key, book.body(one)) for one in book.entries(name)] for name in book.books()
        }
    )


def _copied(stage: Stage) -> None:
    """Build a ledger with a copy, and one book that is newer than that."""
    fill(stage.workspace)
    with opened(stage) as workspace:
        workspace.save("one")
        _write(workspace, "old", range(5))
        workspace.maintain()
        _write(workspace, "newer", range(3))


def _gone(stage: Stage) -> None:
    _copied(stage)
    for name in LEDGER:
        (stage.store / name).unlink(missing_ok=True)


def _wounded(stage: Stage) -> None:
    _copied(stage)
    with closing(sqlite3.connect(stage.store / "ledger.sqlite3")) as connection:
        connection.execute("UPDATE entry SET body = x'4e00' WHERE key = CAST('02' AS BLOB)")
        connection.execute("UPDATE entry SET body = (SELECT body FROM entry WHERE key = CAST('01' AS BLOB))")
        connection.execute("DELETE FROM book WHERE name = CAST('newer' AS BLOB)")
        connection.commit()


def _unwritable(stage: Stage) -> None:
    """Build a ledger that can be read, though not written, with entries that its copy does not have."""
    _copied(stage)
    with closing(sqlite3.connect(stage.store / "ledger.sqlite3")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    _deny_writing(stage)


def _unwritable_with_a_log(stage: Stage) -> None:
    _copied(stage)
    held = stage.folder / "held"
    with opened(stage) as workspace:
        _write(workspace, "in the log", range(2))
        held.mkdir(exist_ok=True)
        for name in LEDGER:
            shutil.copy(stage.store / name, held / name)
    for name in LEDGER:
        shutil.move(held / name, stage.store / name)
    _deny_writing(stage)


def _deny_writing(stage: Stage) -> None:
    flip(stage.store / "ledger.sqlite3", 18)


@STOPPED
def test_a_copy_stopped_at_any_call_leaves_a_sound_one(
    injector: Injector, stage: Stage, environment: dict[str, str], blow: Blow
) -> None:
    stage.prepare(_copied)
    with opened(stage) as workspace:
        whole = _read(workspace)

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "maintained", where)
        with opened(stage) as workspace:
            report = workspace.verify()
            assert report.ok, f"{where}: {report}"
            workspace.maintain()
            assert _read(workspace) == whole, where
            assert workspace.verify().ok, where
        left = {name for name in os.listdir(stage.store) if "ledger" in name}
        assert left - set(LEDGER) == {COPY}, f"{where}: {left}"

    sweep(injector, stage, "maintain", {"environment": environment}, blow=blow, check=check, points=20)


@pytest.mark.parametrize("build", [_gone, _wounded])
@STOPPED
def test_a_repair_of_the_ledger_stopped_at_any_call_is_done_by_the_next(
    injector: Injector,
    stage: Stage,
    environment: dict[str, str],
    blow: Blow,
    build: Callable[[Stage], None],
) -> None:
    stage.prepare(_copied)
    with opened(stage) as workspace:
        whole = _read(workspace)
    stage.prepare(build)

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "verified", where)
        with opened(stage) as workspace:
            report = workspace.verify(repair=True)
            assert report.ok, f"{where}: {report}"
            assert _read(workspace)["old"] == whole["old"], where
            _write(workspace, "old", range(7, 8))
            workspace.maintain()
            assert workspace.verify().ok, where

    order = {"repair": True, "environment": environment}
    sweep(injector, stage, "verify", order, blow=blow, check=check, points=20)


@pytest.mark.parametrize("build", [_unwritable, _unwritable_with_a_log])
@pytest.mark.parametrize("copy", ["with a copy", "without a copy"])
@STOPPED
def test_a_repair_stopped_at_any_call_takes_no_entry_away(
    injector: Injector,
    stage: Stage,
    environment: dict[str, str],
    blow: Blow,
    build: Callable[[Stage], None],
    copy: str,
) -> None:
    def built(stage: Stage) -> None:
        build(stage)
        if copy == "without a copy":
            (stage.store / COPY).unlink()

    stage.prepare(built)
    with opened(stage) as workspace:
        whole = _read(workspace)
    assert len(whole) > 1

    def check(trial: Trial, where: str) -> None:
        assert_answered(trial, "verified", where)
        with opened(stage) as workspace:
            report = workspace.verify(repair=True)
            assert report.ok, f"{where}: {report}"
            assert _read(workspace) == whole, where
            _write(workspace, "old", range(7, 8))
            assert workspace.verify(repair=True).repaired == (), where
            workspace.maintain()
        left = {name for name in os.listdir(stage.store) if "ledger" in name}
        assert left - set(LEDGER) == {COPY}, f"{where}: {left}"

    order = {"repair": True, "environment": environment}
    sweep(injector, stage, "verify", order, blow=blow, check=check, points=8)
