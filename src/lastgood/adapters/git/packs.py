"""All packs of the repository as one place to look objects up in, newest first."""

from __future__ import annotations

import os
import time

from lastgood.adapters.git.files import storage
from lastgood.adapters.git.pack_read import PackFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.adapters.git.idx import IndexEntry
    from lastgood.adapters.git.objects import Hasher

_IDX = b".idx"
# From this many look-ups on, one table of the small packs pays.
_PATIENCE = 300
_SMALL_PACK = 20_000
_TABLE_LIMIT = 400_000
_OPEN_PACKS = 64
# A folder that changed so short a time before it was looked at may change again and bear the same time
# (nanoseconds): the clock of files goes on in steps of up to 10 ms, of some file systems in whole seconds.
_FINE_STEP = 50_000_000
_COARSE_STEP = 2_000_000_000
_SECOND = 1_000_000_000
_UNSURE = (0, 0)


class Packs:
    """The packs of one folder. `Storage` when the folder cannot be read."""

    __slots__ = (
        "_apart",
        "_folder",
        "_looked",
        "_open",
        "_packs",
        "_proven",
        "_stamp",
        "_table",
        "_tabled",
        "unreadable",
    )

    def __init__(self, folder: bytes) -> None:
        self._folder = folder
        self._packs: list[PackFile] | None = None
        self._stamp = _UNSURE
        self._looked = 0
        self._table: dict[bytes, PackFile] = {}
        self._tabled: set[bytes] = set()
        self._apart: list[PackFile] = []
        self._open: list[PackFile] = []
        self._proven: set[bytes] = set()
        self.unreadable: dict[bytes, str] = {}

    def all(self) -> list[PackFile]:
        """Return the packs that have an index, newest first."""
        if self._packs is None:
            self.refresh()
            assert self._packs is not None
        return self._packs

    def refresh(self) -> None:
        """Look again which packs there are."""
        known = {pack.name: pack for pack in self._packs or ()}
        found: list[tuple[int, PackFile]] = []
        now = time.time_ns()
        try:
            folder = os.stat(self._folder)
            names = [name[: -len(_IDX)] for name in os.listdir(self._folder) if name.endswith(_IDX)]
        except OSError as error:
            raise storage(error, doing="reading the object store") from error
        self._stamp = _stamp(folder, now)
        self.unreadable.clear()
        if self._packs is not None and known.keys() == set(names):
            return
        for name in names:
            pack = known.pop(name, None) or PackFile(self._folder, name)
            try:
                found.append((os.stat(pack.path + _IDX).st_mtime_ns, pack))
            except OSError:
                continue
        found.sort(key=lambda row: (-row[0], row[1].name))
        self._packs = [pack for _, pack in found]
        for gone in known.values():
            gone.close()
        if known:
            self._table.clear()
            self._tabled.clear()
            self._open = [pack for pack in self._open if pack.name not in known]
            self._looked = 0
        else:
            self._looked = min(self._looked, _PATIENCE)  # past it, the next look-up takes the new ones in

    def changed(self) -> bool:
        """Tell whether packs may have come or gone since the last look."""
        try:
            folder = os.stat(self._folder)
        except OSError:
            return True
        return self._stamp == _UNSURE or self._stamp != (folder.st_mtime_ns, folder.st_ino)

    def holds(self, oid: bytes) -> bool:
        """Tell whether any index names an object."""
        for _ in self.find(oid):
            return True
        return False

    def find(self, oid: bytes) -> Iterator[tuple[PackFile, int]]:
        """Yield every place of an object: pack and offset, newest pack first."""
        self._looked += 1
        packs = self.all()
        if self._looked > _PATIENCE:
            if self._looked == _PATIENCE + 1:
                self._fill_table()
            first = self._table.get(oid)
            if first is None:
                packs = self._apart
            else:
                yield first, first.index.find(oid)
                packs = [pack for pack in packs if pack is not first]
        for pack in packs:
            offset = self._look(pack, oid)
            if offset >= 0:
                yield pack, offset

    def _look(self, pack: PackFile, oid: bytes) -> int:
        if pack.name in self.unreadable:
            return -1
        try:
            return pack.index.find(oid)
        except (OSError, ValueError) as error:
            self.unreadable[pack.name] = str(error)
            return -1

    def _fill_table(self) -> None:
        """Take every small pack into the table that is not in it, and note those that stay apart."""
        for pack in reversed(self.all()):
            if pack.name in self._tabled or len(self._table) > _TABLE_LIMIT:
                continue
            if self._look(pack, bytes(20)) < 0 and pack.name in self.unreadable:
                continue
            if pack.index.count <= _SMALL_PACK:
                self._table.update(dict.fromkeys(pack.index.oids(), pack))
                self._tabled.add(pack.name)
        self._apart = [pack for pack in self.all() if pack.name not in self._tabled]

    def heal(self, hasher: Hasher) -> bool:
        """Put what the packs themselves say in the place of damaged indexes; False if none is.

        The last resort of a reader that did not find something: each index is proven once. Nothing
        on the disk is changed.
        """
        from lastgood.adapters.git.scan import walk_pack  # lazily: only damage needs it

        healed = False
        for pack in self.all():
            if pack.name in self._proven:
                continue
            self._proven.add(pack.name)
            if pack.index_fits:
                continue
            entries, _ = walk_pack(pack, hasher)
            # What lies behind a fault no walk finds; whoever reads proves what he is given.
            found = {oid for oid, _, _ in entries}
            pack.stand_in(entries + [row for row in _claimed(pack) if row[0] not in found])
            self.unreadable.pop(pack.name, None)
            healed = True
        if healed:
            self._table.clear()
            self._tabled.clear()
            self._looked = 0
        return healed

    def opened(self, pack: PackFile) -> None:
        """Keep the number of open packs within bounds; call before reading one."""
        if pack.is_open:
            return
        self._open.append(pack)
        if len(self._open) > _OPEN_PACKS:
            self._open.pop(0).close()

    def close(self) -> None:
        """Close everything; it opens again when needed."""
        for pack in self._packs or ():
            pack.close()
        self._packs = None
        self._table.clear()
        self._tabled.clear()
        self._looked = 0
        self._open.clear()


def _claimed(pack: PackFile) -> list[IndexEntry]:
    """Return what a damaged index says, as far as it can be read."""
    try:
        return pack.index.entries()
    except (OSError, ValueError):
        return []


def _stamp(folder: os.stat_result, now: int) -> tuple[int, int]:
    """Return what differs as soon as a pack comes or goes after a time, `_UNSURE` if nothing surely does."""
    step = _FINE_STEP if folder.st_mtime_ns % _SECOND else _COARSE_STEP
    return (folder.st_mtime_ns, folder.st_ino) if folder.st_mtime_ns < now - step else _UNSURE
