"""Paths as callers give them, and folders to write into."""

from __future__ import annotations

import os

from lastgood.errors import Invalid, Unsafe, Usage
from lastgood.names import printable, to_text, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_EMPTY = "name a new or empty folder"


def scope(paths: Iterable[PathLike], root: bytes) -> tuple[bytes, ...]:
    """Return paths relative to the workspace; `Usage` for one path where several are meant."""
    if isinstance(paths, (str, bytes, os.PathLike)) or not hasattr(paths, "__iter__"):
        raise Usage("paths are given as a list", hint="put the path into a list: paths=[path]")
    return tuple(inside(path, root) for path in paths)


def inside(path: PathLike, root: bytes) -> bytes:
    """Return a path relative to the workspace (a relative one is meant so); `Unsafe` if it leads out."""
    given = plain(path)
    full = os.path.normpath(os.path.join(root, given))
    if not within(full, root.rstrip(b"/")):
        full = _respelled(full, root)
    if full == root:
        return b""
    if not within(full, root.rstrip(b"/")):
        raise Unsafe(
            f"'{printable(to_text(given))}' is not inside the workspace {printable(to_text(root))}",
            hint="name paths of the workspace",
        )
    return full[len(root.rstrip(b"/")) + 1 :]


def plain(path: PathLike) -> bytes:
    """Return a path as bytes; `Usage` for what is none, `Invalid` for one that nothing can have."""
    try:
        given = os.fsencode(path)
    except TypeError:
        raise Usage(f"{path!r} is no path", hint="give a text, bytes, or a path object") from None
    except UnicodeEncodeError:
        raise Invalid(f"{path!r} is no path", hint="a name's odd bytes are read by os.fsdecode") from None
    if not given or b"\0" in given:
        raise Invalid(f"'{printable(to_text(given))}' is no path", hint="a path has a name, and no NUL in it")
    return given


def make_empty(path: PathLike, *, store: bytes) -> bytes:
    """Make a folder outside the store, or accept one that is empty, and return it (rule T11)."""
    directory = os.path.realpath(plain(path))
    shown = printable(to_text(directory))
    if within(directory, store):
        raise Unsafe(f"{shown} is inside the store", hint=_EMPTY)
    try:
        os.makedirs(directory, exist_ok=True)
        occupied = bool(os.listdir(directory))
    except OSError as error:
        raise Unsafe(f"cannot write into {shown}: {error.strerror}", hint=_EMPTY) from error
    if occupied:
        raise Unsafe(f"{shown} is not empty", hint=_EMPTY)
    return directory


def _respelled(path: bytes, root: bytes) -> bytes:
    """Return where a path lies that may name the workspace by a link on the way to it (rule S19)."""
    if os.path.realpath(path) == root:
        return root
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
