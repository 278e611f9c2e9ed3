"""How blocking work is awaited: in a thread, and never left behind running."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Protocol, TypeVar

from lastgood.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")
Said = TypeVar("Said")

# How many calls of one open workspace run at once; a call that waits for a lock takes up a thread.
MOST_AT_ONCE = 8


class Bridge(Protocol):
    """What an event loop offers for blocking work."""

    async def call(self, work: Callable[[], Result], *, whole: bool = False) -> Result:
        """Await work done in a thread.

        Cancelled before it starts, it never does. Cancelled later, it is asked to give up where it
        waits with nothing half done, unless it is to be done ``whole``; in any case it is over when
        the cancellation goes on.
        """

    async def certain(self, work: Callable[[], Result]) -> Result:
        """Await work that has to be done although the caller is cancelled, or soon will be."""

    def tell(self, observer: Callable[[Said], object], said: Said) -> None:
        """Have an observer called in the loop's own thread, soon and in order; called from any thread."""

    def on_termination(self) -> Termination | None:
        """Have SIGTERM cancel what the present task does; None where it is not ours to do so."""


class Termination(Protocol):
    """SIGTERM as a cancellation, until it is lifted."""

    def lift(self, error: BaseException | None) -> bool:
        """Let SIGTERM be as it was before, and tell whether one came; ``error`` ended what was to be done."""


def plain(observer: Callable[[Said], object]) -> Callable[[Said], object]:
    """Return an observer that is a plain call; `Usage` for one that would have to be awaited."""
    if not callable(observer):
        raise Usage(f"the observer is {type(observer).__name__}, not a call", hint="hand over a function")
    if iscoroutinefunction(observer) or iscoroutinefunction(type(observer).__call__):
        raise Usage("an observer is not awaited", hint="hand it a plain call, such as queue.put_nowait")
    return observer


def foreign_loop() -> Usage:
    """Return what is said to whoever calls from another loop than the one that it was opened in."""
    return Usage(
        "this was opened in another event loop",
        hint="open it where it is used: async with lastgood.open_async(path) as workspace",
    )


def heard(observer: Callable[[Said], object], said: Said) -> None:
    """Tell an observer; its fault never harms the operation."""
    try:
        observer(said)
    except Exception:  # noqa: BLE001 - as it is with the synchronous face
        return
