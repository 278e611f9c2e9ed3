"""Has a second process look after a part of a large workspace (measured: half the time).

It only finds out which directories do not look as they did; what that means is decided by the walk. It
is forked, so that it knows the cache already, and it is not waited for longer than makes sense:
whatever it fails to say is looked at by the walk.
"""

from __future__ import annotations

import os
from marshal import dumps, loads

from lastgood.paths import join
from lastgood.scanner import BELOW, FILES
from lastgood.scanner.read import DIRECTORY_FLAGS, descend
from lastgood.worker import Worker, is_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.scanner import Record
    from lastgood.scanner.read import Lister
    from lastgood.worker import Tell


# Forking copies page tables: it takes as long as what a file costs for each 16 KiB resident.
RESIDENT_BYTES_A_FILE = 16 << 10
_PIECES = 32
_LEAST_PATIENCE_MS = 500
_PATIENCE = 3  # times as long as our own part took
_LENGTH_BYTES = 8
_DEEPEST = 64


def begin(root: int, *, records: Mapping[bytes, Record], lister: Lister) -> ParallelWalk | None:
    """Start on about half of a workspace; None where forking is not sound, or not cheap."""
    if not is_sound(records[b""][FILES] * RESIDENT_BYTES_A_FILE):
        return None
    return ParallelWalk(root, parts=sorted(share(records)), records=records, lister=lister)


def share(records: Mapping[bytes, Record]) -> list[bytes]:
    """Return directories that hold about half of the files, none of them inside another."""
    pieces: list[tuple[int, bytes]] = [(records[b""][FILES], b"")]
    while len(pieces) < _PIECES:
        pieces.sort()
        _, path = pieces[-1]
        below = [join(path, name) for name in records[path][BELOW]]
        parts = [(records[one][FILES], one) for one in below if one in records]
        if not parts:
            break
        pieces[-1:] = parts
    half = sum(files for files, _ in pieces) // 2
    chosen: list[bytes] = []
    for files, path in sorted(pieces, reverse=True):
        if files and files <= half and path:
            chosen.append(path)
            half -= files
    return chosen


class ParallelWalk:
    """The forked process, which ``parts`` it looks after, and what it has to say."""

    def __init__(
        self, root: int, *, parts: Sequence[bytes], records: Mapping[bytes, Record], lister: Lister
    ) -> None:
        self.parts = parts

        def work(tell: Tell) -> None:
            differing: set[bytes] = set()
            for part in parts:
                tell(b"")
                _compare(root, part, records=records, lister=lister, differing=differing)
            body = dumps(differing)
            tell(len(body).to_bytes(_LENGTH_BYTES, "big") + body)

        try:
            self._companion: Worker | None = Worker(work, keep=[root])
        except OSError:
            self._companion = None

    def differing(self, *, after: float) -> set[bytes] | None:
        """Return the directories that differ, None if that is not known; ``after`` seconds of our work."""
        if self._companion is None:
            return None
        patience = max(_LEAST_PATIENCE_MS, after * 1000 * _PATIENCE)
        length = int.from_bytes(self._companion.hear(_LENGTH_BYTES, patience=patience), "big")
        said = self._companion.hear(length, patience=patience)
        self.end()
        if not length or len(said) != length:
            return None
        differing: set[bytes] = loads(said)  # noqa: S302 - our own process wrote it
        return differing

    def end(self) -> None:
        """Make sure that the process is gone."""
        if self._companion is not None:
            self._companion.end()


def _compare(
    root: int, part: bytes, *, records: Mapping[bytes, Record], lister: Lister, differing: set[bytes]
) -> None:
    """Compare a directory and all below that the cache knows; leave out what lies too deep."""
    stack: list[tuple[bytes, int, list[bytes]]] = []
    ahead: bytes | None = part
    while True:
        if ahead is not None:
            descriptor = _open(root, ahead, stack)
            record = records.get(ahead)
            if descriptor < 0 or record is None or not _is_as_known(descriptor, record, lister):
                differing.add(ahead)
            if descriptor >= 0:
                stack.append((ahead, descriptor, [] if record is None else [*record[BELOW]]))
        if not stack:
            return
        path, descriptor, below = stack[-1]
        ahead = join(path, below.pop()) if below else None
        if ahead is None:
            os.close(descriptor)
            stack.pop()


def _open(root: int, path: bytes, stack: Sequence[tuple[bytes, int, list[bytes]]]) -> int:
    if len(stack) >= _DEEPEST:
        return -1
    try:
        if not stack:
            return descend(root, path)
        return os.open(path[len(stack[-1][0]) + 1 :], DIRECTORY_FLAGS, dir_fd=stack[-1][1])
    except OSError:
        return -1


def _is_as_known(descriptor: int, record: Record, lister: Lister) -> bool:
    try:
        return lister.is_as_known(descriptor, record)
    except OSError:
        return False
