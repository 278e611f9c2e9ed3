"""Reads objects out of the packs; every content is proven by its id before it is believed."""

from __future__ import annotations

from lastgood.adapters.git.commits import CONVERSATION, MANIFEST, MODES, STATE, WORKSPACE, commit_tree
from lastgood.adapters.git.files import storage, write_all
from lastgood.adapters.git.objects import BLOB, COMMIT, KIND_NAMES, TREE, Hasher
from lastgood.adapters.git.trees import BELOW_PREFIX, TABLE_NAME, decode_tree, join_entries
from lastgood.errors import Damaged
from lastgood.model.tree import Entry, TreeId
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lastgood.adapters.git.pack_read import PackFile
    from lastgood.adapters.git.packs import Packs
    from lastgood.adapters.git.trees import Row

_HINT = "run `lastgood verify --repair`"
# Above this a blob is streamed when it can be.
_WHOLE_BYTES = 1 << 20
# So many directories are remembered: a plan, a guard and a report look at the same ones.
_LISTINGS = 64


class Contents(Value):
    """What a checkpoint's commit holds."""

    manifest: bytes
    workspace: TreeId
    state: Mapping[str, bytes]
    conversation: TreeId | None = None


class GitReader:
    """The reading half of the engine."""

    __slots__ = ("_listings", "hasher", "stored")

    def __init__(self, packs: Packs, hasher: Hasher) -> None:
        self._listings: dict[tuple[bytes, bytes], tuple[Entry, ...]] = {}
        self.stored = packs
        self.hasher = hasher

    def read_blob(self, oid: bytes) -> bytes:
        """Return a blob whole, its id proven again from its bytes; `Damaged`."""
        return self.read_object(oid, kind=BLOB)

    def copy_blob(self, oid: bytes, descriptor: int) -> int:
        """Write a blob to a descriptor in bounded memory, prove its id, return its size; `Damaged`."""
        for pack, offset in self._places(oid):
            streamed = self._stream(pack, offset, oid=oid)
            if streamed is None:
                break
            size, pieces = streamed
            for piece in pieces:
                _write(descriptor, piece)
            return size
        content = self.read_blob(oid)
        _write(descriptor, content)
        return len(content)

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
        holds = self.stored.holds
        lacking = {oid for oid in oids if not holds(oid)}
        if lacking and self.stored.changed():
            self.stored.refresh()
            lacking = {oid for oid in lacking if not holds(oid)}
        if lacking and self.stored.heal(self.hasher):
            lacking = {oid for oid in lacking if not holds(oid)}
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
        state = self.tree_rows(rows[STATE]) if STATE in rows else []
        return Contents(
            manifest=self.read_blob(rows[MANIFEST]),
            workspace=TreeId(tree=rows[WORKSPACE], modes=rows.get(MODES, b"")),
            state={name.decode("utf-8", "surrogateescape"): oid for _, name, oid in state},
            conversation=TreeId(tree=rows[CONVERSATION]) if CONVERSATION in rows else None,
        )

    def tree_rows(self, oid: bytes) -> list[Row]:
        """Return the rows of a tree object; `Damaged`."""
        content = self.read_object(oid, kind=TREE)
        try:
            return decode_tree(content)
        except ValueError as error:
            raise self._damaged(oid, str(error)) from error

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

    def _stream(self, pack: PackFile, offset: int, *, oid: bytes) -> tuple[int, Iterator[bytes]] | None:
        try:
            self.stored.opened(pack)
            streamed = pack.stream(offset)
        except (OSError, ValueError):
            return None
        if streamed is None or streamed[0] != BLOB or streamed[1] < _WHOLE_BYTES:
            return None
        return streamed[1], self._proven(pack, streamed[2], oid=oid, size=streamed[1])

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
        write_all(descriptor, piece)
    except OSError as error:
        raise storage(error, doing="writing a file's bytes") from error


def _file(pack: PackFile) -> str:
    return pack.name.decode("utf-8", "replace") + ".pack"


def _reason(pack: PackFile, error: Exception) -> str:
    return f"{_file(pack)}: {error}"
