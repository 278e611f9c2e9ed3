"""How blocking work is awaited: in a thread, and never left behind running."""

from __future__ import annotations

import signal
from functools import partial, wraps
from inspect import iscoroutinefunction
from threading import Condition
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from lastgood.errors import Usage
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import FrameType
    from typing import Self, overload


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


def plain_observer(observer: Callable[[Said], object]) -> Callable[[Said], object]:
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


def call_observer(observer: Callable[[Said], object], said: Said) -> None:
    """Tell an observer; its fault never harms the operation."""
    try:
        observer(said)
    except Exception:  # noqa: BLE001 - as it is with the synchronous face
        return


# --- Makes the awaited form of a synchronous verb: the same words, types and documentation ---

Words = ParamSpec("Words")
Report_co = TypeVar("Report_co", covariant=True)
Inner = TypeVar("Inner")

if TYPE_CHECKING:
    _Call = Callable[Words, Coroutine[Any, Any, Report_co]]


class AsyncFace(Generic[Inner]):
    """Something synchronous, as an event loop sees it."""

    def __init__(self, inner: Inner, *, running: RunningCalls) -> None:
        self._inner = inner
        self._running = running

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    async def _call(self, work: Callable[[], Result], *, whole: bool = False) -> Result:
        return await self._running.bridge().call(partial(self._running.carry_out, work), whole=whole)

    async def _certain(self, work: Callable[[], Result]) -> Result:
        return await self._running.bridge().certain(partial(self._running.carry_out, work))

    async def _begin(
        self, work: Callable[[], Result], undo: Callable[[Result, BaseException], object]
    ) -> Result:
        """Await the beginning of something, undone if the call is cancelled just when it was made."""
        begun: list[Result] = []
        try:
            await self._call(lambda: begun.append(work()), whole=True)
        except BaseException as error:
            for one in begun:
                await self._certain(partial(undo, one, error))
            raise
        return begun[0]


class RunningCalls:
    """The calls of one object that are under way, in whichever threads; ``bridge`` finds that to its loop."""

    def __init__(self, bridge: Callable[[], Bridge]) -> None:
        self.bridge = bridge
        self._changed = Condition()
        self._count = 0

    def carry_out(self, work: Callable[[], Result]) -> Result:
        """Do something for which the workspace has to stay open."""
        with self._changed:
            self._count += 1
        try:
            return work()
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def dismiss(self, work: Callable[[], Result]) -> Result:
        """Do something when no call is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count)
        return work()


class Awaited(Generic[Words, Report_co]):
    """What a type checker sees of an awaited verb."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, face: None, owner: type) -> Self: ...
        @overload
        def __get__(
            self, face: AsyncFace[Any], owner: type
        ) -> Callable[Words, Coroutine[Any, Any, Report_co]]: ...
        def __get__(self, face: AsyncFace[Any] | None, owner: type) -> object: ...


def awaited(
    verb: Callable[Concatenate[Any, Words], Report_co], *, whole: bool = False, live: str | None = None
) -> Awaited[Words, Report_co]:
    """Return a verb's awaited form.

    One that is done ``whole`` goes to its end once it has started, cancelled or not. ``live`` names a
    parameter that is called meanwhile: it will be in the loop's own thread.
    """

    @wraps(verb)
    async def call(face: AsyncFace[Any], *args: Any, **words: Any) -> object:  # noqa: ANN401 - the verb's own
        if live is not None and words.get(live) is not None:
            words[live] = partial(face._running.bridge().tell, plain_observer(words[live]))  # noqa: SLF001 - it is a method of the face
        return await face._call(partial(verb, face._inner, *args, **words), whole=whole)  # noqa: SLF001 - the same

    return cast("Awaited[Words, Report_co]", call)


# --- SIGTERM within an asynchronous session: a cancellation, so that the session can end honestly ---


class CancelOnSigterm:
    """Has SIGTERM cancel something, unless the program has its own way with it."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._came = False

    @classmethod
    def here(cls, cancel: Callable[[], object]) -> CancelOnSigterm | None:
        """Return it armed; None outside the main thread, or where the signal is somebody's already."""
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return None
        armed = cls(cancel)
        try:
            signal.signal(signal.SIGTERM, armed._arrive)
        except ValueError:  # outside the main thread there are no signals to be had
            return None
        return armed

    def lift(self, _error: BaseException | None) -> bool:
        """Let the next SIGTERM kill, as it did before; tell whether one came."""
        if signal.getsignal(signal.SIGTERM) == self._arrive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return self._came

    def _arrive(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        self._cancel()
