"""How often a text is in the files of checkpoints: where it came and went, as git's `log -S` means it."""

from __future__ import annotations

import re
from functools import lru_cache

from lastgood.diff import moves
from lastgood.errors import Damaged
from lastgood.model.report import Occurrences
from lastgood.model.tree import FILE, LINK
from lastgood.paths import Covering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lastgood.engine import ObjectReader
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.tree import Change, Entry

# Of so many contents is remembered how often they have the text: checkpoints share nearly all of them.
_REMEMBERED = 1 << 17


class ContentSearch:
    """A text that is looked for; each content is read once, whatever number of checkpoints has it.

    ``unsearched`` are the private files that were passed over, ``damaged`` those that could not be read.
    """

    def __init__(self, text: bytes, objects: ObjectReader, *, private: bool) -> None:
        self.text = text
        self.unsearched: set[bytes] = set()
        self.damaged: set[bytes] = set()
        self._private = private
        self._count = lru_cache(_REMEMBERED)(lambda oid: count_in(objects.pieces(oid), text))

    def sifted(
        self, changes: Sequence[Change], before: Checkpoint | None, after: Checkpoint
    ) -> Iterator[tuple[Change, Occurrences]]:
        """Yield those changes by which a file has the text more or less often than before.

        A file that only moved has it as often. Where one side cannot be told (a private file, unless they
        are asked for; a gap before; damage) nothing is claimed.
        """
        moved = moves(changes)
        same = {*moved, *(source.path for source in moved.values())}
        hidden = frozenset(() if before is None else before.manifest.private) | set(after.manifest.private)
        unknown = Covering({} if before is None else {gap.path: gap.reason for gap in before.gaps})
        for change in changes:
            if change.path in same or (change.before is None and unknown.of(change.path) is not None):
                continue
            if change.path in hidden and not self._private:
                self.unsearched.add(change.path)
                continue
            try:
                then, now = self._times(change.before), self._times(change.after)
            except Damaged:
                self.damaged.add(change.path)
                continue
            if then != now:
                yield change, Occurrences(path=change.path, before=then, after=now)

    def _times(self, entry: Entry | None) -> int:
        return self._count(entry.oid) if entry is not None and entry.kind in {FILE, LINK} else 0


def count_in(pieces: Iterable[bytes], text: bytes) -> int:
    """Return how often a text is in what comes in pieces, none of these places within another."""
    pattern = re.compile(re.escape(text))
    found, rest = 0, b""
    for piece in pieces:
        content, end = rest + piece, 0
        for match in pattern.finditer(content) if text in content else ():
            found, end = found + 1, match.end()
        rest = content[max(end, len(content) - len(text) + 1) :]
    return found
