"""Telling an event that a host tells of twice, since hooks of ours are in two of its places.

Each hook adds a line to a small file beside the workspace's caches, and then looks whether another one had
said the same before it. The file may go at any time: then one event may count twice, as without it.
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


def is_repeated(context: Context, event: HookEvent, said: bytes, *, caller: int) -> bool:
    """Tell whether another hook than the one that ``caller`` is was told of just this event before.

    ``said`` is what the host sent. What nothing tells from another event of its kind is none of before.
    """
    if event.moment is None and event.kind not in _ONCE:
        return False
    head = f"{event.kind} {event.owner} ".encode()
    digest = blake2b(head + said, digest_size=16).hexdigest().encode()
    path = b"/".join((context.store, b"workspaces", context.key.encode())) + _FILE
    now = context.clock.now()
    try:
        return _first(path, digest, line=b"%s %d %d\n" % (digest, caller, now), now=now) not in {None, caller}
    except OSError:
        return False  # to keep something twice is better than not at all


def _first(path: bytes, digest: bytes, *, line: bytes, now: int) -> int | None:
    """Add a line to the file, and return which process was the first to say what it says."""
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
    recent = (caller for one, caller, at in _lines(content) if one == digest and abs(now - at) < _WITHIN)
    return next(recent, None)


def _lines(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    for line in content.splitlines():
        digest, *numbers = line.split()
        if len(numbers) == 2 and all(one.isdigit() for one in numbers):  # else torn
            yield digest, int(numbers[0]), int(numbers[1])
