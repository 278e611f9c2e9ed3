"""What a ledger holds."""

from __future__ import annotations

from lastgood.ledger import Ledger


def texts(ledger: Ledger) -> dict[str, list[object]]:
    """Return everything that a ledger holds, read to the end."""
    return ledger.look(
        lambda book: {
            name: [(one.key, one.mark, one.head, book.body(one)) for one in book.entries(name)]
            for name in book.books()
        }
    )
