"""Checkpoints of trees that no workspace could have: what an old store, or a stranger's file, may hold."""

from __future__ import annotations

from collections.abc import Mapping

from lastgood.engine import ObjectWriter
from lastgood.model.checkpoint import Checkpoint
from lastgood.model.tree import DIRECTORY, FILE, LINK, Counts, Entry, TreeId
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.transaction import Draft, Holdings, SaveTransaction
from lastgood.workspace import Workspace

# A text is a link's target, bytes are a file's, a mapping is a directory.
Planted = Mapping[bytes, "bytes | tuple[str, bytes] | Planted"]


def link_to(target: bytes) -> tuple[str, bytes]:
    return LINK, target


def planted(workspace: Workspace, names: Planted) -> Checkpoint:
    """Store a checkpoint of a tree as it is given, however hostile, and return it."""
    context = workspace._context
    with SaveTransaction(context) as saving, WorkspaceSnapshot(saving) as snapshot:
        writer = saving.writer()
        tree = _tree(writer, names)
        return saving.add(
            Draft(message="planted"),
            scan=snapshot.scan.result.replace(tree=tree),
            writer=writer,
            changes=Counts(),
            previous=None,
            holdings=Holdings(standing=snapshot.standing),
        )


def _tree(writer: ObjectWriter, names: Planted) -> TreeId:
    return writer.directory([_entry(writer, name, node) for name, node in names.items()])


def _entry(writer: ObjectWriter, name: bytes, node: bytes | tuple[str, bytes] | Planted) -> Entry:
    if isinstance(node, bytes):
        return Entry(name=name, kind=FILE, mode=0o644, oid=writer.blob(node))
    if isinstance(node, tuple):
        return Entry(name=name, kind=LINK, mode=0, oid=writer.blob(node[1]))
    inside = _tree(writer, node)
    return Entry(name=name, kind=DIRECTORY, mode=0o755, oid=inside.tree, modes=inside.modes)
