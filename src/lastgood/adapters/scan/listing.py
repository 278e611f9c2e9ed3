"""Lists directories: the names in them, and what stat says of each entry.

Where times prove names, those of a directory are not read again as long as its own stat data are what
they were: that is a fifth of a scan in which nothing changed.
"""

from __future__ import annotations

import os

from lastgood.adapters.scan.form import (
    FORMAT_DIRECTORY,
    FORMAT_MASK,
    NAMES,
    SEEN,
    SIGNATURE,
    evidence,
    sign,
)
from lastgood.adapters.scan.opening import GONE
from lastgood.adapters.scan.read import is_racy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.adapters.scan.form import Evidence, Record, Seen
    from lastgood.ports.host import Clock


class Listing:
    """A directory as it was listed: names in the file system's order, and what stat said of each.

    ``names`` are joined by NUL. ``stats`` has the mode alone for a directory; ``lost`` are entries that
    could not be asked. ``seen`` is what stat said of the directory itself, where that proves the names.
    """

    __slots__ = ("descriptor", "lost", "names", "seen", "signature", "stats")

    def __init__(
        self,
        descriptor: int,
        names: bytes,
        *,
        stats: Sequence[Evidence | int],
        seen: Seen,
        lost: Sequence[bytes] = (),
    ) -> None:
        self.descriptor = descriptor
        self.names = names
        self.stats = stats
        self.seen = seen
        self.lost = lost
        self.signature = sign(names, stats)

    def fits(self, record: Record) -> bool:
        """Tell whether everything is as it was recorded."""
        return self.signature == record[SIGNATURE] and not self.lost

    def proves_more(self, record: Record) -> bool:
        """Tell whether the names could be proven by this listing, and not by what is recorded."""
        return bool(self.seen) and self.seen != record[SEEN]


class Lister:
    """Lists open directories. On ``device`` times prove names; None if they do so nowhere."""

    def __init__(self, *, device: int | None, clock: Clock) -> None:
        self._device = device
        self._clock = clock

    def list(self, descriptor: int, *, known: Record | None) -> Listing:
        """List a directory, of which a record may be ``known``; OSError if that is refused."""
        if known is not None and known[SEEN] and known[SEEN] == self._seen(descriptor):
            names = known[NAMES]
            try:
                return Listing(descriptor, names, stats=_ask(descriptor, names), seen=known[SEEN])
            except OSError:  # an entry went just now, or cannot be asked
                pass
        seen = self._settled(descriptor)
        names = os.fsencode("\0".join(os.listdir(descriptor)))
        try:
            return Listing(descriptor, names, stats=_ask(descriptor, names), seen=seen)
        except OSError:
            return _list_what_is_left(descriptor, names)

    def is_as_known(self, descriptor: int, record: Record) -> bool:
        """Tell whether a directory is as it was recorded, and no more could be known of it."""
        listing = self.list(descriptor, known=record)
        return listing.fits(record) and not listing.proves_more(record)

    def _seen(self, descriptor: int) -> Seen:
        if self._device is None:
            return ()
        seen = os.fstat(descriptor)
        return evidence(seen) if seen.st_dev == self._device else ()

    def _settled(self, descriptor: int) -> Seen:
        """Return what differs as soon as an entry comes or goes from now on; () if that is not sure."""
        now = self._clock.now()
        seen = self._seen(descriptor)
        return () if not seen or is_racy(seen, now) else seen


def names_of(joined: bytes) -> list[bytes]:
    """Return the names of a listing."""
    return joined.split(b"\0") if joined else []


def _ask(descriptor: int, names: bytes) -> list[Evidence | int]:
    ask = os.stat
    return [
        evidence(seen)
        if (seen := ask(name, dir_fd=descriptor, follow_symlinks=False)).st_mode & FORMAT_MASK
        != FORMAT_DIRECTORY
        else seen.st_mode
        for name in names_of(names)
    ]


def _list_what_is_left(descriptor: int, names: bytes) -> Listing:
    """List a directory of which some entries are gone, or cannot be asked."""
    left: list[bytes] = []
    lost: list[bytes] = []
    stats: list[Evidence | int] = []
    for name in names_of(names):
        try:
            stats += _ask(descriptor, name)
        except OSError as error:
            if error.errno not in GONE:
                lost.append(name)
            continue
        left.append(name)
    return Listing(descriptor, b"\0".join(left), stats=stats, seen=(), lost=lost)
