"""Copies blobs out of another repository's packs as they lie there, deltas and all.

Git writes one pack of what is asked for into a folder of its own, and that pack's body becomes a
part of ours: the distances of its deltas are relative, so they stay true. Nothing is ever written
to the other repository, and none of its settings is read.
"""

from __future__ import annotations

import os

from lastgood.adapters.git.files import pieces, storage
from lastgood.adapters.git.objects import BLOB
from lastgood.adapters.git.pack_read import PackFile
from lastgood.adapters.git.pack_write import HEADER_BYTES
from lastgood.adapters.git.temporary import TemporaryFolder
from lastgood.errors import LastgoodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastgood.adapters.git.objects import Hasher
    from lastgood.adapters.git.pack_write import Draft
    from lastgood.adapters.git.repository import Layout
    from lastgood.adapters.git.tool import Git

_TRAILER_BYTES = 20


class BlobImport:
    """One import into one draft."""

    __slots__ = ("_draft", "_environment", "_git", "_hasher", "_layout", "_objects")

    def __init__(self, layout: Layout, *, git: Git, draft: Draft, hasher: Hasher, objects: bytes) -> None:
        self._layout = layout
        self._git = git
        self._draft = draft
        self._hasher = hasher
        self._objects = objects
        self._environment: dict[bytes, bytes] = {}

    def run(self, oids: Iterable[bytes]) -> set[bytes]:
        """Append what can be copied and return its ids; `Storage` only if our own files fail."""
        try:
            folder = TemporaryFolder(self._layout.temporary)
        except OSError as error:
            raise storage(error, doing="copying the project's objects") from error
        try:
            self._environment = {
                b"GIT_OBJECT_DIRECTORY": folder.path,
                b"GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(self._objects),
            }
            pack = self._pack(folder, oids) or self._pack(folder, self._present(oids))
            return set() if pack is None else self._append(pack)
        except OSError as error:
            raise storage(error, doing="copying the project's objects") from error
        finally:
            folder.discard()

    def _pack(self, folder: TemporaryFolder, oids: Iterable[bytes]) -> PackFile | None:
        wanted = sorted(oids)
        if not wanted:
            return None
        order = (b"pack-objects", b"-q", b"--window=0", b"--delta-base-offset", folder.path + b"/got")
        try:
            lines = (oid.hex().encode() + b"\n" for oid in wanted)
            name = self._git.run(order, feed=lines, environment=self._environment).strip()
            pack = PackFile(folder.path, b"got-" + name)
            if len(name) == 40 and self._trustworthy(pack, wanted):
                return pack
        except (LastgoodError, ValueError):
            return None
        pack.close()
        return None

    def _trustworthy(self, pack: PackFile, wanted: list[bytes]) -> bool:
        """Tell whether a pack holds the blobs asked for and nothing else.

        Git proves packed entries by their CRC when it copies them. It does not prove loose objects,
        so those are read again here.
        """
        entries = pack.index.entries()
        if [oid for oid, _, _ in entries] != wanted:
            return False
        if any(pack.kind(offset) != BLOB for _, _, offset in entries):
            return False
        return all(
            self._hasher.object_id(*pack.read(offset)) == oid
            for oid, _, offset in entries
            if self._is_loose(oid)
        )

    def _is_loose(self, oid: bytes) -> bool:
        digits = oid.hex().encode()
        return os.path.lexists(self._objects + b"/" + digits[:2] + b"/" + digits[2:])

    def _present(self, oids: Iterable[bytes]) -> list[bytes]:
        lines = (oid.hex().encode() + b"\n" for oid in oids)
        order = (b"cat-file", b"--buffer", b"--batch-check=%(objectname) %(objecttype)")
        try:
            answer = self._git.run(order, feed=lines, environment=self._environment)
        except LastgoodError:
            return []
        rows = [line.split(b" ") for line in answer.splitlines()]
        return [bytes.fromhex(row[0].decode()) for row in rows if row[1:] == [b"blob"]]

    def _append(self, pack: PackFile) -> set[bytes]:
        end = os.fstat(pack.descriptor).st_size - _TRAILER_BYTES
        shift = self._draft.size - HEADER_BYTES
        for piece in pieces(pack.descriptor, start=HEADER_BYTES, end=end):
            self._draft.add_piece(piece)
        entries = pack.index.entries()
        pack.close()
        self._draft.entries.extend((oid, crc, offset + shift) for oid, crc, offset in entries)
        return {oid for oid, _, _ in entries}


def _quoted(path: bytes) -> bytes:
    """Return a path as git reads it in a list of folders."""
    if b":" not in path and b"\n" not in path and not path.startswith(b'"'):
        return path
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
