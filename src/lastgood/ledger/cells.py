"""Plain values as cells: bytes in which large values are pieces, named by digest and shared.

A plain value is None, a bool, int, float, str, bytes, a list, a dict whose keys are scalars, or a pair
``(form, content)``: an object that somebody else's serialiser wrote. Reading builds these and nothing
else: no name in the bytes is ever looked up or called.

A cell is a tag, the length of its payload (LEB128), and the payload. What is long becomes a piece of
its own, and the cell refers to it by digest. A long list or dict is cut where its content says so, a
long text every 8 KiB, so that a value which grew by a little shares all but a few pieces with what it was.
"""

from __future__ import annotations

from _struct import Struct
from hashlib import blake2b
from zlib import crc32

from lastgood.errors import Damaged, Invalid, LastgoodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Generic, Protocol, TypeVar

    Read = Callable[[bytes], bytes]
    # Says which pieces will be asked for next, so that they are read together.
    Ahead = Callable[[Sequence[bytes]], None]
    Kept = TypeVar("Kept")
    # What a piece is in another encoding: its tag, how many cells it has, those without their header, in
    # lengths that are still to be joined.
    Encoded = tuple[int, int, list[bytes]]
else:
    from lastgood.value import Generic

    Kept = Protocol = object

PIECE_ID = 20
# A cell of so many bytes becomes a piece; the cells of one node together are at most so many.
_PIECE = 256
_NODE = 1024
_GROUP_LEAST, _GROUP_MOST, _GROUP_MASK = 512, 2048, 15
_TEXT = 8192
_DEPTH = 200
# What a piece is in another encoding is remembered up to so many bytes; it is joined up to fewer, because a
# long one soon becomes another, made of the same.
_ENCODED_MOST, _JOINED_MOST = 1 << 20, 1 << 17
# Lists and dicts that are no pieces are remembered so from so many bytes on.
_SHORT_LEAST = 24

_NONE, _TRUE, _FALSE, _INT, _FLOAT = b"NTFID"
_STR, _BYTES, _LIST, _DICT, _PAIR, _REF = b"SBLMOR"
# The same in lower case: a cell whose payload are the lengths that one value was cut into.
_LINKED = {_STR: ord("s"), _BYTES: ord("b"), _LIST: ord("l"), _DICT: ord("m")}
_WHOLE = {linked: whole for whole, linked in _LINKED.items()}
# Not a cell's: of what is remembered in another encoding with its header.
_WHOLE_VALUE = 0
_SCALARS = frozenset({_NONE, _TRUE, _FALSE, _INT, _FLOAT, _STR, _BYTES})
_DOUBLE = Struct(">d")
_TAGS = b"NTFIDSBLMORsblm"
_SHORT = {tag: [bytes((tag, length)) for length in range(128)] for tag in _TAGS}


def piece_id(cell: bytes) -> bytes:
    """Return the name of a piece."""
    return blake2b(cell, digest_size=PIECE_ID).digest()


class Remembered(Generic[Kept]):
    """What was made of something before, up to so many bytes of it; what is asked for stays longest."""

    def __init__(self, *, most: int) -> None:
        self._half = most // 2
        self._young: dict[object, tuple[Kept, int]] = {}
        self._old: dict[object, tuple[Kept, int]] = {}
        self._size = 0

    def get(self, name: object) -> Kept | None:
        """Return what is remembered under a name."""
        found = self._young.get(name)
        if found is None:
            found = self._old.pop(name, None)
            if found is None:
                return None
            self.put(name, found[0], size=found[1])
        return found[0]

    def put(self, name: object, kept: Kept, *, size: int) -> None:
        """Remember something that takes up so many bytes."""
        if self._size + size > self._half:
            self._old, self._young, self._size = self._young, {}, 0
        if size <= self._half:
            self._young[name] = (kept, size)
            self._size += size


class NamedList:
    """A list to be packed whose items have names: those of one name are the same value.

    So an item that was packed before need not be taken apart again. Where it has none its name is None;
    ``plain`` makes the plain value of one that has, and says whether its name will always mean that. Such
    a name which is bytes is the item itself in an ``encoding``.
    """

    __slots__ = ("encoding", "items", "known", "names", "plain")

    def __init__(
        self,
        names: Sequence[object],
        items: Sequence[object],
        *,
        known: Remembered[bytes],
        plain: Callable[[object, object], tuple[object, bool]],
        encoding: Encoding | None = None,
    ) -> None:
        self.encoding: Encoding | None = encoding
        self.names: Sequence[object] = names
        self.items: Sequence[object] = items
        self.known: Remembered[bytes] = known
        self.plain: Callable[[object, object], tuple[object, bool]] = plain


def pack(
    value: object, *, anew: bool = False, encoded: Callable[[Encoding, bytes, bytes], None] | None = None
) -> tuple[bytes, dict[bytes, bytes]]:
    """Return a value as a cell, with the pieces that it refers to, directly or through one another.

    Those of an item of a `NamedList` that was packed before are left out, unless all is packed ``anew``.
    ``encoded`` is told of the cells of others whose encoding is known, and that.
    Raises `Invalid` for what is no plain value, or too deep.
    """
    packer = _Packer(anew=anew, encoded=encoded)
    return packer.held(packer.cell(value, 0)), packer.pieces


class _Packer:
    def __init__(self, *, anew: bool, encoded: Callable[[Encoding, bytes, bytes], None] | None) -> None:
        self.pieces: dict[bytes, bytes] = {}
        self._anew = anew
        self._encoded = encoded

    def held(self, cell: bytes) -> bytes:
        """Return a cell that is short: the one given, or a reference to it."""
        if len(cell) < _PIECE:
            return cell
        name = piece_id(cell)
        self.pieces[name] = cell
        return _cell(_REF, name)

    def cell(self, value: object, depth: int) -> bytes:
        if depth > _DEPTH:
            raise Invalid("the value lies too deep in itself", hint=f"nest at most {_DEPTH} lists and dicts")
        kind = type(value)
        if kind is tuple:
            return self._pair(value)
        if kind is str:
            return self._long(_STR, str(value).encode("utf-8", "surrogatepass"))
        if kind is list or kind is NamedList:
            assert isinstance(value, list | NamedList)
            return self._sequence(_LIST, self._items(value, depth + 1))
        if kind is dict:
            assert isinstance(value, dict)
            return self._sequence(_DICT, [self._item(*item, depth + 1) for item in value.items()])
        if kind is bytes:
            assert isinstance(value, bytes)
            return self._long(_BYTES, value)
        return _scalar(value)

    def _items(self, row: list[object] | NamedList, depth: int) -> list[bytes]:
        if isinstance(row, list):
            return [self.held(self.cell(one, depth)) for one in row]
        cells: list[bytes] = []
        known = row.known
        for name, item in zip(row.names, row.items, strict=True):
            cell = None if name is None or self._anew else known.get(name)
            if cell is None:
                value, lasting = row.plain(name, item)
                cell = self.held(self.cell(value, depth))
                if lasting:
                    self._remember(row, name, cell)
            cells.append(cell)
        return cells

    def _remember(self, row: NamedList, name: object, cell: bytes) -> None:
        row.known.put(name, cell, size=_size_of(name))
        if row.encoding is not None and self._encoded is not None and isinstance(name, bytes):
            self._encoded(row.encoding, cell, name)

    def _item(self, key: object, value: object, depth: int) -> bytes:
        if isinstance(key, list | dict | tuple):
            raise Invalid(f"a key is {type(key).__name__}", hint="use texts, numbers, bytes as keys")
        return self.held(self.cell(key, depth)) + self.held(self.cell(value, depth))

    def _pair(self, value: object) -> bytes:
        assert isinstance(value, tuple)
        if len(value) != 2 or type(value[0]) is not str or type(value[1]) is not bytes:
            raise Invalid("a pair is not (form, content)", hint="write other tuples as lists")
        form, content = value
        if len(content) <= _TEXT:
            return _cell(_PAIR, _cell(_STR, form.encode()) + _cell(_BYTES, content))
        return _cell(_PAIR, _cell(_STR, form.encode()) + self.held(self._long(_BYTES, content)))

    def _long(self, tag: int, content: bytes) -> bytes:
        if len(content) <= _TEXT:
            return _cell(tag, content)
        lengths = (content[place : place + _TEXT] for place in range(0, len(content), _TEXT))
        return self._joined(tag, [self.held(_cell(tag, length)) for length in lengths])

    def _sequence(self, tag: int, cells: list[bytes]) -> bytes:
        payload = b"".join(cells)
        if len(payload) <= _NODE:
            return _cell(tag, payload)
        return self._joined(tag, [self.held(_cell(tag, group)) for group in _groups(cells)])

    def _joined(self, tag: int, cells: list[bytes]) -> bytes:
        tag = _LINKED[tag]
        payload = b"".join(cells)
        while len(payload) > _NODE:
            cells = [self.held(_cell(tag, group)) for group in _groups(cells)]
            payload = b"".join(cells)
        return _cell(tag, payload)


def _groups(cells: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a row of cells where their content says so: what stays alike is cut alike."""
    group: list[bytes] = []
    size = 0
    for cell in cells:
        group.append(cell)
        size += len(cell)
        if size >= _GROUP_MOST or (size >= _GROUP_LEAST and not crc32(cell) & _GROUP_MASK):
            yield b"".join(group)
            group, size = [], 0
    if group:
        yield b"".join(group)


def _scalar(value: object) -> bytes:
    kind = type(value)
    if value is None:
        return _cell(_NONE, b"")
    if kind is bool:
        return _cell(_TRUE if value else _FALSE, b"")
    if kind is int:
        assert isinstance(value, int)
        return _cell(_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if kind is float:
        return _cell(_FLOAT, _DOUBLE.pack(value))
    raise Invalid(f"{kind.__name__} is no plain value", hint="use texts, numbers, bytes, lists, dicts")


def _cell(tag: int, payload: bytes) -> bytes:
    length = len(payload)
    if length < 128:
        return _SHORT[tag][length] + payload
    if length < 16384:
        return bytes((tag, length & 127 | 128, length >> 7)) + payload
    header = bytearray((tag,))
    while length >= 128:
        header.append(length & 127 | 128)
        length >>= 7
    header.append(length)
    return bytes(header) + payload


def _size_of(name: object) -> int:
    """Return about how many bytes a name takes up with the cell that it stands for."""
    parts = name if isinstance(name, tuple) else (name,)
    return _PIECE + sum(len(part) for part in parts if isinstance(part, str | bytes))


def _nothing_ahead(_ids: Sequence[bytes]) -> None:
    """Read nothing together."""


def unpack(cell: bytes, read: Read, *, ahead: Ahead = _nothing_ahead) -> object:
    """Return the value of a cell; ``read`` gives the pieces. `Damaged` if the bytes are no cell."""
    try:
        (found,) = _cells(cell)
        return _Unpacker(read, ahead).value(*found, depth=0)
    except (ValueError, IndexError, RecursionError, TypeError) as error:
        raise Damaged(f"a stored value cannot be read ({error})", hint="run: lastgood verify") from error


class _Unpacker:
    def __init__(self, read: Read, ahead: Ahead = _nothing_ahead) -> None:
        self._read = read
        self._ahead = ahead

    def value(self, tag: int, payload: bytes, *, depth: int) -> object:
        if depth > 4 * _DEPTH:
            raise ValueError("too deep")
        tag, payload = self._resolved(tag, payload)
        if tag in _WHOLE:
            return self._whole(_WHOLE[tag], payload, depth)
        if tag == _LIST:
            return [self.value(*one, depth=depth + 1) for one in self._coming(payload)]
        if tag == _DICT:
            return self._dict(payload, depth)
        if tag == _PAIR:
            form, content = (self.value(*one, depth=depth + 1) for one in _cells(payload))
            return (form, content)
        return _read_scalar(tag, payload)

    def _resolved(self, tag: int, payload: bytes) -> tuple[int, bytes]:
        if tag != _REF:
            return tag, payload
        ((tag, payload),) = _cells(self._read(payload))
        if tag == _REF:
            raise ValueError("a piece that is nothing but another")
        return tag, payload

    def _dict(self, payload: bytes, depth: int) -> dict[object, object]:
        values = [self.value(*one, depth=depth + 1) for one in self._coming(payload)]
        return dict(zip(values[::2], values[1::2], strict=True))

    def _coming(self, payload: bytes) -> list[tuple[int, bytes]]:
        """Return some cells, with the pieces that they refer to read together."""
        cells = list(_cells(payload))
        self._ahead([content for tag, content in cells if tag == _REF])
        return cells

    def _whole(self, tag: int, payload: bytes, depth: int) -> object:
        content = b"".join(self.lengths(tag, payload, depth))
        return self.value(tag, content, depth=depth)

    def lengths(self, tag: int, payload: bytes, depth: int) -> Iterator[bytes]:
        if depth > 4 * _DEPTH:
            raise ValueError("too deep")
        for one in self._coming(payload):
            kind, content = self._resolved(*one)
            if kind == tag:
                yield content
            elif kind == _LINKED[tag]:
                yield from self.lengths(tag, content, depth + 1)
            else:
                raise ValueError("a length of another kind")


def _read_scalar(tag: int, payload: bytes) -> object:
    if tag == _STR:
        return payload.decode("utf-8", "surrogatepass")
    if tag == _BYTES:
        return payload
    if tag == _INT:
        return int.from_bytes(payload, "big", signed=True)
    if tag == _FLOAT:
        return _DOUBLE.unpack(payload)[0] if len(payload) == _DOUBLE.size else _no_cell()
    if tag in _SCALARS and not payload:
        return None if tag == _NONE else tag == _TRUE
    return _no_cell()


def _no_cell() -> object:
    raise ValueError("no cell")


class NotEncodable(Exception):
    """A value cannot be written in another encoding: it is to be read as a plain one."""


class Encoding(Protocol):
    """Another encoding of plain values, written from its parts; `NotEncodable` for what it does not have."""

    def scalar(self, value: object) -> bytes:
        """Return None, a bool, an int or a float."""

    def text(self, content: bytes) -> bytes:
        """Return a text, which is given in UTF-8, with surrogates perhaps."""

    def content(self, content: bytes) -> bytes:
        """Return bytes."""

    def row(self, count: int, items: list[bytes]) -> list[bytes]:
        """Return a list of so many items; what is given and returned is to be joined."""

    def table(self, count: int, items: list[bytes]) -> list[bytes]:
        """Return a dict of so many items, each key before its value; to be joined as well."""

    def pair(self, form: str, content: bytes) -> bytes:
        """Return what somebody else's serialiser wrote."""


def encode(
    cell: bytes, read: Read, *, ahead: Ahead, encoding: Encoding, known: Remembered[Encoded], where: object
) -> bytes | None:
    """Return the value of a cell in another encoding, None if it has no such value.

    What the pieces of ``where`` are in it is remembered, so that a long value which grew by a little is
    not taken apart again. `Damaged` if the bytes are no cell.
    """
    try:
        return _Encoder(read, ahead, encoding, known, where).whole(cell)
    except (NotEncodable, RecursionError):
        return None
    except LastgoodError:
        raise
    except (ValueError, IndexError, TypeError) as error:
        raise Damaged(f"a stored value cannot be read ({error})", hint="run: lastgood verify") from error


def remember_encoded(known: Remembered[Encoded], where: object, cell: bytes, encoded: bytes) -> None:
    """Remember what a short list or dict, whose cell is given, is in another encoding.

    One that is a piece is left out: as a length of something longer it would be another thing.
    """
    ((tag, payload),) = _cells(cell)
    if tag in {_LIST, _DICT} and len(payload) >= _SHORT_LEAST:
        known.put((where, tag, payload), (_WHOLE_VALUE, 1, [encoded]), size=_PIECE + len(encoded))


class _Encoder:
    def __init__(
        self, read: Read, ahead: Ahead, encoding: Encoding, known: Remembered[Encoded], where: object
    ) -> None:
        self._read = read
        self._ahead = ahead
        self._encoding = encoding
        self._known = known
        self._where = where

    def whole(self, cell: bytes) -> bytes:
        name = (self._where, cell)
        found = self._known.get(name)
        if found is None:
            (only,) = _cells(cell)
            found = self._remembered(name, (0, 1, self._value(*only)))
        return b"".join(found[2])

    def _value(self, tag: int, payload: bytes) -> list[bytes]:
        kind, count, items = self._piece(payload) if tag == _REF else self._short(tag, payload)
        if kind == _LIST:
            return self._encoding.row(count, items)
        if kind == _DICT:
            return self._encoding.table(count // 2, items)
        return items

    def _piece(self, id: bytes) -> Encoded:
        found = self._known.get((self._where, id))
        if found is None:
            ((tag, payload),) = _cells(self._read(id))
            if tag == _REF:
                raise ValueError("a piece that is nothing but another")
            found = self._remembered((self._where, id), self._parts(tag, payload))
        return found

    def _short(self, tag: int, payload: bytes) -> Encoded:
        """Return what is no piece of its own: a list or dict among its neighbours is soon asked for again."""
        if tag not in {_LIST, _DICT} or len(payload) < _SHORT_LEAST:
            return self._parts(tag, payload)
        found = self._known.get((self._where, tag, payload))
        return found or self._remembered((self._where, tag, payload), self._parts(tag, payload))

    def _remembered(self, name: object, found: Encoded) -> Encoded:
        """Remember a piece, unless it is very long."""
        size = sum(map(len, found[2]))
        if size <= _JOINED_MOST:
            found = (found[0], found[1], [b"".join(found[2])])
        if size <= _ENCODED_MOST:
            self._known.put(name, found, size=_PIECE + size)
        return found

    def _parts(self, tag: int, payload: bytes) -> Encoded:
        if tag in {_LIST, _DICT}:
            cells = self._coming(payload)
            return tag, len(cells), [length for one in cells for length in self._value(*one)]
        if tag in {_LINKED[_LIST], _LINKED[_DICT]}:
            return self._joined(_WHOLE[tag], payload)
        return tag, 1, [self._leaf(tag, payload)]

    def _joined(self, kind: int, payload: bytes) -> Encoded:
        count = 0
        items: list[bytes] = []
        where, known = self._where, self._known
        cells = [(one, known.get((where, one[1])) if one[0] == _REF else None) for one in _cells(payload)]
        self._ahead([one[1] for one, found in cells if found is None and one[0] == _REF])
        for (tag, content), found in cells:
            length = found or (self._piece(content) if tag == _REF else self._parts(tag, content))
            if length[0] != kind:
                raise ValueError("a length of another kind")
            count += length[1]
            items += length[2]
        return kind, count, items

    def _leaf(self, tag: int, payload: bytes) -> bytes:
        if tag in {_STR, _LINKED[_STR]}:
            return self._encoding.text(payload if tag == _STR else self._long(tag, payload))
        if tag in {_BYTES, _LINKED[_BYTES]}:
            return self._encoding.content(payload if tag == _BYTES else self._long(tag, payload))
        if tag == _PAIR:
            form, content = (self._unpacker().value(*one, depth=0) for one in _cells(payload))
            if not isinstance(form, str) or not isinstance(content, bytes):
                raise ValueError("a pair of another kind")
            return self._encoding.pair(form, content)
        return self._encoding.scalar(_read_scalar(tag, payload))

    def _long(self, tag: int, payload: bytes) -> bytes:
        return b"".join(self._unpacker().lengths(_WHOLE[tag], payload, 0))

    def _unpacker(self) -> _Unpacker:
        return _Unpacker(self._read, self._ahead)

    def _coming(self, payload: bytes) -> list[tuple[int, bytes]]:
        """Return some cells, with the pieces read together that they refer to and nobody remembers."""
        cells = list(_cells(payload))
        where, known = self._where, self._known
        self._ahead([id for tag, id in cells if tag == _REF and known.get((where, id)) is None])
        return cells


def references(cell: bytes) -> Iterator[bytes]:
    """Yield the pieces that a cell refers to by itself; `Damaged` if it is no cell."""
    try:
        for tag, payload in _cells(cell):
            if tag == _REF:
                yield payload
            elif tag not in _SCALARS:
                yield from references(payload)
    except (ValueError, IndexError, RecursionError, TypeError) as error:
        raise Damaged(f"a stored value cannot be read ({error})", hint="run: lastgood verify") from error


def pairs(cell: bytes) -> Iterator[bytes]:
    """Yield the pairs that a cell holds by itself, each as a cell; `Damaged` if it is none."""
    for tag, payload in _cells(cell):
        if tag == _PAIR:
            yield _cell(tag, payload)
        elif tag not in _SCALARS and tag != _REF:
            yield from pairs(payload)


def cell_texts(cell: bytes, read: Read) -> Iterator[tuple[str, str | bytes]]:
    """Yield the texts and bytes that a cell holds by itself, long ones whole, each with its key if any.

    What it refers to is left out, but for the lengths of what is long; such a length by itself may begin
    and end within a character, which is replaced. `Damaged` if it is no cell.
    """
    try:
        for one in _cells(cell):
            yield from _texts(*one, read, key="")
    except (ValueError, IndexError, RecursionError, TypeError) as error:
        raise Damaged(f"a stored value cannot be read ({error})", hint="run: lastgood verify") from error


def _texts(tag: int, payload: bytes, read: Read, *, key: str) -> Iterator[tuple[str, str | bytes]]:
    kind = _WHOLE.get(tag, tag)
    if kind in {_STR, _BYTES}:
        content = payload if kind == tag else b"".join(_Unpacker(read).lengths(kind, payload, 0))
        yield key, content if kind == _BYTES else content.decode("utf-8", "replace")
    elif tag == _DICT:
        row = list(_cells(payload))
        for name, value in zip(row[::2], row[1::2], strict=True):
            yield from _texts(*name, read, key="")
            text = name[1].decode("utf-8", "replace") if name[0] == _STR else ""
            yield from _texts(*value, read, key=text)
    elif tag not in _SCALARS and tag != _REF:
        for one in _cells(payload):
            yield from _texts(*one, read, key="")


def _cells(content: bytes) -> Iterator[tuple[int, bytes]]:
    place, end = 0, len(content)
    while place < end:
        tag = content[place]
        length, shift = content[place + 1], 0
        place += 2
        if length > 127:
            length &= 127
            more = True
            while more:
                shift += 7
                length |= (content[place] & 127) << shift
                more = content[place] > 127 and shift < 63
                place += 1
        if length > end - place or (tag == _REF and length != PIECE_ID):
            raise ValueError("cut short")
        yield tag, content[place : place + length]
        place += length
