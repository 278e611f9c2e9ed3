"""Whether processes live, and waiting until something is so."""

from __future__ import annotations

import fcntl
import gc
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LONG = 120.0


def state(pid: int) -> str:
    """Return the letter by which the kernel tells a process's state (proc(5)); X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def lives(pid: int) -> bool:
    return state(pid) not in "ZX"


def eventually(so: Callable[[], bool]) -> bool:
    """Wait until something is so; False if that takes longer than is to be expected."""
    ends = time.monotonic() + LONG
    while not so():  # asked once more, what was so for a moment might not be any more
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


def eventually_gone(pid: int) -> bool:
    return eventually(lambda: not lives(pid))


def written(path: Path) -> str:
    """Wait for a file that a command writes whole, and return what it says."""
    assert eventually(lambda: path.exists() and path.read_text().endswith("\n")), path
    return path.read_text().strip()


def descriptors() -> list[str]:
    """Return the files that this process has open, once what nobody has any more was let go of."""
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))


def times_open(file: str | Path) -> int:
    """Return how many times this process has a file open."""
    opened = (f"/proc/self/fd/{name}" for name in descriptors())
    return sum(os.path.lexists(one) and os.readlink(one) == str(file) for one in opened)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    """Return every process below one, whichever of its threads started it."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for word in path.read_text().split():
                found += [int(word), *descendants(int(word))]
    return found


def is_open(file: Path) -> bool:
    """Tell whether any process has a file open, whoever started it."""
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):  # it is gone, or another user's
            for name in os.listdir(folder):
                with suppress(FileNotFoundError):  # closed meanwhile
                    if os.readlink(folder / name) == str(file):
                        return True
    return False


def account(pid: int) -> str:
    """Say what a process and those below it are at: the state, what each waits in, which files it has."""
    lines = []
    for one in (pid, *descendants(pid)):
        with suppress(FileNotFoundError, ProcessLookupError):
            place = Path(f"/proc/{one}")
            files = {name: os.readlink(place / "fd" / name) for name in os.listdir(place / "fd")}
            lines.append(f"{one} {state(one)} {(place / 'wchan').read_text()} {files}")
    return "\n".join(lines)


def until_tidied(store: Path) -> None:
    """Wait until no maintenance is under way that a save started: its process holds this lock."""
    path = store / "locks" / "upkeep.lock"
    if path.exists():
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
