"""The composition root of the process that scans for callers with other threads.

It reads questions from descriptor 0, writes each answer to descriptor 2 and announces it on descriptor 1.
Descriptor 0 stays open on the other side as long as the caller wants it; when it closes, a signal of the
kernel ends this process, also in the middle of a scan.
"""

from __future__ import annotations

import fcntl
import os
from _signal import (  # type: ignore[import-not-found]  # the public module costs an enum
    SIG_DFL,
    SIG_UNBLOCK,
    SIGALRM,
    SIGINT,
    SIGIO,
    alarm,
    pthread_sigmask,
    signal,
)
from _thread import _count
from marshal import dumps, loads

from lastgood.errors import LastgoodError
from lastgood.host import SystemClock
from lastgood.objects.engine import GitEngine
from lastgood.scanner.cache import CacheMemory
from lastgood.scanner.remote import ANSWER, LAST, LENGTH_BYTES, NOT_WRITTEN, READY, plain_scan, request_of
from lastgood.scanner.scan import WorkspaceScanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from lastgood.scanner.cache import CachedTree

# So long it waits for a question: a fork of the caller may hold the other end open for ever.
PATIENCE_SECONDS = 60
# What the caller had inherited, and handed on: whoever waits for its end should not wait for this process.
_FIRST_FOREIGN = 3
_PAST_FOREIGN = 1 << 16
_DEADLY = (SIGALRM, SIGINT)


def main() -> None:
    """Answer questions until the caller is gone, or none comes any more."""
    os.chdir("/")
    os.closerange(_FIRST_FOREIGN, _PAST_FOREIGN)
    for deadly in _DEADLY:
        signal(deadly, SIG_DFL)
    signal(SIGIO, _end_if_alone)
    pthread_sigmask(SIG_UNBLOCK, (*_DEADLY, SIGIO))
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    while _answer_one():
        pass
    os._exit(0)


def _answer_one() -> bool:
    """Answer one question, and tell whether another may come."""
    alarm(PATIENCE_SECONDS)
    question = loads(_read(int.from_bytes(_read(LENGTH_BYTES), "big")))  # noqa: S302 - our own process wrote it
    alarm(0)
    os.ftruncate(2, 0)
    _end_with_caller()
    try:
        answer = _scan(question)
    except LastgoodError as error:
        answer = {"error": _plain(error)}
        lasting = False
    else:
        # A pack that is handed over stays locked until the end; beside a thread nothing can be forked.
        lasting = not answer["detached"]["path"] and not _count()
    said = ANSWER + dumps(answer)
    announced = (READY if lasting else LAST) if _write(said) else NOT_WRITTEN
    _outlive_caller()
    os.write(1, announced + len(said).to_bytes(LENGTH_BYTES, "big"))
    return announced == READY


def _write(said: bytes) -> bool:
    """Write an answer, and tell whether there was room for it."""
    rest = memoryview(said)
    try:
        while rest:
            rest = rest[os.write(2, rest) :]
    except OSError:
        return False
    return True


# What the last scan left, as far as it is what lies on the disk.
_left: list[CachedTree] = []


def _scan(question: dict[str, Any]) -> dict[str, Any]:
    store, known = question["store"], _left.pop() if _left else None
    engine = GitEngine(store + b"/objects.git", temporary=store + b"/tmp")
    try:
        memory = CacheMemory(question["cache"], known=known)
        scanner = WorkspaceScanner(
            cache=question["cache"], clock=SystemClock(), objects=engine, memory=memory
        )
        writer = engine.resume(question["detached"])
        try:
            scan = scanner.scan(request_of(question["request"]), writer=writer)
        except LastgoodError:
            writer.abandon()  # what was handed over is of no use to a caller that fails
            raise
        if not scan.worth_keeping:
            _left.append(scan.snapshot)
        plain = plain_scan(scan, known=question["known"])
        return {"scan": plain, "detached": dict(writer.detach())}
    finally:
        engine.close()


def _plain(error: LastgoodError) -> dict[str, object]:
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "details": error.details,
    }


def _end_with_caller() -> None:
    """Have the kernel send a signal as soon as the other end of descriptor 0 closes."""
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    try:
        os.read(0, 1)
    except BlockingIOError:  # the caller lives, and has no more to say
        return
    os._exit(1)


def _end_if_alone(_number: int, _frame: FrameType | None) -> None:
    """End if nobody holds the other end: a question's own signal may come after it was read."""
    from select import POLLHUP, poll

    waiting = poll()
    waiting.register(0, POLLHUP)
    if waiting.poll(0):
        os._exit(1)


def _outlive_caller() -> None:
    """Take that back: the next that comes is a question, or the end of what there is to read."""
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) & ~(os.O_ASYNC | os.O_NONBLOCK))


def _read(size: int) -> bytes:
    pieces = []
    while size:
        piece = os.read(0, size)
        if not piece:
            os._exit(1)  # the caller is gone
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
