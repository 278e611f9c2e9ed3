"""Objects in memory: what a scan needs of an engine, where tests count or bar calls of the disk."""

from __future__ import annotations

from _sha1 import sha1

from lastgood.errors import Damaged, Internal, Invalid, Storage
from lastgood.model.tree import (
    DEFAULT_DIRECTORY_MODE,
    DEFAULT_EXECUTABLE_MODE,
    DEFAULT_FILE_MODE,
    DIRECTORY,
    FILE,
    LINK,
    Entry,
    TreeId,
    plain_entry,
)
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lastgood.engine import Engine

_COPY_BYTES = 1 << 20
_BAD_NAMES = frozenset({b"", b".", b".."})


class MemoryContents(Value):
    """What a checkpoint's commit holds."""

    manifest: bytes
    workspace: TreeId
    state: Mapping[str, bytes]
    conversation: TreeId | None = None


class _Objects:
    """Blobs by their bytes, trees by their entries, commits by their contents."""

    __slots__ = ("blobs", "commits", "trees")

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self.trees: dict[bytes, dict[bytes, tuple[Entry, ...]]] = {}
        self.commits: dict[bytes, MemoryContents] = {}

    def join(self, other: _Objects) -> None:
        self.blobs.update(other.blobs)
        self.commits.update(other.commits)
        for tree, variants in other.trees.items():
            self.trees.setdefault(tree, {}).update(variants)

    def has(self, oid: bytes) -> bool:
        known = oid in self.blobs or oid in self.trees or oid in self.commits
        return known or any(oid in variants for variants in self.trees.values())  # that of permissions

    def size(self) -> int:
        rows = sum(len(rows) for variants in self.trees.values() for rows in variants.values())
        return sum(map(len, self.blobs.values())) + 64 * (rows + len(self.commits))


class MemoryWriter:
    """Additions that nobody sees before `publish`."""

    __slots__ = ("_closed", "_detached", "_new", "_stored")

    def __init__(self, stored: _Objects, new: _Objects) -> None:
        self._stored = stored
        self._new = new
        self._detached = new
        self._closed = False

    @property
    def stored_bytes(self) -> int:
        """How many bytes were added so far."""
        return self._new.size()

    @property
    def contents(self) -> Mapping[bytes, bytes]:
        """Nothing: all is to be compressed."""
        return {}

    def blob(self, content: bytes) -> bytes:
        """Add a blob and return its id (the same as git's)."""
        self._check_open()
        content = bytes(content)
        oid = _blob_id(content)
        if oid not in self._stored.blobs:
            self._new.blobs[oid] = content
        return oid

    def blob_from(self, descriptor: int, size: int) -> bytes:
        """Add ``size`` bytes read from a descriptor; EOFError if there are fewer."""
        import os

        pieces = []
        while size > 0:
            piece = os.read(descriptor, min(size, _COPY_BYTES))
            if not piece:
                raise EOFError("a file is shorter than it was")
            pieces.append(piece)
            size -= len(piece)
        return self.blob(b"".join(pieces))

    def directory(self, entries: Iterable[Entry]) -> TreeId:
        """Add a directory (entries in any order) and return its identity."""
        self._check_open()
        rows = tuple(sorted(entries, key=_name))
        for place, entry in enumerate(rows):
            twice = place > 0 and rows[place - 1].name == entry.name
            if twice or entry.name in _BAD_NAMES or b"/" in entry.name or b"\0" in entry.name:
                raise Invalid(f"a directory cannot hold the name {entry.name!r}", hint="report this")
        tree = _digest([(e.name, e.kind, e.kind == FILE and e.mode & 0o100, e.oid) for e in rows])
        special = [(e.name, e.mode, e.modes) for e in rows if e.modes or e.mode != _default_mode(e)]
        modes = _digest(special) if special else b""
        self._new.trees.setdefault(tree, {})[modes] = rows
        return TreeId(tree=tree, modes=modes)

    def plain_directory(self, rows: Sequence[tuple[bytes, int, bytes]]) -> TreeId:
        """Add a directory of files, and of directories with defaults below, sorted by name."""
        return self.directory(map(plain_entry, rows))

    def edited_directory(self, before: bytes, edits: Iterable[tuple[bytes, bytes, bytes]]) -> bytes | None:
        """Add a plain directory that is one ``before`` but for some ids; None where there is none."""
        variants = self._new.trees.get(before) or self._stored.trees.get(before) or {}
        entries = {entry.name: entry for entry in variants.get(b"", ())}
        for name, was, now in edits:
            entry = entries.get(name)
            if entry is None or entry.oid != was:
                return None
            entries[name] = entry.replace(oid=now)
        return self.directory(entries.values()).tree if b"" in variants else None

    def checkpoint(
        self,
        *,
        id: str,
        manifest: bytes,
        workspace: TreeId,
        state: Mapping[str, bytes],
        created_at: int,
        conversation: TreeId | None = None,
    ) -> bytes:
        """Add the commit of a checkpoint and return its id; ``created_at`` is in nanoseconds."""
        self._check_open()
        contents = MemoryContents(
            manifest=bytes(manifest), workspace=workspace, state=dict(state), conversation=conversation
        )
        spoken = None if conversation is None else conversation.tree
        commit = _digest(
            (id, manifest, workspace.tree, workspace.modes, sorted(state.items()), spoken, created_at)
        )
        self._new.commits[commit] = contents
        return commit

    def read_beside(self, read: object, *, root: int) -> bool:
        """Begin nothing: what is in memory another process cannot add to."""
        del read, root
        return False

    def offer_files(self, folders: object) -> None:
        """Take none."""

    def files_read(self, *, wait: bool = False) -> Iterator[tuple[object, Sequence[bytes]]]:
        """Yield nothing."""
        del wait
        return iter(())

    def import_blobs(self, objects: bytes, oids: Iterable[bytes]) -> set[bytes]:
        """Copy nothing: this engine cannot read git's objects. Returns what it has of them already."""
        del objects
        known = self._stored.blobs.keys() | self._new.blobs.keys()
        return {oid for oid in oids if oid in known}

    def settle_imports(self) -> bool:
        """Tell that nothing was copied that could have failed."""
        return True

    def lacks(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return those ids of which this writer would store the content, were it added."""
        return {oid for oid in oids if not self._stored.has(oid) and not self._new.has(oid)}

    def unreadable(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return what `lacks` does: nothing in memory is damaged."""
        return self.lacks(oids)

    def publish_part(self) -> None:
        """Publish nothing before the end: there is no other process to find it."""

    def publish(self, *, durable: bool = True) -> None:
        """Make everything added readable."""
        del durable
        self._check_open()
        self._stored.join(self._new)
        self.abandon()

    def abandon(self) -> None:
        """Forget everything added; harmless after `publish`."""
        self._closed = True
        self._new = _Objects()

    def detach(self) -> Mapping[str, object]:
        """Hand over what was added; only the same process can resume it."""
        self._check_open()
        kept, handed = self._new, _Objects()
        handed.join(kept)
        self.abandon()
        self._detached = kept
        return {"new": handed}

    def adopt(self, detached: Mapping[str, object]) -> None:
        """Go on, after `detach`, with what was handed over."""
        new = detached["new"]
        assert isinstance(new, _Objects)
        self._new = new
        self._closed = False

    def take_back(self) -> None:
        """Go on with what was detached here."""
        self._new = self._detached
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise Internal("the pack is published or abandoned already", hint="report this")


class _MemoryEngine:
    """Everything in memory, gone when the process ends."""

    def __init__(self) -> None:
        self._stored = _Objects()

    def read_blob(self, oid: bytes) -> bytes:
        """Return a blob whole; `Damaged`."""
        content = self._stored.blobs.get(oid)
        if content is None:
            raise _lost(oid, "nothing stored has this id")
        if _blob_id(content) != oid:
            raise _lost(oid, "its bytes are not what they were")
        return content

    def pieces(self, oid: bytes) -> Iterator[bytes]:
        """Yield the bytes of a blob; `Damaged`."""
        yield self.read_blob(oid)

    def has_content(self, oid: bytes, content: bytes) -> bool:
        """Tell whether a blob has a content."""
        return self._stored.blobs.get(oid) == content

    def copy_blob(self, oid: bytes, descriptor: int) -> int:
        """Write a blob to a descriptor and return its size in bytes."""
        import os

        content = self.read_blob(oid)
        left = memoryview(content)
        try:
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError as error:
            raise Storage(f"writing a file's bytes failed: {error.strerror}", hint="free space") from error
        return len(content)

    def blob_size(self, oid: bytes) -> int:
        """Return the size of a blob in bytes."""
        return len(self.read_blob(oid))

    def directory(self, tree: TreeId) -> Sequence[Entry]:
        """Return the entries of one directory, sorted by name as bytes."""
        rows = self._stored.trees.get(tree.tree, {}).get(tree.modes)
        if rows is None:
            raise _lost(tree.tree, "nothing stored has this id")
        return rows

    def missing(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return those ids of which nothing is stored."""
        return {oid for oid in oids if not self._stored.has(oid)}

    def writer(self) -> MemoryWriter:
        """Begin a pack."""
        return MemoryWriter(self._stored, _Objects())


def _blob_id(content: bytes) -> bytes:
    return bytes(sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).digest())


def _digest(parts: object) -> bytes:
    return bytes(sha1(repr(parts).encode("utf-8", "surrogateescape"), usedforsecurity=False).digest())


def _default_mode(entry: Entry) -> int:
    if entry.kind == LINK:
        return entry.mode
    if entry.kind == DIRECTORY:
        return DEFAULT_DIRECTORY_MODE
    return DEFAULT_EXECUTABLE_MODE if entry.mode & 0o100 else DEFAULT_FILE_MODE


def _lost(oid: bytes, reason: str) -> Damaged:
    return Damaged(
        f"object {oid.hex()} cannot be read: {reason}",
        hint="run `lastgood verify`",
        details={"object": oid.hex(), "reason": reason},
    )


def _name(entry: Entry) -> bytes:
    return entry.name


def memory_engine() -> Engine:
    """Return an engine of which only what reads objects and begins to write some is there."""
    return cast("Engine", _MemoryEngine())
