"""Two event loops by one name, and work that lasts until it is let go."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

import trio

from lastgood.aio import AsyncWorkspace
from lastgood.model.operation import Event

Result = TypeVar("Result")

# How long anything at all may take on a busy machine, in seconds.
PATIENCE = 60

# How many calls are cancelled at random moments, a factor, and by which chance; read before a fixture
# clears the environment. The long form is `scripts/torture awaiting`.
OFTEN = int(os.environ.get("LASTGOOD_CANCELS", "1"))
_CHANCE = random.SystemRandom().getrandbits(30) if OFTEN > 1 else 7
SEED = int(os.environ.get("LASTGOOD_CANCEL_SEED", "0")) or _CHANCE


def chances() -> random.Random:
    """Return a source of random moments, and say how to have the same ones again."""
    print(f"LASTGOOD_CANCEL_SEED={SEED}")
    return random.Random(SEED)


class Loop:
    """An event loop by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, main: Callable[[], Coroutine[object, object, Result]]) -> Result:
        if self.name == "trio":
            return trio.run(main)
        return asyncio.run(main())

    async def sleep(self, seconds: float) -> None:
        if self.name == "trio":
            await trio.sleep(seconds)
        else:
            await asyncio.sleep(seconds)

    async def until(self, told: threading.Event) -> None:
        """Wait for another thread, without one; what failed before it could tell is not waited for."""
        await self.until_so(told.is_set)

    async def until_so(self, so: Callable[[], bool]) -> None:
        """Wait for what nobody tells of; what does not come in time is not waited for."""
        deadline = time.monotonic() + PATIENCE
        while not so():
            assert time.monotonic() < deadline, "it never was"
            await self.sleep(0.001)

    async def together(self, *calls: Callable[[], Awaitable[object]]) -> None:
        if self.name == "trio":
            async with trio.open_nursery() as nursery:
                for call in calls:
                    nursery.start_soon(call)
        else:
            await asyncio.gather(*(call() for call in calls))

    async def within(self, seconds: float, call: Callable[[], Awaitable[object]]) -> bool:
        """Give a call some time; tell whether it was cancelled."""
        if self.name == "trio":
            with trio.move_on_after(seconds) as scope:
                await call()
            return scope.cancelled_caught
        try:
            async with asyncio.timeout(seconds):
                await call()
        except TimeoutError:
            return True
        return False

    async def cancelled_when(
        self, call: Callable[[], Awaitable[object]], moment: Callable[[], Awaitable[object]]
    ) -> bool:
        """Cancel a call at some moment of its work; tell whether it was."""
        if self.name == "trio":
            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()

                async def limited() -> None:
                    with scope:
                        await call()
                        await trio.lowlevel.checkpoint()  # what was done is not taken away from its caller

                nursery.start_soon(limited)
                await moment()
                scope.cancel()
            return scope.cancelled_caught
        task = asyncio.ensure_future(call())
        await moment()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        return False


class Held:
    """Has a workspace's verbs wait, in the midst of their work, until they are let go.

    It is an observer of the synchronous workspace, and so is called in the thread that does the work.
    """

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.ended = threading.Event()

    def __call__(self, _event: Event) -> None:
        self.begun.set()
        assert self.released.wait(PATIENCE)
        self.ended.set()

    @classmethod
    def of(cls, workspace: AsyncWorkspace) -> Held:
        held = cls()
        workspace._inner.subscribe(held)
        return held
