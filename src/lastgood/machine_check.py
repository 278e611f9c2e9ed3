"""Whether the store's file system and the machine do what everything else relies upon."""

from __future__ import annotations

import fcntl
import os
import subprocess

from lastgood.git_command import SEALED

_PATIENCE = 10.0


def locks_exclude(store: bytes) -> bool:
    """Tell whether a lock held by one opener keeps another one out, on the file system of a store.

    Some network file systems accept `flock` and keep nobody out. Raises `OSError` if it refuses.
    """
    path = store + b"/examined-%d" % os.getpid()
    first = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        second = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _kept_out(second)
        finally:
            os.close(second)
    finally:
        os.close(first)
        os.unlink(path)


def _kept_out(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def file_clock_ahead(store: bytes, *, now: int) -> float:
    """Return by how many seconds the file system's clock is ahead of ``now`` (nanoseconds)."""
    path = store + b"/examined-%d" % os.getpid()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"x")
        return (os.fstat(descriptor).st_mtime_ns - now) / 1e9
    finally:
        os.close(descriptor)
        os.unlink(path)


def git_version(search_path: bytes) -> str | None:
    """Return what git says its version is, None where none runs."""
    try:
        done = subprocess.run(  # noqa: S603 - git, from folders that the caller chose, its environment emptied
            [b"git", b"--version"],
            env={**SEALED, b"PATH": search_path},
            cwd=b"/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip().removeprefix("git version ")
