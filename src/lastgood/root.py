"""A workspace's own folder: whether it is there, and how it is made again (rule T12a)."""

from __future__ import annotations

import os
import stat

from lastgood.errors import NotFound, Unsafe
from lastgood.files import sync_directory
from lastgood.paths import printable, quoted, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def is_gone(root: bytes) -> bool:
    """Tell whether nothing at all lies where a workspace was."""
    try:
        os.lstat(root)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # whoever opens it says why it cannot be looked at
    return False


def gone(root: bytes) -> NotFound:
    """Return what is said to whoever needs a workspace's folder that is not there."""
    return NotFound(
        f"the workspace {printable(to_text(root))} is gone: there is no such folder any more",
        hint=f"make it again: lastgood -C {quoted(root)} restore @"
        f"\nif it was moved: lastgood -C NEW_PLACE workspace attach {quoted(root)}",
    )


def no_folder(root: bytes) -> Unsafe:
    """Return what is said where something else lies in a workspace's place; whose that is, is not known."""
    shown = printable(to_text(root))
    if os.path.islink(root):
        to = os.path.realpath(root)
        attach = f"lastgood -C {quoted(to)} workspace attach {quoted(root)}"
        return Unsafe(
            f"{shown} is a link now, to {printable(to_text(to))}",
            hint=f"if the workspace was moved there: {attach}"
            f"\nelse take the link away, then: lastgood -C {quoted(root)} restore @",
        )
    return Unsafe(
        f"{shown} is no folder any more: something else lies in its place",
        hint=f"move that away, then: lastgood -C {quoted(root)} restore @",
    )


def make_again(root: bytes) -> tuple[bytes, ...]:
    """Make a folder that is gone, with those above it, durably, and return what was made, outermost first.

    Nothing is made where it is there. `Unsafe` where it cannot be made.
    """
    missing: list[bytes] = []
    place = root
    while is_gone(place):
        missing.append(place)
        place = os.path.dirname(place)
    made: list[bytes] = []
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
            made.append(folder)
            sync_directory(os.path.dirname(folder))
        except OSError as error:
            take_away(made)
            raise Unsafe(
                f"{printable(to_text(folder))} cannot be made: {error.strerror}",
                hint="make it by hand, or write the checkpoint elsewhere: lastgood restore REF --to DIR",
            ) from error
    return tuple(made)


def take_away(made: Sequence[bytes]) -> None:
    """Remove folders that were made for nothing, as long as they are empty."""
    for folder in reversed(made):
        try:
            os.rmdir(folder)
        except OSError:
            return


def is_folder(root: bytes) -> bool:
    """Tell whether a real folder lies there, not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(root).st_mode)
    except OSError:
        return False
