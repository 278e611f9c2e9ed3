"""One reading of a workspace, as the verbs see it."""

from __future__ import annotations

from lastgood.adapters.scan import cache
from lastgood.adapters.scan.build import entry_of
from lastgood.adapters.scan.cache import DetailsLost
from lastgood.adapters.scan.form import (
    ABOVE,
    BARE,
    CTIME,
    FLAGS,
    FORMAT_DIRECTORY,
    FORMAT_FILE,
    FORMAT_MASK,
    INODE,
    MODE,
    MODES,
    MTIME,
    NAME,
    OID,
    RACY,
    SIZE,
    STATE,
    TOKEN,
    TREE,
)
from lastgood.adapters.scan.judge import IGNORE_FILES
from lastgood.adapters.scan.opening import names_in, state_of
from lastgood.errors import Damaged
from lastgood.model.tree import TreeId
from lastgood.names import join
from lastgood.ports.workspace import Stamp
from lastgood.rules.ignore import GITIGNORE, LASTGOODIGNORE, UNREADABLE, TreeRules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.adapters.scan.cache import Details, Snapshot
    from lastgood.adapters.scan.form import Record, Row
    from lastgood.model.checkpoint import IgnoreState
    from lastgood.model.scan import ScanResult
    from lastgood.model.tree import Entry
    from lastgood.ports.engine import ObjectReader
    from lastgood.rules.ignore import Text

# So many directories are remembered: a plan, a guard and a report look at the same ones.
_LISTINGS = 64


class Texts:
    """The ignore files as they were captured, by directory.

    ``fresh`` are those read by this scan, which the engine may not have published yet.
    """

    def __init__(
        self,
        records: Mapping[bytes, Record],
        *,
        details: Details,
        objects: ObjectReader,
        fresh: Mapping[bytes, tuple[Text, Text]],
    ) -> None:
        self._records = records
        self._details = details
        self._objects = objects
        self._fresh = fresh

    def of(self, path: bytes) -> tuple[Text, Text]:
        """Return the ``.gitignore`` and the ``.lastgoodignore`` of a directory; `DetailsLost`."""
        fresh = self._fresh.get(path)
        if fresh is not None:
            return fresh
        record = self._records.get(path)
        if record is None or record[TOKEN] == record[ABOVE]:
            return None, None
        rows = self._details.rows(record)
        if rows is None:
            raise DetailsLost
        found = {
            row[NAME]: self._text(row)
            for row in rows
            if row[NAME] in IGNORE_FILES and row[MODE] & FORMAT_MASK == FORMAT_FILE
        }
        return found.get(GITIGNORE), found.get(LASTGOODIGNORE)

    def _text(self, row: Row) -> Text:
        if row[STATE] > RACY:
            return UNREADABLE
        try:
            return self._objects.read_blob(row[OID])
        except Damaged as error:
            raise DetailsLost from error


class WorkspaceScan:
    """One reading of a workspace.

    ``rules`` are the ignore rules outside its files as they were, ``listings`` some directories as they are.
    """

    def __init__(
        self,
        result: ScanResult,
        *,
        folder: bytes,
        snapshot: Snapshot,
        known: Mapping[bytes, Record],
        listings: dict[bytes, Sequence[Entry]],
        objects: ObjectReader,
        rules: IgnoreState,
        texts: Mapping[bytes, tuple[Text, Text]],
        worth_keeping: bool,
    ) -> None:
        self.result = result
        self._folder = folder
        self._objects = objects
        self._rules = rules
        self._fresh = texts
        self._tree_rules: TreeRules | None = None
        self._rows: dict[bytes, dict[bytes, Row] | None] = {}
        self._listings = listings
        # The records of the last scan, whose details are among this one's.
        self._known = known
        self.snapshot = snapshot
        self.worth_keeping = worth_keeping

    def directory(self, path: bytes) -> Sequence[Entry] | None:
        """Return the captured entries of a directory, sorted by name; None if it was not captured."""
        if path in self._listings:
            return self._listings[path]
        listing = self._list(path)
        if listing is not None:
            if len(self._listings) >= _LISTINGS:
                self._listings.clear()
            self._listings[path] = listing
        return listing

    def _list(self, path: bytes) -> Sequence[Entry] | None:
        record = self.snapshot.records.get(path)
        if record is None or not self._captured(path, record):
            return None
        rows = self._rows_of(path)
        if rows is None:
            return self._objects.directory(TreeId(tree=record[TREE], modes=record[MODES]))
        records = self.snapshot.records
        return [
            entry_of(row, records.get(join(path, row[NAME]))) for row in rows.values() if row[STATE] <= RACY
        ]

    def left_out(self, path: bytes) -> Sequence[bytes]:
        """Return the names in a captured directory that were not captured: ignored, gaps, ``.git``."""
        if path not in self.snapshot.records:
            return ()
        rows = self._rows_of(path)
        if rows is not None:
            return [name for name, row in rows.items() if row[STATE] > RACY]
        captured = {entry.name for entry in self.directory(path) or ()}
        try:
            return sorted(set(names_in(self._root, path)) - captured)
        except OSError as error:
            state_of(error)
            return ()

    def ignored(self, path: bytes, *, directory: bool) -> bool | None:
        """Tell whether the present rules ignore a path, present or not; None if rules are unreadable."""
        if self._tree_rules is None:
            self._tree_rules = TreeRules(self._rules, self._texts)
        return self._tree_rules.ignored(path, directory=directory)

    def stamp(self, path: bytes) -> Stamp | None:
        """Return the evidence for a captured file or link."""
        above, _, name = path.rpartition(b"/")
        rows = self._rows_of(above) if above in self.snapshot.records else None
        row = None if rows is None else rows.get(name)
        if row is None or row[STATE] > RACY or row[MODE] & FORMAT_MASK == FORMAT_DIRECTORY:
            return None
        return Stamp(size=row[SIZE], mtime_ns=row[MTIME], ctime_ns=row[CTIME], inode=row[INODE])

    def remembered(self, path: bytes, tree: TreeId) -> Sequence[Entry] | None:
        """Return what a directory held when it had an identity; None unless the last scan says so."""
        known = self._known
        record = known.get(path)
        if record is None or record[TREE] != tree.tree or record[MODES] != tree.modes:
            return None
        rows = self.snapshot.details.rows(record)
        if rows is None:
            return None
        return [entry_of(row, known.get(join(path, row[NAME]))) for row in rows if row[STATE] <= RACY]

    def keep(self) -> None:
        """Write the scan cache; called only after what was scanned is durable and acknowledged."""
        if self.worth_keeping:
            cache.keep(self._folder, self.snapshot)
            self.worth_keeping = False

    @property
    def fresh_texts(self) -> Mapping[bytes, tuple[Text, Text]]:
        """The ignore files that this scan read, by directory."""
        return self._fresh

    @property
    def outer_rules(self) -> IgnoreState:
        """The ignore rules outside the workspace's files."""
        return self._rules

    @property
    def _root(self) -> bytes:
        assert self.snapshot.conditions is not None
        return self.snapshot.conditions.root

    def _captured(self, path: bytes, record: Record) -> bool:
        if not path or not record[FLAGS] & BARE:
            return True
        above, _, name = path.rpartition(b"/")
        rows = self._rows_of(above) if above in self.snapshot.records else None
        row = None if rows is None else rows.get(name)
        return row is not None and row[STATE] <= RACY

    def _rows_of(self, path: bytes) -> dict[bytes, Row] | None:
        if path not in self._rows:
            rows = self.snapshot.details.rows(self.snapshot.records[path])
            self._rows[path] = None if rows is None else {row[NAME]: row for row in rows}
        return self._rows[path]

    def _texts(self, path: bytes) -> tuple[Text, Text]:
        texts = Texts(
            self.snapshot.records,
            details=self.snapshot.details,
            objects=self._objects,
            fresh=self._fresh,
        )
        try:
            return texts.of(path)
        except DetailsLost:
            return UNREADABLE, UNREADABLE
