"""A long list in parts that are named by what they hold (rule P8a).

A part has a few items as canonical JSON, and is to git a blob; some parts make a folder, and the folders the
list: two levels of trees. Who changes an item makes one part, one folder and the list's own tree anew,
however long it is, and shares the others with what it was before. A stored list is known by its tree, its
size and its counts alone until somebody asks for its items.
"""

from __future__ import annotations

from _sha1 import sha1
from collections.abc import Sequence

from lastgood.errors import Damaged, Internal
from lastgood.model.canonical import loads
from lastgood.model.tree import DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, DIRECTORY, FILE, Entry, TreeId
from lastgood.value import Generic, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from typing import Any, Protocol, TypeVar, overload

    class PartReader(Protocol):
        """Reads what is stored; `Damaged` where it is missing or wrong."""

        def directory(self, tree: TreeId) -> Sequence[Entry]:
            """Return the entries of a tree, sorted by name."""

        def read_blob(self, oid: bytes) -> bytes:
            """Return a blob."""

    class PartWriter(Protocol):
        """Stores what is not stored yet."""

        def unreadable(self, oids: Iterable[bytes]) -> set[bytes]:
            """Return those ids of which nothing is stored that can be read, which it would store anew."""

        def blob(self, content: bytes) -> bytes:
            """Add a blob and return its id."""

        def directory(self, entries: Iterable[Entry]) -> TreeId:
            """Add a tree and return its id."""

    Item = TypeVar("Item")
else:
    Item = None

# So many items make a part, and so many parts a folder; each is full before the next one begins. Stored
# lists are of these sizes, so they never change.
PART = 16
FOLDER = 32
# How the rows of a folder's tree begin; to write a number into bytes takes ten times as long as the rest.
_PART_HEADS = [b"100644 %02d\0" % place for place in range(FOLDER)]

# What was read or written last is not read again: parts by their ids, and whole lists, of which the one
# that was asked for longest ago goes first: several workspaces of a process change theirs in turn.
_MOST_PARTS = 4096
_MOST_LISTS = 8
_known_parts: dict[bytes, Part] = {}
_known_lists: dict[bytes, tuple[_Folder, ...]] = {}
# What the parts of a list are said to be, which nobody has asked for yet.
_claims: dict[bytes, Sequence[bytes]] = {}
# Where items were found, by the list and their key, or that they are nowhere.
_MOST_PLACES = 256
_known_places: dict[tuple[bytes, str], int | None] = {}
# What was stored is not looked for again in the store of one generation, so long as that has the checkpoint
# that was made last with it: a copy of a store, or an older one put in its place, has the same generation.
# What each of the last few saves stored or found is told apart: one set of all that ever was stored would
# be copied, ever larger, by each further save.
_MOST_SAVES = 8
_stored: dict[str, tuple[str, tuple[frozenset[bytes], ...]]] = {}

_WHAT = "a list in parts"
_HINT = "run: lastgood verify --repair"


class ListKind(Generic[Item]):
    """What a list is of: how an item is written, and how some are read.

    ``key`` is what an item is found by, and ``mark`` the text by which a part shows that it may have it.
    ``tally`` says as what an item counts.
    """

    def __init__(
        self,
        *,
        write: Callable[[Item], str],
        read: Callable[[list[object]], tuple[Item, ...]],
        key: Callable[[Item], str],
        mark: Callable[[str], str],
        tally: Callable[[Item], str] | None = None,
    ) -> None:
        self.write = write
        self.read = read
        self.key = key
        self.mark = mark
        self.tally = tally


class Part:
    """A few items, as values or as the text that is stored; one is made of the other when it is needed.

    ``content`` is that text as bytes.
    """

    __slots__ = ("_content", "_items", "_oid", "_source", "_text")

    def __init__(
        self,
        *,
        text: str | None = None,
        content: bytes | None = None,
        oid: bytes | None = None,
        items: tuple[object, ...] | None = None,
    ) -> None:
        self._text = text
        self._content = content
        self._oid = oid
        self._items = items
        self._source: Callable[[], PartReader] | None = None

    def read_from(self, source: Callable[[], PartReader]) -> None:
        """Say where it is stored."""
        self._source = source

    def take(self, other: Part) -> None:
        """Be known by what another one with the same id is known by."""
        self._text = other.text

    @property
    def is_read(self) -> bool:
        """Whether its text is known: it needs no store any more."""
        return self._text is not None or self._content is not None

    @property
    def text(self) -> str:
        """Its items as canonical JSON."""
        if self._text is None:
            content, self._content = self._content or self._stored(), None
            try:
                self._text = content.decode("ascii")
            except UnicodeDecodeError as error:
                raise Damaged(f"{_WHAT} has a part that is none", hint=_HINT) from error
        return self._text

    def _stored(self) -> bytes:
        if self._source is None or self._oid is None:
            raise Internal("a part of a list has no text", hint="report this")
        return self._source().read_blob(self._oid)

    @property
    def oid(self) -> bytes:
        """The id of its text as a blob."""
        if self._oid is None:
            content = self._content or self.text.encode("ascii")
            self._oid = bytes(sha1(b"blob %d\0%b" % (len(content), content)).digest())
        return self._oid

    def items(self, kind: ListKind[Item]) -> tuple[Item, ...]:
        """Return its items; `Damaged` if they are none of this kind."""
        if self._items is None:
            found = loads(f'{{"items":{self.text}}}', what=_WHAT)["items"]
            self._items = kind.read(found) if isinstance(found, list) else ()
        return cast("tuple[Item, ...]", self._items)


class _Folder:
    """Some parts, which together are to git a tree."""

    __slots__ = ("_is_read", "_oid", "parts")

    def __init__(self, parts: tuple[Part, ...], *, oid: bytes | None = None) -> None:
        self.parts = parts
        self._oid = oid
        self._is_read = False

    @property
    def is_read(self) -> bool:
        """Whether all of its texts are known, which they stay."""
        if not self._is_read:
            self._is_read = all(part.is_read for part in self.parts)
        return self._is_read

    @property
    def oid(self) -> bytes:
        """The id of that tree."""
        if self._oid is None:
            # Most are known, and not asked by a call.
            oids = [part._oid or part.oid for part in self.parts]  # noqa: SLF001 - of this file
            self._oid = _tree_id(_PART_HEADS, oids)
        return self._oid

    def entries(self) -> list[Entry]:
        """Return what the tree holds."""
        return [
            Entry(name=b"%02d" % place, kind=FILE, mode=DEFAULT_FILE_MODE, oid=part.oid)
            for place, part in enumerate(self.parts)
        ]


class LongList(Sequence[Item]):
    """Items in their order: a sequence that equals any other with the same items, and never changes.

    ``counts`` tell how many items count as what.
    """

    __slots__ = ("_claimed", "_folders", "_kind", "_oid", "_source", "counts", "size")

    def __init__(
        self,
        kind: ListKind[Item],
        *,
        size: int,
        counts: Mapping[str, int],
        oid: bytes | None = None,
        folders: tuple[_Folder, ...] | None = None,
    ) -> None:
        self._kind = kind
        self._oid = oid
        self._folders = folders
        self._claimed: Sequence[bytes] | None = None
        self._source: Callable[[], PartReader] | None = None
        self.size: int = size
        self.counts: Mapping[str, int] = counts

    @classmethod
    def of(cls, kind: ListKind[Item], items: Iterable[Item]) -> LongList[Item]:
        """Return a list of items."""
        every = tuple(items)
        parts = [_part(kind, every[start : start + PART]) for start in range(0, len(every), PART)]
        return cls.of_parts(kind, parts, size=len(every), counts=_counted(kind, every))

    @classmethod
    def of_parts(
        cls, kind: ListKind[Item], parts: Sequence[Part], *, size: int, counts: Mapping[str, int]
    ) -> LongList[Item]:
        """Return the list of some parts."""
        folders = tuple(
            _Folder(tuple(parts[start : start + FOLDER])) for start in range(0, len(parts), FOLDER)
        )
        return cls(kind, size=size, counts=counts, folders=folders)

    @property
    def oid(self) -> bytes:
        """The id of the tree that it is to git: lists of the same items have the same."""
        if self._oid is None:
            folders = self._loaded()
            heads = (b"40000 %04d\0" % place for place in range(len(folders)))
            self._oid = _tree_id(heads, [folder.oid for folder in folders])
        return self._oid

    @property
    def parts(self) -> list[Part]:
        """Its parts in their order."""
        return [part for folder in self._loaded() for part in folder.parts]

    @property
    def parts_needed(self) -> int:
        """How many parts so many items make."""
        return -(-self.size // PART)

    @property
    def is_at_hand(self) -> bool:
        """Whether its parts are known without being read."""
        if self._folders is None and self._oid is not None:
            self._folders = _known_lists.get(self._oid)
        return self._folders is not None

    def read_from(self, source: Callable[[], PartReader]) -> None:
        """Say where its parts are stored."""
        self._source = source

    @property
    def is_claimed(self) -> bool:
        """Whether its parts are known, or somebody has said what they are."""
        if self._claimed is None and self._oid is not None:
            self._claimed = _claims.get(self._oid)
        return self.is_at_hand or self._claimed is not None

    def claim(self, contents: Sequence[bytes]) -> None:
        """Say what its parts are, as bytes: that is proven when they are asked for, and else `Damaged`."""
        _claims.pop(self.oid, None)
        _make_room(_claims)
        self._claimed = _claims[self.oid] = contents

    def read(self, *, beside: LongList[Item] | None) -> None:
        """Read all of its parts but those that another list has too; `Damaged` if one cannot be read."""
        there = () if beside is None else beside._loaded()  # noqa: SLF001 - of another one of this class
        known = {folder.oid: folder for folder in there}
        self._folders = tuple(known.get(folder.oid, folder) for folder in self._loaded())
        unread = [folder for folder in self._folders if folder.oid not in known and not folder.is_read]
        parts = {part.oid: part for folder in (there if unread else ()) for part in folder.parts}
        for part in (one for folder in unread for one in folder.parts if not one.is_read):
            other = parts.get(part.oid)
            if other is not None and other.is_read:
                part.take(other)
            _ = part.text

    def remember(self) -> None:
        """Spare the next one who is given its tree the reading, if all of it is known."""
        if not all(folder.is_read for folder in self._loaded()):
            return
        _known_lists.pop(self.oid, None)
        _make_room(_known_lists)
        _known_lists[self.oid] = self._loaded()

    def store(self, writer: PartWriter, *, known: AbstractSet[bytes] = frozenset()) -> set[bytes]:
        """Have everything of it stored but what is ``known`` to be, and return ids of what is stored now.

        What is stored is read: nobody who reads the list later has its items from elsewhere.
        """
        folders = [folder for folder in self._loaded() if folder.oid not in known]
        stored = {part.oid for folder in folders for part in folder.parts}
        stored |= {self.oid, *(folder.oid for folder in self._loaded())}
        objects = stored - known
        lacking = writer.unreadable(objects)
        for folder in folders:
            for part in folder.parts:
                if part.oid in lacking:
                    writer.blob(part.text.encode("ascii"))
            if folder.oid in lacking:
                writer.directory(folder.entries())
        if self.oid in lacking:
            made = writer.directory(
                Entry(name=b"%04d" % place, kind=DIRECTORY, mode=DEFAULT_DIRECTORY_MODE, oid=folder.oid)
                for place, folder in enumerate(self._loaded())
            )
            if made.tree != self.oid:
                raise Internal("a list in parts is stored as another one", hint="report this")
        return stored

    def is_as_counted(self) -> bool:
        """Tell whether its items are what its counts say; `Damaged` if they cannot be read."""
        return _counted(self._kind, self) == dict(self.counts)

    def place(self, key: str) -> int | None:
        """Return where the item of a key is; None if there is none.

        `Damaged` if it is in no part that can be read, and there are others.
        """
        asked = (self.oid, key)
        if asked not in _known_places:
            if len(_known_places) >= _MOST_PLACES:
                _known_places.clear()
            _known_places[asked] = self._search(key)
        return _known_places[asked]

    def _search(self, key: str) -> int | None:
        mark = self._kind.mark(key)
        lost: Damaged | None = None
        for number, part in enumerate(self.parts):
            try:
                items = self._items(number, part) if mark in part.text else ()
            except Damaged as error:
                lost = error
                continue
            for within, item in enumerate(items):
                if self._kind.key(item) == key:
                    return number * PART + within
        if lost is not None:
            raise lost
        return None

    def changed_parts(self, before: LongList[Item] | None) -> Iterator[tuple[int, Part]]:
        """Yield its parts that are not those of another list in their places, each with its number."""
        there = () if before is None else before._loaded()  # noqa: SLF001 - of another one of this class
        for at, folder in enumerate(self._loaded()):
            old = there[at] if at < len(there) else None
            if old is not None and old.oid == folder.oid:
                continue
            for within, part in enumerate(folder.parts):
                if old is None or within >= len(old.parts) or old.parts[within].oid != part.oid:
                    yield at * FOLDER + within, part

    def with_item(self, place: int, item: Item) -> LongList[Item]:
        """Return the list with another item in a place, or with one more at its end."""
        number, within = divmod(place, PART)
        at, inside = divmod(number, FOLDER)
        folders = self._loaded()
        parts = folders[at].parts if at < len(folders) else ()
        before = self._items(number, parts[inside]) if inside < len(parts) else ()
        part = _part(self._kind, (*before[:within], item, *before[within + 1 :]))
        folder = _Folder((*parts[:inside], part, *parts[inside + 1 :]))
        counts = dict(self.counts)
        for one, change in ((before[within : within + 1], -1), ((item,), 1)):
            for name, number_of in _counted(self._kind, one).items():
                counts[name] = counts.get(name, 0) + change * number_of
        made = LongList(
            self._kind,
            size=max(self.size, place + 1),
            counts={name: count for name, count in counts.items() if count},
            folders=(*folders[:at], folder, *folders[at + 1 :]),
        )
        _known_places[made.oid, self._kind.key(item)] = place
        return made

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Item]:
        for number, part in enumerate(self.parts):
            yield from self._items(number, part)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, place: int) -> Item: ...

        @overload
        def __getitem__(self, place: slice) -> tuple[Item, ...]: ...

    def __getitem__(self, place: int | slice) -> Item | tuple[Item, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        number, within = divmod(range(self.size)[place], PART)
        folder, inside = divmod(number, FOLDER)
        return self._items(number, self._loaded()[folder].parts[inside])[within]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple) and len(other) == self.size:
            other = LongList.of(self._kind, other)
        return isinstance(other, LongList) and self.size == other.size and self.oid == other.oid

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[object, ...]:
        return (tuple, (tuple(self),))

    def _items(self, number: int, part: Part) -> tuple[Item, ...]:
        found, size = part.items(self._kind), min(PART, self.size - number * PART)
        if len(found) != size:
            raise Damaged(f"{_WHAT} has a part of {len(found)} items, not {size}", hint=_HINT)
        return found

    def _loaded(self) -> tuple[_Folder, ...]:
        if not self.is_at_hand and self._claimed is not None:
            self._folders = self._proven(self._claimed)
        if self._folders is None:
            if self._source is None or self._oid is None:
                raise Internal("a list in parts is not told where it is stored", hint="report this")
            self._folders = _read(self._oid, self._source, size=self.size)
        assert self._folders is not None
        return self._folders

    def _proven(self, contents: Sequence[bytes]) -> tuple[_Folder, ...]:
        _claims.pop(self.oid, None)
        parts = [Part(content=content) for content in contents]
        made = LongList.of_parts(self._kind, parts, size=self.size, counts=self.counts)
        if made.oid != self._oid:
            raise Damaged(f"{_WHAT} is not what it was", hint=_HINT)
        made.remember()
        return made._loaded()  # noqa: SLF001 - of another one of this class


def forget() -> None:
    """Forget what was read or written, as a process that has just begun."""
    _known_parts.clear()
    _known_lists.clear()
    _claims.clear()
    _known_places.clear()
    _stored.clear()


def _make_room(kept: dict[Any, Any]) -> None:
    """Let go of what was put longest ago, as far as that has to be; other threads may be at it."""
    for oldest in list(kept)[: 1 - _MOST_LISTS]:
        kept.pop(oldest, None)


def stored_in(generation: str, *, has: Callable[[str], bool]) -> tuple[frozenset[bytes], ...]:
    """Return what is known to be stored in a store, save by save; it ``has`` a checkpoint or not.

    ``generation`` changes whenever something stored may have been freed, or was found to be lost.
    """
    checkpoint, known = _stored.get(generation, ("", ()))
    return known if known and has(checkpoint) else ()


def remember_stored(
    generation: str, checkpoint: str, *, known: tuple[frozenset[bytes], ...], oids: frozenset[bytes]
) -> None:
    """Remember what is stored together with a checkpoint that was just made, beside what was ``known``."""
    _stored.pop(generation, None)
    _make_room(_stored)
    _stored[generation] = (checkpoint, (*known[1 - _MOST_SAVES :], oids))


def _part(kind: ListKind[Item], items: tuple[Item, ...]) -> Part:
    return Part(items=items, text="[" + ",".join([kind.write(item) for item in items]) + "]")


def _counted(kind: ListKind[Item], items: Iterable[Item]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in items if kind.tally is not None else ():
        name = kind.tally(item) if kind.tally is not None else ""
        counts[name] = counts.get(name, 0) + 1
    return counts


def _tree_id(heads: Iterable[bytes], oids: Sequence[bytes]) -> bytes:
    content = b"".join([head + oid for head, oid in zip(heads, oids, strict=False)])
    return bytes(sha1(b"tree %d\0%b" % (len(content), content)).digest())


def _read(oid: bytes, source: Callable[[], PartReader], *, size: int) -> tuple[_Folder, ...]:
    """Return the folders of a stored list; its parts are read when they are asked for."""
    reader = source()
    folders = []
    for entry in reader.directory(TreeId(tree=oid)):
        inside = reader.directory(TreeId(tree=entry.oid)) if entry.kind == DIRECTORY else ()
        folders.append(_Folder(tuple(_shared(one.oid, source) for one in inside), oid=entry.oid))
    parts = sum(len(folder.parts) for folder in folders)
    full = all(len(folder.parts) == FOLDER for folder in folders[:-1])
    if not full or parts != -(-size // PART):
        raise Damaged(f"{_WHAT} has not the {size} items that its record says", hint=_HINT)
    return tuple(folders)


def _shared(oid: bytes, source: Callable[[], PartReader]) -> Part:
    """Return a stored part: one that was read already, out of whichever store, else one of this store."""
    known = _known_parts.get(oid)
    if known is None or not known.is_read:
        if len(_known_parts) >= _MOST_PARTS:
            _known_parts.clear()
        known = _known_parts[oid] = Part(oid=oid)
        known.read_from(source)
    return known
