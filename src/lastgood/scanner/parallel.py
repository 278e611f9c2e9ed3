"""Has two processes look after the known folders of a large workspace (measured: half the time).

They only find out which directories do not look as they did; what that means is decided by the walk. The
second one is forked, so that it knows the cache already, and it is not waited for longer than makes sense:
what it fails to say is looked at by the walk. Each takes from a queue what is next, so one that has something
else to do leaves more to the other.
"""

from __future__ import annotations

import os
import time
from marshal import dumps, loads

from lastgood.paths import join
from lastgood.scanner import BELOW, FILES, NAMES, SIGNATURE
from lastgood.scanner.read import DIRECTORY_FLAGS, Lister, descend, proving_device, signature
from lastgood.worker import Worker, is_sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lastgood.host import Clock
    from lastgood.scanner import Record
    from lastgood.scanner.cache import CachedTree
    from lastgood.worker import Tell

    # What was said of what is in a directory that does not look as it did; b"" if that has to be asked again.
    Differing = dict[bytes, bytes]
    # A folder, whether it is to be looked at itself, and those in it that are, with all below them.
    Share = tuple[bytes, bool, Sequence[bytes]]


# Forking copies page tables: it takes as long as what a file costs for each 16 KiB resident.
RESIDENT_BYTES_A_FILE = 16 << 10
# So many shares there are about; their numbers are all in a pipe, which may have room for a page alone.
_SHARES = 48
_MOST_SHARES = 2_000
_NUMBER_BYTES = 2
_LEAST_PATIENCE_MS = 500
_PATIENCE = 3  # times as long as all before took
_LENGTH_BYTES = 8
_DEEPEST = 64


def begin(root: int, *, records: Mapping[bytes, Record], lister: Lister) -> SharedLook | None:
    """Begin to look at all that is known; None where forking is not sound, or not cheap."""
    if not is_sound(records[b""][FILES] * RESIDENT_BYTES_A_FILE):
        return None
    shares = shares_of(records)
    if len(shares) > _MOST_SHARES:
        return None
    try:
        return SharedLook(root, shares=shares, records=records, lister=lister)
    except OSError:
        return None


def shares_of(records: Mapping[bytes, Record]) -> list[Share]:
    """Return all directories in shares of about as many files each, none of which is twice."""
    most = records[b""][FILES] // _SHARES + 1
    shares: list[Share] = []
    left = [b""]
    while left:
        path = left.pop()
        itself, names, files = True, list[bytes](), 0
        for name in records[path][BELOW]:
            below = join(path, name)
            record = records.get(below)
            many = 0 if record is None else record[FILES]
            # The way down to a share is gone anew: what lies deep stays in that of a folder above.
            if many > most and record is not None and record[BELOW] and below.count(b"/") < _DEEPEST:
                left.append(below)
                continue
            if names and files + many > most:
                shares.append((path, itself, names))
                itself, names, files = False, [], 0
            names.append(name)
            files += many
        shares.append((path, itself, names))
    return shares


def begin_scan(root: bytes, known: CachedTree, *, clock: Clock) -> ScanBegun | None:
    """Begin to look at a workspace of which a scan follows, if it is large; None where that cannot be."""
    began = clock.now()
    try:
        descriptor = os.open(root, DIRECTORY_FLAGS)
    except OSError:
        return None  # the scan says why
    lister = Lister(device=proving_device(descriptor), clock=clock)
    begun = ScanBegun(descriptor, known, lister=lister, began=began)
    try:
        if known.is_large:
            begun.look = begin(descriptor, records=known.records, lister=lister)
    except BaseException:
        begun.close()
        raise
    return begun


class ScanBegun:
    """A scan that has begun with a look: of which folder, by what that knows, and since when."""

    def __init__(self, root: int, known: CachedTree, *, lister: Lister, began: int) -> None:
        self.root: int = root
        self.known: CachedTree = known
        self.lister: Lister = lister
        self.began: int = began
        self.look: SharedLook | None = None

    def close(self) -> None:
        """End what still runs; harmless when repeated."""
        if self.look is not None:
            self.look.end()
        self.lister.close()
        if self.root >= 0:
            descriptor, self.root = self.root, -1
            os.close(descriptor)


class SharedLook:
    """The look of two processes, the other of which is at work as soon as this is made; OSError if none can.

    ``shares`` are all that is to be looked at, each as a whole taken by one of them.
    """

    def __init__(
        self, root: int, *, shares: Sequence[Share], records: Mapping[bytes, Record], lister: Lister
    ) -> None:
        self._began = time.monotonic()
        self._root = root
        self._shares = shares
        self._records = records
        self._lister = lister
        self._queue, filling = os.pipe()
        try:
            try:
                numbers = range(len(shares))
                os.write(filling, b"".join([number.to_bytes(_NUMBER_BYTES, "big") for number in numbers]))
            finally:
                os.close(filling)
            self._companion = Worker(self._beside, keep=[root, self._queue])
        except BaseException:
            os.close(self._queue)
            raise

    def differing(
        self, *, late: Callable[[], bool] | None = None, remembered: dict[bytes, bytes] | None = None
    ) -> Differing:
        """Return the directories that do not look as they did, and those that could not be looked at.

        Once; the other process has nothing left to do then, and ends while other work goes on. ``late`` tells
        that no time is left. What was said of the others is ``remembered`` by their signatures, as far as it
        is known here.
        """
        found: Differing = {}
        ours: set[int] = set()
        for number in self._taken():
            if late is not None and late():
                break
            self._compare(self._shares[number], found, remembered=remembered)
            ours.add(number)
        told = None if late is not None and late() else self._told()
        descriptor, self._queue = self._queue, -1
        os.close(descriptor)
        if told is None:
            self.end()
            for number, share in enumerate(self._shares):
                if number not in ours:
                    found.update(dict.fromkeys(self._all_in(share), b""))
        else:
            found.update(told)
        return found

    def end(self) -> None:
        """Make sure that the process is gone."""
        self._companion.end()
        if self._queue >= 0:
            descriptor, self._queue = self._queue, -1
            os.close(descriptor)

    def _beside(self, tell: Tell) -> None:
        """Be the other process."""
        found: Differing = {}
        for number in self._taken():
            tell(b"")
            self._compare(self._shares[number], found)
        body = dumps(found)
        tell(len(body).to_bytes(_LENGTH_BYTES, "big") + body)

    def _told(self) -> Differing | None:
        """Return what the other process has to say; None if it fails to, or takes too long for that."""
        patience = max(_LEAST_PATIENCE_MS, (time.monotonic() - self._began) * 1000 * _PATIENCE)
        length = int.from_bytes(self._companion.hear(_LENGTH_BYTES, patience=patience), "big")
        said = self._companion.hear(length, patience=patience)
        if not length or len(said) != length:
            return None
        told: Differing = loads(said)  # noqa: S302 - our own process wrote it
        return told

    def _taken(self) -> Iterator[int]:
        """Take one share after another from those that are left."""
        while number := os.read(self._queue, _NUMBER_BYTES):
            yield int.from_bytes(number, "big")

    def _compare(
        self, share: Share, differing: Differing, *, remembered: dict[bytes, bytes] | None = None
    ) -> None:
        """Compare a share with what the cache knows of it; what lies too deep counts as differing."""
        path, itself, names = share
        try:
            top = descend(self._root, path)
        except OSError:
            differing.update(dict.fromkeys(self._all_in(share), b""))
            return
        stack = [(path, top, [*names])]
        try:
            if itself:
                self._look(top, path, differing, remembered=remembered)
            while stack:
                above, descriptor, below = stack[-1]
                if not below:
                    stack.pop()
                    os.close(descriptor)
                    continue
                name = below.pop()
                path = join(above, name)
                inside = _open(name, descriptor) if path in self._records and len(stack) < _DEEPEST else -1
                if inside < 0:
                    differing.update(dict.fromkeys(self._all_in((above, False, [name])), b""))
                    continue
                stack.append((path, inside, [*self._records[path][BELOW]]))
                self._look(inside, path, differing, remembered=remembered)
        finally:
            for _, descriptor, _ in stack:
                os.close(descriptor)

    def _look(
        self, descriptor: int, path: bytes, differing: Differing, *, remembered: dict[bytes, bytes] | None
    ) -> None:
        """Compare an open directory with its record."""
        record, lister = self._records[path], self._lister
        try:
            states = lister.states_of(descriptor, record)
            is_foreign = states is None and os.fstat(descriptor).st_dev != lister.device
            if is_foreign and lister.list(descriptor, known=record).fits(record):
                return
        except OSError:
            states = None
        if states is None or signature(record[NAMES], states) != record[SIGNATURE]:
            differing[path] = states or b""
        elif remembered is not None:
            remembered[record[SIGNATURE]] = states

    def _all_in(self, share: Share) -> Iterator[bytes]:
        """Yield all directories of a share."""
        path, itself, names = share
        if itself:
            yield path
        left = [join(path, name) for name in names]
        while left:
            path = left.pop()
            yield path
            record = self._records.get(path)
            left += () if record is None else [join(path, name) for name in record[BELOW]]


def _open(name: bytes, above: int) -> int:
    """Open a directory in an open one; -1 where that cannot be."""
    try:
        return os.open(name, DIRECTORY_FLAGS, dir_fd=above)
    except OSError:
        return -1
