"""Verbs about the work itself: sessions, tasks, progress."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Verb

WORK: tuple[Verb, ...] = ()
