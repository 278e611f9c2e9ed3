"""Taking back what an agent changed in a session, or in its last turns, and nothing else (rule T17)."""

from __future__ import annotations

from lastgood.attribution import (
    UNKNOWN,
    WORDS,
    WORKERS,
    Authors,
    files_of,
    links,
    unended,
)
from lastgood.errors import Damaged, NotFound
from lastgood.lease import session_of
from lastgood.model.checkpoint import PROGRAMS
from lastgood.model.operation import Step
from lastgood.model.report import ChangedBeside
from lastgood.model.tree import DIRECTORY, compare, same_content
from lastgood.paths import ancestors, join, within
from lastgood.restore.merge import Reverted, taken_back
from lastgood.restore.plan import (
    NOT_TAKEN,
    SPARED,
    UNTOUCHED,
    DeletionPolicy,
    action_between,
    in_order,
)
from lastgood.trees import Files, tree_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from lastgood.attribution import Authored, Authorship, Link
    from lastgood.catalogue import CheckpointFacts
    from lastgood.context import Context
    from lastgood.literals import Doubt, Favour
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Merged
    from lastgood.model.report import RewindExtent
    from lastgood.model.session import Effect
    from lastgood.model.tree import Change, Entry
    from lastgood.restore.plan import DeletionEvidence
    from lastgood.snapshot import WorkspaceSnapshot

# What is told of a path that is taken back, and that nobody but the agent's own turn tells of.
UNDER_WAY = "from the turn under way: your own edits since then go too"


class AgentWork(Value):
    """What agents did in some sessions: the links of the history with changes of theirs, newest first.

    ``at`` is where the workspace stands, ``target`` what was there before the first that is their own.
    ``turn`` is one under way: what changed since then came in it, unless ``doubt`` says why nobody knows.
    """

    authors: Authors
    at: CheckpointFacts
    base: Checkpoint
    target: Checkpoint
    links: tuple[Link, ...]
    turn: Effect | None = None
    doubt: Doubt | None = None
    favour: Favour | None = None


def work_in_session(
    context: Context, *, session: str | None, since: Checkpoint | None, favour: Favour | None
) -> AgentWork:
    """Find what an agent did in a session: the one named, else the last of an agent; `NotFound` if nothing.

    Only ``since`` a checkpoint, if one is given.
    """
    history = _History(context, since=since)
    chosen = history.last_session() if session is None else session_of(context, session).id
    found = history.work_in({chosen}, favour=favour)
    if found is None:
        raise _no_work("" if chosen is None else f" in session {chosen}")
    return found


def work_in_turns(context: Context, extent: RewindExtent, *, favour: Favour | None) -> AgentWork:
    """Find what agents did in the turns, or the runs, that a rewind takes back; `NotFound` if nothing.

    What was done meanwhile in other sessions is none of it.
    """
    sessions = _sessions_of(extent)
    if not sessions:
        raise _no_work(": nothing here says when one was at work")
    found = _History(context, since=extent.target).work_in(sessions, favour=favour)
    if found is None:
        raise _no_work(f" since {extent.target.short_id}")
    return found


def _sessions_of(extent: RewindExtent) -> set[str | None]:
    kept = {one.session for one in (*extent.turns, *extent.runs)}
    return kept | {one.session for one in extent.under_way}


def changed_beside(
    snapshot: WorkspaceSnapshot, extent: RewindExtent, *, evidence: DeletionEvidence
) -> tuple[ChangedBeside, ...]:
    """Return what a rewind takes back that came in none of its turns or runs, newest first.

    What is now as it was there is left out, and so are private files that stay as they are.
    """
    history = _History(snapshot.context, since=extent.target)
    then = Files(tree_of(extent.target), snapshot.context.engine)
    saves = {one.id for one in extent.saves}

    def goes(path: bytes) -> bool:
        present = snapshot.actual(path)
        stays = present is not None and evidence.spares(path)
        return not (stays or same_content(then.entry(path), present))

    with snapshot.looking():
        return tuple(
            one
            for one in history.beside(snapshot, sessions=_sessions_of(extent))
            if _is_beside(one, saves) and goes(one.path)
        )


def _is_beside(one: ChangedBeside, saves: Collection[str]) -> bool:
    """Tell whether a change may be somebody else's: not what programs say of no one for whom they save."""
    at = one.checkpoint
    of_program = at is not None and at.kind in PROGRAMS and at.id not in saves
    return not (of_program and one.why == "not-said")


def _no_work(where: str) -> NotFound:
    return NotFound(
        f"no checkpoint tells of changes by an agent{where}",
        hint="see whose changes are: lastgood blame .\nsessions: lastgood session list",
    )


class _History:
    """The history of a workspace with whose each link is, newest first, read once; since a checkpoint."""

    def __init__(self, context: Context, *, since: Checkpoint | None) -> None:
        self._context = context
        self._authors = Authors(context)
        self._at: CheckpointFacts | None = None
        self._found: list[tuple[Link, Authorship]] = []
        for link in links(context):
            self._at = self._at or link.after
            checkpoint = context.catalogue.get(link.after.id)
            over = since is not None and link.after.sequence <= since.sequence
            if over or link.before is None or checkpoint is None:
                break
            self._found.append((link, self._authors.of(checkpoint, link.before)))
        # Read last: one that ended meanwhile is under way no more, whatever its checkpoint says.
        self._unended = unended(context)

    def last_session(self) -> str | None:
        """Return the session in which an agent was at work last."""
        under_way = [one for one, lives in self._unended if lives and one.task is None]
        for _link, by in self._found:
            if by.actor.type in WORKERS or by.why == "cut-short":
                later = [one.session for one in under_way if one.after >= by.checkpoint.sequence]
                session = later[-1] if later else by.session
                if session is not None:
                    return session
        return under_way[-1].session if under_way else None

    def work_in(self, sessions: Collection[str | None], *, favour: Favour | None) -> AgentWork | None:
        """Return what agents did in some sessions; None if nothing tells of it."""
        first: CheckpointFacts | None = None
        chosen: list[Link] = []
        for link, by in self._found:
            assert link.before is not None
            if by.actor.type in WORKERS and by.session in sessions:
                first = link.before
                chosen.append(link)
            elif by.why is not None and self._concerns(sessions, by, link.before):
                chosen.append(link)
        turn, doubt = self._turn_of(sessions)
        get = self._context.catalogue.get
        base = None if self._at is None else get(self._at.id)
        if self._at is None or base is None or not (chosen or turn is not None):
            return None
        return AgentWork(
            authors=self._authors,
            at=self._at,
            base=base,
            target=base if first is None else get(first.id) or base,
            links=tuple(chosen),
            turn=turn,
            doubt=doubt,
            favour=favour,
        )

    def beside(
        self, snapshot: WorkspaceSnapshot, *, sessions: Collection[str | None]
    ) -> Iterator[ChangedBeside]:
        """Yield what was changed, but by agents in some sessions, newest first."""
        if self._at is not None:
            turn, doubt = self._turn_of(sessions)
            now = _since(snapshot, self._at)
            told: Iterable[tuple[Change, Doubt | None]] = ((one, doubt) for one in now)
            if turn is not None and doubt is None:
                told = self._authors.not_saved(self._at, now, turn=turn)
            for change, why in told:
                if turn is None or why is not None:
                    yield ChangedBeside(path=change.path, checkpoint=None, actor=UNKNOWN, why=why)
            held = files_of(snapshot.context, self._at)
            for gap in snapshot.scan.result.gaps:  # too large by now, say: a restore takes its place
                if held.entry(gap.path) is not None:
                    yield ChangedBeside(path=gap.path, checkpoint=None, actor=UNKNOWN)
        for link, _by in self._found:
            for one in _changes(self._authors, link):
                if one.by.actor.type in WORKERS and one.by.session in sessions:
                    continue
                yield ChangedBeside(
                    path=one.change.path, checkpoint=one.by.checkpoint, actor=one.by.actor, why=one.by.why
                )

    def _concerns(self, sessions: Collection[str | None], by: Authorship, before: CheckpointFacts) -> bool:
        """Tell whether what nobody knows the author of may have been done in some sessions."""
        named = [one for one in sessions if one is not None]
        return by.session in sessions or any(
            self._authors.is_beside(one, by.checkpoint, before) for one in named
        )

    def _turn_of(self, sessions: Collection[str | None]) -> tuple[Effect | None, Doubt | None]:
        """Return a turn that nobody saw end, and why it is not known who changed what since."""
        own = [(one, lives) for one, lives in self._unended if one.session in sessions]
        turns = [one for one, lives in own if lives and one.task is None]
        if turns:
            beside = any(lives and one.session != turns[0].session for one, lives in self._unended)
            return turns[0], "beside" if beside else None
        broken = [one for one, lives in own if not lives]
        return (broken[-1], "host-died") if broken else (None, None)


class _Gathered:
    """What an agent changed, path by path, and what nobody knows the author of.

    ``open_paths`` changed in a turn under way, ``folders`` are those that came with what the agent made.
    """

    def __init__(self, snapshot: WorkspaceSnapshot, work: AgentWork, *, paths: tuple[bytes, ...]) -> None:
        self.changed: dict[bytes, list[tuple[Entry | None, Entry | None]]] = {}
        self.doubtful: dict[bytes, Doubt] = {}
        self.open_paths: set[bytes] = set()
        self.folders: set[bytes] = set()
        self._paths = paths
        if work.turn is not None:
            self._take_turn(snapshot, work, turn=work.turn)
        for link in work.links:
            self._take_link(snapshot.context, work.authors, link)

    def _take_turn(self, snapshot: WorkspaceSnapshot, work: AgentWork, *, turn: Effect) -> None:
        for change, why in work.authors.not_saved(work.at, _since(snapshot, work.at), turn=turn):
            if work.doubt is None and why is None:
                self.open_paths.add(change.path)
                _note(self.changed, change, paths=self._paths)
            else:
                self.doubtful[change.path] = work.doubt or why or "beside"
        self.folders |= _came_above(self.open_paths, files_of(snapshot.context, work.at))

    def _take_link(self, context: Context, authors: Authors, link: Link) -> None:
        assert link.before is not None
        own: list[bytes] = []
        for one in _changes(authors, link):
            if one.by.actor.type in WORKERS:
                own.append(one.change.path)
                _note(self.changed, one.change, paths=self._paths)
            elif one.by.why is not None:
                self.doubtful.setdefault(one.change.path, one.by.why)
        self.folders |= _came_above(own, files_of(context, link.before))


def agent_steps(
    snapshot: WorkspaceSnapshot,
    work: AgentWork,
    *,
    evidence: DeletionEvidence,
    paths: tuple[bytes, ...],
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps that take an agent's changes back and no others, and what of it has to be stored."""
    found = _Gathered(snapshot, work, paths=paths)
    policy = DeletionPolicy(snapshot.scan, evidence)
    kept: list[Step] = []
    reverted: list[Reverted] = []
    for path, pairs in sorted(found.changed.items()):
        present, reason = snapshot.actual(path), None
        if present is not None and path not in paths and evidence.spares(path):
            reason = SPARED
        elif present is not None and pairs[-1][1] is None:  # what was ignored then is doubtful already
            reason = policy.ignored_now(path, directory=present.kind == DIRECTORY)
        if reason is None:
            reverted.append(_reverted(path, pairs))
        else:
            kept.append(Step(path=path, action="keep", have=present, reason=reason))
    steps, merged = taken_back(
        snapshot, tuple(reverted), source=work.target.id, favour=work.favour, partly=True
    )
    steps = tuple(
        one.replace(reason=UNDER_WAY) if one.reason is None and one.path in found.open_paths else one
        for one in steps
    )
    told = {one.path for one in (*steps, *kept)}
    kept += [
        Step(path=path, action="keep", reason=f"{NOT_TAKEN}: {WORDS[why]}")
        for path, why in sorted(found.doubtful.items())
        if path not in told and (not paths or any(within(path, limit) for limit in paths))
    ]
    target = Files(tree_of(work.target), snapshot.context.engine)
    return in_order((*steps, *_emptied(snapshot, steps, target, found.folders), *kept)), merged


def _since(snapshot: WorkspaceSnapshot, place: CheckpointFacts) -> Iterator[Change]:
    """Return what changed since a checkpoint."""
    return compare(files_of(snapshot.context, place), snapshot.files, gaps=snapshot.scan.result.gaps)


def _changes(authors: Authors, link: Link) -> list[Authored]:
    try:
        return authors.changes_of(link)
    except Damaged as error:
        raise Damaged(
            f"what the agent changed cannot be read: {error.message}",
            hint="see what is lost: lastgood verify",
        ) from error


def _note(
    changed: dict[bytes, list[tuple[Entry | None, Entry | None]]], change: Change, *, paths: Sequence[bytes]
) -> None:
    """Add a change, newest first, as what came of it and what was before; one after another is one."""
    if paths and not any(within(change.path, limit) for limit in paths):
        return
    pairs = changed.setdefault(change.path, [])
    if pairs and _is_one(pairs[-1][1], change.after):
        pairs[-1] = pairs[-1][0], change.before
    else:
        pairs.append((change.after, change.before))


def _is_one(one: Entry | None, other: Entry | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.kind, one.oid, one.mode) == (other.kind, other.oid, other.mode)


def _reverted(path: bytes, pairs: Sequence[tuple[Entry | None, Entry | None]]) -> Reverted:
    (have, want), *earlier = pairs
    step = Step(path=path, action=action_between(want, have), have=have, want=want)
    return Reverted(step=step, earlier=tuple(earlier))


def _came_above(paths: Iterable[bytes], before: Files) -> set[bytes]:
    """Return the folders above some paths that were none before."""
    folders = {above for path in paths for above in ancestors(path)}
    return {one for one in folders if (there := before.entry(one)) is None or there.kind != DIRECTORY}


def _emptied(
    snapshot: WorkspaceSnapshot, steps: Sequence[Step], target: Files, folders: Collection[bytes]
) -> list[Step]:
    """Return the steps that take away ``folders``, which the agent made, and of which nothing is left."""
    going = {one.path for one in steps if one.action == "delete"}
    kept = {above for one in steps if one.want is not None for above in ancestors(one.path)}
    # Nor does one go by itself that stays, or in whose place a file comes back.
    kept |= {one.path for one in steps if one.action in UNTOUCHED or one.want is not None}
    found: list[Step] = []
    above = {above for one in going for above in ancestors(one)}
    for path in sorted(above.intersection(folders), key=len, reverse=True):
        there = target.entry(path)
        entry = snapshot.files.entry(path)
        if path in kept or (there is not None and there.kind == DIRECTORY) or entry is None:
            continue
        inside = [join(path, one.name) for one in snapshot.scan.directory(path) or ()]
        if not snapshot.scan.left_out(path) and going.issuperset(inside):
            found.append(Step(path=path, action="rmdir", have=entry.replace(oid=b"", modes=b"")))
            going.add(path)
    return found
