"""Merging texts, which takes a program that not every machine has."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from lastgood.model.plan import Favour
else:
    Protocol = object


class Texts(Value):
    """Three versions of one text: what both sides began as, and what they are."""

    base: bytes
    ours: bytes
    theirs: bytes


class MergedText(Value):
    """What a merge gave; ``clean`` unless both sides changed the same place."""

    content: bytes
    clean: bool


class TextMerger(Protocol):
    """Merges texts line by line."""

    def merge(self, texts: Texts, *, favour: Favour | None, label: str) -> MergedText:
        """Merge three versions; ``label`` is what marks of a conflict call theirs.

        With ``ours`` or ``theirs`` the places where both changed are taken from that side. Raises
        `Unsupported` where nothing is there to merge with.
        """
