"""Who changed what: whose the changes between a checkpoint and the one before it are (decision 055)."""

from __future__ import annotations

from lastgood.catalogue import Query
from lastgood.errors import Damaged
from lastgood.ignore import TreeRules
from lastgood.lease import state_of
from lastgood.model.checkpoint import Actor
from lastgood.model.tree import DIRECTORY, compare
from lastgood.paths import Covering, printable, to_text
from lastgood.rewind import BEGAN
from lastgood.trees import Files, ignore_texts, tree_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lastgood.catalogue import CheckpointFacts
    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.model.session import Effect
    from lastgood.model.tree import Entry

_PAGE = 32
# So many checkpoints are looked at between two that are compared; behind that nobody knows.
_LOOKED_AT = 200
UNKNOWN = Actor()
# Who works in a session: both are the agent, with or without a name of what it used.
WORKERS = frozenset({"agent", "tool"})
# Their messages say before what they were made: what is in them was done for the turn that is under way.
_MADE_BEFORE = frozenset({"risky", "compaction"})
# With these a turn, or a task, ends.
_ENDS = frozenset({"turn", "task", "error", "interrupt", "session-end"})


class Link(Value):
    """A checkpoint and the one before it along a history; None before the first."""

    after: CheckpointFacts
    before: CheckpointFacts | None


class Authorship(Value):
    """Whose some changes are: ``label`` says for what, ``initial`` that they were there at first.

    ``beside`` tells that somebody else's turn went on meanwhile.
    """

    actor: Actor
    checkpoint: Checkpoint
    label: str = ""
    initial: bool = False
    beside: bool = False


def links(context: Context) -> Iterator[Link]:
    """Yield the history from where a workspace stands, newest first, read a few at a time."""
    start: str | None = None
    later: CheckpointFacts | None = None
    while True:
        found = context.catalogue.history(context.key, start=start, limit=_PAGE)
        fresh = [one for one in found if later is None or one.id != later.id]
        for one in fresh:
            if later is not None:
                yield Link(after=later, before=one)
            later = one
        if not fresh:
            break
        start = fresh[-1].id
    if later is not None:
        yield Link(after=later, before=None)


class Unseen:
    """Tells of what a checkpoint does not hold whether it may have been there all the same (rule T4)."""

    def __init__(self, checkpoint: Checkpoint, files: Files) -> None:
        self._rules = TreeRules(checkpoint.manifest.ignore, ignore_texts(files))
        self._gaps = Covering({one.path: one.reason for one in checkpoint.manifest.gaps})

    def may_hold(self, path: bytes, entry: Entry) -> bool:
        """Tell whether it was ignored then, or in a gap."""
        if self._gaps.of(path) is not None:
            return True
        return self._rules.ignored(path, directory=entry.kind == DIRECTORY) is not False


class Authors:
    """Tells whose the changes of a checkpoint are, by what it says of itself and by the turns of then.

    What it says counts only as far as nobody else was at work: beside the turn of another session, or where a
    checkpoint between was let go, nobody knows.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._turns: Sequence[tuple[Effect, int | None]] | None = None

    def of(self, after: Checkpoint, before: CheckpointFacts | None) -> Authorship:
        """Return whose the changes are that came to a checkpoint since another one before it."""
        if before is None:
            return Authorship(actor=UNKNOWN, checkpoint=after, initial=True)
        turn = self._own_turn(after)
        label = after.message.strip() or after.name or ""
        before_call = after.kind == "tool" and after.actor.type != "tool"
        if turn is not None and (before_call or after.kind in _MADE_BEFORE):
            label = turn.name
        actor = self._said(after, before, turn=turn)
        beside = actor.type != "lastgood" and self._is_beside_others(after, before)
        return Authorship(actor=UNKNOWN if beside else actor, checkpoint=after, label=label, beside=beside)

    def _said(self, after: Checkpoint, before: CheckpointFacts, *, turn: Effect | None) -> Actor:
        """Return whom the checkpoints name that were made since another one, if they agree."""
        between = self._between(after, before)
        if between is None:
            within = turn is not None and turn.after <= before.sequence and after.actor.type in WORKERS
            return after.actor.replace(call=None) if within and after.actor.type == "agent" else UNKNOWN
        said = {after.actor, *(one.actor for one in between)}
        if len(said) == 1:
            return after.actor
        alone = {one.session for one in (after, *between)}
        if len(alone) == 1 and all(one.type in WORKERS for one in said):
            name = next((one.name for one in said if one.type == "agent"), None)
            return Actor(type="agent", name=name)
        return UNKNOWN

    def _between(self, after: Checkpoint, before: CheckpointFacts) -> list[Checkpoint] | None:
        """Return the checkpoints between two; None if one of them is not there any more."""
        found: list[Checkpoint] = []
        previous = after.manifest.previous
        while previous != before.id:
            one = None if previous is None else self._context.catalogue.get(previous)
            if one is None or one.sequence <= before.sequence or len(found) == _LOOKED_AT:
                return None
            found.append(one)
            previous = one.manifest.previous
        return found

    def _own_turn(self, checkpoint: Checkpoint) -> Effect | None:
        """Return the turn of its session in which a checkpoint was made."""
        own = [
            turn
            for turn, _ in self._every_turn()
            if checkpoint.session is not None
            and turn.task is None
            and turn.session == checkpoint.session
            and turn.after < checkpoint.sequence
        ]
        return own[-1] if own else None

    def _is_beside_others(self, after: Checkpoint, before: CheckpointFacts) -> bool:
        """Tell whether somebody else's turn, or task, went on while changes came about."""
        working = after.actor.type in WORKERS
        started = before.created_at
        earlier = None
        for turn, ended in self._every_turn():
            # A task may be a host, which knows what came between the turns of its agent.
            knows = working or (turn.task is not None and after.kind != "manual")
            own = turn.session == after.session and knows
            if turn.after >= after.sequence or own:
                continue
            if ended is None:
                return True
            if ended <= started:
                continue
            # What a turn came to is kept just before it is recorded as ended.
            if before.kind in _ENDS and turn.after < before.sequence:
                earlier = earlier or self._context.catalogue.get(before.id)
                if earlier is not None and earlier.session == turn.session:
                    continue
            return True
        return False

    def _every_turn(self) -> Sequence[tuple[Effect, int | None]]:
        """Return the turns and the tasks with when each ended, None of one that is under way."""
        if self._turns is None:
            work = self._context.work
            found = work.effects(self._context.key)
            self._turns = [(one, self._ended(one)) for one in found if one.task in {None, one.name}]
        return self._turns

    def _ended(self, turn: Effect) -> int | None:
        if turn.ended_at is not None or turn.session is None:
            return turn.ended_at or turn.started_at
        session = self._context.work.session(turn.session)
        if session is None:
            return turn.started_at
        if state_of(self._context, session) == "active":
            return None
        # Nobody saw it end: it may have gone on until it was recovered, or until it was found dead.
        over = [one for one in (session.ended_at, self._found_dead(turn)) if one is not None]
        return max(turn.started_at, min(over)) if over else None

    def _found_dead(self, turn: Effect) -> int | None:
        """Return when the turn of another session was told as that one's alone: no other was under way."""
        turns = Query(
            workspace_key=self._context.key,
            kind="turn",
            since=turn.started_at,
            oldest=True,
            brief=True,
            limit=_LOOKED_AT,
        )
        for one in self._context.catalogue.find(turns):
            by_host = BEGAN in one.manifest.metadata and one.actor.type == "agent"
            if by_host and one.session != turn.session:
                return one.manifest.created_at
        return None


def turns_under_way(context: Context) -> list[Effect]:
    """Return the turns of sessions that live, in the order of their start."""
    return [one for one, lives in _unended(context) if lives and one.task is None]


def broken_turns(context: Context) -> list[Effect]:
    """Return the turns that nobody saw end, of sessions that live no more."""
    return [one for one, lives in _unended(context) if not lives and one.task is None]


def _unended(context: Context) -> list[tuple[Effect, bool]]:
    running = context.work.effects(context.key, state="running")
    turns = [one for one in running if one.task in {None, one.name} and one.session is not None]
    found = {id: context.work.session(id) for one in turns if (id := one.session) is not None}
    alive = {id for id, one in found.items() if one is not None and state_of(context, one) == "active"}
    return [(one, one.session in alive) for one in turns]


def is_beside_turns(context: Context, *, session: str) -> bool:
    """Tell whether the turn of another session is under way now, or a task of it."""
    return any(lives and one.session != session for one, lives in _unended(context))


# --- What went on beside a session: files taken back under it, and others at the same file ---

# Of so many operations is told, and of so many checkpoints of each session the paths are compared.
_OPERATIONS = 16
_COMPARED = 20
_TOUCHED = frozenset({"write", "delete", "chmod"})


def taken_back_since(context: Context, moment: int) -> tuple[Operation, ...]:
    """Return what was restored, undone and done again since a moment, newest first, and still counts."""
    found = [
        one
        for one in context.catalogue.operations(context.key, limit=_OPERATIONS)
        if one.at > moment and _touched(one)
    ]
    # One that was undone since changed nothing together with its undo, if both are new.
    undone = {one.of for one in found if one.type == "undo"}
    gone = {one.id for one in found if one.undone and one.id in undone}
    return tuple(one for one in found if one.id not in gone and (one.type != "undo" or one.of not in gone))


def touched_paths(operations: Iterable[Operation]) -> list[bytes]:
    """Return the files that operations wrote or took away."""
    return sorted({path for one in operations for path in _touched(one)})


def _touched(operation: Operation) -> list[bytes]:
    return [one.path for one in operation.steps if one.action in _TOUCHED]


def left_off(context: Context, transcript: str) -> int | None:
    """Return when the last session of a conversation that is over was last heard of; None of a new one."""
    ended = [one for one in context.work.sessions(context.key) if one.transcript == transcript]
    over = [one.ended_at or one.heartbeat_at for one in ended if one.state != "active"]
    return max(over, default=None)


def shared_paths(context: Context) -> dict[bytes, tuple[str, ...]]:
    """Return the files that changed in several sessions that are under way, with these sessions' ids.

    Told by the newest checkpoints of each. Whose which change is cannot be told where their turns overlap.
    """
    alive = [
        one
        for one in context.work.sessions(context.key, state="active")
        if state_of(context, one) == "active"
    ]
    by: dict[bytes, list[str]] = {}
    for session in alive if len(alive) > 1 else ():
        for path in _changed_in(context, session.id):
            by.setdefault(path, []).append(session.id)
    return {path: tuple(ids) for path, ids in sorted(by.items()) if len(ids) > 1}


def _changed_in(context: Context, session: str) -> set[bytes]:
    query = Query(workspace_key=context.key, session=session, guards=False, brief=True, limit=_COMPARED)
    paths: set[bytes] = set()
    for one in context.catalogue.find(query):
        before = None if one.previous is None else context.catalogue.get(one.previous)
        if before is None or one.actor.type == "person" or before.manifest.root == one.manifest.root:
            continue
        try:
            older, newer = (Files(tree_of(side), context.engine) for side in (before, one))
            paths.update(change.path for change in compare(older, newer, gaps=one.gaps))
        except Damaged:
            continue
    return paths


def shared_words(path: bytes, sessions: Sequence[str]) -> str:
    """Return in words that several sessions are at one file."""
    named = " and ".join(sessions)
    return f"{printable(to_text(path))} changed in sessions {named}, all under way"
