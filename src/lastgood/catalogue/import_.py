"""Rows that come from another store: all of them in one transaction, or none."""

from __future__ import annotations

from lastgood.catalogue import rows
from lastgood.catalogue.database import broken_seal, is_broken, reseal
from lastgood.catalogue.work import put_progress
from lastgood.errors import NotFound
from lastgood.model.canonical import dumps
from lastgood.model.checkpoint import CHECK
from lastgood.model.session import EFFECT, SESSION
from lastgood.paths import to_bytes, to_text
from lastgood.workplan.plan import PLAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from lastgood.catalogue import Arrival, Arrivals
    from lastgood.model.run import PlannedRun
    from lastgood.model.session import Progress


_WORKSPACE = f"INSERT OR IGNORE INTO workspace ({rows.WORKSPACE}) VALUES (?, ?, ?, ?)"  # noqa: S608 - names of columns
_CHECKPOINT = (
    f"INSERT INTO checkpoint (sequence, {rows.BIRTH}, good, verdict)"  # noqa: S608 - as above
    f" VALUES (?, {rows.BIRTH_MARKS}, ?, ?)"
)
_SESSION = (
    "INSERT OR IGNORE INTO session (id, workspace_key, exclusive, state, heartbeat_at, payload)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
_HAS_PROGRESS = "SELECT 1 FROM progress WHERE id = ?"
_STEP = "INSERT OR IGNORE INTO step (id, workspace_key, session, state, payload) VALUES (?, ?, ?, ?, ?)"

_RUN = "INSERT OR IGNORE INTO run (id, workspace_key, fingerprint, payload) VALUES (?, ?, ?, ?)"


def take_in(connection: sqlite3.Connection, arrivals: Arrivals) -> Arrivals:
    """Write what is not here yet, and return that; known workspaces stand where they stood."""
    for key in {one.manifest.workspace_key for one in arrivals.checkpoints}:
        place = next(rows.history(connection, key), None)
        if place is not None and not rows.at(connection, key):
            rows.move(connection, key, to=place.id)
    workspaces = tuple(
        row
        for row in arrivals.workspaces
        if _inserted(connection, "workspace", _WORKSPACE, rows.workspace_columns(row))
    )
    checkpoints = tuple(one for one in arrivals.checkpoints if _checkpoint(connection, one))
    sessions = tuple(
        one
        for one in arrivals.sessions
        if _inserted(
            connection,
            "session",
            _SESSION,
            (one.id, one.workspace_key, one.exclusive, one.state, one.heartbeat_at, SESSION.encode(one)),
        )
    )
    progress = tuple(
        (key, workspace, kept)
        for key, workspace, kept in arrivals.progress
        if _has_put(connection, key, kept, workspace_key=workspace)
    )
    effects = tuple(
        one
        for one in arrivals.effects
        if _inserted(
            connection,
            "step",
            _STEP,
            (one.id, one.workspace_key, one.session, one.state, EFFECT.encode(one)),
        )
    )
    runs = tuple(one for one in arrivals.runs if _run(connection, one))
    revived = tuple(id for id in arrivals.revived if _revive(connection, id))
    return arrivals.replace(
        workspaces=workspaces,
        checkpoints=checkpoints,
        sessions=sessions,
        progress=progress,
        effects=effects,
        runs=runs,
        revived=revived,
    )


def _inserted(
    connection: sqlite3.Connection, table: str, statement: str, columns: tuple[object, ...]
) -> bool:
    if not connection.execute(statement, columns).rowcount:
        return False
    reseal(connection, table, str(columns[0]))
    return True


def _has_put(connection: sqlite3.Connection, key: str, progress: Progress, *, workspace_key: str) -> bool:
    """Write the progress of a session or workspace that has none."""
    if connection.execute(_HAS_PROGRESS, (key,)).fetchone() is not None:
        return False
    put_progress(connection, key, progress, workspace_key=workspace_key)
    return True


def _run(connection: sqlite3.Connection, run: PlannedRun) -> bool:
    """Write the plan of a session that has none."""
    mine = connection.execute(
        "SELECT 1 FROM session WHERE id = ? AND workspace_key = ?", (run.session, run.workspace_key)
    )
    if mine.fetchone() is None:
        return False
    columns = (run.session, run.workspace_key, run.fingerprint, PLAN.encode(run.plan))
    return _inserted(connection, "run", _RUN, columns)


def _checkpoint(connection: sqlite3.Connection, one: Arrival) -> bool:
    """Write a checkpoint's row under the number it wants, or the next free one."""
    if connection.execute("SELECT 1 FROM checkpoint WHERE id = ?", (one.manifest.id,)).fetchone():
        return False
    sequence = one.sequence
    while (
        sequence < 1
        or connection.execute("SELECT 1 FROM checkpoint WHERE sequence = ?", (sequence,)).fetchone()
    ):
        sequence += 1
    columns = rows.birth(one.manifest, commit=one.commit, name=one.name, pinned=one.pinned, recovered=False)
    verdict = None if one.check is None else CHECK.encode(one.check)
    connection.execute(_CHECKPOINT, (sequence, *columns, one.good, verdict))
    reseal(connection, "checkpoint", one.manifest.id)
    return True


def _revive(connection: sqlite3.Connection, id: str) -> bool:
    statement = "UPDATE checkpoint SET deleted_at = NULL WHERE id = ? AND deleted_at IS NOT NULL"
    if not connection.execute(statement, (id,)).rowcount:
        return False
    reseal(connection, "checkpoint", id)
    return True


# --- A workspace that is somewhere else now: its row, and the plans that lay in its folder ---

_PLANS = (
    f"SELECT id, payload FROM run WHERE workspace_key = ? AND instr(payload, ?) AND NOT {broken_seal('run')}"  # noqa: S608 - names of columns
)


def move(connection: sqlite3.Connection, key: str, *, path: str, machine: str | None) -> None:
    """Give a workspace another path, and another machine if one is given; its runs find their plans there."""
    row = connection.execute("SELECT path FROM workspace WHERE key = ?", (key,)).fetchone()
    if row is None:
        raise NotFound(f"the store knows no workspace {key}", details={"id": key})
    sound = not is_broken(connection, "workspace", key)
    connection.execute(
        "UPDATE workspace SET machine = coalesce(?, machine), path = ? WHERE key = ?",
        (machine, to_bytes(path), key),
    )
    if not sound:  # where it was before is not certain
        return
    reseal(connection, "workspace", key)
    _move_plans(connection, key, old=to_text(row[0]) + "/", new=path + "/")


def _move_plans(connection: sqlite3.Connection, key: str, *, old: str, new: str) -> None:
    said = '"source":' + dumps(old).decode("ascii").removesuffix('"')
    for id, payload in connection.execute(_PLANS, (key, said)).fetchall():
        plan = PLAN.decode(str(payload))
        if plan.source is None or not plan.source.startswith(old):
            continue  # somebody's text says the same
        moved = plan.replace(source=new + plan.source.removeprefix(old))
        connection.execute("UPDATE run SET payload = ? WHERE id = ?", (PLAN.encode(moved), id))
        reseal(connection, "run", str(id))
