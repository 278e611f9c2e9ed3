"""Small disks that can be filled to the last byte, or the last inode; to mount one takes root."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FULL = {errno.ENOSPC, errno.EDQUOT}
_STEPS = (1 << 20, 1 << 16, 1 << 12, 1 << 9, 1)


class SmallDisk:
    """A mounted file system; what fills it lies in a folder of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._filler = place / "filler"

    def free(self) -> tuple[int, int]:
        """Return how many bytes and how many inodes are free."""
        state = os.statvfs(self.place)
        return state.f_bavail * state.f_frsize, state.f_favail

    def fill_bytes(self, *, leave: int = 0) -> None:
        """Take every byte, then give some back."""
        path = self._room() / "bytes"
        # A file system that allocates late may find some room again when it has written what it has.
        for _ in range(3):
            with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
                _append(file.fileno())
                os.fsync(file.fileno())
        if leave and path.exists():
            os.truncate(path, max(0, path.stat().st_size - leave))
        os.sync()

    def fill_inodes(self, *, leave: int = 0) -> None:
        """Take every inode, then give some back."""
        folder = self._room()
        made: list[Path] = []
        with contextlib.suppress(OSError):
            while True:
                path = folder / f"inode-{os.urandom(8).hex()}"
                path.touch(exist_ok=False)
                made.append(path)
        for path in made[len(made) - leave :] if leave else ():
            path.unlink()

    def close(self) -> None:
        """Have it be read-only."""
        subprocess.run(["mount", "-o", "remount,ro", self.place], check=True)

    def empty(self) -> None:
        """Take away what fills the disk."""
        shutil.rmtree(self._filler, ignore_errors=True)
        os.sync()

    def _room(self) -> Path:
        with contextlib.suppress(OSError):  # there may be no inode for it
            self._filler.mkdir(exist_ok=True)
        return self._filler


def _append(descriptor: int) -> None:
    for step in _STEPS:
        try:
            while True:
                os.write(descriptor, bytes(step))
        except OSError as error:
            if error.errno not in FULL:
                raise


@contextmanager
def tmpfs(place: Path, *, size: int = 6 << 20, inodes: int = 400) -> Iterator[SmallDisk]:
    """Mount a file system in memory; skip where that is not allowed."""
    with _mounted(place, "-t", "tmpfs", "-o", f"size={size},nr_inodes={inodes},mode=700", "tmpfs") as disk:
        yield disk


@contextmanager
def ext4(place: Path, *, size: int = 16 << 20, inodes: int = 400, block: int = 4096) -> Iterator[SmallDisk]:
    """Make and mount an image of ext4 without blocks that only root may take."""
    image = place.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(size)
    journal = f"size={max(1, block >> 10)}"  # 1,024 blocks at least
    options = ("-q", "-F", "-m", "0", "-N", str(inodes), "-b", str(block), "-J", journal)
    made = subprocess.run(["mkfs.ext4", *options, image], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mkfs.ext4 is not here")
    with _mounted(place, "-o", "loop", str(image)) as disk:
        place.chmod(0o700)
        yield disk
    image.unlink()


@contextmanager
def _mounted(place: Path, *arguments: str) -> Iterator[SmallDisk]:
    place.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *arguments, place], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting is not allowed here (it takes root); the injector covers a full disk")
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Have a folder be readable alone."""
    with _mounted(place, "--bind", str(place)) as disk:
        subprocess.run(["mount", "-o", "remount,bind,ro", disk.place], check=True)
        yield
