"""The kernel's files about processes (proc(5)), read so that what changes meanwhile is not missed."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Fields of /proc/PID/stat after the name in parentheses, from 0.
STATE, PARENT, GROUP = 0, 1, 2
GONE = {b"Z", b"X"}
_FLAGS = 6
# Where the words end that a program was started with; where its environment begins, and ends.
_ENDS = {"cmdline": 46, "environ": 48}
# Of the flags, in the kernel's include/linux/sched.h: it is ending, or a thread of the kernel itself.
_WORDLESS = 0x0000_0004 | 0x0020_0000
# How long to wait for a process that turns into another program, in seconds: it may have much to let go.
_PATIENCE = 5.0
_STRIDE = 0.001
# Whoever begets others as fast as we look has them looked for so often.
_LOOKS = 100
_PIECE = 1 << 13


def pids() -> Iterator[int]:
    """Yield the number of every process that can be seen from here."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    yield from (int(name) for name in names if name.isdigit())


def settled_pids() -> Iterator[int]:
    """Yield the number of every process, also of those that begin while the caller looks at the others.

    Else a process that begets another one and ends, before it is looked at, would hide that.
    """
    known: set[int] = set()
    for _ in range(_LOOKS):
        new = [pid for pid in pids() if pid not in known]
        if not new:
            return
        known.update(new)
        yield from new


def content_of(pid: int, name: str) -> bytes:
    """Return one of the kernel's files about a process, nothing if it is gone or another user's."""
    return kernel_file(f"/proc/{pid}/{name}") or b""


def kernel_file(path: str) -> bytes | None:
    """Return one of the kernel's files, None if it cannot be read.

    By `open` each would take nine calls to the kernel, and a save reads several.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    found = b""
    try:
        while True:
            piece = os.read(descriptor, _PIECE)
            if not piece:
                return found
            found += piece
    except OSError:
        return None
    finally:
        os.close(descriptor)


def words_of(pid: int, name: str) -> list[bytes]:
    """Return the words in ``cmdline`` or ``environ`` of a process; none if it is gone or another user's.

    While a process turns into another program (execve(2)) it has none for a moment, which is waited for.
    """
    before, ends = 0, 0.0
    while True:
        found = content_of(pid, name)
        if found:
            return found.rstrip(b"\0").split(b"\0")
        place = _place(pid, name)
        now = time.monotonic()
        ends = ends or now + _PATIENCE
        if place is None or (place and place == before) or now > ends:
            return []
        before = place
        if not place:
            time.sleep(_STRIDE)


def _place(pid: int, name: str) -> int | None:
    """Return where a process has its words, 0 if it has none yet; None if it has none, or hides them."""
    fields = stat_of(pid)
    last = _ENDS[name]
    if len(fields) <= last or fields[STATE] in GONE or int(fields[_FLAGS]) & _WORDLESS:
        return None
    begin, end = int(fields[last - 1]), int(fields[last])
    if end:
        return None if begin == end else begin
    return 0 if _may_look(pid) and int(stat_of(os.getpid())[last]) else None


def _may_look(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb"):
            return True
    except OSError:
        return False


def stat_of(pid: int) -> list[bytes]:
    """Return the fields of a process's ``stat`` after its name; none if it is gone."""
    # The name may hold spaces and parentheses: the fields begin behind its last one.
    return content_of(pid, "stat").rpartition(b")")[2].split()


def writers_of(device: int, inode: int) -> list[str]:
    """Return who has a file open for writing, or mapped, as far as it can be seen: ``name (pid N)``."""
    return [
        f"{content_of(pid, 'comm').decode(errors='replace').strip()} (pid {pid})"
        for pid in pids()
        if _writes(pid, device, inode) or _maps(pid, device, inode)
    ]


def _writes(pid: int, device: int, inode: int) -> bool:
    return any(is_open_to_write(pid, one) for one in descriptors_of(pid, device, inode))


def descriptors_of(pid: int, device: int, inode: int) -> Iterator[str]:
    """Yield the descriptors by which a process has a file open, as far as it can be seen."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        try:
            found = os.stat(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (device, inode):
            yield name


def is_open_to_write(pid: int, descriptor: str) -> bool:
    """Tell whether a process has a file open for writing, by its descriptor."""
    for line in content_of(pid, f"fdinfo/{descriptor}").splitlines():
        word, _, value = line.partition(b":")
        if word == b"flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def _maps(pid: int, device: int, inode: int) -> bool:
    place = b"%02x:%02x %d" % (os.major(device), os.minor(device), inode)
    return any(b"-s " in line and place in line for line in content_of(pid, "maps").splitlines())
