"""The verbs: one table that the reader, the help, the completion and the documentation are made from."""

from __future__ import annotations

from lastgood.cli.tables.options import GLOBAL_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.cli.grammar import Verb

__all__ = ["GLOBAL_OPTIONS", "all_verbs", "spellings", "verb_of"]


def verb_of(word: str) -> Verb | None:
    """Return the verb that a word names; the groups behind its own are not loaded."""
    for group in _groups():
        for verb in group:
            if word == verb.name or word in verb.spellings:
                return verb
    return None


def all_verbs() -> tuple[Verb, ...]:
    """Return every verb, in the order of the overview."""
    return tuple(verb for group in _groups() for verb in group)


def spellings() -> dict[str, Verb]:
    """Return every word that names a verb."""
    words = {}
    for verb in all_verbs():
        words[verb.name] = verb
        for spelling in verb.spellings:
            words[spelling] = verb
    return words


def _groups() -> Iterator[tuple[Verb, ...]]:
    from lastgood.cli.tables.files import FILES

    yield FILES
    from lastgood.cli.tables.work import WORK

    yield WORK
    from lastgood.cli.tables.store import STORE

    yield STORE
