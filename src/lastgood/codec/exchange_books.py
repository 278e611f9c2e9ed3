"""Books of a ledger as lines of an export's facts: a book, then its entries and its pieces."""

from __future__ import annotations

from lastgood.codec.canonical import base64_text, dumps
from lastgood.model.exchange import KeptBook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.codec.canonical import Fields

BOOKISH = ("book", "entry", "piece")


def book_lines(book: KeptBook) -> Iterator[bytes]:
    """Yield the lines of a book."""
    yield dumps(
        {
            "fact": "book",
            "workspace_key": book.workspace_key,
            "space": book.space,
            "name": base64_text(book.name),
        }
    )
    for key, mark, head, body in book.entries:
        yield dumps(
            {
                "fact": "entry",
                "key": base64_text(key),
                "mark": None if mark is None else base64_text(mark),
                "head": base64_text(head),
                "body": base64_text(body),
            }
        )
    for piece in book.pieces:
        yield dumps({"fact": "piece", "content": base64_text(piece)})


class Books:
    """The books that lines speak of, in their order."""

    def __init__(self) -> None:
        self._whole: list[KeptBook] = []
        self._begun: Fields | None = None
        self._entries: list[tuple[bytes, bytes | None, bytes, bytes]] = []
        self._pieces: list[bytes] = []

    def read(self, kind: str, fields: Fields) -> None:
        """Take a line; entries and pieces belong to the book before them."""
        if kind == "book":
            self._end()
            self._begun = fields
        elif self._begun is None:
            raise fields.wrong("fact", "after the book that it belongs to")
        elif kind == "piece":
            self._pieces.append(fields.binary("content"))
        else:
            mark = None if fields.is_null("mark") else fields.binary("mark")
            entry = (fields.binary("key"), mark, fields.binary("head"), fields.binary("body"))
            self._entries.append(entry)

    def whole(self) -> tuple[KeptBook, ...]:
        """Return the books."""
        self._end()
        return tuple(self._whole)

    def _end(self) -> None:
        if self._begun is None:
            return
        fields, self._begun = self._begun, None
        key, space = fields.text("workspace_key"), fields.text("space")
        if not (key + space).isprintable() or not space:
            raise fields.wrong("space", "a plain text")
        self._whole.append(
            KeptBook(
                workspace_key=key,
                space=space,
                name=fields.binary("name"),
                entries=tuple(self._entries),
                pieces=tuple(self._pieces),
            )
        )
        self._entries, self._pieces = [], []
