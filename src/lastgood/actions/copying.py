"""Copies what checkpoints hold from one place of objects to another, each proven on the way."""

from __future__ import annotations

from functools import partial

from lastgood.errors import Damaged
from lastgood.model.tree import DIRECTORY, FILE, LINK, TreeId
from lastgood.names import join, ways
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from lastgood.model.tree import Entry
    from lastgood.ports.engine import ObjectReader, ObjectWriter

    # Returns so many bytes of a file from some place on.
    Read = Callable[[int, int], bytes]
    # Told of each file once, with its path, how to read it, and its size.
    Look = Callable[[bytes, Read, int], None]
    # Told of each entry of a directory once, with its path; may refuse it.
    Admit = Callable[[bytes, Entry], None]

    class Spool(Protocol):
        """Moves one large blob without holding it."""

        def __call__(
            self,
            source: ObjectReader,
            target: ObjectWriter,
            oid: bytes,
            *,
            look: Callable[[Read, int], None] | None,
        ) -> bytes:
            """Copy it, showing it to ``look`` on the way, and return the id that it got."""


# A tree of a few objects can name more paths than any disk holds.
MOST_PATHS = 20_000_000
_WHOLE_BYTES = 8 << 20


class Left(Value):
    """What a copy left out: the paths, and how many files and bytes they are."""

    paths: tuple[tuple[bytes, int | None], ...] = ()
    files: int = 0
    size: int = 0


class Copying:
    """One run of copying; what several checkpoints share is copied once.

    ``spool`` moves one large blob, ``look`` is shown every file that is copied for the first time,
    ``admit`` every entry before anything of its directory is stored.
    """

    def __init__(
        self,
        source: ObjectReader,
        target: ObjectWriter,
        *,
        spool: Spool,
        look: Look | None = None,
        admit: Admit | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._spool = spool
        self._look = look
        self._admit = admit
        self._paths: dict[TreeId, int] = {}
        self._blobs: set[bytes] = set()

    def tree(self, root: TreeId, *, path: bytes = b"") -> None:
        """Copy a directory with all below it; `Damaged` if something is missing or wrong."""
        waiting: list[tuple[TreeId, bytes, Sequence[Entry] | None]] = [(root, path, None)]
        while waiting:
            tree, place, entries = waiting.pop()
            if tree in self._paths:
                continue
            if entries is None:
                entries = self._read(tree, place)
                waiting.append((tree, place, entries))
                waiting += [
                    (one.tree_id, join(place, one.name), None) for one in entries if one.kind == DIRECTORY
                ]
                continue
            self._paths[tree] = self._finish(tree, place, entries)

    def _read(self, tree: TreeId, place: bytes) -> Sequence[Entry]:
        entries = self._source.directory(tree)
        if self._admit is not None:
            for entry in entries:
                self._admit(join(place, entry.name), entry)
        return entries

    def blob(self, oid: bytes, *, path: bytes = b"", kind: str = LINK) -> None:
        """Copy a blob; ``kind`` tells whether it is a file's content."""
        if oid in self._blobs:
            return
        self._blobs.add(oid)
        if not self._target.lacks((oid,)):
            return
        look = self._look if kind == FILE else None
        if self._source.blob_size(oid) > _WHOLE_BYTES:
            seen = None if look is None else partial(look, path)
            made = self._spool(self._source, self._target, oid, look=seen)
        else:
            content = self._source.read_blob(oid)
            if look is not None:
                look(path, lambda at, size: content[at : at + size], len(content))
            made = self._target.blob(content)
        if made != oid:
            raise _changed(oid)

    def without(self, root: TreeId, scopes: Sequence[bytes]) -> tuple[TreeId, Left]:
        """Copy a directory but for some paths, and return what it became and what was left out."""
        gone, leading = set(scopes), ways(scopes)
        met: list[tuple[bytes, Sequence[Entry]]] = []
        waiting = [(b"", root)]
        while waiting:
            place, tree = waiting.pop()
            entries = self._source.directory(tree)
            met.append((place, entries))
            inner = ((join(place, one.name), one) for one in entries if one.kind == DIRECTORY)
            waiting += [(path, one.tree_id) for path, one in inner if path in leading and path not in gone]
        left: list[tuple[bytes, int | None]] = []
        amounts = [0, 0]
        made: dict[bytes, TreeId] = {}
        for place, entries in reversed(met):  # what lies in a directory was met after it
            kept = []
            for entry in entries:
                path = join(place, entry.name)
                if path in gone or b"" in gone:
                    files, size = self._amount(entry)
                    left.append((path, size if entry.kind != DIRECTORY else None))
                    amounts[0] += files
                    amounts[1] += size
                elif path in made:
                    kept.append(entry.replace(oid=made[path].tree, modes=made[path].modes))
                else:
                    self._entry(entry, path)
                    kept.append(entry)
            made[place] = self._target.directory(kept)
        left.sort()
        return made[b""], Left(paths=tuple(left), files=amounts[0], size=amounts[1])

    def _finish(self, tree: TreeId, place: bytes, entries: Sequence[Entry]) -> int:
        paths = len(entries)
        for entry in entries:
            if entry.kind == DIRECTORY:
                paths += self._paths.get(entry.tree_id, MOST_PATHS)
            else:
                self.blob(entry.oid, path=join(place, entry.name), kind=entry.kind)
        if paths > MOST_PATHS:
            raise Damaged("a tree names an absurd number of paths", hint="nothing was copied")
        if self._target.directory(entries) != tree:
            raise _changed(tree.tree)
        return paths

    def _entry(self, entry: Entry, path: bytes) -> None:
        if entry.kind == DIRECTORY:
            self.tree(entry.tree_id, path=path)
        else:
            self.blob(entry.oid, path=path, kind=entry.kind)

    def _amount(self, entry: Entry) -> tuple[int, int]:
        files = size = 0
        waiting = [entry]
        while waiting:
            one = waiting.pop()
            if one.kind == DIRECTORY:
                waiting += self._source.directory(one.tree_id)
                continue
            files += 1
            size += self._source.blob_size(one.oid) if one.kind == FILE else 0
        return files, size


def _changed(oid: bytes) -> Damaged:
    return Damaged(
        f"object {oid.hex()} came out as another one",
        hint="run: lastgood verify",
        details={"object": oid.hex()},
    )
