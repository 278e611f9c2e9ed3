"""A session as an ``async with`` block; what it does is done by the synchronous one."""

from __future__ import annotations

from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Generic, ParamSpec, TypeVar

from lastgood.aio.bridge import AsyncFace, RunningCalls, awaited
from lastgood.errors import Conflict, Usage
from lastgood.value import cast
from lastgood.workspace.session import SIGTERM_CODE, OpenSession, Terminated, task_of, work_on
from lastgood.workspace.step import Once, recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Final, Self

    from lastgood.aio.bridge import Termination
    from lastgood.model.report import SessionEnded, SessionStarted
    from lastgood.model.session import Effect, Task
    from lastgood.workspace import Workspace


# --- Coroutine functions as steps that are done once in a session (rule P6) ---

Words = ParamSpec("Words")
Result = TypeVar("Result")
_NOT_BEGUN = "cancelled before it began"


class AsyncOnce(AsyncFace[Once]):
    """Makes coroutine functions steps that are done once: a decorator, made by `AsyncSession.once`.

    ``under_way`` are the steps of the session that are being done.
    """

    def __init__(self, inner: Once, *, running: RunningCalls, under_way: set[str]) -> None:
        super().__init__(inner, running=running)
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
        step = await self._begin(partial(self._inner.begin, name), self._undo)
        if step.state != "running":
            return step
        try:
            result = await work()
        except BaseException as error:
            await self._certain(partial(self._inner.break_off, step, error))
            raise
        return await self._certain(partial(self._inner.end, step, result))

    def _undo(self, step: Effect, _error: BaseException) -> None:
        if step.state == "running":  # nothing was done
            self._inner.break_off(step, InterruptedError(_NOT_BEGUN))


# --- A session as an ``async with`` block; what it does is done by the synchronous one ---

Begun = TypeVar("Begun")
Outer = TypeVar("Outer")


class AsyncSession(AsyncFace["OpenSession[Workspace]"], Generic[Outer]):
    """A session of this process, for programs with an event loop; made by `AsyncWorkspace.session`.

    Left by an interruption (Ctrl-C, SIGTERM, a cancellation) or by an error, it makes a checkpoint of
    that kind and stays incomplete, to be continued by `recover`; the exception goes on. A session ends
    as it should however often its task is cancelled meanwhile.

    >>> import asyncio
    >>> async def main():
    ...     async with lastgood.open_async(project, store=store) as workspace:
    ...         async with workspace.session(goal="migrate to v2") as session:
    ...             async with session.task("T01"):
    ...                 (project / "notes.txt").write_text("v2")
    ...         return [task.state for task in session.ended.session.progress.tasks]
    >>> asyncio.run(main())
    ['done']
    """

    def __init__(
        self,
        inner: OpenSession[Workspace],
        *,
        running: RunningCalls,
        face: Callable[[Workspace], Outer],
    ) -> None:
        super().__init__(inner, running=running)
        self._face = face
        self._termination: Termination | None = None
        self._under_way: set[str] = set()

    async def __aenter__(self) -> Self:
        await self._begin(
            self._inner.__enter__, lambda _begun, error: self._inner.__exit__(type(error), error, None)
        )
        self._termination = self._running.bridge().on_termination()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._certain(partial(self._inner.__exit__, kind, error, trace))
        finally:
            terminated = self._termination is not None and self._termination.lift(error)
            if terminated:
                raise Terminated(SIGTERM_CODE) from error

    save: Final = awaited(OpenSession.save)
    checkpoint = save
    show: Final = awaited(OpenSession.show)
    heartbeat: Final = awaited(OpenSession.heartbeat, whole=True)
    progress: Final = awaited(OpenSession.progress, whole=True)

    @property
    def id(self) -> str:
        """The session's id."""
        return self._inner.id

    @property
    def started(self) -> SessionStarted:
        """How it began: its first checkpoint, whom it took over from, what died before."""
        return self._inner.started

    @property
    def ended(self) -> SessionEnded | None:
        """How it ended; None while it lasts."""
        return self._inner.ended

    @property
    def environment(self) -> Mapping[str, str]:
        """What a child process needs in its environment to work in this session."""
        return self._inner.environment

    @property
    def workspace(self) -> Outer:
        """The workspace as the session sees it: every verb of it belongs to the session."""
        return self._face(self._inner.workspace)

    def task(self, id: str, *, risky: bool = False, irreversible: bool = False) -> AsyncBlock[Task]:
        """Work on a task: started, then done; or failed, with a checkpoint of kind error.

        After an interruption or cancellation it is still running, and `recover` reports its effect as
        unknown.
        """
        inner = self._inner.task(id, risky=risky, irreversible=irreversible)
        return TaskBlock(inner, running=self._running, session=self.id, id=id)

    def feature(self, id: str) -> AsyncBlock[None]:
        """Build a feature: complete when the block ends without an exception."""
        return AsyncBlock(self._inner.feature(id), running=self._running)

    def sprint(self, id: str) -> AsyncBlock[None]:
        """Work through a sprint: over when the block ends without an exception."""
        return AsyncBlock(self._inner.sprint(id), running=self._running)

    def step(self, name: str, *, irreversible: bool = False) -> AsyncBlock[Effect]:
        """Do something that must not be done twice unawares: recorded before and after (rule P6)."""
        return AsyncBlock(self._inner.step(name, irreversible=irreversible), running=self._running)

    def once(self, name: str | None = None, *, irreversible: bool = False) -> AsyncOnce:
        """Make a coroutine function a step that is done once in a session, however often the program starts.

        As `OpenSession.once` does; two calls of one step at once are refused.
        """
        return AsyncOnce(
            self._inner.once(name, irreversible=irreversible),
            running=self._running,
            under_way=self._under_way,
        )


class AsyncBlock(AsyncFace["AbstractContextManager[Begun]"], Generic[Begun]):
    """A ``with`` block whose beginning and end are blocking work; the end comes whatever happens."""

    async def __aenter__(self) -> Begun:
        return await self._begin(self._inner.__enter__, self._undo)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._certain(partial(self._inner.__exit__, kind, error, trace))

    def _undo(self, _begun: Begun, _error: BaseException) -> None:
        """End a block that was cancelled when only its beginning was recorded: nothing was done in it."""
        self._inner.__exit__(InterruptedError, InterruptedError(_NOT_BEGUN), None)


class TaskBlock(AsyncBlock["Task"]):
    """The block of a task: what its caller does in it, and starts from it, belongs to that task."""

    def __init__(
        self, inner: AbstractContextManager[Task], *, running: RunningCalls, session: str, id: str
    ) -> None:
        super().__init__(inner, running=running)
        self._session = session
        self._id = id
        self._outer: str | None = None

    async def __aenter__(self) -> Task:
        task = await super().__aenter__()
        # What the work's own thread was told is not known here: its context was a copy.
        self._outer = task_of(self._session, otherwise=None)
        work_on(self._session, self._id)
        return task

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        work_on(self._session, self._outer)
        await super().__aexit__(kind, error, trace)
