"""Taking back what an agent changed in a session, and nothing else (decision 055, rule T17)."""

from __future__ import annotations

from lastgood.attribution import (
    WORDS,
    WORKERS,
    Authors,
    broken_turns,
    files_of,
    is_beside_turns,
    links,
    turns_under_way,
)
from lastgood.errors import Damaged, NotFound
from lastgood.lease import session_of
from lastgood.model.operation import Step
from lastgood.model.tree import DIRECTORY, compare
from lastgood.paths import ancestors, join, within
from lastgood.restore.merge import Reverted, taken_back
from lastgood.restore.plan import SPARED, UNTOUCHED, action_between, in_order
from lastgood.trees import Files, tree_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.attribution import Authored, Link
    from lastgood.catalogue import CheckpointFacts
    from lastgood.context import Context
    from lastgood.literals import Doubt, Favour
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Merged
    from lastgood.model.session import Effect
    from lastgood.model.tree import Change, Entry
    from lastgood.restore.plan import DeletionEvidence
    from lastgood.snapshot import WorkspaceSnapshot

# What is told of a path that is taken back, and that nobody but the agent's own turn tells of.
UNDER_WAY = "from the turn under way: your own edits since then go too"


class AgentWork(Value):
    """What an agent did in a session: the links of the history since then, newest first.

    ``base`` is where the workspace stands, ``target`` what was there before the first that is its own.
    ``turn`` is one under way: what changed since the base came in it, unless ``doubt`` says why nobody knows.
    """

    session: str
    base: Checkpoint
    target: Checkpoint
    links: tuple[Link, ...]
    turn: Effect | None = None
    doubt: Doubt | None = None
    favour: Favour | None = None


def agent_work(
    context: Context, *, session: str | None, since: Checkpoint | None, favour: Favour | None
) -> AgentWork:
    """Find what an agent did in a session: the one named, else the last of an agent; `NotFound` if nothing.

    Only ``since`` a checkpoint, if one is given.
    """
    authors = Authors(context)
    under_way = turns_under_way(context)
    chosen = None if session is None else session_of(context, session).id
    found: list[Link] = []
    first: CheckpointFacts | None = None
    newest: CheckpointFacts | None = None
    for link in links(context):
        newest = newest or link.after
        if since is not None and link.after.sequence <= since.sequence:
            break
        checkpoint = context.catalogue.get(link.after.id)
        if link.before is None or checkpoint is None:
            break
        said = authors.of(checkpoint, link.before)
        own = said.actor.type in WORKERS
        if chosen is None and (own or said.why == "cut-short"):
            later = [one.session for one in under_way if one.after >= checkpoint.sequence]
            chosen = later[-1] if later else said.session
        if chosen is None:
            continue
        if own and said.session == chosen:
            first = link.before
            found.append(link)
        elif said.why is not None and (
            said.session == chosen or authors.is_beside(chosen, checkpoint, link.before)
        ):
            found.append(link)
    if chosen is None and under_way:
        chosen = under_way[-1].session
    turn, doubt = _turn_of(context, chosen, under_way=under_way)
    base = None if newest is None else context.catalogue.get(newest.id)
    if base is None or chosen is None or not (found or turn is not None):
        raise _no_work(chosen)
    target = base if first is None else context.catalogue.get(first.id)
    return AgentWork(
        session=chosen,
        base=base,
        target=base if target is None else target,
        links=tuple(found),
        turn=turn,
        doubt=doubt,
        favour=favour,
    )


def _no_work(session: str | None) -> NotFound:
    return NotFound(
        "no checkpoint tells of changes by an agent" + ("" if session is None else f" in session {session}"),
        hint="see whose changes are: lastgood blame .\nsessions: lastgood session list",
    )


def _turn_of(
    context: Context, session: str | None, *, under_way: Sequence[Effect]
) -> tuple[Effect | None, Doubt | None]:
    """Return a session's turn that nobody saw end, and why it is not known who changed what since."""
    if session is None:
        return None, None
    for one in under_way:
        if one.session == session:
            return one, "beside" if is_beside_turns(context, session=session) else None
    broken = [one for one in broken_turns(context) if one.session == session]
    return (broken[-1], "host-died") if broken else (None, None)


def agent_steps(
    snapshot: WorkspaceSnapshot,
    work: AgentWork,
    *,
    evidence: DeletionEvidence,
    paths: tuple[bytes, ...],
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps that take an agent's changes back and no others, and what of it has to be stored."""
    context = snapshot.context
    authors = Authors(context)
    changed: dict[bytes, list[tuple[Entry | None, Entry | None]]] = {}
    doubtful: dict[bytes, Doubt] = {}
    open_paths: set[bytes] = set()
    if work.turn is not None:
        base = next(iter(links(context))).after
        since = compare(files_of(context, base), snapshot.files, gaps=snapshot.scan.result.gaps)
        for change, why in authors.not_saved(base, since, turn=work.turn):
            if work.doubt is None and why is None:
                open_paths.add(change.path)
                _note(changed, change, paths=paths)
            else:
                doubtful[change.path] = work.doubt or why or "beside"
    for link in work.links:
        for one in _changes(authors, link):
            if one.by.actor.type in WORKERS:
                _note(changed, one.change, paths=paths)
            elif one.by.why is not None:
                doubtful.setdefault(one.change.path, one.by.why)
    kept: list[Step] = []
    reverted: list[Reverted] = []
    for path, pairs in sorted(changed.items()):
        present = snapshot.actual(path)
        if path not in paths and present is not None and evidence.spares(path):
            kept.append(Step(path=path, action="keep", have=present, reason=SPARED))
        else:
            reverted.append(_reverted(path, pairs))
    target = Files(tree_of(work.target), context.engine)
    steps, merged = taken_back(snapshot, tuple(reverted), source=work.target.id, favour=work.favour)
    steps = tuple(
        one.replace(reason=UNDER_WAY) if one.reason is None and one.path in open_paths else one
        for one in steps
    )
    told = {one.path for one in (*steps, *kept)}
    kept += [
        Step(path=path, action="keep", reason=f"not taken back: {WORDS[why]}")
        for path, why in sorted(doubtful.items())
        if path not in told and (not paths or any(within(path, limit) for limit in paths))
    ]
    return in_order((*steps, *_emptied(snapshot, steps, target), *kept)), merged


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


def _emptied(snapshot: WorkspaceSnapshot, steps: Sequence[Step], target: Files) -> list[Step]:
    """Return the steps that take away folders which the agent made and of which nothing is left."""
    going = {one.path for one in steps if one.action == "delete"}
    kept = {above for one in steps if one.want is not None for above in ancestors(one.path)}
    # Nor does one go by itself that stays, or in whose place a file comes back.
    kept |= {one.path for one in steps if one.action in UNTOUCHED or one.want is not None}
    found: list[Step] = []
    for path in sorted({above for one in going for above in ancestors(one)}, key=len, reverse=True):
        there = target.entry(path)
        entry = snapshot.files.entry(path)
        if path in kept or (there is not None and there.kind == DIRECTORY) or entry is None:
            continue
        inside = [join(path, one.name) for one in snapshot.scan.directory(path) or ()]
        if not snapshot.scan.left_out(path) and going.issuperset(inside):
            found.append(Step(path=path, action="rmdir", have=entry.replace(oid=b"", modes=b"")))
            going.add(path)
    return found
