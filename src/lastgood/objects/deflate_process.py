"""Compresses objects in a forked process, beside whoever reads and hashes them.

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

from lastgood.worker import Worker, is_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lastgood.worker import Tell

    # (kind, object id, content)
    Job = tuple[int, bytes, bytes]
    # (object id, CRC-32 of the entry's bytes, the entry's bytes)
    Made = tuple[bytes, int, bytes]
    # Makes an entry: its CRC-32 and its bytes.
    Make = Callable[[int, bytes], tuple[int, bytes]]


# The largest content that is read whole for compressing fits, with what is said about it.
_SLOT_BYTES = 5 << 20
_SLOTS = 6
# What is said about an object takes less than this.
_TOLD_BYTES = 64
# Forking copies page tables, a millisecond for each hundred MB.
_MOST_RESIDENT_BYTES = 512 << 20
# Nothing heard for so long, with something owed: the owner does it.
_PATIENCE_MS = 1000
# Which slot, how long the contents in it are, and what is said about them.
_MESSAGE = Struct(">BII")


class DeflateProcess:
    """The process, and what it owes."""

    def __init__(self, make: Make) -> None:
        """Start it; OSError if there can be none."""
        self._memory = mmap.mmap(-1, _SLOTS * _SLOT_BYTES)
        self._free = list(range(_SLOTS))
        self._owed: dict[int, Sequence[Job]] = {}
        # We keep the receiving end as well: to write to it then never fails.
        self._asked, self._asking = os.pipe()
        memory, asked = self._memory, self._asked
        try:
            self._worker = Worker(lambda tell: _serve(memory, asked, make=make, tell=tell), keep=[asked])
        except OSError:
            self._close()
            raise

    def offer(self, batch: Sequence[Job]) -> bool:
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

    def ready(self, *, patience: float = 0) -> Iterator[Sequence[Made]]:
        """Yield what has come back; ``patience`` is how many ms to wait for more while something is owed."""
        while self._owed:
            said = self._worker.hear(_MESSAGE.size, patience=patience)
            if len(said) != _MESSAGE.size:
                return
            slot, size, told = _MESSAGE.unpack(said)
            contents, rows = _get(self._memory, slot, size=size, told=told)
            batch = self._owed.pop(slot)
            self._free.append(slot)
            yield _joined(batch, contents, rows)

    def settle(self) -> Iterator[Sequence[Made]]:
        """Wait for what is owed, and yield it."""
        return self.ready(patience=_PATIENCE_MS)

    def left(self) -> Sequence[Job]:
        """Return what it will not do any more."""
        return [job for batch in self._owed.values() for job in batch]

    def end(self) -> None:
        """Make sure that it is gone."""
        self._worker.end()
        self._close()

    def _close(self) -> None:
        self._memory.close()
        os.close(self._asked)
        os.close(self._asking)


def begin(make: Make) -> DeflateProcess | None:
    """Start one where that is sound, and there is a processor for it; else None."""
    if not is_sound(_MOST_RESIDENT_BYTES):
        return None
    try:
        return DeflateProcess(make)
    except OSError:
        return None


def _serve(memory: mmap.mmap, asked: int, *, make: Make, tell: Tell) -> None:
    """Do what is asked for until nobody is left to ask."""
    while len(said := os.read(asked, _MESSAGE.size)) == _MESSAGE.size:
        slot, size, told = _MESSAGE.unpack(said)
        contents, sizes = _get(memory, slot, size=size, told=told)
        raws: list[bytes] = []
        rows: list[tuple[int, int]] = []
        at = 0
        for kind, length in sizes:
            crc, raw = make(kind, contents[at : at + length])
            at += length
            raws.append(raw)
            rows.append((crc, len(raw)))
        tell(_put(memory, slot, pieces=raws, told=rows))


def _put(memory: mmap.mmap, slot: int, *, pieces: Sequence[bytes], told: list[tuple[int, int]]) -> bytes:
    """Write pieces into a slot, with what is said about them; return the message of it."""
    body, words = b"".join(pieces), dumps(told)
    if len(body) + len(words) > _SLOT_BYTES:
        raise ValueError("a batch does not fit its slot")
    at = slot * _SLOT_BYTES
    memory[at : at + len(body)] = body
    at += len(body)
    memory[at : at + len(words)] = words
    return _MESSAGE.pack(slot, len(body), len(words))


def _get(memory: mmap.mmap, slot: int, *, size: int, told: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Return what lies in a slot."""
    at = slot * _SLOT_BYTES
    rows: list[tuple[int, int]] = loads(memory[at + size : at + size + told])  # noqa: S302 - our own process wrote it
    return memory[at : at + size], rows


def _joined(batch: Sequence[Job], contents: bytes, rows: Sequence[tuple[int, int]]) -> list[Made]:
    made: list[Made] = []
    at = 0
    for (_, oid, _), (crc, length) in zip(batch, rows, strict=True):
        made.append((oid, crc, contents[at : at + length]))
        at += length
    return made
