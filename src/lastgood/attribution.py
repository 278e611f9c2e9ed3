"""Who changed what: whose the changes between a checkpoint and the one before it are (decision 055)."""

from __future__ import annotations

from itertools import takewhile

from lastgood.catalogue import CheckpointFacts, Query
from lastgood.errors import Damaged
from lastgood.ignore import TreeRules
from lastgood.lease import state_of
from lastgood.model.canonical import loads
from lastgood.model.checkpoint import PROGRAMS, Actor, decode_gaps, encode_gaps
from lastgood.model.tree import DIRECTORY, TreeId, compare
from lastgood.paths import Covering, printable, to_bytes, to_text
from lastgood.rewind import BEGAN
from lastgood.trees import Files, ignore_texts, tree_of
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lastgood.context import Context, SessionTransaction
    from lastgood.literals import Doubt
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.operation import Operation
    from lastgood.model.session import Effect, Session
    from lastgood.model.tree import Change, Entry

    # Tells of a change, and whose the whole is said to be, why nobody knows all the same.
    Judge = Callable[[Change, Actor], Doubt | None]

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
# Under these words of its metadata the checkpoint of a tool's call says whether it was made before or after
# it, and which files alone the call was to change (a JSON list; not there where nobody can say).
MOMENT, NAMED = "moment", "changes"
# Why nobody knows whose a change is, in words.
WORDS: dict[Doubt, str] = {
    "beside": "another session was at work",
    "between-calls": "it came between two calls of tools",
    "cut-short": "its turn was cut short, or its host died",
    "during-turn": "it was saved in the middle of an agent's turn",
    "gone": "checkpoints between are gone",
    "host-died": "the turn's host, or the run, died",
    "no-session": "no agent's session was open that would know",
    "not-said": "nobody said whose it is",
    "outside-turn": "it was saved outside of the agent's turns",
    "partial": "a checkpoint between is partial",
    "restored": "a restore or an undo went on meanwhile",
    "unnamed": "the tool's call names other files",
    "unseen": "it was ignored or left out before",
}


class Link(Value):
    """A checkpoint and the one before it along a history; None before the first."""

    after: CheckpointFacts
    before: CheckpointFacts | None


class Authorship(Value):
    """Whose some changes are: ``label`` says for what, ``initial`` that they were there at first.

    ``why`` says why nobody knows. ``session`` is the one in which they came, as far as it is known.
    """

    actor: Actor
    checkpoint: Checkpoint
    label: str = ""
    initial: bool = False
    why: Doubt | None = None
    session: str | None = None

    def doubted(self, why: Doubt | None) -> Authorship:
        """Return that nobody knows, if there is a reason and there was none before."""
        return self if why is None or self.why is not None else self.replace(actor=UNKNOWN, why=why)


class Authored(Value):
    """One path that changed, with whose that is."""

    change: Change
    by: Authorship


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


def files_of(context: Context, facts: CheckpointFacts) -> Files:
    """Return the files of a checkpoint."""
    root = TreeId(tree=bytes.fromhex(facts.tree), modes=bytes.fromhex(facts.modes))
    return Files(root, context.engine)


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
    """Tells whose the changes of a checkpoint are, by what it says of itself and by what else is recorded.

    What it says counts only as far as it can be known: a person's between the turns of an agent's session
    that was open, an agent's within one of its turns, and neither beside anybody else's, nor where a
    checkpoint between was let go; nor what a restore brought meanwhile.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        # What is known of turns and of sessions reaches back to a moment, in nanoseconds.
        self._turns: tuple[int, Sequence[tuple[Effect, int | None]]] | None = None
        self._sessions: tuple[int, Sequence[tuple[Session, int | None]]] | None = None
        self._turns_of: dict[str, list[Effect]] = {}
        self._tell: dict[str, bool] = {}
        self._operations: dict[str, Operation] = {}
        self._knows_all = False
        self._partial: Sequence[int] | None = None
        self._unseen: dict[str, Unseen] = {}
        self._telling: dict[str, bool] = {}
        self._judged: dict[tuple[str, str | None], tuple[Authorship, Judge]] = {}

    # --- Of a checkpoint as a whole ---

    def of(self, after: Checkpoint, before: CheckpointFacts | None) -> Authorship:
        """Return whose the changes are that came to a checkpoint since another one before it."""
        if before is None:
            return Authorship(actor=UNKNOWN, checkpoint=after, initial=True)
        turn = self._turn_of(after)
        label = after.message.strip() or after.name or ""
        if turn is not None and (_is_before_call(after) or after.kind in _MADE_BEFORE):
            label = turn.name
        actor, why = self._whose(after, before, turn=turn)
        session = after.session if turn is None or after.session is not None else turn.session
        return Authorship(actor=actor, checkpoint=after, label=label, why=why, session=session)

    def changes_of(self, link: Link) -> list[Authored]:
        """Return what came with a link of the history, path by path, with whose each change is.

        What was in a gap on either side counts as unknown, not as come or gone.
        """
        older = None if link.before is None else files_of(self._context, link.before)
        newer = files_of(self._context, link.after)
        found = compare(older, newer, gaps=decode_gaps(link.after.gaps))
        return [Authored(change=one, by=self.of_change(link, one)) for one in found]

    def of_change(self, link: Link, change: Change) -> Authorship:
        """Return whose one change is that came with a link, which may pass over some checkpoints."""
        key = link.after.id, None if link.before is None else link.before.id
        if key not in self._judged:
            after = self._context.catalogue.get(link.after.id)
            assert after is not None
            self._judged[key] = self.of(after, link.before), self._doubts(link.before, after)
        by, doubt = self._judged[key]
        return by.doubted(doubt(change, by.actor))

    def not_saved(
        self, base: CheckpointFacts, changes: Iterable[Change], *, turn: Effect
    ) -> Iterator[tuple[Change, Doubt | None]]:
        """Yield changes that came since a checkpoint while a turn goes on, with why nobody knows whose."""
        moved = self._moved(base, turn=turn, until=None)
        began = moved is not None or _began_at(turn, base)
        why: Doubt | None = None if began else "restored"
        if self._has_partial(base, None):
            why = "partial"
        restored = self._restored(self._since(base, turn=turn, moved=moved), None) | self._stayed(moved)
        for one in changes:
            told: Doubt | None = "restored" if one.path in restored else None
            yield one, why or told or ("unseen" if self._may_have_been(base, one) else None)

    def is_beside(self, session: str, after: Checkpoint, before: CheckpointFacts) -> bool:
        """Tell whether a turn, or a task, of a session went on while changes came about."""
        return any(
            turn.session == session
            and turn.after < after.sequence
            and (ended is None or ended > before.created_at)
            for turn, ended in self._turns_since(before.created_at)
        )

    def _whose(
        self, after: Checkpoint, before: CheckpointFacts, *, turn: Effect | None
    ) -> tuple[Actor, Doubt | None]:
        actor = self._said(after, before, turn=turn)
        if actor is None:
            return UNKNOWN, "gone"
        if actor.type == "lastgood":
            return actor, None
        moved = self._moved(before, turn=turn, until=after.manifest.created_at)
        since = self._since(before, turn=turn, moved=moved, after=after)
        if self._is_beside_others(after, before, since=since, turn=turn):
            return UNKNOWN, "during-turn" if actor.type == "person" else "beside"
        why: Doubt | None
        if actor.type == "unknown":
            why = _why_not_said(after, turn)
        elif self._has_partial(before, after):
            why = "partial"
        elif actor.type == "person":
            why = None if self._is_attended(after, since=since) else "no-session"
        else:
            why = self._doubt_of_work(after, before, turn=turn, moved=moved)
        return (actor, None) if why is None else (UNKNOWN, why)

    def _said(self, after: Checkpoint, before: CheckpointFacts, *, turn: Effect | None) -> Actor | None:
        """Return whom the checkpoints name that were made since another one; None if they do not agree."""
        between = self._between(after, before)
        if between is None:
            within = turn is not None and _began_at(turn, before) and after.actor.type == "agent"
            return after.actor.replace(call=None) if within else None
        said = {after.actor, *(one.actor for one in between)}
        if len(said) == 1:
            return after.actor
        alone = {one.session for one in (after, *between)}
        if len(alone) == 1 and all(one.type in WORKERS for one in said):
            name = next((one.name for one in said if one.type == "agent"), None)
            return Actor(type="agent", name=name)
        return None

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

    def _doubt_of_work(
        self, after: Checkpoint, before: CheckpointFacts, *, turn: Effect | None, moved: Operation | None
    ) -> Doubt | None:
        """Return why changes that a checkpoint calls an agent's may be somebody else's."""
        if turn is None or not self._lasted(turn, after):
            return None if self._is_believed(after, before) else "outside-turn"
        if moved is None and not _began_at(turn, before):
            return self._why_elsewhere(turn)
        if after.kind not in {"tool", "turn"} and not self._is_sound(turn):
            return "cut-short"  # nobody knows since when a person went on by hand
        if _is_before_call(after) or (after.kind != "tool" and self._tells_calls(turn)):
            return "between-calls"
        return None

    def _is_believed(self, after: Checkpoint, before: CheckpointFacts) -> bool:
        """Tell whether a program that tells of no turns knows for whom it saved: in a session of its own."""
        if self._has_task(before, after):
            return True
        session = None if after.session is None else self._context.work.session(after.session)
        if session is None or session.started_at > before.created_at:
            return False
        return session.exclusive or after.kind in PROGRAMS

    def _why_elsewhere(self, turn: Effect) -> Doubt:
        """Return why a turn began elsewhere than at the checkpoint before its own."""
        if turn.stood is None:
            return "restored"
        began = self._context.catalogue.get(turn.stood)
        return "gone" if began is None else "partial" if began.partial else "restored"

    def _has_task(self, before: CheckpointFacts, after: Checkpoint) -> bool:
        """Tell whether the task of its session went on for which a checkpoint was made."""
        task = after.manifest.task
        return task is not None and any(
            one.task == task
            and one.session == after.session
            and one.after < after.sequence
            and (ended is None or ended > before.created_at)
            for one, ended in self._turns_since(before.created_at)
        )

    def _tells_calls(self, turn: Effect) -> bool:
        """Tell whether checkpoints were made before and after the calls of tools in a turn."""
        if turn.id not in self._telling:
            made = Query(
                workspace_key=self._context.key,
                session=turn.session,
                kind="tool",
                since=turn.started_at,
                until=turn.ended_at,
                brief=True,
            )
            self._telling[turn.id] = any(
                MOMENT in one.manifest.metadata for one in self._context.catalogue.find(made)
            )
        return self._telling[turn.id]

    # --- Of single paths ---

    def _doubts(self, before: CheckpointFacts | None, after: Checkpoint) -> Judge:
        """Return what tells of a change, and whose the whole is said to be, why nobody knows all the same."""
        if before is None:
            return lambda _change, _actor: None
        turn = self._turn_of(after)
        moved = self._moved(before, turn=turn, until=after.manifest.created_at)
        stayed = self._stayed(moved)
        since = self._since(before, turn=turn, moved=moved, after=after)
        restored = self._restored(since, after.manifest.created_at) | stayed
        named = _named(after)

        def doubt(change: Change, actor: Actor) -> Doubt | None:
            if change.path in (restored if actor.type in WORKERS else stayed):
                return "restored"
            if actor.type in WORKERS and named is not None and change.path not in named:
                return "unnamed"
            return "unseen" if self._may_have_been(before, change) else None

        return doubt

    def _may_have_been(self, before: CheckpointFacts, change: Change) -> bool:
        """Tell whether what came may have been there before, ignored or in a gap."""
        if change.before is not None or change.after is None:
            return False
        if before.id not in self._unseen:
            checkpoint = self._context.catalogue.get(before.id)
            assert checkpoint is not None
            self._unseen[before.id] = Unseen(checkpoint, files_of(self._context, before))
        return self._unseen[before.id].may_hold(change.path, change.after)

    def _restored(self, since: int, until: int | None) -> frozenset[bytes]:
        """Return the paths that restores changed in a time; not what was taken back again at once."""
        marks: dict[bytes, list[str]] = {}
        for one in reversed(self._operations_since(since)):
            if until is not None and one.at > until:
                continue
            for path in _effects(one):
                done = marks.setdefault(path, [])
                if one.type == "undo" and done and done[-1] == one.of:
                    done.pop()
                else:
                    done.append(f"undo {one.of}" if one.type == "undo" else one.of or one.id)
        return frozenset(path for path, done in marks.items() if done)

    def _moved(self, before: CheckpointFacts, *, turn: Effect | None, until: int | None) -> Operation | None:
        """Return the last whole restore that led to a checkpoint, if that was in the turn, or in none.

        None also where what it left otherwise than there is not known any more.
        """
        since = before.created_at if turn is None else max(before.created_at, turn.started_at)
        for one in self._operations_since(since):
            if one.type == "restore" and one.stands == before.id and (until is None or one.at <= until):
                known = one.guard is not None and self._context.catalogue.get(one.guard) is not None
                return one if known else None
        return None

    def _stayed(self, moved: Operation | None) -> frozenset[bytes]:
        """Return the paths that a whole restore left otherwise than at the checkpoint to which it led."""
        if moved is None or moved.guard is None or moved.stands is None:
            return frozenset()
        guard, target = (self._context.catalogue.get(one) for one in (moved.guard, moved.stands))
        if guard is None or target is None:
            return frozenset()
        sides = [Files(tree_of(one), self._context.engine) for one in (guard, target)]
        try:
            differ = {one.path for one in compare(*sides)}
        except Damaged:
            return frozenset()
        return frozenset(differ.difference(_effects(moved)))

    # --- What went on when ---

    def _since(
        self,
        before: CheckpointFacts,
        *,
        turn: Effect | None,
        moved: Operation | None,
        after: Checkpoint | None = None,
    ) -> int:
        """Return since when what changed after a checkpoint can have: later looks may have found it so.

        A turn begins with a look, and one that was seen to end ends with one.
        """
        since = before.created_at if moved is None else moved.at
        if turn is not None and turn.stood == before.id:
            since = max(since, turn.started_at)
        if after is None or after.actor.type != "person" or after.manifest.previous != before.id:
            return since
        for one, ended in self._turns_since(before.created_at):
            looked = one.task is None and one.state == "done" and one.stood == before.id
            if looked and ended is not None and ended <= after.manifest.created_at:
                since = max(since, ended)
        return since

    def _turn_of(self, checkpoint: Checkpoint) -> Effect | None:
        """Return the turn in which a checkpoint was made: of its session, else the only one under way.

        The last one before where none was under way; None of a checkpoint of nobody's session.
        """
        if checkpoint.session is not None:
            return self._last_turn(checkpoint.session, before=checkpoint.sequence)
        if checkpoint.kind in PROGRAMS or checkpoint.actor.type not in WORKERS:
            return None
        made = checkpoint.manifest.created_at
        lasting = [
            turn
            for turn, ended in self._turns_since(made)
            if turn.task is None and turn.after < checkpoint.sequence and (ended is None or ended > made)
        ]
        # Whether the agent was still at work in one that was cut short nobody knows.
        lasting = [turn for turn in lasting if self._is_sound(turn)]
        return lasting[0] if len(lasting) == 1 else None

    def _last_turn(self, session: str, *, before: int) -> Effect | None:
        """Return the last turn of a session that began before a checkpoint, by its sequence."""
        known, looked = self._turns_of.setdefault(session, []), 0
        while True:
            for turn in known[looked:]:
                if turn.after < before:
                    return turn
            looked = len(known)
            if looked % _PAGE and looked:  # the last page was not full
                return None
            found = self._context.work.turns(self._context.key, session, limit=_PAGE, skip=looked)
            if not found:
                return None
            known += found

    def _is_sound(self, turn: Effect) -> bool:
        """Tell whether a turn was seen to end well, or goes on in a session that lives."""
        if turn.state != "running" or turn.session is None:
            return turn.state == "done"
        session = self._context.work.session(turn.session)
        return session is not None and state_of(self._context, session) == "active"

    def _lasted(self, turn: Effect, checkpoint: Checkpoint) -> bool:
        """Tell whether a turn was under way when a checkpoint was made."""
        ended = self._ended(turn)
        return ended is None or ended >= checkpoint.manifest.created_at

    def _is_beside_others(
        self, after: Checkpoint, before: CheckpointFacts, *, since: int, turn: Effect | None
    ) -> bool:
        """Tell whether somebody else's turn, or task, went on while changes came about."""
        working = after.actor.type != "person"
        earlier = None
        for one, ended in self._turns_since(since):
            # A task may be a host, which knows what came between the turns of its agent.
            knows = working or (one.task is not None and after.kind != "manual")
            own = one.session == (after.session if turn is None else turn.session) and knows
            if one.after >= after.sequence or own:
                continue
            if ended is None:
                return True
            if ended <= since:
                continue
            # What a turn came to is kept just before it is recorded as ended.
            if before.kind in _ENDS and one.after < before.sequence:
                earlier = earlier or self._context.catalogue.get(before.id)
                if earlier is not None and earlier.session == one.session:
                    continue
            return True
        return False

    def _is_attended(self, after: Checkpoint, *, since: int) -> bool:
        """Tell whether a session was open all the time whose host tells when its agent is at work.

        Beside one that holds the workspace for itself, and tells of no tasks, nobody tells that.
        """
        made = after.manifest.created_at
        attended = False
        for one, over in self._sessions_since(since, own=after.session):
            lasted = over is None or over >= made or (one.id == after.session and not one.exclusive)
            lasts = one.started_at < made and (over is None or over > since)
            if one.exclusive and lasts and not self._tells_tasks(one.id):
                return False
            attended = attended or (not one.exclusive and one.started_at <= since and lasted)
        return attended

    def _has_partial(self, before: CheckpointFacts, after: Checkpoint | None) -> bool:
        """Tell whether a look between was broken off: what it did not see came before it, or after."""
        if self._partial is None:
            looked = Query(workspace_key=self._context.key, partial=True, guards=False, brief=True)
            self._partial = [one.sequence for one in self._context.catalogue.find(looked)]
        end = None if after is None else after.sequence
        return any(before.sequence < one and (end is None or one < end) for one in self._partial)

    def _operations_since(self, moment: int) -> Sequence[Operation]:
        """Return the operations of the workspace since a moment, newest first, read a few at a time."""
        known = self._operations
        oldest = min((one.at for one in known.values()), default=moment + 1)
        while not self._knows_all and oldest > moment:
            more = self._context.catalogue.operations(self._context.key, limit=_PAGE, offset=len(known))
            known.update({one.id: one for one in more})
            self._knows_all = len(more) < _PAGE
            oldest = more[-1].at if more else moment
        return [one for one in known.values() if one.at > moment]

    def _sessions_since(self, moment: int, *, own: str | None) -> Sequence[tuple[Session, int | None]]:
        """Return the sessions that were not over at a moment, with when each was, None of one that lives.

        ``own`` is among them whenever it was over.
        """
        if self._sessions is None or moment < self._sessions[0]:
            reach = self._reach(moment)
            found = self._context.work.sessions(self._context.key, unended_at=reach)
            self._sessions = reach, [(one, self._over(one)) for one in found]
        known = self._sessions[1]
        if own is None or any(one.id == own for one, _ in known):
            return known
        one = self._context.work.session(own)
        return known if one is None else (*known, (one, self._over(one)))

    def _reach(self, moment: int) -> int:
        """Return how far back to read for a moment: twice as far, since who goes back asks for more soon."""
        return moment - max(0, self._context.clock.now() - moment)

    def _tells_tasks(self, session: str) -> bool:
        """Tell whether turns, or tasks, of a session were told."""
        if session not in self._tell:
            steps = self._context.work.effects(self._context.key, session=session)
            self._tell[session] = any(one.task in {None, one.name} for one in steps)
        return self._tell[session]

    def _over(self, session: Session) -> int | None:
        if session.ended_at is not None:
            return session.ended_at
        return None if state_of(self._context, session) == "active" else session.heartbeat_at

    def _turns_since(self, moment: int) -> Sequence[tuple[Effect, int | None]]:
        """Return the turns and tasks that had not ended at a moment, with when each did; None: not yet.

        In the order of their start; some that ended before it may be among them.
        """
        if self._turns is None or moment < self._turns[0]:
            reach = self._reach(moment)
            found = self._context.work.effects(self._context.key, unended_at=reach)
            told = [(one, self._ended(one)) for one in found if one.task in {None, one.name}]
            self._turns = reach, told
        return self._turns[1]

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


def _began_at(turn: Effect, before: CheckpointFacts) -> bool:
    """Tell whether a checkpoint is where a turn began, or was made within it."""
    if turn.after < before.sequence or turn.stood == before.id:
        return True
    return turn.stood is None and turn.after == before.sequence


def note_unseen(context: Context, broken_off: Sequence[Checkpoint]) -> None:
    """Note with the turns that had some looks before or within them that nobody knows what these missed.

    That is so when the looks are gone, too: such a turn began at one that nobody finds.
    """
    noted = [
        turn.replace(stood=one.id)
        for turn in (context.work.effects(context.key) if broken_off else ())
        for one in broken_off
        if turn.state in {"done", "failed"} and turn.stood == one.previous and _may_have_missed(one, turn)
    ]

    def note(work: SessionTransaction) -> None:
        for turn in noted:
            work.put_effect(turn)

    if noted:
        context.work.change(note)


def _may_have_missed(broken_off: Checkpoint, turn: Effect) -> bool:
    """Tell whether a turn began after a look that was broken off, or ended after it."""
    return turn.after >= broken_off.sequence or (turn.ended_at or 0) >= broken_off.manifest.created_at


def _is_before_call(checkpoint: Checkpoint) -> bool:
    """Tell whether a checkpoint was made before the call of a tool."""
    return checkpoint.kind == "tool" and checkpoint.manifest.metadata.get(MOMENT) == "before"


def _named(checkpoint: Checkpoint) -> frozenset[bytes] | None:
    """Return the files that a tool's call was to change, and no others; None where nobody can say."""
    said = checkpoint.manifest.metadata.get(NAMED) if checkpoint.kind == "tool" else None
    if said is None:
        return None
    try:
        found = loads(f'{{"paths":{said}}}', what="the files of a call")["paths"]
    except Damaged:
        return None
    paths = found if isinstance(found, list) else []
    return frozenset(to_bytes(one) for one in paths if isinstance(one, str))


def _why_not_said(checkpoint: Checkpoint, turn: Effect | None) -> Doubt:
    """Return why a checkpoint names nobody."""
    if checkpoint.session is None:
        return "not-said"
    if checkpoint.kind == "turn":
        return "cut-short" if turn is None or turn.state != "done" else "outside-turn"
    return "outside-turn" if checkpoint.kind in {"tool", *_MADE_BEFORE} else "not-said"


def unended(context: Context) -> list[tuple[Effect, bool]]:
    """Return the turns and tasks that nobody saw end, by their start, and if their session lives."""
    running = context.work.effects(context.key, state="running")
    turns = [one for one in running if one.task in {None, one.name} and one.session is not None]
    found = {id: context.work.session(id) for one in turns if (id := one.session) is not None}
    alive = {id for id, one in found.items() if one is not None and state_of(context, one) == "active"}
    return [(one, one.session in alive) for one in turns]


def is_beside_turns(context: Context, *, session: str) -> bool:
    """Tell whether the turn of another session is under way now, or a task of it."""
    return any(lives and one.session != session for one, lives in unended(context))


# --- What went on beside a session: files taken back under it, and others at the same file ---

# Of so many operations is told, and of so many checkpoints of each session the paths are compared.
_OPERATIONS = 16
_COMPARED = 20
# A rollback, which is rare, looks at so many.
_COMPARED_BESIDE = 200
_TOUCHED = frozenset({"write", "delete", "chmod"})
_IDLE = frozenset({"keep", "skip"})


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


def _effects(operation: Operation) -> list[bytes]:
    """Return every path that an operation changed, folders too."""
    return [one.path for one in operation.steps if one.action not in _IDLE]


def left_off(context: Context, transcript: str) -> int | None:
    """Return when the last session of a conversation that is over was last heard of; None of a new one."""
    ended = [one for one in context.work.sessions(context.key) if one.transcript == transcript]
    over = [one.ended_at or one.heartbeat_at for one in ended if one.state != "active"]
    return max(over, default=None)


class Shared(Value):
    """The sessions under way in which a file changed; ``known`` tells that it was changed in each of them.

    Else it may have been one alone: in the turns that overlap nobody can tell whose a change is.
    """

    sessions: tuple[str, ...]
    known: bool


def shared_paths(context: Context) -> dict[bytes, Shared]:
    """Return the files that changed in several sessions that are under way, by the newest checkpoints."""
    alive = [
        one
        for one in context.work.sessions(context.key, state="active")
        if state_of(context, one) == "active"
    ]
    by: dict[bytes, dict[str, bool]] = {}
    authors = Authors(context)
    for session in alive if len(alive) > 1 else ():
        for path, known in _changed_in(context, session.id, authors=authors).items():
            by.setdefault(path, {})[session.id] = known
    return {
        path: Shared(sessions=tuple(ids), known=all(ids.values()))
        for path, ids in sorted(by.items())
        if len(ids) > 1
    }


def changed_beside(
    context: Context, *, session: str, since: int
) -> dict[bytes, tuple[Checkpoint, Authorship]]:
    """Return what other sessions saved as changed after the checkpoint of a number, and the newest that did.

    That is as far as it is not known for a person's, and of so many checkpoints of theirs.
    """
    query = Query(workspace_key=context.key, guards=False, brief=True, limit=_COMPARED_BESIDE)
    authors = Authors(context)
    found: dict[bytes, tuple[Checkpoint, Authorship]] = {}
    for one in takewhile(lambda one: one.sequence > since, context.catalogue.find(query)):
        if one.session not in {None, session}:
            for each in _changed_at(context, one, authors=authors):
                found.setdefault(each.change.path, (one, each.by))
    return found


def _changed_in(context: Context, session: str, *, authors: Authors) -> dict[bytes, bool]:
    """Return what changed in a session, as far as nobody else is known for it, and whether that is known."""
    query = Query(workspace_key=context.key, session=session, guards=False, brief=True, limit=_COMPARED)
    paths: dict[bytes, bool] = {}
    for one in context.catalogue.find(query):
        for each in _changed_at(context, one, authors=authors):
            path = each.change.path
            paths[path] = paths.get(path, False) or each.by.why is None
    return paths


def _changed_at(context: Context, one: Checkpoint, *, authors: Authors) -> Iterator[Authored]:
    """Yield what came changed with a checkpoint, but for a person's, and for what came by a restore."""
    before = None if one.previous is None else context.catalogue.get(one.previous)
    if before is None or before.manifest.root == one.manifest.root:
        return
    try:
        found = authors.changes_of(Link(after=_facts_of(one), before=_facts_of(before)))
    except Damaged:
        return
    for each in found:
        if each.by.actor.type != "person" and each.by.why not in {"restored", "unseen"}:
            yield each


def _facts_of(checkpoint: Checkpoint) -> CheckpointFacts:
    return CheckpointFacts(
        id=checkpoint.id,
        sequence=checkpoint.sequence,
        kind=checkpoint.kind,
        created_at=checkpoint.manifest.created_at,
        tree=checkpoint.manifest.root.tree,
        modes=checkpoint.manifest.root.modes,
        partial=checkpoint.partial,
        gaps=encode_gaps(checkpoint.gaps),
    )


def shared_words(path: bytes, shared: Shared) -> str:
    """Return in words that several sessions are at one file."""
    named, shown = " and ".join(shared.sessions), printable(to_text(path))
    if shared.known:
        return f"{shown} changed in sessions {named}, all under way"
    return f"{shown} changed while sessions {named} were at work: in which is not known"
