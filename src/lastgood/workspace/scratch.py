"""Folders of the store in which something is tried out, and which go afterwards."""

from __future__ import annotations

import os
from contextlib import contextmanager

from lastgood.errors import Storage
from lastgood.objects.repository import TemporaryFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from lastgood.context import Context
    from lastgood.engine import ObjectWriter
    from lastgood.host import ScanRequest
    from lastgood.worktree import Scan, ScanBegun, Scanner

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


@contextmanager
def empty_in_place(context: Context) -> Iterator[Context]:
    """Hand out a context in which an empty folder is scanned in the place of a workspace that is gone.

    All else sees where the workspace was: that is where what comes back beside files belongs.
    """
    try:
        held = TemporaryFolder(os.path.join(context.store, b"tmp"))
    except OSError as error:
        raise _unmade(error) from error
    try:
        empty = os.path.join(held.path, b"empty")
        os.mkdir(empty)
        yield context.replace(
            scanner=_Instead(context.scanner, empty),
            applier_of=lambda root: context.applier_of(empty if root == context.root else root),
        )
    finally:
        _discard(held)


class _Instead:
    """Scans another folder than it is asked for."""

    def __init__(self, scanner: Scanner, folder: bytes) -> None:
        self._scanner = scanner
        self._folder = folder

    def begin(self, root: bytes) -> None:
        """Begin nothing: the other folder is empty."""

    def scan(self, request: ScanRequest, *, writer: ObjectWriter, begun: ScanBegun | None = None) -> Scan:
        """Read the other folder."""
        assert begun is None
        return self._scanner.scan(request.replace(root=self._folder), writer=writer)


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
