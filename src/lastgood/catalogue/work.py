"""Sessions, progress and steps of the work in SQLite; beside the checkpoints, in the same file."""

from __future__ import annotations

from lastgood.catalogue import rows
from lastgood.catalogue.database import broken_seal, reseal
from lastgood.errors import Conflict, NotFound
from lastgood.model.canonical import dumps
from lastgood.model.session import (
    Progress,
    decode_effect,
    decode_progress,
    decode_session,
    encode_effect,
    encode_progress,
    encode_session,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence

    from lastgood.catalogue import WorkspaceRow
    from lastgood.catalogue.database import Database, Result
    from lastgood.catalogue.rows import Row
    from lastgood.model.run import PlannedRun
    from lastgood.model.session import Effect, EffectState, Session, SessionState

_SESSIONS = f"SELECT payload, heartbeat_at FROM session WHERE NOT {broken_seal('session')}"  # noqa: S608 - names of columns
_RUNS = f"SELECT id, workspace_key, fingerprint, payload FROM run WHERE NOT {broken_seal('run')}"  # noqa: S608 - as above
_PROGRESS = f"SELECT payload FROM progress WHERE id = ? AND NOT {broken_seal('progress')}"  # noqa: S608 - as above
_RIVALS = "SELECT id FROM session WHERE workspace_key = ? AND exclusive = 1 AND state = 'active'"


class WorkReader:
    """Facts about the work; rows that were altered from outside are not seen."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sessions(
        self, workspace_key: str | None = None, *, state: SessionState | None = None
    ) -> Sequence[Session]:
        """Return sessions as they were recorded, newest first: of one workspace, or of all.

        Only those recorded in one state, if given: of what ended there may be thousands.
        """
        wanted = ("workspace_key", workspace_key), ("state", state)
        narrowed = "".join(f"{column} = :{column} AND " for column, value in wanted if value is not None)
        # What is cheap to compare stands first: a seal is computed for what is left.
        found = self._all(
            f"SELECT payload, heartbeat_at FROM session WHERE {narrowed}"  # noqa: S608 - names of columns
            f" NOT {broken_seal('session')} ORDER BY number DESC",
            dict(wanted),
        )
        return [_session(row) for row in found]

    def session(self, session: str) -> Session | None:
        """Return the session with exactly this id."""
        found = self._all(f"{_SESSIONS} AND id = :id", {"id": session})
        return _session(found[0]) if found else None

    def progress(self, key: str) -> Progress:
        """Return the progress of a session, or (by its key) of a workspace outside any; empty if none."""
        return self._database.read(lambda connection: _progress(connection, key))

    def effects(
        self,
        workspace_key: str,
        *,
        session: str | None = None,
        state: EffectState | None = None,
        name: str | None = None,
    ) -> Sequence[Effect]:
        """Return the steps of a workspace in the order of their start.

        Of one session only, in one state only, or of one name only, if given.
        """
        # The canonical text of a name stands in the payload: few others than those wanted are read.
        said = None if name is None else f'"name":{dumps(name).decode("ascii")},'
        found = self._all(
            "SELECT payload FROM step WHERE workspace_key = :key AND (:session IS NULL OR session = :session)"  # noqa: S608 - names of columns
            " AND (:state IS NULL OR state = :state) AND (:said IS NULL OR instr(payload, :said))"
            f" AND NOT {broken_seal('step')} ORDER BY number",
            {"key": workspace_key, "session": session, "state": state, "said": said},
        )
        effects = [decode_effect(str(row[0])) for row in found]
        return effects if name is None else [one for one in effects if one.name == name]

    def run(self, session: str) -> PlannedRun | None:
        """Return the plan that a session carries out; None if it has none."""
        found = self._all(f"{_RUNS} AND id = :id", {"id": session})
        return _run(found[0]) if found else None

    def runs(self, workspace_key: str, *, limit: int, skip: int = 0) -> Sequence[PlannedRun]:
        """Return the plans that the sessions of a workspace carry out, newest first, so many after others."""
        found = self._all(
            f"{_RUNS} AND workspace_key = :key ORDER BY number DESC LIMIT :limit OFFSET :skip",
            {"key": workspace_key, "limit": limit, "skip": skip},
        )
        return [_run(row) for row in found]

    def change(self, work: Callable[[SessionTransaction], Result]) -> Result:
        """Change facts in one transaction, durable on return; nothing is changed if it raises."""
        return self._database.write(lambda connection: work(SessionTransaction(connection)))

    def _all(self, statement: str, parameters: dict[str, object]) -> list[Row]:
        try:
            return self._database.read(
                lambda connection: connection.execute(statement, parameters).fetchall()
            )
        except UnicodeEncodeError:
            return []  # what is not Unicode is nobody's id


class SessionTransaction:
    """A transaction that is open; it changes sessions, progress, steps and plans."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add_workspace(self, row: WorkspaceRow) -> None:
        """Add a workspace, or leave the one that is there."""
        rows.add_workspace(self._connection, row)

    def open_session(
        self, session: Session, *, replacing: Sequence[Session] = (), run: PlannedRun | None = None
    ) -> None:
        """Add a session, with the plan that it carries out, and record others anew, together.

        Raises `Conflict` if the session is exclusive and another exclusive one of the workspace is
        recorded as active and not among those replaced: it opened in between; or if one that is to be
        recorded as incomplete has beaten since.
        """
        _replace_rivals(self._connection, session, replacing)
        self._connection.execute(
            "INSERT INTO session (id, workspace_key, exclusive, state, heartbeat_at, payload)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (session.id, session.workspace_key, *_session_columns(session)),
        )
        reseal(self._connection, "session", session.id)
        if run is not None:
            _put_run(self._connection, run)

    def settle_session(
        self,
        session: Session,
        *,
        was: Session,
        replacing: Sequence[Session] = (),
        progress: Callable[[Progress], Progress],
        steps: Sequence[Effect],
    ) -> Progress:
        """Record a session that died anew, others, its progress and its steps.

        Raises `Conflict` if it is not recorded as it ``was`` any more, or if it would be active and
        exclusive beside another one that is not among those replaced.
        """
        if self._session(session.id) != was:
            raise Conflict(
                f"session {session.id} was settled by somebody else a moment ago",
                hint="see where it stands: lastgood session show " + session.id,
                details={"sessions": [session.id]},
            )
        if session.state == "active":
            _replace_rivals(self._connection, session, replacing)
        _update_session(self._connection, session)
        return self.change_progress(
            session.id, progress, workspace_key=session.workspace_key, steps=lambda _: steps
        )

    def change_session(self, session: str, change: Callable[[Session], Session]) -> Session:
        """Replace a session by what a function makes of it, and return that; `NotFound` if there is none."""
        made = change(self._session(session))
        _update_session(self._connection, made)
        return made

    def change_progress(
        self,
        key: str,
        change: Callable[[Progress], Progress],
        *,
        workspace_key: str,
        steps: Callable[[Progress], Iterable[Effect]] | None = None,
    ) -> Progress:
        """Replace progress by what a function makes of it, and return that."""
        made = change(_progress(self._connection, key))
        self._connection.execute(
            "INSERT INTO progress (id, workspace_key, payload) VALUES (?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET payload = excluded.payload",
            (key, workspace_key, rows.pack_record(encode_progress(made))),
        )
        reseal(self._connection, "progress", key)
        for effect in () if steps is None else steps(made):
            self.put_effect(effect)
        return made

    def put_run(self, run: PlannedRun, *, progress: Callable[[Progress], Progress]) -> Progress:
        """Give a session another plan, and replace its progress, together."""
        made = self.change_progress(run.session, progress, workspace_key=run.workspace_key)
        _put_run(self._connection, run)
        return made

    def put_effect(self, effect: Effect) -> None:
        """Record a step of the work, or record it anew."""
        self._connection.execute(
            "INSERT INTO step (id, workspace_key, session, state, payload) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET state = excluded.state, payload = excluded.payload",
            (effect.id, effect.workspace_key, effect.session, effect.state, encode_effect(effect)),
        )
        reseal(self._connection, "step", effect.id)

    def _session(self, session: str) -> Session:
        row = self._connection.execute(f"{_SESSIONS} AND id = ?", (session,)).fetchone()
        _demand(row is not None, session)
        return _session(row)


def _session(row: Row) -> Session:
    payload, heartbeat_at = row
    session = decode_session(str(payload))
    return session.replace(heartbeat_at=heartbeat_at if isinstance(heartbeat_at, int) else 0)


def _session_columns(session: Session) -> Row:
    return (session.exclusive, session.state, session.heartbeat_at, encode_session(session))


def _update_session(connection: sqlite3.Connection, session: Session) -> None:
    found = connection.execute(
        "UPDATE session SET (exclusive, state, heartbeat_at, payload) = (?, ?, ?, ?) WHERE id = ?",
        (*_session_columns(session), session.id),
    )
    _demand(found.rowcount > 0, session.id)
    reseal(connection, "session", session.id)


def _demand(found: bool, session: str) -> None:  # noqa: FBT001 - the question itself
    if not found:
        raise NotFound(
            "the store knows no such session",
            hint="see what there is: lastgood session list",
            details={"id": session},
        )


def _replace_rivals(connection: sqlite3.Connection, session: Session, replacing: Sequence[Session]) -> None:
    """Record others anew; refuse if an exclusive session would be active beside one not among them."""
    rivals = {str(row[0]) for row in connection.execute(_RIVALS, (session.workspace_key,))}
    others = rivals - {session.id} - {one.id for one in replacing}
    if session.exclusive and others:
        raise Conflict(
            "another session of this workspace was started a moment ago",
            hint="see whose it is: lastgood status",
            details={"sessions": sorted(others)},
        )
    for one in replacing:
        _demand_silence(connection, one)
        _update_session(connection, one)


def _demand_silence(connection: sqlite3.Connection, dead: Session) -> None:
    """Refuse to record a session as dead whose owner gave a sign of life since that was decided."""
    if dead.state != "incomplete":
        return
    row = connection.execute("SELECT heartbeat_at FROM session WHERE id = ?", (dead.id,)).fetchone()
    if row is not None and row[0] != dead.heartbeat_at:
        raise Conflict(
            f"session {dead.id} seemed dead, and has just given a sign of life",
            hint="see what it does: lastgood status",
            details={"sessions": [dead.id]},
        )


def _put_run(connection: sqlite3.Connection, run: PlannedRun) -> None:
    from lastgood.workplan.plan import encode_plan  # lazily: a save has no use for plans

    connection.execute(
        "INSERT INTO run (id, workspace_key, fingerprint, payload) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint, payload = excluded.payload",
        (run.session, run.workspace_key, run.fingerprint, encode_plan(run.plan)),
    )
    reseal(connection, "run", run.session)


def _run(row: Row) -> PlannedRun:
    from lastgood.model.run import PlannedRun
    from lastgood.workplan.plan import decode_plan

    session, workspace_key, fingerprint, payload = row
    return PlannedRun(
        session=str(session),
        workspace_key=str(workspace_key),
        fingerprint=str(fingerprint),
        plan=decode_plan(str(payload)),
    )


def _progress(connection: sqlite3.Connection, key: str) -> Progress:
    row = connection.execute(_PROGRESS, (key,)).fetchone()
    return Progress() if row is None else decode_progress(rows.unpack_record(row[0]))
