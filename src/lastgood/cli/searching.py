"""What a list of checkpoints finds by words that somebody typed."""

from __future__ import annotations

from lastgood.cli.wording import few_paths, label, moment
from lastgood.errors import count
from lastgood.paths import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.model.checkpoint import Checkpoint

    # Which paths changed at which checkpoint, by its id.
    Paths = Mapping[str, Sequence[bytes]]

# What is searched, as it is told where nothing was found.
SEARCHED = "names, messages, tasks, kinds, dates, ids, and the paths that changed"
_LEAST_OF_ID = 4
_WILD = frozenset("*?[")


def says(checkpoint: Checkpoint, word: str) -> bool:
    """Tell whether a word, in lower case, is part of what a list tells of a checkpoint, or begins its id."""
    made = moment(checkpoint.manifest.created_at)
    task = checkpoint.manifest.task or ""
    told = (checkpoint.name or "", checkpoint.message, label(checkpoint), task, checkpoint.kind, made)
    if any(word in one.lower() for one in told):
        return True
    return len(word) >= _LEAST_OF_ID and (
        checkpoint.id.startswith(word) or checkpoint.id[5:].startswith(word)
    )


def paths_with(paths: Sequence[bytes], word: str) -> list[bytes]:
    """Return those paths that a word, in lower case, is a part of, or a pattern of the shell for."""
    if not _WILD & set(word):
        return [path for path in paths if word in to_text(path).lower()]
    return [path for path in paths if _fits(to_text(path).lower(), word)]


def _fits(path: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase  # lazily: a list without a pattern pays for no regular expression

    return fnmatchcase(path, pattern) or fnmatchcase(path.rpartition("/")[2], pattern)


def told_by_files(checkpoint: Checkpoint, paths: Sequence[bytes] = ()) -> str:
    """Return what is said of a checkpoint that nobody named, by those paths that changed at it, if known."""
    if checkpoint.previous is None:
        return "the first checkpoint"
    if paths:
        return f"changed: {few_paths(paths)}"
    changes = checkpoint.manifest.changes
    number = changes.added + changes.modified + changes.deleted
    return f"{count(number, 'file')} changed" if number else "no file changed"


def searched(
    checkpoints: Sequence[Checkpoint], words: Sequence[str], *, paths: Paths
) -> dict[str, list[bytes]]:
    """Return the ids of those checkpoints that every word fits, each with the paths by which it was found."""
    wanted = [word.lower() for word in words]
    found: dict[str, list[bytes]] = {}
    for one in checkpoints:
        by_path = {word: paths_with(paths.get(one.id, ()), word) for word in wanted if not says(one, word)}
        if all(by_path.values()):
            found[one.id] = sorted({path for those in by_path.values() for path in those})
    return found
