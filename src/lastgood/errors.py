"""Every failure a caller can meet, grouped by what the catcher does about it.

LastgoodError                code            exit
├── Usage     (TypeError)    usage             2    correct the call
├── NotFound  (LookupError)  not-found        10    name something that exists
├── Ambiguous                ambiguous        11    choose one of the candidates
├── Invalid   (ValueError)   invalid          12    correct the value
├── Conflict                 conflict         13    look at what changed, decide again
├── Busy                     busy             14    wait, or run `lastgood recover`
├── Unsafe                   unsafe           15    do it another way
├── Damaged                  damaged          16    `lastgood verify --repair`
├── Unsupported              unsupported      17    upgrade, or install what is missing
├── Storage                  storage           1    mend the disk, or make it writable
│   └── NoRoom               storage          14    free space: `lastgood prune --now`
└── Internal                 internal          1    report it
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

# Nothing more can be opened, by this process or on this machine: that says nothing of what was to be opened.
CROWDED = frozenset({errno.EMFILE, errno.ENFILE})
# A disk has no room, or lets this user have no more of it: what is said of that, `disk.py`.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class LastgoodError(Exception):
    """The root of all failures of this package.

    ``message`` says what and why, ``hint`` what to do next, ``details`` hold what a program would
    want to know (JSON-compatible values only). As text it is the message with the hint below it: that is
    what tracebacks, logs and agents show.
    """

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", details: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, object] = {} if details is None else details

    def __str__(self) -> str:
        told = not self.hint or self.hint in self.message
        return self.message if told else f"{self.message}\nhint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.details))


def _rebuild(
    error: type[LastgoodError], message: str, hint: str, details: dict[str, object]
) -> LastgoodError:
    return error(message, hint=hint, details=details)


class Usage(LastgoodError, TypeError):
    """The command line or the call itself is malformed."""

    code = "usage"
    exit_code = 2


class NotFound(LastgoodError, LookupError):
    """A named checkpoint, path, workspace or store does not exist."""

    code = "not-found"
    exit_code = 10


class Ambiguous(LastgoodError):
    """A reference fits several checkpoints; ``details["candidates"]`` lists their ids."""

    code = "ambiguous"
    exit_code = 11


class Invalid(LastgoodError, ValueError):
    """A value is of the wrong form: a name, a pattern, a setting, a reference."""

    code = "invalid"
    exit_code = 12


class Conflict(LastgoodError):
    """The world changed since the plan, or since the operation to be undone; ``details["paths"]``."""

    code = "conflict"
    exit_code = 13


class Busy(LastgoodError):
    """Another owner holds what is needed, an interrupted restore waits, or the machine has no room for it."""

    code = "busy"
    exit_code = 14


class Unsafe(LastgoodError):
    """Going on could harm something that is not ours: refused before the first write."""

    code = "unsafe"
    exit_code = 15


class Damaged(LastgoodError):
    """Bytes or facts in the store are not what they were."""

    code = "damaged"
    exit_code = 16


class Unsupported(LastgoodError):
    """A newer format, a missing program, or a platform that cannot do it."""

    code = "unsupported"
    exit_code = 17


class Storage(LastgoodError):
    """The store could not be read or written: read-only, input/output error; `NoRoom` where it is full."""

    code = "storage"
    exit_code = 1


class NoRoom(Storage):
    """A disk is full: it has no room for more bytes, or none for another file."""

    exit_code = 14


class Internal(LastgoodError):
    """A fault of lastgood itself."""

    code = "internal"
    exit_code = 1


def crowded(fault: BaseException) -> Busy | None:
    """Return what is said of a failure if too many open files are its cause, None if something else is."""
    cause: BaseException | None = fault
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in CROWDED:
            where = "in this process" if cause.errno == errno.EMFILE else "on this machine"
            return Busy(
                f"too many files are open {where}: not one more could be opened",
                hint="let it close some, or allow more (ulimit -n 1024), then try again"
                "\nif a restore was at work: lastgood recover",
                details={"errno": errno.errorcode[cause.errno]},
            )
        cause = cause.__cause__
    return None


def count(amount: int, noun: str) -> str:
    """Return a number with its noun in the right form, as every message has it."""
    plural = noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"
    return f"{amount:,} {noun if amount == 1 else plural}"
