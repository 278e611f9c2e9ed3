"""What an error is, and what can be done about it."""

from __future__ import annotations

import errno
from enum import Enum

from lastgood.errors import Busy, Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


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
