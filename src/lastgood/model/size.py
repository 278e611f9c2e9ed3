"""What a store takes of the disk."""

from __future__ import annotations

from lastgood.value import Value, cast


class StoreSize(Value):
    """Bytes that the file system has allocated for a store, each file once, by what they are for.

    ``objects`` are what checkpoints hold, ``catalogue`` is the database with its log, ``backups`` are the
    copies of the databases, ``ledger`` is what frameworks keep, ``caches`` are what the next scan starts
    from, ``outputs`` what runs printed, ``kept`` what restores found in use and moved out of the way,
    ``damaged`` what a repair set aside, ``reserve`` the room that is given up when the disk is full.
    """

    objects: int = 0
    catalogue: int = 0
    backups: int = 0
    ledger: int = 0
    caches: int = 0
    outputs: int = 0
    kept: int = 0
    damaged: int = 0
    reserve: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """All of it, as ``du`` adds it up."""
        return sum(self.parts.values())

    @property
    def parts(self) -> dict[str, int]:
        """The amounts by name."""
        return cast("dict[str, int]", self.as_dict())
