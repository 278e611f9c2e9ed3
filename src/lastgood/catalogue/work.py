"""Sessions, progress and steps of the work in SQLite; beside the checkpoints, in the same file."""

from __future__ import annotations

from lastgood.catalogue import rows
from lastgood.catalogue.database import (
    IRREVERSIBLE,
    STEP_NAME,
    UNENDED,
    broken_seal,
    reseal,
    seal_of,
    within,
)
from lastgood.errors import Conflict, Damaged, NotFound
from lastgood.model.canonical import dumps
from lastgood.model.session import (
    COMPLETED,
    EFFECT,
    SESSION,
    TASKS,
    Progress,
    decode_progress,
    encode_progress,
    in_parts,
    list_kind,
    lists_in_parts,
    readable,
)
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from lastgood.catalogue import WorkspaceRow
    from lastgood.catalogue.database import Database, Result
    from lastgood.catalogue.rows import Row
    from lastgood.literals import EffectState, SessionState
    from lastgood.model.long_list import LongList, Part, PartReader
    from lastgood.model.run import PlannedRun
    from lastgood.model.session import Effect, Session

_SESSIONS = f"SELECT payload, heartbeat_at FROM session WHERE NOT {broken_seal('session')}"  # noqa: S608 - names of columns
_RUNS = f"SELECT id, workspace_key, fingerprint, payload FROM run WHERE NOT {broken_seal('run')}"  # noqa: S608 - as above
_PROGRESS = f"SELECT payload FROM progress WHERE id = ? AND NOT {broken_seal('progress')}"  # noqa: S608 - as above
# Their seals are proven outside SQLite, which would call for each.
_PARTS = (
    "SELECT seal, CAST(number AS BLOB), CAST(id AS BLOB), CAST(workspace_key AS BLOB), CAST(payload AS BLOB)"
    " FROM progress WHERE id > :key || '/' AND id < :key || '0' ORDER BY id"
)
_PAYLOADS = (
    "SELECT CAST(payload AS BLOB) FROM progress WHERE id > :key || '/' AND id < :key || '0' ORDER BY id"
)
_RECORDS = (
    "SELECT id, workspace_key, payload FROM progress"  # noqa: S608 - as above
    f" WHERE NOT instr(id, '/') AND NOT {broken_seal('progress')} ORDER BY number"
)
_HOW_MANY = "SELECT count(*) FROM progress WHERE id > :key || '/' AND id < :key || '0'"
_ALL_PARTS = (
    f"SELECT CAST(payload AS BLOB) FROM progress WHERE instr(id, '/') AND NOT {broken_seal('progress')}"  # noqa: S608 - as above
)
_PARTS_BY_ID = (
    "SELECT id, CAST(payload AS BLOB) FROM progress"  # noqa: S608 - as above
    f" WHERE instr(id, '/') AND NOT {broken_seal('progress')}"
)
_PUT = (
    "INSERT INTO progress (id, workspace_key, payload) VALUES (?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET payload = excluded.payload"
)
# What is true of a step that is of no task: what it came to may speak of one, and has no such neighbour.
_OF_NO_TASK = """instr(payload, '"task":null,"version":')"""
_RIVALS = "SELECT id FROM session WHERE workspace_key = ? AND exclusive = 1 AND state = 'active'"


# So many turns are remembered as what a question came to.
_FEW = 4
# Shorter than what is indexed: all that begins so is found.
_NAME_LENGTH = 150


class WorkReader:
    """Facts about the work; rows that were altered from outside are not seen."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sessions(
        self,
        workspace_key: str | None = None,
        *,
        state: SessionState | None = None,
        unended_at: int | None = None,
    ) -> Sequence[Session]:
        """Return sessions as they were recorded, newest first: of one workspace, or of all.

        Only those recorded in one state, or not seen to end by a moment, if given: of what ended there may
        be thousands.
        """

        def ask() -> tuple[Session, ...]:
            wanted = ("workspace_key", workspace_key), ("state", state)
            narrowed = "".join(f"{column} = :{column} AND " for column, value in wanted if value is not None)
            narrowed += "" if unended_at is None else f"{UNENDED} AND "
            # What is cheap to compare stands first: a seal is computed for what is left.
            statement = (
                f"SELECT payload, heartbeat_at FROM session WHERE {narrowed}"  # noqa: S608 - names of columns
                f" NOT {broken_seal('session')} ORDER BY number DESC"
            )
            parameters: dict[str, object] = {**dict(wanted), "moment": unended_at}
            return tuple([_session(row) for row in self._all(statement, parameters)])

        if state not in {"active", "incomplete"} or unended_at is not None:  # there may be thousands
            return ask()
        return self._database.known(("sessions", workspace_key, state), ask)

    def session(self, session: str) -> Session | None:
        """Return the session with exactly this id."""

        def ask() -> Session | None:
            found = self._all(f"{_SESSIONS} AND id = :id", {"id": session})
            return _session(found[0]) if found else None

        return self._database.known(("session", session), ask)

    def progress(self, key: str, *, brief: bool = False) -> Progress:
        """Return the progress of a session, or (by its key) of a workspace outside any; empty if none.

        Of a long list that was altered what is left is the list. In ``brief`` its items are proven once
        somebody asks for them, and then it is `Damaged`.
        """
        return self._database.known(
            ("progress", key, brief),
            lambda: self._database.read(
                lambda connection: _progress_of_a_moment(connection, key, brief=brief)
            ),
        )

    def parts(self, wanted: Collection[bytes]) -> dict[bytes, bytes]:
        """Return those blobs wanted that parts of lists in any progress are, proven by their ids."""
        from lastgood.model.long_list import Part

        found = (_part(cast("bytes", row[0])) for row in self._all(_ALL_PARTS, {}))
        texts = [part.text for part in found if part is not None and part.oid in wanted]
        proven = {Part(text=text).oid: text.encode("ascii") for text in texts}
        return {oid: text for oid, text in proven.items() if oid in wanted}

    def effects(
        self,
        workspace_key: str,
        *,
        session: str | None = None,
        state: EffectState | None = None,
        name: str | None = None,
        reversible: bool = True,
        unended_at: int | None = None,
    ) -> Sequence[Effect]:
        """Return the steps of a workspace in the order of their start.

        Of one session only, in one state only, of one name only, or those alone that nobody saw end by a
        moment, if given; not the ``reversible`` ones if these are not asked for.
        """
        # The canonical text of a name stands in the payload, and its beginning in an index.
        said = None if name is None else f'"name":{dumps(name).decode("ascii")},'[:_NAME_LENGTH]
        beyond = None if said is None else said[:-1] + chr(ord(said[-1]) + 1)
        wanted = [
            "workspace_key = :key",
            *(["session = :session"] if session is not None else []),
            # By its own word SQLite knows the index of those under way.
            *(["state = 'running'" if state == "running" else "state = :state"] if state is not None else []),
            *([f"{STEP_NAME} >= :said AND {STEP_NAME} < :beyond"] if said is not None else []),
            *([] if reversible else [IRREVERSIBLE]),
            *([] if unended_at is None else [UNENDED]),
        ]
        statement = (
            f"SELECT payload FROM step WHERE {' AND '.join(wanted)} AND NOT {broken_seal('step')}"  # noqa: S608 - names of columns
            " ORDER BY number"
        )
        parameters: dict[str, object] = {
            "key": workspace_key,
            "session": session,
            "state": state,
            "said": said,
            "beyond": beyond,
            "moment": unended_at,
        }

        def ask() -> tuple[Effect, ...]:
            effects = [EFFECT.decode(str(row[0])) for row in self._all(statement, parameters)]
            return tuple(
                [one for one in effects if name in {None, one.name} and (reversible or one.irreversible)]
            )

        if state != "running" or name is not None or not reversible or unended_at is not None:
            return ask()
        return self._database.known(("running", workspace_key, session), ask)

    def turns(self, workspace_key: str, session: str, *, limit: int, skip: int = 0) -> Sequence[Effect]:
        """Return steps of a session that are of no task, newest first, so many after others."""
        statement = (
            f"SELECT payload FROM step WHERE workspace_key = :key AND session = :session AND {_OF_NO_TASK}"  # noqa: S608 - names of columns
            f" AND NOT {broken_seal('step')} ORDER BY number DESC LIMIT :limit OFFSET :skip"
        )
        parameters: dict[str, object] = {
            "key": workspace_key,
            "session": session,
            "limit": limit,
            "skip": skip,
        }

        def ask() -> tuple[Effect, ...]:
            return tuple([EFFECT.decode(str(row[0])) for row in self._all(statement, parameters)])

        if limit > _FEW or skip:
            return ask()
        return self._database.known(("turns", workspace_key, session, limit), ask)

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
        found, is_whole = _progress(self._connection, key)
        made = put_progress(
            self._connection,
            key,
            change(found),
            workspace_key=workspace_key,
            before=found if is_whole else None,
        )
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
            (effect.id, effect.workspace_key, effect.session, effect.state, EFFECT.encode(effect)),
        )
        reseal(self._connection, "step", effect.id)

    def _session(self, session: str) -> Session:
        row = self._connection.execute(f"{_SESSIONS} AND id = ?", (session,)).fetchone()
        _demand(row is not None, session)
        return _session(row)


def _session(row: Row) -> Session:
    payload, heartbeat_at = row
    session = SESSION.decode(str(payload))
    return session.replace(heartbeat_at=heartbeat_at if isinstance(heartbeat_at, int) else 0)


def _session_columns(session: Session) -> Row:
    return (session.exclusive, session.state, session.heartbeat_at, SESSION.encode(session))


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
    from lastgood.workplan.plan import PLAN  # lazily: a save has no use for plans

    connection.execute(
        "INSERT INTO run (id, workspace_key, fingerprint, payload) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint, payload = excluded.payload",
        (run.session, run.workspace_key, run.fingerprint, PLAN.encode(run.plan)),
    )
    reseal(connection, "run", run.session)


def _run(row: Row) -> PlannedRun:
    from lastgood.model.run import PlannedRun
    from lastgood.workplan.plan import PLAN

    session, workspace_key, fingerprint, payload = row
    return PlannedRun(
        session=str(session),
        workspace_key=str(workspace_key),
        fingerprint=str(fingerprint),
        plan=PLAN.decode(str(payload)),
    )


# --- Progress: a row, and where it has long lists a row for each of their parts (rule P8a) ---

# A list's part has the key of its progress, the name of the list and its number for an id.
_PART_ID = "%s/%s/%05d"
# Its payload is the id of its text as a blob, in hex digits, and the text.
_OID_DIGITS = 40


def put_progress(
    connection: sqlite3.Connection,
    key: str,
    progress: Progress,
    *,
    workspace_key: str,
    before: Progress | None = None,
) -> Progress:
    """Write progress, and of its long lists what is not as ``before``; return it with its lists in parts.

    Without ``before`` nothing is known of the rows that are there.
    """
    made = in_parts(progress)
    _put(connection, key, rows.pack_record(encode_progress(made)), workspace_key=workspace_key)
    if before is None:
        connection.execute("DELETE FROM progress WHERE id > :key || '/' AND id < :key || '0'", {"key": key})
    known = {} if before is None else lists_in_parts(before)
    wanted = lists_in_parts(made)
    for name in (TASKS, COMPLETED):
        old, new = known.get(name), wanted.get(name)
        for number, part in () if new is None else new.changed_parts(old):
            id, payload = _PART_ID % (key, name, number), f"{part.oid.hex()} {part.text}"
            _put(connection, id, payload, workspace_key=workspace_key)
        needed, there = (0 if one is None else one.parts_needed for one in (new, old))
        for number in range(needed, there):
            connection.execute("DELETE FROM progress WHERE id = ?", (_PART_ID % (key, name, number),))
    for items in wanted.values():
        items.remember()
    return made


def _put(connection: sqlite3.Connection, id: str, payload: str | bytes, *, workspace_key: str) -> None:
    connection.execute(_PUT, (id, workspace_key, payload))
    reseal(connection, "progress", id)


def read_progress_row(kept: object) -> None:
    """Raise `Damaged` for a row that is neither progress nor a part of a list."""
    text = rows.unpack_record(kept)
    if text.startswith("{"):
        decode_progress(text)
        return
    part = _part(text.encode("ascii", "replace"))
    from lastgood.model.long_list import Part

    if part is None or Part(text=part.text).oid != part.oid:
        raise Damaged("a part of a list is not what it was", hint="run: lastgood verify --repair")


def _part(payload: bytes) -> Part | None:
    from lastgood.model.long_list import Part

    try:
        oid = bytes.fromhex(payload[:_OID_DIGITS].decode("ascii"))
    except ValueError:
        return None
    return Part(content=payload[_OID_DIGITS + 1 :], oid=oid)


def _sound_parts(connection: sqlite3.Connection, key: str) -> Iterator[tuple[str, bytes]]:
    """Yield the rows of parts that nobody altered, in their order: id and payload."""
    for seal, *columns in connection.execute(_PARTS, {"key": key}).fetchall():
        if seal_of(*columns) == seal:
            _, id, _, payload = columns
            yield id.decode(), payload


def _progress_of_a_moment(connection: sqlite3.Connection, key: str, *, brief: bool) -> Progress:
    """Return progress, its parts as they were when it was: others may be changing it."""

    def read(known: sqlite3.Connection) -> Progress:
        return (_brief_progress(known, key) if brief else None) or _progress(known, key)[0]

    return read(connection) if connection.in_transaction else within("BEGIN", connection, work=read)


def _record(connection: sqlite3.Connection, key: str) -> Progress | None:
    row = connection.execute(_PROGRESS, (key,)).fetchone()
    return None if row is None else decode_progress(rows.unpack_record(row[0]))


def _brief_progress(connection: sqlite3.Connection, key: str) -> Progress | None:
    """Return progress whose long lists are told their parts of this moment; None if one is lost."""
    found = _record(connection, key)
    lists = {} if found is None else lists_in_parts(found)
    if all(items.is_claimed for items in lists.values()):
        return found
    payloads = [row[0] for row in connection.execute(_PAYLOADS, {"key": key})]
    if len(payloads) != sum(items.parts_needed for items in lists.values()):
        return None
    for _, items in sorted(lists.items()):  # as their rows are
        needed = items.parts_needed
        items.claim([payload[_OID_DIGITS + 1 :] for payload in payloads[:needed]])
        del payloads[:needed]
    return found


def _progress(connection: sqlite3.Connection, key: str) -> tuple[Progress, bool]:
    """Return progress, and whether its rows are what it says."""
    found = _record(connection, key)
    if found is None:
        return Progress(), False
    lists = lists_in_parts(found)
    if all(items.is_at_hand for items in lists.values()):
        wanted = sum(items.parts_needed for items in lists.values())
        # Where rows are lost, the next change writes all of them again.
        return found, not lists or connection.execute(_HOW_MANY, {"key": key}).fetchone()[0] == wanted
    parts = _parts_of(connection, key, lists)
    read = {name: _joined(name, items, parts.get(name, [])) for name, items in lists.items()}
    is_whole = all(items == lists[name] for name, items in read.items())
    tasks, completed = (
        read.get(name, there) for name, there in ((TASKS, found.tasks), (COMPLETED, found.features.completed))
    )
    return found.replace(tasks=tasks, features=found.features.replace(completed=completed)), is_whole


def _parts_of(
    connection: sqlite3.Connection, key: str, lists: Mapping[str, LongList[object]]
) -> dict[str, list[Part]]:
    """Return the parts that rows have of the lists of a record, by the name of the list."""
    parts: dict[str, list[Part]] = {}
    for id, payload in _sound_parts(connection, key):
        _, name, number = id.split("/")
        part = _part(payload) if name in lists else None
        # A backup that was brought back may have had a longer list.
        if part is not None and int(number) < lists[name].parts_needed:
            parts.setdefault(name, []).append(part)
    return parts


class TornList(Value):
    """A long list of progress that is not whole in its rows."""

    key: str
    workspace_key: str
    name: str
    size: int

    def __str__(self) -> str:
        return f"progress {self.key} lacks parts of its {self.size} {_ITEMS[self.name]}"


_ITEMS = {TASKS: "tasks", COMPLETED: "completed features"}


def torn_lists(connection: sqlite3.Connection) -> list[TornList]:
    """Return the long lists whose rows are not what the progress says; altered rows count as lost."""
    found = []
    for key, workspace_key, payload in connection.execute(_RECORDS).fetchall():
        text = rows.unpack_record(payload)
        lists = lists_in_parts(decode_progress(text)) if _NAMES_TREE in text else {}
        parts = _parts_of(connection, key, lists) if lists else {}
        found += [
            TornList(key=key, workspace_key=workspace_key, name=name, size=said.size)
            for name, said in lists.items()
            if not _is_of(said, parts.get(name, []), name=name)
        ]
    return found


_NAMES_TREE = '"tree":"'


def mend_lists(
    connection: sqlite3.Connection,
    *,
    backed_up: Mapping[str, bytes],
    objects: Callable[[], PartReader] | None,
) -> list[str]:
    """Write torn lists again, as a checkpoint or a backup has them; else what is left of them. Say so.

    ``backed_up`` are the rows of parts that a backup has, by id.
    """
    by_key: dict[str, list[TornList]] = {}
    for torn in torn_lists(connection):
        by_key.setdefault(torn.key, []).append(torn)
    return [
        line
        for key, lists in by_key.items()
        for line in _mend_record(connection, key, lists, backed_up=backed_up, objects=objects)
    ]


def _mend_record(
    connection: sqlite3.Connection,
    key: str,
    lists: Sequence[TornList],
    *,
    backed_up: Mapping[str, bytes],
    objects: Callable[[], PartReader] | None,
) -> list[str]:
    """Write a record's torn lists again, all at once: what is written is what its next reader knows."""
    found = _progress(connection, key)[0]  # of a torn list what is left
    row = connection.execute(_PROGRESS, (key,)).fetchone()
    wanted = lists_in_parts(decode_progress(rows.unpack_record(row[0])))
    done = []
    for torn in lists:
        said = wanted[torn.name]
        again = _from_objects(said, objects) or _from_backup(connection, torn, said, backed_up)
        if again is not None and torn.name == TASKS:
            found = found.replace(tasks=again)
        elif again is not None:
            found = found.replace(features=found.features.replace(completed=again))
        left = len(found.tasks if torn.name == TASKS else found.features.completed)
        part = f"{left} are left" if left < torn.size else f"{left} are kept, not all of one moment"
        done.append(f"{torn}: {'written again' if again is not None else part}")
    put_progress(connection, key, found, workspace_key=lists[0].workspace_key)
    return done


def _from_objects(
    said: LongList[object], objects: Callable[[], PartReader] | None
) -> LongList[object] | None:
    """Return a list as a checkpoint has it, all of it read; None if none has."""
    if objects is None:
        return None
    said.read_from(objects)
    return None if readable(said) is None else said


def _from_backup(
    connection: sqlite3.Connection, torn: TornList, said: LongList[object], backed_up: Mapping[str, bytes]
) -> LongList[object] | None:
    """Return a list of the rows that are left and those that a backup has; None if that is another one."""
    present = dict(_sound_parts(connection, torn.key))
    ids = [_PART_ID % (torn.key, torn.name, number) for number in range(said.parts_needed)]
    found = (_part(present.get(id, backed_up.get(id, b""))) for id in ids)
    parts = [part for part in found if part is not None]
    made = _of_parts(said, parts, name=torn.name)
    return made if made == said else None


def backed_up_parts(connection: sqlite3.Connection) -> dict[str, bytes]:
    """Return the sound rows of parts that a catalogue has, by id."""
    return dict(connection.execute(_PARTS_BY_ID).fetchall())


def _of_parts(said: LongList[object], parts: Sequence[Part], *, name: str) -> LongList[object]:
    from lastgood.model.long_list import LongList

    return LongList.of_parts(list_kind(name), parts, size=said.size, counts=said.counts)


def _is_of(said: LongList[object], parts: Sequence[Part], *, name: str) -> bool:
    return _of_parts(said, parts, name=name) == said


def _joined(name: str, said: LongList[object], parts: Sequence[Part]) -> Sequence[object]:
    """Return a list by its parts; where they are not what was said of it, what is left of them."""
    kind, made = list_kind(name), _of_parts(said, parts, name=name)
    if made == said:
        made.remember()
        return made
    left: list[object] = []
    for part in parts:
        try:
            left += part.items(kind)
        except Damaged:
            continue
    return tuple(left)
