"""Drives what is written once, as steps, with an event loop or without one."""

from __future__ import annotations

import asyncio
import inspect
import time
from dataclasses import dataclass
from typing import Any, TypeVar

from lastgood.aio.loops import present_bridge
from lastgood.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

Result = TypeVar("Result")


@dataclass(frozen=True)
class Call:
    """A foreign function, called where its user is: awaited, if it is a coroutine function."""

    work: Callable[[], Any]


@dataclass(frozen=True)
class Blocking:
    """Work of ours that takes a while: under an event loop it is done in a thread."""

    work: Callable[[], Any]


@dataclass(frozen=True)
class Pause:
    """A while of nothing."""

    seconds: float


Step = Call | Blocking | Pause


async def awaited(steps: Generator[Step, Any, Result]) -> Result:
    """Drive steps under an event loop."""
    said: Any = None
    failure: BaseException | None = None
    while True:
        try:
            step = steps.send(said) if failure is None else steps.throw(failure)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        said, failure = None, None
        try:
            if isinstance(step, Pause):
                await _sleep(step.seconds)
            elif isinstance(step, Blocking):
                said = await present_bridge().call(step.work)
            else:
                said = step.work()
                said = await said if inspect.isawaitable(said) else said
        except BaseException as error:  # noqa: BLE001 - the steps decide which they catch
            failure = error


def driven(steps: Generator[Step, Any, Result]) -> Result:
    """Drive steps without one."""
    said: Any = None
    failure: BaseException | None = None
    while True:
        try:
            step = steps.send(said) if failure is None else steps.throw(failure)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        said, failure = None, None
        try:
            if isinstance(step, Pause):
                time.sleep(step.seconds)
            else:
                said = _plain(step.work())
        except BaseException as error:  # noqa: BLE001 - the steps decide which they catch
            failure = error


def _plain(said: object) -> object:
    """Refuse what would have to be awaited: it has not been done, whatever it looks like."""
    if not inspect.iscoroutine(said):
        return said
    said.close()
    raise Usage("a coroutine function is not awaited here", hint="make the operation one too, or await it")


async def _sleep(seconds: float) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        import trio

        await trio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)
