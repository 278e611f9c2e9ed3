"""blame: who changed each line of a file last, and each file of a folder (decision 055)."""

from __future__ import annotations

from lastgood.attribution import Authors, Link, files_of, links
from lastgood.diff import LARGEST, is_binary, lines_in, moves, opcodes
from lastgood.errors import Damaged, NotFound, Unsafe
from lastgood.model.checkpoint import decode_gaps
from lastgood.model.report import Blamed, BlamedFile, BlamedLines, BlameReport
from lastgood.model.tree import DIRECTORY, FILE, Change, compare, same_content
from lastgood.paths import Covering, join, printable, to_text
from lastgood.snapshot import WorkspaceSnapshot
from lastgood.suggestions import nearest_path
from lastgood.transaction import ReadTransaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.attribution import Authorship
    from lastgood.catalogue import CheckpointFacts
    from lastgood.context import Context
    from lastgood.literals import ChangeStatus
    from lastgood.model.tree import Entry
    from lastgood.trees import Files


def blame(context: Context, path: bytes, *, private: bool) -> BlameReport:
    """Tell of each line of a file, as it is now, who changed it last; of a folder the same of each file.

    What nobody saved yet is told as that. A file that is no text, or too large to be shown, is told as a
    whole. Raises `NotFound` for what is not there, or not captured; `Unsafe` for a private file unless
    asked for.
    """
    with ReadTransaction(context) as reading, WorkspaceSnapshot(reading) as snapshot:
        entry = snapshot.files.entry(path) if path else None
        if path and entry is None:
            raise _nothing(snapshot, path)
        if entry is None or entry.kind == DIRECTORY:
            return _Folder(snapshot, path).report()
        if not private and path in snapshot.scan.result.private:
            shown = printable(to_text(path))
            raise Unsafe(
                f"'{shown}' is private: git ignores it, and it may hold secrets",
                hint=f"to see it all the same: lastgood blame --private {shown}",
            )
        return _File(snapshot, path, entry).report()


def _nothing(snapshot: WorkspaceSnapshot, path: bytes) -> NotFound:
    shown = printable(to_text(path))
    if snapshot.actual(path) is not None:
        return NotFound(
            f"'{shown}' is in no checkpoint: it is ignored, or could not be read",
            hint="see what is left out: lastgood status --ignored",
        )
    near = nearest_path(path, lambda above: [one.name for one in snapshot.files.at(above) or ()])
    hint = f"if it was deleted, see when: lastgood log {shown}"
    if near is not None:
        hint = f"did you mean {printable(to_text(near))}?\n{hint}"
    return NotFound(f"there is no '{shown}' in the workspace", hint=hint)


class _Step(Value):
    """Two versions of the files, one after the other; the later one is the workspace where there is none.

    ``change`` is what is looked at of what came with it.
    """

    after: CheckpointFacts | None
    before: CheckpointFacts | None
    change: Change | None = None


class _History:
    """The versions of the files from the workspace back, each read when it is asked for."""

    def __init__(self, snapshot: WorkspaceSnapshot) -> None:
        self.snapshot = snapshot
        self._context = snapshot.context
        self._authors = Authors(self._context)

    def steps(self) -> Iterator[_Step]:
        """Yield what was changed since the last checkpoint, then what came to each, newest first."""
        first = True
        for link in links(self._context):
            if first:
                yield _Step(after=None, before=link.after)
                first = False
            yield _Step(after=link.after, before=link.before)
        if first:
            yield _Step(after=None, before=None)

    def files(self, facts: CheckpointFacts) -> Files:
        """Return the files of a checkpoint."""
        return files_of(self._context, facts)

    def author(self, step: _Step) -> Authorship | None:
        """Return whose a step is; None of what nobody saved yet."""
        if step.after is None:
            return None
        assert step.change is not None
        return self._authors.of_change(Link(after=step.after, before=step.before), step.change)

    def changes(self, step: _Step) -> list[Change]:
        """Return all that differs between the two versions of a step."""
        before = None if step.before is None else self.files(step.before)
        if step.after is None:
            gaps = self.snapshot.scan.result.gaps
            return list(compare(before, self.snapshot.files, gaps=gaps))
        return list(compare(before, self.files(step.after), gaps=decode_gaps(step.after.gaps)))


def _gaps(facts: CheckpointFacts) -> Covering | None:
    """Return what a checkpoint does not hold; None where that is nothing."""
    if facts.gaps in {"", "[]"}:
        return None
    return Covering({one.path: one.reason for one in decode_gaps(facts.gaps)})


class _File(_History):
    """One file, followed back through its versions until somebody is known for every line."""

    def __init__(self, snapshot: WorkspaceSnapshot, path: bytes, entry: Entry) -> None:
        super().__init__(snapshot)
        self._path = self._called = path
        self._entry: Entry = entry
        # Of each line of the version that is looked at, which line it is of the file now; None where it is
        # none of these. Of a file that is told as a whole there is one.
        self._lines = self._text(self._present())
        self._places: list[int | None] = list(range(1 if self._lines is None else len(self._lines)))
        self._found: list[tuple[_Step, bytes] | None] = [None] * len(self._places)

    def report(self) -> BlameReport:
        """Return who changed what of it."""
        content = None if self._lines is None else tuple(self._lines)
        self._follow()
        whole = content is None
        return BlameReport(
            path=self._path,
            kind="file",
            whole=whole,
            lines=self._ranges(whole=whole) if self._found else (),
            content=content,
        )

    def _ranges(self, *, whole: bool) -> tuple[BlamedLines, ...]:
        ranges: list[BlamedLines] = []
        last = None
        for number, found in enumerate(self._found, 1):
            if found is not None and last is not None and found[0] is last[0] and found[1] == last[1]:
                ranges[-1] = ranges[-1].replace(last=number)
                continue
            last = found
            assert found is not None
            step, called = found
            said = _said(self.author(step))
            first, end = (None, None) if whole else (number, number)
            ranges.append(BlamedLines(first=first, last=end, path=called, by=said))
        return tuple(ranges)

    def _follow(self) -> None:
        """Look at one version after the other until every line has somebody."""
        reach: _Step | None = None
        for step in self.steps():
            if all(place is None for place in self._places):
                return
            # Versions that nobody can read are passed over: what came with them counts to the next.
            later = step.after if reach is None else reach.after
            joined = _Step(after=later, before=step.before)
            known, entry = self._before(step)
            if not known:
                reach = joined
                continue
            reach = None
            self._compare(joined, entry)

    def _before(self, step: _Step) -> tuple[bool, Entry | None]:
        if step.before is None:
            return True, None
        try:
            entry = self.files(step.before).entry(self._called)
        except Damaged:
            return False, None
        gaps = None if entry is not None else _gaps(step.before)
        return gaps is None or gaps.of(self._called) is None, entry

    def _compare(self, step: _Step, entry: Entry | None) -> None:
        """Give the lines that came with a step to it, and go on with those that were there before."""
        called = self._called
        if entry is None and step.before is not None:
            entry = self._moved(step)
        status: ChangeStatus = "added" if entry is None else "modified"
        change = Change(path=called, status=status, before=entry, after=self._entry)
        step = step.replace(change=change)
        if entry is None or entry.kind != self._entry.kind:
            self._give(step, called, range(len(self._places)))
            self._places = []
            return
        same = entry.oid == self._entry.oid
        self._entry = entry
        if same:
            return
        old = None if self._lines is None else self._stored(entry)
        if self._lines is None or old is None:
            self._give(step, called, range(len(self._places)))
            self._places = []
            return
        places: list[int | None] = [None] * len(old)
        for tag, i1, i2, j1, j2 in opcodes(old, self._lines):
            if tag == "equal":
                places[i1:i2] = self._places[j1:j2]
            else:
                self._give(step, called, range(j1, j2))
        self._lines, self._places = old, places

    def _give(self, step: _Step, called: bytes, lines: range) -> None:
        for line in lines:
            place = self._places[line]
            if place is not None:
                self._found[place] = (step, called)

    def _moved(self, step: _Step) -> Entry | None:
        """Return what the file was before a step under another name, which it has from then on."""
        try:
            source = moves(self.changes(step)).get(self._called)
        except Damaged:
            return None
        if source is None:
            return None
        self._called = source.path
        return source.before

    def _present(self) -> bytes | None:
        """Return the bytes of the file as it is now; None of one that is told as a whole."""
        stamp = self.snapshot.scan.stamp(self._path)
        if self._entry.kind != FILE or (stamp is not None and stamp.size > LARGEST):
            return None
        content = self.snapshot.context.applier.read(self._path, self._entry)
        if content is None:
            raise NotFound(
                f"'{printable(to_text(self._path))}' changed while it was read", hint="run it again"
            )
        return content

    def _stored(self, entry: Entry) -> list[bytes] | None:
        engine = self.snapshot.context.engine
        try:
            if engine.blob_size(entry.oid) > LARGEST:
                return None
            return self._text(engine.read_blob(entry.oid))
        except Damaged:
            return None

    @staticmethod
    def _text(content: bytes | None) -> list[bytes] | None:
        return None if content is None or is_binary(content) else lines_in(content)


class _Folder(_History):
    """The files of a folder, each followed back to where it changed last."""

    def __init__(self, snapshot: WorkspaceSnapshot, path: bytes) -> None:
        super().__init__(snapshot)
        self._path = path
        self._waiting = set(_paths(snapshot, path))
        # Files that the version before a step does not hold although they may have been there, with the step.
        self._hidden: dict[bytes, _Step] = {}
        self._found: dict[bytes, BlamedFile] = {}

    def report(self) -> BlameReport:
        """Return who changed each file last."""
        reach: _Step | None = None
        for step in self.steps():
            if not self._waiting:
                break
            # Versions that nobody can read are passed over: what came with them counts to the next.
            joined = step if reach is None else _Step(after=reach.after, before=step.before)
            try:
                found = self._changes(joined)
            except Damaged:
                reach = joined
                continue
            reach = None
            for one in found:
                self._waiting.discard(one.change.path)
                self._found[one.change.path] = BlamedFile(path=one.change.path, by=one.by)
        files = tuple(self._found[path] for path in sorted(self._found))
        return BlameReport(path=self._path, kind="directory", files=files)

    def _changes(self, step: _Step) -> list[_Told]:
        """Return what came with a step of the files that wait, each with whose it is.

        A file that was in a gap before is looked for in the version before that.
        """
        gaps = None if step.before is None else _gaps(step.before)
        older = None if step.before is None else self.files(step.before)
        told: list[_Told] = []
        seen: list[bytes] = []
        for path, shown in self._hidden.items():
            entry = None if older is None else older.entry(path)
            if entry is None and gaps is not None and gaps.of(path) is not None:
                continue
            seen.append(path)
            assert shown.change is not None
            if not same_content(entry, shown.change.after):
                change = shown.change.replace(before=entry)
                told.append(self._told(shown.replace(before=step.before, change=change)))
        hidden: dict[bytes, _Step] = {}
        for change in self.changes(step):
            if change.path not in self._waiting or change.path in self._hidden or change.status == "deleted":
                continue
            if change.before is None and gaps is not None and gaps.of(change.path) is not None:
                hidden[change.path] = step.replace(change=change)
            else:
                told.append(self._told(step.replace(change=change)))
        for path in seen:
            del self._hidden[path]
        self._hidden |= hidden
        return told

    def _told(self, step: _Step) -> _Told:
        assert step.change is not None
        return _Told(change=step.change, by=_said(self.author(step)))


class _Told(Value):
    change: Change
    by: Blamed


def _paths(snapshot: WorkspaceSnapshot, folder: bytes) -> Iterator[bytes]:
    """Yield the files that were captured in a folder and below."""
    waiting = [folder]
    while waiting:
        above = waiting.pop()
        for entry in snapshot.scan.directory(above) or ():
            path = join(above, entry.name)
            if entry.kind == DIRECTORY:
                waiting.append(path)
            else:
                yield path


def _said(author: Authorship | None) -> Blamed:
    if author is None:
        return Blamed()
    made = author.checkpoint.manifest
    return Blamed(
        checkpoint=made.id,
        at=made.created_at,
        kind=made.kind,
        session=made.session,
        actor=author.actor,
        label=author.label,
        initial=author.initial,
        why=author.why,
    )
