"""Looks in packs that were set aside for what checkpoints miss: earlier releases moved sound ones there."""

from __future__ import annotations

import os
import re

from lastgood.adapters.git.commits import commit_tree
from lastgood.adapters.git.idx import Index
from lastgood.adapters.git.objects import BLOB, COMMIT, TREE
from lastgood.adapters.git.pack_read import PackFile
from lastgood.adapters.git.prove import prove_object
from lastgood.adapters.git.scan import walk_pack
from lastgood.adapters.git.trees import SUBTREE, decode_tree
from lastgood.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lastgood.adapters.git.idx import IndexEntry
    from lastgood.adapters.git.reader import GitReader

# What came under a name that was taken has a number behind it.
_PACK = re.compile(rb"(.+)\.pack(\.\d+)?", re.DOTALL)


class PackAside(PackFile):
    """A pack that was set aside, with the index that was set aside with it."""

    __slots__ = ("_file",)

    def __init__(self, folder: bytes, file: bytes) -> None:
        super().__init__(folder, file)
        self._file = folder + b"/" + file

    @property
    def descriptor(self) -> int:
        """The open pack."""
        if self._descriptor < 0:
            self._descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        return self._descriptor

    def claimed(self) -> list[IndexEntry]:
        """Return what the index says that was set aside with it, as far as it can be read."""
        try:
            return Index.open(_PACK.sub(rb"\1.idx\2", self._file)).entries()
        except (OSError, ValueError):
            return []


def find_missed(
    folder: bytes, *, reader: GitReader, commits: Iterable[bytes], sound: Collection[bytes]
) -> list[tuple[PackFile, int]]:
    """Return where in a folder of packs that were set aside those objects lie, proven, that commits miss.

    ``sound`` are the objects of which the store has a proven copy.
    """
    found: list[tuple[PackFile, int]] = []
    aside = _Aside(folder, reader)
    waiting = [(commit, COMMIT) for commit in commits]
    seen: set[bytes] = set()
    while waiting:
        oid, kind = waiting.pop()
        if oid in seen:
            continue
        seen.add(oid)
        try:
            if oid not in sound:
                found.append(aside.place(oid))
            if kind != BLOB:
                content = reader.read_object(oid, kind=kind) if oid in sound else aside.read(oid)
                waiting += _below(content, kind)
        except (Damaged, LookupError, OSError, ValueError):
            continue  # it is lost, as the proof tells
    return found


def _below(content: bytes, kind: int) -> list[tuple[bytes, int]]:
    if kind == COMMIT:
        return [(commit_tree(content), TREE)]
    return [(oid, TREE if mode == SUBTREE else BLOB) for mode, _, oid in decode_tree(content)]


class _Aside:
    """The packs of a folder; they are read when the first object is asked for."""

    def __init__(self, folder: bytes, reader: GitReader) -> None:
        self._folder = folder
        self._hasher = reader.hasher
        self._places: dict[bytes, list[tuple[PackFile, int]]] | None = None

    def place(self, oid: bytes) -> tuple[PackFile, int]:
        """Return where an object lies sound; LookupError."""
        if self._places is None:
            self._places = {}
            for one in self._packs():
                self._add(one, self._places)
        for pack, offset in self._places.get(oid, ()):
            if not prove_object(pack, offset, oid=oid, hasher=self._hasher):
                return pack, offset
        raise LookupError

    def read(self, oid: bytes) -> bytes:
        """Return an object's content; LookupError, OSError, ValueError."""
        pack, offset = self.place(oid)
        return pack.read(offset)[1]

    def _packs(self) -> list[PackAside]:
        try:
            files = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        return [PackAside(self._folder, file) for file in files if _PACK.fullmatch(file)]

    def _add(self, pack: PackAside, places: dict[bytes, list[tuple[PackFile, int]]]) -> None:
        try:
            entries, _ = walk_pack(pack, self._hasher)
        except OSError:
            return
        walked = {oid for oid, _, _ in entries}
        # What lies behind a fault no walk finds; whoever asks for it has it proven.
        entries += [row for row in pack.claimed() if row[0] not in walked]
        pack.stand_in(entries)
        for oid, _, offset in entries:
            places.setdefault(oid, []).append((pack, offset))
