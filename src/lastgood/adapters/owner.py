"""Who holds a lock: an explanation for people, never a ground to take the lock over (rule S16)."""

from __future__ import annotations

import os
import time

from lastgood.codec.moment import iso
from lastgood.names import printable, to_text

_LIMIT = 4096


def record(command: str) -> bytes:
    """Return the lines that tell who this process is."""
    pid = os.getpid()
    lines = (
        ("pid", str(pid)),
        ("command", printable(command)),
        ("since", iso(time.time_ns())),
        ("host", os.uname().nodename),
        ("started", _started(pid)),
        ("boot", _first_line("/proc/sys/kernel/random/boot_id")),
        ("namespace", _namespace()),
    )
    return "".join(f"{name} {value}\n" for name, value in lines).encode("utf-8", "backslashreplace")


def describe(path: bytes) -> str:
    """Return ``pid 123 (lastgood restore) since ...`` for a record; ``""`` without one of a live owner."""
    found = _read(path)
    if "pid" not in found or "since" not in found or _known_dead(found):
        return ""
    where = "" if found.get("host") == os.uname().nodename else f" on {printable(found.get('host', '?'))}"
    command = f" ({printable(found['command'])})" if found.get("command") else ""
    return f"pid {printable(found['pid'])}{command}{where} since {printable(found['since'])}"


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
