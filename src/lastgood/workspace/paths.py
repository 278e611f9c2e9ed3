"""Paths as callers give them, and folders to write into."""

from __future__ import annotations

import os

from lastgood.errors import Unsafe
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def inside(path: PathLike, root: bytes) -> bytes:
    """Return a path relative to the workspace (a relative one is meant so); `Unsafe` if it leads out."""
    text = os.fsencode(path)
    top = root.rstrip(b"/") + b"/"
    full = os.path.normpath(os.path.join(root, text))
    if full == root:
        return b""
    if b"\0" in text or not full.startswith(top):
        raise Unsafe(
            f"'{printable(os.fsdecode(text))}' is not inside the workspace {printable(os.fsdecode(root))}",
            hint="name paths of the workspace",
        )
    return full[len(top) :]


def make_empty(directory: bytes) -> None:
    """Make a folder, or accept one that is empty (rule T11)."""
    shown = printable(os.fsdecode(directory))
    hint = "name a new or empty folder"
    try:
        os.makedirs(directory, exist_ok=True)
        occupied = bool(os.listdir(directory))
    except OSError as error:
        raise Unsafe(f"cannot write into {shown}: {error.strerror}", hint=hint) from error
    if occupied:
        raise Unsafe(f"{shown} is not empty", hint=hint)
