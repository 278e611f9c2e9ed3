"""The records of a watched scan: those of the scan before, but for the few that it made anew.

To copy all of them, and to let go of the copy before, touches each record twice: in a large workspace that
takes longer than to look at what changed. The ones beneath are never changed, for whoever compares asks
them how it was.
"""

from __future__ import annotations

from collections.abc import MutableMapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, Mapping

    from lastgood.scanner import Record

# So many are kept apart at most; then all are copied once. No more than that are copied at once.
_MOST = 1_000


def revise(records: MutableMapping[bytes, Record]) -> MutableMapping[bytes, Record]:
    """Return records to be changed that are others' until then, and leave these as they are."""
    if len(records) <= _MOST:  # quicker than to ask each time which of both has one
        return dict(records.items())
    if isinstance(records, RevisedRecords):
        return records.again()
    return RevisedRecords(records, {}, count=len(records))


class RevisedRecords(MutableMapping[bytes, "Record"]):
    """Records by path: those ``beneath``, but for what ``changed``; None stands for one that has gone."""

    __slots__ = ("_beneath", "_changed", "_count")

    def __init__(
        self, beneath: Mapping[bytes, Record], changed: dict[bytes, Record | None], *, count: int
    ) -> None:
        self._beneath = beneath
        self._changed = changed
        self._count = count

    def again(self) -> RevisedRecords:
        """Return the same, to be changed further."""
        if len(self._changed) < _MOST:
            return RevisedRecords(self._beneath, self._changed.copy(), count=self._count)
        return RevisedRecords(self.whole(), {}, count=self._count)

    def whole(self) -> dict[bytes, Record]:
        """Return all of them, apart from any other."""
        found = dict(self._beneath)
        for path, record in self._changed.items():
            if record is None:
                found.pop(path, None)
            else:
                found[path] = record
        return found

    def __getitem__(self, path: bytes) -> Record:
        found = self._changed[path] if path in self._changed else self._beneath.get(path)
        if found is None:
            raise KeyError(path)
        return found

    def get(self, path: bytes, default: Record | None = None) -> Record | None:  # type: ignore[override]  # all are of one kind
        """Return a record, asked for at once."""
        found = self._changed[path] if path in self._changed else self._beneath.get(path)
        return default if found is None else found

    def __contains__(self, path: object) -> bool:
        return (self._changed[path] is not None) if path in self._changed else path in self._beneath

    def __setitem__(self, path: bytes, record: Record) -> None:
        self._count += path not in self
        self._changed[path] = record

    def __delitem__(self, path: bytes) -> None:
        if path not in self:
            raise KeyError(path)
        self._count -= 1
        self._changed[path] = None

    def items(self) -> ItemsView[bytes, Record]:
        """Return all of them at once, with their paths."""
        return self.whole().items()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.whole())
