"""log: the checkpoints at which a path changed, and the paths that changed at checkpoints."""

from __future__ import annotations

from collections import deque
from fnmatch import fnmatchcase
from itertools import islice

from lastgood import diff
from lastgood.catalogue import Query
from lastgood.content_search import ContentSearch
from lastgood.errors import Damaged, NotFound
from lastgood.model.report import LogReport, PathChange
from lastgood.model.tree import DIRECTORY, Entry, TreeId, compare, whole
from lastgood.paths import Covering, join, printable, to_text
from lastgood.suggestions import nearest_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

    from lastgood.context import Context
    from lastgood.literals import DiffStatus
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.report import FileDiff, Occurrences
    from lastgood.trees import Files
    from lastgood.view import View

    # What a checkpoint says of a path: unknown where it is a gap, or cannot be read.
    Held = Entry | None | Literal["unknown"]

_PAGE = 16
# So many of the newest checkpoints, and of their directories, are searched for a path of the same name.
_LOOKED_INTO = 100
_DIRECTORIES = 5000
_SHOWN = 5
# What a pattern of the shell has in it; and how long a part of a name is that need not be a word of it.
_WILD = frozenset("*?[")
_PART = 3
# So much is quoted of a text that was looked for.
_QUOTED = 60


def path_log(
    context: Context,
    view: View,
    path: bytes,
    *,
    limit: int | None,
    guards: bool,
    text: bytes | None = None,
    private: bool = False,
) -> LogReport:
    """Return the checkpoints at which a path was not what it was before, newest first.

    Of a ``text`` those at which files of the path have it more or less often; of private ones only if they
    are asked for (rule S5). A checkpoint that does not know (the path is a gap in it, or it is damaged) is
    passed over. Raises `NotFound` where no checkpoint ever held the path, or the text in it.
    """
    query = Query(workspace_key=context.key, guards=guards, brief=True)
    search = None if text is None else ContentSearch(text, context.engine, private=private)
    with context.locks.share_store(wait=context.wait):
        history = _History(view, path, pages=_pages(context, query), search=search)
        changes = tuple(islice(history.changes(), limit))
        if not changes and limit != 0:
            if search is not None and history.held:
                raise _never_had(search, path, damaged=history.damaged or bool(search.damaged))
            error = _never_held(view, history.checkpoints, path, damaged=history.damaged)
            if limit != 1:  # who asks for the last change alone asks whether there is any
                alike = _alike(view, history.checkpoints, path)
                error.details |= {"same_name": [to_text(one) for one in alike]} if alike else {}
            raise error
    if search is None:
        return LogReport(path=path, changes=changes)
    if history.damaged:  # of a whole checkpoint, or a folder of it: what was to be searched there
        search.damaged.add(path)
    unsearched, damaged = tuple(sorted(search.unsearched)), tuple(sorted(search.damaged))
    return LogReport(path=path, changes=changes, unsearched=unsearched, damaged=damaged)


def _pages(context: Context, query: Query) -> Iterator[Sequence[Checkpoint]]:
    """Yield what a query finds, a few at a time: who asks for the last changes does not wait for all."""
    offset, last = 0, None
    while found := context.catalogue.find(query.replace(limit=_PAGE, offset=offset)):
        # What is saved meanwhile moves those that were read already to the next page.
        yield [one for one in found if last is None or one.sequence < last]
        offset, last = offset + _PAGE, found[-1].sequence


def _never_held(
    view: View, checkpoints: Sequence[Checkpoint], path: bytes, *, damaged: bool
) -> NotFound | Damaged:
    shown = printable(to_text(path))
    if damaged:
        return Damaged(
            f"no checkpoint that can be read holds '{shown}', and some cannot be read",
            hint="see which: lastgood verify",
        )
    if not checkpoints and view.at() is None:
        return view.nothing_left()
    hint = "see what the latest holds: lastgood show @ --files"
    details: dict[str, object] = {}
    if checkpoints:
        tree = view.tree(checkpoints[0])
        near = nearest_path(path, lambda above: [entry.name for entry in tree.at(above) or ()])
        if near is not None:
            hint = f"did you mean {printable(to_text(near))}?"
            details["near"] = to_text(near)
    return NotFound(f"no checkpoint holds '{shown}'", hint=hint, details=details)


def _never_had(search: ContentSearch, path: bytes, *, damaged: bool) -> NotFound | Damaged:
    text = printable(to_text(search.text[:_QUOTED])) + ("…" if len(search.text) > _QUOTED else "")
    where = f"'{printable(to_text(path))}'" if path else "any file"
    if damaged:
        return Damaged(
            f"no checkpoint that can be read has '{text}' in {where}, and some cannot be read",
            hint="see which: lastgood verify",
        )
    hint = "in names, messages and paths: lastgood list WORD"
    if search.unsearched:
        hint = f"private files were not searched (such as .env); to search them too: --private\n{hint}"
    return NotFound(f"no checkpoint has '{text}' in {where}", hint=hint)


def _alike(view: View, checkpoints: Sequence[Checkpoint], path: bytes) -> list[bytes]:
    """Return some paths that one which nothing holds may be meant for, of `@`, else of the newest with any.

    Those of its name; else those that it fits as a pattern of the shell, or of whose name it is a part.
    """
    name = path.rpartition(b"/")[2]
    stands = view.at()
    seen = set[tuple[bytes, TreeId]]()
    partly: list[bytes] = []
    for checkpoint in (*(() if stands is None else (stands,)), *checkpoints[:_LOOKED_INTO]):
        below = list(_below(view.tree(checkpoint), seen))
        found = [one for one in below if one.rpartition(b"/")[2] == name]
        if found:
            return found[:_SHOWN]
        partly = partly or [one for one in below if _is_like(path, one)][:_SHOWN]
    return partly


def _below(tree: Files, seen: set[tuple[bytes, TreeId]]) -> Iterator[bytes]:
    """Yield every path of a tree in directories that were not seen yet, those near the top first."""
    waiting = deque([(b"", tree.root)])
    while waiting and len(seen) < _DIRECTORIES:
        above = waiting.popleft()
        if above in seen:
            continue
        seen.add(above)
        try:
            entries = tree.objects.directory(above[1])
        except Damaged:
            continue  # others may tell
        yield from (join(above[0], one.name) for one in entries)
        waiting += [(join(above[0], one.name), one.tree_id) for one in entries if one.kind == DIRECTORY]


def _is_like(typed: bytes, path: bytes) -> bool:
    """Tell whether a word fits a path as a pattern of the shell, or is a part of its name."""
    pattern, name = to_text(typed).lower(), to_text(path.rpartition(b"/")[2]).lower()
    if _WILD & set(pattern):
        return fnmatchcase(to_text(path).lower() if "/" in pattern else name, pattern)
    if "/" in pattern or not pattern:
        return False
    return pattern in name if len(pattern) >= _PART else pattern in _words_of(name)


def _words_of(name: str) -> list[str]:
    """Return the parts of a name between its marks: ``db`` and ``py`` of ``db.py``."""
    return "".join(one if one.isalnum() else " " for one in name).split()


class _History:
    """One path in the checkpoints of a workspace, newest first; ``damaged`` if some cannot be read.

    ``checkpoints`` are those that were read so far; ``held`` tells that one of them changed the path.
    """

    def __init__(
        self,
        view: View,
        path: bytes,
        *,
        pages: Iterator[Sequence[Checkpoint]],
        search: ContentSearch | None = None,
    ) -> None:
        self._view = view
        self._path = path
        self._pages = pages
        self._search = search
        self.damaged = self.held = False
        self.checkpoints: list[Checkpoint] = []
        self._places: dict[str, int] = {}
        self._known: dict[str, Held] = {}

    def _reads_on(self) -> bool:
        """Read some more checkpoints; False where there are none."""
        before = len(self.checkpoints)
        for page in self._pages:
            for one in page:
                self._places[one.id] = len(self.checkpoints)
                self.checkpoints.append(one)
            if page:
                break
        return len(self.checkpoints) > before

    def _every(self) -> Iterator[Checkpoint]:
        place = 0
        while place < len(self.checkpoints) or self._reads_on():
            yield self.checkpoints[place]
            place += 1

    def changes(self) -> Iterator[PathChange]:
        """Yield every change, newest first; of a text that is looked for those that it came or went with."""
        for checkpoint in self._every():
            now = self._held(checkpoint)
            if now == "unknown":
                continue
            before = self._before(checkpoint)
            then = None if before is None else self._held(before)
            assert then != "unknown"
            if then != now:
                self.held = True
                change = self._change(before, checkpoint, then=then, now=now)
                if self._search is None or change.occurrences:
                    yield change

    def _held(self, checkpoint: Checkpoint) -> Held:
        if checkpoint.id not in self._known:
            self._known[checkpoint.id] = self._look(checkpoint)
        return self._known[checkpoint.id]

    def _look(self, checkpoint: Checkpoint) -> Held:
        try:
            tree = self._view.tree(checkpoint)
            entry = tree.entry(self._path) if self._path else whole(tree.root)
        except Damaged:
            self.damaged = True
            return "unknown"
        gaps = Covering({gap.path: gap.reason for gap in checkpoint.gaps})
        return "unknown" if entry is None and gaps.of(self._path) is not None else entry

    def _before(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """Return the nearest checkpoint before one, along its history, that knows of the path.

        What imports bring may stand before what it came from, and what came before one may be deleted.
        """
        place = self._places[checkpoint.id]
        seen = set[int]()
        while place not in seen:
            seen.add(place)
            previous = self.checkpoints[place].manifest.previous
            if previous is None:
                return None
            while previous not in self._places and self._reads_on():
                pass
            place = self._places.get(previous, place + 1)
            if place >= len(self.checkpoints):
                return None
            if self._held(self.checkpoints[place]) != "unknown":
                return self.checkpoints[place]
        return None

    def _change(
        self, before: Checkpoint | None, checkpoint: Checkpoint, *, then: Entry | None, now: Entry | None
    ) -> PathChange:
        occurrences: tuple[Occurrences, ...] = ()
        files: Sequence[FileDiff] = ()
        try:
            changes = diff.changes_between(self._view, before, checkpoint, path=self._path)
            if self._search is not None:
                found = list(self._search.sifted(changes, before, checkpoint))
                changes = [one for one, _ in found]
                occurrences = tuple(one for _, one in found)
            files = diff.file_diffs(self._view, checkpoint, changes)
        except Damaged:
            self.damaged = True
        lone = len(files) == 1 and files[0].path == self._path
        return PathChange(
            checkpoint=checkpoint,
            status=files[0].status if lone else _status(then, now),
            size=self._size(checkpoint, now),
            files=len(files),
            additions=_sum(files, "additions"),
            deletions=_sum(files, "deletions"),
            binary=lone and files[0].binary,
            occurrences=occurrences,
        )

    def _size(self, checkpoint: Checkpoint, now: Entry | None) -> int | None:
        if now is None or now.kind == DIRECTORY:
            return None
        try:
            return self._view.tree(checkpoint).objects.blob_size(now.oid)
        except Damaged:
            return None


def _status(then: Entry | None, now: Entry | None) -> DiffStatus:
    if then is None or now is None:
        return "added" if then is None else "deleted"
    return "modified" if then.kind == now.kind else "kind"


def _sum(files: Sequence[FileDiff], name: str) -> int:
    return sum(getattr(one, name) for one in files)


def changed_paths(
    context: Context, view: View, checkpoints: Sequence[Checkpoint], *, patient: bool
) -> dict[str, tuple[bytes, ...]]:
    """Return which paths differ at each of some checkpoints, newest first, from the one before it, by id.

    Where that one is gone, it is the next of those given. What cannot be read tells of no path. `Busy` while
    bytes are freed, at once unless somebody is ``patient``.
    """
    by_id = {one.id: one for one in checkpoints}
    found: dict[str, tuple[bytes, ...]] = {}
    with context.locks.share_store(wait=context.wait if patient else 0):
        for place, one in enumerate(checkpoints):
            before = None
            if one.manifest.previous is not None:
                before = by_id.get(one.manifest.previous) or context.catalogue.get(one.manifest.previous)
                before = before or next(iter(checkpoints[place + 1 : place + 2]), None)
            found[one.id] = _changed(view, before, one)
    return found


def _changed(view: View, before: Checkpoint | None, after: Checkpoint) -> tuple[bytes, ...]:
    if before is not None and before.manifest.root == after.manifest.root:
        return ()
    try:
        changes = compare(None if before is None else view.tree(before), view.tree(after), gaps=after.gaps)
        return tuple(one.path for one in changes)
    except Damaged:
        return ()
