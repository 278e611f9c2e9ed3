"""Who holds a lock: an explanation for people, never a ground to take the lock over (rule S16)."""

from __future__ import annotations

import os
import time

from lastgood.errors import Busy
from lastgood.model.canonical import iso
from lastgood.paths import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LIMIT = 4096
_SHOWN = 80
# Of /proc/PID/stat: stopped by a signal. (A traced process is stopped too, now and then: its "t" is none.)
_STOPPED = b"T"
# So proc_locks(5) calls whoever has a lock that is of an open file (F_OFD_SETLK), and of no process.
_OF_FILE = -1


# What of this process does not change, by its number: a child has another.
_own: dict[int, str] = {}


def record(command: str) -> bytes:
    """Return the lines that tell who this process is."""
    pid = os.getpid()
    own = _own.get(pid)
    if own is None:
        _own.clear()
        boot = _first_line("/proc/sys/kernel/random/boot_id")
        own = _own[pid] = f"started {_started(pid)}\nboot {boot}\nnamespace {_namespace()}\n"
    who = (
        f"pid {pid}\ncommand {printable(command)}\nsince {iso(time.time_ns())}\nhost {os.uname().nodename}\n"
    )
    return (who + own).encode("utf-8", "backslashreplace")


def describe(path: bytes) -> str:
    """Return ``pid 123 (lastgood restore) since ...`` for a record; ``""`` without one of a live owner."""
    found = _read(path)
    if "pid" not in found or "since" not in found or _known_dead(found):
        return ""
    where = "" if found.get("host") == os.uname().nodename else f" on {printable(found.get('host', '?'))}"
    command = f" ({printable(found['command'])})" if found.get("command") else ""
    return f"pid {printable(found['pid'])}{command}{where} since {printable(found['since'])}"


def stopped_holder(paths: Iterable[bytes], *, alone: bool = False, at: int | None = None) -> int | None:
    """Return a process that holds a lock on one of some files and is stopped (Ctrl-Z, SIGSTOP).

    With ``alone`` only locks count that are not shared, with ``at`` only those of that byte. None where the
    kernel does not tell, as of processes of another container.
    """
    held = (pid for path in paths for pid in holders(path, alone=alone, at=at))
    return next((pid for pid in held if _is_stopped(pid)), None)


def holders(path: bytes, *, alone: bool = False, at: int | None = None) -> Iterator[int]:
    """Yield the other processes that hold a lock on a file, by proc_locks(5); ``at`` limits it to a byte."""
    try:
        found = os.stat(path)
        with open("/proc/locks", "rb") as file:  # as bytes: Python's text of it would load a codec
            lines = file.read().splitlines()
    except OSError:
        return
    place = b"%02x:%02x:%d" % (os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
    for line in lines:
        pid = _holder(line.split(), place, alone=alone, at=at)
        if pid == _OF_FILE:
            yield from _openers(found, place, alone=alone, at=at)
            return
        if pid is not None and pid != os.getpid():
            yield pid


def _holder(words: list[bytes], place: bytes, *, alone: bool, at: int | None) -> int | None:
    """Return whose a lock is that a line of proc_locks(5) tells of; None unless it is one of those meant."""
    # "1: POSIX ADVISORY WRITE 16725 fe:00:2162700 128 128"; one that waits has an arrow before its kind.
    if len(words) != 8 or words[5] != place or (alone and words[3] != b"WRITE"):
        return None
    pid, first, last = int(words[4]), int(words[6]), words[7]
    within = at is None or (first <= at and (last == b"EOF" or at <= int(last)))
    return pid if within and (pid > 0 or pid == _OF_FILE) else None


def _openers(found: os.stat_result, place: bytes, *, alone: bool, at: int | None) -> Iterator[int]:
    """Yield the other processes that hold a lock which is of an open file: by their descriptors."""
    from lastgood.procfs import content_of, descriptors_of, pids

    for pid in pids():
        if pid == os.getpid():
            continue
        for one in descriptors_of(pid, found.st_dev, found.st_ino):
            lines = [line.split() for line in content_of(pid, f"fdinfo/{one}").splitlines()]
            locks = [words[1:] for words in lines if words[:1] == [b"lock:"]]
            if any(_holder(words, place, alone=alone, at=at) is not None for words in locks):
                yield pid


def suspended(what: str, pid: int) -> Busy:
    """Return the error for whoever would wait for a stopped process."""
    return Busy(
        f"{what} is held by {named(pid)}, which is stopped",
        hint=f"let it go on: fg, where it was started, or kill -CONT {pid}\nor end it: kill -KILL {pid}",
        details={"owner": named(pid), "pid": pid, "stopped": True},
    )


def named(pid: int) -> str:
    """Return ``pid 123 (lastgood save)`` for a process, without a program that stands among its words."""
    from lastgood.procfs import content_of

    words = content_of(pid, "cmdline").rstrip(b"\0").split(b"\0")
    if b"-c" in words[:-1]:  # as of a hook (decision 067)
        words[words.index(b"-c") + 1] = b"..."
    line = b" ".join(words)
    return f"pid {pid} ({printable(to_text(line[:_SHOWN]))})" if line else f"pid {pid}"


def _is_stopped(pid: int) -> bool:
    from lastgood.procfs import STATE, stat_of

    fields = stat_of(pid)
    return bool(fields) and fields[STATE] == _STOPPED


def _read(path: bytes) -> dict[str, str]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return {}
    try:
        text = to_text(os.read(descriptor, _LIMIT))
    except OSError:
        return {}
    finally:
        os.close(descriptor)
    parts = (line.partition(" ") for line in text.splitlines())
    return {name: value for name, _, value in parts}


def _known_dead(found: dict[str, str]) -> bool:
    """Tell whether the record is a dead owner's; only where this process could see a live one."""
    if found.get("boot") != _first_line("/proc/sys/kernel/random/boot_id"):
        return found.get("host") == os.uname().nodename and bool(found.get("boot"))
    if not found.get("namespace") or found["namespace"] != _namespace():
        return False
    return not found["pid"].isdigit() or _started(int(found["pid"])) != found.get("started")


def _started(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; ``""`` if there is none (or no /proc)."""
    # The name in the second field may hold blanks and brackets; proc(5): the 22nd field is wanted.
    return (_first_line(f"/proc/{pid}/stat").rpartition(")")[2].split() + [""] * 20)[19]


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""
