"""The texts of an export file: its header, and its facts as lines of JSON (docs/exchange.md)."""

from __future__ import annotations

from lastgood.errors import Damaged, Invalid, Unsupported
from lastgood.ids import is_bare_id, is_checkpoint_id, name_fault
from lastgood.model.canonical import (
    BINARY,
    NUMBER,
    OS_TEXT,
    TEXT,
    Converter,
    Fields,
    Form,
    Wrong,
    base64_text,
    dumps,
    iso,
    loads,
    optional,
)
from lastgood.model.checkpoint import CHECK
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
from lastgood.model.session import EFFECT, PROGRESS, SESSION
from lastgood.paths import to_bytes
from lastgood.workplan.form import checked_plan
from lastgood.workplan.plan import PLAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from lastgood.model.run import WorkPlan
    from lastgood.model.session import Effect, Session


# --- What is converted more strictly than in a store: it was written elsewhere ---

SCHEMA = "lastgood.export/1"
_HEX = frozenset("0123456789abcdef")
# Far above what any store counts to, and far below where SQLite's numbers end.
_LAST_SEQUENCE = 1 << 48
_LAST_MOMENT = 1 << 62


def _strict(one: Converter, is_good: Callable[[Any], bool], wanted: str) -> Converter:
    """Return a converter that takes only some of what another takes."""

    def read(given: object) -> object:
        value = given if type(given) is one.kind else one.read(given)
        if not is_good(value):
            raise Wrong(wanted)
        return value

    return Converter(read, one.write)


def _hex(digits: int) -> Callable[[str], bool]:
    return lambda text: len(text) == digits and _HEX.issuperset(text)


def _up_to(most: int) -> Converter:
    return _strict(NUMBER, lambda number: 0 <= number <= most, "a number of possible size")


def _embedded(form: Form[Any]) -> Converter:
    """Return the converter of a record with a version of its own."""

    def read(given: object) -> object:
        if not isinstance(given, dict):
            raise Wrong("an object")
        return form.decode(dumps(given))

    return Converter(read, form.record)


_ORIGIN = Form(
    Origin,
    key=_strict(TEXT, lambda key: 0 < len(key) <= 64 and _HEX.issuperset(key), "the key of a workspace"),
    path=_strict(OS_TEXT, lambda path: path.startswith("/") and "\0" not in path, "an absolute path"),
    created_at=_up_to(_LAST_MOMENT),
)
_PARCELLED = Form(
    ExportedCheckpoint,
    id=_strict(TEXT, is_checkpoint_id, "the id of a checkpoint"),
    commit=_strict(TEXT, _hex(40), "a commit in hex"),
    sequence=_up_to(_LAST_SEQUENCE),
    name=optional(_strict(TEXT, lambda name: is_bare_id(name) or name_fault(name) is None, "a name")),
    Check=CHECK,
)
_PROGRESS = Form(ExportedProgress, progress=_embedded(PROGRESS))
_PLAN = Form(ExportedPlan, plan=_embedded(PLAN))
_BOUNDS = Form(
    Bounds, objects=_up_to(_LAST_SEQUENCE), largest=_up_to(_LAST_MOMENT), total=_up_to(_LAST_MOMENT)
)
_MEMBER = Form(
    Member,
    names={"size": "bytes"},
    size=_up_to(_LAST_MOMENT),
    sha256=_strict(TEXT, _hex(64), "a SHA-256 in hex"),
)
_HEADER = Form(
    Header,
    "the header of the export",
    names={"created_at": "created_ns", "bounds": "pack"},
    checkpoints=_up_to(_LAST_SEQUENCE),
    Member=_MEMBER,
    Bounds=_BOUNDS,
)


# --- Books of a ledger as lines: a book, then its entries and its pieces ---

_OF_BOOKS = ("book", "entry", "piece")


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
            self._pieces.append(fields.read("content", BINARY))
        else:
            key, mark = fields.read("key", BINARY), fields.read("mark", optional(BINARY))
            self._entries.append((key, mark, fields.read("head", BINARY), fields.read("body", BINARY)))

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
                name=fields.read("name", BINARY),
                entries=tuple(self._entries),
                pieces=tuple(self._pieces),
            )
        )
        self._entries, self._pieces = [], []


def _book_lines(book: ExportedBook) -> Iterator[bytes]:
    name = base64_text(book.name)
    yield _line("book", {"workspace_key": book.workspace_key, "space": book.space, "name": name})
    for entry in book.entries:
        texts = [None if cell is None else base64_text(cell) for cell in entry]
        yield _line("entry", dict(zip(("key", "mark", "head", "body"), texts, strict=True)))
    for piece in book.pieces:
        yield _line("piece", {"content": base64_text(piece)})


# --- The header, and the facts ---


def encode_header(header: Header) -> bytes:
    """Return the header as JSON."""
    return dumps(
        {
            "schema": SCHEMA,
            "created_at": iso(header.created_at),
            "created_ns": header.created_at,
            "checkpoints": header.checkpoints,
            "facts": _MEMBER.write(header.facts),
            "pack": _MEMBER.write(header.pack) | _BOUNDS.write(header.bounds),
        }
    )


def decode_header(text: bytes) -> Header:
    """Return the header that a text holds; `Damaged` if it is none, `Unsupported` if it is newer."""
    record = loads(text, what=_HEADER.what)
    schema = Fields(record, what=_HEADER.what).text("schema")
    if schema != SCHEMA:
        raise Unsupported(
            f"the export has the form {schema!r}; this lastgood reads {SCHEMA}", hint="use a newer lastgood"
        )
    return _HEADER.take(record)


def encode_facts(facts: Facts) -> bytes:
    """Return facts, one a line."""
    return b"".join(line + b"\n" for line in _lines(facts))


def _lines(facts: Facts) -> Iterator[bytes]:
    yield from (_line("workspace", _ORIGIN.write(one)) for one in facts.workspaces)
    yield from (_line("checkpoint", _PARCELLED.write(one)) for one in facts.checkpoints)
    yield from (_line("session", {"session": SESSION.record(one)}) for one in facts.sessions)
    yield from (_line("progress", _PROGRESS.write(one)) for one in facts.progress)
    yield from (_line("step", {"step": EFFECT.record(one)}) for one in facts.effects)
    yield from (_line("plan", _PLAN.write(one)) for one in facts.plans)
    for book in facts.books:
        yield from _book_lines(book)


def _line(kind: str, record: dict[str, object]) -> bytes:
    return dumps({"fact": kind, **record})


def decode_facts(text: bytes) -> Facts:
    """Return the facts that lines hold; `Damaged` if one is wrong, `Unsupported` if one is newer."""
    found: dict[str, list[Any]] = {kind: [] for kind in _READERS}
    books = Books()
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        fields = Fields(loads(line, what=f"line {number} of the facts"), what=f"line {number} of the facts")
        kind = fields.one_of("fact", (*_READERS, *_OF_BOOKS))
        if kind in _OF_BOOKS:
            books.read(kind, fields)
            continue
        try:
            found[kind].append(_READERS[kind](fields))
        except RecursionError:
            raise fields.wrong("fact", "less deeply nested") from None
    if text and not text.endswith(b"\n"):
        raise Damaged("the facts of the export end within a line", hint="export again")
    return Facts(
        workspaces=tuple(found["workspace"]),
        checkpoints=tuple(found["checkpoint"]),
        sessions=tuple(found["session"]),
        progress=tuple(found["progress"]),
        effects=tuple(found["step"]),
        plans=tuple(found["plan"]),
        books=books.whole(),
    )


def _workspace(fields: Fields) -> Origin:
    origin = fields.all(_ORIGIN)
    _stored_text(fields, origin.machine)
    return origin


def _checkpoint(fields: Fields) -> ExportedCheckpoint:
    one = fields.all(_PARCELLED)
    return one.replace(sequence=max(1, one.sequence))


def _session(fields: Fields) -> Session:
    session: Session = fields.read("session", _embedded(SESSION))
    _stored_text(fields, session.id, session.workspace_key)
    if not all(0 <= at <= _LAST_MOMENT for at in (session.started_at, session.heartbeat_at)):
        raise fields.wrong("session", "a session")
    return session


def _progress(fields: Fields) -> ExportedProgress:
    kept = fields.all(_PROGRESS)
    _stored_text(fields, kept.key, kept.workspace_key)
    return kept


def _step(fields: Fields) -> Effect:
    effect: Effect = fields.read("step", _embedded(EFFECT))
    _stored_text(fields, effect.id, effect.workspace_key, effect.session or "")
    if not 0 <= effect.after <= _LAST_SEQUENCE:
        raise fields.wrong("step", "a step of the work")
    return effect


def _plan(fields: Fields) -> ExportedPlan:
    """Return the plan of a line; `Damaged` unless a run could have begun with it."""
    kept = fields.all(_PLAN)
    if not kept.sessions or len(set(kept.sessions)) != len(kept.sessions):
        raise fields.wrong("sessions", "a list of sessions")
    if not is_sound(kept.plan):
        raise fields.wrong("plan", "a plan that a run could carry out")
    return kept


def is_sound(plan: WorkPlan) -> bool:
    """Tell whether a plan is one that a file or a program could have given to a run, in its order."""
    source = plan.source
    try:
        path = b"/" if source is None else to_bytes(source)
        return path.startswith(b"/") and b"\0" not in path and checked_plan(plan) == plan
    except (Invalid, UnicodeEncodeError):  # the latter for a path that no file can have
        return False


def _stored_text(fields: Fields, *texts: str) -> None:
    """Refuse what SQLite cannot hold."""
    for text in texts:
        if any("\ud800" <= character <= "\udfff" or character == "\0" for character in text):
            raise fields.wrong("text", "Unicode text")


_READERS: dict[str, Callable[[Fields], object]] = {
    "workspace": _workspace,
    "checkpoint": _checkpoint,
    "session": _session,
    "progress": _progress,
    "step": _step,
    "plan": _plan,
}
