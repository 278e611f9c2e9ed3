"""Plans, operations and the restore journal as canonical JSON."""

from __future__ import annotations

from lastgood.model.canonical import Fields, dumps, path_value, versioned
from lastgood.model.operation import SCOPES, Journal, Operation, Part, RestorePlan, Step
from lastgood.model.tree import Entry
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.operation import Action, Favour, OperationType, PartScope, Scope
    from lastgood.model.tree import EntryKind

VERSION = 1
_KINDS = ("file", "link", "directory")
_ACTIONS = ("write", "delete", "mkdir", "rmdir", "chmod", "keep", "skip")
_FAVOURS = ("ours", "theirs", "markers")
_TYPES = ("restore", "delete", "prune", "undo", "redo")


def encode_operation(operation: Operation) -> str:
    """Return an operation as JSON text."""
    return _text(
        {
            "version": VERSION,
            "id": operation.id,
            "workspace_key": operation.workspace_key,
            "type": operation.type,
            "at": operation.at,
            "target": operation.target,
            "guard": operation.guard,
            "undone": operation.undone,
            "steps": [_step_record(step) for step in operation.steps],
            "checkpoints": list(operation.checkpoints),
            "of": operation.of,
            "parts": [part_record(part) for part in operation.parts],
            "session": operation.session,
        }
    )


def decode_operation(text: str | bytes) -> Operation:
    """Return the operation that a text holds; `Damaged` if it is none."""
    fields = _fields(text, what="an operation")
    return Operation(
        id=fields.text("id"),
        workspace_key=fields.text("workspace_key"),
        type=cast("OperationType", fields.one_of("type", _TYPES)),
        at=fields.number("at"),
        target=fields.text_or_none("target"),
        guard=fields.text_or_none("guard"),
        undone=fields.flag("undone"),
        steps=tuple(_step(item) for item in fields.subs("steps")),
        checkpoints=fields.texts("checkpoints"),
        of=fields.text_or_none("of"),
        parts=_parts(fields),
        session=fields.text_or_none("session"),
    )


def encode_journal(journal: Journal) -> bytes:
    """Return a restore journal as JSON."""
    plan = journal.plan
    return dumps(
        {
            "version": VERSION,
            "operation": journal.operation,
            "type": journal.type,
            "of": journal.of,
            "started_at": journal.started_at,
            "guard": journal.guard,
            "target_tree": journal.target_tree,
            "session": journal.session,
            "closed": [{"path": path_value(path), "mode": mode} for path, mode in journal.closed.items()],
            "plan": {
                "id": plan.id,
                "target": plan.target,
                "workspace_key": plan.workspace_key,
                "paths": [path_value(path) for path in plan.paths],
                "steps": [_step_record(step) for step in plan.steps],
                "discard": plan.discard,
                "force": plan.force,
                "scopes": list(plan.scopes),
                "parts": [part_record(part) for part in plan.parts],
                "base": plan.base,
                "favour": plan.favour,
            },
        }
    )


def decode_journal(text: bytes) -> Journal:
    """Return the journal that a text holds; `Damaged` if it is none."""
    fields = _fields(text, what="a restore journal")
    plan = fields.sub("plan")
    return Journal(
        operation=fields.text("operation"),
        type=cast("OperationType", fields.one_of("type", _TYPES)),
        of=fields.text_or_none("of"),
        started_at=fields.number("started_at"),
        guard=fields.text("guard"),
        target_tree=fields.text("target_tree"),
        plan=RestorePlan(
            id=plan.text("id"),
            target=plan.text("target"),
            workspace_key=plan.text("workspace_key"),
            paths=plan.paths("paths"),
            steps=tuple(_step(item) for item in plan.subs("steps")),
            discard=plan.flag("discard"),
            force=plan.flag("force"),
            scopes=_scopes(plan),
            parts=_parts(plan),
            base=plan.text_or_none("base"),
            favour=_favour(plan),
        ),
        session=fields.text_or_none("session"),
        closed=_closed(fields),
    )


def part_record(part: Part) -> dict[str, object]:
    """Return a part as JSON."""
    return {"scope": part.scope, "before": dict(part.before), "after": dict(part.after)}


def _closed(fields: Fields) -> dict[bytes, int]:
    """Return the closed directories of a journal; those of old name none."""
    if fields.is_null("closed"):
        return {}
    return {item.path("path"): item.number("mode") for item in fields.subs("closed")}


def _parts(fields: Fields) -> tuple[Part, ...]:
    """Return the parts of a record; those of old have none."""
    if fields.is_null("parts"):
        return ()
    return tuple(
        Part(
            scope=cast("PartScope", item.one_of("scope", SCOPES[1:])),
            before=item.object_or_empty("before"),
            after=item.object_or_empty("after"),
        )
        for item in fields.subs("parts")
    )


def _scopes(fields: Fields) -> tuple[Scope, ...]:
    given = ("files",) if fields.is_null("scopes") else fields.texts("scopes")
    if not set(given) <= set(SCOPES):
        raise fields.wrong("scopes", "a list of " + ", ".join(SCOPES))
    return tuple(scope for scope in SCOPES if scope in given)


def _favour(fields: Fields) -> Favour | None:
    return None if fields.is_null("favour") else cast("Favour", fields.one_of("favour", _FAVOURS))


def _text(record: dict[str, object]) -> str:
    return dumps(record).decode("ascii")


def _fields(text: str | bytes, *, what: str) -> Fields:
    return versioned(text, what=what, version=VERSION)


def _step_record(step: Step) -> dict[str, object]:
    return {
        "path": path_value(step.path),
        "action": step.action,
        "want": _entry_record(step.want),
        "have": _entry_record(step.have),
        "reason": step.reason,
        "forced": step.forced,
    }


def _step(fields: Fields) -> Step:
    return Step(
        path=fields.path("path"),
        action=cast("Action", fields.one_of("action", _ACTIONS)),
        want=_entry(fields.sub_or_none("want")),
        have=_entry(fields.sub_or_none("have")),
        reason=fields.text_or_none("reason"),
        forced=fields.flag("forced"),
    )


def _entry_record(entry: Entry | None) -> dict[str, object] | None:
    if entry is None:
        return None
    return {
        "name": path_value(entry.name),
        "kind": entry.kind,
        "mode": entry.mode,
        "oid": entry.oid.hex(),
        "modes": entry.modes.hex(),
    }


def _entry(fields: Fields | None) -> Entry | None:
    if fields is None:
        return None
    return Entry(
        name=fields.path("name"),
        kind=cast("EntryKind", fields.one_of("kind", _KINDS)),
        mode=fields.number("mode"),
        oid=_oid(fields, "oid"),
        modes=_oid(fields, "modes"),
    )


def _oid(fields: Fields, name: str) -> bytes:
    try:
        return bytes.fromhex(fields.text(name))
    except ValueError as error:
        raise fields.wrong(name, "an object id in hex") from error
