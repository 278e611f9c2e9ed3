"""Differences as PraisonAI's programs read them: three statuses, text before and after, one patch."""

from __future__ import annotations

import os
import stat

from lastgood.errors import LastgoodError
from lastgood.integrations.praisonai.types import FileDiff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lastgood.model.report import DiffReport
    from lastgood.model.report import FileDiff as Line
    from lastgood.workspace import Workspace

    Read = Callable[[bytes], bytes | None]

_LARGEST = 1 << 20
_ALTOGETHER = 32 << 20
_LOOKED_AT = 8000


class Contents:
    """Reads what differs, as text, as long as that is a reasonable amount."""

    def __init__(self, before: Read, after: Read) -> None:
        self._before = before
        self._after = after
        self._left = _ALTOGETHER

    def before(self, path: bytes) -> str | None:
        """Return what was in a file; None if it is no text, or too much."""
        return self._text(self._before(path))

    def after(self, path: bytes) -> str | None:
        """Return what is in a file."""
        return self._text(self._after(path))

    def _text(self, content: bytes | None) -> str | None:
        if content is None or len(content) > min(_LARGEST, self._left) or b"\0" in content[:_LOOKED_AT]:
            return None
        self._left -= len(content)
        try:
            return content.decode()
        except UnicodeDecodeError:
            return None


def stored(workspace: Workspace, ref: str) -> Read:
    """Return a reader of the files of a checkpoint."""

    def read(path: bytes) -> bytes | None:
        try:
            return workspace.read(ref, path)
        except LastgoodError:  # no file, or one that is damaged: the difference is told all the same
            return None

    return read


def present(workspace: Workspace) -> Read:
    """Return a reader of the files of the workspace; links are never followed."""
    root = os.fsencode(workspace.path)

    def read(path: bytes) -> bytes | None:
        full = os.path.join(root, path)
        try:
            if os.path.realpath(os.path.dirname(full)) != os.path.dirname(full):
                return None
            if os.path.islink(full):
                return os.readlink(full)
            return _content(full)
        except OSError:  # gone, changed meanwhile, or not readable
            return None

    return read


def _content(path: bytes) -> bytes | None:
    """Return what a regular file holds, as far as it is asked for."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        parts = []
        while part := os.read(file, _LARGEST + 1):
            parts.append(part)
            if sum(map(len, parts)) > _LARGEST:
                break
        return b"".join(parts)
    finally:
        os.close(file)


def files_of(report: DiffReport, *, place: str, contents: Contents | None) -> list[FileDiff]:
    """Return the files that differ, by path; a renamed one is gone here and new there."""
    parts = [part for line in report.files for part in _parts(line)]
    return [_file(*part, place=place, contents=contents) for part in sorted(parts, key=lambda one: one[0])]


def _parts(line: Line) -> Iterator[tuple[bytes, str, Line]]:
    if line.status == "renamed" and line.old_path is not None:
        yield line.old_path, "deleted", line
        yield line.path, "added", line
    else:
        known = line.status in {"added", "deleted"}
        yield line.path, line.status if known else "modified", line


def _file(path: bytes, status: str, line: Line, *, place: str, contents: Contents | None) -> FileDiff:
    name = os.fsdecode(path)
    before = contents.before(path) if contents is not None and status != "added" else None
    after = contents.after(path) if contents is not None and status != "deleted" else None
    additions, deletions = line.additions, line.deletions
    if line.status == "renamed":
        additions, deletions = _lines(after), _lines(before)
    return FileDiff(
        path=name,
        absolute_path=os.path.join(place, name),
        status=status,
        additions=additions,
        deletions=deletions,
        before_content=before,
        after_content=after,
    )


def _lines(text: str | None) -> int:
    return 0 if not text else text.count("\n") + (not text.endswith("\n"))
