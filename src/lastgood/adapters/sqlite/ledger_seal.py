"""What the key of a ledger makes: tags, sums of them, and the seal of the whole.

Every entry and every book carries a tag that only the key can make. A book's total is the sum of tags
over its entries' keys, marks and tags, the root that of all books' tags: what was added, altered, moved or
taken away makes a sum that is not the recorded one. (Sums of keyed tags as digests of sets: Clarke et al.,
"Incremental Multiset Hash Functions", 2003.)
"""

from __future__ import annotations

import hmac

from lastgood.adapters.sqlite.database import DEFAULT_WAIT, open_uri, prepare
from lastgood.adapters.sqlite.faults import BROKEN
from lastgood.errors import Damaged
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Protocol

    class Tags(Protocol):
        """Makes tags by the key."""

        def tag(self, *fields: bytes | int | str | None) -> bytes:
            """Return what only the key can make of some fields."""


TAG = 32
_PROVEN_MOST = 100_000
_MODULUS = 1 << 8 * TAG
NOTHING = bytes(TAG)
TRUST_HINT = (
    "if you put this store here yourself (from a backup, another machine), accept it as it is:"
    " workspace.ledger(...).accept()"
)
_BOOKS = (
    "SELECT workspace, space, CAST(name AS BLOB), CAST(born AS BLOB), entries, CAST(total AS BLOB),"
    " CAST(tag AS BLOB),"
    " typeof(workspace) || typeof(space) || typeof(name) FROM book"
)
# What is of another type is not found by its name.
TYPES = "texttextblob"


class Root:
    """The sum of all books' tags, and how often the ledger was changed."""

    __slots__ = ("ledger", "seal", "serial", "total")

    def __init__(self, ledger: str, serial: int, total: bytes, seal: bytes) -> None:
        self.ledger = ledger
        self.serial = serial
        self.total = total
        self.seal = seal


def plus(total: bytes, tag: bytes) -> bytes:
    """Return a sum with a tag in it."""
    return ((int.from_bytes(total, "big") + int.from_bytes(tag, "big")) % _MODULUS).to_bytes(TAG, "big")


def minus(total: bytes, tag: bytes) -> bytes:
    """Return a sum without a tag."""
    return ((int.from_bytes(total, "big") - int.from_bytes(tag, "big")) % _MODULUS).to_bytes(TAG, "big")


def tampered(what: str, why: str) -> Damaged:
    """Return the error for something that is not as we left it."""
    return Damaged(f"{what} {why}", hint="see what is hit: lastgood verify", details={"what": what})


class Sealing:
    """What the key can tell of a ledger, wherever it lies."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._proven: set[object] = set()

    def tag(self, *fields: bytes | int | str | None) -> bytes:
        """Return what only the key can make of some fields."""
        return tag_of(self._key, fields)

    def root(self, connection: sqlite3.Connection, *, path: str) -> Root:
        """Return the root of a ledger, proven to be sealed by the key."""
        root = read_root(connection)
        if root.seal != self.tag("root", root.ledger, root.serial, root.total):
            raise Damaged(f"the ledger {printable(path)} was not sealed here", hint=TRUST_HINT)
        return root

    def seal(self, connection: sqlite3.Connection, root: Root) -> None:
        """Record a root under the next number."""
        root.serial += 1
        root.seal = self.tag("root", root.ledger, root.serial, root.total)
        fields = {"id": root.ledger, "serial": root.serial, "root": root.total, "seal": root.seal}
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", fields.items())

    def prove_books(self, connection: sqlite3.Connection, root: Root, *, path: str) -> None:
        """Raise `Damaged` unless a ledger has the books that its root stands for."""
        total = 0
        for row in connection.execute(_BOOKS):
            *fields, tag, types = row
            if row not in self._proven and (types != TYPES or tag != self.tag("book", *fields)):
                raise tampered(f"a book of the ledger {printable(path)}", "is not as it was written")
            self._proven.add(row)
            total += int.from_bytes(tag, "big")
        if total % _MODULUS != int.from_bytes(root.total, "big"):
            raise tampered(f"the ledger {printable(path)}", "has lost books, or older ones in their place")
        if len(self._proven) > _PROVEN_MOST:
            self._proven.clear()


def tag_of(key: bytes, fields: tuple[bytes | int | str | None, ...]) -> bytes:
    """Return what only a key can make of some fields."""
    message = []
    for field in fields:
        if isinstance(field, bytes):
            content = field
        else:
            content = b"" if field is None else str(field).encode("utf-8", "surrogatepass")
        message.append(b"%d:" % (-1 if field is None else len(content)))
        message.append(content)
    return hmac.digest(key, b"".join(message), "sha256")


def read_root(connection: sqlite3.Connection) -> Root:
    """Return the root as it is recorded."""
    rows = dict(connection.execute("SELECT name, value FROM meta").fetchall())
    match (rows.get("id"), rows.get("serial"), rows.get("root"), rows.get("seal")):
        case (str() as ledger, int() as serial, bytes() as total, bytes() as seal):
            return Root(ledger, serial, total, seal)
    raise tampered("the ledger", "has lost its seal")


def ledger_id(path: str) -> str | None:
    """Return the id that a ledger bears, unproven; None where it cannot be read."""
    connection = open_uri(path, "mode=ro", wait=DEFAULT_WAIT)
    try:
        prepare(connection)
        return read_root(connection).ledger
    except (*BROKEN, Damaged):
        return None
    finally:
        connection.close()
