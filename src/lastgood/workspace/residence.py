"""Whether a process watches a workspace, how, and why none does (decision 051)."""

from __future__ import annotations

import os
import socket
import struct
import sys

from lastgood.files import PRIVATE_FILE, unlink_quietly
from lastgood.model.checkpoint import HealthNote
from lastgood.resident import HEAD, ON_DEMAND, SOCKET, greeting
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.context import Context
    from lastgood.errors import LastgoodError

# What the process that watches leaves word in, beside the lock that it holds; without that it says nothing.
_WORD = b"/watch"
_LIMIT = 4096
_PATIENCE = 0.25
_PEER = struct.Struct("iII")
_BY_HAND = "lastgood watch --background"


def tell_watch(context: Context, *, by_hand: bool, unwatched: int, local: bool) -> None:
    """Leave word of how a workspace is watched; a store that is full or read-only does not need it."""
    _write(context, f"by-hand {int(by_hand)}\nunwatched {unwatched}\nlocal {int(local)}\n")


def tell_failure(context: Context, error: LastgoodError) -> None:
    """Leave word of why a workspace is not watched although somebody wanted it."""
    message = " ".join(error.message.split())
    _write(context, f"failed {message}\n")


def forget_watch(context: Context) -> None:
    """Take the word back."""
    unlink_quietly(_place(context))


class Watching:
    """How a workspace is watched, as who does it says."""

    def __init__(self, context: Context) -> None:
        told = _told(context)
        self.is_watched: bool = context.locks.is_watched(context.key)
        self._is_by_hand = told.get("by-hand") != "0"
        self._unwatched = told.get("unwatched", "0")
        self._is_local = told.get("local") != "0"
        self._failure = told.get("failed")
        self._context = context

    def note(self) -> HealthNote | None:
        """Return why it is not watched, not all of it, or not by hand; None where there is nothing to say."""
        if not self.is_watched:
            return self._absence()
        if not self._is_local:
            return HealthNote(
                code="file-system",
                message="the system does not tell of all changes on this file system: each save looks at"
                " everything",
                hint="nothing has to be done; saves take as long as without it",
            )
        if self._unwatched != "0":
            return HealthNote(
                code="watch-limit",
                message=f"{self._unwatched} directories are beyond a quarter of"
                " fs.inotify.max_user_watches: each save looks at them",
                hint="raise it: sysctl fs.inotify.max_user_watches=524288",
            )
        if not self._is_by_hand:
            return HealthNote(
                code="on-demand",
                message=f"in the background, while there is work{self._interval()}",
                hint=f"one whenever the files come to rest: {_BY_HAND}",
            )
        return None

    def _interval(self) -> str:
        from lastgood.quantities import span  # lazily: a save tells of nothing

        auto = self._context.settings.auto
        return f"; a checkpoint each {span(auto.interval)} of changes" if auto.wants("interval") else ""

    def _absence(self) -> HealthNote:
        if sys.platform != "linux":
            return HealthNote(
                code="unsupported",
                message="this system does not tell of changes in a way that lastgood knows",
                hint="a timer does as well: lastgood save",
            )
        context = self._context
        if context.locks.is_served():
            found = greeted(context.store)
            if found is not None and not found.is_same:
                return HealthNote(
                    code="other-version",
                    message="the process that watches is of another lastgood: it is not asked",
                    hint="end it: lastgood watch --stop",
                )
            return HealthNote(
                code="other-workspace",
                message="the process that watches has not begun with this workspace",
                hint=f"a hook in it begins, or by hand: {_BY_HAND}",
            )
        if self._failure is not None:
            return HealthNote(code="failed", message=self._failure, hint=f"try again: {_BY_HAND}")
        if context.settings.watch.on_demand == "never":
            return HealthNote(
                code="switched-off",
                message="the configuration has nothing start it: watch.on_demand is 'never'",
                hint=f"by hand: {_BY_HAND}",
            )
        return HealthNote(
            code="not-started",
            message="nothing has started one yet"
            + ("; hooks of an agent's host do" if context.settings.watch.on_demand == "hooks" else ""),
            hint=f"by hand: {_BY_HAND}",
        )


class Greeting(Value):
    """What a process at the socket says of itself; ``version`` are the protocol's and the program's."""

    pid: int
    version: tuple[int, ...]
    is_same: bool
    is_by_hand: bool


def greeted(store: bytes) -> Greeting | None:
    """Return how the process at a store's socket greets; None where none does in time, or a stranger does."""
    folder = -1
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE)
        try:
            folder = os.open(store, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            connection.connect(f"/proc/self/fd/{folder}/{SOCKET}")
            said = connection.recv(_LIMIT)
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        except OSError:
            return None
        finally:
            if folder >= 0:
                os.close(folder)
    pid, user, _ = _PEER.unpack(credentials)
    if user != os.geteuid() or not said.startswith(HEAD):
        return None
    line, _, why = said.partition(b"\n")
    return Greeting(
        pid=pid,
        version=version_of(said),
        is_same=line + b"\n" == greeting(),
        is_by_hand=why != ON_DEMAND,
    )


def version_of(greeting: bytes) -> tuple[int, ...]:
    """Return the version of who greets so: the protocol's, and the program's."""
    protocol, version, *_ = (*greeting.removeprefix(HEAD).split(b" "), b"", b"")
    return _number(protocol), *map(_number, version.split(b"."))


def _number(text: bytes) -> int:
    """Return the number that a part of a version begins with."""
    digits = text[: len(text) - len(text.lstrip(b"0123456789"))]
    return int(digits or b"0")


def _place(context: Context) -> bytes:
    return b"/".join((context.store, b"workspaces", context.key.encode())) + _WORD


def _write(context: Context, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(_place(context), flags, PRIVATE_FILE)
    except OSError:
        return
    try:
        os.write(descriptor, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return
    finally:
        os.close(descriptor)


def _told(context: Context) -> dict[str, str]:
    try:
        descriptor = os.open(_place(context), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return {}
    try:
        text = os.read(descriptor, _LIMIT).decode("utf-8", "replace")
    except OSError:
        return {}
    finally:
        os.close(descriptor)
    parts = (line.partition(" ") for line in text.splitlines())
    return {name: value for name, _, value in parts}
