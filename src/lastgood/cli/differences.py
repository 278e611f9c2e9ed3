"""Comparisons as text: one line a file, or a patch."""

from __future__ import annotations

from io import BytesIO

from lastgood.cli.wording import count
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.cli.console import Console
    from lastgood.model.report import DiffStatus, FileDiff, Unmatched

LETTERS: dict[DiffStatus, str] = {
    "added": "A",
    "modified": "M",
    "deleted": "D",
    "renamed": "R",
    "mode": "M",
    "kind": "T",
}
_MARKS = 40
_COLOURS = (
    (b"+++", "1"),
    (b"---", "1"),
    (b"@@", "36"),
    (b"diff ", "1"),
    (b"# ", "1"),
    (b"+", "32"),
    (b"-", "31"),
)


def name_status_lines(files: Sequence[FileDiff]) -> list[str]:
    """Return a letter and the path (old and new where renamed) per file."""
    lines = []
    for one in files:
        old = "" if one.old_path is None else printable(to_text(one.old_path)) + "\t"
        lines.append(f"{LETTERS[one.status]}\t{old}{printable(to_text(one.path))}")
    return lines


def stat_lines(files: Sequence[FileDiff]) -> list[str]:
    """Return the lines added and removed per file, and the sum."""
    if not files:
        return ["no changes"]
    names = [printable(to_text(one.path)) for one in files]
    widest = max(len(name) for name in names)
    most = max(one.additions + one.deletions for one in files)
    lines = [f" {name:{widest}} | {_amount(one, most)}" for name, one in zip(names, files, strict=True)]
    added, removed = sum(one.additions for one in files), sum(one.deletions for one in files)
    lines.append(f" {count(len(files), 'file')}, {count(added, 'line')} added, {removed:,} removed")
    return lines


def _amount(one: FileDiff, most: int) -> str:
    if one.binary:
        return f"{'large' if one.large else 'binary'}, {one.status}"
    total = one.additions + one.deletions
    if not total:
        return one.status
    scale = min(1.0, _MARKS / most)
    plus = max(1, round(one.additions * scale)) if one.additions else 0
    minus = max(1, round(one.deletions * scale)) if one.deletions else 0
    return f"{total} {'+' * plus}{'-' * minus}"


def print_patch(patch: bytes, console: Console) -> None:
    """Print a patch: its exact bytes, but escaped (and coloured) on a terminal."""
    if not console.out_is_terminal:
        console.send(patch)
        return
    for line in BytesIO(patch):
        text = "\t".join(printable(part) for part in to_text(line.rstrip(b"\n")).split("\t"))
        style = next((code for start, code in _COLOURS if line.startswith(start)), None)
        console.line(f"\x1b[{style}m{text}\x1b[0m" if style and console.colour else text)


def unmatched_line(one: Unmatched) -> str:
    """Return what to say of a path that was asked for and that neither side holds."""
    shown = printable(to_text(one.path))
    if one.left_out:
        return f"lastgood: {shown} is left out of checkpoints: ignored, or a gap"
    near = "" if one.near is None else f"; did you mean {printable(to_text(one.near))}?"
    return f"lastgood: neither side has {shown}{near}"
