"""The texts of an export file: its header, and its facts as lines of JSON (docs/exchange.md)."""

from __future__ import annotations

from lastgood.errors import Damaged, Invalid, Unsupported
from lastgood.ids import is_bare_id, is_checkpoint_id, name_fault
from lastgood.model.canonical import Fields, base64_text, dumps, iso, loads, path_value
from lastgood.model.checkpoint import check_of
from lastgood.model.exchange import (
    Bounds,
    ExportedBook,
    ExportedCheckpoint,
    ExportedPlan,
    ExportedProgress,
    Facts,
    Header,
    Member,
    Origin,
)
from lastgood.model.session import (
    decode_effect,
    decode_progress,
    decode_session,
    encode_effect,
    encode_progress,
    encode_session,
)
from lastgood.paths import to_bytes
from lastgood.workplan.form import checked_plan
from lastgood.workplan.plan import decode_plan, encode_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.model.run import WorkPlan


# --- Books of a ledger as lines of an export's facts: a book, then its entries and its pieces ---

BOOKISH = ("book", "entry", "piece")


def book_lines(book: ExportedBook) -> Iterator[bytes]:
    """Yield the lines of a book."""
    yield dumps(
        {
            "fact": "book",
            "workspace_key": book.workspace_key,
            "space": book.space,
            "name": base64_text(book.name),
        }
    )
    for key, mark, head, body in book.entries:
        yield dumps(
            {
                "fact": "entry",
                "key": base64_text(key),
                "mark": None if mark is None else base64_text(mark),
                "head": base64_text(head),
                "body": base64_text(body),
            }
        )
    for piece in book.pieces:
        yield dumps({"fact": "piece", "content": base64_text(piece)})


class Books:
    """The books that lines speak of, in their order."""

    def __init__(self) -> None:
        self._whole: list[ExportedBook] = []
        self._begun: Fields | None = None
        self._entries: list[tuple[bytes, bytes | None, bytes, bytes]] = []
        self._pieces: list[bytes] = []

    def read(self, kind: str, fields: Fields) -> None:
        """Take a line; entries and pieces belong to the book before them."""
        if kind == "book":
            self._end()
            self._begun = fields
        elif self._begun is None:
            raise fields.wrong("fact", "after the book that it belongs to")
        elif kind == "piece":
            self._pieces.append(fields.binary("content"))
        else:
            mark = None if fields.is_null("mark") else fields.binary("mark")
            entry = (fields.binary("key"), mark, fields.binary("head"), fields.binary("body"))
            self._entries.append(entry)

    def whole(self) -> tuple[ExportedBook, ...]:
        """Return the books."""
        self._end()
        return tuple(self._whole)

    def _end(self) -> None:
        if self._begun is None:
            return
        fields, self._begun = self._begun, None
        key, space = fields.text("workspace_key"), fields.text("space")
        if not (key + space).isprintable() or not space:
            raise fields.wrong("space", "a plain text")
        self._whole.append(
            ExportedBook(
                workspace_key=key,
                space=space,
                name=fields.binary("name"),
                entries=tuple(self._entries),
                pieces=tuple(self._pieces),
            )
        )
        self._entries, self._pieces = [], []


# --- The plans of runs as lines of an export's facts: each plan once, with the sessions that carry it out
# ---


def plan_line(kept: ExportedPlan) -> bytes:
    """Return the line of a plan."""
    return dumps(
        {
            "fact": "plan",
            "sessions": list(kept.sessions),
            "workspace_key": kept.workspace_key,
            "plan": loads(encode_plan(kept.plan), what="a work plan"),
        }
    )


def read_plan(fields: Fields) -> ExportedPlan:
    """Return the plan of a line; `Damaged` unless a run could have begun with it."""
    fields.sub("plan")
    plan = decode_plan(dumps(fields.object_or_empty("plan")))
    sessions = fields.texts("sessions")
    if not sessions or len(set(sessions)) != len(sessions):
        raise fields.wrong("sessions", "a list of sessions")
    if not is_sound(plan):
        raise fields.wrong("plan", "a plan that a run could carry out")
    return ExportedPlan(sessions=sessions, workspace_key=fields.text("workspace_key"), plan=plan)


def is_sound(plan: WorkPlan) -> bool:
    """Tell whether a plan is one that a file or a program could have given to a run, in its order."""
    source = plan.source
    try:
        path = b"/" if source is None else to_bytes(source)
        return path.startswith(b"/") and b"\0" not in path and checked_plan(plan) == plan
    except (Invalid, UnicodeEncodeError):  # the latter for a path that no file can have
        return False


# --- The texts of an export file: its header, and its facts as lines of JSON (docs/exchange.md) ---

SCHEMA = "lastgood.export/1"
_HEX = frozenset("0123456789abcdef")
# Far above what any store counts to, and far below where SQLite's numbers end.
_LAST_SEQUENCE = 1 << 48
_LAST_MOMENT = 1 << 62


def encode_header(header: Header) -> bytes:
    """Return the header as JSON."""
    return dumps(
        {
            "schema": SCHEMA,
            "created_at": iso(header.created_at),
            "created_ns": header.created_at,
            "checkpoints": header.checkpoints,
            "facts": _member_record(header.facts),
            "pack": _member_record(header.pack)
            | {
                "objects": header.bounds.objects,
                "largest": header.bounds.largest,
                "total": header.bounds.total,
            },
        }
    )


def decode_header(text: bytes) -> Header:
    """Return the header that a text holds; `Damaged` if it is none, `Unsupported` if it is newer."""
    fields = Fields(loads(text, what="the header of the export"), what="the header of the export")
    if fields.text("schema") != SCHEMA:
        raise Unsupported(
            f"the export has the form {fields.text('schema')!r}; this lastgood reads {SCHEMA}",
            hint="use a newer lastgood",
        )
    pack = fields.sub("pack")
    return Header(
        created_at=fields.number("created_ns"),
        checkpoints=_within(fields, "checkpoints", _LAST_SEQUENCE),
        facts=_member(fields.sub("facts")),
        pack=_member(pack),
        bounds=Bounds(
            objects=_within(pack, "objects", _LAST_SEQUENCE),
            largest=_within(pack, "largest", _LAST_MOMENT),
            total=_within(pack, "total", _LAST_MOMENT),
        ),
    )


def encode_facts(facts: Facts) -> bytes:
    """Return facts, one a line."""
    return b"".join(line + b"\n" for line in _lines(facts))


def decode_facts(text: bytes) -> Facts:
    """Return the facts that lines hold; `Damaged` if one is wrong, `Unsupported` if one is newer."""
    found: dict[str, list[object]] = {"workspace": [], "checkpoint": [], "session": [], "progress": []}
    found |= {"step": [], "plan": []}
    books = Books()
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        fields = Fields(loads(line, what=f"line {number} of the facts"), what=f"line {number} of the facts")
        kind = fields.one_of("fact", (*_READERS, *BOOKISH))
        if kind in BOOKISH:
            books.read(kind, fields)
            continue
        try:
            found[kind].append(_READERS[kind](fields))
        except RecursionError:
            raise fields.wrong("fact", "less deeply nested") from None
    if text and not text.endswith(b"\n"):
        raise Damaged("the facts of the export end within a line", hint="export again")
    return Facts(
        workspaces=tuple(found["workspace"]),  # type: ignore[arg-type]  # each reader makes its own
        checkpoints=tuple(found["checkpoint"]),  # type: ignore[arg-type]  # as above
        sessions=tuple(found["session"]),  # type: ignore[arg-type]  # as above
        progress=tuple(found["progress"]),  # type: ignore[arg-type]  # as above
        effects=tuple(found["step"]),  # type: ignore[arg-type]  # as above
        plans=tuple(found["plan"]),  # type: ignore[arg-type]  # as above
        books=books.whole(),
    )


def _lines(facts: Facts) -> Iterator[bytes]:
    for row in facts.workspaces:
        path = path_value(row.path.encode("utf-8", "surrogateescape"))
        yield dumps({"fact": "workspace", **row.as_dict(), "path": path})
    for one in facts.checkpoints:
        check = None if one.check is None else one.check.as_dict()
        yield dumps({"fact": "checkpoint", **one.as_dict(), "check": check})
    for session in facts.sessions:
        yield dumps({"fact": "session", "session": loads(encode_session(session), what="a session")})
    for kept in facts.progress:
        record = loads(encode_progress(kept.progress), what="progress")
        yield dumps(
            {"fact": "progress", "key": kept.key, "workspace_key": kept.workspace_key, "progress": record}
        )
    for effect in facts.effects:
        yield dumps({"fact": "step", "step": loads(encode_effect(effect), what="a step")})
    for plan in facts.plans:
        yield plan_line(plan)
    for book in facts.books:
        yield from book_lines(book)


def _workspace(fields: Fields) -> Origin:
    key = fields.text("key")
    if not key or len(key) > 64 or not _HEX.issuperset(key):
        raise fields.wrong("key", "the key of a workspace")
    path = fields.path("path").decode("utf-8", "surrogateescape")
    if not path.startswith("/") or "\0" in path:
        raise fields.wrong("path", "an absolute path")
    return Origin(
        key=key,
        path=path,
        machine=_unicode(fields, "machine"),
        created_at=_within(fields, "created_at", _LAST_MOMENT),
    )


def _checkpoint(fields: Fields) -> ExportedCheckpoint:
    commit, name = fields.text("commit"), fields.text_or_none("name")
    if not is_checkpoint_id(fields.text("id")):
        raise fields.wrong("id", "the id of a checkpoint")
    if len(commit) != 40 or not _HEX.issuperset(commit):
        raise fields.wrong("commit", "a commit in hex")
    if name is not None and not is_bare_id(name) and name_fault(name) is not None:
        raise fields.wrong("name", "a name")
    check = fields.sub_or_none("check")
    return ExportedCheckpoint(
        id=fields.text("id"),
        commit=commit,
        sequence=max(1, _within(fields, "sequence", _LAST_SEQUENCE)),
        name=name,
        pinned=fields.flag("pinned"),
        good=None if fields.is_null("good") else fields.flag("good"),
        check=None if check is None else check_of(check),
    )


def _session(fields: Fields) -> object:
    fields.sub("session")
    session = decode_session(dumps(fields.object_or_empty("session")))
    _stored_text(fields, session.id, session.workspace_key)
    if not all(0 <= at <= _LAST_MOMENT for at in (session.started_at, session.heartbeat_at)):
        raise fields.wrong("session", "a session")
    return session


def _progress(fields: Fields) -> object:
    fields.sub("progress")
    return ExportedProgress(
        key=_unicode(fields, "key"),
        workspace_key=_unicode(fields, "workspace_key"),
        progress=decode_progress(dumps(fields.object_or_empty("progress"))),
    )


def _step(fields: Fields) -> object:
    fields.sub("step")
    effect = decode_effect(dumps(fields.object_or_empty("step")))
    _stored_text(fields, effect.id, effect.workspace_key, effect.session or "")
    if not 0 <= effect.after <= _LAST_SEQUENCE:
        raise fields.wrong("step", "a step of the work")
    return effect


_READERS = {
    "workspace": _workspace,
    "checkpoint": _checkpoint,
    "session": _session,
    "progress": _progress,
    "step": _step,
    "plan": read_plan,
}


def _member_record(member: Member) -> dict[str, object]:
    return {"bytes": member.size, "sha256": member.sha256}


def _member(fields: Fields) -> Member:
    digest = fields.text("sha256")
    if len(digest) != 64 or not _HEX.issuperset(digest):
        raise fields.wrong("sha256", "a SHA-256 in hex")
    return Member(size=_within(fields, "bytes", _LAST_MOMENT), sha256=digest)


def _within(fields: Fields, name: str, most: int) -> int:
    value = fields.number(name)
    if not 0 <= value <= most:
        raise fields.wrong(name, "a number of possible size")
    return value


def _unicode(fields: Fields, name: str) -> str:
    text = fields.text(name)
    _stored_text(fields, text)
    return text


def _stored_text(fields: Fields, *texts: str) -> None:
    """Refuse what SQLite cannot hold."""
    for text in texts:
        if any("\ud800" <= character <= "\udfff" or character == "\0" for character in text):
            raise fields.wrong("text", "Unicode text")
