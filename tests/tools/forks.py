"""Forks of a test: what they do as whom, how they end, and their death at a moment that is chosen."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from itertools import count

NOBODY = 65534


def forked(work: Callable[[], object]) -> int:
    """Have a child do something, and return its number; it ends with 0, or with 1 if that failed."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the child must not go on as pytest
        traceback.print_exc()
    finally:
        os._exit(status)


def ended(child: int) -> int:
    """Wait for a child, and return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def said_by_fork(work: Callable[[], str]) -> str:
    """Have a child do something, and return what that gave, or how it failed."""
    reader, writer = os.pipe()

    def say() -> None:
        try:
            said = work()
        except BaseException as error:  # noqa: BLE001 - told to the parent
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode(errors="backslashreplace"))

    child = forked(say)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read().decode()
    ended(child)
    return said


def be_nobody() -> None:
    """Give up every privilege, where there is one."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def die_before(*events: str, path: str = "", at: int = 0) -> None:
    """Have this process killed before the Nth audited event of some names that is about a path."""
    left = count()

    def kill(event: str, arguments: Collection[object]) -> None:
        if event in events and path in str(arguments) and next(left) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
