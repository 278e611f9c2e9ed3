"""Copies blobs out of another repository's packs into a pack of ours, beside whoever scans meanwhile.

What its indexes name counts as stored at once, so that a scan compresses none of it; whether it
really is, `BlobImport.wait` says. Nothing is ever written to the other repository.
"""

from __future__ import annotations

import os

from lastgood.adapters.companion import Companion, is_sound
from lastgood.adapters.git.copying import Copy
from lastgood.adapters.git.doubt import suspect
from lastgood.adapters.git.files import write_all
from lastgood.adapters.git.idx import encode_index
from lastgood.adapters.git.lenders import find_lenders
from lastgood.adapters.git.pack_write import PACK_SUFFIX
from lastgood.adapters.git.publish import publish_files, vacant
from lastgood.adapters.git.temporary import TemporaryFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Self

    from lastgood.adapters.git.lenders import Lender
    from lastgood.adapters.git.repository import Layout

_CHECKSUM_BYTES = 20
_SIZE_BYTES = 8
# Forking copies page tables: for each object copied, this much memory of ours is worth it.
_RESIDENT_BYTES = 16 << 10


class BlobImport:
    """One import. ``oids`` are the blobs that it copies, ``size`` is that of their pack once written."""

    __slots__ = ("_companion", "_files", "_layout", "_lenders", "_name", "oids", "size")

    def __init__(
        self, layout: Layout, lenders: list[Lender], files: tuple[TemporaryFile, TemporaryFile]
    ) -> None:
        self._layout = layout
        self._lenders = lenders
        self._files = files
        self._companion: Companion | None = None
        self._name = b""
        self.size = 0
        self.oids = frozenset().union(*[lender.oids for lender in lenders])

    @classmethod
    def begin(cls, layout: Layout, *, objects: bytes, oids: Collection[bytes]) -> Self | None:
        """Begin to copy those of the blobs that lie in packs; None if none does. OSError of our own files."""
        lenders = find_lenders(objects, oids)
        if not lenders:
            return None
        pack = TemporaryFile.create(layout.temporary, PACK_SUFFIX)
        try:
            index = TemporaryFile.create(layout.temporary, b".idx")
        except OSError:
            pack.discard()
            raise
        begun = cls(layout, lenders, (pack, index))
        begun._start()
        return begun

    def wait(self) -> bool:
        """Wait until all is copied; False if it is not, which leaves nothing behind."""
        said = b"" if self._companion is None else self._companion.hear(_CHECKSUM_BYTES + _SIZE_BYTES)
        if self._companion is not None:
            self._companion.end()
            self._companion = None
            self._take(said)
        if not self._name:
            self.discard()
        return bool(self._name)

    def publish(self, *, durable: bool) -> None:
        """Make the copies readable, but doubted until proven; OSError, and then nothing is visible."""
        pack, index = self._files
        name = vacant(self._layout, self._name, pack=pack)
        suspect(self._layout, name, durable=durable)
        publish_files(pack, index, self._layout, name=name, durable=durable)

    def discard(self) -> None:
        """Forget everything; harmless after `publish`."""
        if self._companion is not None:
            self._companion.end()
            self._companion = None
        for file in self._files:
            file.discard()
        self._let_go()

    def _start(self) -> None:
        ours = [file.descriptor for file in self._files]
        theirs = [lender.pack.descriptor for lender in self._lenders]
        if is_sound(len(self.oids) * _RESIDENT_BYTES):
            try:
                self._companion = Companion(self._work, keep=[*ours, *theirs])
            except OSError:
                self._companion = None
        if self._companion is None:
            try:
                self._work(self._take)
            except (OSError, ValueError, LookupError):
                self._name = b""
        self._let_go()

    def _work(self, tell: Callable[[bytes], None]) -> None:
        import hashlib

        pack, index = (file.descriptor for file in self._files)
        copy = Copy(pack, begin=hashlib.sha1(usedforsecurity=False), pulse=lambda: tell(b""))
        checksum, size = copy.run(self._lenders)
        if not self.oids.issubset([oid for oid, _, _ in copy.entries]):
            raise ValueError("two objects are said to lie in one place")
        write_all(index, encode_index(copy.entries, pack_checksum=checksum))
        if hasattr(os, "posix_fadvise"):
            # Has the kernel begin to write, so that there is less to wait for when the pack is synced.
            os.posix_fadvise(pack, 0, 0, os.POSIX_FADV_DONTNEED)
        tell(checksum + size.to_bytes(_SIZE_BYTES, "big"))

    def _take(self, said: bytes) -> None:
        if len(said) == _CHECKSUM_BYTES + _SIZE_BYTES:
            self._name = b"pack-" + said[:_CHECKSUM_BYTES].hex().encode()
            self.size = int.from_bytes(said[_CHECKSUM_BYTES:], "big")

    def _let_go(self) -> None:
        for lender in self._lenders:
            lender.pack.close()
            lender.pack.index.close()
        self._lenders = []
