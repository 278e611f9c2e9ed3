"""Folders of the store in which something is tried out, and which go afterwards."""

from __future__ import annotations

import os

from lastgood.adapters.git.temporary import TemporaryFolder
from lastgood.errors import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")


def in_copy(store: bytes, *, name: bytes) -> Callable[[Callable[[bytes], Result]], Result]:
    """Return a call that hands over an empty folder of some name.

    The folder above it is locked as long as this process lives: maintenance collects what a killed one
    has left.
    """

    def attempt(work: Callable[[bytes], Result]) -> Result:
        from tempfile import TemporaryDirectory  # lazily: only a check aside pays for it

        try:
            held = TemporaryFolder(os.path.join(store, b"tmp"))
        except OSError as error:
            raise Storage(f"no folder can be made in the store: {error.strerror}") from error
        try:
            # It also deletes what a command has made unreadable.
            with TemporaryDirectory(dir=held.path, ignore_cleanup_errors=True) as folder:
                copy = os.path.join(folder, name)
                os.mkdir(copy)
                return work(copy)
        finally:
            _discard(held)

    return attempt


def _discard(held: TemporaryFolder) -> None:
    try:
        held.discard()
    except OSError:
        return  # what cannot be deleted now is nobody's any more: maintenance tries again
