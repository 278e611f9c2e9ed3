"""diff: what differs between a checkpoint and another one, or the workspace as it is now.

The format is that of git-diff's documentation ("Generating patch text with -p"). Of binary and large
files there is a line that says that they differ, and no patch: nobody would read it, and none is held.
"""

from __future__ import annotations

from io import BytesIO

from lastgood.errors import Damaged, NotFound
from lastgood.model.report import DiffReport, FileDiff, Unmatched
from lastgood.model.tree import DIRECTORY, FILE, LINK, compare
from lastgood.paths import ancestors, parent, printable, to_text, within
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.suggestions import nearest_path
from lastgood.transaction import ReadTransaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol

    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.tree import Change, Entry, Gap
    from lastgood.snapshot import ScannedFiles
    from lastgood.trees import Files
    from lastgood.view import View

    Opcode = tuple[str, int, int, int, int]

    class Contents(Protocol):
        """What one side of a comparison holds."""

        def size(self, path: bytes, entry: Entry) -> int:
            """Return the size of a file."""

        def content(self, path: bytes, entry: Entry) -> bytes:
            """Return the bytes of a file, or the target of a link."""


# --- Differences of files as a patch in git's extended format, which ``git apply`` takes ---

# Beyond this many compared pairs of lines a hunk is replaced whole: right, if not the shortest.
_EFFORT = 40_000_000
_MOST_LINES = 100_000  # what is remembered of each line takes more room than the line
# A larger file is only told to differ.
LARGEST = 8 << 20
_CONTEXT = 3
_NULL = "0" * 40
_DIGITS = 12
_SNIFF = 8000


class Side(Value):
    """One side of a difference. ``mode`` is git's (0o100644, 0o100755, 0o120000); ``oid`` is in hex.

    ``content`` is None for one that is too large to be shown, and was not read.
    """

    path: bytes
    mode: int
    oid: str
    content: bytes | None


class FilePatch(Value):
    """The patch of one path, and its line counts, 0 where it is only told that the path differs.

    That is so of a ``binary`` file, of a ``large`` one, which counts as binary too, of a ``private`` one,
    whose content is nobody's to see unasked (rule S5), and of a ``damaged`` one, which cannot be read.
    """

    patch: bytes
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    large: bool = False
    private: bool = False
    damaged: bool = False


def file_patch(before: Side | None, after: Side | None, *, redacted: bool = False) -> FilePatch:
    """Return the patch from one side to the other; None means that the path is not there.

    A change of kind (file to link) is a deletion followed by an addition, as git writes it. One that is
    ``redacted`` shows no known secret, also where the change lies within one of several lines; its places
    and counts are those of the true contents.
    """
    if before is None and after is None:
        return FilePatch(patch=b"")  # an empty directory: git has none
    if before is not None and after is not None and before.oid == after.oid and _same_kind(before, after):
        return FilePatch(patch=_header(before, after))
    old, new = _content(before), _content(after)
    if old is None or new is None:
        return FilePatch(
            patch=_omission_line(before, after, why=b"too large to be shown"), binary=True, large=True
        )
    if is_binary(old) or is_binary(new):
        return FilePatch(patch=_omission_line(before, after, why=b"binary"), binary=True)
    if before is not None and after is not None and not _same_kind(before, after):
        gone = file_patch(before, None, redacted=redacted)
        came = file_patch(None, after, redacted=redacted)
        return FilePatch(patch=gone.patch + came.patch, additions=came.additions, deletions=gone.deletions)
    lines = lines_in(old), lines_in(new)
    shown = (lines_in(_redacted(old)), lines_in(_redacted(new))) if redacted else lines
    return _lines_patch(before, after, lines=lines, shown=shown)


def _redacted(content: bytes) -> bytes:
    """Return a content without known secrets, with as many lines as before."""
    from lastgood.redaction import redact_each_line  # lazily: only what is told to others pays for it

    text = content.decode("utf-8", "surrogateescape")
    return redact_each_line(text).encode("utf-8", "surrogateescape")


def _lines_patch(
    before: Side | None,
    after: Side | None,
    *,
    lines: tuple[Sequence[bytes], Sequence[bytes]],
    shown: tuple[Sequence[bytes], Sequence[bytes]],
) -> FilePatch:
    made = BytesIO()
    made.write(_header(before, after))
    old, new = lines
    codes = opcodes(old, new) if old != new else []
    if codes:
        made.write(_names(before, after))
        made.writelines(_hunks(lines, codes, shown=shown))
    return FilePatch(
        patch=made.getvalue(),
        additions=sum(j2 - j1 for tag, _, _, j1, j2 in codes if tag != "equal"),
        deletions=sum(i2 - i1 for tag, i1, i2, _, _ in codes if tag != "equal"),
    )


def _same_kind(one: Side, other: Side) -> bool:
    return one.mode >> 12 == other.mode >> 12


def _content(side: Side | None) -> bytes | None:
    return b"" if side is None else side.content


def _omission_line(before: Side | None, after: Side | None, *, why: bytes) -> bytes:
    """Return a line between patches: whoever applies them passes it over, and whoever reads them does not."""
    old = b"/dev/null" if before is None else _quoted(b"a/" + before.path)
    new = b"/dev/null" if after is None else _quoted(b"b/" + after.path)
    return b"# %b and %b differ: %b\n" % (old, new, why)


def is_binary(content: bytes) -> bool:
    """Tell whether a content is no text."""
    return b"\0" in content[:_SNIFF]


def _header(before: Side | None, after: Side | None) -> bytes:
    old, new = before or after, after or before
    assert old is not None
    assert new is not None
    lines = [b"diff --git " + _quoted(b"a/" + old.path) + b" " + _quoted(b"b/" + new.path)]
    if before is None:
        lines.append(b"new file mode %o" % new.mode)
    elif after is None:
        lines.append(b"deleted file mode %o" % old.mode)
    elif old.mode != new.mode:
        lines += [b"old mode %o" % old.mode, b"new mode %o" % new.mode]
    if old.path != new.path:
        lines.append(b"similarity index 100%" if old.oid == new.oid else b"similarity index 50%")
        lines += [b"rename from " + _quoted(old.path), b"rename to " + _quoted(new.path)]
    from_oid = _NULL if before is None else before.oid
    to_oid = _NULL if after is None else after.oid
    if from_oid != to_oid:
        suffix = (
            b" %o" % old.mode if before is not None and after is not None and old.mode == new.mode else b""
        )
        lines.append(f"index {from_oid[:_DIGITS]}..{to_oid[:_DIGITS]}".encode() + suffix)
    return b"\n".join(lines) + b"\n"


def _names(before: Side | None, after: Side | None) -> bytes:
    old = b"/dev/null" if before is None else _named(b"a/" + before.path)
    new = b"/dev/null" if after is None else _named(b"b/" + after.path)
    return b"--- " + old + b"\n+++ " + new + b"\n"


def _named(path: bytes) -> bytes:
    quoted = _quoted(path)
    return quoted + b"\t" if b" " in quoted and quoted[:1] != b'"' else quoted


_ESCAPES = {
    7: b"\\a",
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    11: b"\\v",
    12: b"\\f",
    13: b"\\r",
    34: b'\\"',
    92: b"\\\\",
}


def _quoted(path: bytes) -> bytes:
    """Return a path as git writes it: in C's quotes if it holds anything unusual."""
    if all(0x20 <= byte < 0x7F and byte not in _ESCAPES for byte in path):
        return path
    parts = [
        _ESCAPES[byte] if byte in _ESCAPES else bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte
        for byte in path
    ]
    return b'"' + b"".join(parts) + b'"'


def lines_in(content: bytes) -> list[bytes]:
    """Return the lines with their ends; only a line feed ends a line."""
    lines = content.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def opcodes(old: Sequence[bytes], new: Sequence[bytes]) -> list[Opcode]:
    """Return how lines become others, as `difflib` says it: equal, replace, delete, insert."""
    start = 0
    shorter = min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    codes: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    codes += _middle(old, new, start=start, end=end)
    if end:
        codes.append(("equal", len(old) - end, len(old), len(new) - end, len(new)))
    return codes


def _middle(old: Sequence[bytes], new: Sequence[bytes], *, start: int, end: int) -> list[Opcode]:
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    if not left or not right or len(left) * len(right) > _EFFORT or len(left) + len(right) > _MOST_LINES:
        return [("replace", start, len(old) - end, start, len(new) - end)]
    from difflib import SequenceMatcher  # lazily: only a patch pays for it

    matcher = SequenceMatcher(None, left, right, autojunk=len(left) + len(right) > 20_000)
    return [
        (tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in matcher.get_opcodes()
    ]


def _hunks(
    lines: tuple[Sequence[bytes], Sequence[bytes]],
    codes: Sequence[Opcode],
    *,
    shown: tuple[Sequence[bytes], Sequence[bytes]],
) -> Iterator[bytes]:
    old, new = shown
    for group in _groups(codes):
        first, last = group[0], group[-1]
        yield b"@@ -%s +%s @@\n" % (_span(first[1], last[2]), _span(first[3], last[4]))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_patch_line(b" ", line) for line in _alike(lines, shown, i1, j1, count=i2 - i1))
            else:
                yield from (_patch_line(b"-", line) for line in old[i1:i2])
                yield from (_patch_line(b"+", line) for line in new[j1:j2])


def _alike(
    lines: tuple[Sequence[bytes], Sequence[bytes]],
    shown: tuple[Sequence[bytes], Sequence[bytes]],
    old_at: int,
    new_at: int,
    *,
    count: int,
) -> Iterator[bytes]:
    """Yield lines that both sides have, as they are shown: none that is part of a secret for one of them."""
    for offset in range(count):
        at = new_at + offset
        is_withheld = shown[1][at] != lines[1][at]
        yield shown[1][at] if is_withheld else shown[0][old_at + offset]


def _groups(codes: Sequence[Opcode]) -> Iterator[list[Opcode]]:
    """Yield the changes in groups with a few equal lines around each."""
    group: list[Opcode] = []
    for index, (tag, i1, i2, j1, j2) in enumerate(codes):
        if tag != "equal":
            group.append((tag, i1, i2, j1, j2))
            continue
        first, last = index == 0, index == len(codes) - 1
        if not first and (last or i2 - i1 > 2 * _CONTEXT):
            head = min(_CONTEXT, i2 - i1)
            yield [*group, ("equal", i1, i1 + head, j1, j1 + head)]
            group = []
        if not last and (first or not group):
            tail = min(_CONTEXT, i2 - i1)
            group = [("equal", i2 - tail, i2, j2 - tail, j2)]
        elif not last:
            group.append((tag, i1, i2, j1, j2))
    if any(code[0] != "equal" for code in group):
        yield group


def _span(start: int, stop: int) -> bytes:
    length = stop - start
    beginning = start + 1 if length else start
    return b"%d" % beginning if length == 1 else b"%d,%d" % (beginning, length)


def _patch_line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"


# --- diff: what differs between a checkpoint and another one, or the workspace as it is now ---

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
    private: bool = False,
    redacted: bool = False,
) -> DiffReport:
    """Compare two checkpoints; what private files hold is in the patch only if asked for."""
    old, new = view.tree(before), view.tree(after)
    with context.locks.share_store(wait=context.wait):
        changes = _within(compare(old, new, gaps=after.gaps), paths)
        withheld = _withheld(before.manifest.private, after.manifest.private, shown=private, secrets=redacted)
        sides = _Stored(old), _Stored(new)
        report = _report(before, after, changes, sides=sides, patch=patch, withheld=withheld)
        unmatched = _unmatched(paths, old, new, left_out=_gaps(before.gaps, after.gaps))
        return report.replace(unmatched=unmatched)


def changes_between(view: View, before: Checkpoint | None, after: Checkpoint, *, path: bytes) -> list[Change]:
    """Compare one path in two checkpoints, of which the first may be none; the caller shares the store."""
    old = None if before is None else view.tree(before)
    return _within(compare(old, view.tree(after), gaps=after.gaps), (path,))


def file_diffs(view: View, after: Checkpoint, changes: Iterable[Change]) -> tuple[FileDiff, ...]:
    """Return what some changes up to a checkpoint did to each file; the caller shares the store."""
    held = _Stored(view.tree(after))
    return tuple(
        _file_diff(change, _file_patch(change, change, old=held, new=held), old_path=None)
        for change in changes
    )


def with_workspace(
    context: Context,
    view: View,
    before: Checkpoint,
    *,
    paths: tuple[bytes, ...],
    patch: bool,
    private: bool = False,
    redacted: bool = False,
) -> DiffReport:
    """Compare a checkpoint with the workspace; nothing is stored, and private files are as in `between`."""
    old = view.tree(before)
    with ReadTransaction(context) as reading, WorkspaceSnapshot(reading) as snapshot:
        gaps = snapshot.scan.result.gaps
        changes = _within(compare(old, snapshot.files, gaps=gaps), paths)
        hidden = before.manifest.private, snapshot.scan.result.private
        withheld = _withheld(*hidden, shown=private, secrets=redacted)
        sides = _Stored(old), _Present(snapshot)
        report = _report(before, None, changes, sides=sides, patch=patch, withheld=withheld)
        known = _gaps(before.gaps, gaps)

        def left_out(path: bytes) -> bool:
            return known(path) or _scanned_without(snapshot, path)

        return report.replace(unmatched=_unmatched(paths, old, snapshot.files, left_out=left_out))


class _Withheld(Value):
    """What is not told of contents: what the ``private`` files hold, and known ``secrets``."""

    private: frozenset[bytes] = frozenset()
    secrets: bool = False


_NOTHING = _Withheld()


def _withheld(*sides: Iterable[bytes], shown: bool, secrets: bool) -> _Withheld:
    private = frozenset(path for side in sides for path in side)
    return _Withheld(private=frozenset() if shown else private, secrets=secrets)


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


def _scanned_without(snapshot: WorkspaceSnapshot, path: bytes) -> bool:
    """Tell whether a path is in the workspace, or below something that is, and was not captured."""
    along = (*ancestors(path), path)
    return any(one.rpartition(b"/")[2] in snapshot.scan.left_out(parent(one)) for one in along)


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

    def __init__(self, snapshot: WorkspaceSnapshot) -> None:
        self._snapshot = snapshot

    def size(self, path: bytes, entry: Entry) -> int:  # noqa: ARG002 - the protocol's
        stamp = self._snapshot.scan.stamp(path)
        return 0 if stamp is None else stamp.size

    def content(self, path: bytes, entry: Entry) -> bytes:
        content = self._snapshot.context.applier.read(path, entry)
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
    sides: tuple[Contents, Contents],
    patch: bool,
    withheld: _Withheld,
) -> DiffReport:
    moved = moves(changes)
    gone = {source.path for source in moved.values()}
    files: list[FileDiff] = []
    patches = BytesIO()
    for change in changes:
        if change.path in gone:
            continue
        source = moved.get(change.path, change)
        made = _patch_or_damage(source, change, sides=sides, withheld=withheld)
        if patch:
            patches.write(made.patch)
        files.append(_file_diff(change, made, old_path=None if source is change else source.path))
    return DiffReport(
        from_=before.id,
        to=None if after is None else after.id,
        files=tuple(files),
        patch=patches.getvalue() if patch else None,
    )


def _patch_or_damage(
    source: Change, change: Change, *, sides: tuple[Contents, Contents], withheld: _Withheld
) -> FilePatch:
    """Return the patch of one path, or what is told of one that cannot be read: others can (rule K4)."""
    try:
        return _file_patch(source, change, old=sides[0], new=sides[1], withheld=withheld)
    except Damaged:
        named = _side(source.path, source.before, None), _side(change.path, change.after, None)
        return FilePatch(patch=_omission_line(*named, why=b"damaged, cannot be read"), damaged=True)


def _file_patch(
    source: Change,
    change: Change,
    *,
    old: Contents,
    new: Contents,
    withheld: _Withheld = _NOTHING,
) -> FilePatch:
    """Return the patch of one path; what is the same on both sides, hidden, or too large, is not read."""
    before, after = source.before, change.after
    same = before is not None and after is not None and before.oid == after.oid
    if not same and not withheld.private.isdisjoint((source.path, change.path)):
        sides = _side(source.path, before, None), _side(change.path, after, None)
        return FilePatch(patch=_omission_line(*sides, why=b"private"), private=True)
    large = not same and any(
        _is_file(entry) and read.size(path, entry) > LARGEST
        for path, entry, read in ((source.path, before, old), (change.path, after, new))
        if entry is not None
    )
    unread = same or large
    return file_patch(
        _side(source.path, before, None if unread else old),
        _side(change.path, after, None if unread else new),
        redacted=withheld.secrets,
    )


def _is_file(entry: Entry) -> bool:
    return entry.kind == FILE


def _file_diff(change: Change, made: FilePatch, *, old_path: bytes | None) -> FileDiff:
    return FileDiff(
        path=change.path,
        status=change.status if old_path is None else "renamed",
        old_path=old_path,
        additions=made.additions,
        deletions=made.deletions,
        binary=made.binary,
        large=made.large,
        private=made.private,
        damaged=made.damaged,
    )


def moves(changes: Sequence[Change]) -> dict[bytes, Change]:
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
