"""A user's program: everything that it gets back has a type."""

from __future__ import annotations

import asyncio
import threading
from typing import assert_type

import lastgood
from lastgood.integrations.automatic import AsyncAutomatic, Automatic, Moment
from lastgood.integrations.opentelemetry import Telemetry


def synchronous() -> None:
    with lastgood.open("project", store="store") as workspace:
        assert_type(workspace, lastgood.Workspace)
        saved = workspace.save("one", name="n", kind="turn", messages=[{"role": "user"}], check=["true"])
        assert_type(saved, lastgood.SaveReport)
        assert_type(saved.checkpoint, lastgood.Checkpoint)
        assert_type(saved.checkpoint.good, bool | None)
        assert_type(workspace.list(limit=3), tuple[lastgood.Checkpoint, ...])
        assert_type(workspace.diff("a").files[0].path, bytes)
        assert_type(workspace.plan_restore("@"), lastgood.RestorePlan)
        assert_type(workspace.restore("@", paths=["a"], only=["files"]), lastgood.RestoreReport)
        assert_type(workspace.rewind(2, only=["files"]), lastgood.RestoreReport)
        assert_type(workspace.undo(), lastgood.UndoReport)
        assert_type(workspace.status(), lastgood.StatusReport)
        assert_type(workspace.recover(choice="continue"), lastgood.RecoverReport)
        assert_type(workspace.report("week"), lastgood.Activity)
        end = workspace.subscribe(observe)
        assert_type(end(), None)
        assert_type(workspace.run(["make"], observer=follow), lastgood.RunReport)
        with workspace.session(goal="all") as session:
            assert_type(session, lastgood.OpenSession[lastgood.Workspace])
            assert_type(session.save("x", pin=True), lastgood.SaveReport)
            with session.task("T01", risky=True) as task:
                assert_type(task, lastgood.Task)
            with session.step("mail", irreversible=True) as effect:
                assert_type(effect, lastgood.Effect)
            assert_type(session.progress(step=1), lastgood.Progress)
        assert_type(session.ended, lastgood.SessionEnded | None)


async def asynchronous() -> None:
    async with lastgood.open_async("project", store="store") as workspace:
        assert_type(workspace, lastgood.AsyncWorkspace)
        saved = await workspace.save("one", name="n", kind="turn", messages=[{"role": "user"}])
        assert_type(saved, lastgood.SaveReport)
        assert_type(await workspace.list(limit=3), tuple[lastgood.Checkpoint, ...])
        assert_type(await workspace.diff("a"), lastgood.DiffReport)
        assert_type(await workspace.restore("@", paths=["a"], only=["files"]), lastgood.RestoreReport)
        assert_type(await workspace.rewind(2, only=["files"]), lastgood.RestoreReport)
        assert_type(await workspace.undo(force=True), lastgood.UndoReport)
        assert_type(await workspace.recover(choice="continue"), lastgood.RecoverReport)
        assert_type(await workspace.run(["make"], observer=follow), lastgood.RunReport)
        workspace.subscribe(Telemetry())
        task = asyncio.create_task(workspace.save("two"))
        assert_type(await task, lastgood.SaveReport)
        assert_type(await asyncio.wait_for(workspace.get("@"), 1), lastgood.Checkpoint)
        async with workspace.session(goal="all") as session:
            assert_type(session, lastgood.AsyncSession[lastgood.AsyncWorkspace])
            assert_type(await session.save("x", pin=True), lastgood.SaveReport)
            async with session.task("T01", risky=True) as one:
                assert_type(one, lastgood.Task)
            async with session.step("mail") as effect:
                assert_type(effect, lastgood.Effect)
            assert_type(await session.progress(step=1), lastgood.Progress)
            assert_type(session.workspace, lastgood.AsyncWorkspace)
    other = await lastgood.open_async()
    assert_type(other, lastgood.AsyncWorkspace)
    await other.close()


def automatic(workspace: lastgood.Workspace) -> None:
    habit = Automatic(workspace, messages=list)

    @habit.risky
    def drop(table: str, *, times: int = 1) -> float:
        return float(table) * times

    @habit.turn("a turn")
    def turn() -> threading.Event:
        return threading.Event()

    assert_type(drop("1", times=2), float)
    assert_type(turn(), threading.Event)
    with habit.risky("all of it") as moment:
        assert_type(moment, Moment)
        assert_type(moment.checkpoint, lastgood.Checkpoint | None)


async def asynchronously_automatic(workspace: lastgood.AsyncWorkspace) -> None:
    habit = AsyncAutomatic(workspace)

    @habit.risky
    async def drop(table: str) -> float:
        return float(table)

    assert_type(await drop("1"), float)
    assert_type(await asyncio.create_task(drop("1")), float)


def observe(event: lastgood.Event) -> None:
    if isinstance(event.report, lastgood.SaveReport):
        assert_type(event.report.created, bool)


def follow(event: lastgood.RunEvent) -> None:
    assert_type(event.line, str | None)


def failing() -> None:
    try:
        synchronous()
    except lastgood.Conflict as error:
        assert_type(error.hint, str)
        assert_type(error.details, dict[str, object])
