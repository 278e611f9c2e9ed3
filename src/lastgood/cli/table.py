"""The verbs: one table that the reader, the help, the completion and the documentation are made from."""

from __future__ import annotations

from lastgood.cli.tables.files import FILES
from lastgood.cli.tables.options import GLOBAL_OPTIONS
from lastgood.cli.tables.store import STORE
from lastgood.cli.tables.work import WORK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Verb

__all__ = ["GLOBAL_OPTIONS", "VERBS", "spellings"]

VERBS: tuple[Verb, ...] = (*FILES, *WORK, *STORE)


def spellings() -> dict[str, Verb]:
    """Return every word that names a verb."""
    words = {}
    for verb in VERBS:
        words[verb.name] = verb
        for spelling in verb.spellings:
            words[spelling] = verb
    return words
