"""A small repository beside the store, for objects that leave it or are not yet let in."""

from __future__ import annotations

import os

from lastgood.adapters.git.files import DIRECTORY_MODE, FILE_MODE, storage, write_all
from lastgood.adapters.git.idx import encode_index
from lastgood.adapters.git.intake import entries_of
from lastgood.adapters.git.objects import Hasher
from lastgood.adapters.git.pack_read import PackFile
from lastgood.adapters.git.packs import Packs
from lastgood.adapters.git.reader import GitReader
from lastgood.adapters.git.repository import Layout
from lastgood.adapters.git.temporary import TemporaryFolder
from lastgood.adapters.git.writer import GitWriter
from lastgood.errors import Internal
from lastgood.model.exchange import Bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

_TAKEN = b"pack-taken"


class GitAnnex(GitReader):
    """Objects of one export, as one pack in a folder that goes with its owner; `Storage`."""

    __slots__ = ("_folder", "_layout")

    def __init__(self, temporary: bytes) -> None:
        try:
            self._folder = TemporaryFolder(temporary)
            self._layout = Layout(self._folder.path, temporary=temporary)
            for folder in (os.path.dirname(self._layout.packs), self._layout.packs):
                os.mkdir(folder, DIRECTORY_MODE)
        except OSError as error:
            raise storage(error, doing="making room for an export") from error
        super().__init__(Packs(self._layout.packs), Hasher())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stored.close()
        self._folder.discard()

    def writer(self) -> GitWriter:
        """Begin the pack; it takes in whatever it is given, also what the store has."""
        return GitWriter(self._layout, packs=self.stored, hasher=self.hasher)

    def pack(self) -> tuple[bytes, Bounds]:
        """Return the path of the pack that was published, and what it says of itself."""
        self.stored.refresh()
        found = list(self.stored.all())
        if len(found) != 1:
            raise Internal("an export is no single pack", hint="report this")
        sizes = [found[0].header(offset)[0][1] for _, _, offset in found[0].index.entries()]
        bounds = Bounds(objects=len(sizes), largest=max(sizes, default=0), total=sum(sizes))
        return found[0].path + b".pack", bounds

    def take(self, pieces: Iterator[bytes], *, bounds: Bounds) -> None:
        """Take in the pack of an export; `Damaged` if it is not what it says."""
        stem = self._layout.packs + b"/" + _TAKEN
        try:
            _write(stem + b".pack", pieces)
            entries = entries_of(PackFile(self._layout.packs, _TAKEN), bounds=bounds, hasher=self.hasher)
            _write(stem + b".idx", iter([encode_index(entries, pack_checksum=bytes(20))]))
        except OSError as error:
            raise storage(error, doing="taking in an export") from error
        self.stored.refresh()


def _write(path: bytes, pieces: Iterator[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        for piece in pieces:
            write_all(descriptor, piece)
    finally:
        os.close(descriptor)
