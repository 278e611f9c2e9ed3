"""Taking back what an agent changed in a session, and nothing else (decision 055, rule T17)."""

from __future__ import annotations

from lastgood.attribution import WORKERS, Authors, is_beside_turns, links, turns_under_way
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
    from lastgood.model.tree import Change, Entry
    from lastgood.restore.plan import DeletionEvidence
    from lastgood.snapshot import WorkspaceSnapshot

_WHOSE = "not taken back: another session was at work, and nobody knows whose it is"


class AgentWork(Value):
    """What an agent did in a session, newest first: the steps of the history that are its own.

    ``unsure`` are those that may be somebody else's as well. ``base`` is where the workspace stands,
    ``target`` what was there before the first of them. ``open`` tells that a turn is under way: what
    changed since the base came in it.
    """

    session: str
    base: Checkpoint
    target: Checkpoint
    own: tuple[Link, ...]
    unsure: tuple[Link, ...] = ()
    open: bool = False
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
    unsure: list[Link] = []
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
        sure = _is_work(said, before=link.before)
        if chosen is None and sure:
            later = [one.session for one in under_way if one.after >= checkpoint.sequence]
            chosen = later[-1] if later else checkpoint.session
        if chosen is None or checkpoint.session != chosen:
            continue
        if sure or (checkpoint.actor.type in WORKERS and said.actor.type == "unknown"):
            (own if sure else unsure).append(link)
            first = link.before if sure else first
    if chosen is None and under_way:
        chosen = under_way[-1].session
    is_open = chosen is not None and any(one.session == chosen for one in under_way)
    base = None if newest is None else context.catalogue.get(newest.id)
    if base is None or chosen is None or not (own or is_open):
        raise _no_work(chosen)
    target = base if first is None else context.catalogue.get(first.id)
    return AgentWork(
        session=chosen,
        base=base,
        target=base if target is None else target,
        own=tuple(own),
        unsure=tuple(unsure),
        open=is_open and not is_beside_turns(context, session=chosen),
        favour=favour,
    )


def _no_work(session: str | None) -> NotFound:
    return NotFound(
        "no checkpoint tells of changes by an agent" + ("" if session is None else f" in session {session}"),
        hint="see whose changes are: lastgood blame .\nsessions: lastgood session list",
    )


def _is_work(said: Authorship, *, before: CheckpointFacts) -> bool:
    """Tell whether changes are an agent's; of a turn that was cut short it is what came until the next."""
    made = said.checkpoint
    cut_short = made.kind == "turn" and made.actor.type == "unknown" and made.session is not None
    return said.actor.type in WORKERS or (cut_short and not said.beside and made.previous == before.id)


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
    if work.open:
        gaps = snapshot.scan.result.gaps
        base = _files(context, work.base)
        _note(changed, compare(base, snapshot.files, gaps=gaps), paths=paths)
    for link in work.own:
        _note(changed, _changes(context, link), paths=paths)
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
    unsure = {one.path for link in work.unsure for one in _changes(context, link)}
    told = {one.path for one in (*steps, *kept)}
    kept += [
        Step(path=path, action="keep", reason=_WHOSE)
        for path in sorted(unsure - told)
        if not paths or any(within(path, limit) for limit in paths)
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
    kept |= {one.path for one in steps if one.action in UNTOUCHED}
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
