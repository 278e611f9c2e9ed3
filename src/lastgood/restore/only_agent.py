"""Taking back what an agent changed in a session, and nothing else (decision 055, rule T17)."""

from __future__ import annotations

from lastgood.attribution import (
    WORKERS,
    Authors,
    Unseen,
    broken_turns,
    is_beside_turns,
    links,
    turns_under_way,
)
from lastgood.errors import Damaged, NotFound
from lastgood.lease import session_of
from lastgood.model.operation import Step
from lastgood.model.tree import DIRECTORY, TreeId, compare
from lastgood.paths import ancestors, join, within
from lastgood.restore.merge import Reverted, taken_back
from lastgood.restore.plan import SPARED, UNTOUCHED, action_between, in_order
from lastgood.trees import Files
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.attribution import Authorship, Link
    from lastgood.catalogue import CheckpointFacts
    from lastgood.context import Context
    from lastgood.literals import Favour
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Merged
    from lastgood.model.session import Effect
    from lastgood.model.tree import Change, Entry
    from lastgood.restore.plan import DeletionEvidence
    from lastgood.snapshot import WorkspaceSnapshot

_BESIDE = "not taken back: another session was at work, and nobody knows whose it is"
_CUT_SHORT = "not taken back: it came with a turn that was cut short, and nobody knows whose it is"
_UNSEEN = "not taken back: it was ignored or left out before, and nobody knows whether it was there"
_DIED = "not taken back: the turn's host died, and nobody knows who changed it since"


class AgentWork(Value):
    """What an agent did in a session, newest first: the steps of the history that are its own.

    ``unsure`` are those that may be somebody else's as well, with why. ``base`` is where the workspace
    stands, ``target`` what was there before the first of them. ``open`` tells that a turn is under way:
    what changed since the base came in it, unless ``doubt`` says why nobody knows.
    """

    session: str
    base: Checkpoint
    target: Checkpoint
    own: tuple[Link, ...]
    unsure: tuple[tuple[Link, str], ...] = ()
    open: bool = False
    doubt: str | None = None
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
    own: list[Link] = []
    unsure: list[tuple[Link, str]] = []
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
        doubt = _doubt(said)
        if chosen is None and (said.actor.type in WORKERS or doubt == _CUT_SHORT):
            later = [one.session for one in under_way if one.after >= checkpoint.sequence]
            chosen = later[-1] if later else checkpoint.session
        if chosen is None or checkpoint.session != chosen:
            continue
        if said.actor.type in WORKERS:
            own.append(link)
            first = link.before
        elif doubt is not None:
            unsure.append((link, doubt))
    if chosen is None and under_way:
        chosen = under_way[-1].session
    is_open, doubt = _turn_of(context, chosen, under_way=under_way)
    base = None if newest is None else context.catalogue.get(newest.id)
    if base is None or chosen is None or not (own or unsure or is_open):
        raise _no_work(chosen)
    target = base if first is None else context.catalogue.get(first.id)
    return AgentWork(
        session=chosen,
        base=base,
        target=base if target is None else target,
        own=tuple(own),
        unsure=tuple(unsure),
        open=is_open,
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
) -> tuple[bool, str | None]:
    """Return whether nobody saw a session's turn end, and why it is not known who changed what since."""
    if session is None:
        return False, None
    if any(one.session == session for one in under_way):
        return True, _BESIDE if is_beside_turns(context, session=session) else None
    return any(one.session == session for one in broken_turns(context)), _DIED


def _doubt(said: Authorship) -> str | None:
    """Return why nobody knows whether changes are an agent's that may be; None if they surely are not."""
    made = said.checkpoint
    if said.actor.type != "unknown":
        return None
    if made.actor.type in WORKERS:
        return _BESIDE
    return _CUT_SHORT if made.kind == "turn" and made.session is not None else None


def agent_steps(
    snapshot: WorkspaceSnapshot,
    work: AgentWork,
    *,
    evidence: DeletionEvidence,
    paths: tuple[bytes, ...],
) -> tuple[tuple[Step, ...], tuple[Merged, ...]]:
    """Return the steps that take an agent's changes back and no others, and what of it has to be stored."""
    context = snapshot.context
    changed: dict[bytes, list[tuple[Entry | None, Entry | None]]] = {}
    doubtful: dict[bytes, str] = {}
    if work.open:
        gaps = snapshot.scan.result.gaps
        base = _files(context, work.base)
        since = list(compare(base, snapshot.files, gaps=gaps))
        if work.doubt is None:
            _note(changed, _seen(context, work.base.id, since, doubtful), paths=paths)
        else:
            doubtful.update((one.path, work.doubt) for one in since)
    for link, why in work.unsure:
        for one in _changes(context, link):
            doubtful.setdefault(one.path, why)
    for link in work.own:
        assert link.before is not None
        seen = _seen(context, link.before.id, _changes(context, link), doubtful)
        _note(changed, seen, paths=paths)
    kept: list[Step] = []
    reverted: list[Reverted] = []
    for path, pairs in sorted(changed.items()):
        present = snapshot.actual(path)
        if path not in paths and present is not None and evidence.spares(path):
            kept.append(Step(path=path, action="keep", have=present, reason=SPARED))
        else:
            reverted.append(_reverted(path, pairs))
    target = _files(context, work.target)
    steps, merged = taken_back(snapshot, tuple(reverted), source=work.target.id, favour=work.favour)
    told = {one.path for one in (*steps, *kept)}
    kept += [
        Step(path=path, action="keep", reason=why)
        for path, why in sorted(doubtful.items())
        if path not in told and (not paths or any(within(path, limit) for limit in paths))
    ]
    return in_order((*steps, *_emptied(snapshot, steps, target), *kept)), merged


def _files(context: Context, checkpoint: Checkpoint) -> Files:
    root = checkpoint.manifest.root
    return Files(TreeId(tree=bytes.fromhex(root.tree), modes=bytes.fromhex(root.modes)), context.engine)


def _changes(context: Context, link: Link) -> list[Change]:
    from lastgood.model.checkpoint import decode_gaps

    sides = [
        Files(TreeId(tree=bytes.fromhex(one.tree), modes=bytes.fromhex(one.modes)), context.engine)
        for one in (link.before, link.after)
        if one is not None
    ]
    try:
        return list(compare(sides[0], sides[1], gaps=decode_gaps(link.after.gaps)))
    except Damaged as error:
        raise Damaged(
            f"what the agent changed cannot be read: {error.message}",
            hint="see what is lost: lastgood verify",
        ) from error


def _seen(
    context: Context, before: str, changes: Iterable[Change], doubtful: dict[bytes, str]
) -> list[Change]:
    """Return the changes but of files that may have been there before, unseen: those are in doubt."""
    found: list[Change] = []
    unseen: Unseen | None = None
    for one in changes:
        if one.before is None and one.after is not None:
            if unseen is None:
                checkpoint = context.catalogue.get(before)
                assert checkpoint is not None
                unseen = Unseen(checkpoint, _files(context, checkpoint))
            if unseen.may_hold(one.path, one.after):
                doubtful[one.path] = _UNSEEN
                continue
        found.append(one)
    return found


def _note(
    changed: dict[bytes, list[tuple[Entry | None, Entry | None]]],
    changes: Iterable[Change],
    *,
    paths: Sequence[bytes],
) -> None:
    """Add changes, newest first, each as what came of it and what was before; one after another is one."""
    for one in changes:
        if paths and not any(within(one.path, limit) for limit in paths):
            continue
        pairs = changed.setdefault(one.path, [])
        if pairs and _is_one(pairs[-1][1], one.after):
            pairs[-1] = pairs[-1][0], one.before
        else:
            pairs.append((one.after, one.before))


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
