"""The tools: which verb each calls, what of it a client may say, and the document that it answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any

from lastgood.documents import document, list_document, record, told
from lastgood.mcp_server import schemas
from lastgood.mcp_server.answers import LABEL, cat_document, clipped, content, listed
from lastgood.mcp_server.consent import Planned, demand_plan
from lastgood.model.canonical import path_value
from lastgood.model.checkpoint import PROGRAMS, Actor, SaveReport
from lastgood.model.report import BlameReport, DiffReport, RestoreReport, StatusReport, UndoReport
from lastgood.model.run import RecoverReport
from lastgood.paths import printable, to_bytes, to_text
from lastgood.value import Value, cast
from lastgood.workspace.api import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.documents import Document
    from lastgood.workspace import Purpose

Words = Mapping[str, Any]
# What a tool does in an open workspace; an agent's name is for what it keeps.
Act = Callable[[Workspace, Words, str | None], "Document"]


class Form(Value):
    """One tool: ``takes`` names the parameters of the ``verb`` that it has, ``usual`` their other defaults.

    ``described_by`` is the verb that documents parameters of several; ``flags`` are what more may be told,
    each by the verb that tells it; ``says`` is what it is at. One that ``looks`` makes a plan, one that
    ``plans`` makes one and carries it out with consent; one that ``asks`` needs consent without a plan; one
    that ``goes`` takes the operation whose turn it is.
    """

    name: str
    verb: Callable[..., object]
    takes: str
    act: Act | None = None
    schema: Callable[[], schemas.Schema]
    usual: Mapping[str, Any] = {}
    described_by: Callable[..., object] | None = None
    flags: Mapping[str, Callable[..., object]] = {}
    says: str = "looking"
    purpose: Purpose = "find"
    changes: bool = False
    destroys: bool = False
    looks: bool = False
    plans: bool = False
    asks: bool = False
    goes: bool = False
    whole: bool = False


# --- What each does ---


def _save(workspace: Workspace, words: Words, agent: str | None) -> Document:
    """Save: of a host above in whose session, that hooks keep, a turn is under way, with its conversation."""
    actor = Actor() if words.get("kind") in PROGRAMS else Actor(type="agent", name=agent)
    return told(workspace.save(**words, actor=actor))


def _list(workspace: Workspace, words: Words, _agent: str | None) -> Document:
    """List, of each label no more than its beginning: `show` tells the whole."""
    said = list_document(workspace.list(**words, brief=True), at=workspace.stands_at())
    return cast("Document", clipped(said, LABEL))


def show(workspace: Workspace, words: Words, _agent: str | None = None) -> Document:
    """Return what a checkpoint holds: as `show --json` tells it, but for very many tasks."""
    checkpoint = workspace.get(words["ref"])
    said: Document = {"checkpoint": listed(record(checkpoint))}
    if words.get("files"):
        said["entries"] = [record(one) for one in workspace.entries(checkpoint.id)]
    if words.get("conversation"):
        said["messages"] = list(workspace.conversation(checkpoint.id, redacted=True))
    if words.get("stat"):
        before = workspace.previous(checkpoint.id)
        changed = () if before is None else workspace.diff(before.id, checkpoint.id, patch=False).files
        said["stat"] = [record(one) for one in changed]
    return document("show", said)


def file_content(workspace: Workspace, words: Words) -> tuple[Document, str | bytes]:
    """Return of which file a content is, and what may be told of it."""
    checkpoint = workspace.get(words["ref"])
    path = to_bytes(words["path"]) if isinstance(words["path"], str) else words["path"]
    held = workspace.read(checkpoint.id, path, private=words.get("private", False))
    shown = printable(to_text(path))
    again = f"lastgood cat {checkpoint.short_id} {quote(shown)}"
    again += " --private" if words.get("private") else ""
    said = {"checkpoint": checkpoint.id, "path": path_value(path), "size": len(held)}
    return said, content(held, path=shown, again=again)


def _cat(workspace: Workspace, words: Words, _agent: str | None) -> Document:
    return cat_document(*file_content(workspace, words))


def _told(name: str, **always: object) -> Act:
    """Return what answers the document of what a verb returns."""
    return lambda workspace, words, _agent: told(getattr(workspace, name)(**words, **always))


def apply(workspace: Workspace, planned: Planned) -> Document:
    """Carry out a plan that was agreed to: where no file changes, the workspace may come to stand there."""
    plan, preview = planned.plan, planned.preview
    if plan.empty and not preview.folder_made and not plan.whole:
        return told(preview.replace(dry_run=False))
    return told(workspace.apply(plan).replace(changed_beside=preview.changed_beside))


def _recover(workspace: Workspace, words: Words, _agent: str | None) -> Document:
    given = dict(words)
    plan = given.pop("plan")

    def consent(preview: RecoverReport) -> None:
        assert preview.restored is not None
        found = preview.restored.planned
        demand_plan(found, workspace.get(found.target), plan=plan)

    return told(workspace.recover(**given, owner_pid=_host(), consent=consent))


def _host() -> int | None:
    """Return the process that this server works for, on whose life a session that goes on depends."""
    above = os.getppid()
    return above if above > 1 else None


# --- The table ---

_SAID_BEFORE_RESTORING = "paths only git merge base conflict discard force"
_CHECKPOINTS = {"at": "str | None", "checkpoints": "tuple[Checkpoint, ...]"}
_SHOWN = {
    "checkpoint": "Checkpoint",
    "entries": "tuple[ListedEntry, ...]",
    "messages": "tuple[Mapping[str, object], ...]",
    "stat": "tuple[FileDiff, ...]",
}
_CAT = {"checkpoint": "str", "path": "bytes", "size": "int", "content": "bytes"}


def _report(verb: str, cls: type[Value]) -> Callable[[], schemas.Schema]:
    return lambda: schemas.of_report(verb, cls)


FORMS: tuple[Form, ...] = (
    Form(
        name="save",
        verb=Workspace.save,
        takes="message name kind metadata allow_empty pin task tokens",
        act=_save,
        schema=_report("save", SaveReport),
        says="saving",
        purpose="make",
        changes=True,
    ),
    Form(
        name="list",
        verb=Workspace.list,
        takes="limit kind session name message good guards",
        act=_list,
        schema=lambda: schemas.of_fields("list", _CHECKPOINTS, version=2),
        usual={"limit": 20, "guards": False},
    ),
    Form(
        name="show",
        verb=Workspace.get,
        takes="ref",
        act=show,
        schema=lambda: schemas.of_fields("show", _SHOWN, late=("entries", "messages", "stat")),
        flags={
            "files": Workspace.entries,
            "conversation": Workspace.conversation,
            "stat": Workspace.changed_paths,
        },
    ),
    Form(
        name="diff",
        verb=Workspace.diff,
        takes="a b paths patch private",
        act=_told("diff", redacted=True),
        schema=_report("diff", DiffReport),
        says="comparing",
    ),
    Form(
        name="log",
        verb=Workspace.log,
        takes="path limit guards text",
        act=_told("log"),
        schema=lambda: schemas.of_fields(
            "log",
            {
                "path": "bytes",
                "changes": "tuple[PathChange, ...]",
                "unsearched": "tuple[bytes, ...]",
                "damaged": "tuple[bytes, ...]",
            },
        ),
        usual={"limit": 20},
    ),
    Form(
        name="blame",
        verb=Workspace.blame,
        takes="path private",
        act=_told("blame"),
        schema=_report("blame", BlameReport),
        usual={"private": False},
        says="comparing",
    ),
    Form(
        name="cat",
        verb=Workspace.read,
        takes="ref path private",
        act=_cat,
        schema=lambda: schemas.of_fields("cat", _CAT),
        usual={"private": False},
    ),
    Form(
        name="status",
        verb=Workspace.status,
        takes="",
        act=_told("status"),
        schema=_report("status", StatusReport),
    ),
    Form(
        name="plan_restore",
        verb=Workspace.plan_restore,
        takes=f"ref {_SAID_BEFORE_RESTORING} only_agent session",
        looks=True,
        schema=_report("restore", RestoreReport),
        described_by=Workspace.restore,
        says="planning",
    ),
    Form(
        name="restore",
        verb=Workspace.restore,
        takes=f"ref {_SAID_BEFORE_RESTORING} only_agent session",
        schema=_report("restore", RestoreReport),
        says="restoring",
        changes=True,
        destroys=True,
        plans=True,
    ),
    Form(
        name="plan_rewind",
        verb=Workspace.plan_rewind,
        takes=f"turns {_SAID_BEFORE_RESTORING} only_agent",
        looks=True,
        schema=_report("restore", RestoreReport),
        described_by=Workspace.restore,
        says="planning",
    ),
    Form(
        name="rewind",
        verb=Workspace.rewind,
        takes=f"turns {_SAID_BEFORE_RESTORING} only_agent",
        schema=_report("restore", RestoreReport),
        described_by=Workspace.restore,
        says="restoring",
        changes=True,
        destroys=True,
        plans=True,
    ),
    Form(
        name="undo",
        verb=Workspace.undo,
        takes="force merge of plan",
        act=_told("undo"),
        schema=_report("undo", UndoReport),
        says="taking back",
        changes=True,
        destroys=True,
        goes=True,
    ),
    Form(
        name="redo",
        verb=Workspace.redo,
        takes="force merge of plan",
        act=_told("redo"),
        schema=_report("redo", UndoReport),
        described_by=Workspace.undo,
        says="doing again",
        changes=True,
        destroys=True,
        goes=True,
    ),
    Form(
        name="recover",
        verb=Workspace.recover,
        takes="ref choice roll_back force",
        act=_recover,
        schema=_report("recover", RecoverReport),
        says="recovering",
        changes=True,
        destroys=True,
        asks=True,
        whole=True,
    ),
)
