"""The journal of a running restore: on the disk, whole and checked, before anything is touched."""

from __future__ import annotations

import os
import zlib

from lastgood.errors import FULL, Busy, Damaged, Storage
from lastgood.files import (
    DiskWork,
    path_exists,
    read_whole,
    sync_and_close,
    sync_directory,
    unlink_quietly,
    written_private,
)
from lastgood.paths import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from lastgood.model.operation import Journal

_MARK = b"lastgood-journal"
_LEFT = b".left-"
# What is being written, and is no journal yet.
_ASIDE = b".new"


class JournalReader:
    """The record of a restore, as one file: a line ``lastgood-journal CRC32 LENGTH``, then JSON."""

    __slots__ = ("_folder", "_name", "_path")

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._folder, _, self._name = path.rpartition(b"/")

    def read(self) -> Journal | None:
        """Return the journal of an unfinished restore; `Damaged` if it is torn or altered."""
        try:
            content = read_whole(self._path)
        except OSError as error:
            raise self._failed("read", error) from error
        if content is None:
            return None
        from lastgood.model.operation import JOURNAL  # lazily: each save looks whether there is one

        try:
            return JOURNAL.decode(_payload(content))
        except (Damaged, ValueError) as error:
            raise self._damaged(error.message if isinstance(error, Damaged) else str(error)) from error

    def is_begun(self) -> bool:
        """Tell whether one is being written, or a kill left a part of one that was never opened."""
        return path_exists(self._path + _ASIDE)

    def left(self) -> Sequence[Journal]:
        """Return the journals of restores that are done and left something behind."""
        return self._left(self._names())

    def left_by(self) -> tuple[str, ...]:
        """Return the operations of those journals, and of an unfinished one."""
        names = self._names()
        unfinished = self.read() if self._name in names else None
        known = self._left(names) if unfinished is None else (*self._left(names), unfinished)
        return tuple(journal.operation for journal in known)

    def has_any(self) -> bool:
        """Tell whether there is any of these: one unfinished, being written, or of what was left behind.

        Mostly there is none, which one listing tells. Who makes any holds the workspace alone.
        """
        return bool(self._names())

    def _names(self) -> Sequence[bytes]:
        """Return the names of all that lies beside and is called as the journal is, so far or whole."""
        name = self._name
        try:
            return [one for one in os.listdir(self._folder) if one.startswith(name)]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._failed("read", error) from error

    def _left(self, names: Sequence[bytes]) -> Sequence[Journal]:
        found = []
        for one in sorted(names):
            if not one.startswith(self._name + _LEFT):
                continue
            try:
                found.append(JournalReader(self._folder + b"/" + one).read())
            except Damaged:  # it only says where to look; what is left is named in the report as well
                continue
        return [journal for journal in found if journal is not None]

    def _failed(self, verb: str, error: OSError) -> Storage:
        if error.errno in FULL:
            from lastgood.disk import no_room

            return no_room(error, doing="writing the restore's journal", place=os.path.dirname(self._path))
        return Storage(
            f"the restore journal {self._shown} cannot be {verb}: {error.strerror}",
            hint="check that the store can be written and has room, then try again",
        )

    def _damaged(self, why: str) -> Damaged:
        return Damaged(
            f"the restore journal {self._shown} is damaged ({why})",
            hint="a restore was interrupted; set its journal aside: lastgood verify --repair"
            "\nwhat was there before is in the newest guard: lastgood list --kind guard",
            details={"path": self._shown},
        )

    @property
    def _shown(self) -> str:
        return printable(to_text(self._path))


class FileJournal(JournalReader):
    """The journal of whoever restores."""

    __slots__ = ()

    def open(self, journal: Journal) -> None:
        """Write the journal; durable when it returns. `Busy` if an unfinished one is there."""
        with self.opening(journal) as opening:
            pass
        opening.wait()

    def opening(
        self, journal: Journal, *, beside: Callable[[Callable[[], None]], DiskWork] = DiskWork
    ) -> Opening:
        """Do something while the journal is written aside; if that ends well it is open.

        Durable it is once it was waited for. ``beside`` has the disk do that.
        """
        if os.path.lexists(self._path):
            raise Busy("an interrupted restore waits to be finished", hint="run: lastgood recover")
        from lastgood.model.operation import JOURNAL

        payload = JOURNAL.encode(journal).encode("ascii")
        head = b"%s %08x %d\n" % (_MARK, zlib.crc32(payload), len(payload))
        return Opening(self._path, head + payload, failed=self._failed, beside=beside)

    def close(self) -> None:
        """Remove the journal; durable when it returns."""
        with self.closing():
            pass

    def clear(self) -> None:
        """Remove what a kill left of a journal that was never opened: nothing was done by it."""
        if self.is_begun():
            # Whoever saves beside this may be faster; or who opens the next replaces it.
            unlink_quietly(self._path + _ASIDE)

    def closing(self, *, beside: Callable[[Callable[[], None]], DiskWork] = DiskWork) -> Closing:
        """Remove the journal, and do something else while the disk takes that; durable when it has ended."""
        return Closing(self._path, failed=self._failed, beside=beside)

    def leave(self, operation: str) -> None:
        """Give the journal of a restore that is done another name, because it left something behind."""
        try:
            os.rename(self._path, self._path + _LEFT + operation.encode())
            sync_directory(os.path.dirname(self._path))
        except OSError as error:
            raise self._failed("closed", error) from error

    def forget(self, operation: str) -> None:
        """Remove the journal of a restore that left something behind: it is gone."""
        FileJournal(self._path + _LEFT + operation.encode()).close()

    def set_aside(self) -> str:
        """Give a damaged journal another name, durably, and return where it is."""
        number = 1
        while os.path.lexists(aside := b"%b.damaged-%d" % (self._path, number)):
            number += 1
        try:
            os.rename(self._path, aside)
            sync_directory(os.path.dirname(self._path))
        except OSError as error:
            raise self._failed("set aside", error) from error
        return printable(to_text(aside))


class Opening:
    """A journal on its way; who leaves it by an error has opened none.

    Its bytes are on the disk before it has its name, and its name is once `wait` returns: nothing that it
    names is changed before.
    """

    __slots__ = ("_beside", "_content", "_failed", "_path", "_synced")

    def __init__(
        self,
        path: bytes,
        content: bytes,
        *,
        failed: Callable[[str, OSError], Storage],
        beside: Callable[[Callable[[], None]], DiskWork],
    ) -> None:
        self._beside = beside
        self._path = path
        self._content = content
        self._failed = failed
        self._synced: DiskWork | None = None

    def __enter__(self) -> Self:
        try:
            descriptor = written_private(self._path + _ASIDE, self._content)
        except OSError as fault:
            FileJournal(self._path).clear()
            raise self._failed("written", fault) from fault
        self._synced = self._beside(lambda: sync_and_close(descriptor))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._synced is not None
        try:
            self._synced.wait()
            if kind is not None:
                os.unlink(self._path + _ASIDE)
                return
            os.rename(self._path + _ASIDE, self._path)
        except OSError as fault:
            FileJournal(self._path).clear()
            if kind is None:
                raise self._failed("written", fault) from fault
            return
        self._synced = self._beside(lambda: sync_directory(os.path.dirname(self._path)))

    def wait(self) -> None:
        """Return when it is durable; `Storage` if the disk does not take it."""
        assert self._synced is not None
        try:
            self._synced.wait()
        except OSError as fault:
            raise self._failed("written", fault) from fault


class Closing:
    """A journal on its way out."""

    __slots__ = ("_beside", "_failed", "_path", "_synced")

    def __init__(
        self,
        path: bytes,
        *,
        failed: Callable[[str, OSError], Storage],
        beside: Callable[[Callable[[], None]], DiskWork],
    ) -> None:
        self._beside = beside
        self._path = path
        self._failed = failed
        self._synced: DiskWork | None = None

    def __enter__(self) -> None:
        self._synced = self._beside(self._remove)

    def _remove(self) -> None:
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            return
        sync_directory(os.path.dirname(self._path))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._synced is not None
        try:
            self._synced.wait()
        except OSError as fault:
            raise self._failed("removed", fault) from fault


def _payload(content: bytes) -> bytes:
    head, _, payload = content.partition(b"\n")
    if head != b"%s %08x %d" % (_MARK, zlib.crc32(payload), len(payload)):
        raise Damaged("its checksum does not fit")
    return payload
