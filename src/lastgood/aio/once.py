"""Coroutine functions as steps that are done once in a session (rule P6)."""

from __future__ import annotations

from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

from lastgood.aio.awaited import Crew, Face
from lastgood.errors import Conflict, Usage
from lastgood.value import cast
from lastgood.workspace.once import Once, recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from lastgood.aio.bridge import Bridge
    from lastgood.model.effect import Effect

Words = ParamSpec("Words")
Result = TypeVar("Result")


class AsyncOnce(Face[Once]):
    """Makes coroutine functions steps that are done once: a decorator, made by `AsyncSession.once`.

    ``under_way`` are the steps of the session that are being done.
    """

    def __init__(self, inner: Once, *, bridge: Bridge, crew: Crew, under_way: set[str]) -> None:
        super().__init__(inner, bridge=bridge, crew=crew)
        self._under_way = under_way

    def __call__(
        self, function: Callable[Words, Coroutine[Any, Any, Result]]
    ) -> Callable[Words, Coroutine[Any, Any, Result]]:
        """Return a coroutine function as a step that is done once."""
        if not iscoroutinefunction(function):
            raise Usage("a step of an asynchronous session is a coroutine function", hint="async def ...")

        @wraps(function)
        async def once(*words: Words.args, **named: Words.kwargs) -> Result:
            name = self._inner.named(function, words, named)
            if name in self._under_way:
                raise Conflict(
                    f"the step {name} is being done right now", hint="await the first call, then the second"
                )
            self._under_way.add(name)
            try:
                step = await self._done(name, partial(function, *words, **named))
            finally:
                self._under_way.discard(name)
            return cast("Result", recorded(step))

        return once

    async def _done(self, name: str, work: Callable[[], Coroutine[Any, Any, object]]) -> Effect:
        step = await self._begun(name)
        if step.state != "running":
            return step
        try:
            result = await work()
        except BaseException as error:
            await self._certain(partial(self._inner.break_off, step, error))
            raise
        return await self._certain(partial(self._inner.end, step, result))

    async def _begun(self, name: str) -> Effect:
        begun: list[Effect] = []
        try:
            await self._call(lambda: begun.append(self._inner.begin(name)), whole=True)
        except BaseException:
            if begun and begun[0].state == "running":  # cancelled just when it was recorded: nothing was done
                nothing = InterruptedError("cancelled before it began")
                await self._certain(partial(self._inner.break_off, begun[0], nothing))
            raise
        return begun[0]
