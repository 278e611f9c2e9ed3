"""The one read path: which checkpoints exist, what a reference means, what a tree holds."""

from __future__ import annotations

from lastgood.errors import Ambiguous, NotFound
from lastgood.ids import short
from lastgood.model.tree import DIRECTORY, TreeId
from lastgood.names import printable
from lastgood.ports.catalogue import Query
from lastgood.rules import reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.tree import Entry
    from lastgood.ports.catalogue import CatalogueReader
    from lastgood.ports.engine import ObjectReader
    from lastgood.ports.host import Clock
    from lastgood.rules.reference import Reference


class View:
    """The store as one workspace sees it."""

    def __init__(self, *, catalogue: CatalogueReader, objects: ObjectReader, key: str, clock: Clock) -> None:
        self._catalogue = catalogue
        self._objects = objects
        self._key = key
        self._clock = clock

    def find(self, query: Query) -> Sequence[Checkpoint]:
        """Return checkpoints, newest first."""
        return self._catalogue.find(query)

    def latest(self) -> Checkpoint | None:
        """Return the newest complete checkpoint that is no guard."""
        return self._nth(0)

    def resolve(self, ref: str) -> Checkpoint:
        """Return the one checkpoint that a REF names.

        Raises `Usage` or `Invalid` for a malformed REF, `NotFound`, or `Ambiguous` with the
        candidates.
        """
        wish = reference.parse(ref)
        found = self._follow(wish)
        if found is None:
            raise NotFound(
                f"no checkpoint {printable(ref)!r} in this workspace", hint="see what there is: lastgood list"
            )
        return found

    def previous(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """Return the newest complete checkpoint before another one, guards passed over."""
        older = Query(workspace_key=checkpoint.manifest.workspace_key, complete=True, guards=False)
        return next((one for one in self._catalogue.find(older) if one.sequence < checkpoint.sequence), None)

    def tree(self, checkpoint: Checkpoint) -> StoredTree:
        """Return the files of a checkpoint."""
        root = checkpoint.manifest.root
        return StoredTree(
            TreeId(tree=bytes.fromhex(root.tree), modes=bytes.fromhex(root.modes)), self._objects
        )

    def _follow(self, wish: Reference) -> Checkpoint | None:
        if wish.form == "id":
            return self._by_id(wish.text)
        if wish.form == "name":
            return self._by_name(wish)
        if wish.form in {"latest", "back"}:
            return self._nth(wish.number)
        if wish.form == "good":
            return self._first(Query(workspace_key=self._key, good=True, limit=1))
        if wish.form in {"ago", "at"}:
            return self._at(self._clock.now() - wish.number if wish.form == "ago" else wish.number)
        return None  # the other forms belong to sessions, of which this workspace has none

    def _by_id(self, checkpoint: str) -> Checkpoint | None:
        found = self._catalogue.get(checkpoint)
        return None if found is None or found.deleted_at is not None else found

    def _by_name(self, wish: Reference) -> Checkpoint | None:
        named = self._first(Query(workspace_key=self._key, name=_literal(wish.text), limit=1))
        if named is not None or wish.digits is None:
            return named
        matches = self._catalogue.with_prefix(wish.digits)
        own = [one for one in matches if one.manifest.workspace_key == self._key]
        candidates = own or list(matches)
        if len(candidates) > 1:
            raise Ambiguous(
                f"{wish.text!r} fits {len(candidates)} checkpoints: "
                + ", ".join(
                    f"{short(one.id)} ({printable(one.message) or one.kind})" for one in candidates[:5]
                ),
                hint="give more digits of the id",
                details={"candidates": [one.id for one in candidates]},
            )
        return candidates[0] if candidates else None

    def _nth(self, back: int) -> Checkpoint | None:
        return self._first(Query(workspace_key=self._key, complete=True, guards=False, limit=1, offset=back))

    def _at(self, moment: int) -> Checkpoint | None:
        return self._first(Query(workspace_key=self._key, complete=True, guards=False, until=moment, limit=1))

    def _first(self, query: Query) -> Checkpoint | None:
        found = self._catalogue.find(query)
        return found[0] if found else None


class StoredTree:
    """The files that a checkpoint holds."""

    def __init__(self, root: TreeId, objects: ObjectReader) -> None:
        self.root = root
        self.objects = objects
        self._read: dict[TreeId, Sequence[Entry]] = {}

    def listing(self, tree: TreeId) -> Sequence[Entry]:
        """Return the entries of one directory of it, by the directory's identity."""
        found = self._read.get(tree)
        if found is None:
            found = self._read[tree] = self.objects.directory(tree)
        return found

    def directory(self, path: bytes) -> Sequence[Entry] | None:
        """Return the entries of a directory, None if there is none of this path."""
        tree = self.root
        for name in path.split(b"/") if path else ():
            entry = next((one for one in self.listing(tree) if one.name == name), None)
            if entry is None or entry.kind != DIRECTORY:
                return None
            tree = entry.tree_id
        return self.listing(tree)

    def entry(self, path: bytes) -> Entry | None:
        """Return what is held under a path, None if nothing."""
        above, _, name = path.rpartition(b"/")
        entries = self.directory(above)
        return next((one for one in entries if one.name == name), None) if entries else None

    def walk(self) -> Iterator[tuple[bytes, Entry]]:
        """Yield every path with its entry, directories before what they hold, sorted by bytes."""
        stack = [(b"", self.root)]
        while stack:
            path, tree = stack.pop()
            below = []
            for entry in self.listing(tree):
                full = path + b"/" + entry.name if path else entry.name
                yield full, entry
                if entry.kind == DIRECTORY:
                    below.append((full, entry.tree_id))
            stack.extend(reversed(below))


def _literal(name: str) -> str:
    """Return a glob that matches a name and nothing else."""
    return "".join(f"[{ch}]" if ch in "*?[" else ch for ch in name)
