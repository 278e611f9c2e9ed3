"""The tasks of a progress as JSON: of thousands, only what changed is written and read.

A run encodes and decodes its whole progress several times for each of its tasks, and nearly all of it is
what it was a moment ago. So the last tasks that were written are remembered with their texts; a text is
taken for theirs only if it is the same, byte for byte.
"""

from __future__ import annotations

from lastgood.codec.canonical import Canonical, dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.progress import Task

# Where tasks stand in a canonical text: no quoted text can hold this, its quotes being escaped.
_PLACE = '"tasks":'
# What stands there instead of those that are known; no task is a number.
_STAND_IN = [0]


class _Written:
    """Tasks with the text of each, and of all together."""

    def __init__(self, tasks: tuple[Task, ...], texts: list[str]) -> None:
        self.tasks = tasks
        self.texts = texts
        self.whole = Canonical("[" + ",".join(texts) + "]")
        self.placed = _PLACE + self.whole.text


_last = _Written((), [])


def tasks_text(given: tuple[Task, ...]) -> Canonical:
    """Return tasks as canonical JSON."""
    global _last  # noqa: PLW0603 - one slot, replaced as a whole: threads cannot see half of it
    last, tasks = _last, tuple(given)  # what is no tuple could change, and be taken for what it was
    if tasks is last.tasks:
        return last.whole
    known = zip(tasks, last.tasks, last.texts, strict=False)
    texts = [text if task is before else _text(task) for task, before, text in known]
    texts += [_text(task) for task in tasks[len(texts) :]]
    _last = made = _Written(tasks, texts)
    return made.whole


def read(
    text: bytes | str, *, what: str, within: str | None = None
) -> tuple[dict[str, object], tuple[Task, ...]]:
    """Return a JSON object, and its tasks if they are the last ones: it has none of them then.

    They belong to the object itself, or to the one that it has ``within``. Raises `Damaged`, naming
    ``what``, if it is none.
    """
    last = _last
    whole = _ascii(text) if isinstance(text, bytes) and last.tasks else text
    if isinstance(whole, str) and last.tasks:
        before, found, after = whole.rpartition(last.placed)
        record = loads(f"{before}{_PLACE}{dumps(_STAND_IN).decode()}{after}", what=what) if found else {}
        holder = record if within is None else record.get(within)
        # The caller's own state may hold the same words: what was found is ours only in our place.
        if isinstance(holder, dict) and holder.get("tasks") == _STAND_IN:
            return record, last.tasks
    return loads(text, what=what), ()


def _ascii(text: bytes) -> str | None:
    """Return a text as canonical ones are written; None for another, which the known tasks are not in."""
    return text.decode("ascii") if text.isascii() else None


def _text(task: Task) -> str:
    return dumps(task.as_dict()).decode("ascii")
