"""A ledger keeps what a program of the caller's has to remember: entries in books, proven when read.

A book is named within a space (a kind of program) of a workspace. What an entry holds are plain values
(`lastgood.ledger.cells`); large pieces of them are stored once a book. Whoever changes the stored bytes
without the machine's key is found out, also by putting an older state of the whole back.
"""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol, TypeVar

    from lastgood.ledger.cells import Encoding
    from lastgood.model.exchange import ExportedBook

    Result = TypeVar("Result")
else:
    Protocol = object


class LedgerEntry(Value):
    """One entry of a book.

    ``mark`` is a text by which entries can be found again, in whatever book they are. ``head`` is
    read at once; ``cell`` stands for the rest, which `LedgerReader.body` reads.
    """

    key: str
    mark: str | None
    head: object
    cell: bytes


class LedgerReader(Protocol):
    """One moment of a ledger's space. `Damaged` for what was altered, is missing or out of place."""

    def books(self, *, prefix: str = "") -> Sequence[str]:
        """Return the names of the books that begin so, sorted."""

    def entry(self, book: str, key: str) -> LedgerEntry | None:
        """Return one entry."""

    def entries(
        self,
        book: str,
        *,
        prefix: str = "",
        below: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Sequence[LedgerEntry]:
        """Return the entries whose key begins so, by key; only those whose key is less than ``below``."""

    def marked(self, mark: str, *, book: str | None = None) -> Sequence[tuple[str, str]]:
        """Return book and key of every entry that bears a mark."""

    def body(self, entry: LedgerEntry) -> object:
        """Return the rest of what an entry holds."""

    def encoded(self, entry: LedgerEntry, encoding: Encoding) -> bytes | None:
        """Return the rest of what an entry holds in another encoding; None if it has no such values.

        What was read and proven is remembered for the next question, as long as nobody else changes the
        ledger.
        """


class LedgerWriter(LedgerReader, Protocol):
    """Changes a ledger within one transaction."""

    def put(
        self,
        book: str,
        key: str,
        *,
        mark: str | None = None,
        head: object = None,
        body: object = None,
        examine: Callable[[str, bytes], None] | None = None,
    ) -> None:
        """Add an entry, or replace the one of this key; `Invalid` for what is no plain value.

        ``examine`` is called with each pair that the book does not hold yet; what it raises leaves
        everything as it was.
        """

    def drop(self, book: str, keys: Iterable[str]) -> None:
        """Remove entries."""

    def drop_book(self, book: str) -> None:
        """Remove a book."""

    def copy_book(self, book: str, *, to: str) -> None:
        """Make a book that holds what another does, in the place of the one that is there."""


class LedgersReader(Protocol):
    """The ledger of a store, opened when first asked for."""

    def space(self, name: str, *, workspace: str) -> Ledger:
        """Return one space of a workspace (its key)."""

    def check(self) -> Sequence[str]:
        """Prove everything that is stored, and say what is wrong; nothing is made if there is none."""

    def is_copy_old(self) -> bool:
        """Tell whether the ledger changed since its copy was made, and that is more than a day ago."""

    def count(self, workspaces: Sequence[str]) -> int:
        """Return how many books some workspaces (their keys) have; nothing is made if there is none."""

    def leaving(self, workspaces: Sequence[str]) -> tuple[ExportedBook, ...]:
        """Return the books of some workspaces whole; `Damaged` if one is not."""

    def prove(self, books: Sequence[ExportedBook]) -> None:
        """Raise `Damaged` for a book of another store that is not whole, or expands beyond reason."""

    def seen_as(self) -> str | None:
        """Return the id of the store under which its ledger was last seen, None if it never was."""


class Ledgers(LedgersReader, Protocol):
    """The ledger as maintenance and imports change it; programs change theirs by `Ledger.change`."""

    def back_up(self) -> bool:
        """Write a sound copy beside the ledger; False if nothing changed since the last, or there is none.

        `Damaged` if the ledger is not whole: an older copy that is stays.
        """

    def repair(self) -> tuple[str, ...]:
        """Bring back from the copy what is not whole, and say what was done; what is whole stays."""

    def take_in(self, books: Sequence[ExportedBook], *, beside: Callable[[], Result]) -> tuple[int, Result]:
        """Add proven books of another store that are not here, and do something beside: both or neither.

        Return how many were added, and what came of the other. The books count when that is done: a kill
        in between leaves them out, and to do it again adds them.
        """

    def close(self) -> None:
        """Let go of the file."""


class Ledger(Protocol):
    """One space of a workspace's ledger; threads may share it."""

    def look(self, work: Callable[[LedgerReader], Result]) -> Result:
        """Ask something of one moment."""

    def change(self, work: Callable[[LedgerWriter], Result]) -> Result:
        """Change something in one transaction, durable on return; nothing is changed if it raises."""

    def accept(self) -> None:
        """Declare the present state to be genuine: for a store that its owner put back or moved here.

        What is lost stays lost: entries whose values are not whole are dropped.
        """
