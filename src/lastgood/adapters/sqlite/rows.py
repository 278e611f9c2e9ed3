"""Rows to values and back."""

from __future__ import annotations

from lastgood.adapters.sqlite import manifests
from lastgood.adapters.sqlite.seal import broken_seal
from lastgood.codec.canonical import Fields, dumps, loads
from lastgood.codec.manifest import decode, encode, encode_gaps
from lastgood.errors import Damaged, Invalid, Unsupported
from lastgood.model.checkpoint import (
    Actor,
    Check,
    Checkpoint,
    IgnoreState,
    Manifest,
    Metrics,
    TreeRef,
)
from lastgood.model.tree import Counts
from lastgood.names import to_bytes, to_text
from lastgood.ports.catalogue import CheckpointFacts, WorkspaceRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.operation import Operation

    Row = tuple[object, ...]

_HEX = frozenset("0123456789abcdef")
FACTS = "id, sequence, kind, created_at, tree, modes, partial, gaps"
OPERATION = "payload, undone"
WORKSPACE = "key, path, machine, created_at"
BIRTH = (
    "id, workspace_key, kind, created_at, name, commit_id, tree, modes, previous, partial, pinned,"
    " recovered, gaps, manifest, session, task, moment, step"
)
BIRTH_MARKS = ", ".join("?" * 18)
CHECKPOINT = (
    "manifest, commit_id, sequence, name, pinned, good, verdict, damaged, recovered, deleted_at,"
    f" {broken_seal('checkpoint')}, id, workspace_key, kind, created_at, tree, modes, previous, partial"
)


def birth(manifest: Manifest, *, commit: str, name: str | None, pinned: bool, recovered: bool) -> Row:
    """Return the values of a new checkpoint's columns, in the order of `BIRTH`."""
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
        manifests.pack(encode(manifest)),
        manifest.session,
        manifest.task,
        manifest.moment,
        manifest.progress.position.step,
    )


def stored_name(name: str | None) -> str | None:
    """Return a name that SQLite can hold; `Invalid` if it is not Unicode."""
    if name is not None and any("\ud800" <= character <= "\udfff" for character in name):
        raise Invalid("a checkpoint's name must be Unicode text", hint="choose another name")
    return name


def stored_reason(reason: str | None) -> str | None:
    """Return a reason that SQLite can hold; bytes that are not UTF-8 are spelt out."""
    return None if reason is None else reason.encode("utf-8", "backslashreplace").decode("utf-8")


def checkpoint(row: Row) -> Checkpoint:
    """Return the checkpoint of a row of `CHECKPOINT`.

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
        manifest = decode(manifests.unpack(text))
        check = None if verdict is None else _check(_text(verdict))
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


def _check(text: str) -> Check:
    from lastgood.codec.verdict import check_of  # lazily: few checkpoints were judged

    return check_of(Fields(loads(text, what="a verdict"), what="a verdict"))


def stored_verdict(check: Check) -> str:
    """Return what came of a check as a text that SQLite can hold."""
    return dumps(check.as_dict()).decode("ascii")


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


def workspace(row: Row) -> WorkspaceRow:
    """Return the workspace of a row of `WORKSPACE`."""
    key, path, machine, created_at = row
    text = to_text(path) if isinstance(path, bytes) else _text(path)
    return WorkspaceRow(key=_text(key), path=text, machine=_text(machine), created_at=_number(created_at))


def workspace_columns(row: WorkspaceRow) -> Row:
    """Return a workspace's values in the order of `WORKSPACE`."""
    return (row.key, to_bytes(row.path), row.machine, row.created_at)


def operation(row: Row) -> Operation:
    """Return the operation of a row of `OPERATION`."""
    from lastgood.codec.records import decode_operation  # lazily: saves and lists know of no operation

    payload, undone = row
    return decode_operation(_text(payload)).replace(undone=bool(undone))


def operation_columns(operation: Operation) -> Row:
    """Return an operation's values: id, workspace_key, type, at, undone, payload."""
    from lastgood.codec.records import encode_operation

    return (
        operation.id,
        operation.workspace_key,
        operation.type,
        operation.at,
        operation.undone,
        encode_operation(operation),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _hex(value: object) -> str:
    # Of an altered row even this may be wrong; what names nothing is found missing by whoever looks.
    text = _text(value)
    return text if len(text) == 40 and _HEX.issuperset(text) else "0" * 40
