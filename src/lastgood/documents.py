"""What the verbs return, as the published JSON documents (one document a verb).

What a document says of a value stands in one table, and how it says each field in the field's annotation.
"""

from __future__ import annotations

from operator import attrgetter

from lastgood.errors import Damaged, LastgoodError
from lastgood.model.canonical import base64_text, iso, path_value
from lastgood.value import Alias, Value, cast, defaults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from lastgood.model.activity import Activity
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.model.report import LogReport, PurgePlan, PurgeReport, UndoPlan, UndoReport
    from lastgood.model.run import RunEvent, RunReport
    from lastgood.retention.policy import PrunePlan

    Document = dict[str, object]
    Show = Callable[[Any], object]

# What is said of the values of a class; all its fields, where it has no row. `...` stands for all fields,
# `*name` for what is said of that one, `name:field` for one with another name, or for a field of it. `name?`
# is left out where it has its default, `name!` is null where it is empty.
_TABLE = {
    "Activity": "workspace store session tasks checkpoints operations tokens saves sizes buckets notes",
    "Actor": "... name? call?",
    "BlamedFile": "path *by",
    "BlamedLines": "first? last? path *by",
    "BlameReport": "path kind whole lines files",
    "Bucket": "... checkpoints",
    "ChangedBeside": "path checkpoint:checkpoint.id actor why?",
    "Checkpoint": "*manifest id short_id name sequence commit good check pinned damaged recovered",
    "Conversation": "messages bytes:size source?",
    "Decision": "id reason",
    "DeleteReport": "operation deleted:checkpoints free_after needed",
    "DiffReport": "from:from_ to files patch? unmatched",
    "Effect": "id name task attempt irreversible state session started_at ended_at",
    "ExportReport": "file bytes:size checkpoints workspaces sessions damaged books books_withheld withheld",
    "FileDiff": "... old_path? private?",
    "Gap": "... size?",
    "HeadMoved": "commits from:from_ to from_branch to_branch",
    "ImportReport": "file added:checkpoints known reduced workspaces sessions books attached",
    "Manifest": "message kind created_at workspace session previous tree:root.tree changes files bytes:size"
    " ignored gaps partial actor task moment position:progress.position! progress! git metrics"
    " conversation metadata",
    "NotHeld": "... head? size? changed?",
    "Operation": "id type at target guard undone checkpoints? of?",
    "Origin": "key path",
    "Outcome": "... reason? kept? left?",
    "Owner": "host pid command",
    "PartOutcome": "... reason? details?",
    "Progress": "goal tasks features state",
    "ProgressReport": "session position:progress.position! progress checkpoint:saved.checkpoint"
    " unknown_effects:unknown task?",
    "PruneReport": "dry_run keep remove set_aside freed_bytes waiting_bytes free_after operation"
    " beyond_undo:lost faults",
    "PrunePlan": "keep remove freed_bytes free_after beyond_undo:lost",
    "PurgePlan": "... others elsewhere",
    "RecoverReport": "state session checkpoint returned position progress! tasks unknown_effects"
    " irreversible rolled_back_to edited changed_beside? undone_tasks passed_over? live_processes"
    " git_matches head_moved drift artifacts waiting elsewhere done interrupted_restore guard operation"
    " files cleared? not_held parts conversation? took_over:took_over.id beside:beside.id",
    "RestoreReport": "plan target guard operation dry_run scopes counts files head_moved irreversible"
    " conversation progress parts conflicts directory folder_made not_held not_held_unnamed index_differs"
    " changed_beside?",
    "RunEvent": "event:type at session task? sprint? attempt? checkpoint? kind? good? exit_code? seconds?"
    " line? reason? paths? continued? tasks? terminal?",
    "RunReport": "session state goal continued tasks checkpoint seconds exit_code signal reason"
    " unknown_effects live_processes outputs finished_at start conversation?",
    "Session": "id goal sprint owner started_at heartbeat_at ended_at ended_by exclusive took_over"
    " transcript_host? transcript_session?",
    "SessionActivity": "*report seconds tasks checkpoints stored_bytes tokens memory_bytes cpu_seconds"
    " command",
    "SessionEnded": "session checkpoint:saved.checkpoint new_gaps unknown_effects:unknown",
    "SessionReport": "*session state owner_state turn? position:progress.position! progress",
    "SessionStarted": "session checkpoint:saved.checkpoint new_gaps took_over:took_over.id unfinished"
    " continued unknown_effects:unknown",
    "StatusReport": "... store_bytes",
    "TaskCounts": "... total success_ratio",
    "UndoPlan": "plan operation counts files conflicts parts checkpoints",
    "UndoReport": "operation guard files parts",
    "VerifyReport": "... ok",
    "WorkedTask": "*task session seconds",
}


def text_value(text: str) -> str:
    """Return text without lone surrogates (which stand for bytes that are not UTF-8, or for nothing)."""
    try:
        content = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        content = text.encode("utf-8", "replace")
    return content.decode("utf-8", "replace")


def plain_value(value: object) -> object:
    """Return a value with every text in it that is not UTF-8 as its bytes."""
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            return path_value(value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:  # a surrogate that stands for no byte
            return text_value(value)
    if isinstance(value, dict):
        return {key: plain_value(one) for key, one in value.items()}
    return [plain_value(one) for one in value] if isinstance(value, list | tuple) else value


def folder_value(path: str) -> object:
    """Return the path of a folder as JSON."""
    return path_value(path.encode("utf-8", "surrogateescape"))


# --- Values by the table ---


def said_of(cls: type[Value]) -> tuple[tuple[str, ...], ...]:
    """Return the words of the table for a class, in its order.

    A word of one part takes in all that is said of a field; another is the name that the document has, the
    way to what is told, and when: "" always, "?" unless it has its default, "!" null where it is empty.
    """
    found: dict[str, tuple[str, ...]] = {}
    for word in _TABLE.get(cls.__name__, "...").split():
        name, _, path = word.strip("*?!").partition(":")
        if word == "...":
            found |= {one: (one, one, "") for one in cls.__annotations__}
        elif word[0] == "*":
            found[word] = (name,)
        else:
            found[name] = (name, path or name, word[-1] if word[-1] in "?!" else "")
    return tuple(found.values())


def annotation_of(cls: type[Value], name: str) -> str:
    """Return what a field or a property of a value is: by that its JSON is made."""
    if name in cls.__annotations__:
        return cast("str", cls.__annotations__[name])
    member = getattr(cls, name)
    return cast(
        "str", member.annotation if isinstance(member, Alias) else member.fget.__annotations__["return"]
    )


def is_its_fields(cls: type[Value]) -> bool:
    """Tell whether documents say of a value what its fields are, and nothing else."""
    return all(word == "..." or word[-1] == "?" for word in _TABLE.get(cls.__name__, "...").split())


def record(value: Value) -> Document:
    """Return what documents say of a value."""
    cls = type(value)
    if cls not in _tables:
        _tables[cls] = _Table(cls)
    return _tables[cls].record(value)


class _Table:
    """What is said of the values of a class."""

    def __init__(self, cls: type[Value]) -> None:
        self._parts: list[str] = []
        fields: dict[str, tuple[str, Show | None, object]] = {}
        for name, *rest in said_of(cls):
            if not rest:
                self._parts.append(name)
                continue
            path, when = rest
            first, _, inner = path.partition(".")
            show = _unless_empty if when == "!" else _any if inner else _shown(annotation_of(cls, first))
            default = defaults(cls)[first] if when == "?" else _ALWAYS
            fields[name] = (first, _within(inner, show) if inner else show, default)
        self._names = list(fields)
        self._get = attrgetter(*(path for path, _, _ in fields.values()), fields[self._names[0]][0])
        self._omitted = [(name, one[2]) for name, one in fields.items() if one[2] is not _ALWAYS]
        self._shows = [(name, show) for name, (_, show, _) in fields.items() if show is not None]

    def record(self, value: Value) -> Document:
        said: Document = dict(zip(self._names, self._get(value), strict=False))
        for part in self._parts:
            said = record(getattr(value, part)) | said
        for name, default in self._omitted:
            if said[name] == default:
                del said[name]
        for name, show in self._shows:
            found = said.get(name)
            if found is not None:
                said[name] = show(found)
        return said


def _within(name: str, show: Show | None) -> Show:
    get, shown = attrgetter(name), show or _any
    return lambda value: shown(get(value))


def _shown(annotation: str) -> Callable[[Any], object] | None:
    """Return what turns the value of a field into JSON; None where it is JSON."""
    annotation = annotation.removesuffix(" | None")
    if annotation in _BY_ANNOTATION:
        return _BY_ANNOTATION[annotation]
    item = item_of(annotation)
    if item is not None:
        show = _shown(item)
        return lambda items: _each(items, show)
    if annotation.startswith("Mapping["):
        return lambda items: {key: _any(one) for key, one in items.items()}
    return _any if annotation[0].isupper() or annotation == "object" else None


def item_of(annotation: str) -> str | None:
    """Return what a list is of, all of one kind; None of what is no list."""
    within = annotation.removeprefix("tuple[").removeprefix("Sequence[")
    if within == annotation:
        return None
    item = within.removesuffix("]").removesuffix(", ...")
    return item if "[" in item else item.partition(", ")[0]  # of a pair, what each of it is


def _each(items: Iterable[object], show: Show | None) -> list[object] | None:
    """Return what is told of a list; null where it cannot be read, so that all else is told."""
    try:
        return list(items) if show is None else [show(item) for item in items]
    except Damaged:
        return None


def _any(value: object) -> object:
    if isinstance(value, Value):
        return record(value)
    return _fault(value) if isinstance(value, LastgoodError) else value


def _unless_empty(value: Any) -> object:  # noqa: ANN401 - what can be empty
    return None if value.empty else _any(value)


_ALWAYS = object()
_tables: dict[type[Value], _Table] = {}
_BY_ANNOTATION: dict[str, Callable[[Any], object]] = {
    "Timestamp": iso,
    "Text": text_value,
    "OsText": plain_value,
    "bytes": path_value,
    "ObjectId": bytes.hex,
    "Binary": base64_text,
    "Mapping[Text, Text]": lambda texts: {text_value(key): text_value(text) for key, text in texts.items()},
    "Mapping[str, OsValue]": lambda values: plain_value(dict(values)),
}


# --- The documents ---

# The verb whose document a report is; other values have none of their own, and are told as in others.
_VERBS = {
    "BlameReport": "blame",
    "CheckReport": "check",
    "DeleteReport": "delete",
    "DiffReport": "diff",
    "ExportReport": "export",
    "ImportReport": "import",
    "ProgressReport": "progress",
    "PruneReport": "prune",
    "RecoverReport": "recover",
    "RestoreReport": "restore",
    "SaveReport": "save",
    "SessionEnded": "session",
    "SessionStarted": "session",
    "StatusReport": "status",
    "VerifyReport": "verify",
}


def told(value: Value) -> Document:
    """Return what a program is told of a value: the document of its verb, if there is one."""
    name = type(value).__name__
    if name in _VERBS:
        return document(_VERBS[name], value)
    make = _MADE.get(name)
    return record(value) if make is None else make(value)


def document(verb: str, said: Document | Value) -> Document:
    """Return the document of a verb, ``lastgood.VERB/1``: some fields, or all that is said of a value."""
    return {"schema": f"lastgood.{verb}/1", **(record(said) if isinstance(said, Value) else said)}


def list_document(checkpoints: Sequence[Checkpoint], *, at: str | None = None) -> Document:
    """Return the document of a list: what every checkpoint would repeat is null, and `show` has it.

    ``at`` is the id of the checkpoint at which the workspace stands.
    """
    return {"schema": "lastgood.list/2", "at": at, "checkpoints": [_listed(one) for one in checkpoints]}


def log_document(report: LogReport) -> Document:
    """Return the document of a path's changes, the checkpoints as in a list."""
    changes = [record(one) | {"checkpoint": _listed(one.checkpoint)} for one in report.changes]
    return document("log", record(report) | {"changes": changes})


def _listed(checkpoint: Checkpoint) -> Document:
    """Return what a list says of a checkpoint: neither the tasks nor the paths that git showed."""
    manifest = checkpoint.manifest
    progress, git = manifest.progress.replace(tasks=()), manifest.git
    said = record(checkpoint.replace(manifest=manifest.replace(progress=progress, git=None)))
    if not manifest.progress.empty or manifest.metrics.tasks_total:
        said["progress"] = record(progress) | {"tasks": None}
    if git is not None:
        said["git"] = record(git.replace(dirty=None))
    return said


def error_document(error: LastgoodError) -> Document:
    """Return the document of a failure."""
    return document("error", {"error": _fault(error)})


def _fault(error: LastgoodError) -> Document:
    return {
        "code": error.code,
        "message": text_value(error.message),
        "hint": text_value(error.hint),
        "details": plain_value(error.details),
    }


def purge_document(plan: PurgePlan) -> Document:
    """Return the document of a purge that was only looked at."""
    return document("purge", record(plan) | {"dry_run": True, "freed_bytes": 0, "not_searched": []})


def purged_document(report: PurgeReport) -> Document:
    """Return the document of a purge."""
    done = {
        "dry_run": False,
        "freed_bytes": report.freed_bytes,
        "not_searched": list(report.not_searched),
    }
    return document("purge", record(report.plan) | done)


def operations_document(verb: str, operations: Sequence[Operation]) -> Document:
    """Return the document of the list of what can be undone, or done again."""
    fields: Document = {"operation": None, "guard": None, "files": [], "parts": []}
    return document(verb, fields | {"operations": [record(one) for one in operations]})


def event_document(event: RunEvent, report: RunReport | None = None) -> Document:
    """Return one line of a run: what happened; the last line carries the report, too."""
    return document("run", record(event) | ({} if report is None else {"report": record(report)}))


def reviewed_document(report: RunReport, *, at: int) -> Document:
    """Return the line of a run that was looked at and not carried out."""
    return document("run", {"event": "reviewed", "at": iso(at), "report": record(report)})


def _undo_document(report: UndoReport) -> Document:
    return document("redo" if report.operation.type == "redo" else "undo", report)


def undo_planned_document(plan: UndoPlan) -> Document:
    """Return the document of an undo or redo that is not carried out."""
    return document(plan.direction, record(plan) | {"guard": None, "dry_run": True})


def _prune_planned(plan: PrunePlan) -> Document:
    fields: Document = {
        "dry_run": True,
        "set_aside": [],
        "waiting_bytes": 0,
        "operation": None,
        "faults": [],
    }
    return document("prune", fields | record(plan))


def report_document(activity: Activity, *, detailed: bool = False) -> Document:
    """Return the document of a report; ``detailed`` adds every task, step and checkpoint.

    It is made to be passed on (rule K5): known shapes of secrets are redacted (rule S17).
    """
    from lastgood.model.activity import command_states  # lazily: other documents need none of both
    from lastgood.redaction import redact_value

    states = [one.report.state for one in activity.sessions]
    fields = record(activity) | {
        "period": {
            "name": activity.period,
            "from": None if activity.since is None else iso(activity.since),
            "to": iso(activity.until),
        },
        "sessions": {
            "total": len(states),
            **{state: states.count(state) for state in ("active", "ended", "incomplete")},
            "seconds": activity.seconds,
            "list": [record(one) for one in activity.sessions],
        },
        "commands": {"total": len(activity.commands)} | command_states(activity),
        "features": {"completed": [text_value(one) for one in activity.features]},
    }
    if detailed:
        fields["tasks_list"] = [record(one) | {"id": text_value(one.task.id)} for one in activity.worked]
        fields["commands_list"] = [record(one) for one in activity.commands]
        fields["effects"] = [record(one) for one in activity.effects]
        fields["timeline"] = [record(one) for one in activity.marks]
    return document("report", cast("Document", redact_value(fields)))


_MADE: dict[str, Callable[[Any], Document]] = {
    "Activity": report_document,
    "LogReport": log_document,
    "PrunePlan": _prune_planned,
    "PurgePlan": purge_document,
    "PurgeReport": purged_document,
    "RunEvent": event_document,
    "UndoPlan": undo_planned_document,
    "UndoReport": _undo_document,
}
