"""`ErrorRecoverer`: what is done after an error, with the way back to a checkpoint as the last resort."""

from __future__ import annotations

import asyncio
import errno
import inspect
import logging
import random
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial, wraps
from typing import Any, TypeVar, overload

from lastgood.aio.calls import present_bridge
from lastgood.errors import Busy, LastgoodError, Storage, Usage
from lastgood.integrations.checkpoint_manager.records import RecordedCheckpoints
from lastgood.workspace.arguments import PathLike, check_count, expect

# --- What an error is, and what can be done about it ---


class RecoveryStrategy(str, Enum):  # noqa: UP042 - an Enum with values, as the skill has it
    """What is tried after an error."""

    RETRY = "retry"
    RETRY_BACKOFF = "backoff"
    ROLLBACK = "rollback"
    FIX_AND_RETRY = "fix_retry"
    SKIP = "skip"
    ESCALATE = "escalate"

    def __str__(self) -> str:
        return self.value


class ErrorCategory(str, Enum):  # noqa: UP042 - the same
    """What kind of error it is."""

    TRANSIENT = "transient"
    RESOURCE = "resource"
    SYNTAX = "syntax"
    LOGIC = "logic"
    ENVIRONMENT = "environment"
    UNRECOVERABLE = "unrecoverable"


_S, _C = RecoveryStrategy, ErrorCategory
# In order; a fix is tried only where one is known.
ORDERS: dict[ErrorCategory, tuple[RecoveryStrategy, ...]] = {
    _C.TRANSIENT: (_S.RETRY_BACKOFF, _S.ROLLBACK, _S.ESCALATE),
    _C.RESOURCE: (_S.FIX_AND_RETRY, _S.ROLLBACK, _S.ESCALATE),
    _C.SYNTAX: (_S.FIX_AND_RETRY, _S.ROLLBACK, _S.ESCALATE),
    _C.LOGIC: (_S.FIX_AND_RETRY, _S.ROLLBACK, _S.ESCALATE),
    _C.ENVIRONMENT: (_S.FIX_AND_RETRY, _S.ESCALATE),
    _C.UNRECOVERABLE: (_S.ESCALATE,),
}

_FATAL_NUMBERS = {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EIO, errno.EROFS}
_PASSING_NUMBERS = {errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ETIMEDOUT, errno.ECONNRESET} | {
    errno.ECONNREFUSED,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.EPIPE,
}
_PASSING_CODES = {408, 425, 429, 500, 502, 503, 504, 529}
_PASSING_WORDS = ("timeout", "timedout", "ratelimit", "connection", "unavailable", "overloaded", "throttl")


def category_of(error: BaseException) -> ErrorCategory:
    """Return what kind of error this is: by what it says of itself, else by what caused it."""
    return next((found for one in _chain(error) if (found := _judged(one)) is not None), _C.LOGIC)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; a chain may be a ring."""
    seen: list[BaseException] = []
    reached: BaseException | None = error
    while reached is not None and all(reached is not one for one in seen):
        seen.append(reached)
        yield reached
        reached = reached.__cause__


def _judged(error: BaseException) -> ErrorCategory | None:
    if isinstance(error, (MemoryError, RecursionError, Storage)) or _number(error) in _FATAL_NUMBERS:
        return _C.UNRECOVERABLE
    if isinstance(error, (ImportError, NotImplementedError)):
        return _C.ENVIRONMENT
    if _is_passing(error):
        return _C.TRANSIENT
    if isinstance(error, (SyntaxError, UnicodeError)) or type(error).__name__.endswith("DecodeError"):
        return _C.SYNTAX
    if isinstance(error, OSError):
        return _C.RESOURCE
    return _C.LOGIC if isinstance(error, (AssertionError, TypeError, ValueError, LookupError)) else None


def _is_passing(error: BaseException) -> bool:
    if isinstance(error, (TimeoutError, ConnectionError, InterruptedError, Busy)):
        return True
    code = _code(error)
    if _number(error) in _PASSING_NUMBERS or (isinstance(code, int) and code in _PASSING_CODES):
        return True
    name = type(error).__name__.lower()
    return any(word in name for word in _PASSING_WORDS)


def _code(error: BaseException) -> object:
    try:
        return getattr(error, "status_code", getattr(error, "status", getattr(error, "code", None)))
    except Exception:  # noqa: BLE001 - whatever a foreign exception does when it is asked
        return None


def _number(error: BaseException) -> int | None:
    return error.errno if isinstance(error, OSError) else None


# --- What a recoverer is asked for, read before anything is tried: a slip must not end in a rollback ---

# More seconds than a clock can sleep.
_ENDLESS = 1e9
_STRATEGIES = ", ".join(one.value for one in RecoveryStrategy)


def context_of(context: object) -> dict[str, Any]:
    """Return a context as a dict: it may be one, or an object with such attributes; a text says nothing.

    `Usage` for what it cannot be, before anything is tried: a slip must not end in a rollback.
    """
    if context is None or isinstance(context, str):
        return {}
    known = context if isinstance(context, Mapping) else getattr(context, "__dict__", None)
    if known is None or isinstance(context, type) or callable(context):
        raise Usage(f"the context is {type(context).__name__}, not dict", hint="give the context as a dict")
    called(known.get("operation"), "the operation")
    called(known.get("fix"), "the fix")
    expect(known.get("checkpoint"), str, type(None), what="the checkpoint")
    return dict(known)


def called(given: object, what: str) -> None:
    """Refuse what is neither a function nor None."""
    if given is not None and not callable(given):
        raise Usage(f"{what} is {type(given).__name__}, not a call", hint="hand over a function")


def seconds(given: float, what: str) -> float:
    """Return a number of seconds; `Usage` for what is none."""
    expect(given, int, float, what=what)
    if not given >= 0:
        raise Usage(f"{what} is {given}", hint="give a number of seconds")
    return float(min(given, _ENDLESS))


def orders_of(given: object) -> dict[ErrorCategory, tuple[RecoveryStrategy, ...]]:
    """Return strategies by category."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Usage(f"the orders are {type(given).__name__}, not dict", hint="give strategies by category")
    try:
        return {ErrorCategory(category): order_of(order) for category, order in given.items()}
    except ValueError as error:
        raise Usage(f"{error}", hint="categories: " + ", ".join(one.value for one in ErrorCategory)) from None


def order_of(given: object) -> tuple[RecoveryStrategy, ...]:
    """Return strategies in order, of one or several, as values or as texts."""
    several = given if isinstance(given, (list, tuple)) else (given,)
    try:
        return tuple(RecoveryStrategy(one) for one in several)
    except ValueError:
        raise Usage(f"{given!r} is no strategy", hint=f"strategies: {_STRATEGIES}") from None


# --- Drives what is written once, as steps, with an event loop or without one ---

Result = TypeVar("Result")


@dataclass(frozen=True)
class Call:
    """A foreign function, called where its user is: awaited, if it is a coroutine function."""

    work: Callable[[], Any]


@dataclass(frozen=True)
class Blocking:
    """Work of ours that takes a while: under an event loop it is done in a thread."""

    work: Callable[[], Any]


@dataclass(frozen=True)
class Pause:
    """A while of nothing."""

    seconds: float


Step = Call | Blocking | Pause


async def awaited(steps: Generator[Step, Any, Result]) -> Result:
    """Drive steps under an event loop."""
    said: Any = None
    failure: BaseException | None = None
    while True:
        try:
            step = steps.send(said) if failure is None else steps.throw(failure)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        said, failure = None, None
        try:
            if isinstance(step, Pause):
                await _sleep(step.seconds)
            elif isinstance(step, Blocking):
                said = await present_bridge().call(step.work)
            else:
                said = step.work()
                said = await said if inspect.isawaitable(said) else said
        except BaseException as error:  # noqa: BLE001 - the steps decide which they catch
            failure = error


def driven(steps: Generator[Step, Any, Result]) -> Result:
    """Drive steps without one."""
    said: Any = None
    failure: BaseException | None = None
    while True:
        try:
            step = steps.send(said) if failure is None else steps.throw(failure)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        said, failure = None, None
        try:
            if isinstance(step, Pause):
                time.sleep(step.seconds)
            else:
                said = _plain(step.work())
        except BaseException as error:  # noqa: BLE001 - the steps decide which they catch
            failure = error


def _plain(said: object) -> object:
    """Refuse what would have to be awaited: it has not been done, whatever it looks like."""
    if not inspect.iscoroutine(said):
        return said
    said.close()
    raise Usage("a coroutine function is not awaited here", hint="make the operation one too, or await it")


async def _sleep(seconds: float) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        import trio

        await trio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


# --- `ErrorRecoverer`: what is done after an error, with the way back to a checkpoint as the last resort
# ---

Function = TypeVar("Function", bound="Callable[..., Any]")

logger: logging.Logger = logging.getLogger(__name__)

_DOUBLED_MOST = 60


@dataclass(frozen=True)
class Attempt:
    """One strategy that was tried, and why it did not help; None if it did."""

    strategy: RecoveryStrategy
    failure: str | None = None


@dataclass(frozen=True)
class RecoveryResult:
    """What came of a recovery.

    ``value`` is what the operation returned where it was done again. After a rollback the project is
    as it was at ``checkpoint``; the operation is not done. ``report`` says for a person what happened.
    """

    recovered: bool
    strategy: RecoveryStrategy
    reason: str
    category: ErrorCategory
    value: Any = None
    checkpoint: str | None = None
    attempts: tuple[Attempt, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)


class ErrorRecoverer:
    """Deals with errors of autonomous work on a project.

    Transient errors are retried with growing pauses (``delay`` seconds, doubled up to ``longest``);
    what a ``fix`` mends is tried again; what stays broken is rolled back to a checkpoint, and then
    escalated. ``orders`` gives other strategies by category. It never catches an interruption.

    >>> import asyncio
    >>> async def main():
    ...     recoverer = ErrorRecoverer(project, store=store)
    ...     checkpoint = await CheckpointManager(project, store=store).create_checkpoint("start")
    ...     (project / "notes.txt").write_text("ruined")
    ...     result = await recoverer.handle_error(ValueError("broken"), {"checkpoint": checkpoint.id})
    ...     return result.recovered, result.strategy.value, (project / "notes.txt").read_text()
    >>> asyncio.run(main())
    (True, 'rollback', 'notes')
    """

    def __init__(
        self,
        project_dir: PathLike,
        *,
        store: PathLike | None = None,
        retries: int = 3,
        delay: float = 1.0,
        longest: float = 60.0,
        orders: Mapping[ErrorCategory, Sequence[RecoveryStrategy]] | None = None,
        fix: Callable[[Exception], Any] | None = None,
    ) -> None:
        self.keeper: RecordedCheckpoints = RecordedCheckpoints(project_dir, store=store)
        check_count(retries, least=0, what="the number of retries")
        self._retries = retries
        self._delay = seconds(delay, "the delay")
        self._longest = seconds(longest, "the longest delay")
        self._orders = {**ORDERS, **orders_of(orders)}
        called(fix, "the fix")
        self._fix = fix

    async def handle_error(self, error: Exception, context: object = None) -> RecoveryResult:
        """Do about an error what its category, or the context, asks for.

        The context may give ``operation`` (a function of no arguments, to be done again), ``checkpoint``
        (an id to roll back to; by default the newest checkpoint), ``strategy`` (one, or several in
        order), ``fix`` (called with the error before the operation is done again).
        """
        return await awaited(self._recover(error, context_of(context)))

    def recover_now(self, error: Exception, context: object = None) -> RecoveryResult:
        """Do the same in a program without an event loop."""
        return driven(self._recover(error, context_of(context)))

    @overload
    def with_recovery(self, function: Function) -> Function: ...
    @overload
    def with_recovery(
        self, *, strategy: object = None, fix: Callable[[Exception], Any] | None = None
    ) -> Callable[[Function], Function]: ...
    def with_recovery(
        self,
        function: Callable[..., Any] | None = None,
        *,
        strategy: object = None,
        fix: Callable[[Exception], Any] | None = None,
    ) -> Any:
        """Decorate an operation, a coroutine function or a plain one: an error in it is dealt with.

        A checkpoint of type automatic is made first. What cannot be recovered raises the operation's
        own error, also after a rollback, with a note that says so; a skipped operation returns None.
        """
        called(fix, "the fix")
        if function is None:
            _ = None if strategy is None else order_of(strategy)
            return partial(self.with_recovery, strategy=strategy, fix=fix)
        called(function, "the operation")
        order = () if strategy is None else order_of(strategy)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise Usage(
                f"{function.__name__} is a generator, which has hardly begun when it returns",
                hint="decorate the operation that goes through it",
            )
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def asynchronous(*args: object, **words: object) -> object:
                return await awaited(self._guarded(partial(function, *args, **words), order, fix))

            return asynchronous

        @wraps(function)
        def plain(*args: object, **words: object) -> object:
            return driven(self._guarded(partial(function, *args, **words), order, fix))

        return plain

    def _guarded(
        self,
        operation: Callable[[], Any],
        order: Sequence[RecoveryStrategy],
        fix: Callable[[Exception], Any] | None,
    ) -> Generator[Step, Any, Any]:
        name = getattr(getattr(operation, "func", operation), "__name__", "operation")
        made = yield Blocking(partial(self.keeper.create_checkpoint, f"before {name}", type="automatic"))
        with self.keeper.holding(made.id):
            try:
                return (yield Call(operation))
            except Exception as error:
                context = {"operation": operation, "checkpoint": made.id, "strategy": order or None}
                result = yield from self._recover(error, {**context, "fix": fix})
                if result.recovered and result.strategy is not RecoveryStrategy.ROLLBACK:
                    return result.value
                error.add_note(f"lastgood: {result.reason}")
                raise

    def _recover(self, error: Exception, context: dict[str, Any]) -> Generator[Step, Any, RecoveryResult]:
        """Try one strategy after the other until one helps."""
        if not isinstance(error, Exception):
            raise Usage(
                f"{type(error).__name__} is no error to recover from",
                hint="give the exception that was caught; an interruption goes on",
            )
        category = category_of(error)
        wanted = context.get("strategy")
        order = self._orders[category] if wanted is None else order_of(wanted)
        attempts: list[Attempt] = []
        latest = error
        for strategy in order:
            if strategy is RecoveryStrategy.ESCALATE or _is_final(latest, error):
                break
            try:
                value = yield from self._attempt(strategy, latest, context)
            except _NotPossible:
                continue
            except Exception as failure:  # noqa: BLE001 - the next strategy is for whatever it is
                attempts.append(Attempt(strategy, _short(failure)))
                if strategy is not RecoveryStrategy.ROLLBACK:
                    latest = failure
                continue
            attempts.append(Attempt(strategy))
            return _helped(strategy, value, category=category, attempts=attempts)
        return _escalated(error, latest, category=category, attempts=attempts)

    def _attempt(
        self, strategy: RecoveryStrategy, error: Exception, context: dict[str, Any]
    ) -> Generator[Step, Any, Any]:
        """Try one strategy; what it raises says why it did not help."""
        if strategy is RecoveryStrategy.SKIP:
            return None
        if strategy is RecoveryStrategy.ROLLBACK:
            named = context.get("checkpoint")
            latest, rollback = self.keeper.rollback_to_latest, self.keeper.rollback
            back = yield Blocking(latest if named is None else partial(rollback, named))
            if not back.success:
                raise _Incomplete("not everything came back: " + ", ".join(back.failed))
            return back.checkpoint.id
        operation = context.get("operation")
        if operation is None:
            raise _NotPossible
        if strategy is RecoveryStrategy.FIX_AND_RETRY:
            fix = context.get("fix") or self._fix
            if fix is None:
                raise _NotPossible
            yield Call(partial(fix, error))
            return (yield Call(operation))
        return (yield from self._again(operation, pausing=strategy is RecoveryStrategy.RETRY_BACKOFF))

    def _again(self, operation: Callable[[], Any], *, pausing: bool) -> Generator[Step, Any, Any]:
        """Do an operation again, as often as allowed; the last error counts."""
        for attempt in range(max(1, self._retries)):
            if pausing:
                spread = 1 + random.random() / 10  # noqa: S311 - so that many do not come at once
                yield Pause(min(self._delay * 2 ** min(attempt, _DOUBLED_MOST) * spread, self._longest))
            try:
                return (yield Call(operation))
            except Exception as error:
                if attempt + 1 >= self._retries or category_of(error) is ErrorCategory.UNRECOVERABLE:
                    raise
        raise _NotPossible


class _NotPossible(Exception):
    """A strategy for which something is missing."""


class _Incomplete(Exception):
    """A rollback that left something out."""


def _is_final(latest: Exception, first: Exception) -> bool:
    """Tell whether what came up meanwhile, a full disk say, leaves nothing to try."""
    return latest is not first and category_of(latest) is ErrorCategory.UNRECOVERABLE


def _helped(
    strategy: RecoveryStrategy, value: object, *, category: ErrorCategory, attempts: list[Attempt]
) -> RecoveryResult:
    back = strategy is RecoveryStrategy.ROLLBACK
    reasons = {
        RecoveryStrategy.ROLLBACK: f"rolled back to {value}",
        RecoveryStrategy.SKIP: "skipped",
        RecoveryStrategy.FIX_AND_RETRY: "fixed, and done again",
    }
    return RecoveryResult(
        recovered=True,
        strategy=strategy,
        reason=reasons.get(strategy, "done again"),
        category=category,
        value=None if back else value,
        checkpoint=str(value) if back else None,
        attempts=tuple(attempts),
    )


def _escalated(
    error: Exception, latest: Exception, *, category: ErrorCategory, attempts: list[Attempt]
) -> RecoveryResult:
    tried = ", ".join(f"{one.strategy.value}: {one.failure}" for one in attempts) or "nothing to try"
    reason = f"{_short(latest)} (tried {tried})"
    logger.error("a person is needed: %s", reason)
    report = {
        "error": _short(error),
        "category": category.value,
        "attempts": [{"strategy": one.strategy.value, "failure": one.failure} for one in attempts],
        "traceback": "".join(traceback.format_exception(error)),
    }
    return RecoveryResult(
        recovered=False,
        strategy=RecoveryStrategy.ESCALATE,
        reason=reason,
        category=category,
        attempts=tuple(attempts),
        report=report,
    )


def _short(error: BaseException) -> str:
    if isinstance(error, LastgoodError):
        return error.message
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - whatever a foreign exception does when it is asked for words
        return type(error).__name__


async def handle_error(
    error: Exception,
    context: object = None,
    *,
    project_dir: PathLike = ".",
    store: PathLike | None = None,
) -> RecoveryResult:
    """Do about an error what `ErrorRecoverer` does, for a project."""
    return await ErrorRecoverer(project_dir, store=store).handle_error(error, context)


def with_recovery(
    *,
    project_dir: PathLike = ".",
    store: PathLike | None = None,
    strategy: object = None,
    fix: Callable[[Exception], Any] | None = None,
) -> Callable[[Function], Function]:
    """Return the decorator of an `ErrorRecoverer` for a project."""
    return ErrorRecoverer(project_dir, store=store).with_recovery(strategy=strategy, fix=fix)
