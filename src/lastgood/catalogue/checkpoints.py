"""The catalogue: every fact about checkpoints that queries need, and all that may change.

What lists and saves do not need is imported when it is called for: start-up time is part of both.
"""

from __future__ import annotations

import os
from itertools import islice

from lastgood.catalogue import LatestFacts, Query, rows
from lastgood.catalogue.database import (
    CURRENT,
    DEFAULT_WAIT,
    Database,
    broken_seal,
    create,
    ensure,
    is_broken,
    prepare,
    reseal,
)
from lastgood.catalogue.rows import AWAITS_ADOPTION, selection
from lastgood.catalogue.sqlite import REPAIR_HINT, sqlite3
from lastgood.errors import Conflict, Damaged, NotFound
from lastgood.ids import CHECKPOINT_PREFIX
from lastgood.model.checkpoint import CHECK, Checkpoint
from lastgood.model.session import read_from
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Self, TypeVar

    from lastgood.catalogue import Arrivals, CheckpointFacts, PlaceFault, WorkspaceRow
    from lastgood.catalogue.database import Answers, Question, Schema
    from lastgood.catalogue.work import WorkReader
    from lastgood.elapsed import TimeSeen
    from lastgood.host import Clock
    from lastgood.literals import Durability
    from lastgood.model.checkpoint import Check, Manifest, TreeRef
    from lastgood.model.long_list import PartReader
    from lastgood.model.operation import Instant, Operation
    from lastgood.model.session import Effect

    Parameters = tuple[object, ...] | dict[str, object]
    Result = TypeVar("Result")


# --- Rows that a prune takes away, and what counts against the limit ---

LOOSE = (
    "SELECT count(*) FROM checkpoint WHERE workspace_key = ? AND deleted_at IS NULL"
    " AND pinned = 0 AND name IS NULL AND kind <> 'feature'"
)
_MARK = (
    "UPDATE checkpoint SET deleted_at = ?"
    " WHERE id = ? AND deleted_at IS NULL AND name IS ? AND pinned = ? AND good IS ?"
    " AND NOT EXISTS (SELECT 1 FROM workspace WHERE key = workspace_key AND at = id)"
)
_DROP_OPERATION = f"DELETE FROM operation WHERE id = ? AND NOT {broken_seal('operation')}"  # noqa: S608 - names of columns
_DROP = f"DELETE FROM checkpoint WHERE id = ? AND deleted_at IS NOT NULL AND NOT {broken_seal('checkpoint')}"  # noqa: S608 - names of columns
_REDUCE = "UPDATE checkpoint SET (commit_id, tree, modes, gaps, manifest) = (?, ?, ?, ?, ?) WHERE id = ?"
# Pages that dropped rows leave free are used again; a file of which many are free is written anew: those who
# save wait meanwhile, so not if much of it stays. In bytes.
_LEAST_SPARE = 1 << 18
_MOST_KEPT = 1 << 26
_A_PART = 4
# So often an operation is written out again before others are kept waiting for that.
_MISTAKEN_MOST = 3
# What a row takes beside its long columns, in bytes.
_ROW = "length(manifest) + length(gaps) + 500"


def delete_unchanged(
    connection: sqlite3.Connection, checkpoints: Iterable[Checkpoint], *, at: Instant
) -> list[str]:
    """Mark checkpoints as deleted, but those that somebody named, pinned, judged or restored meanwhile."""
    from lastgood.catalogue.deletions import note

    marked = []
    for one in checkpoints:
        sound = not is_broken(connection, "checkpoint", one.id)
        changed = connection.execute(_MARK, (at.at, one.id, one.name, one.pinned, one.good))
        if not changed.rowcount:
            continue
        marked.append(one.id)
        if sound:
            reseal(connection, "checkpoint", one.id)
    if marked:
        note(connection, at)
    return marked


def drop(connection: sqlite3.Connection, checkpoints: Iterable[str]) -> list[str]:
    """Drop rows that are marked as deleted and were not altered from outside; remember their commits."""
    dropped, before = {}, {}
    for id in checkpoints:
        row = connection.execute("SELECT commit_id, previous FROM checkpoint WHERE id = ?", (id,)).fetchone()
        if connection.execute(_DROP, (id,)).rowcount:
            dropped[id], before[id] = str(row[0]), row[1]
    if dropped:
        from lastgood.catalogue.deletions import tidy

        rows.lead_past(connection, before)
        _remember_freed(connection, dropped.values())
        tidy(connection)
    return list(dropped)


def reduce(connection: sqlite3.Connection, checkpoints: Sequence[tuple[Manifest, str]]) -> None:
    """Put reduced copies in the place of checkpoints; remember the commits before as dropped."""
    known = [
        (*connection.execute("SELECT commit_id FROM checkpoint WHERE id = ?", (manifest.id,)).fetchone(),)
        for manifest, _ in checkpoints
    ]
    _remember_freed(connection, [str(commit) for (commit,) in known])
    for manifest, commit in checkpoints:
        connection.execute(_REDUCE, (*rows.reduction(manifest, commit=commit), manifest.id))
        reseal(connection, "checkpoint", manifest.id)


def _remember_freed(connection: sqlite3.Connection, commits: Iterable[str]) -> None:
    going = sorted({*freed(connection), *commits})
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('freed', ?)", (" ".join(going),))


def freed(connection: sqlite3.Connection) -> list[str]:
    """Return the commits of dropped rows until their bytes are said to be freed."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'freed'").fetchone()
    return [] if row is None else str(row[0]).split()


def spare_bytes(connection: sqlite3.Connection, *, without: Collection[str] = ()) -> int:
    """Return about what `shrink` would give back if the rows of some checkpoints were dropped, in bytes."""
    page, pages, free = (_number(connection, name) for name in ("page_size", "page_count", "freelist_count"))
    spare = free * page
    for id in without:
        row = connection.execute(f"SELECT {_ROW} FROM checkpoint WHERE id = ?", (id,)).fetchone()  # noqa: S608 - names of columns
        spare += 0 if row is None else row[0]
    size = pages * page
    worthwhile = spare >= max(_LEAST_SPARE, size // _A_PART) and size - spare <= _MOST_KEPT
    return min(spare, size) if worthwhile else 0


def shrink(connection: sqlite3.Connection) -> int:
    """Write the file anew without its free pages, where these are many; return the bytes given back."""
    if not spare_bytes(connection):
        return 0
    before = _number(connection, "page_count")
    connection.execute("VACUUM")
    return (before - _number(connection, "page_count")) * _number(connection, "page_size")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


# --- The catalogue: every fact about checkpoints that queries need, and all that may change ---

_INSERT = f"INSERT INTO checkpoint ({rows.BIRTH}) VALUES ({rows.BIRTH_MARKS})"  # noqa: S608 - names of columns
_SELECT = f"SELECT {rows.CHECKPOINT} FROM checkpoint"  # noqa: S608 - names of columns
_WORKSPACES = f"SELECT {rows.WORKSPACE} FROM workspace"  # noqa: S608 - as above
_OPERATIONS = f"SELECT {rows.OPERATION} FROM operation WHERE NOT {broken_seal('operation')}"  # noqa: S608 - as above
_KEYS = "SELECT key FROM workspace"
# Those after one and beyond the newest so many of a workspace, the oldest first.
_BEYOND = (
    f"SELECT number, {rows.OPERATION} FROM operation WHERE NOT {broken_seal('operation')}"  # noqa: S608 - as above
    " AND workspace_key = :key AND number > :after AND number <="
    " (SELECT number FROM operation WHERE workspace_key = :key ORDER BY number DESC LIMIT 1 OFFSET :keep)"
    " ORDER BY number LIMIT :most"
)
# So many are read at a time; they were done one after another, so where none of them is old, none behind is.
_OPERATIONS_READ = 100
_ALTERED = f"SELECT commit_id FROM checkpoint WHERE {broken_seal('checkpoint')} ORDER BY sequence"  # noqa: S608 - as above
_SOUND = f"SELECT commit_id FROM checkpoint NOT INDEXED WHERE NOT {broken_seal('checkpoint')}"  # noqa: S608 - as above
# By `+` SQLite is kept from the index of all that are there: that of the damaged is nearly empty.
_DAMAGED = (
    "SELECT count(*) FROM (SELECT id FROM checkpoint"  # noqa: S608 - as above
    " WHERE workspace_key = :key AND +deleted_at IS NULL AND damaged IS NOT NULL"
    f" UNION SELECT id FROM (SELECT id, {broken_seal('checkpoint')} AS altered FROM checkpoint"
    " WHERE workspace_key = :key AND deleted_at IS NULL ORDER BY sequence DESC LIMIT :newest) WHERE altered)"
)
# Of so many the seals are proven where all would take too long.
_NEWEST = 20
# Twice by an index, which takes a third of the time that grouping by kinds does.
_COUNTS = (
    "SELECT (SELECT count(*) FROM checkpoint WHERE workspace_key = :key AND deleted_at IS NULL),"
    " (SELECT count(*) FROM checkpoint WHERE workspace_key = :key AND deleted_at IS NULL AND kind = 'guard')"
)
_HAS_WORKSPACE = "SELECT 1 FROM workspace WHERE key = ?"
_KNOWN = "SELECT 1 FROM checkpoint WHERE id = ?"
_LATEST_NUMBERS = (
    "SELECT (SELECT max(sequence) FROM checkpoint WHERE workspace_key = :key),"
    " (SELECT max(number) FROM session WHERE workspace_key = :key)"
)
_GENERATION = "SELECT value FROM meta WHERE name = 'generation'"
_NEXT_SEQUENCE = "SELECT seq + 1 FROM sqlite_sequence WHERE name = 'checkpoint'"
# Of these questions what they came to is the same after a checkpoint was added.
_UNTOUCHED = frozenset({_GENERATION, "get", "session", "sessions", "progress", "running", "turns"})
# Of these after an operation was recorded.
_BESIDE_OPERATIONS = _UNTOUCHED | {_NEXT_SEQUENCE}
_UNKNOWN = "the store knows no such checkpoint"
_OPERATION = "INSERT INTO operation (id, workspace_key, type, at, undone, payload) VALUES (?, ?, ?, ?, ?, ?)"


class CatalogueReader:
    """Facts in SQLite (WAL), as of the moment of each call; deleted checkpoints only if asked for.

    Threads may share it, and it lives on in a forked child.
    """

    def __init__(self, database: Database, *, objects: Callable[[], PartReader] | None = None) -> None:
        self._database = database
        self._objects = objects
        # The checkpoint that was asked for by its id last, and the row that it was made of.
        self._last: tuple[rows.Row, Checkpoint] | None = None
        self._work: WorkReader | None = None

    @classmethod
    def open(
        cls,
        path: str,
        *,
        clock: Clock,
        durability: Durability = "full",
        wait: float = DEFAULT_WAIT,
        create: bool = True,
        schema: Schema = CURRENT,
        objects: Callable[[], PartReader] | None = None,
    ) -> Self:
        """Open the catalogue, making it first where ``create`` allows, and bringing an older one up.

        ``wait`` is how many seconds another writer is waited for; by ``objects`` what a checkpoint has in
        parts is read when somebody asks for it. Raises `Damaged` (also when the
        file is gone but its backup is there), `Unsupported`, `Busy`, `Storage`.
        """
        path = os.path.abspath(path)
        ensure(path, schema, generation=clock.random().hex(), allowed=create)
        return cls(Database(path, schema=schema, durability=durability, wait=wait), objects=objects)

    @classmethod
    def of_nothing(cls, path: str) -> Self:
        """Return the catalogue of a store that is not there: empty, in memory, gone with its closing."""
        return cls(MemoryDatabase(path, schema=CURRENT, durability="fast", wait=0))

    @property
    def work(self) -> WorkReader:
        """The facts about the work, in the same file."""
        if self._work is None:
            from lastgood.catalogue.work import WorkReader

            self._work = WorkReader(self._database)
        return self._work

    def keep_as(self, durability: Durability) -> None:
        """Have changes be as durable as that from now on."""
        self._database.keep_as(durability)

    @property
    def path(self) -> str:
        """Where the catalogue lies."""
        return self._database.path

    def remember(self) -> None:
        """Keep from now on what questions came to, as long as nobody changes anything."""
        self._database.remember()

    def ask_again(self, workspace_key: str) -> None:
        """Ask anew, while nobody waits, what a save of a workspace will probably ask."""
        self._database.ask_again()
        latest = self.latest_facts(workspace_key)
        if latest is not None and latest.at is not None:
            self.get(latest.at.id)

    def generation(self) -> str:
        """Return the engine generation: it changes whenever objects may have been freed."""
        found = self._known(_GENERATION)
        if found is None:
            raise Damaged("the catalogue has lost its generation", hint=REPAIR_HINT)
        return str(found[0])

    def workspaces(self) -> Sequence[WorkspaceRow]:
        """Return every workspace, by path."""
        return [rows.workspace(row) for row in self._all(_WORKSPACES + " ORDER BY path")]

    def workspace(self, key: str) -> WorkspaceRow | None:
        """Return one workspace."""
        row = self._known(_WORKSPACES + " WHERE key = ?", (key,))
        return None if row is None else rows.workspace(row)

    def latest_facts(self, workspace_key: str) -> LatestFacts | None:
        """Return what a save has to know of the checkpoints before it; None before the first."""
        return self._database.known(
            ("latest", workspace_key),
            lambda: self._database.read(lambda connection: rows.latest(connection, workspace_key)),
        )

    def moment(
        self,
        ask: Callable[[], Result],
        *,
        key: tuple[object, ...] = (),
        lasts: Callable[[Result], bool] | None = None,
    ) -> Result:
        """Ask several questions at once, of one moment where nothing is known yet.

        With a ``key``, which says what is asked, that is remembered, unless it does not last: if more than
        the catalogue decides what it comes to.
        """
        return self._database.moment(ask, key=key, lasts=lasts)

    def history(
        self, workspace_key: str, *, start: str | None = None, limit: int | None = None
    ) -> Sequence[CheckpointFacts]:
        """Return the complete checkpoints, no guards, from where a workspace stands back along its history.

        From the checkpoint ``start`` if one is given, itself included if it is one of these.
        """

        def walk(connection: sqlite3.Connection) -> tuple[CheckpointFacts, ...]:
            return tuple(islice(rows.history(connection, workspace_key, start=start), limit))

        if start is not None or limit != 1:
            return self._database.read(walk)
        return self._database.known(("at", workspace_key), lambda: self._database.read(walk))

    def latest_numbers(self, workspace_key: str) -> rows.Row:
        """Return what is another once a checkpoint of a workspace came, or a session of it began."""
        return self._all(_LATEST_NUMBERS, {"key": workspace_key})[0]

    def stands_at(self, workspace_key: str) -> str | None:
        """Return the checkpoint at which a workspace stands, the first of its history; None before any."""
        return next((one.id for one in self.history(workspace_key, limit=1)), None)

    def stood(self, workspace_key: str) -> str | None:
        """Return where a workspace stands, as an operation says where it stood: see `rows.stood`."""
        return self._database.read(lambda connection: rows.stood(connection, workspace_key))

    def place_fault(self, workspace_key: str) -> PlaceFault | None:
        """Return why a workspace counts as standing at its newest checkpoint: not known, or deleted."""
        return self._database.read(lambda connection: rows.place_fault(connection, workspace_key))

    def find(self, query: Query) -> Sequence[Checkpoint]:
        """Return checkpoints, newest first by sequence."""
        statement, wanted = selection(query)
        own = rows.MESSAGE_FUNCTIONS if query.message is not None or query.name is not None else {}
        return self._checkpoints(self._all(statement, wanted, functions=own), brief=query.brief)

    def has(self, checkpoint: str) -> bool:
        """Tell whether there is a checkpoint with exactly this id, deleted or not."""
        return self._one(_KNOWN, (checkpoint,)) is not None

    def get(self, checkpoint: str) -> Checkpoint | None:
        """Return the checkpoint with exactly this id, deleted or not."""
        return self._database.known(("get", checkpoint), lambda: self._got(checkpoint), again=False)

    def _got(self, checkpoint: str) -> Checkpoint | None:
        row = self._one(f"{_SELECT} WHERE id = ?", (checkpoint,))
        if row is None:
            return None
        found = self._checkpoints([row])[0]
        if found.damaged is None:
            self._last = row, found
        return found

    def with_prefix(self, digits: str) -> Sequence[Checkpoint]:
        """Return the checkpoints whose id begins with these hex digits, newest first, all workspaces."""
        least = CHECKPOINT_PREFIX + digits
        found = self._all(
            f"{_SELECT} WHERE id >= ? AND id < ? AND deleted_at IS NULL ORDER BY sequence DESC",
            (least, least + "g"),
        )
        return self._checkpoints(found)

    def count(self, workspace_key: str | None = None, *, guards: bool = True) -> int:
        """Return how many checkpoints exist, guards among them or not."""
        mine = "" if workspace_key is None else " AND workspace_key = :key"
        some = "" if guards else " AND kind <> 'guard'"
        row = self._one(
            f"SELECT count(*) FROM checkpoint WHERE deleted_at IS NULL{mine}{some}",  # noqa: S608 - as above
            {"key": workspace_key},
        )
        return 0 if row is None else int(str(row[0]))

    def count_with_guards(self, workspace_key: str) -> tuple[int, int]:
        """Return how many checkpoints of a workspace exist, and how many of them are guards."""
        number, guards = self._all(_COUNTS, {"key": workspace_key})[0]
        return int(str(number)), int(str(guards))

    def count_loose(self, workspace_key: str) -> int:
        """Return how many checkpoints of a workspace are neither named nor pinned nor a feature."""
        row = self._one(LOOSE, (workspace_key,))
        return 0 if row is None else int(str(row[0]))

    def count_damaged(self, workspace_key: str) -> int:
        """Return how many checkpoints of a workspace are damaged, as far as that is known without a search.

        Those that are marked, and of the newest ones those that were altered from outside.
        """
        row = self._one(_DAMAGED, {"key": workspace_key, "newest": _NEWEST})
        found = 0 if row is None else int(str(row[0]))
        if found:
            self._database.refuse_newer()  # whose rows only look damaged
        return found

    def commits(self, *, deleted_after: int | None = None) -> Sequence[str]:
        """Return the commits that rows refer to; of deleted rows only those deleted after a time.

        Without a time, of all rows. Raises `Damaged` if a row was altered from outside, or some may
        be missing after a rescue: the commit that is meant might be left out, and its bytes freed.
        """
        if self._one(AWAITS_ADOPTION) is not None:
            raise Damaged("the repair of the catalogue was not finished", hint=REPAIR_HINT)
        if self.altered():
            raise Damaged("the catalogue has rows that were altered from outside", hint=REPAIR_HINT)
        found = self._all(
            "SELECT commit_id FROM checkpoint"
            " WHERE deleted_at IS NULL OR :after IS NULL OR deleted_at > :after ORDER BY sequence",
            {"after": deleted_after},
        )
        return [str(row[0]) for row in found]

    def freed(self) -> Sequence[str]:
        """Return the commits whose rows were dropped and whose bytes may not be freed yet."""
        return self._database.read(freed)

    def operation(self, id: str) -> Operation | None:
        """Return one operation, unless it was altered from outside."""
        row = self._one(_OPERATIONS + " AND id = ?", (id,))
        return None if row is None else rows.operation(row)

    def operations(
        self, workspace_key: str, *, limit: int | None = None, offset: int = 0
    ) -> Sequence[Operation]:
        """Return operations of a workspace, newest first, without those altered from outside."""
        statement = _OPERATIONS + " AND workspace_key = ? ORDER BY number DESC LIMIT ? OFFSET ?"
        wanted = (workspace_key, -1 if limit is None else limit, offset)
        return [rows.operation(row) for row in self._all(statement, wanted)]

    def next_sequence(self) -> int:
        """Return the number that the next checkpoint will probably get."""
        row = self._known(_NEXT_SEQUENCE)
        return 1 if row is None else int(str(row[0]))

    def accounted(self) -> Sequence[str]:
        """Return the commits of rows that nobody altered, and of those dropped whose bytes are not freed."""
        return [*(str(row[0]) for row in self._all(_SOUND)), *self.freed()]

    def faults(self) -> Sequence[str]:
        """Return what `fault` does, and what is wrong with the copies beside the catalogue."""
        from lastgood.catalogue.backup import OLDER

        fault = self.fault()
        found = [] if fault is None else [fault]
        if fault is None and self.is_older():
            found.append(f"it {OLDER}")
        return found + [f"its backup {os.path.basename(one)} is damaged" for one in self._unsound_copies()]

    def is_older(self) -> bool:
        """Tell whether a backup is ahead of the catalogue: an older copy of it was put back."""
        from lastgood.catalogue.backup import is_older

        return self._database.read(lambda connection: is_older(connection, self.path))

    def fault(self) -> str | None:
        """Return what SQLite's own integrity check says, or what rows are lost; None if all is well."""
        from lastgood.catalogue.backup import integrity_fault, loss

        try:
            return self._database.read(lambda known: integrity_fault(known) or loss(known))
        except Damaged as error:
            return error.message

    def altered(self) -> Sequence[str]:
        """Return the commits of the rows that were altered from outside (`Catalogue.adopt` mends them)."""
        return [str(row[0]) for row in self._all(_ALTERED)]

    def deletions(self) -> Sequence[tuple[str, Instant]]:
        """Return the deleted checkpoints whose rows are sound, with when they were deleted."""
        from lastgood.catalogue.deletions import deletions

        return self._database.read(deletions)

    def time_seen(self) -> TimeSeen | None:
        """Return what maintenance saw of the time, None where that is not known."""
        from lastgood.catalogue.deletions import time_seen

        return self._database.read(time_seen)

    def swept(self) -> int | None:
        """Return when nothing was left to be freed, None where that is not known."""
        row = self._one("SELECT value FROM meta WHERE name = 'swept'")
        return row[0] if row is not None and isinstance(row[0], int) else None

    def spare_bytes(self, *, without: Collection[str] = ()) -> int:
        """Return about how many bytes `shrink` would give back if some checkpoints' rows were dropped."""
        return self._database.read(lambda known: spare_bytes(known, without=without))

    def _checkpoints(self, found: Sequence[rows.Row], *, brief: bool = False) -> list[Checkpoint]:
        last = self._last if not brief else None  # other threads may be at it
        read = [
            last[1]
            if last is not None and last[0] == row
            else self._readable(rows.checkpoint(row, brief=brief))
            for row in found
        ]
        if any(one.damaged is not None for one in read):
            self._database.refuse_newer()  # whose rows only look damaged
        return read

    def _readable(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return a checkpoint that knows where its progress is stored."""
        if self._objects is not None:
            read_from(checkpoint.manifest.progress, self._objects)
        return checkpoint

    def _one(self, statement: str, parameters: Parameters = ()) -> rows.Row | None:
        found = self._all(statement, parameters)
        return found[0] if found else None

    def _known(self, statement: str, parameters: Parameters = ()) -> rows.Row | None:
        return self._database.known((statement, *parameters), lambda: self._one(statement, parameters))

    def _all(
        self,
        statement: str,
        parameters: Parameters = (),
        *,
        functions: Mapping[str, Callable[..., bool | str | None]] = {},
    ) -> list[rows.Row]:
        def answer(connection: sqlite3.Connection) -> list[rows.Row]:
            for name, function in functions.items():
                connection.create_function(name, -1, function)
            return connection.execute(statement, parameters).fetchall()

        try:
            return self._database.read(answer)
        except UnicodeEncodeError:
            return []  # what is not Unicode is nobody's id, key or name

    def _unsound_copies(self) -> Sequence[str]:
        from lastgood.catalogue.backup import unsound_backups

        return self._database.read(lambda _connection: unsound_backups(self.path))

    def version(self) -> tuple[int, int]:
        """Return what is another once somebody else has changed anything, or the file was opened anew."""
        return self._database.read(
            lambda connection: (id(connection), int(connection.execute("PRAGMA data_version").fetchone()[0]))
        )


def _after(key: str, newest: CheckpointFacts, answers: Answers) -> Answers:
    """Return what questions come to once a checkpoint was added, of those whose answers were known before.

    What is not said here is asked for again.
    """
    left = {question: found for question, found in answers.items() if question[0] in _UNTOUCHED}
    left.pop(("get", newest.id), None)
    left[_NEXT_SEQUENCE,] = (newest.sequence + 1,)
    before = cast("LatestFacts | None", answers.get(("latest", key)))
    if rows.is_whole(newest):
        left |= _standing(key, newest=newest, at=newest)
    elif before is not None:
        left["latest", key] = before.replace(newest=newest)
    return left


def _after_operation(key: str, stands: str | None, answers: Answers) -> Answers:
    """Return what questions come to once an operation was recorded, as `_after` does.

    ``stands`` is where the workspace stands since then; None where it did not move.
    """
    left = {question: found for question, found in answers.items() if question[0] in _BESIDE_OPERATIONS}
    places = {question: answers[question] for question in _places(key) if question in answers}
    if stands is None:
        return left | places
    before = cast("LatestFacts | None", places.get(("latest", key)))
    at = None if before is None else before.at
    # Most often it stands where it stood: of another place nothing is known.
    if before is not None and at is not None and at.id == stands:
        left |= _standing(key, newest=before.newest, at=at)
    return left


def _places(key: str) -> tuple[Question, ...]:
    """Return the questions to which the answers tell where a workspace stands."""
    return ("latest", key), ("at", key)


def _standing(key: str, *, newest: CheckpointFacts, at: CheckpointFacts) -> dict[Question, object]:
    """Return the answers where a workspace stands at a complete checkpoint that its row names."""
    return dict(zip(_places(key), (LatestFacts(newest=newest, at=at), (at,)), strict=True))


def _inserted(
    connection: sqlite3.Connection, statement: str, columns: rows.Row, *, workspace: WorkspaceRow | None
) -> int:
    """Insert a row, and return its number; where its ``workspace`` is not there, that first."""
    try:
        return connection.execute(statement, columns).lastrowid or 0
    except sqlite3.IntegrityError:  # most often it is there, and to ask takes as long as to insert
        if workspace is None:
            raise
        rows.add_workspace(connection, workspace)
        return connection.execute(statement, columns).lastrowid or 0


def _put_step(connection: sqlite3.Connection, step: Effect, *, after: int) -> None:
    from lastgood.catalogue.work import SessionTransaction  # lazily: few checkpoints begin or end a step

    begins = step.state == "running"
    SessionTransaction(connection).put_effect(step.replace(after=after) if begins else step)


def _refuse_overtaken(connection: sqlite3.Connection, key: str, *, since: rows.Row) -> None:
    if connection.execute(_LATEST_NUMBERS, {"key": key}).fetchone() != since:
        raise Conflict(
            "another checkpoint was made meanwhile, or a session began",
            hint="try again",
            details={"overtaken": True},
        )


class _StoodElsewhere(Exception):
    """A workspace does not stand where an operation says that it stood; nothing was written."""

    def __init__(self, stood: str | None) -> None:
        super().__init__(stood)
        self.stood = stood


class CatalogueWriter(CatalogueReader):
    """Facts that saves, restores and marks change, each durably and in one step of its own."""

    def add_workspace(self, row: WorkspaceRow) -> None:
        """Add a workspace, or leave the one that is there, which waits for nobody."""
        if self._one(_HAS_WORKSPACE, (row.key,)) is not None:
            return
        self._database.write(lambda connection: rows.add_workspace(connection, row))

    def attach(self, key: str, *, path: str, machine: str | None = None) -> None:
        """Give a workspace another path, and another machine if one is given; plans in it move along."""
        from lastgood.catalogue.import_ import move

        self._database.write(lambda connection: move(connection, key, path=path, machine=machine))

    def take_in(self, arrivals: Arrivals) -> Arrivals:
        """Add what comes from another store, all of it or nothing, and return what was not here yet."""
        from lastgood.catalogue.import_ import take_in

        return self._database.write(lambda connection: take_in(connection, arrivals))

    def demand_room(self, *, beside: int) -> None:
        """Refuse with `NoRoom` where the disk would not take a change any more after so many bytes."""
        self._database.demand_room(beside=beside)

    def add(
        self,
        manifest: Manifest,
        *,
        commit: str,
        name: str | None,
        pinned: bool,
        text: bytes | None = None,
        step: Effect | None = None,
        workspace: WorkspaceRow | None = None,
        since: rows.Row | None = None,
    ) -> Checkpoint:
        """Add a checkpoint: from now on it exists. Several may bear one name; the newest counts.

        Its ``workspace`` is added with it unless that is there.

        The workspace stands at it if it is complete and no guard. ``text`` is its manifest, if that was
        written already. A ``step`` is recorded with it; one that is under way then began after it. `Conflict`
        where another came, or a session began, ``since`` `latest_numbers` returned that.
        """
        columns = rows.birth(manifest, commit=commit, name=name, pinned=pinned, recovered=False, text=text)

        def insert(connection: sqlite3.Connection) -> int:
            if since is not None:
                _refuse_overtaken(connection, manifest.workspace_key, since=since)
            sequence = _inserted(connection, _INSERT, columns, workspace=workspace)
            reseal(connection, "checkpoint", manifest.id)
            if not manifest.partial and manifest.kind != "guard":
                rows.move(connection, manifest.workspace_key, to=manifest.id)
            if step is not None:
                _put_step(connection, step, after=sequence)
            return sequence

        def leaves(sequence: int, answers: Answers) -> Answers:
            return _after(manifest.workspace_key, rows.facts_of(columns, sequence=sequence), answers)

        sequence = self._database.write(insert, leaves=leaves if step is None else None)
        return Checkpoint(manifest=manifest, commit=commit, sequence=sequence, name=name, pinned=pinned)

    def set_name(self, checkpoint: str, name: str | None) -> None:
        """Name a checkpoint."""
        self._set("name", [(rows.stored_name(name), checkpoint)])

    def set_pinned(self, checkpoint: str, *, pinned: bool) -> None:
        """Pin or unpin a checkpoint."""
        self._set("pinned", [(pinned, checkpoint)])

    def set_verdict(self, checkpoint: str, *, good: bool | None, check: Check) -> None:
        """Record what came of a check command; the last verdict counts. `NotFound` without the checkpoint."""
        self._change(
            "checkpoint",
            "UPDATE checkpoint SET (good, verdict) = (?, ?) WHERE id = ?",
            [(good, CHECK.encode(check), checkpoint)],
            missing=_UNKNOWN,
        )

    def delete(self, checkpoints: Iterable[str], *, at: Instant) -> None:
        """Mark checkpoints as deleted; their bytes stay until a sweep after the grace time."""
        from lastgood.catalogue.deletions import note

        self._change(
            "checkpoint",
            "UPDATE checkpoint SET deleted_at = coalesce(deleted_at, ?) WHERE id = ?",
            [(at.at, id) for id in checkpoints],
            missing=_UNKNOWN,
            beside=lambda connection: note(connection, at),
        )

    def delete_unchanged(self, checkpoints: Iterable[Checkpoint], *, at: Instant) -> Sequence[str]:
        """Mark those as deleted whose name and pin are what they were when they were read; say which.

        Where a workspace stands by now is left.
        """
        return self._database.write(lambda connection: delete_unchanged(connection, checkpoints, at=at))

    def undelete(self, checkpoints: Iterable[str]) -> None:
        """Take deletions back."""
        self._set("deleted_at", [(None, id) for id in checkpoints])

    def add_operation(self, operation: Operation, *, workspace: WorkspaceRow | None = None) -> Operation:
        """Record an operation, and return it; from now on the workspace stands where it says, if it says so.

        Such a one says where the workspace stood, too: what it said of that before is a guess. Its
        ``workspace`` is added with it unless that is there.
        """
        for _ in range(_MISTAKEN_MOST):
            try:
                return self._recorded(operation, workspace=workspace, at_once=False)
            except _StoodElsewhere as error:
                operation = operation.replace(stood=error.stood)
        return self._recorded(operation, workspace=workspace, at_once=True)

    def _recorded(self, operation: Operation, *, workspace: WorkspaceRow | None, at_once: bool) -> Operation:
        """Record an operation; if the workspace stood elsewhere `_StoodElsewhere`, or mend it ``at_once``."""
        key, stands = operation.workspace_key, operation.stands
        guessed = rows.operation_columns(operation)  # nobody waits for that

        def insert(connection: sqlite3.Connection) -> Operation:
            made, columns = operation, guessed
            stood = None if stands is None else rows.stood(connection, key)
            if made.stood != stood:
                if not at_once:
                    raise _StoodElsewhere(stood)
                made = made.replace(stood=stood)
                columns = rows.operation_columns(made)
            _inserted(connection, _OPERATION, columns, workspace=workspace)
            reseal(connection, "operation", made.id)
            if stands is not None:
                rows.move(connection, key, to=stands)
            return made

        return self._database.write(
            insert, leaves=lambda _made, answers: _after_operation(key, stands, answers)
        )

    def set_undone(self, operation: str, *, undone: bool) -> None:
        """Mark an operation as undone, or as standing again."""
        self._change(
            "operation",
            "UPDATE operation SET undone = ? WHERE id = ?",
            [(undone, operation)],
            missing="the store knows no such operation",
            leaves=lambda _done, answers: answers,  # nothing that is remembered is about operations
        )

    def set_generation(self, generation: str) -> None:
        """Declare that objects may have been freed."""
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE meta SET value = ? WHERE name = 'generation'", (generation,)
            )
        )

    def empty_log(self) -> None:
        """Carry what stands in the log into the file, and give its room back; not if others are at it."""
        self._database.empty_log()

    def _set(self, column: str, changes: Sequence[tuple[object, ...]]) -> None:
        statement = f"UPDATE checkpoint SET {column} = ? WHERE id = ?"  # noqa: S608 - columns named above
        if changes:
            self._change("checkpoint", statement, changes, missing=_UNKNOWN)

    def _change(
        self,
        table: str,
        statement: str,
        changes: Sequence[tuple[object, ...]],
        *,
        missing: str,
        leaves: Callable[[None, Answers], Answers] | None = None,
        beside: Callable[[sqlite3.Connection], object] | None = None,
    ) -> None:
        """Carry out a statement for each change; a change ends with the key of its row.

        What is done ``beside`` them comes with them or not at all.
        """

        def change(connection: sqlite3.Connection) -> None:
            if beside is not None:
                beside(connection)
            for parameters in changes:
                key = str(parameters[-1])
                sound = not is_broken(connection, table, key)
                if connection.execute(statement, parameters).rowcount == 0:
                    raise NotFound(missing, details={"id": key})
                if sound:
                    reseal(connection, table, key)

        self._database.write(change, leaves=leaves)


class CatalogueMaintainer(CatalogueWriter):
    """Facts that maintenance changes beside others."""

    def adopt(self, manifest: Manifest, *, commit: str) -> Checkpoint | None:
        """Add a checkpoint found in the engine, marked as recovered, with the name it was born with.

        None if a sound row of it is there. It gets the number that its manifest expected, or the
        next free one: called in the order of those numbers, a rebuild keeps the order of the saves.
        A row that was altered from outside is written anew, and keeps its mutable facts.
        """
        from lastgood.catalogue.rebuild import adopt

        found = self._database.write(lambda connection: adopt(connection, manifest, commit=commit))
        return None if found is None else self._readable(found)

    def find_place(self, workspace_key: str, *, root: TreeRef) -> Checkpoint | None:
        """Have a workspace whose place was lost stand at the newest checkpoint with its files, if any has."""
        query = Query(workspace_key=workspace_key, root=root, complete=True, guards=False, limit=1)
        found = next(iter(self.find(query)), None)

        def move(connection: sqlite3.Connection) -> bool:
            lost = rows.place_fault(connection, workspace_key) == "lost"
            if lost and found is not None:
                rows.move(connection, workspace_key, to=found.id)
            return lost

        return found if found is not None and self._database.write(move) else None

    def reduce(self, checkpoints: Sequence[tuple[Manifest, str]]) -> None:
        """Have rows name reduced copies of checkpoints, all at once; the commits before may be freed.

        Durable on return, whatever the settings say: what follows cannot be taken back.
        """
        self._database.write(lambda connection: reduce(connection, checkpoints), durable=True)

    def set_damaged(self, faults: dict[str, str | None]) -> None:
        """Mark checkpoints as damaged, with the reason, or as sound again.

        One that cannot be found by its id (a damaged index) cannot be marked; `fault` tells of it.
        """
        marks = [(rows.stored_reason(reason), id) for id, reason in faults.items()]
        self._set("damaged", [mark for mark in marks if self._one(_KNOWN, (mark[1],)) is not None])

    def set_swept(self, at: int) -> None:
        """Remember that at a time (in nanoseconds) nothing was left to be freed."""
        statement = "INSERT OR REPLACE INTO meta VALUES ('swept', ?)"
        self._database.write(lambda connection: connection.execute(statement, (at,)))

    def set_time_seen(self, seen: TimeSeen) -> None:
        """Remember what was seen of the time."""
        from lastgood.catalogue.deletions import set_time_seen

        self._database.write(lambda connection: set_time_seen(connection, seen))

    def forget_operations(self, *, is_old: Callable[[Operation], bool], keep: int) -> int:
        """Drop operations that are old, but the newest ``keep`` of each workspace; say how many.

        Of those that stay only the oldest are read.
        """
        old = [
            (id,) for (key,) in self._all(_KEYS) for id in self._old_operations(key, is_old=is_old, keep=keep)
        ]
        if not old:
            return 0  # and nothing new to back up
        return self._database.write(lambda connection: connection.executemany(_DROP_OPERATION, old).rowcount)

    def _old_operations(
        self, workspace: object, *, is_old: Callable[[Operation], bool], keep: int
    ) -> Iterator[str]:
        asked = {"key": workspace, "after": 0, "keep": keep, "most": _OPERATIONS_READ}
        while found := self._all(_BEYOND, asked):
            old = [one.id for row in found if is_old(one := rows.operation(row[1:]))]
            if not old:  # but for a clock that was ahead: what that holds up is kept for longer
                return
            yield from old
            asked["after"] = found[-1][0]

    def mend(self) -> Sequence[str]:
        """Mend what was altered from outside (operations, the work, workspaces), and say what was done.

        Operations and facts about the work that no backup has are dropped.
        """
        from lastgood.catalogue.rebuild import altered_work, backed_up_work, is_whole, mend, parts_in_backup

        if self._database.read(is_whole):
            return []
        backed_up, parts = self._database.read(
            lambda connection: (
                backed_up_work(self.path, altered_work(connection)),
                parts_in_backup(self.path),
            )
        )
        return self._database.write(
            lambda connection: mend(connection, backed_up=backed_up, parts=parts, objects=self._objects)
        )

    def mend_copies(self) -> Sequence[str]:
        """Set copies aside that are not sound, write one anew, and say so; nothing if all are."""
        from lastgood.catalogue.backup import back_up, set_aside

        wrong = self._unsound_copies()
        if not wrong or self.fault() is not None or self.is_older():
            return []
        aside = self._database.read(lambda _connection: [set_aside(one) for one in wrong])
        self._database.read(lambda connection: back_up(connection, self.path))
        return [f"the damaged copy {one} was set aside" for one in aside]

    def back_up(self, *, alone: bool = False) -> bool:
        """Write a sound copy beside the catalogue; False when nothing changed since the last one.

        ``alone``: no copy from before stays. `Damaged`, and no copy, if the catalogue itself is not sound.
        """
        from lastgood.catalogue.backup import back_up

        return self._database.read(lambda connection: back_up(connection, self.path, alone=alone))

    def shrink(self) -> int:
        """Give back the room that dropped rows left, where that is worthwhile; return the bytes."""
        return self._database.read(shrink)


class SqliteCatalogue(CatalogueMaintainer):
    """All facts: rows are dropped by who holds the store alone."""

    def forget(self, is_due: Callable[[Instant], bool]) -> Sequence[str]:
        """Drop the rows of checkpoints whose deletion is so old that they are due, and return their ids."""
        from lastgood.catalogue.deletions import deletions

        def forget(connection: sqlite3.Connection) -> list[str]:
            return drop(connection, [id for id, deleted in deletions(connection) if is_due(deleted)])

        return self._database.write(forget)

    def drop(self, checkpoints: Iterable[str]) -> Sequence[str]:
        """Drop the rows of those that are marked as deleted, and return their ids: no undo from now on."""
        return self._database.write(lambda connection: drop(connection, checkpoints))

    def clear_freed(self) -> None:
        """Declare that the bytes of all dropped rows are freed."""
        self._database.write(lambda known: known.execute("DELETE FROM meta WHERE name = 'freed'"))

    def close(self) -> None:
        """Close the database."""
        self._database.close()


# --- A database in memory: the catalogue of a store that is not there ---


class MemoryDatabase(Database):
    """An empty database that ends with its connection; its path is only what errors call it."""

    def _no_room(self, *, beside: int = 0) -> None:
        """Nothing is on any disk."""

    def _is_replaced(self) -> bool:
        return False

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        prepare(connection)
        create(connection, self._schema, generation="none")
        return connection
