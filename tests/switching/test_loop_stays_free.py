"""The drop-ins never make the event loop wait for a disk or a lock."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import random
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lastgood
from lastgood.aio import under_asyncio, under_trio
from lastgood.integrations.checkpoint_manager import CheckpointManager, ErrorRecoverer
from lastgood.integrations.praisonai import CheckpointService
from tools.event_loops import Loop

Calls = dict[str, Callable[[], Coroutine[Any, Any, object]]]

PACKAGE = os.path.dirname(lastgood.__file__) + os.sep

BLOCKING = {"posix", "fcntl", "sqlite3", "_sqlite3", "_io", "io", "select", "_posixsubprocess", "mmap"}

HARMLESS = {"getpid", "fspath", "fsencode"}


def blocked_by(found: list[str]) -> Callable[[FrameType, str, Any], None]:
    """Return a profiler that writes down what could wait, below lastgood, in this thread."""

    def look(frame: FrameType, event: str, function: Any) -> None:
        name = getattr(function, "__name__", "")
        module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
        if event != "c_call" or name in HARMLESS or not (module in BLOCKING or name == "sleep"):
            return
        place: FrameType | None = frame
        while place is not None and not place.f_code.co_filename.startswith(PACKAGE):
            place = None if place.f_code.co_qualname == "Thread.start" else place.f_back
        if place is not None:
            found.append(f"{function} below {place.f_code.co_filename}:{place.f_lineno}")

    return look


def watched(calls: Calls, project: Path) -> dict[str, list[str]]:
    assert under_asyncio  # the loop's side of it is loaded when it is used for the first time
    assert under_trio
    wrong: dict[str, list[str]] = {}

    async def main() -> None:
        for name, call in calls.items():
            (project / "file").write_text(name)
            found: list[str] = []
            gc.disable()  # what others left is closed in whatever line the collector comes by
            sys.setprofile(blocked_by(found))
            try:
                await call()
            finally:
                sys.setprofile(None)
                gc.enable()
            if found:
                wrong[name] = found

    asyncio.run(main())
    return wrong


def test_no_method_of_the_service_blocks_the_loop(service: CheckpointService, project: Path) -> None:
    ids: list[str] = []

    async def saved() -> None:
        ids.append((await service.save("one", step=1)).id)

    calls: Calls = {
        "initialize": service.initialize,
        "save": saved,
        "restore": lambda: service.restore(step=1),
        "rewind": service.rewind,
        "diff": service.diff,
        "list_checkpoints": service.list_checkpoints,
        "list": service.list,
        "get_checkpoint": lambda: service.get_checkpoint(ids[0]),
        "get": lambda: service.get(ids[0]),
        "get_checkpoint_by_step": lambda: service.get_checkpoint_by_step(1),
        "conversation": lambda: service.conversation(ids[0]),
        "delete": lambda: service.delete(ids[0]),
        "cleanup": service.cleanup,
        "delete_all": service.delete_all,
    }
    methods = {name for name in dir(service) if inspect.iscoroutinefunction(getattr(service, name))}
    assert {name for name in methods if not name.startswith("_")} == set(calls)
    assert watched(calls, project) == {}


def test_no_method_of_the_manager_blocks_the_loop(project: Path, store: Path) -> None:
    manager = CheckpointManager(project, store=store)
    recoverer = ErrorRecoverer(project, store=store, delay=0.001)
    ids: list[str] = []

    async def created() -> None:
        ids.append((await manager.create_checkpoint("one")).id)

    async def risky() -> None:
        raise AssertionError

    async def recovered() -> None:
        result = await recoverer.handle_error(TimeoutError(), {"operation": risky})
        assert result.recovered

    calls: Calls = {
        "create_checkpoint": created,
        "rollback": lambda: manager.rollback(ids[0]),
        "rollback_to_latest": manager.rollback_to_latest,
        "restore_checkpoint": lambda: manager.restore_checkpoint(ids[0]),
        "undo": lambda: manager.undo(force=True),
        "list_checkpoints": manager.list_checkpoints,
        "get_checkpoint": lambda: manager.get_checkpoint(ids[0]),
        "read": lambda: manager.read(ids[0], "file"),
        "validate_checkpoint": lambda: manager.validate_checkpoint(ids[0]),
        "recovered": recovered,
        "delete_checkpoint": lambda: manager.delete_checkpoint(ids[0]),
    }
    methods = {name for name in dir(manager) if inspect.iscoroutinefunction(getattr(manager, name))}
    assert {name for name in methods if not name.startswith("_")} == set(calls) - {"recovered"}
    assert watched(calls, project) == {}


# A call of a drop-in that is given up has not started, or is over when its caller hears of it.


FILES = 40

ROUNDS = 8


def write(project: Path, text: str) -> None:
    for number in range(FILES):
        (project / f"file{number}").write_text(text)


def texts(project: Path) -> set[str]:
    return {(project / f"file{number}").read_text() for number in range(FILES)}


@pytest.mark.chance("how far a restore is when it is cancelled")
async def test_a_restore_that_is_given_up(loop: Loop, project: Path, storage: Path) -> None:
    chance = random.Random(3)
    service = CheckpointService(str(project), str(storage))

    write(project, "before")
    assert await service.initialize()
    saved = await service.save("before")
    for number in range(ROUNDS):
        write(project, f"changed {number}")
        await loop.within(chance.random() * 0.08, partial(service.restore, saved))
        assert not service.timeline._lock.locked()
        assert len(texts(project)) == 1
    assert (await service.restore(saved)).success
    assert texts(project) == {"before"}


@pytest.mark.chance("how far a rollback is when it is cancelled")
async def test_a_rollback_that_is_given_up(loop: Loop, project: Path, store: Path) -> None:
    chance = random.Random(5)
    manager = CheckpointManager(project, store=store)

    write(project, "before")
    made = await manager.create_checkpoint("before")
    for number in range(ROUNDS):
        write(project, f"changed {number}")
        await loop.within(chance.random() * 0.08, partial(manager.rollback, made.id))
        assert not manager.keeper._lock.locked()
        assert len(texts(project)) == 1
    assert (await manager.rollback(made.id)).success
    assert texts(project) == {"before"}
