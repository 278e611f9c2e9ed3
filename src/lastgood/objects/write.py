"""Writes a checkpoint as one new pack; nothing is visible before `GitWriter.publish`."""

from __future__ import annotations

import os
import zlib
from _struct import pack

from lastgood.errors import Internal, Invalid, Storage
from lastgood.model.tree import TreeId, plain_entry
from lastgood.objects import (
    BLOB,
    COMMIT,
    CONVERSATION,
    MANIFEST,
    MODES,
    PLAIN,
    PROGRESS,
    STATE,
    SUBTREE,
    TABLE_NAME,
    TREE,
    WORKSPACE,
    encode_commit,
    encode_plain,
    encode_tree,
    split_entries,
)
from lastgood.objects.pack import PackDraft, entry_header, publish_draft
from lastgood.objects.read import GitReader
from lastgood.objects.repository import COPY_BYTES, storage, suspect_packs, sync_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lastgood.engine import Folder, ReadFolder
    from lastgood.model.tree import Entry
    from lastgood.objects import Hasher
    from lastgood.objects.borrow import BlobImport
    from lastgood.objects.deflate_process import Answer, DeflateProcess, FileBatch, FileMaker, Job, Made
    from lastgood.objects.pack import PackFile
    from lastgood.objects.read import Packs
    from lastgood.objects.repository import Layout


# --- Compresses what goes into a pack: at once while there is little, in a second process when there is much
# ---

LEVEL = 1
# The smallest window that zlib makes, and by how much its tables may be smaller: what comes out then is a few
# bytes longer at most (measured from 0 to 200,000 bytes).
_LEAST_BITS = 9
_TABLE_BITS = 6
# From here on a second process pays for itself.
_PROCESS_BYTES = 4 << 20
# What ISA-L spares of so many bytes pays for its import, which takes 1 ms.
_FASTER_BYTES = 512 << 10
# The other process is handed this much at a time.
_BATCH_BYTES = 256 << 10
# The head of zlib's format, and of the last block of bytes that are as they are; so many it has at most.
_STORED = b"\x78\x01\x01"
_MOST_STORED = 0xFFFF
# Ids are most of a directory's tree, and hardly compress: in a small pack, which is joined with others before
# long (and compressed then), a tree of a few of them is kept as it is for a tenth of the time. So is whatever
# is small, if that is asked for.
_SMALL_TREE_BYTES = 4 << 10
_AS_IT_IS_WITHIN = 256 << 10
# What a second process makes of a file for a draft that becomes nothing: a byte, by which it counts as made.
_TRACE = b"\0"


def _plain(content: bytes) -> bytes:
    """Compress with a window no larger than the content: a whole one takes 40 us to make (measured)."""
    bits = min(max((len(content) - 1).bit_length(), _LEAST_BITS), zlib.MAX_WBITS)
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, bits, min(bits - _TABLE_BITS, zlib.DEF_MEM_LEVEL))
    return deflate.compress(content) + deflate.flush()


def _stored_entry(kind: int, content: bytes, *, adler32: Callable[[bytes], int]) -> bytes:
    """Return the entry of a content of up to 65,535 bytes in which zlib's format has it as it is."""
    size = len(content)
    return b"".join(
        [
            entry_header(kind, size),
            _STORED,
            pack("<HH", size, size ^ _MOST_STORED),
            content,
            pack(">I", adler32(content)),
        ]
    )


class Compressor:
    """Compresses contents, and sums them up; turns to ISA-L, where it is, once there was much to compress."""

    __slots__ = ("_left", "_make", "adler32", "crc32")

    def __init__(self) -> None:
        self._make: Callable[[bytes], bytes] = _plain
        self._left = _FASTER_BYTES
        self.adler32: Callable[[bytes], int] = zlib.adler32
        self.crc32: Callable[[bytes], int] = zlib.crc32

    def expect_much(self) -> None:
        """Turn to what is quickest for much."""
        if self._left > 0:
            self._left = 0
            self._turn()

    def compress(self, content: bytes) -> bytes:
        """Return a content as zlib's format has it."""
        if self._left > 0:
            self._left -= len(content)
            if self._left <= 0:
                self._turn()
        return self._make(content)

    def _turn(self) -> None:
        try:
            from isal import isal_zlib
        except ImportError:
            return
        self._make = lambda content: bytes(isal_zlib.compress(content, LEVEL))
        self.adler32, self.crc32 = isal_zlib.adler32, isal_zlib.crc32


class Deflater:
    """Turns contents into entries of a draft. Used by one thread, may employ a second process.

    Unless all is to be ``compressed``, contents of up to 64 KiB stay as they are while the draft is small.
    ``came`` is what came of files that the second process was to read; their entries are not in the draft.
    """

    __slots__ = ("_as_it_is", "_batch", "_batched", "_compressor", "_draft", "_second", "_total", "came")

    def __init__(self, draft: PackDraft, compressor: Compressor, *, compressed: bool = True) -> None:
        self._draft = draft
        self._as_it_is = not compressed
        self._compressor = compressor
        self._total = 0
        self._batch: list[Job] = []
        self._batched = 0
        self._second: DeflateProcess | None = None
        self.came: list[Answer] = []

    def add(self, kind: int, oid: bytes, content: bytes) -> None:
        """Compress an object into the draft, now or soon; OSError of this one or an earlier one.

        Into one that becomes nothing only its id goes.
        """
        if not self._draft.kept:
            self._draft.add(oid, 0, b"")
        elif self._second is None:
            self._draft.add(oid, *self._entry(kind, content))
            before = self._total
            self._total = before + len(content)
            if before < _PROCESS_BYTES <= self._total:
                self._begin_second()
        else:
            self._batch.append((kind, oid, content))
            self._batched += len(content)
            if self._batched >= _BATCH_BYTES:
                self._hand_over(self._second)

    def employ(self, files: FileMaker) -> bool:
        """Have a second process that reads files too; False where there can be none."""
        from lastgood.objects.deflate_process import begin

        self.drain()
        self._second = begin(self._compressed, files=files)
        return self._second is not None

    def offer_files(self, folders: Sequence[Folder]) -> FileBatch | None:
        """Hand files over to be read, hashed and compressed; None if nobody takes them now."""
        from lastgood.objects.deflate_process import FileBatch

        if self._second is None or not self._second.takes_files:
            return None
        batch = FileBatch(folders)
        return batch if self._second.offer_files(batch) else None

    def drain(self) -> None:
        """Wait until all is in the draft, or came, and end the second process; OSError."""
        if self._second is not None:
            batch, self._batch, self._batched = self._batch, [], 0
            self._work(batch)
            self._take(self._second.settle())
            self._dismiss(self._second)

    def hear(self, *, all_of_it: bool = False) -> None:
        """Take in what the second process has done, or all that it was to do; OSError."""
        if self._second is None:
            return
        self._take(self._second.settle() if all_of_it else self._second.ready())
        if all_of_it and self._second.left():
            self._dismiss(self._second)

    def move_to(self, draft: PackDraft) -> set[bytes]:
        """Go on with another draft, and return the ids of what was added and is going to be in that one."""
        self._draft = draft
        coming = [] if self._second is None else [job for job in self._second.left() if isinstance(job, list)]
        return {oid for batch in (self._batch, *coming) for _, oid, _ in batch}

    def stop(self) -> None:
        """End the second process, and forget what is not in the draft yet."""
        self._batch, self._batched, self.came = [], 0, []
        if self._second is not None:
            second, self._second = self._second, None
            second.end()
            self._total = 0

    def _dismiss(self, second: DeflateProcess) -> None:
        """End the second process, and do what it has not done; of files, nothing came."""
        undone, batch, came = second.left(), self._batch, self.came
        self.stop()
        self.came = came
        for left in undone:
            if isinstance(left, list):
                self._work(left)
            else:
                self.came.append((left, [(b"", 0, 0)] * left.count, b""))
        self._work(batch)

    def _begin_second(self) -> None:
        from lastgood.objects.deflate_process import begin

        self._second = begin(self._compressed)

    def _hand_over(self, second: DeflateProcess) -> None:
        batch, self._batch, self._batched = self._batch, [], 0
        self._take(second.ready())
        if not second.offer(batch):
            self._work(batch)

    def _take(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            batch, made, body = answer
            if isinstance(batch, list):
                self._draft.append(made, body)
            else:
                self.came.append(answer)

    def _work(self, batch: Iterable[Job]) -> None:
        for kind, oid, content in batch:
            self._draft.add(oid, *self._entry(kind, content))

    def _entry(self, kind: int, content: bytes) -> tuple[int, bytes]:
        most = _MOST_STORED if self._as_it_is else _SMALL_TREE_BYTES if kind == TREE else -1
        if len(content) <= most and self._draft.size + len(content) <= _AS_IT_IS_WITHIN:
            raw = _stored_entry(kind, content, adler32=self._compressor.adler32)
            return self._compressor.crc32(raw), raw
        return self._compressed(kind, content)

    def _compressed(self, kind: int, content: bytes) -> tuple[int, bytes]:
        if not self._draft.kept:
            return 0, _TRACE
        raw = entry_header(kind, len(content)) + self._compressor.compress(content)
        return self._compressor.crc32(raw), raw


# --- Writes a checkpoint as one new pack; nothing is visible before `GitWriter.publish` ---

# Up to here a file is read whole; its compression can then go to the second process.
_WHOLE_BYTES = 4 << 20
# From so many bytes, or objects, on a part is published, and never less than such a share of those before:
# what a kill loses is bounded, and so is what is remembered of each object, and the packs stay few.
_PART_BYTES = 32 << 20
_PART_OBJECTS = 1 << 17
_PART_SHARE = 4


# So many bytes of trees are remembered, of directories in which only ids may change next, and of contents
# that may be compared with what is read back.
_REMEMBERED_BYTES = 1 << 20


class TreeMemory:
    """The trees of plain directories that were added last, by their ids: stored or not."""

    __slots__ = ("_bytes", "_trees", "get")

    def __init__(self) -> None:
        self._trees: dict[bytes, bytes] = {}
        self._bytes = 0
        # Returns a tree, None if it is not remembered.
        self.get: Callable[[bytes], bytes | None] = self._trees.get

    def remember(self, oid: bytes, tree: bytes) -> bytes:
        """Remember one, and return its id; those before are forgotten when there is no room."""
        if self._bytes > _REMEMBERED_BYTES:
            self._trees.clear()
            self._bytes = 0
        self._trees[oid] = tree
        self._bytes += len(tree)
        return oid


class GitWriter:
    """One pack in the making, used by one thread. Full or broken disks raise `Storage`.

    Unless all is to be ``compressed`` it remembers the first of its ``contents``, a megabyte of them.
    """

    __slots__ = (
        "_as_it_is",
        "_closed",
        "_compressor",
        "_copied",
        "_deflater",
        "_distrusted",
        "_draft",
        "_garbled",
        "_hasher",
        "_import",
        "_imported",
        "_known",
        "_layout",
        "_lent",
        "_packs",
        "_parted",
        "_rests",
        "_there",
        "_trees",
        "_unremembered",
        "contents",
        "published",
    )

    def __init__(
        self,
        layout: Layout,
        *,
        packs: Packs,
        hasher: Hasher,
        compressor: Compressor,
        draft: PackDraft | None = None,
        trees: TreeMemory | None = None,
        compressed: bool = True,
    ) -> None:
        self._as_it_is = not compressed
        self.contents: dict[bytes, bytes] = {}
        self._unremembered = 0 if compressed else _REMEMBERED_BYTES
        self._trees = TreeMemory() if trees is None else trees
        self._import: BlobImport | None = None
        self._lent: frozenset[bytes] = frozenset()
        self._imported = False  # one attempt: what cannot be copied is stored by whoever adds it
        self._rests = False  # whether something was added that only the import has
        self._copied = 0  # bytes of an import, and of parts, that are published
        self._parted = 0  # the objects in those parts
        # The packs that nothing rests on, and those found to be there by now; not known before it is asked.
        self._distrusted: frozenset[bytes] | None = None
        self._there: set[PackFile] = set()
        self._garbled: set[bytes] = set()
        self._layout = layout
        self._packs = packs
        self._hasher = hasher
        self._draft = PackDraft(layout.temporary) if draft is None else draft
        self._known = {oid for oid, _, _ in self._draft.entries}
        self._compressor = compressor
        self._deflater = Deflater(self._draft, compressor, compressed=compressed)
        self._closed = False
        self.published: bytes = b""  # the name of the pack, once there is one

    @property
    def stored_bytes(self) -> int:
        """How many bytes the pack has grown to so far."""
        return self._draft.size + self._copied + (0 if self._import is None else self._import.size)

    def blob(self, content: bytes) -> bytes:
        """Add a blob and return its id."""
        return self.add(BLOB, content)

    def blob_from(self, descriptor: int, size: int) -> bytes:
        """Add ``size`` bytes read from a descriptor, in bounded memory; EOFError if there are fewer."""
        if size > _WHOLE_BYTES:
            return self._stream(descriptor, size)
        pieces = []
        while size > 0:
            piece = _read(descriptor, size)
            pieces.append(piece)
            size -= len(piece)
        return self.add(BLOB, pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def directory(self, entries: Iterable[Entry]) -> TreeId:
        """Add a directory (entries in any order) and return its identity."""
        rows, table, modes_rows = split_entries(entries)
        tree = self.add(TREE, encode_tree(rows))
        if table:
            modes_rows.append((PLAIN, TABLE_NAME, self.add(BLOB, table)))
        modes = self.add(TREE, encode_tree(modes_rows)) if modes_rows else b""
        return TreeId(tree=tree, modes=modes)

    def plain_directory(self, rows: Sequence[tuple[bytes, int, bytes]]) -> TreeId:
        """Add a directory of files, and of directories with no other permissions than the defaults below.

        Each is a name, its whole mode and an id, sorted by name.
        """
        tree = encode_plain(rows)
        if tree is None:
            return self.directory(map(plain_entry, rows))
        return TreeId(tree=self._trees.remember(self.add(TREE, tree), tree))

    def edited_directory(self, before: bytes, edits: Iterable[tuple[bytes, bytes, bytes]]) -> bytes | None:
        """Add a plain directory that is one ``before`` but for some ids, and return its own.

        None where that directory is not remembered, or these are not in it.
        """
        tree = self._trees.get(before)
        if tree is None:
            return None
        for name, was, now in edits:
            entry = b" %b\0%b" % (name, was)
            place = tree.find(entry)
            # The end of an id with what follows may look like another entry: then nobody can tell them apart.
            if place < 0 or tree.rfind(entry) != place:
                return None
            end = place + len(entry)
            tree = b"%b%b%b" % (tree[: end - len(was)], now, tree[end:])
        return self._trees.remember(self.add(TREE, tree), tree)

    def checkpoint(
        self,
        *,
        id: str,
        manifest: bytes,
        workspace: TreeId,
        state: Mapping[str, bytes],
        created_at: int,
        conversation: TreeId | None = None,
        progress: Mapping[str, bytes] | None = None,
    ) -> bytes:
        """Add the commit of a checkpoint and return its id; ``created_at`` is in nanoseconds."""
        rows = [(PLAIN, MANIFEST, self.add(BLOB, manifest)), (SUBTREE, WORKSPACE, workspace.tree)]
        if workspace.modes:
            rows.append((SUBTREE, MODES, workspace.modes))
        if conversation is not None:
            rows.append((SUBTREE, CONVERSATION, conversation.tree))
        if progress:
            lists = [(SUBTREE, name.encode("ascii"), oid) for name, oid in progress.items()]
            rows.append((SUBTREE, PROGRESS, self.add(TREE, encode_tree(lists))))
        if state:
            files = [(PLAIN, _state_name(name), oid) for name, oid in state.items()]
            rows.append((SUBTREE, STATE, self.add(TREE, encode_tree(files))))
        tree = self.add(TREE, encode_tree(rows))
        return self.add(COMMIT, encode_commit(tree=tree, id=id, created_at=created_at))

    def add(self, kind: int, content: bytes) -> bytes:
        """Add an object of any kind and return its id."""
        if self._closed:
            raise Internal("the pack is published or abandoned already", hint="report this")
        oid = self._hasher.object_id(kind, content)
        if kind == BLOB and len(content) <= self._unremembered:
            self._unremembered -= len(content)
            self.contents[oid] = content
        if self._has(oid):
            return oid
        self._known.add(oid)
        try:
            self._deflater.add(kind, oid, content)
        except OSError as error:
            raise self._failed(error) from error
        return oid

    def take(self, oid: bytes, entry: Iterable[bytes]) -> None:
        """Add an object as another pack has it: the bytes of an entry, proven, and no delta."""
        if self._has(oid):
            return
        try:
            self._deflater.drain()
            start, crc = self._draft.size, 0
            for piece in entry:
                crc = zlib.crc32(piece, crc)
                self._draft.add_piece(piece)
        except OSError as error:
            raise self._failed(error) from error
        self._known.add(oid)
        self._draft.entries.append((oid, crc, start))

    def read_beside(self, read: ReadFolder, *, root: int) -> bool:
        """Begin to have files read, hashed and compressed beside this process; False where none can.

        ``read`` reads those of a folder there, from the open directory ``root``.
        """
        from lastgood.objects.deflate_process import FileMaker

        self._compressor.expect_much()
        self._hasher.expect_much()

        def know(content: bytes) -> tuple[bytes, bool]:
            oid = self._hasher.object_id(BLOB, content)
            return oid, self._has(oid)

        try:
            return self._deflater.employ(FileMaker(read, know=know, root=root))
        except OSError as error:
            raise self._failed(error) from error

    def offer_files(self, folders: Sequence[Folder]) -> object:
        """Hand files over to be read beside; None if nobody takes them now, else what `files_read` names."""
        return self._deflater.offer_files(folders)

    def files_read(self, *, wait: bool = False) -> Iterator[tuple[object, Sequence[bytes]]]:
        """Yield what came of files handed over: the ids, b"" for each that whoever asks has to read."""
        try:
            self._deflater.hear(all_of_it=wait)
            came, self._deflater.came = self._deflater.came, []
            for batch, made, body in came:
                yield batch, self._take_in(made, body)
        except OSError as error:
            raise self._failed(error) from error

    def _take_in(self, made: Sequence[Made], body: bytes) -> Sequence[bytes]:
        """Add the entries that were made elsewhere, and return the ids of what is stored now."""
        new = [row for row in made if row[2]]
        oids = {row[0] for row in new}
        if len(oids) == len(new) and oids.isdisjoint(self._known):
            self._draft.append(new, body)
        else:
            at = 0
            for row in new:
                if row[0] not in self._known:
                    self._known.add(row[0])
                    self._draft.append((row,), body[at : at + row[2]])
                at += row[2]
        self._known |= oids
        if len(new) == len(made):
            return [row[0] for row in made]
        return [oid if length or (oid and self._has(oid)) else b"" for oid, _, length in made]

    def import_blobs(self, objects: bytes, oids: Iterable[bytes]) -> set[bytes]:
        """Begin to copy blobs out of another git object directory; return the ids that count as stored."""
        if self._closed:
            raise Internal("the pack is published or abandoned already", hint="report this")
        wanted = set(oids)
        if not self._draft.kept:
            self._known |= wanted
            return wanted
        lacking = self.lacks(wanted)
        if lacking and not self._imported:
            self._imported = True
            from lastgood.objects.borrow import BlobImport

            try:
                self._import = BlobImport.begin(self._layout, objects=objects, oids=lacking)
            except OSError as error:
                raise self._failed(error) from error
            if self._import is not None:
                self._lent = self._import.oids
        return wanted - lacking | (lacking & self._lent)

    def settle_imports(self) -> bool:
        """Wait for what `import_blobs` began; False if contents have to be added again that relied on it."""
        begun, rests, copied = self._import, self._rests, False
        if begun is not None:
            copied = begun.wait()
            if not (copied and rests):
                begun.discard()
                self._import = None
                self._lent = frozenset()
        self._rests = copied and rests
        return copied or not rests

    def lacks(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return those ids of which this writer would store the content, were it added."""
        if not self._draft.kept:
            return set()
        return {
            oid for oid in oids if oid not in self._known and oid not in self._lent and not self._stored(oid)
        }

    def unreadable(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return what `lacks` does, and those of which nothing that is stored can be read: now it would."""
        asked = set(oids)
        lacking = self.lacks(asked)
        if self._draft.kept:
            reader = GitReader(self._packs, self._hasher)
            there = asked - lacking - self._known - self._lent
            self._garbled |= {oid for oid in there if not reader.is_readable(oid)}
        return lacking | (asked & self._garbled)

    def distrust(self, packs: frozenset[bytes]) -> None:
        """Store again what only damaged packs hold."""
        self._distrusted = packs

    def publish_part(self) -> None:
        """Publish what was added so far, durably, once it is much; `Storage`.

        Nothing refers to it before a checkpoint does. Whoever adds the same later, after this process was
        killed perhaps, finds it; a sweep frees what nobody does.
        """
        draft = self._draft
        is_much = draft.size >= max(_PART_BYTES, self._copied // _PART_SHARE)
        are_many = len(draft.entries) >= max(_PART_OBJECTS, self._parted // _PART_SHARE)
        if not draft.kept or draft.handed or not (is_much or are_many):
            return
        try:
            publish_draft(draft, self._layout, durable=True)
        except OSError as error:
            raise self._failed(error) from error
        self._copied += draft.size
        self._parted += len(draft.entries)
        self._draft = PackDraft(self._layout.temporary)
        self._known = self._deflater.move_to(self._draft)
        self._packs.refresh()

    def publish(self, *, durable: bool = True) -> None:
        """Make everything added readable; when it returns, it survives a power cut (unless not durable).

        One attempt only: what a failed sync leaves behind is never believed.
        """
        if self._closed:
            raise Internal("the pack is published or abandoned already", hint="report this")
        beside, added = self._import is not None, frozenset[bytes]()
        try:
            self._deflater.drain()
            added = frozenset([oid for oid, _, _ in self._draft.entries])
            self._publish_import(durable=durable)
            if self._draft.entries:
                self.published = publish_draft(self._draft, self._layout, durable=durable)
            elif durable:
                sync_directory(self._layout.packs)
        except OSError as error:
            raise self._told(error, "publishing a checkpoint's objects") from error
        finally:
            self.abandon()
        if beside:
            self._packs.refresh()
        elif self.published:
            self._packs.take_in(self.published, added)

    def _publish_import(self, *, durable: bool) -> None:
        if not self.settle_imports():
            raise Storage("copying the project's objects failed", hint="save again")
        begun, self._import = self._import, None
        if begun is None:
            return
        # From now on it is a pack like all others: who goes on with the draft does not publish it again.
        self._lent, self._rests = frozenset(), False
        self._copied += begun.size
        try:
            begun.publish(durable=durable)
        finally:
            begun.discard()

    def abandon(self) -> None:
        """Forget everything added; harmless after `publish`."""
        self._closed = True
        if self._import is not None:
            self._import.discard()
            self._import = None
        self._deflater.stop()
        self._draft.discard()
        self._known.clear()

    def detach(self) -> Mapping[str, object]:
        """Hand over the unpublished pack as plain values; this writer is done then.

        A large pack lies in a file that this process keeps locked until it ends.
        """
        self._closed = True
        try:
            self._deflater.drain()
            if self.settle_imports():  # else whoever goes on scans anew, and adds again what is lost
                self._publish_import(durable=True)
            return self._draft.detach()
        except OSError as error:
            raise self._failed(error) from error

    def adopt(self, detached: Mapping[str, object]) -> None:
        """Go on, after `detach`, with the pack that another process detached in its turn; `Storage`."""
        try:
            draft = PackDraft.resume(self._layout.temporary, detached)
        except OSError as error:
            raise self._failed(error) from error
        self._draft.let_go()
        self._go_on(draft)

    def take_back(self) -> None:
        """Go on with what this writer detached: whoever had it is gone, and what he added is forgotten.

        What the temporary folder has of writers that are gone is deleted; `Storage`.
        """
        from lastgood.objects.repository import collect

        try:
            self._draft.take_back()
        except OSError as error:
            raise self._failed(error) from error
        self._go_on(self._draft)
        collect(self._layout.temporary)

    def _go_on(self, draft: PackDraft) -> None:
        self._draft = draft
        self._packs.refresh()
        self._known = {oid for oid, _, _ in self._draft.entries}
        self._deflater = Deflater(self._draft, self._compressor, compressed=not self._as_it_is)
        self._closed = False

    def _stored(self, oid: bytes) -> bool:
        if oid in self._garbled:
            return False
        if self._distrusted is None:
            self._distrusted = suspect_packs(self._layout)
            self._packs.look_lately()
        first = self._packs.first(oid)
        if first is None or first in self._there:
            return first is not None
        if not first.is_there:
            self._packs.refresh()
        elif first.name not in self._distrusted:
            self._there.add(first)
            return True
        return any(one.name not in self._distrusted for one, _ in self._packs.find(oid))

    def _has(self, oid: bytes) -> bool:
        """Tell whether an object that is being added needs not be stored."""
        if oid in self._lent:
            self._rests = True
            return True
        return oid in self._known or self._stored(oid)

    def _digest(self, descriptor: int, size: int) -> bytes:
        running = self._hasher.begin(b"blob %d\0" % size, size=size)
        while size:
            piece = _read(descriptor, min(size, COPY_BYTES))
            size -= len(piece)
            running.update(piece)
        return running.digest()

    def _stream(self, descriptor: int, size: int) -> bytes:
        if not self._draft.kept:
            oid = self._digest(descriptor, size)
            if not self._has(oid):
                self._known.add(oid)
                self._draft.add(oid, 0, b"")
            return oid
        if self._lent:  # then reading it twice costs less than compressing what may be there
            oid = self._digest(descriptor, size)
            if self._has(oid):
                return oid
            os.lseek(descriptor, -size, os.SEEK_CUR)
        oid = b""
        draft = self._draft
        try:
            start = draft.size
            try:
                oid, crc = self._stream_entry(descriptor, size)
            finally:
                if not oid or self._has(oid):
                    draft.cut(start)
                else:
                    self._known.add(oid)
                    draft.entries.append((oid, crc, start))
        except OSError as error:
            raise self._failed(error) from error
        return oid

    def _stream_entry(self, descriptor: int, size: int) -> tuple[bytes, int]:
        running = self._hasher.begin(b"blob %d\0" % size, size=size)
        deflate = zlib.compressobj(LEVEL)
        head = entry_header(BLOB, size)
        crc = zlib.crc32(head)
        self._draft.add_piece(head)
        while size:
            piece = _read(descriptor, min(size, COPY_BYTES))
            size -= len(piece)
            running.update(piece)
            packed = deflate.compress(piece)
            crc = zlib.crc32(packed, crc)
            self._draft.add_piece(packed)
        packed = deflate.flush()
        self._draft.add_piece(packed)
        return running.digest(), zlib.crc32(packed, crc)

    def _failed(self, error: OSError) -> Exception:
        self.abandon()
        return self._told(error, "writing a checkpoint's objects")

    def _told(self, error: OSError, doing: str) -> Exception:
        # The root of an export is gone when this is read; the folder for temporary files stays.
        return storage(error, doing=doing, at=self._layout.temporary)


def _read(descriptor: int, size: int) -> bytes:
    piece = os.read(descriptor, size)
    if not piece:
        raise EOFError("a file is shorter than it was")
    return piece


def _state_name(name: str) -> bytes:
    if not name or "/" in name or "\0" in name or name in {".", ".."}:
        raise Invalid(f"a state file cannot be called {name!r}", hint="use a plain file name")
    return name.encode("utf-8", "surrogateescape")
