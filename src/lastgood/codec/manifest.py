"""Manifests as canonical JSON: ``checkpoint.json`` in every checkpoint's commit."""

from __future__ import annotations

from lastgood.codec.canonical import Fields, base64_text, dumps, loads, path_value
from lastgood.codec.moment import iso
from lastgood.codec.progress import progress_of, written_progress
from lastgood.errors import Damaged, Unsupported
from lastgood.ids import is_checkpoint_id
from lastgood.model.checkpoint import (
    KINDS,
    Actor,
    GitState,
    IgnoreState,
    Manifest,
    Metrics,
    NestedRepository,
    TreeRef,
)
from lastgood.model.conversation import CONVERSATION_FORMS, Conversation
from lastgood.model.tree import Counts, Gap
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastgood.model.checkpoint import ActorType, Kind, Moment, Operation
    from lastgood.model.conversation import ConversationForm
    from lastgood.model.progress import Task
    from lastgood.model.tree import GapReason

VERSION = 1
_SCHEMA = "lastgood.manifest/"
GAP_REASONS: tuple[GapReason, ...] = (
    "too-large",
    "unreadable",
    "unsupported",
    "unstable",
    "budget",
    "withheld",
)
_ACTORS = ("agent", "tool", "person", "lastgood", "unknown")
_OPERATIONS = ("merge", "rebase", "cherry-pick", "bisect", "revert")


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON; equal manifests give equal bytes."""
    record: dict[str, object] = {
        "schema": f"{_SCHEMA}{VERSION}",
        "id": manifest.id,
        "workspace": path_value(manifest.workspace.encode("utf-8", "surrogateescape")),
        "workspace_key": manifest.workspace_key,
        "kind": manifest.kind,
        "message": manifest.message,
        "name": manifest.name,
        "created_at": iso(manifest.created_at),
        "created_ns": manifest.created_at,
        "sequence": manifest.sequence,
        "previous": manifest.previous,
        "tree": manifest.root.tree,
        "modes": manifest.root.modes,
        "changes": manifest.changes.as_dict(),
        "files": manifest.files,
        "bytes": manifest.size,
        "ignored": manifest.ignored,
        "gaps": [gap_record(gap) for gap in manifest.gaps],
        "partial": manifest.partial,
        "private": [path_value(path) for path in manifest.private],
        "forced": [path_value(path) for path in manifest.forced],
        "actor": manifest.actor.as_dict(),
        "git": None if manifest.git is None else git_record(manifest.git),
        "ignore": _ignore_record(manifest.ignore),
        "metrics": manifest.metrics.as_dict(),
        "metadata": dict(manifest.metadata),
    }
    return dumps(record | _work_record(manifest))


def _work_record(manifest: Manifest) -> dict[str, object]:
    """Return what a manifest says of the work; nothing where there is nothing to say."""
    conversation = manifest.conversation
    said: dict[str, object] = {
        "session": manifest.session,
        "task": manifest.task,
        "moment": manifest.moment,
        "progress": None if manifest.progress.empty else written_progress(manifest.progress),
        "conversation": None if conversation is None else _conversation_record(conversation),
        "state": dict(manifest.state) or None,
        "copy_of": manifest.copy_of,
        "withheld": list(manifest.withheld) or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def _conversation_record(conversation: Conversation) -> dict[str, object]:
    return {
        "tree": conversation.tree,
        "form": conversation.form,
        "bytes": conversation.size,
        "messages": conversation.messages,
        "source": None if conversation.source is None else path_value(conversation.source),
    }


def gap_record(gap: Gap) -> dict[str, object]:
    """Return a gap as the interface's JSON has it."""
    record: dict[str, object] = {"path": path_value(gap.path), "reason": gap.reason}
    if gap.size is not None:
        record["size"] = gap.size
    return record


def encode_gaps(gaps: Iterable[Gap]) -> str:
    """Return gaps as JSON text; equal gaps give equal texts."""
    return dumps([gap_record(gap) for gap in gaps]).decode("ascii")


def decode_gaps(text: str) -> tuple[Gap, ...]:
    """Return the gaps that `encode_gaps` wrote."""
    fields = Fields(loads(f'{{"gaps":{text}}}', what="a list of gaps"), what="a list of gaps")
    return tuple(_gap(item) for item in fields.subs("gaps"))


def git_record(git: GitState) -> dict[str, object]:
    """Return a git state as the interface's JSON has it."""
    return {
        "head": git.head,
        "branch": git.branch,
        "dirty": None if git.dirty is None else [path_value(path) for path in git.dirty],
        "operation": git.operation,
        "nested": [{"path": path_value(nested.path), "head": nested.head} for nested in git.nested],
    }


def _ignore_record(ignore: IgnoreState) -> dict[str, object]:
    return {
        "excludes": list(ignore.excludes),
        "includes": list(ignore.includes),
        "info_exclude": base64_text(ignore.info_exclude),
        "global_exclude": base64_text(ignore.global_exclude),
        "readable": ignore.readable,
    }


def decode(text: bytes | str) -> Manifest:
    """Return the manifest that a text holds.

    Raises `Damaged` if it is none, `Unsupported` if a newer lastgood wrote it.
    """
    record, tasks = _read(text)
    fields = Fields(record, what="a manifest")
    version = fields.text("schema").removeprefix(_SCHEMA)
    if version != str(VERSION):
        raise Unsupported(
            f"a manifest has the format {fields.text('schema')!r}; this lastgood reads {_SCHEMA}{VERSION}",
            hint="use a newer lastgood",
        )
    if not is_checkpoint_id(fields.text("id")):
        raise Damaged("a manifest has no good id", hint="run: lastgood verify --repair")
    return Manifest(
        id=fields.text("id"),
        workspace=fields.path("workspace").decode("utf-8", "surrogateescape"),
        workspace_key=fields.text("workspace_key"),
        kind=cast("Kind", fields.one_of("kind", KINDS)),
        message=fields.text("message"),
        name=fields.text_or_none("name"),
        created_at=fields.number("created_ns"),
        sequence=fields.number("sequence"),
        previous=fields.text_or_none("previous"),
        root=TreeRef(tree=fields.text("tree"), modes=fields.text("modes")),
        changes=_changes(fields.sub("changes")),
        files=fields.number("files"),
        size=fields.number("bytes"),
        ignored=fields.number("ignored"),
        gaps=tuple(_gap(item) for item in fields.subs("gaps")),
        partial=fields.flag("partial"),
        private=fields.paths("private"),
        forced=fields.paths("forced"),
        actor=_actor(fields.sub("actor")),
        git=_git(fields.sub_or_none("git")),
        ignore=_ignore(fields.sub("ignore")),
        metrics=_metrics(fields.sub("metrics")),
        metadata=fields.texts_by_name("metadata"),
        session=fields.text_or_none("session"),
        task=fields.text_or_none("task"),
        moment=cast("Moment | None", fields.text_or_none("moment")),
        progress=progress_of(fields.sub_or_none("progress"), known=tasks),
        conversation=_conversation(fields.sub_or_none("conversation")),
        state={} if fields.is_null("state") else fields.texts_by_name("state"),
        copy_of=fields.text_or_none("copy_of"),
        withheld=() if fields.is_null("withheld") else fields.texts("withheld"),
    )


def _read(text: bytes | str) -> tuple[dict[str, object], tuple[Task, ...]]:
    said = b'"progress":' in text if isinstance(text, bytes) else '"progress":' in text
    if not said:
        return loads(text, what="a manifest"), ()
    from lastgood.codec.tasks import read  # lazily: most checkpoints know of no tasks

    return read(text, what="a manifest", within="progress")


def _changes(fields: Fields) -> Counts:
    return Counts(
        added=fields.number("added"), modified=fields.number("modified"), deleted=fields.number("deleted")
    )


def _conversation(fields: Fields | None) -> Conversation | None:
    if fields is None:
        return None
    return Conversation(
        tree=fields.text("tree"),
        form=cast("ConversationForm", fields.one_of("form", CONVERSATION_FORMS)),
        size=fields.number("bytes"),
        messages=fields.number("messages"),
        source=None if fields.is_null("source") else fields.path("source"),
    )


def _gap(fields: Fields) -> Gap:
    reason = cast("GapReason", fields.one_of("reason", GAP_REASONS))
    return Gap(path=fields.path("path"), reason=reason, size=fields.number_or_none("size"))


def _actor(fields: Fields) -> Actor:
    return Actor(
        type=cast("ActorType", fields.one_of("type", _ACTORS)),
        name=fields.text_or_none("name"),
        call=fields.text_or_none("call"),
    )


def _git(fields: Fields | None) -> GitState | None:
    if fields is None:
        return None
    operation = fields.text_or_none("operation")
    if operation is not None:
        fields.one_of("operation", _OPERATIONS)
    return GitState(
        head=fields.text_or_none("head"),
        branch=fields.text_or_none("branch"),
        dirty=None if fields.is_null("dirty") else fields.paths("dirty"),
        operation=cast("Operation | None", operation),
        nested=tuple(
            NestedRepository(path=nested.path("path"), head=nested.text_or_none("head"))
            for nested in fields.subs("nested")
        ),
    )


def _ignore(fields: Fields) -> IgnoreState:
    return IgnoreState(
        excludes=fields.texts("excludes"),
        includes=fields.texts("includes"),
        info_exclude=fields.binary("info_exclude"),
        global_exclude=fields.binary("global_exclude"),
        readable=fields.flag("readable"),
    )


def _metrics(fields: Fields) -> Metrics:
    return Metrics(
        save_ms=fields.decimal("save_ms"),
        stored_bytes=fields.number("stored_bytes"),
        session_seconds=fields.decimal_or_none("session_seconds"),
        tasks_done=fields.number("tasks_done"),
        tasks_failed=fields.number("tasks_failed"),
        tasks_total=fields.number("tasks_total"),
        success_ratio=fields.decimal_or_none("success_ratio"),
        tokens=fields.number_or_none("tokens"),
        memory_bytes=fields.number_or_none("memory_bytes"),
        cpu_seconds=fields.decimal_or_none("cpu_seconds"),
    )
