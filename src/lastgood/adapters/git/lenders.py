"""Finds the packs in which another repository has objects, its alternates' packs among them.

Packs and their indexes are read as files; nothing is written there, and none of its settings is read.
"""

from __future__ import annotations

import os
import stat

from lastgood.adapters.git.pack_read import PackFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_IDX = b".idx"
_TRAILER_BYTES = 20
# As deep as git itself follows alternates of alternates.
_DEEPEST = 5
_ALTERNATES_BYTES = 1 << 20
# No more packs are kept open than this; the largest count.
_MOST_PACKS = 64


class Lender:
    """A pack, open, and which of the objects that are looked for it has."""

    __slots__ = ("oids", "pack")

    def __init__(self, pack: PackFile, oids: frozenset[bytes]) -> None:
        self.pack = pack
        self.oids = oids


def find_lenders(objects: bytes, wanted: Collection[bytes]) -> list[Lender]:
    """Return packs that have objects of those wanted, none of them twice; what is damaged is passed over."""
    lenders: list[Lender] = []
    left = set(wanted)
    for folder in _folders(objects):
        for pack in _packs(folder + b"/pack"):
            if not left or len(lenders) == _MOST_PACKS:
                return lenders
            oids = _held(pack, left)
            if oids:
                left -= oids
                lenders.append(Lender(pack, oids))
    return lenders


def _held(pack: PackFile, wanted: Collection[bytes]) -> frozenset[bytes]:
    try:
        oids = frozenset(pack.index.among(wanted))
        if oids and _belongs(pack):
            return oids
    except (OSError, ValueError):
        oids = frozenset()
    pack.close()
    return frozenset()


def _belongs(pack: PackFile) -> bool:
    """Tell whether a pack is one of version 2, and its index the one made for it."""
    if not stat.S_ISREG(os.stat(pack.path + b".pack").st_mode):
        return False
    head = os.pread(pack.descriptor, 8, 0)
    trailer = os.pread(pack.descriptor, _TRAILER_BYTES, max(pack.end, 0))
    return head == b"PACK\0\0\0\x02" and trailer == pack.index.pack_checksum


def _packs(folder: bytes) -> list[PackFile]:
    """Return the packs of a folder that have an index, the largest index first."""
    try:
        indexes = [entry for entry in os.scandir(folder) if entry.name.endswith(_IDX) and entry.is_file()]
        indexes.sort(key=lambda entry: (-entry.stat().st_size, entry.name))
    except OSError:
        return []
    return [PackFile(folder, entry.name[: -len(_IDX)]) for entry in indexes]


def _folders(objects: bytes) -> Iterator[bytes]:
    """Yield an object directory and those that it borrows from (gitrepository-layout(5))."""
    seen: set[tuple[int, int]] = set()
    level = [objects]
    for _ in range(_DEEPEST + 1):
        below: list[bytes] = []
        for folder in level:
            try:
                found = os.stat(folder)
            except OSError:
                continue
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                yield folder
                below += _alternates(folder)
        level = below


def _alternates(objects: bytes) -> list[bytes]:
    """Return what an object directory names; quoted names, which git writes for odd paths, are left out."""
    try:
        descriptor = os.open(objects + b"/info/alternates", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        text = os.read(descriptor, _ALTERNATES_BYTES)
    except OSError:
        return []
    finally:
        os.close(descriptor)
    lines = [line for line in text.split(b"\n") if line and line[:1] not in b'#"' and b"\0" not in line]
    return [os.path.join(objects, line) for line in lines]
