"""Folders of the store in which something is tried out, and which go afterwards."""

from __future__ import annotations

import os

from lastgood.errors import Storage
from lastgood.objects.repository import TemporaryFolder

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
        try:
            held = TemporaryFolder(os.path.join(store, b"tmp"))
        except OSError as error:
            raise _unmade(error) from error
        try:
            try:
                copy = os.path.join(held.path, name)
                os.mkdir(copy)
            except OSError as error:
                raise _unmade(error) from error
            return work(copy)
        finally:
            _discard(held)

    return attempt


def _unmade(error: OSError) -> Storage:
    return Storage(
        f"no folder for a copy can be made in the store: {error.strerror}",
        hint="is there room in the store's file system?",
    )


def _discard(held: TemporaryFolder) -> None:
    try:
        held.discard()
    except OSError:
        return  # what cannot be deleted now is nobody's any more: maintenance tries again
