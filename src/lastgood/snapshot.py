"""One look at the workspace: a scan, and the pack that its new contents go to."""

from __future__ import annotations

from lastgood.catalogue import Query
from lastgood.errors import Damaged, count
from lastgood.host import ScanRequest
from lastgood.ids import checkpoint_id
from lastgood.ignore import is_expected, is_hand_written
from lastgood.lease import current_work, is_recorded, lost_session_note
from lastgood.model.checkpoint import NO_GAPS, Actor, HealthNote, SaveReport, decode_gaps, encode_gaps
from lastgood.model.session import in_parts, lists_in_parts
from lastgood.model.tree import Counts, Gap, TreeId, changed, compare, counts, tally
from lastgood.paths import printable, to_text
from lastgood.transaction import Draft, Holdings, SaveTransaction
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self

    from lastgood.catalogue import CheckpointFacts, LatestFacts
    from lastgood.context import Context
    from lastgood.conversation.capture import Captured, GivenConversation
    from lastgood.engine import ObjectWriter
    from lastgood.host import Proof
    from lastgood.model.checkpoint import Checkpoint, GitState, Manifest
    from lastgood.model.long_list import LongList
    from lastgood.model.session import CurrentWork
    from lastgood.model.tree import Change, Entry
    from lastgood.transaction import ReadTransaction, RestoreTransaction
    from lastgood.trees import Files
    from lastgood.worktree import GitSnapshot, Scan

    Look = Callable[[bytes], Entry | None]


# --- What a checkpoint keeps of the project's git: the paths that its status shows, and the index ---

INDEX = "index"


def git_snapshot(
    context: Context,
    scan: Scan,
    *,
    writer: ObjectWriter,
    since: str | None,
    changes: Sequence[Change] | None,
) -> GitSnapshot | None:
    """Return how HEAD, index and files stand; None where there is no repository.

    ``changes`` are those since the checkpoint ``since``; None if they are not known.
    """
    if scan.result.git is None:
        return None
    known = since if changes is not None else None
    return context.project.snapshot(
        context.root, scan=scan, writer=writer, since=known, changes=changes or ()
    )


def git_blobs(status: GitSnapshot | None) -> Mapping[str, bytes]:
    """Return the blobs that a checkpoint holds of it, by name."""
    if status is None or status.index is None:
        return {}
    return {INDEX: status.index}


def git_state(git: GitState | None, status: GitSnapshot | None) -> GitState | None:
    """Return the whole state of the project's git."""
    return git if git is None or status is None else git.replace(dirty=status.dirty)


def git_notes(status: GitSnapshot | None) -> tuple[HealthNote, ...]:
    """Return what is to be said about what a checkpoint does not hold of it."""
    if status is None or status.too_large is None:
        return ()
    size = status.too_large >> 20
    return (
        HealthNote(
            code="index-too-large",
            message=f"the project's index is not held: it has {size} MiB",
            hint="restore without --git",
        ),
    )


# --- What is to be said of what a checkpoint does not hold, or holds privately (rules S5, T12a) ---

_NAMED = 5


def holding_notes(manifest: Manifest, before: Manifest | None) -> tuple[HealthNote, ...]:
    """Return a note each: rules leave most out; files and repositories that the one ``before`` had not."""
    notes = []
    if is_mostly_ignored(manifest):
        unnamed = manifest.ignored - len(manifest.ignored_paths)
        shown = _named([path for path in manifest.ignored_paths if not is_expected(path)], beside=unnamed)
        held = count(manifest.files, "file")
        notes.append(
            HealthNote(
                code="mostly-ignored",
                message=f"rules leave out most of this folder: {manifest.ignored:,} ignored entries are"
                f" not held ({shown}), {held} {'is' if manifest.files == 1 else 'are'}",
                hint="see which: lastgood status --ignored\nto hold some: capture.include",
            )
        )
    known = frozenset(() if before is None else before.private)
    private = [path for path in manifest.private if path not in known and is_hand_written(path)]
    if private and manifest.kind != "guard":
        notes.append(
            HealthNote(
                code="private-files",
                message=f"also saved, privately, though git ignores it: {_named(private)}",
                hint="to leave it out: capture.built_in_off",
            )
        )
    known = frozenset(_nested(before))
    nested = [path for path in _nested(manifest) if path not in known]
    if nested:
        notes.append(
            HealthNote(
                code="nested-repository",
                message=f"a repository of its own, held as files without its .git: {_named(nested)}",
                hint="push it, or copy its .git, to keep its history",
            )
        )
    return tuple(notes)


def is_mostly_ignored(manifest: Manifest) -> bool:
    """Tell whether more entries are ignored than files are held, what is built in to be ignored aside.

    What lies in an ignored folder is not counted: nobody walks through it.
    """
    if manifest.ignored <= manifest.files:
        return False
    expected = sum(1 for path in manifest.ignored_paths if is_expected(path))
    return manifest.ignored - expected > manifest.files


def _named(paths: Sequence[bytes], *, beside: int = 0) -> str:
    """Return the first of some paths in words, and how many more there are with those ``beside``."""
    shown = ", ".join(printable(to_text(path)) for path in paths[:_NAMED])
    more = max(0, len(paths) - _NAMED) + beside
    return f"{shown} and {more:,} more" if more else shown


def _nested(manifest: Manifest | None) -> tuple[bytes, ...]:
    git = None if manifest is None else manifest.git
    return () if git is None else tuple(one.path for one in git.nested)


# --- One look at the workspace: a scan, and the pack that its new contents go to ---


class Guard(Value):
    """The checkpoint that holds what is about to be changed, by an id that is known before it is there.

    ``hold`` makes it, unless it is, and returns it; it is durable then.
    """

    id: str
    hold: Callable[[], Checkpoint]


class PathReads:
    """A time in which a snapshot keeps directories open; one within another adds nothing."""

    def __init__(self, snapshot: WorkspaceSnapshot) -> None:
        self._snapshot = snapshot
        self._outermost = snapshot.look is None
        self._looking = snapshot.context.applier.looking()

    def __enter__(self) -> None:
        if self._outermost:
            self._snapshot.look = self._looking.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._outermost:
            self._snapshot.look = None
            self._looking.__exit__(kind, error, trace)


class Before(Value):
    """What the catalogue says before a workspace is looked at.

    ``standing`` is how far the work has come; None where nothing is kept with the files.
    """

    facts: LatestFacts | None
    generation: str
    standing: CurrentWork | None


def ask_before(transaction: ReadTransaction) -> Before:
    """Ask the catalogue what has to be known before the workspace is looked at."""
    context = transaction.context
    catalogue = context.catalogue
    # What is kept with the files is how far the work had come before they were read.
    keeps = isinstance(transaction, SaveTransaction)
    return catalogue.moment(
        lambda: Before(
            facts=catalogue.latest_facts(context.key),
            generation=catalogue.generation(),
            standing=current_work(context) if keeps else None,
        ),
        key=("snapshot", context.key, context.session, keeps),
        lasts=lambda found: found.standing is None or is_recorded(context, found.standing),
    )


class ScannedFiles:
    """The files of a workspace as a scan found them, readable like a checkpoint's."""

    __slots__ = ("_last", "_scan", "root")

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self.root: TreeId = scan.result.tree
        # The directory that was asked last, by name.
        self._last: tuple[bytes | None, Mapping[bytes, Entry]] = (None, {})

    def directory(self, path: bytes, tree: TreeId) -> Sequence[Entry]:  # noqa: ARG002 - the protocol's
        """Return the captured entries of one directory."""
        return self._scan.directory(path) or ()

    def at(self, path: bytes) -> Sequence[Entry] | None:
        """Return the captured entries of a directory, None if none of this path was captured."""
        return self._scan.directory(path)

    def entry(self, path: bytes) -> Entry | None:
        """Return what was captured under a path, None if nothing."""
        above, _, name = path.rpartition(b"/")
        if self._last[0] != above:
            self._last = (above, {entry.name: entry for entry in self._scan.directory(above) or ()})
        return self._last[1].get(name)


class RememberedFiles:
    """The files of a checkpoint, as far as may be out of what the last scan remembers of them."""

    __slots__ = ("_files", "_scan", "root")

    def __init__(self, files: Files, scan: Scan) -> None:
        self._files = files
        self._scan = scan
        self.root: TreeId = files.root

    def directory(self, path: bytes, tree: TreeId) -> Sequence[Entry]:
        """Return the entries of one directory."""
        known = self._scan.remembered(path, tree)
        return self._files.directory(path, tree) if known is None else known


class WorkspaceSnapshot:
    """The workspace as it was just scanned; becomes a checkpoint, or leaves nothing behind.

    ``forced`` are paths taken in whatever the rules say; they and those in ``fresh`` are read anew,
    whatever the scan cache says of them. One that only ``looks`` takes no room on the store's disk, and
    becomes no checkpoint. ``before`` is what was asked of the catalogue, if that was done already. A context
    manager: what was not kept by its end is abandoned.
    """

    def __init__(
        self,
        transaction: ReadTransaction,
        *,
        forced: tuple[bytes, ...] = (),
        fresh: tuple[bytes, ...] = (),
        budget: float | None = None,
        given: GivenConversation | None = None,
        before: Before | None = None,
    ) -> None:
        self.context: Context = transaction.context
        context = self.context
        self._given = given
        self._captured: Captured | None = None
        self._forced = forced
        self._fresh = fresh
        self._started = context.clock.monotonic()
        before = before or ask_before(transaction)
        self._facts: LatestFacts | None = before.facts
        self._standing: CurrentWork | None = before.standing
        # What is loaded from here to the scan is loaded while another process looks.
        begun = context.scanner.begin(context.root)
        try:
            self._generation = transaction.proven(before.generation, self._facts)
            self._writer = transaction.writer()
            self._empty = self._writer.stored_bytes
            try:
                request = self._request(budget, left_by=transaction.left_by())
                self.scan: Scan = context.scanner.scan(request, writer=self._writer, begun=begun)
            except BaseException:
                self._writer.abandon()
                raise
        finally:
            if begun is not None:
                begun.close()
        self.files: ScannedFiles = ScannedFiles(self.scan)
        # How paths are looked at within `looking`, through the directories that it keeps open.
        self.look: Look | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.abandon()

    @property
    def standing(self) -> CurrentWork:
        """The session it belongs to, and how far the work had come."""
        if self._standing is None:
            self._standing = current_work(self.context)
        return self._standing

    @property
    def stands_at(self) -> str | None:
        """The checkpoint at which the workspace stood before it was looked at."""
        return None if self._facts is None or self._facts.at is None else self._facts.at.id

    def actual(self, path: bytes) -> Entry | None:
        """Return what a path holds, those that the scan left out looked at anew."""
        return self.files.entry(path) or self.present(path)

    def present(self, path: bytes) -> Entry | None:
        """Look at a path anew."""
        return self.context.applier.present(path) if self.look is None else self.look(path)

    def looking(self) -> PathReads:
        """Look at many paths, in their order, while nothing of ours changes any."""
        return PathReads(self)

    @property
    def contents(self) -> Mapping[bytes, bytes]:
        """What was read for a guard, by its ids, as far as it is little."""
        return self._writer.contents

    def hold(self, content: bytes) -> bytes:
        """Store a content that a merge made, together with the guard, and return its blob id."""
        return self._writer.blob(content)

    def unchanged(self) -> Checkpoint | None:
        """Return the checkpoint at which the workspace stands if it holds exactly what was scanned.

        One that is known to be damaged does not count.
        """
        return None if self._facts is None else self._equal(self._facts.at)

    def record_unchanged(self) -> None:
        """Make no checkpoint: remember what was found, and mend what the store had lost of it."""
        self._mend()
        self.scan.keep()

    def _mend(self) -> None:
        if self._writer.stored_bytes > self._empty:
            self._writer.publish(durable=self.context.settings.durability == "full")
        self._remember_conversation()

    @property
    def notes(self) -> tuple[HealthNote, ...]:
        """What is to be said about settings, the session that was named, and the captured conversation."""
        spoken, known = self._spoken(), self.standing.session
        # A session that is named and at work is not astray.
        counts = known is not None and known.id == self.context.session
        stray = None if counts else lost_session_note(self.context)
        said = (*self.context.remarks, *(() if spoken is None else spoken.notes))
        return said if stray is None else (stray, *said)

    def _spoken(self) -> Captured | None:
        """Return the conversation as it is now; None where none is known of."""
        session = self.standing.session
        named = self._given is not None and self._given.is_named
        if not named and (session is None or session.transcript is None):
            return None
        if self._captured is None:
            from lastgood.conversation.capture import capture

            self._captured = capture(self.context, self.standing, self._given, writer=self._writer)
        return self._captured

    def _remember_conversation(self) -> None:
        if self._captured is not None:
            self._captured.keep(self.context)

    def remember_restored(
        self, restoring: RestoreTransaction, brought: Mapping[bytes, Proof], *, folders: Mapping[bytes, int]
    ) -> None:
        """Remember for the next scan what this one found, and what a restore has brought since.

        Once, after all else: what a guard holds is gone by then. ``folders`` are directories in which that
        was proven, open.
        """
        cap = self.context.settings.capture.max_file_size
        self.scan.keep_restored(brought, folders=folders, trial=restoring.trial, cap=cap)

    def keep(self, saving: SaveTransaction, draft: Draft) -> SaveReport:
        """Make the checkpoint, and remember for the next scan what this one found."""
        checkpoint, status = self._made(saving, draft, lists={})
        report = SaveReport(
            checkpoint=checkpoint,
            created=True,
            new_gaps=self._new_gaps(None if self._facts is None else self._facts.at),
            notes=(*self.notes, *git_notes(status), *self._unheld_notes(checkpoint)),
        )
        self.scan.keep()
        return report

    def _made(
        self, saving: SaveTransaction, draft: Draft, *, lists: Mapping[str, LongList[Any]]
    ) -> tuple[Checkpoint, GitSnapshot | None]:
        """Make the checkpoint, which holds ``lists`` of progress beside its own, and return what git said."""
        before, since = None if self._facts is None else self._facts.at, self.stands_at
        spoken = self._spoken()
        counted, changes = self._changes(before)
        previous = since
        if draft.replaces is not None and self._is_same(before, draft.replaces):
            origin = self._before(draft.replaces)
            previous, counted = None if origin is None else origin.id, self._changes(origin)[0]
        status = git_snapshot(self.context, self.scan, writer=self._writer, since=since, changes=changes)
        checkpoint = saving.add(
            draft,
            scan=self.scan.result,
            writer=self._writer,
            changes=counted,
            previous=previous,
            holdings=Holdings(
                standing=self.standing,
                conversation=None if spoken is None else spoken.conversation,
                state=git_blobs(status),
                git=git_state(self.scan.result.git, status),
                ignored_paths=self.scan.ignored_paths(),
                lists=lists,
            ),
            forced=self._only_forced(),
            started=self._started,
        )
        self._remember_conversation()
        if status is not None:
            status.keep(checkpoint.id)
        return checkpoint, status

    def _is_same(self, facts: CheckpointFacts | None, checkpoint: Checkpoint) -> bool:
        """Tell whether facts are those of a checkpoint, which holds just the files that were scanned."""
        return facts is not None and facts.id == checkpoint.id and _tree(facts) == self.scan.result.tree

    def _before(self, checkpoint: Checkpoint) -> CheckpointFacts | None:
        """Return where the workspace stood before a checkpoint."""
        before = checkpoint.manifest.previous
        if before is None:
            return None
        return next(iter(self.context.catalogue.history(self.context.key, start=before, limit=1)), None)

    def _unheld_notes(self, checkpoint: Checkpoint) -> tuple[HealthNote, ...]:
        """Return what is to be said of what is held privately, or not held, that was not so before."""
        manifest, before = checkpoint.manifest, None
        if manifest.previous is not None and (manifest.private or (manifest.git and manifest.git.nested)):
            before = self.context.catalogue.get(manifest.previous)
        return holding_notes(manifest, None if before is None else before.manifest)

    def _only_forced(self) -> tuple[bytes, ...]:
        """Return the forced paths that no save would have captured: the others are ordinary files."""
        private = frozenset(self.scan.result.private)
        return tuple(path for path in self._forced if path in private)

    def guard(self, saving: SaveTransaction, *, before: str, lists: Mapping[str, LongList[Any]]) -> Guard:
        """Return what is to hold the present state: a checkpoint that does already (rule S10), or a new one.

        Of some ``lists`` of progress it holds those beside its own that are not its own anyway. For the next
        scan nothing is remembered before what follows has ended (`remember_restored`).
        """
        facts = self._facts
        own = {items.oid for items in lists_in_parts(in_parts(self.standing.progress)).values()}
        beside = {name: items for name, items in lists.items() if items.oid not in own}
        equal = None
        if facts is not None and not beside:
            equal = self._equal(facts.newest) or self._equal_below_guards(facts)
        if equal is not None and self._holds(equal, lists):
            return Guard(id=equal.id, hold=lambda: self._mended(equal))
        digits = self.context.clock.random().hex()
        draft = Draft(kind="guard", message=f"before {before}", actor=Actor(type="lastgood"), digits=digits)
        return Guard(
            id=checkpoint_id(bytes.fromhex(digits)), hold=lambda: self._made(saving, draft, lists=beside)[0]
        )

    def _mended(self, equal: Checkpoint) -> Checkpoint:
        """Return a checkpoint that holds what was found, once what the store had lost of it is there."""
        self._mend()
        return equal

    def _holds(self, checkpoint: Checkpoint, lists: Mapping[str, LongList[Any]]) -> bool:
        """Tell whether a checkpoint has some lists of progress as what is stored.

        One that an earlier release made has them in its record alone.
        """
        own = {items.oid for items in lists_in_parts(checkpoint.manifest.progress).values()}
        wanted = {items.oid for items in lists.values()}
        return wanted <= own and not self.context.engine.missing(wanted)

    def _equal_below_guards(self, facts: LatestFacts) -> Checkpoint | None:
        """Return where the workspace stands if that is equal, and nothing but guards came after it.

        By a guard's number is told what came before an operation and what after it: none is an older one.
        """
        equal = self._equal(facts.at)
        if equal is None:
            return None
        query = Query(workspace_key=self.context.key, complete=True, guards=False, limit=1, brief=True)
        newest = self.context.catalogue.find(query)
        return equal if newest and newest[0].id == equal.id else None

    def _request(self, budget: float | None, *, left_by: tuple[str, ...]) -> ScanRequest:
        """Return what to scan.

        What an earlier guard was forced to hold does not stay captured for that: the tree that
        counts for rule S5 is that of the checkpoint at which the workspace stands.
        """
        context, facts = self.context, self._facts
        return ScanRequest(
            root=context.root,
            settings=context.settings.capture,
            previous=None if facts is None or facts.at is None else _tree(facts.at),
            generation=self._generation,
            store=context.store,
            forced=self._forced,
            fresh=self._fresh,
            budget=budget,
            left_by=left_by,
        )

    def _equal(self, facts: CheckpointFacts | None) -> Checkpoint | None:
        result = self.scan.result
        tree = result.tree.tree.hex(), result.tree.modes.hex()
        if facts is None or facts.partial or result.partial or (facts.tree, facts.modes) != tree:
            return None
        told = encode_gaps(result.gaps) if result.gaps else NO_GAPS
        if facts.gaps != told and _places(decode_gaps(facts.gaps)) != _places(result.gaps):
            return None
        found = self.context.catalogue.get(facts.id)
        if found is None or found.damaged is not None or found.deleted_at is not None:
            return None
        if self.context.engine.missing((bytes.fromhex(found.commit),)):
            return None
        if found.manifest.progress != self.standing.progress:
            return None
        return found if self._says_the_same(found) and self._is_aligned(found) else None

    def _is_aligned(self, checkpoint: Checkpoint) -> bool:
        """Tell whether a checkpoint holds HEAD, branch and index of the project as they are now (rule S10).

        One without the index tells nothing about it: it was too large, or could not be read.
        """
        then, now, index = checkpoint.manifest.git, self.scan.result.git, checkpoint.manifest.state.get(INDEX)
        if then is None or now is None:
            return then is now
        if (then.head, then.branch) != (now.head, now.branch):
            return False
        if index is None:
            return True
        found = self.context.project.index(self.context.root)
        return found is None or found.hex() == index

    def _says_the_same(self, checkpoint: Checkpoint) -> bool:
        """Tell whether the conversation is the checkpoint's; where none is known of, nothing changed."""
        if self._given is not None and not self._given.alone:
            return True
        spoken = self._spoken()
        if spoken is None or spoken.conversation is None:
            return True
        held = checkpoint.manifest.conversation
        return held is not None and held.tree == spoken.conversation.tree

    def _changes(self, previous: CheckpointFacts | None) -> tuple[Counts, Sequence[Change] | None]:
        """Count the changes since a checkpoint; name them too where the project's git asks for them."""
        result = self.scan.result
        everything = Counts(added=result.files)
        if previous is None:
            return everything, None
        edits = self.scan.edits(_tree(previous))
        if edits is not None:
            changes = None if result.git is None else [changed(*one) for one in edits]
            return Counts(modified=len(edits)), changes
        from lastgood.trees import Files  # lazily: most often only contents changed

        before = RememberedFiles(Files(_tree(previous), self.context.engine), self.scan)
        differing = self.scan.differing
        try:
            if result.git is None:
                return tally(before, self.files, gaps=result.gaps, differing=differing), None
            compared = list(compare(before, self.files, gaps=result.gaps, differing=differing))
        except Damaged:  # of a checkpoint that is lost nobody can tell what changed since
            return everything, None
        return counts(compared), compared

    def _new_gaps(self, before: CheckpointFacts | None) -> tuple[Gap, ...]:
        gaps = self.scan.result.gaps
        if not gaps or before is None:
            return gaps
        known = _places(decode_gaps(before.gaps))
        return tuple(gap for gap in gaps if (gap.path, gap.reason) not in known)


def _places(gaps: Iterable[Gap]) -> set[tuple[bytes, str]]:
    """Return what makes gaps the same: that a large file grows is no change (rule S10)."""
    return {(gap.path, gap.reason) for gap in gaps}


def _tree(facts: CheckpointFacts) -> TreeId:
    return TreeId(tree=bytes.fromhex(facts.tree), modes=bytes.fromhex(facts.modes))
