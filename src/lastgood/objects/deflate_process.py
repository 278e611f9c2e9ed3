"""Makes objects in a forked process: compresses contents, or reads files, hashes and compresses them.

ISA-L keeps the interpreter to itself while it compresses, so that a second thread would only take turns with
the reader (measured: none quicker than one). Batches go over, and come back, in slots of shared memory.

Its owner keeps what it handed over until that has come back, and does the work itself where it does not:
when the process was killed, say, or stopped.
"""

from __future__ import annotations

import mmap
import os
from _struct import Struct
from marshal import dumps, loads

from lastgood.objects import BLOB
from lastgood.worker import Worker, is_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from lastgood.engine import Folder, ReadFolder
    from lastgood.worker import Tell

    # (kind, object id, content)
    Job = tuple[int, bytes, bytes]
    # (object id, CRC-32 of the entry's bytes, their number)
    Made = tuple[bytes, int, int]
    # What was handed over, what came of each part of it in order, and the bytes of all entries.
    Answer = tuple["list[Job] | FileBatch", Sequence[Made], bytes]
    # Makes an entry: its CRC-32 and its bytes.
    Make = Callable[[int, bytes], tuple[int, bytes]]
    # Returns the id of a file's content, and whether the entry need not be made.
    Know = Callable[[bytes], tuple[bytes, bool]]


# The largest content that is read whole for compressing fits, with what is said about it.
_SLOT_BYTES = 5 << 20
_SLOTS = 16
# So many ids the process remembers; whoever gets the same content twice beyond that drops one of them.
_MOST_SEEN = 1 << 17
# What is said about an object takes less than this.
_TOLD_BYTES = 64
# Forking copies page tables, a millisecond for each hundred MB.
_MOST_RESIDENT_BYTES = 512 << 20
# Nothing heard for so long, with something owed: the owner does it.
_PATIENCE_MS = 1000
# The same where files are owed: a slow disk has others to wait for.
_PATIENCE_WITH_FILES_MS = 10_000
# Which slot, how long the contents in it are, and what is said about them.
_MESSAGE = Struct(">BII")
_MARK_OF_FILES = 0xFFFFFFFF  # no slot's contents are that long


class FileBatch:
    """Files to be read there, folder by folder."""

    __slots__ = ("count", "folders")

    def __init__(self, folders: Sequence[Folder]) -> None:
        self.folders: Sequence[Folder] = folders
        self.count: int = sum(len(names) for _, names, _ in folders)


class FileMaker:
    """What makes objects of files: ``read`` reads those of a folder, ``know`` tells what is stored already.

    ``root`` is the descriptor that ``read`` begins at.
    """

    __slots__ = ("know", "read", "root")

    def __init__(self, read: ReadFolder, *, know: Know, root: int) -> None:
        self.read: ReadFolder = read
        self.know: Know = know
        self.root: int = root


class DeflateProcess:
    """The process, and what it owes; it takes files only if there is a maker of ``files``."""

    def __init__(self, make: Make, *, files: FileMaker | None = None) -> None:
        """Start it; OSError if there can be none."""
        self.takes_files: bool = files is not None
        self._memory = mmap.mmap(-1, _SLOTS * _SLOT_BYTES)
        self._free = list(range(_SLOTS))
        self._owed: dict[int, list[Job] | FileBatch] = {}
        # We keep the receiving end as well: to write to it then never fails.
        self._asked, self._asking = os.pipe()
        memory, asked = self._memory, self._asked
        try:
            keep = [asked] if files is None else [asked, files.root]
            self._worker = Worker(
                lambda tell: _serve(memory, asked, make=make, files=files, tell=tell), keep=keep
            )
        except BaseException:
            self._close()
            raise

    def offer(self, batch: list[Job]) -> bool:
        """Hand over a batch; False if there is no room for it."""
        sizes = [(kind, len(content)) for kind, _, content in batch]
        size = sum(size for _, size in sizes)
        if not self._free or size + len(batch) * _TOLD_BYTES > _SLOT_BYTES:
            return False
        slot = self._free.pop()
        said = _put(self._memory, slot, pieces=[content for _, _, content in batch], told=sizes)
        self._owed[slot] = batch
        os.write(self._asking, said)
        return True

    def offer_files(self, batch: FileBatch) -> bool:
        """Hand over files to be read; False if there is no room for them."""
        words = dumps([*batch.folders])
        if not self._free or len(words) > _SLOT_BYTES:
            return False
        slot = self._free.pop()
        at = slot * _SLOT_BYTES
        self._memory[at : at + len(words)] = words
        self._owed[slot] = batch
        os.write(self._asking, _MESSAGE.pack(slot, _MARK_OF_FILES, len(words)))
        return True

    def ready(self, *, patience: float = 0) -> Iterator[Answer]:
        """Yield what has come back; ``patience`` is how many ms to wait for more while something is owed."""
        while self._owed:
            said = self._worker.hear(_MESSAGE.size, patience=patience)
            if len(said) != _MESSAGE.size:
                return
            slot, size, told = _MESSAGE.unpack(said)
            body, rows = _get(self._memory, slot, size=size, told=told)
            batch = self._owed.pop(slot)
            self._free.append(slot)
            if not isinstance(batch, FileBatch):
                rows = [(oid, *row) for (_, oid, _), row in zip(batch, rows, strict=True)]
            yield batch, rows, body

    def settle(self) -> Iterator[Answer]:
        """Wait for what is owed, and yield it."""
        owes_files = any(isinstance(batch, FileBatch) for batch in self._owed.values())
        return self.ready(patience=_PATIENCE_WITH_FILES_MS if owes_files else _PATIENCE_MS)

    def left(self) -> Sequence[list[Job] | FileBatch]:
        """Return what it will not do any more."""
        return [*self._owed.values()]

    def end(self) -> None:
        """Make sure that it is gone."""
        self._worker.end()
        self._close()

    def _close(self) -> None:
        self._memory.close()
        os.close(self._asked)
        os.close(self._asking)


def begin(make: Make, *, files: FileMaker | None = None) -> DeflateProcess | None:
    """Start one where that is sound, and there is a processor for it; else None."""
    if not is_sound(_MOST_RESIDENT_BYTES):
        return None
    try:
        return DeflateProcess(make, files=files)
    except OSError:
        return None


def _serve(memory: mmap.mmap, asked: int, *, make: Make, files: FileMaker | None, tell: Tell) -> None:
    """Do what is asked for until nobody is left to ask."""
    seen: set[bytes] = set()
    while len(said := os.read(asked, _MESSAGE.size)) == _MESSAGE.size:
        slot, size, told = _MESSAGE.unpack(said)
        raws: list[bytes] = []
        if size == _MARK_OF_FILES:
            assert files is not None
            at = slot * _SLOT_BYTES
            folders: Sequence[Folder] = loads(memory[at : at + told])  # noqa: S302 - our own process wrote it
            rows: list[Any] = _made_of_files(folders, files, make=make, seen=seen, raws=raws)
        else:
            contents, sizes = _get(memory, slot, size=size, told=told)
            rows = []
            at = 0
            for kind, length in sizes:
                crc, raw = make(kind, contents[at : at + length])
                at += length
                raws.append(raw)
                rows.append((crc, len(raw)))
        tell(_put(memory, slot, pieces=raws, told=rows))


def _made_of_files(
    folders: Sequence[Folder], files: FileMaker, *, make: Make, seen: set[bytes], raws: list[bytes]
) -> list[Made]:
    """Return what came of each file: no id where it could not be read, no entry where there is one."""
    rows: list[Made] = []
    for folder in folders:
        for content in files.read(folder):
            if content is None:
                rows.append((b"", 0, 0))
                continue
            oid, is_known = files.know(content)
            if is_known or oid in seen:
                rows.append((oid, 0, 0))
                continue
            if len(seen) >= _MOST_SEEN:
                seen.clear()
            seen.add(oid)
            crc, raw = make(BLOB, content)
            raws.append(raw)
            rows.append((oid, crc, len(raw)))
    return rows


def _put(memory: mmap.mmap, slot: int, *, pieces: Sequence[bytes], told: list[Any]) -> bytes:
    """Write pieces into a slot, with what is said about them; return the message of it."""
    body, words = b"".join(pieces), dumps(told)
    if len(body) + len(words) > _SLOT_BYTES:
        raise ValueError("a batch does not fit its slot")
    at = slot * _SLOT_BYTES
    memory[at : at + len(body)] = body
    at += len(body)
    memory[at : at + len(words)] = words
    return _MESSAGE.pack(slot, len(body), len(words))


def _get(memory: mmap.mmap, slot: int, *, size: int, told: int) -> tuple[bytes, list[Any]]:
    """Return what lies in a slot."""
    at = slot * _SLOT_BYTES
    rows: list[Any] = loads(memory[at + size : at + size + told])  # noqa: S302 - our own process wrote it
    return memory[at : at + size], rows
