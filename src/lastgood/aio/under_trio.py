"""Blocking work awaited under trio."""

from __future__ import annotations

from contextvars import copy_context

import trio

from lastgood.aio.bridge import MOST_AT_ONCE, CancelOnSigterm, call_observer, foreign_loop
from lastgood.cancellation import Cancelled, CancelWhen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.aio.bridge import Result, Said


def in_trio() -> bool:
    """Tell whether the caller is a task of trio's."""
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


class TrioBridge:
    """Runs calls in trio's threads, some at once; trio itself waits for a thread that has begun."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._turns = trio.CapacityLimiter(MOST_AT_ONCE)

    async def call(self, work: Callable[[], Result], *, whole: bool = False) -> Result:
        """Await work done in a thread."""
        self._refuse_another()

        def stoppable() -> Result:
            with CancelWhen(_is_cancelled):
                return work()

        try:
            return await trio.to_thread.run_sync(work if whole else stoppable, limiter=self._turns)
        except Cancelled:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise

    async def certain(self, work: Callable[[], Result]) -> Result:
        """Await work that has to be done."""
        self._refuse_another()
        with trio.CancelScope(shield=True):
            result = await trio.to_thread.run_sync(work, limiter=trio.CapacityLimiter(1))
        return result  # noqa: RET504 - as far as a type checker knows, the scope might swallow an exception

    def _refuse_another(self) -> None:
        """Refuse to wait in another loop."""
        if not in_trio() or trio.lowlevel.current_trio_token() is not self._token:
            raise foreign_loop()

    def tell(self, observer: Callable[[Said], object], said: Said) -> None:
        """Have an observer called in the loop's own thread."""
        try:
            self._token.run_sync_soon(copy_context().run, call_observer, observer, said)
        except trio.RunFinishedError:  # nobody listens any more
            return

    def on_termination(self) -> _Scope | None:
        """Have SIGTERM cancel what the present task does until it is lifted."""
        scope = trio.CancelScope()
        armed = CancelOnSigterm.here(lambda: self._token.run_sync_soon(scope.cancel))
        return None if armed is None else _Scope(scope, armed)


class _Scope:
    """A cancel scope that SIGTERM cancels."""

    def __init__(self, scope: trio.CancelScope, armed: CancelOnSigterm) -> None:
        self._scope = scope
        self._armed = armed
        scope.__enter__()

    def lift(self, error: BaseException | None) -> bool:
        """Close the scope; tell whether the signal came."""
        came = self._armed.lift(error)
        self._scope.__exit__(None if error is None else type(error), error, None)
        return came


def _is_cancelled() -> bool:
    try:
        trio.from_thread.check_cancelled()
    except trio.Cancelled:
        return True
    return False
