"""Makes the awaited twin of a synchronous verb: the same words, types and documentation."""

from __future__ import annotations

from functools import partial, wraps
from threading import Condition
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from lastgood.aio.bridge import plain
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Self, overload

    from lastgood.aio.bridge import Bridge, Result

Words = ParamSpec("Words")
Report_co = TypeVar("Report_co", covariant=True)
Inner = TypeVar("Inner")

if TYPE_CHECKING:
    _Call = Callable[Words, Coroutine[Any, Any, Report_co]]


class Face(Generic[Inner]):
    """Something synchronous, as an event loop sees it."""

    def __init__(self, inner: Inner, *, bridge: Bridge, crew: Crew) -> None:
        self._inner = inner
        self._bridge = bridge
        self._crew = crew

    async def _call(self, work: Callable[[], Result], *, whole: bool = False) -> Result:
        return await self._bridge.call(partial(self._crew.carry_out, work), whole=whole)

    async def _certain(self, work: Callable[[], Result]) -> Result:
        return await self._bridge.certain(partial(self._crew.carry_out, work))


class Crew:
    """The calls of one open workspace that are under way, in whichever threads."""

    def __init__(self) -> None:
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
            self, face: Face[Any], owner: type
        ) -> Callable[Words, Coroutine[Any, Any, Report_co]]: ...
        def __get__(self, face: Face[Any] | None, owner: type) -> object: ...


def awaited(
    verb: Callable[Concatenate[Any, Words], Report_co], *, whole: bool = False, live: str | None = None
) -> Awaited[Words, Report_co]:
    """Return a verb's awaited twin.

    One that is done ``whole`` goes to its end once it has started, cancelled or not. ``live`` names a
    parameter that is called meanwhile: it will be in the loop's own thread.
    """

    @wraps(verb)
    async def call(face: Face[Any], *args: Any, **words: Any) -> object:  # noqa: ANN401 - the verb's own
        if live is not None and words.get(live) is not None:
            words[live] = partial(face._bridge.tell, plain(words[live]))  # noqa: SLF001 - the twin is a method of it
        return await face._call(partial(verb, face._inner, *args, **words), whole=whole)  # noqa: SLF001 - the same

    return cast("Awaited[Words, Report_co]", call)
