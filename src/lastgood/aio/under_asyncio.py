"""Blocking work awaited under asyncio, and under anyio on top of it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from contextvars import copy_context
from threading import Thread
from typing import Generic, TypeVar

from lastgood.aio.bridge import MOST_AT_ONCE, CancelOnSigterm, call_observer, foreign_loop
from lastgood.cancellation import CancelWhen
from lastgood.errors import Busy, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lastgood.aio.bridge import Said

Result = TypeVar("Result")


def present_asyncio() -> AsyncioBridge:
    """Return the bridge to the asyncio loop that runs here; `Usage` if none does."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise Usage(
            "no event loop runs here", hint="await it under asyncio or trio, or use: lastgood.open(path)"
        ) from None
    return AsyncioBridge(loop)


class AsyncioBridge:
    """Runs each call in a thread of its own, some at once; the loop's own threads stay free."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def call(self, work: Callable[[], Result], *, whole: bool = False) -> Result:
        """Await work done in a thread."""
        self._refuse_another()
        async with self._turns:
            return await self._outcome(_Call(work, stoppable=not whole))

    async def certain(self, work: Callable[[], Result]) -> Result:
        """Await work that has to be done."""
        self._refuse_another()
        with _shield():
            return await self._outcome(_Call(work, stoppable=False))

    def tell(self, observer: Callable[[Said], object], said: Said) -> None:
        """Have an observer called in the loop's own thread."""
        try:
            self._loop.call_soon_threadsafe(call_observer, observer, said, context=copy_context())
        except RuntimeError:  # the loop is closed, and with it whoever listened
            return

    def on_termination(self) -> CancelOnSigterm | None:
        """Have SIGTERM cancel the present task."""
        task = asyncio.current_task()
        if task is None:
            return None
        return CancelOnSigterm.here(lambda: self._loop.call_soon_threadsafe(task.cancel))

    def _refuse_another(self) -> None:
        """Refuse to wait in a loop to which nobody would say that the work is over."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not self._loop:
            raise foreign_loop()

    async def _outcome(self, call: _Call[Result]) -> Result:
        over = self._loop.create_future()
        call.start(lambda: self._loop.call_soon_threadsafe(_mark, over))
        try:
            # Unlike the future itself, waiting for it can be cancelled without harm to it.
            await asyncio.wait([over])
        except asyncio.CancelledError as cancelled:
            call.stop()
            with _shield():
                await _outlast(over)
            cancelled.__cause__ = call.failure
            raise
        return call.outcome()


class _Call(Generic[Result]):
    """A piece of blocking work, and what came of it."""

    def __init__(self, work: Callable[[], Result], *, stoppable: bool) -> None:
        self._work = work
        self._stoppable = stoppable
        self._asked = False
        self._results: list[Result] = []
        self._error: BaseException | None = None

    def start(self, over: Callable[[], object]) -> None:
        """Do it in a thread that sees the caller's context variables, and holds up the interpreter's end."""
        thread = Thread(target=copy_context().run, args=(self._run, over), name="lastgood", daemon=False)
        try:
            thread.start()
        except RuntimeError as error:  # the system gives no more threads
            if self._stoppable:
                raise Busy(
                    "no thread can be started", hint="wait until others have ended, then try again"
                ) from error
            self._run(over)  # rather in the loop's own thread than not at all

    def stop(self) -> None:
        """Ask it to give up where that does no harm."""
        self._asked = True

    @property
    def failure(self) -> BaseException | None:
        """What went wrong in work that nobody waits for any more."""
        return self._error if isinstance(self._error, Exception) else None

    def outcome(self) -> Result:
        """Return the result, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self, over: Callable[[], object]) -> None:
        try:
            with CancelWhen(lambda: self._asked) if self._stoppable else nullcontext():
                self._results.append(self._work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
            self._error = error
        try:
            over()
        except RuntimeError:  # the loop is closed: nobody waits
            return


def _mark(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


async def _outlast(over: asyncio.Future[None]) -> None:
    """Wait for work to be over, however often the caller is cancelled meanwhile."""
    while not over.done():
        try:
            await asyncio.wait([over])
        except asyncio.CancelledError:
            continue  # the work comes first; the first cancellation goes on afterwards


def _shield() -> AbstractContextManager[object]:
    """Keep anyio, where it is in use, from cancelling again at every turn of the loop.

    In use it is with its side of asyncio loaded: to make a scope would load that, in the loop's own thread.
    """
    if "anyio._backends._asyncio" not in sys.modules:
        return nullcontext()
    from anyio import CancelScope

    return CancelScope(shield=True)
