"""What stays captured although it is ignored: by the previous checkpoint, the index, or by force."""

from __future__ import annotations

from lastgood.errors import Damaged
from lastgood.model.tree import DIRECTORY, TreeId
from lastgood.names import Covering, unknown, ways, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lastgood.ports.engine import ObjectReader

_NOTHING: Mapping[bytes, TreeId | None] = {}


class Previous:
    """The tree of the previous checkpoint, read directory by directory as far as it is asked for."""

    def __init__(self, tree: TreeId | None, *, objects: ObjectReader) -> None:
        self._objects = objects
        self._tree = tree
        self._known: dict[bytes, Mapping[bytes, TreeId | None]] = {}

    def tree(self, path: bytes) -> TreeId | None:
        """Return what the directory was, None if it was not captured."""
        if not path:
            return self._tree
        above, _, name = path.rpartition(b"/")
        return self.names(above).get(name)

    def names(self, path: bytes) -> Mapping[bytes, TreeId | None]:
        """Return the names captured in a directory, those of directories with their identity."""
        known = self._known
        if path not in known:
            if b"" not in known:
                known[b""] = self._load(self._tree)
            # The way down may be longer than the interpreter's stack is deep.
            for each in unknown(path, known):
                above, _, name = each.rpartition(b"/")
                known[each] = self._load(known[above].get(name))
        return known[path]

    def _load(self, tree: TreeId | None) -> Mapping[bytes, TreeId | None]:
        if tree is None:
            return _NOTHING
        try:
            entries = self._objects.directory(tree)
        except Damaged:  # a checkpoint that cannot be read holds nothing; `verify` will say so
            return _NOTHING
        return {entry.name: entry.tree_id if entry.kind == DIRECTORY else None for entry in entries}


class Forced:
    """The paths to capture whatever the rules say, and the way to them.

    ``fresh`` are those, and others, to be read whatever is known of them.
    """

    def __init__(self, paths: Iterable[bytes], *, fresh: Iterable[bytes] = ()) -> None:
        self._paths = frozenset(paths)
        others = frozenset(fresh) - self._paths
        self.fresh = Forced(self._paths | others) if others else self
        self._ways = frozenset((b"", *ways(self._paths))) if self._paths else frozenset()
        self._covering = Covering(dict.fromkeys(self._paths, "forced"))

    @property
    def any(self) -> bool:
        """Whether anything is forced."""
        return bool(self._paths)

    def covers(self, path: bytes) -> bool:
        """Tell whether a path is forced, or lies in a directory that is."""
        return bool(self._paths) and self._covering.of(path) is not None

    def leads_on(self, path: bytes) -> bool:
        """Tell whether something below a directory is forced."""
        return path in self._ways

    def touches(self, path: bytes) -> bool:
        """Tell whether a directory, or something in or below it, is forced."""
        return bool(self._paths) and (path in self._ways or self.covers(path))


def relative(path: bytes, root: bytes) -> bytes | None:
    """Return where a path lies in a workspace, None if outside (or the workspace itself)."""
    top = root if root != b"/" else b""
    if path == root or not within(path, top or b""):
        return None
    return path[len(top) + 1 :]
