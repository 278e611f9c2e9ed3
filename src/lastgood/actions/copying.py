"""Copies what checkpoints hold from one place of objects to another, each proven on the way."""

from __future__ import annotations

from functools import partial

from lastgood.errors import Damaged
from lastgood.model.tree import DIRECTORY, FILE, LINK, TreeId
from lastgood.names import join, within
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

    ``spool`` moves one large blob, ``look`` is shown every file that is copied for the first time.
    """

    def __init__(
        self,
        source: ObjectReader,
        target: ObjectWriter,
        *,
        spool: Spool,
        look: Look | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._spool = spool
        self._look = look
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
                entries = self._source.directory(tree)
                waiting.append((tree, place, entries))
                waiting += [
                    (one.tree_id, join(place, one.name), None) for one in entries if one.kind == DIRECTORY
                ]
                continue
            self._paths[tree] = self._finish(tree, place, entries)

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
        left: list[tuple[bytes, int | None]] = []
        amounts = [0, 0]

        def reduce(tree: TreeId, place: bytes, inside: Sequence[bytes]) -> TreeId:
            kept = []
            for entry in self._source.directory(tree):
                path = join(place, entry.name)
                below = [scope for scope in inside if within(scope, path)]
                if any(within(path, scope) for scope in inside):
                    files, size = self._amount(entry)
                    left.append((path, size if entry.kind != DIRECTORY else None))
                    amounts[0] += files
                    amounts[1] += size
                elif below and entry.kind == DIRECTORY:
                    made = reduce(entry.tree_id, path, below)
                    kept.append(entry.replace(oid=made.tree, modes=made.modes))
                else:
                    self._entry(entry, path)
                    kept.append(entry)
            return self._target.directory(kept)

        made = reduce(root, b"", scopes)
        return made, Left(paths=tuple(left), files=amounts[0], size=amounts[1])

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
        if entry.kind != DIRECTORY:
            return 1, self._source.blob_size(entry.oid) if entry.kind == FILE else 0
        found = [self._amount(one) for one in self._source.directory(entry.tree_id)]
        return sum(files for files, _ in found), sum(size for _, size in found)


def _changed(oid: bytes) -> Damaged:
    return Damaged(
        f"object {oid.hex()} came out as another one",
        hint="run: lastgood verify",
        details={"object": oid.hex()},
    )
