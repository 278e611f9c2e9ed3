"""Blocking calls of one object, awaited in whatever loop it is used."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from lastgood.aio.bridge import Bridge

    Result = TypeVar("Result")


# --- Finds the event loop that runs here ---


def present_bridge() -> Bridge:
    """Return the bridge to the event loop that runs here; `Usage` if none does."""
    if "trio" in sys.modules:
        from lastgood.aio.under_trio import TrioBridge, in_trio

        if in_trio():
            return TrioBridge()
    from lastgood.aio.under_asyncio import present_asyncio

    return present_asyncio()


# --- Blocking calls of one object, awaited in whatever loop it is used ---

# A program has one loop, a test suite one after the other.
_LOOPS_KEPT = 4


class Calls:
    """Awaits calls of one object, some at once in each loop, however many are asked for."""

    def __init__(self) -> None:
        self._bridges: list[tuple[object, Bridge]] = []

    async def whole(self, work: Callable[[], Result]) -> Result:
        """Await work that goes to its end once it has started; cancelled before that, it never does."""
        return await self.call(work, whole=True)

    async def call(self, work: Callable[[], Result], *, whole: bool = False) -> Result:
        """Await work; cancelled, it gives up where it waits with nothing half done, unless done ``whole``."""
        return await self._bridge().call(work, whole=whole)

    def _bridge(self) -> Bridge:
        bridge, loop = present_bridge(), _loop()
        for known, kept in self._bridges:
            if known is loop:
                return kept
        self._bridges = [(loop, bridge), *self._bridges[: _LOOPS_KEPT - 1]]
        return bridge


def _loop() -> object:
    if "trio" in sys.modules:
        from lastgood.aio.under_trio import in_trio

        if in_trio():
            import trio

            return trio.lowlevel.current_trio_token()
    import asyncio

    return asyncio.get_running_loop()
