"""The files that checkpoints hold, read directory by directory."""

from __future__ import annotations

from lastgood.ignore import GITIGNORE, LASTGOODIGNORE
from lastgood.model.tree import DIRECTORY, FILE, StoredTree, TreeId
from lastgood.paths import join, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lastgood.engine import ObjectReader
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.tree import Entry


def tree_of(checkpoint: Checkpoint) -> TreeId:
    """Return the identity of a checkpoint's files."""
    root = checkpoint.manifest.root
    return TreeId(tree=bytes.fromhex(root.tree), modes=bytes.fromhex(root.modes))


def ignore_texts(tree: Files) -> Callable[[bytes], tuple[bytes | None, bytes | None]]:
    """Return a reader of the ignore files that a checkpoint holds."""

    def text(directory: bytes, name: bytes) -> bytes | None:
        entry = tree.entry(join(directory, name))
        return tree.objects.read_blob(entry.oid) if entry is not None and entry.kind == FILE else None

    return lambda directory: (text(directory, GITIGNORE), text(directory, LASTGOODIGNORE))


class Files(StoredTree):
    """The files that a checkpoint holds; each directory is read once."""

    __slots__ = ("_known", "_last", "_places", "objects")

    def __init__(self, root: TreeId, objects: ObjectReader) -> None:
        super().__init__(root, self._listing)
        self.objects: ObjectReader = objects
        self._known: dict[TreeId, Sequence[Entry]] = {}
        self._places: dict[bytes, TreeId | None] = {b"": root}
        # The directory that was asked last, by name: most questions come directory by directory.
        self._last: tuple[TreeId | None, Mapping[bytes, Entry]] = (None, {})

    def at(self, path: bytes) -> Sequence[Entry] | None:
        """Return the entries of a directory, None if there is none of this path."""
        tree = self._place(path)
        return None if tree is None else self._listing(tree)

    def entry(self, path: bytes) -> Entry | None:
        """Return what is held under a path, None if nothing."""
        above, _, name = path.rpartition(b"/")
        return self._named(self._place(above), name)

    def _place(self, path: bytes) -> TreeId | None:
        places = self._places
        for each in unknown(path, places):
            above, _, name = each.rpartition(b"/")
            entry = self._named(places[above], name)
            places[each] = None if entry is None or entry.kind != DIRECTORY else entry.tree_id
        return places[path]

    def _named(self, tree: TreeId | None, name: bytes) -> Entry | None:
        if tree is None:
            return None
        if self._last[0] != tree:
            self._last = (tree, {entry.name: entry for entry in self._listing(tree)})
        return self._last[1].get(name)

    def walk(self) -> Iterator[tuple[bytes, Entry]]:
        """Yield every path with its entry, directories before what they hold."""
        stack = [(b"", self.root)]
        while stack:
            path, tree = stack.pop()
            below = []
            for entry in self._listing(tree):
                full = join(path, entry.name)
                yield full, entry
                if entry.kind == DIRECTORY:
                    below.append((full, entry.tree_id))
            stack.extend(reversed(below))

    def _listing(self, tree: TreeId) -> Sequence[Entry]:
        found = self._known.get(tree)
        if found is None:
            found = self._known[tree] = self.objects.directory(tree)
        return found
