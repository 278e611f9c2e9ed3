"""Who changed what: whose the changes between a checkpoint and the one before it are (decision 055)."""

from __future__ import annotations

from lastgood.lease import state_of
from lastgood.model.checkpoint import Actor
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.catalogue import CheckpointFacts
    from lastgood.context import Context
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.session import Effect

_PAGE = 32
# So many checkpoints are looked at between two that are compared; behind that nobody knows.
_LOOKED_AT = 200
UNKNOWN = Actor()
# Who works in a session: both are the agent, with or without a name of what it used.
WORKERS = frozenset({"agent", "tool"})
# Their messages say before what they were made: what is in them was done for the turn that is under way.
_MADE_BEFORE = frozenset({"risky", "compaction"})


class Link(Value):
    """A checkpoint and the one before it along a history; None before the first."""

    after: CheckpointFacts
    before: CheckpointFacts | None


class Authorship(Value):
    """Whose some changes are: ``label`` says for what, ``initial`` that they were there at first."""

    actor: Actor
    checkpoint: Checkpoint
    label: str = ""
    initial: bool = False


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
        if after.kind in _MADE_BEFORE and turn is not None:
            label = turn.name
        actor = self._said(after, before, turn=turn)
        if actor.type not in {"unknown", "lastgood"} and self._is_beside_others(after, before):
            actor = UNKNOWN
        return Authorship(actor=actor, checkpoint=after, label=label)

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
            and turn.session == checkpoint.session
            and turn.after < checkpoint.sequence
        ]
        return own[-1] if own else None

    def _is_beside_others(self, after: Checkpoint, before: CheckpointFacts) -> bool:
        """Tell whether somebody else's turn went on while changes came about."""
        working = after.actor.type in WORKERS
        started = before.created_at
        earlier = None
        for turn, ended in self._every_turn():
            if turn.after >= after.sequence or (working and turn.session == after.session):
                continue
            if ended is None:
                return True
            if ended <= started:
                continue
            # The checkpoint of a turn is made just before that is recorded as ended.
            if before.kind == "turn" and turn.after < before.sequence:
                earlier = earlier or self._context.catalogue.get(before.id)
                if earlier is not None and earlier.session == turn.session:
                    continue
            return True
        return False

    def _every_turn(self) -> Sequence[tuple[Effect, int | None]]:
        """Return the turns with when each ended, None of one that is under way."""
        if self._turns is None:
            work = self._context.work
            found = work.effects(self._context.key)
            self._turns = [(one, self._ended(one)) for one in found if one.task is None]
        return self._turns

    def _ended(self, turn: Effect) -> int | None:
        if turn.ended_at is not None or turn.session is None:
            return turn.ended_at or turn.started_at
        session = self._context.work.session(turn.session)
        if session is None:
            return turn.started_at
        alive = state_of(self._context, session) == "active"
        return None if alive else session.ended_at or session.heartbeat_at
