"""Reads objects out of the packs; every content is proven by its id before it is believed."""

from __future__ import annotations

import os
import time

from lastgood.errors import Damaged
from lastgood.files import write_whole
from lastgood.model.tree import Entry, TreeId
from lastgood.objects import (
    BELOW_PREFIX,
    BLOB,
    COMMIT,
    CONVERSATION,
    KIND_NAMES,
    MANIFEST,
    MODES,
    PROGRESS,
    STATE,
    TABLE_NAME,
    TREE,
    WORKSPACE,
    Hasher,
    commit_tree,
    decode_tree,
    join_entries,
)
from lastgood.objects.pack import LIKELY_BYTES, PackFile
from lastgood.objects.repository import storage
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from lastgood.objects import Row
    from lastgood.objects.pack import IndexEntry


_HINT = "run `lastgood verify --repair`"
# Above this a blob is streamed when it can be.
_WHOLE_BYTES = 1 << 20
# What is beside a content in an entry that has it as it is: the header, and what zlib's format adds.
_BESIDE_CONTENT = 32
# So many directories are remembered: a plan, a guard and a report look at the same ones.
_LISTINGS = 64


class Contents(Value):
    """What a checkpoint's commit holds."""

    manifest: bytes
    workspace: TreeId
    state: Mapping[str, bytes]
    conversation: TreeId | None = None
    progress: Mapping[str, bytes] = {}


class GitReader:
    """The reading half of the engine."""

    __slots__ = ("_listings", "hasher", "stored")

    def __init__(self, packs: Packs, hasher: Hasher) -> None:
        self._listings: dict[tuple[bytes, bytes], tuple[Entry, ...]] = {}
        self.stored: Packs = packs
        self.hasher: Hasher = hasher

    def read_blob(self, oid: bytes) -> bytes:
        """Return a blob whole, its id proven again from its bytes; `Damaged`."""
        return self.read_object(oid, kind=BLOB)

    def pieces(self, oid: bytes) -> Iterator[bytes]:
        """Yield the bytes of a blob in bounded memory; its id is proven after the last of them; `Damaged`."""
        content = self._small(oid)
        return self._large(oid) if content is None else iter((content,))

    def has_content(self, oid: bytes, content: bytes) -> bool:
        """Tell whether a blob reads as a content that is known to have its id; False too of a large one."""
        return self._first(oid, likely=len(content) + _BESIDE_CONTENT) == content

    def _small(self, oid: bytes) -> bytes | None:
        """Return a small blob, proven, out of the first pack that names it; None if it is not sound there."""
        content = self._first(oid)
        return None if content is None or self.hasher.object_id(BLOB, content) != oid else content

    def _first(self, oid: bytes, *, likely: int = LIKELY_BYTES) -> bytes | None:
        """Return what the first pack that names a small blob has of it, not proven; None if that is none.

        So many bytes as its entry ``likely`` takes are read at once.
        """
        place = next(self.stored.find(oid), None)
        if place is None:
            return None
        pack, offset = place
        try:
            self.stored.opened(pack)
            kind, content = pack.whole(offset, most=_WHOLE_BYTES, likely=likely)
        except (OSError, ValueError):
            return None
        return content if kind == BLOB else None

    def _large(self, oid: bytes) -> Iterator[bytes]:
        """Yield a blob that is too large to be proven first; one that is not is looked for everywhere."""
        for pack, offset in self._places(oid):
            streamed = self._stream(pack, offset, oid=oid)
            if streamed is None:
                break
            yield from streamed
            return
        yield self.read_blob(oid)

    def copy_blob(self, oid: bytes, descriptor: int) -> int:
        """Write a blob to a descriptor in bounded memory, prove its id, return its size; `Damaged`."""
        size = 0
        for piece in self.pieces(oid):
            _write(descriptor, piece)
            size += len(piece)
        return size

    def blob_size(self, oid: bytes) -> int:
        """Return the size of a blob in bytes without reading it all; `Damaged`."""
        reason = ""
        for pack, offset in self._places(oid):
            try:
                self.stored.opened(pack)
                kind, size = pack.kind_and_size(offset)
            except (OSError, ValueError) as error:
                reason = reason or _reason(pack, error)
                continue
            if kind == BLOB:
                return size
            reason = reason or f"{_file(pack)}: it is a {KIND_NAMES[kind].decode()}"
        raise self._damaged(oid, reason)

    def directory(self, tree: TreeId) -> tuple[Entry, ...]:
        """Return the entries of one directory, sorted by name as bytes; `Damaged`."""
        known = self._listings.get((tree.tree, tree.modes))
        if known is None:
            known = self._list(tree)
            if len(self._listings) >= _LISTINGS:
                self._listings.clear()
            self._listings[tree.tree, tree.modes] = known
        return known

    def _list(self, tree: TreeId) -> tuple[Entry, ...]:
        rows = self.tree_rows(tree.tree)
        table = b""
        below: list[Row] = []
        if tree.modes:
            for row in self.tree_rows(tree.modes):
                if row[1] == TABLE_NAME:
                    table = self.read_blob(row[2])
                elif row[1].startswith(BELOW_PREFIX):
                    below.append(row)
        try:
            return join_entries(rows, table, below)
        except ValueError as error:
            raise self._damaged(tree.tree, str(error)) from error

    def missing(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return those ids of which nothing is stored (an index look-up, not a proof of content)."""
        lacking = self.stored.lacking(oids)
        if lacking and self.stored.changed():
            self.stored.refresh()
            lacking = self.stored.lacking(lacking)
        if lacking and self.stored.heal(self.hasher):
            lacking = self.stored.lacking(lacking)
        return lacking

    def contents(self, commit: bytes) -> Contents:
        """Return what a checkpoint's commit holds; `Damaged`."""
        try:
            tree = commit_tree(self.read_object(commit, kind=COMMIT))
        except ValueError as error:
            raise self._damaged(commit, str(error)) from error
        rows = {name: oid for _, name, oid in self.tree_rows(tree)}
        if MANIFEST not in rows or WORKSPACE not in rows:
            raise self._damaged(commit, "its tree lacks the manifest or the workspace")
        state, lists = (self.tree_rows(rows[name]) if name in rows else [] for name in (STATE, PROGRESS))
        return Contents(
            manifest=self.read_blob(rows[MANIFEST]),
            workspace=TreeId(tree=rows[WORKSPACE], modes=rows.get(MODES, b"")),
            state={name.decode("utf-8", "surrogateescape"): oid for _, name, oid in state},
            conversation=TreeId(tree=rows[CONVERSATION]) if CONVERSATION in rows else None,
            progress={name.decode("ascii", "replace"): oid for _, name, oid in lists},
        )

    def tree_rows(self, oid: bytes) -> list[Row]:
        """Return the rows of a tree object; `Damaged`."""
        content = self.read_object(oid, kind=TREE)
        try:
            return decode_tree(content)
        except ValueError as error:
            raise self._damaged(oid, str(error)) from error

    def is_readable(self, oid: bytes) -> bool:
        """Tell whether some pack has an object of an id sound, of whatever kind."""
        for pack, offset in self._places(oid):
            try:
                self.stored.opened(pack)
                kind, content = pack.read(offset)
            except (OSError, ValueError):
                continue
            if self.hasher.object_id(kind, content) == oid:
                return True
        return False

    def read_object(self, oid: bytes, *, kind: int) -> bytes:
        """Return the content of an object of one kind out of the first pack that has it sound; `Damaged`."""
        reason = ""
        for pack, offset in self._places(oid):
            try:
                self.stored.opened(pack)
                found, content = pack.read(offset)
            except (OSError, ValueError) as error:
                reason = reason or _reason(pack, error)
                continue
            if self.hasher.object_id(found, content) != oid:
                reason = reason or f"{_file(pack)}: its bytes are not what they were"
            elif found != kind:
                reason = reason or f"{_file(pack)}: it is a {KIND_NAMES[found].decode()}"
            else:
                return content
        raise self._damaged(oid, reason)

    def _places(self, oid: bytes) -> Iterator[tuple[PackFile, int]]:
        yield from self.stored.find(oid)
        if self.stored.changed():
            self.stored.refresh()
            yield from self.stored.find(oid)
        # Whoever comes here has found nothing sound so far.
        if self.stored.heal(self.hasher):
            yield from self.stored.find(oid)

    def _stream(self, pack: PackFile, offset: int, *, oid: bytes) -> Iterator[bytes] | None:
        try:
            self.stored.opened(pack)
            streamed = pack.stream(offset)
        except (OSError, ValueError):
            return None
        if streamed is None or streamed[0] != BLOB or streamed[1] <= _WHOLE_BYTES:
            return None
        return self._proven(pack, streamed[2], oid=oid, size=streamed[1])

    def _proven(self, pack: PackFile, pieces: Iterator[bytes], *, oid: bytes, size: int) -> Iterator[bytes]:
        running = self.hasher.begin(b"blob %d\0" % size, size=size)
        try:
            for piece in pieces:
                running.update(piece)
                yield piece
        except (OSError, ValueError) as error:
            raise self._damaged(oid, _reason(pack, error)) from error
        if running.digest() != oid:
            raise self._damaged(oid, f"{_file(pack)}: its bytes are not what they were")

    def _damaged(self, oid: bytes, reason: str) -> Damaged:
        unreadable = [
            f"{name.decode('utf-8', 'replace')}.idx: {why}" for name, why in self.stored.unreadable.items()
        ]
        reason = reason or "; ".join(["nothing stored has this id", *unreadable])
        return Damaged(
            f"object {oid.hex()} cannot be read: {reason}",
            hint=_HINT,
            details={"object": oid.hex(), "reason": reason},
        )


def _write(descriptor: int, piece: bytes) -> None:
    try:
        write_whole(descriptor, piece)
    except OSError as error:
        raise storage(error, doing="writing a file's bytes") from error


def _file(pack: PackFile) -> str:
    return pack.name.decode("utf-8", "replace") + ".pack"


def _reason(pack: PackFile, error: Exception) -> str:
    return f"{_file(pack)}: {error}"


# --- All packs of the repository as one place to look objects up in, newest first ---

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
# So long (seconds) others' packs may be there before who only wants to store nothing twice looks for them.
_LATELY = 1.0


class Packs:
    """The packs of one folder. `Storage` when the folder cannot be read."""

    __slots__ = (
        "_ages",
        "_apart",
        "_folder",
        "_listed",
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
        # By their names: the newest first.
        self._ages: dict[bytes, int] = {}
        self._stamp = _UNSURE
        self._listed = 0.0
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

    def look(self) -> list[PackFile]:
        """Return the packs as `all` does, listed again where some may have come or gone."""
        if self.unreadable or self.changed():
            self.refresh()
        return self.all()

    def look_lately(self) -> list[PackFile]:
        """Return the packs as `look` does; what others published within the last second may be left out.

        Where many save at once each would list them all for each save, to find what is stored already among
        what others just stored. What is relied upon is asked for by its name (`PackFile.is_there`).
        """
        if self.unreadable or time.monotonic() - self._listed > _LATELY:
            return self.look()
        return self.all()

    def refresh(self) -> None:
        """Look again which packs there are."""
        self._listed = time.monotonic()
        known = {pack.name: pack for pack in self._packs or ()}
        found: list[PackFile] = []
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
        # Of its own: other threads may look, too, and find that others have gone.
        ages: dict[bytes, int] = {}
        for name in names:
            pack, age = known.pop(name, None), self._ages.get(name)
            if pack is None or age is None:  # one that is known does not change, and there may be thousands
                pack = PackFile(self._folder, name) if pack is None else pack
                try:
                    age = -os.stat(pack.path + _IDX).st_mtime_ns
                except OSError:
                    continue
            ages[name] = age
            found.append(pack)
        self._ages, self._packs = ages, sorted(found, key=lambda pack: (ages[pack.name], pack.name))
        for gone in known.values():
            gone.close()
        if known:
            self._table.clear()
            self._tabled.clear()
            self._open = [pack for pack in self._open if pack.name not in known]
            self._looked = 0
        else:
            self._looked = min(self._looked, _PATIENCE)  # past it, the next look-up takes the new ones in

    def take_in(self, name: bytes, oids: Collection[bytes]) -> None:
        """Know of a pack that was just published here with some objects; others may have come or gone."""
        if self._packs is None or name in self._ages:
            return
        pack = PackFile(self._folder, name)
        self._ages[name] = -time.time_ns()
        self._packs = [pack, *self._packs]
        self._stamp = _UNSURE
        if self._looked > _PATIENCE and len(oids) <= _SMALL_PACK and len(self._table) <= _TABLE_LIMIT:
            self._table.update(dict.fromkeys(oids, pack))
            self._tabled.add(name)
        else:
            self._looked = min(self._looked, _PATIENCE)

    def changed(self) -> bool:
        """Tell whether packs may have come or gone since the last look."""
        try:
            folder = os.stat(self._folder)
        except OSError:
            return True
        return self._stamp == _UNSURE or self._stamp != (folder.st_mtime_ns, folder.st_ino)

    def first(self, oid: bytes) -> PackFile | None:
        """Return a pack whose index names an object; None if none does."""
        if self._looked > _PATIENCE:  # then the table is whole
            found = self._table.get(oid)
            if found is not None or not self._apart:
                return found
            return next((pack for pack in self._apart if self._look(pack, oid) >= 0), None)
        return next((pack for pack, _ in self.find(oid)), None)

    def lacking(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return those ids that no index names of a pack that is there."""
        lacking, asked, there = set(), set(oids), set()
        for oid in asked:
            pack = self.first(oid)
            if pack is None:
                lacking.add(oid)
            elif pack not in there:
                if not pack.is_there:
                    self.refresh()
                    return {oid for oid in asked if self.first(oid) is None}
                there.add(pack)
        return lacking

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
        from lastgood.objects.scan import walk_pack  # lazily: only damage needs it

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
            pack.use_entries(entries + [row for row in _claimed(pack) if row[0] not in found])
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
        self._ages.clear()
        self._table.clear()
        self._tabled.clear()
        self._looked = 0
        self._open.clear()


class NoPacks(Packs):
    """The packs of a store that is not there."""

    __slots__ = ()

    def refresh(self) -> None:
        """Find none."""
        self._packs = []

    def changed(self) -> bool:
        """Tell that none came or went."""
        return False


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
