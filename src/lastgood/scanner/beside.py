"""Has another process read, hash and compress what a large scan finds, folder by folder.

It does only what is plain: a file that still is what stat said of it, and has been for a while. All else, and
what it does not get to, is read here; so both are busy, and no rule about what is captured depends on it.
"""

from __future__ import annotations

import os

from lastgood.scanner import evidence
from lastgood.scanner.read import descend, is_racy, open_file, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from lastgood.engine import Folder
    from lastgood.scanner import Evidence
    from lastgood.scanner.read import ContentReader

    Node = Any  # of `examine`, which imports this
    # A directory, places of rows in it, and the id for each: b"" where the file has to be read again.
    Came = tuple[Node, Sequence[int], Sequence[bytes]]


# So much is handed over at a time, a file counting as this many bytes more than it has.
_BATCH_BYTES = 256 << 10
_BYTES_A_FILE = 256


class ReadBeside:
    """The files that wait to be handed over, and those that were."""

    def __init__(self, reader: ContentReader) -> None:
        self._writer = reader.writer
        self._root = reader.root
        self._clock = reader.clock
        self._names: list[bytes] = []
        self._stats: list[Evidence] = []
        self._places: list[int] = []
        self._folders: list[Folder] = []
        self._parts: list[tuple[Node, list[int]]] = []
        self._weight = 0
        self._handed: dict[object, list[tuple[Node, list[int]]]] = {}
        self._came: list[Came] = []

    def begin(self) -> bool:
        """Start the process; False where there can be none."""
        return self._writer.read_beside(self._contents, root=self._root)

    def add(self, place: int, name: bytes, stat: Evidence) -> None:
        """Have a file read that belongs into a row of the directory that is being looked at."""
        self._names.append(name)
        self._stats.append(stat)
        self._places.append(place)

    def end(self, node: Node) -> None:
        """Hand over what was added; it is in this directory, which has all its rows now."""
        start = 0
        for place, stat in enumerate(self._stats, 1):
            self._weight += stat[1] + _BYTES_A_FILE
            if self._weight >= _BATCH_BYTES:
                self._take(node, start, place)
                self._send()
                start = place
        self._take(node, start, len(self._stats))
        self._names, self._stats, self._places = [], [], []

    def came(self, *, wait: bool = False) -> Sequence[Came]:
        """Return what was read since, or all."""
        if wait:
            self._send()
            self._hear(wait=True)
        came, self._came = self._came, []
        return came

    def _take(self, node: Node, start: int, stop: int) -> None:
        if start < stop:
            node.waiting += stop - start
            self._parts.append((node, self._places[start:stop]))
            self._folders.append((node.path, self._names[start:stop], self._stats[start:stop]))

    def _send(self) -> None:
        if not self._folders:
            return
        folders, parts = self._folders, self._parts
        self._folders, self._parts, self._weight = [], [], 0
        self._hear()
        handed = self._writer.offer_files(folders)
        if handed is not None:
            self._handed[handed] = parts
            return
        for (node, places), folder in zip(parts, folders, strict=True):
            oids = [
                b"" if content is None else self._writer.blob(content) for content in self._contents(folder)
            ]
            self._came.append((node, places, oids))

    def _hear(self, *, wait: bool = False) -> None:
        for handed, oids in self._writer.files_read(wait=wait):
            start = 0
            for node, places in self._handed.pop(handed, ()):
                stop = start + len(places)
                self._came.append((node, places, oids[start:stop]))
                start = stop

    def _contents(self, folder: Folder) -> Iterator[bytes | None]:
        path, names, stats = folder
        now = self._clock.now()
        try:
            directory = descend(self._root, path)
        except OSError:
            yield from [None] * len(names)
            return
        try:
            for name, stat in zip(names, stats, strict=True):
                yield None if is_racy(stat, now) else _content(name, stat, directory)
        finally:
            os.close(directory)


def _content(name: bytes, stat: Evidence, directory: int) -> bytes | None:
    """Return what a file holds; None unless it is what stat said, before and after (rule S8)."""
    try:
        descriptor = open_file(name, directory=directory)
        try:
            if evidence(os.fstat(descriptor)) != stat:
                return None
            content = whole(descriptor, stat[1])
            after = evidence(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return content if after == stat and len(content) == stat[1] else None
