"""The texts of an export file: its header, and its facts as lines of JSON (docs/exchange.md)."""

from __future__ import annotations

from lastgood.codec.canonical import Fields, dumps, loads, path_value
from lastgood.codec.exchange_books import BOOKISH, Books, book_lines
from lastgood.codec.exchange_plans import plan_line, read_plan
from lastgood.codec.moment import iso
from lastgood.codec.progress import (
    decode_effect,
    decode_progress,
    decode_session,
    encode_effect,
    encode_progress,
    encode_session,
)
from lastgood.codec.verdict import check_of
from lastgood.errors import Damaged, Unsupported
from lastgood.ids import is_bare_id, is_checkpoint_id, name_fault
from lastgood.model.exchange import Bounds, Facts, Header, KeptProgress, Member, Origin, Parcelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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


def _checkpoint(fields: Fields) -> Parcelled:
    commit, name = fields.text("commit"), fields.text_or_none("name")
    if not is_checkpoint_id(fields.text("id")):
        raise fields.wrong("id", "the id of a checkpoint")
    if len(commit) != 40 or not _HEX.issuperset(commit):
        raise fields.wrong("commit", "a commit in hex")
    if name is not None and not is_bare_id(name) and name_fault(name) is not None:
        raise fields.wrong("name", "a name")
    check = fields.sub_or_none("check")
    return Parcelled(
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
    return KeptProgress(
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
