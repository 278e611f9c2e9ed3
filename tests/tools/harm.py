"""Harm to files of a store, as a bad disk does it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def packs_of(store: Path, suffix: str = ".pack") -> list[Path]:
    """Return the packs of a store, or what lies beside them, by name."""
    return sorted((store / "objects.git" / "objects" / "pack").glob(f"*{suffix}"))


def flip(path: Path, at: int | None = None, *, bits: int = 4) -> None:
    """Flip some bits of a byte: of the one in the middle if no other is named."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if at is None else at] ^= bits
    path.chmod(0o600)
    path.write_bytes(content)


def lose(store: Path, name: str) -> None:
    """Garble an object, named as git names it, in every pack that has it."""
    git = ["git", "--git-dir", str(store / "objects.git")]
    oid = subprocess.run([*git, "rev-parse", name], capture_output=True, text=True, check=True).stdout.strip()
    for pack in packs_of(store):
        told = subprocess.run(
            [*git, "verify-pack", "-v", str(pack)], capture_output=True, text=True, check=False
        )
        for line in told.stdout.splitlines():
            if line.startswith(oid):
                flip(pack, int(line.split()[4]) + 10)


def truncate(path: Path) -> None:
    path.chmod(0o600)
    os.truncate(path, path.stat().st_size // 2)


def zero(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(bytes(path.stat().st_size))


def empty(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


HARM = (truncate, zero, empty, remove)
