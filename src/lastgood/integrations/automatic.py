"""Checkpoints by themselves, for any agent written in Python: before risky calls, after each turn.

>>> from lastgood.integrations.automatic import Automatic
>>> with lastgood.open(project, store=store) as workspace:
...     automatic = Automatic(workspace)
...
...     @automatic.risky
...     def rewrite(text: str) -> None:
...         (project / "notes.txt").write_text(text)
...
...     with automatic.turn("tidy up the notes"):
...         rewrite("tidy")
...     [checkpoint.kind for checkpoint in workspace.list()]
['turn', 'risky']

Which moments make one is for the settings to say (``auto.enabled``, ``auto.on``); an unchanged workspace
makes none. What an interruption leaves is kept by the session that it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from types import TracebackType
from typing import Any, Generic, Literal, ParamSpec, Self, TypedDict, TypeVar, overload
from warnings import warn

from lastgood.aio import AsyncWorkspace
from lastgood.errors import LastgoodError, Usage
from lastgood.model.checkpoint import Actor, Checkpoint, SaveReport
from lastgood.settings import Settings
from lastgood.value import Value
from lastgood.workspace import Workspace
from lastgood.workspace.session import reason_of

Occasion = Literal["risky", "turn"]
Messages = Callable[[], Iterable[Mapping[str, object]]]


class _Said(TypedDict):
    kind: Literal["risky", "turn", "error"]
    actor: Actor | None
    tokens: int | None
    messages: Iterable[Mapping[str, object]] | None


_Order = tuple[str, _Said]


Words = ParamSpec("Words")
Result = TypeVar("Result")
AnyWorkspace = TypeVar("AnyWorkspace", "Workspace", "AsyncWorkspace")


class _When(Value):
    """When a checkpoint is made, and what it says beside the files."""

    occasion: Occasion
    what: str
    settings: Settings
    messages: Messages | None
    tokens: Callable[[], int] | None
    actor: Actor | None

    def before(self) -> _Order | None:
        """Return what to save before a block."""
        if self.occasion != "risky" or not self.settings.auto.wants("risky"):
            return None
        return f"before {self.what}" if self.what else "", self._said("risky")

    def after(self, error: BaseException | None) -> _Order | None:
        """Return what to save after a block; what an interruption leaves is for its session to keep."""
        if self.occasion != "turn" or not (error is None or isinstance(error, Exception)):
            return None
        kind: Literal["turn", "error"] = "turn" if error is None else "error"
        if not self.settings.auto.wants(kind):
            return None
        return self.what if error is None else reason_of(error), self._said(kind)

    def _said(self, kind: Literal["risky", "turn", "error"]) -> _Said:
        messages = self.messages
        return {
            "kind": kind,
            "actor": self.actor,
            "tokens": None if self.tokens is None else _asked(self.tokens, "tokens"),
            "messages": None if messages is None else _asked(lambda: list(messages()), "messages"),
        }


class _Automatic(Generic[AnyWorkspace]):
    """What both faces share."""

    def __init__(
        self,
        workspace: AnyWorkspace,
        *,
        messages: Messages | None = None,
        tokens: Callable[[], int] | None = None,
        actor: Actor | None = None,
    ) -> None:
        self._workspace: AnyWorkspace = workspace
        self._messages = messages
        self._tokens = tokens
        self._actor = actor

    def _habit(self, occasion: Occasion, what: object) -> _When:
        return _When(
            occasion=occasion,
            what=what if isinstance(what, str) else "",
            settings=self._workspace.settings,
            messages=self._messages,
            tokens=self._tokens,
            actor=self._actor,
        )


class _Moment(Generic[AnyWorkspace]):
    """What both faces share; ``checkpoint`` is the one that was made or equalled, None if none was wanted."""

    def __init__(self, workspace: AnyWorkspace, habit: _When) -> None:
        self.checkpoint: Checkpoint | None = None
        self._workspace: AnyWorkspace = workspace
        self._habit = habit

    def _made(self, report: SaveReport) -> None:
        self.checkpoint = report.checkpoint

    def _named(self, function: Callable[..., object]) -> _When:
        habit = self._habit if self._habit.what else self._habit.replace(what=_name_of(function))
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise Usage(
                f"{habit.what} is a generator, which has hardly begun when it returns",
                hint="put the block around what it does: with automatic.turn(...)",
            )
        return habit


class Automatic(_Automatic["Workspace"]):
    """Makes checkpoints of a workspace around the calls of an agent.

    ``messages`` returns the conversation so far and ``tokens`` how many were used; every checkpoint then
    holds them. ``actor`` is who is at work, which counts within a session.
    """

    @overload
    def risky(self, what: Callable[Words, Result]) -> Callable[Words, Result]: ...
    @overload
    def risky(self, what: str = "") -> Moment: ...
    def risky(self, what: Callable[Words, Result] | str = "") -> Callable[Words, Result] | Moment:
        """Make a checkpoint before a call or block that may do harm; without one it is not begun.

        Used as ``@automatic.risky``, ``@automatic.risky("drop the table")`` or ``with
        automatic.risky("drop the table") as moment``, where ``moment.checkpoint`` is what to go back to.
        """
        moment = Moment(self._workspace, self._habit("risky", what))
        return moment if isinstance(what, str) else moment(what)

    @overload
    def turn(self, what: Callable[Words, Result]) -> Callable[Words, Result]: ...
    @overload
    def turn(self, what: str = "") -> Moment: ...
    def turn(self, what: Callable[Words, Result] | str = "") -> Callable[Words, Result] | Moment:
        """Make a checkpoint after a call or block; of kind error if it fails.

        Used as `risky` is. One that cannot be made is a warning: what was done stays done.
        """
        moment = Moment(self._workspace, self._habit("turn", what))
        return moment if isinstance(what, str) else moment(what)


class Moment(_Moment["Workspace"]):
    """A block or function with a checkpoint before or after it."""

    def __call__(self, function: Callable[Words, Result]) -> Callable[Words, Result]:
        """Return a function that does the same, with a checkpoint at each call."""
        habit = self._named(function)
        if _is_awaited(function):
            raise Usage(
                f"{habit.what} is awaited, and its workspace is not",
                hint="open it by lastgood.open_async, and use AsyncAutomatic",
            )

        @wraps(function)
        def called(*args: Words.args, **words: Words.kwargs) -> Result:
            with Moment(self._workspace, habit):
                return function(*args, **words)

        return called

    def __enter__(self) -> Self:
        self._save(self._habit.before())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._save(self._habit.after(error))
        except LastgoodError as failure:
            _tell(failure, error)

    def _save(self, order: _Order | None) -> None:
        if order is not None:
            self._made(self._workspace.save(order[0], **order[1]))


class AsyncAutomatic(_Automatic["AsyncWorkspace"]):
    """Makes checkpoints of a workspace around the coroutines of an agent; otherwise as `Automatic`."""

    @overload
    def risky(
        self, what: Callable[Words, Coroutine[Any, Any, Result]]
    ) -> Callable[Words, Coroutine[Any, Any, Result]]: ...
    @overload
    def risky(self, what: str = "") -> AsyncMoment: ...
    def risky(
        self, what: Callable[Words, Coroutine[Any, Any, Result]] | str = ""
    ) -> Callable[Words, Coroutine[Any, Any, Result]] | AsyncMoment:
        """Make a checkpoint before a call or block that may do harm; without one it is not begun.

        Used as ``@automatic.risky``, ``@automatic.risky("drop the table")`` or ``async with
        automatic.risky("drop the table") as moment``, where ``moment.checkpoint`` is what to go back to.
        """
        moment = AsyncMoment(self._workspace, self._habit("risky", what))
        return moment if isinstance(what, str) else moment(what)

    @overload
    def turn(
        self, what: Callable[Words, Coroutine[Any, Any, Result]]
    ) -> Callable[Words, Coroutine[Any, Any, Result]]: ...
    @overload
    def turn(self, what: str = "") -> AsyncMoment: ...
    def turn(
        self, what: Callable[Words, Coroutine[Any, Any, Result]] | str = ""
    ) -> Callable[Words, Coroutine[Any, Any, Result]] | AsyncMoment:
        """Make a checkpoint after a call or block; of kind error if it fails.

        Used as `risky` is. One that cannot be made is a warning: what was done stays done.
        """
        moment = AsyncMoment(self._workspace, self._habit("turn", what))
        return moment if isinstance(what, str) else moment(what)


class AsyncMoment(_Moment["AsyncWorkspace"]):
    """A block or coroutine function with a checkpoint before or after it."""

    def __call__(
        self, function: Callable[Words, Coroutine[Any, Any, Result]]
    ) -> Callable[Words, Coroutine[Any, Any, Result]]:
        """Return a coroutine function that does the same, with a checkpoint at each call."""
        habit = self._named(function)
        if not _is_awaited(function):
            raise Usage(
                f"{habit.what} is not awaited, and its workspace is",
                hint="make it a coroutine function, or use Automatic with lastgood.open",
            )

        @wraps(function)
        async def called(*args: Words.args, **words: Words.kwargs) -> Result:
            async with AsyncMoment(self._workspace, habit):
                return await function(*args, **words)

        return called

    async def __aenter__(self) -> Self:
        await self._save(self._habit.before())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._save(self._habit.after(error))
        except LastgoodError as failure:
            _tell(failure, error)

    async def _save(self, order: _Order | None) -> None:
        if order is not None:
            self._made(await self._workspace.save(order[0], **order[1]))


def _is_awaited(function: Callable[..., object]) -> bool:
    """Tell whether what a function, or an object that is called like one, returns has to be awaited."""
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def _asked(call: Callable[[], Result], what: str) -> Result:
    """Ask the program for what a checkpoint should hold beside the files."""
    try:
        return call()
    except Exception as error:
        raise Usage(
            f"{what}() failed: {reason_of(error)}", hint=f"hand over a call that returns {what}"
        ) from error


def _name_of(function: Callable[..., object]) -> str:
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name.rpartition("<locals>.")[2]


def _tell(failure: LastgoodError, error: BaseException | None) -> None:
    """Say that a checkpoint could not be made: beside the error that goes on, else as a warning."""
    told = f"lastgood made no checkpoint: {failure.message} ({failure.hint})"
    if error is None:
        warn(told, RuntimeWarning, stacklevel=3)
    else:
        error.add_note(told)
