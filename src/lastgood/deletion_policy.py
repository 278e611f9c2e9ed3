"""What may be taken away, and what stays and why (rule T4)."""

from __future__ import annotations

from lastgood.model.path_safety import is_beyond
from lastgood.model.tree import DIRECTORY, LINK
from lastgood.paths import Covering
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol

    from lastgood.model.tree import Entry, Gap
else:
    Protocol = object

PERMISSION_BITS = 0o777
# setuid, setgid and sticky are recorded, and never restored (rule S3).
SPECIAL_BITS = 0o7000


class Present(Protocol):
    """The workspace as it was just scanned (`lastgood.host.Scan`)."""

    def directory(self, path: bytes) -> Sequence[Entry] | None:
        """Return the captured entries of a directory; None if it was not captured."""

    def left_out(self, path: bytes) -> Sequence[bytes]:
        """Return the names in a captured directory that were not captured."""

    def ignored(self, path: bytes, *, directory: bool) -> bool | None:
        """Tell whether the present rules ignore a path; None if they cannot be read."""


class IgnoredThen(Protocol):
    """The ignore rules of the target's moment."""

    def __call__(self, path: bytes, *, directory: bool) -> bool | None:
        """Tell whether those rules ignored a path; None if they could not be read."""


class DeletionEvidence(Value):
    """What decides whether a path may be taken away or overwritten.

    ``look`` reads a path that the scan left out, as it is now: None if nothing is there. A file
    whose content cannot be held (a socket, an unreadable file) has an empty ``oid``, and so has
    every directory.
    """

    ignored_then: IgnoredThen
    look: Callable[[bytes], Entry | None]
    gaps_then: tuple[Gap, ...] = ()
    gaps_now: tuple[Gap, ...] = ()


class DeletionPolicy:
    """Says of captured paths that the target does not have whether they stay."""

    __slots__ = ("_gaps_now", "_gaps_then", "_ignored_then", "_present")

    def __init__(self, present: Present, evidence: DeletionEvidence) -> None:
        self._present = present
        self._ignored_then = evidence.ignored_then
        self._gaps_now = _by_path(evidence.gaps_now)
        self._gaps_then = _by_path(evidence.gaps_then)

    def reason_to_keep(self, path: bytes, *, directory: bool) -> str | None:
        """Return why a path must not be taken away, or None when it may be."""
        now = self._present.ignored(path, directory=directory)
        if now is not False:
            return "ignored" if now else "its ignore rules cannot be read"
        then = self._ignored_then(path, directory=directory)
        if then is not False:
            return "was ignored" if then else "the ignore rules of then cannot be read"
        return self.gap_now(path) or self.gap_then(path)

    def gap_now(self, path: bytes) -> str | None:
        """Return which gap of the workspace covers a path."""
        reason = self._gaps_now.of(path)
        return reason and f"gap: {reason}"

    def is_too_deep(self, path: bytes) -> bool:
        """Tell whether a path is a gap of the workspace because no checkpoint holds anything so deep."""
        return self._gaps_now.at(path) == "unsupported" and is_beyond(path)

    def gap_then(self, path: bytes) -> str | None:
        """Return which gap of the target covers a path."""
        reason = self._gaps_then.of(path)
        return reason and f"was a gap: {reason}"

    def reason_left_out(self, path: bytes, *, directory: bool) -> str:
        """Return why a path that the scan left out is none of a restore's business."""
        if self._present.ignored(path, directory=directory):
            return "ignored"
        return self.gap_now(path) or "not captured"


def same_content(one: Entry | None, other: Entry | None) -> bool:
    """Tell whether two entries are one to a restore: special bits and contents of directories aside."""
    if one is None or other is None:
        return one is other
    if one.kind != other.kind:
        return False
    if one.kind != DIRECTORY and one.oid != other.oid:
        return False
    return one.kind == LINK or not (one.mode ^ other.mode) & PERMISSION_BITS


def _by_path(gaps: Iterable[Gap]) -> Covering:
    return Covering({gap.path: gap.reason for gap in gaps})
