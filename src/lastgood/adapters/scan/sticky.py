"""What stays captured although it is ignored: by the previous checkpoint, the index, or by force."""

from __future__ import annotations

from lastgood.errors import Damaged
from lastgood.model.tree import DIRECTORY, TreeId
from lastgood.names import ancestors, parent, within

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
        above = parent(path)
        return self.names(above).get(path[len(above) + 1 if above else 0 :])

    def names(self, path: bytes) -> Mapping[bytes, TreeId | None]:
        """Return the names captured in a directory, those of directories with their identity."""
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = self._load(self.tree(path))
        return known

    def _load(self, tree: TreeId | None) -> Mapping[bytes, TreeId | None]:
        if tree is None:
            return _NOTHING
        try:
            entries = self._objects.directory(tree)
        except Damaged:  # a checkpoint that cannot be read holds nothing; `verify` will say so
            return _NOTHING
        return {entry.name: entry.tree_id if entry.kind == DIRECTORY else None for entry in entries}


class Forced:
    """The paths to capture whatever the rules say, and the way to them."""

    def __init__(self, paths: Iterable[bytes]) -> None:
        self._paths = frozenset(paths)
        self._ways = frozenset(way for path in self._paths for way in (b"", *ancestors(path)))

    @property
    def any(self) -> bool:
        """Whether anything is forced."""
        return bool(self._paths)

    def covers(self, path: bytes) -> bool:
        """Tell whether a path is forced, or lies in a directory that is."""
        if not self._paths:
            return False
        return b"" in self._paths or path in self._paths or not self._paths.isdisjoint(ancestors(path))

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
