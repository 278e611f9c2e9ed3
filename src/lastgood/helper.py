"""The composition root of the process that scans for callers with other threads.

It reads one question from descriptor 0 and writes one answer to descriptor 1. Descriptor 0 stays
open on the other side as long as the caller lives; when it closes, the kernel ends this process.
"""

from __future__ import annotations

import fcntl
import os
from _signal import (  # type: ignore[import-not-found]  # the public module costs an enum
    SIG_DFL,
    SIG_UNBLOCK,
    SIGIO,
    pthread_sigmask,
    signal,
)
from marshal import dumps, loads

from lastgood.adapters.clock import SystemClock
from lastgood.adapters.git.engine import GitEngine
from lastgood.adapters.scan.remote import ANSWER, LENGTH_BYTES, NOT_WRITTEN
from lastgood.adapters.scan.scanner import WorkspaceScanner
from lastgood.adapters.scan.wire import plain_scan, request_of
from lastgood.errors import LastgoodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Answer one question and end."""
    os.chdir("/")
    question = loads(_read(int.from_bytes(_read(LENGTH_BYTES), "big")))  # noqa: S302 - our own process wrote it
    _end_with_caller()
    try:
        answer = _scan(question)
    except LastgoodError as error:
        answer = {"error": _plain(error)}
    os._exit(_tell(ANSWER + dumps(answer)))


def _tell(answer: bytes) -> int:
    """Write the answer and return the exit status."""
    rest = memoryview(answer)
    try:
        os.ftruncate(1, 0)
        while rest:
            rest = rest[os.write(1, rest) :]
    except OSError:
        return NOT_WRITTEN
    return 0


def _scan(question: dict[str, Any]) -> dict[str, object]:
    store = question["store"]
    engine = GitEngine(store + b"/objects.git", temporary=store + b"/tmp")
    scanner = WorkspaceScanner(cache=question["cache"], clock=SystemClock(), objects=engine)
    writer = engine.resume(question["detached"])
    scan = scanner.scan(request_of(question["request"]), writer=writer)
    return {"scan": plain_scan(scan), "detached": dict(writer.detach())}


def _plain(error: LastgoodError) -> dict[str, object]:
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "details": error.details,
    }


def _end_with_caller() -> None:
    """Have the kernel send a deadly signal as soon as the other end of descriptor 0 closes."""
    signal(SIGIO, SIG_DFL)
    pthread_sigmask(SIG_UNBLOCK, {SIGIO})
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    try:
        os.read(0, 1)
    except BlockingIOError:  # the caller lives, and has no more to say
        return
    os._exit(1)


def _read(size: int) -> bytes:
    pieces = []
    while size:
        piece = os.read(0, size)
        if not piece:
            os._exit(1)  # the caller is gone
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
