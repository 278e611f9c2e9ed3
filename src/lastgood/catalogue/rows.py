"""Rows to values and back.

The manifest itself, as JSON, lies in the checkpoint's commit; the row has a copy so that lists need not
look there. As text it was two thirds of the catalogue (measured: 1.5 KB a checkpoint, and 0.6 KB so).
"""

from __future__ import annotations

import zlib

from lastgood.catalogue import CheckpointFacts, LatestFacts, WorkspaceRow
from lastgood.catalogue.database import broken_seal, changed_and_sealed, is_broken, reseal
from lastgood.catalogue.sqlite import REPAIR_HINT
from lastgood.errors import Damaged, Invalid, Unsupported
from lastgood.model.canonical import dumps
from lastgood.model.checkpoint import (
    CHECK,
    ID_NOTE,
    Actor,
    Checkpoint,
    IgnoreState,
    Manifest,
    Metrics,
    TreeRef,
    decode,
    encode,
    encode_gaps,
)
from lastgood.model.tree import Counts
from lastgood.paths import to_bytes, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping

    from lastgood.catalogue import PlaceFault, Query
    from lastgood.model.operation import Operation

    Row = tuple[object, ...]


# --- A manifest as its row keeps it: compressed against a text that knows what most manifests say ---

# Rows name the text that they were compressed against by their first byte. It can never be changed: a
# better one gets the next number.
_FORM = b"\x01"
_KNOWN = (
    b'"conversation":{"bytes":,"form":"claude-code","messages":,"source":"/.claude/projects/","tree":""},'
    b'"state":{"index":""},"progress":{"features":[{"id":"","passes":true,"title":""}],"position":{"step":1},'
    b'"tasks":[{"attempts":1,"id":"T01","status":"pending","title":""},{"status":"running"},{"status":"done"},'
    b'{"status":"failed"}]},"actor":{"call":null,"name":"claude-code","type":"agent"},"actor":{"call":null,'
    b'"name":null,"type":"tool"},"gaps":[{"path":"","reason":"too-large","size":}],"git":{"branch":'
    b'"refs/heads/main","dirty":[],"head":"","nested":[],"operation":null},"kind":"auto","kind":"turn",'
    b'"kind":"guard","moment":"before","moment":"after","session":"sess_","task":"T{"actor":{"call":null,'
    b'"name":null,"type":"unknown"},"bytes":,"changes":{"added":0,"deleted":0,"modified":10},"created_at":'
    b'"2026-01-01T00:00:00.000Z","created_ns":17,"files":,"forced":[],"gaps":[],"git":null,"id":"ckpt_",'
    b'"ignore":{"excludes":["node_modules",".venv","venv","__pycache__","*.pyc",".mypy_cache",'
    b'".pytest_cache",".ruff_cache",".tox"],"global_exclude":"","includes":["/feature_list.json",'
    b'"/progress.md"],"info_exclude":"","readable":true},"ignored":0,"kind":"manual","message":"",'
    b'"metadata":{},"metrics":{"cpu_seconds":null,"memory_bytes":null,"save_ms":,"session_seconds":null,'
    b'"stored_bytes":,"success_ratio":null,"tasks_done":0,"tasks_failed":0,"tasks_total":0,"tokens":null},'
    b'"modes":"","name":null,"partial":false,"previous":"ckpt_","private":[],"schema":'
    b'"lastgood.manifest/1","sequence":,"tree":"","workspace":"/home/","workspace_key":""}'
)
_MANIFEST_LEVEL = 6
_RAW = -15
_LITTLE_MEMORY = 5
# What a damaged row could claim; no manifest comes near this.
_LARGEST_MANIFEST = 1 << 28


def pack_manifest(text: bytes) -> bytes:
    """Return what a row keeps of a manifest's text."""
    deflate = zlib.compressobj(
        _MANIFEST_LEVEL, zlib.DEFLATED, _RAW, _LITTLE_MEMORY, zlib.Z_DEFAULT_STRATEGY, _KNOWN
    )
    return _FORM + deflate.compress(text) + deflate.flush()


def unpack_manifest(value: object) -> bytes | str:
    """Return the text that a row keeps; those of releases before the fourth version have it as it is.

    Raises `Damaged` when it cannot be made out.
    """
    if not isinstance(value, bytes):
        return value if isinstance(value, str) else str(value)
    return _inflated(value, zlib.decompressobj(_RAW, _KNOWN), most=_LARGEST_MANIFEST, what="a manifest")


def _inflated(value: bytes, inflate: zlib._Decompress, *, most: int, what: str) -> bytes:
    if value[:1] != _FORM:
        raise _damaged(what, "it has no form that is known")
    try:
        text = inflate.decompress(value[1:], most)
    except zlib.error as error:
        raise _damaged(what, str(error)) from error
    if not inflate.eof:
        raise _damaged(what, "it ends too early")
    return text


def _damaged(what: str, reason: str) -> Damaged:
    return Damaged(f"{what} in the catalogue cannot be read: {reason}", hint=REPAIR_HINT)


# --- Rows to values and back ---

_HEX = frozenset("0123456789abcdef")
FACTS = "id, sequence, kind, created_at, tree, modes, partial, gaps"
OPERATION = "payload, undone"
WORKSPACE = "key, path, machine, created_at"
_ADD_WORKSPACE = f"INSERT INTO workspace ({WORKSPACE}) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608 - names of columns
BIRTH = (
    "id, workspace_key, kind, created_at, name, commit_id, tree, modes, previous, partial, pinned,"
    " recovered, gaps, manifest, session, task, moment, step"
)
BIRTH_MARKS = ", ".join("?" * 18)
CHECKPOINT = (
    "manifest, commit_id, sequence, name, pinned, good, verdict, damaged, recovered, deleted_at,"
    f" {broken_seal('checkpoint')}, id, workspace_key, kind, created_at, tree, modes, previous, partial"
)


def birth(
    manifest: Manifest,
    *,
    commit: str,
    name: str | None,
    pinned: bool,
    recovered: bool,
    text: bytes | None = None,
) -> Row:
    """Return the values of a new checkpoint's columns, in the order of `BIRTH`; ``text`` as for `add`."""
    return (
        manifest.id,
        manifest.workspace_key,
        manifest.kind,
        manifest.created_at,
        stored_name(name),
        commit,
        manifest.root.tree,
        manifest.root.modes,
        manifest.previous,
        manifest.partial,
        pinned,
        recovered,
        encode_gaps(manifest.gaps),
        pack_manifest(encode(manifest) if text is None else text),
        manifest.session,
        manifest.task,
        manifest.moment,
        manifest.progress.position.step,
    )


def reduction(manifest: Manifest, *, commit: str) -> Row:
    """Return the columns of a checkpoint that is reduced: commit, tree, modes, gaps, manifest."""
    root = manifest.root
    return (commit, root.tree, root.modes, encode_gaps(manifest.gaps), pack_manifest(encode(manifest)))


def stored_name(name: str | None) -> str | None:
    """Return a name that SQLite can hold; `Invalid` if it is not Unicode."""
    if name is not None and any("\ud800" <= character <= "\udfff" for character in name):
        raise Invalid("a checkpoint's name must be Unicode text", hint="choose another name")
    return name


def stored_reason(reason: str | None) -> str | None:
    """Return a reason that SQLite can hold; bytes that are not UTF-8 are spelt out."""
    return None if reason is None else reason.encode("utf-8", "backslashreplace").decode("utf-8")


def checkpoint(row: Row, *, brief: bool = False) -> Checkpoint:
    """Return the checkpoint of a row of `CHECKPOINT`, in brief if that is enough (see `Query`).

    One whose manifest cannot be read is damaged and holds what the other columns say, so that it
    hides no other (rule K4).
    """
    (
        text,
        commit,
        sequence,
        name,
        pinned,
        good,
        verdict,
        damaged,
        recovered,
        deleted_at,
        broken,
        *birth_columns,
    ) = row
    reason = None if damaged is None else str(damaged)
    if broken:
        reason = reason or "its record in the catalogue was altered from outside"
    check = None
    try:
        manifest = decode(unpack_manifest(text), brief=brief)
        check = None if verdict is None else CHECK.decode(_text(verdict))
    except (Damaged, Unsupported) as error:
        manifest = _remains(birth_columns)
        reason = reason or f"the catalogue's record cannot be read: {error.message}"
    return Checkpoint(
        manifest=manifest,
        commit=_hex(commit),
        sequence=_number(sequence),
        name=None if name is None else _text(name),
        pinned=bool(pinned),
        good=None if good is None else bool(good),
        check=check,
        damaged=reason,
        recovered=bool(recovered),
        deleted_at=None if deleted_at is None else _number(deleted_at),
    )


def _remains(columns: list[object]) -> Manifest:
    id, workspace_key, kind, created_at, tree, modes, previous, partial = columns
    return Manifest(
        id=_text(id),
        workspace="",
        workspace_key=_text(workspace_key),
        kind=_text(kind),  # type: ignore[arg-type]  # whatever the damaged row says
        message="",
        name=None,
        created_at=_number(created_at),
        sequence=0,
        previous=None if previous is None else _text(previous),
        root=TreeRef(tree=_hex(tree), modes=_hex(modes) if modes else ""),
        changes=Counts(),
        files=0,
        size=0,
        ignored=0,
        gaps=(),
        partial=bool(partial),
        private=(),
        forced=(),
        actor=Actor(),
        git=None,
        ignore=IgnoreState(),
        metrics=Metrics(),
        metadata={},
    )


def facts(row: Row) -> CheckpointFacts:
    """Return the facts of a row of `FACTS`."""
    id, sequence, kind, created_at, tree, modes, partial, gaps = row
    return CheckpointFacts(
        id=_text(id),
        sequence=_number(sequence),
        kind=_text(kind),
        created_at=_number(created_at),
        tree=_text(tree),
        modes=_text(modes),
        partial=bool(partial),
        gaps=_text(gaps),
    )


def facts_of(columns: Row, *, sequence: int) -> CheckpointFacts:
    """Return the facts of a checkpoint that was just added, from the values of `BIRTH`."""
    id, _, kind, created_at, _, _, tree, modes, _, partial, _, _, gaps, *_ = columns
    return facts((id, sequence, kind, created_at, tree, modes, partial, gaps))


def is_whole(known: CheckpointFacts) -> bool:
    """Tell whether a workspace can stand at a checkpoint that is there (rule T15)."""
    return not known.partial and known.kind != "guard"


def workspace(row: Row) -> WorkspaceRow:
    """Return the workspace of a row of `WORKSPACE`."""
    key, path, machine, created_at = row
    text = to_text(path) if isinstance(path, bytes) else _text(path)
    return WorkspaceRow(key=_text(key), path=text, machine=_text(machine), created_at=_number(created_at))


def workspace_columns(row: WorkspaceRow) -> Row:
    """Return a workspace's values in the order of `WORKSPACE`."""
    return (row.key, to_bytes(row.path), row.machine, row.created_at)


def add_workspace(connection: sqlite3.Connection, row: WorkspaceRow) -> None:
    """Add a workspace, or leave the one that is there."""
    if connection.execute(_ADD_WORKSPACE, workspace_columns(row)).rowcount:
        reseal(connection, "workspace", row.key)


def operation(row: Row) -> Operation:
    """Return the operation of a row of `OPERATION`."""
    from lastgood.model.operation import OPERATION  # lazily: saves and lists know of no operation

    payload, undone = row
    return OPERATION.decode(_text(payload)).replace(undone=bool(undone))


def operation_columns(operation: Operation) -> Row:
    """Return an operation's values: id, workspace_key, type, at, undone, payload."""
    from lastgood.model.operation import OPERATION

    return (
        operation.id,
        operation.workspace_key,
        operation.type,
        operation.at,
        operation.undone,
        OPERATION.encode(operation),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _hex(value: object) -> str:
    # Of an altered row even this may be wrong; what names nothing is found missing by whoever looks.
    text = _text(value)
    return text if len(text) == 40 and _HEX.issuperset(text) else "0" * 40


# --- Questions about checkpoints, as SQL ---

_MOST = (1 << 63) - 1
# A row that was altered from outside is no ground to build on: the one before it is.
_STANDING = (
    f"SELECT {FACTS} FROM checkpoint WHERE workspace_key = ? AND deleted_at IS NULL"  # noqa: S608 - names of columns, no input
    f" AND NOT {broken_seal('checkpoint')}"
)
_NEWEST_FACTS = f"{_STANDING} ORDER BY sequence DESC LIMIT 1"

# Whether a rescued catalogue still lacks what `mending.adopt` brings.
AWAITS_ADOPTION = "SELECT 1 FROM meta WHERE name = 'unadopted'"


def selection(query: Query) -> tuple[str, dict[str, object]]:
    """Return the statement that answers a query, and its parameters."""
    conditions = [
        condition
        for wanted, condition in (
            (query.workspace_key is not None, "workspace_key = :workspace_key"),
            (query.kind is not None, "kind = :kind"),
            (query.session is not None, "session = :session"),
            (query.task is not None, "task = :task"),
            (query.moment is not None, "moment = :moment"),
            (query.step is not None, "step = :step"),
            (query.since is not None, "created_at >= :since"),
            (query.until is not None, "created_at <= :until"),
            (query.name is not None, f"coalesce(name, {FIRST_LINE}(manifest)) GLOB :name"),
            (query.called is not None, "name = :called"),
            (query.message is not None, f"{BEARS_MESSAGE}(manifest, :message)"),
            (query.root is not None, "tree = :tree AND modes = :modes"),
            (query.good, "good = 1"),
            (query.complete, "partial = 0"),
            (query.partial, "partial = 1"),
            (not query.guards, "kind <> 'guard'"),
            (not query.deleted, "deleted_at IS NULL"),
        )
        if wanted
    ]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    parameters = query.as_dict() | {
        "tree": None if query.root is None else query.root.tree,
        "modes": None if query.root is None else query.root.modes,
        "limit": -1 if query.limit is None else _fit(max(query.limit, 0)),
        "offset": _fit(max(query.offset, 0)),
        "since": _fit(query.since),
        "until": _fit(query.until),
        "step": _fit(query.step),
        "message": None if query.message is None else _as_json(query.message),
        # SQLite negates a set by ^ alone.
        "name": None if query.name is None else query.name.replace("[!", "[^"),
    }
    statement = f"SELECT {CHECKPOINT} FROM checkpoint{where}"  # noqa: S608 - conditions are those above
    order = "ASC" if query.oldest else "DESC"
    return f"{statement} ORDER BY sequence {order} LIMIT :limit OFFSET :offset", parameters


BEARS_MESSAGE = "bears_message"


def bears_message(manifest: object, wanted: bytes) -> bool:
    """Tell whether a row's manifest has a message or such an id (as JSON text), but for space around it.

    Called by SQLite for row after row: what does not hold the text at all is not decoded.
    """
    try:
        text = unpack_manifest(manifest)
        text = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        if wanted not in text:
            return False
        manifest = decode(text, brief=True)
        names = (manifest.message, manifest.metadata.get(ID_NOTE, manifest.message))
        return wanted in [_as_json(one) for one in names]
    except (Damaged, Unsupported):
        return False  # what it said is not known


FIRST_LINE = "first_line"


def first_line(manifest: object) -> str | None:
    """Return the first line of a row's message as lists show it, None if there is none that is known."""
    try:
        message = decode(unpack_manifest(manifest), brief=True).message
    except (Damaged, Unsupported):
        return None
    line = message.strip().partition("\n")[0].rstrip()
    return line.encode("utf-8", "replace").decode() or None


MESSAGE_FUNCTIONS: dict[str, Callable[..., bool | str | None]] = {
    BEARS_MESSAGE: bears_message,
    FIRST_LINE: first_line,
}


def _as_json(message: str) -> bytes:
    return dumps(message.strip())[1:-1]


def _fit(number: int | None) -> int | None:
    """Return the nearest number that SQLite can hold."""
    return None if number is None else max(-_MOST, min(number, _MOST))


# --- Where a workspace stands, and the way back from there: along ``previous``, which drops keep whole ---

# What `@` can be: a complete checkpoint, no guard, that is there and was not altered from outside.
_WHOLE = f"deleted_at IS NULL AND partial = 0 AND kind <> 'guard' AND NOT {broken_seal('checkpoint')}"
_AT = f"SELECT at FROM workspace WHERE key = ? AND NOT {broken_seal('workspace')}"  # noqa: S608 - names of columns, no input
_LINK = f"SELECT previous, {_WHOLE}, {FACTS} FROM checkpoint WHERE id = ? AND workspace_key = ?"  # noqa: S608 - as above
_NEWEST_WHOLE = (
    f"SELECT previous, 1, {FACTS} FROM checkpoint WHERE workspace_key = ? AND sequence < ? AND {_WHOLE}"  # noqa: S608 - as above
    " ORDER BY sequence DESC LIMIT 1"
)
_MOVE = changed_and_sealed("workspace", "at")
# What stands in the row where nobody knows the place any more.
LOST_PLACE = ""


def at(connection: sqlite3.Connection, key: str) -> str | None:
    """Return what says where a workspace stands: the id of a checkpoint that may be gone by now."""
    row = connection.execute(_AT, (key,)).fetchone()
    return None if row is None or row[0] is None else _text(row[0])


def stood(connection: sqlite3.Connection, key: str) -> str | None:
    """Return what is to be said again to have a workspace stand where it stands now.

    That may be a checkpoint that is deleted: undoing that leads back to it.
    """
    return at(connection, key) or next((one.id for one in history(connection, key)), None)


def place_fault(connection: sqlite3.Connection, key: str) -> PlaceFault | None:
    """Return why a workspace counts as standing at its newest checkpoint; None where its row says where."""
    place = at(connection, key)
    if place == LOST_PLACE:
        return "lost"
    gone = place is not None and next(_back(connection, key, place), None) is None
    return "deleted" if gone else None


def move(connection: sqlite3.Connection, key: str, *, to: str | None) -> None:
    """Say where a workspace stands."""
    connection.execute(_MOVE, {"value": to, "key": key})


def latest(connection: sqlite3.Connection, key: str) -> LatestFacts | None:
    """Return the newest checkpoint of a workspace, and the one at which it stands; None before the first."""
    row = connection.execute(_NEWEST_FACTS, (key,)).fetchone()
    if row is None:
        return None
    newest = facts(row)
    # Nearly always it is that one, which has been proven by its row.
    if at(connection, key) == newest.id and is_whole(newest):
        return LatestFacts(newest=newest, at=newest)
    return LatestFacts(newest=newest, at=next(history(connection, key), None))


def history(
    connection: sqlite3.Connection, key: str, *, start: str | None = None
) -> Iterator[CheckpointFacts]:
    """Yield the complete checkpoints, no guards, along a workspace's history, the newest first.

    From a checkpoint on, itself included if it is one of these; else from where the workspace stands. Where
    that leads to none it stands at the newest. A history of which a row is missing, as after a repair, goes
    on at the next older one.
    """
    found = False
    for one in _back(connection, key, at(connection, key) if start is None else start):
        found = True
        yield one
    if found or start is not None:
        return
    newest = connection.execute(_NEWEST_WHOLE, (key, _MOST)).fetchone()
    if newest is not None:
        yield from _back(connection, key, facts(newest[2:]).id)


def _back(connection: sqlite3.Connection, key: str, place: str | None) -> Iterator[CheckpointFacts]:
    below, seen = _MOST, set[str]()
    while place is not None:
        row = connection.execute(_LINK, (place, key)).fetchone()
        row = row or connection.execute(_NEWEST_WHOLE, (key, below)).fetchone()
        if row is None:
            return
        previous, whole, *columns = row
        one = facts(tuple(columns))
        if one.id in seen:  # by damage, or as imports brought it
            return
        seen.add(one.id)
        if whole:
            yield one
        place, below = None if previous is None else _text(previous), one.sequence


def lead_past(connection: sqlite3.Connection, dropped: Mapping[str, str | None]) -> None:
    """Lead histories past checkpoints whose rows were dropped, given with what was before each."""
    for table, key, column in (("checkpoint", "id", "previous"), ("workspace", "key", "at")):
        links = connection.execute(f"SELECT {key}, {column} FROM {table} WHERE {column} IS NOT NULL")  # noqa: S608 - names above
        for found, lost in links.fetchall():
            if lost not in dropped:
                continue
            place = dropped[lost]
            while place is not None and place in dropped:
                place = dropped[place]
            sound = not is_broken(connection, table, found)
            if place is None and table == "workspace":
                place = LOST_PLACE
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (place, found))  # noqa: S608 - names above
            if sound:
                reseal(connection, table, found)


# --- A record as its row keeps it: as text, or compressed where it is long ---

# Compressed rows name their form by their first byte; no text begins with it.
# What is shorter fits into a page beside others, and is read by eye.
_LONG = 3000
# More is no smaller, and takes three times as long.
_RECORD_LEVEL = 1
# What a damaged row could claim; no record comes near this.
_LARGEST_RECORD = 1 << 28


def pack_record(text: str) -> str | bytes:
    """Return what a row keeps of a record's text."""
    if len(text) <= _LONG:
        return text
    return _FORM + zlib.compress(text.encode("ascii"), _RECORD_LEVEL)


def unpack_record(value: object) -> str:
    """Return the text that a row keeps; those of releases before the fifth version have it as it is.

    Raises `Damaged` when it cannot be made out.
    """
    if not isinstance(value, bytes):
        return str(value)
    text = _inflated(value, zlib.decompressobj(), most=_LARGEST_RECORD, what="a record")
    try:
        return text.decode("ascii")
    except UnicodeDecodeError as error:
        raise _damaged("a record", str(error)) from error
