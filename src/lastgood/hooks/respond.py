"""What is done when something happens in a host: checkpoints, in a session of its own (decision 049).

A turn is a step of the session: recorded when a person asks for something, ended when the agent has answered.
One that is still under way when the next begins was interrupted, and one whose host died is what `recover`
takes back.
"""

from __future__ import annotations

import os

from lastgood.attribution import (
    MOMENT,
    NAMED,
    UNKNOWN,
    WORKERS,
    is_beside_turns,
    left_off,
    shared_paths,
    shared_words,
    taken_back_since,
    touched_paths,
)
from lastgood.errors import LastgoodError
from lastgood.hooks.risk import is_risky
from lastgood.hooks.table import host_named
from lastgood.lease import state_of
from lastgood.model.canonical import dumps
from lastgood.model.checkpoint import Actor
from lastgood.paths import printable, to_bytes, to_text
from lastgood.rewind import BEGAN
from lastgood.sessions.session import (
    go_on,
    going_on_in,
    lacks_named_owner,
    name_owner,
    planned_at_save,
)
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lastgood.context import Context
    from lastgood.hooks.event import HookEvent
    from lastgood.literals import EffectState, Kind
    from lastgood.model.checkpoint import SaveReport
    from lastgood.model.session import Effect, Session
    from lastgood.workspace import Workspace

# How long a look at the workspace may take, in seconds: an agent waits for it.
BUDGET = 10.0
_CUT_SHORT = "interrupted: "
_OF_TOOLS = frozenset({"tool", "tool-end", "tool-failed", "batch-end"})
# What was done at these need not be done when they are told of again; at others a look finds what changed.
_DONE_ONCE = frozenset({"session-start", "session-end", "prompt"})
_PERSON = Actor(type="person")
# So many of the files are named that changed under an agent.
_TOLD = 10


class Reply(Value):
    """What a host is to be told: the agent as ``context`` of its turn, a person by a ``message``."""

    context: str | None = None
    message: str | None = None


def respond(workspace: Workspace, event: HookEvent, *, session: str | None, again: bool = False) -> Reply:
    """Make the checkpoint that an event is worth, if any, in a session of the host's own unless one is given.

    That of a tool is worth one before what is risky alone, which the caller asks first (`is_risky`). One that
    is told ``again`` is worth another only where files changed, which may be so: what a host tells of twice
    may look like what happened twice. Raises what the verbs raise: that nothing was kept is for the host to
    be told.
    """
    if again and (event.kind in _DONE_ONCE or (event.kind == "turn-end" and not event.goes_on)):
        return Reply()
    if event.kind == "session-end":
        _end(workspace, event, session=session)
        return Reply()
    found, begun = (session, False) if session else _session(workspace, event)
    moments = _Moments(workspace, event, session=found)
    if event.kind == "session-start":
        if begun:
            return moments.retold_after_a_break()
        # Some tell of one in the middle of a turn, when they compacted its conversation.
        actor = None if moments.turns() else _PERSON
        moments.save("session-start", f"session {event.text or 'start'}", alone=False, actor=actor)
    elif event.kind == "prompt":
        return moments.prompted()
    elif event.kind in _OF_TOOLS:
        moments.of_tool()
    elif event.kind == "turn-end":
        reply = moments.ended(again=again)
        if event.is_last and session is None:
            workspace.session_end(found)
        return reply
    elif event.kind == "compaction":
        moments.save("compaction", "before the conversation is compacted", alone=not again)
    return Reply()


def _end(workspace: Workspace, event: HookEvent, *, session: str | None) -> None:
    """End the session of a host's conversation, unless it is over: some tell of that twice."""
    if session is None and not any(_known(workspace, event)):
        return
    found = session or _session(workspace, event)[0]
    moments = _Moments(workspace, event, session=found)
    moments.break_off(moments.turns())
    if session is None:
        workspace.session_end(found)


def _known(workspace: Workspace, event: HookEvent) -> Iterable[Session]:
    """Return the sessions of a host's conversation that were not ended, newest first."""
    context = workspace._context  # noqa: SLF001 - no verb tells of sessions without what they came to
    if event.transcript:
        return going_on_in(context, os.path.abspath(event.transcript))
    return _of_owner(context, event)


def _session(workspace: Workspace, event: HookEvent) -> tuple[str, bool]:
    """Return the session of a host's conversation, gone on with if it died, and whether it is new."""
    last = next(iter(_known(workspace, event)), None)
    if last is not None and state_of(workspace._context, last) == "active":  # noqa: SLF001 - as above
        if event.owner is not None and lacks_named_owner(last):
            name_owner(workspace._context, last, pid=event.owner)  # noqa: SLF001 - as above
        return last.id, False
    if last is not None and _is_whole(workspace, last.id):
        died = _Moments(workspace, event, session=last.id)
        turns = died.turns()
        workspace.recover(last.id, choice="continue", owner_pid=event.owner, force=True)
        died.break_off(turns)
        return last.id, False
    started = workspace.session_start(
        goal=event.label if event.kind == "prompt" else None,
        owner_pid=event.owner,
        transcript=event.transcript,
        transcript_host=event.host,
        exclusive=False,
    )
    return started.session.id, True


def _of_owner(context: Context, event: HookEvent) -> Iterator[Session]:
    """Yield the sessions at work of a host's process that says of no conversation where it is kept."""
    for one in context.work.sessions(context.key, state="active"):
        of_host = one.transcript is None and not one.exclusive
        if of_host and one.owner.pid == event.owner and state_of(context, one) == "active":
            yield one


def _is_whole(workspace: Workspace, session: str) -> bool:
    """Tell whether no restore was interrupted: to finish one is for a person to decide."""
    return workspace.recover(session, choice="review").interrupted_restore is None


class _Moments:
    def __init__(self, workspace: Workspace, event: HookEvent, *, session: str) -> None:
        self._workspace = workspace.within(session)
        self._session = session
        self._event = event
        self._context = self._workspace._context  # noqa: SLF001 - no verb tells what is asked of it here
        self._actor = Actor(type="agent", name=event.host)

    def save(
        self,
        kind: Kind,
        message: str,
        *,
        alone: bool = True,
        turn: Effect | None = None,
        allow_empty: bool = False,
        actor: Actor | None = None,
        notes: Mapping[str, str] | None = None,
        step: Effect | None = None,
    ) -> SaveReport | None:
        """Make a checkpoint if its kind is wanted; ``alone`` tells that a conversation is worth one.

        If one is made the ``step`` that begins or ends there is recorded in the same commit.

        That of a ``turn`` says at which checkpoint the turn began, by which a rewind finds it. Its changes
        are the agent's unless a person is given, and while a turn is under way only; outside of one, and
        beside the turn of another session, nobody knows.
        """
        began = None if turn is None else turn.stood
        wants = self._workspace.settings.auto.wants
        if not wants("turn" if kind == "auto" else kind):
            return None
        made_by = actor or self._actor
        if is_beside_turns(self._context, session=self._session):
            made_by = UNKNOWN
        elif made_by.type in WORKERS and not self.turns():
            # One that was not seen to begin, or what somebody changed after one: nobody knows.
            made_by = UNKNOWN
        elif made_by.type == "agent" and not wants("turn"):
            # Without a look where its turn began, what came before that is in here too.
            made_by = UNKNOWN
        self._workspace.proposal.step = step
        return self._workspace.save(
            message,
            kind=kind,
            metadata={**({} if began is None else {BEGAN: began}), **(notes or {})} or None,
            allow_empty=allow_empty,
            actor=made_by,
            budget=self._event.seconds or BUDGET,
            conversation_alone=alone,
        )

    def of_tool(self) -> None:
        """Keep what is there before a call of a tool, or what one changed.

        What several changed that ran beside each other is no single one's.
        """
        event = self._event
        after = {MOMENT: "after"} | ({} if event.changes is None else {NAMED: self._named(event.changes)})
        if event.kind == "tool":
            risky = event.command is not None and is_risky(event.command)
            said = event.label if risky else f"{event.tool}: {event.label or ', '.join(event.paths)}"
            kind: Kind = "risky" if risky else "tool"
            before = {MOMENT: "before"} if kind == "tool" else None
            self.save(kind, f"before: {said}".removesuffix(": "), alone=risky, notes=before)
        elif event.tool is not None:
            said = f"{event.tool}: {event.label or ', '.join(event.paths)}"
            actor = Actor(type="tool", name=event.tool, call=event.call)
            self.save("tool", said.removesuffix(": "), alone=False, actor=actor, notes=after)
        else:
            self.save("tool", "tools used beside each other", alone=False, notes=after)

    def _named(self, paths: Iterable[str]) -> str:
        """Return which files of the workspace calls name, as a note: by their place, and by what that is."""
        root = self._context.root
        found: set[bytes] = set()
        for path in paths:
            full = os.path.join(os.fsencode(self._event.folder), to_bytes(path))
            above, name = os.path.split(os.path.normpath(full))
            for place in (os.path.join(os.path.realpath(above), name), os.path.realpath(full)):
                if place.startswith(root + b"/"):
                    found.add(place[len(root) + 1 :])
        return dumps([to_text(one) for one in sorted(found)]).decode("ascii")

    def prompted(self) -> Reply:
        """Keep what a person changed before a turn begins, and what one left that was cut short.

        Hosts write down the last words of a turn when they have told of its end: they are worth one, too.
        The agent is told what was taken back under it since its last turn began (rule P9).
        """
        last, begun = self._last_turn(), False
        if not self.break_off(self.turns()):
            # Where the host itself goes on, something in the background was at work, too.
            actor = UNKNOWN if self._event.is_hosts else _PERSON
            step = self._begins()
            report = self.save("auto", f"before: {self._event.label}", actor=actor, step=step)
            begun = step is not None and report is not None and report.created
        since = self._began_at() if last is None else last.started_at
        if not begun:
            self._workspace.step_start(self._name)
        return self._retold(since)

    @property
    def _name(self) -> str:
        return self._event.label or "a turn"

    def _begins(self) -> Effect | None:
        """Return the turn that begins with a checkpoint; None where none can, which is told after it."""
        try:
            return planned_at_save(self._context, self._name, digits=self._workspace.proposal.digits)
        except LastgoodError:
            return None

    def retold_after_a_break(self) -> Reply:
        """Tell an agent that resumes a conversation what was taken back since that was over (rule P9)."""
        transcript = self._event.transcript
        since = None if transcript is None else left_off(self._context, transcript)
        return Reply() if since is None else self._retold(since)

    def _began_at(self) -> int:
        """Return since when the agent knows nothing: since it left off, if its host takes no word then."""
        session, transcript = self._context.work.session(self._session), self._event.transcript
        if transcript is not None and host_named(self._event.host).informed("session-start", "") is None:
            left = left_off(self._context, transcript)
            if left is not None:
                return left
        return 0 if session is None else session.started_at

    def _retold(self, since: int) -> Reply:
        operations = taken_back_since(self._context, since)
        paths = touched_paths(operations)
        if not paths:
            return Reply()
        newest = operations[0]
        did = {"undo": "a restore was undone", "redo": "a restore was done again"}
        target = None if newest.target is None else self._context.catalogue.get(newest.target)
        what = did.get(newest.type, "files were restored")
        title = "" if target is None else (target.name or target.message).strip().partition("\n")[0]
        at = "" if target is None else f" to {target.short_id}" + (f" ({printable(title)})" if title else "")
        more = f" and {len(paths) - _TOLD:,} more" if len(paths) > _TOLD else ""
        shown = ", ".join(printable(to_text(path)) for path in paths[:_TOLD]) + more
        return Reply(
            context=f"Since your last turn {what}{at} with lastgood."
            f" These files changed under you: {shown}. Read them again before you rely on them."
        )

    def ended(self, *, again: bool = False) -> Reply:
        """Keep what a turn came to; a person is told of files at which other sessions are, too.

        Where something was kept within it, what is new is that it was a turn: a rewind goes by those. One
        that went on after its end was told has a checkpoint more.
        """
        turns = self.turns() or self._gone_on()
        last = turns[-1] if turns else None
        kept = last is not None and last.state == "running" and last.stood != self._workspace.stands_at()
        said = "a turn" if last is None else last.name
        is_cut = self._event.is_cut
        message = f"{_CUT_SHORT}{said}" if is_cut else said
        end: EffectState = "failed" if is_cut else "done"
        step = None if last is None else last.replace(state=end)
        report = self.save("turn", message, alone=not again, turn=last, allow_empty=kept, step=step)
        for one in turns[:-1] if report is not None and report.created else turns:
            self._workspace.step_end(one, state=end)
        if report is None or not report.created:
            return Reply()
        found = shared_paths(self._context)
        own = {path: shared for path, shared in found.items() if self._session in shared.sessions}
        if not own:
            return Reply()
        path, shared = next(iter(own.items()))
        more = f" (and {len(own) - 1:,} more)" if len(own) > 1 else ""
        return Reply(message=f"lastgood: {shared_words(path, shared)}{more}")

    def _gone_on(self) -> list[Effect]:
        """Return the turn that the agent was had to go on with, as it was told to have ended."""
        found = self._last_turn() if self._event.goes_on else None
        last = [] if found is None or found.state not in {"done", "failed"} else [found]
        for one in last:
            go_on(self._context, one)
        return last

    def break_off(self, turns: Sequence[Effect]) -> bool:
        """Keep what a turn left that nobody saw end; False if there is none.

        Where recovery kept that already, what is new is that it was a turn.
        """
        if turns:
            # Nobody knows when it was, nor who changed what since.
            said = _CUT_SHORT + turns[-1].name
            self.save("turn", said, turn=turns[-1], allow_empty=True, actor=UNKNOWN)
        for one in turns:
            self._workspace.step_end(one, state="failed")
        return bool(turns)

    def turns(self) -> list[Effect]:
        """Return the turns under way."""
        context = self._context
        running = context.work.effects(context.key, session=self._session, state="running")
        return [one for one in running if one.task is None and not self._has_begun(one)]

    def _last_turn(self) -> Effect | None:
        """Return the turn that began last, whatever became of it."""
        latest = self._context.work.turns(self._context.key, self._session, limit=2)
        return next((one for one in latest if not self._has_begun(one)), None)

    def _has_begun(self, turn: Effect) -> bool:
        """Tell whether a turn was begun by this very call, before who carried it out was killed."""
        return self._workspace.proposal.has_begun(turn)
