"""Compresses what goes into a pack: at once while there is little, beside the reader when there is much."""

from __future__ import annotations

import zlib
from _thread import allocate_lock, start_new_thread

from lastgood.adapters.git.pack_write import entry_header
from lastgood.errors import Internal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from queue import SimpleQueue

    from lastgood.adapters.git.pack_write import Draft

    # (kind, object id, content)
    Job = tuple[int, bytes, bytes]

LEVEL = 1
# The smallest window that zlib makes, and by how much its tables may be smaller: what comes out then is a few
# bytes longer at most (measured from 0 to 200,000 bytes).
_LEAST_BITS = 9
_TABLE_BITS = 6
# From here on a second thread pays for itself, and so does importing the faster library.
_THREAD_BYTES = 4 << 20
_FASTER_BYTES = 1 << 20
# The other thread is handed this much at a time, and owes at most this much.
_BATCH_BYTES = 256 << 10
_OWED_BYTES = 8 << 20


def _plain(content: bytes) -> bytes:
    """Compress with a window no larger than the content: a whole one takes 40 us to make (measured)."""
    bits = min(max((len(content) - 1).bit_length(), _LEAST_BITS), zlib.MAX_WBITS)
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, bits, min(bits - _TABLE_BITS, zlib.DEF_MEM_LEVEL))
    return deflate.compress(content) + deflate.flush()


def _fastest() -> Callable[[bytes], bytes]:
    try:
        from isal import isal_zlib
    except ImportError:
        return _plain

    def faster(content: bytes) -> bytes:
        return bytes(isal_zlib.compress(content, LEVEL))

    return faster


class Deflater:
    """Turns contents into entries of a draft. Used by one thread, may employ a second one."""

    __slots__ = (
        "_batch",
        "_batched",
        "_compress",
        "_done",
        "_draft",
        "_failure",
        "_lock",
        "_owed",
        "_queue",
        "_total",
    )

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._compress: Callable[[bytes], bytes] = _plain
        self._total = 0
        self._batch: list[Job] = []
        self._batched = 0
        self._owed = 0
        self._lock = allocate_lock()
        self._queue: SimpleQueue[tuple[list[Job], int] | None] | None = None
        self._done = allocate_lock()
        self._failure: BaseException | None = None

    def add(self, kind: int, oid: bytes, content: bytes) -> None:
        """Compress an object into the draft, now or soon; OSError of this one or an earlier one."""
        size = len(content)
        if self._queue is None:
            raw = entry_header(kind, size) + self._compress(content)
            self._draft.append([(oid, zlib.crc32(raw), raw)])
            self._grow(size)
            return
        self._batch.append((kind, oid, content))
        self._batched += size
        if self._batched >= _BATCH_BYTES:
            self._hand_over()

    def drain(self) -> None:
        """Wait until all is in the draft; OSError if something is not."""
        if self._queue is None:
            return
        self._work(self._batch)
        self.stop()
        self._raise_failure()

    def stop(self) -> None:
        """End the second thread, and forget what it was not handed yet."""
        self._batch = []
        self._batched = 0
        if self._queue is not None:
            self._queue.put(None)
            self._done.acquire()
            self._done.release()
            self._queue = None
            self._total = 0

    def _grow(self, size: int) -> None:
        before = self._total
        self._total = before + size
        if before < _FASTER_BYTES <= self._total:
            self._compress = _fastest()
        if self._total < _THREAD_BYTES:
            return
        from _queue import SimpleQueue

        self._queue = SimpleQueue()
        self._done.acquire()
        start_new_thread(self._serve, (self._queue,))

    def _hand_over(self) -> None:
        self._raise_failure()
        batch, size = self._batch, self._batched
        self._batch = []
        self._batched = 0
        if self._owed > _OWED_BYTES or self._queue is None:
            self._work(batch)
            return
        with self._lock:
            self._owed += size
        self._queue.put((batch, size))

    def _work(self, batch: list[Job]) -> None:
        made = []
        for kind, oid, content in batch:
            raw = entry_header(kind, len(content)) + self._compress(content)
            made.append((oid, zlib.crc32(raw), raw))
        with self._lock:
            self._draft.append(made)

    def _serve(self, queue: SimpleQueue[tuple[list[Job], int] | None]) -> None:
        failure: BaseException | None = Internal("compressing stopped short", hint="report this")
        try:
            while (job := queue.get()) is not None:
                self._work(job[0])
                with self._lock:
                    self._owed -= job[1]
            failure = None
        except (OSError, MemoryError, zlib.error) as error:
            failure = error
        finally:
            self._failure = failure
            self._done.release()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
