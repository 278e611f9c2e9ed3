"""Plans, operations and the restore journal as canonical JSON."""

from __future__ import annotations

from lastgood.model.canonical import TEXT, Converter, Form, Wrong, sequence, words
from lastgood.model.checkpoint import SCOPES
from lastgood.model.operation import Journal, Operation, Part, RestorePlan, Step
from lastgood.model.tree import Entry
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.model.checkpoint import Scope

VERSION = 1
_TYPES = words("restore", "delete", "prune", "undo", "redo")


class _Closed(Value):
    """A closed directory of a journal."""

    path: bytes
    mode: int


def _scopes(given: object) -> tuple[Scope, ...]:
    named = sequence(TEXT).read(given)
    if not set(named) <= set(SCOPES):
        raise Wrong("a list of " + ", ".join(SCOPES))
    return tuple(scope for scope in SCOPES if scope in named)


def _write_closed(closed: Mapping[bytes, int]) -> object:
    return [_CLOSED.write(_Closed(path=path, mode=mode)) for path, mode in closed.items()]


_STEP = Form(
    Step,
    Action=words("write", "delete", "mkdir", "rmdir", "chmod", "keep", "skip"),
    Entry=Form(Entry, EntryKind=words("file", "link", "directory")),
)
_PART = Form(Part, PartScope=words(*SCOPES[1:]))
_CLOSED = Form(_Closed)
# Records of old name no parts, no scopes and no closed directories.
_OPERATION = Form(
    Operation, "an operation", version=VERSION, late="parts", OperationType=_TYPES, Step=_STEP, Part=_PART
)
_PLAN = Form(
    RestorePlan,
    late="scopes parts",
    without="merged",
    scopes=Converter(_scopes, list),
    Step=_STEP,
    Part=_PART,
    Favour=words("ours", "theirs", "markers"),
)
_JOURNAL = Form(
    Journal,
    "a restore journal",
    version=VERSION,
    late="closed",
    OperationType=_TYPES,
    RestorePlan=_PLAN,
    closed=Converter(
        lambda given: {one.path: one.mode for one in sequence(_CLOSED).read(given)}, _write_closed
    ),
)

part_record = _PART.write
encode_operation, decode_operation = _OPERATION.encode, _OPERATION.decode
decode_journal = _JOURNAL.decode


def encode_journal(journal: Journal) -> bytes:
    """Return a restore journal as JSON."""
    return _JOURNAL.encode(journal).encode("ascii")
