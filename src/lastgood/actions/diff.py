"""diff: what differs between a checkpoint and another one, or the workspace as it is now."""

from __future__ import annotations

from io import BytesIO

from lastgood.actions.survey import Survey
from lastgood.errors import NotFound
from lastgood.model.report import DiffReport, FileDiff, Unmatched
from lastgood.model.tree import DIRECTORY, FILE, LINK
from lastgood.names import ancestors, parent, printable, to_text, within
from lastgood.rules.compare import compare
from lastgood.rules.nearest import nearest_path
from lastgood.rules.patch import LARGEST, Side, file_patch
from lastgood.transaction.saving import Saving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.tree import Change, Entry, Gap
    from lastgood.ports.context import Context
    from lastgood.rules.patch import FilePatch
    from lastgood.view import Files, ScannedFiles, View

    class Contents(Protocol):
        """What one side of a comparison holds."""

        def size(self, path: bytes, entry: Entry) -> int:
            """Return the size of a file."""

        def content(self, path: bytes, entry: Entry) -> bytes:
            """Return the bytes of a file, or the target of a link."""


# The blob of no bytes: too many files share it to tell where one came from.
_EMPTY = bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")


def between(
    context: Context,
    view: View,
    before: Checkpoint,
    after: Checkpoint,
    *,
    paths: tuple[bytes, ...],
    patch: bool,
) -> DiffReport:
    """Compare two checkpoints."""
    old, new = view.tree(before), view.tree(after)
    with context.locks.share_store(wait=context.wait):
        changes = _within(compare(old, new, gaps=after.gaps), paths)
        report = _report(before, after, changes, old=_Stored(old), new=_Stored(new), patch=patch)
        unmatched = _unmatched(paths, old, new, left_out=_gaps(before.gaps, after.gaps))
        return report.replace(unmatched=unmatched)


def with_workspace(
    context: Context, view: View, before: Checkpoint, *, paths: tuple[bytes, ...], patch: bool
) -> DiffReport:
    """Compare a checkpoint with the workspace; nothing is stored."""
    old = view.tree(before)
    with Saving(context), Survey(context, looks=True) as survey:
        gaps = survey.scan.result.gaps
        changes = _within(compare(old, survey.files, gaps=gaps), paths)
        report = _report(before, None, changes, old=_Stored(old), new=_Present(survey), patch=patch)
        known = _gaps(before.gaps, gaps)

        def left_out(path: bytes) -> bool:
            return known(path) or _scanned_without(survey, path)

        return report.replace(unmatched=_unmatched(paths, old, survey.files, left_out=left_out))


def _within(changes: Iterable[Change], paths: tuple[bytes, ...]) -> list[Change]:
    if not paths:
        return list(changes)
    return [change for change in changes if any(within(change.path, scope) for scope in paths)]


def _unmatched(
    paths: Iterable[bytes],
    old: Files,
    new: Files | ScannedFiles,
    *,
    left_out: Callable[[bytes], bool],
) -> tuple[Unmatched, ...]:
    """Return the paths that neither side holds: of a slip of the pen no empty answer may be made."""

    def names(directory: bytes) -> list[bytes]:
        return [entry.name for side in (old, new) for entry in side.at(directory) or ()]

    found = []
    for path in paths:
        if path and old.entry(path) is None and new.entry(path) is None:
            outside = left_out(path)
            near = None if outside else nearest_path(path, names)
            found.append(Unmatched(path=path, left_out=outside, near=near))
    return tuple(found)


def _gaps(*sides: Iterable[Gap]) -> Callable[[bytes], bool]:
    gaps = [gap.path for side in sides for gap in side]
    return lambda path: any(within(path, gap) or within(gap, path) for gap in gaps)


def _scanned_without(survey: Survey, path: bytes) -> bool:
    """Tell whether a path is in the workspace, or below something that is, and was not captured."""
    along = (*ancestors(path), path)
    return any(one.rpartition(b"/")[2] in survey.scan.left_out(parent(one)) for one in along)


class _Stored:
    """What a checkpoint holds."""

    def __init__(self, tree: Files) -> None:
        self._objects = tree.objects

    def size(self, path: bytes, entry: Entry) -> int:  # noqa: ARG002 - the protocol's
        return self._objects.blob_size(entry.oid)

    def content(self, path: bytes, entry: Entry) -> bytes:  # noqa: ARG002 - the protocol's
        return self._objects.read_blob(entry.oid)


class _Present:
    """What the workspace holds."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey

    def size(self, path: bytes, entry: Entry) -> int:  # noqa: ARG002 - the protocol's
        stamp = self._survey.scan.stamp(path)
        return 0 if stamp is None else stamp.size

    def content(self, path: bytes, entry: Entry) -> bytes:
        content = self._survey.context.applier.read(path, entry)
        if content is None:
            raise NotFound(
                f"'{printable(to_text(path))}' changed while it was read", hint="run the diff again"
            )
        return content


def _report(
    before: Checkpoint,
    after: Checkpoint | None,
    changes: Sequence[Change],
    *,
    old: Contents,
    new: Contents,
    patch: bool,
) -> DiffReport:
    moved = _moves(changes)
    gone = {source.path for source in moved.values()}
    files: list[FileDiff] = []
    patches = BytesIO()
    for change in changes:
        if change.path in gone:
            continue
        source = moved.get(change.path, change)
        made = _file_patch(source, change, old=old, new=new)
        if patch:
            patches.write(made.patch)
        files.append(_line(change, made, old_path=None if source is change else source.path))
    return DiffReport(
        from_=before.id,
        to=None if after is None else after.id,
        files=tuple(files),
        patch=patches.getvalue() if patch else None,
    )


def _file_patch(source: Change, change: Change, *, old: Contents, new: Contents) -> FilePatch:
    """Return the patch of one path; what is the same on both sides, or too large, is not read."""
    before, after = source.before, change.after
    same = before is not None and after is not None and before.oid == after.oid
    large = not same and any(
        _is_file(entry) and read.size(path, entry) > LARGEST
        for path, entry, read in ((source.path, before, old), (change.path, after, new))
        if entry is not None
    )
    unread = same or large
    return file_patch(
        _side(source.path, before, None if unread else old),
        _side(change.path, after, None if unread else new),
    )


def _is_file(entry: Entry) -> bool:
    return entry.kind == FILE


def _line(change: Change, made: FilePatch, *, old_path: bytes | None) -> FileDiff:
    return FileDiff(
        path=change.path,
        status=change.status if old_path is None else "renamed",
        old_path=old_path,
        additions=made.additions,
        deletions=made.deletions,
        binary=made.binary,
        large=made.large,
    )


def _moves(changes: Sequence[Change]) -> dict[bytes, Change]:
    """Return where added files came from: the deleted file of the same (not empty) content."""
    gone: dict[tuple[bytes, int], list[Change]] = {}
    for change in changes:
        if change.status == "deleted" and change.before is not None and change.before.kind == FILE:
            gone.setdefault((change.before.oid, change.before.mode), []).append(change)
    for sources in gone.values():
        sources.reverse()  # the first is taken first, from the end
    moved: dict[bytes, Change] = {}
    for change in changes:
        new = change.after
        if change.status != "added" or new is None or new.kind != FILE or new.oid == _EMPTY:
            continue
        waiting = gone.get((new.oid, new.mode))
        if waiting:
            moved[change.path] = waiting.pop()
    return moved


def _side(path: bytes, entry: Entry | None, read: Contents | None) -> Side | None:
    if entry is None or entry.kind == DIRECTORY:
        return None
    content = None if read is None else read.content(path, entry)
    return Side(path=path, mode=_git_mode(entry), oid=entry.oid.hex(), content=content)


def _git_mode(entry: Entry) -> int:
    if entry.kind == LINK:
        return 0o120000
    return 0o100755 if entry.mode & 0o100 else 0o100644
