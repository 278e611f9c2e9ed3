"""Telling an event that a host tells of twice, since hooks of ours are in two of its places.

Each hook adds a line to a small file beside the workspace's caches, and then looks whether another one had
said the same before it. One that failed to carry the event out adds another line, and counts as never told
of it. The file may go at any time: then one event may count twice, as without it.
"""

from __future__ import annotations

import os
from _blake2 import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.context import Context
    from lastgood.hooks.event import HookEvent

_FILE = b"/events"
# A host gives a hook a minute: what it tells of twice begins within that.
_WITHIN = 60_000_000_000
# When the file is longer than that, what it says of before is let go.
_MOST = 1 << 14
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
# These happen once in the life of a host, whatever that calls them.
_ONCE = frozenset({"session-start", "session-end"})
_BEGUN, _FAILED = range(2)


def is_repeated(context: Context, event: HookEvent, said: bytes, *, caller: int) -> bool:
    """Tell whether an event need not be carried out, as another hook than ``caller`` is or was told of it.

    ``said`` is what the host sent. What nothing tells from another event of its kind is none of before.
    Where that fails, `note_failure` leaves it to the next one.
    """
    if not _is_noted(event):
        return False
    digest, now = _digest(event, said), context.clock.now()
    try:
        content = _add(context, b"%s %d %d %d\n" % (digest, _BEGUN, caller, now))
    except OSError:
        return False  # to keep something twice is better than not at all
    return _first(content, digest, now=now) not in {None, caller}


def note_failure(context: Context, event: HookEvent, said: bytes, *, caller: int) -> None:
    """Note that the next hook that is told of an event has to carry it out."""
    if not _is_noted(event):
        return
    try:
        _add(context, b"%s %d %d %d\n" % (_digest(event, said), _FAILED, caller, context.clock.now()))
    except OSError:
        return  # as when the file went


def _is_noted(event: HookEvent) -> bool:
    return event.moment is not None or event.kind in _ONCE


def _digest(event: HookEvent, said: bytes) -> bytes:
    head = f"{event.kind} {event.owner} ".encode()
    return blake2b(head + said, digest_size=16).hexdigest().encode()


def _add(context: Context, line: bytes) -> bytes:
    """Add a line to the file, and return what it says with it."""
    path = b"/".join((context.store, b"workspaces", context.key.encode())) + _FILE
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    descriptor = os.open(path, _FLAGS, 0o600)
    try:
        os.write(descriptor, line)
        content = os.pread(descriptor, _MOST + len(line), 0)
        if len(content) > _MOST:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, line)
    finally:
        os.close(descriptor)
    return content


def _first(content: bytes, digest: bytes, *, now: int) -> int | None:
    """Return which process was the first to be told of an event and did not fail."""
    first = None
    for one, state, caller, at in _lines(content):
        if one != digest or abs(now - at) >= _WITHIN:
            continue
        if state == _BEGUN and first is None:
            first = caller
        elif state == _FAILED and first == caller:
            first = None
    return first


def _lines(content: bytes) -> Iterator[tuple[bytes, int, int, int]]:
    for line in content.splitlines():
        digest, *numbers = line.split() or (b"",)
        if len(numbers) == 3 and all(one.isdigit() for one in numbers):  # else torn
            yield digest, int(numbers[0]), int(numbers[1]), int(numbers[2])
