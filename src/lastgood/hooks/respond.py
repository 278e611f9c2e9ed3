"""What is done when something happens in a host: checkpoints, in a session of its own (decision 049).

A turn is a step of the session: recorded when a person asks for something, ended when the agent has answered.
One that is still under way when the next begins was interrupted, and one whose host died is what `recover`
takes back.
"""

from __future__ import annotations

from lastgood.model.checkpoint import Actor
from lastgood.rewind import BEGAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.hooks.event import HookEvent
    from lastgood.literals import Kind
    from lastgood.model.session import Effect
    from lastgood.workspace import Workspace

# How long a look at the workspace may take, in seconds: an agent waits for it.
BUDGET = 10.0
_CUT_SHORT = "interrupted: "


def respond(workspace: Workspace, event: HookEvent, *, session: str | None) -> None:
    """Make the checkpoint that an event is worth, if any, in a session of the host's own unless one is given.

    That of a tool is worth one before what is risky alone, which the caller asks first (`is_risky`).
    Raises what the verbs raise: that nothing was kept is for the host to be told.
    """
    found, begun = (session, False) if session else _session(workspace, event)
    moments = _Moments(workspace, event, session=found)
    if event.kind == "session-start":
        if not begun:
            moments.save("session-start", f"session {event.text or 'start'}", alone=False)
    elif event.kind == "prompt":
        moments.prompted()
    elif event.kind == "tool":
        moments.save("risky", f"before: {event.label}", alone=False)
    elif event.kind == "turn-end":
        moments.ended()
    elif event.kind == "compaction":
        moments.save("compaction", "before the conversation is compacted")
    elif event.kind == "session-end":
        moments.break_off(moments.turns())
        if session is None:
            workspace.session_end(found)


def _session(workspace: Workspace, event: HookEvent) -> tuple[str, bool]:
    """Return the session of a host's conversation, gone on with if it died, and whether it is new."""
    known = workspace.sessions(transcript=event.transcript) if event.transcript else ()
    last = next(iter(known), None)
    if last is not None and last.state == "active":
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
        exclusive=False,
    )
    return started.session.id, True


def _is_whole(workspace: Workspace, session: str) -> bool:
    """Tell whether no restore was interrupted: to finish one is for a person to decide."""
    return workspace.recover(session, choice="review").interrupted_restore is None


class _Moments:
    def __init__(self, workspace: Workspace, event: HookEvent, *, session: str) -> None:
        self._workspace = workspace.within(session)
        self._session = session
        self._event = event
        self._actor = Actor(type="agent", name=event.host)

    def save(
        self,
        kind: Kind,
        message: str,
        *,
        alone: bool = True,
        turn: Effect | None = None,
        allow_empty: bool = False,
    ) -> None:
        """Make a checkpoint if its kind is wanted; ``alone`` tells that a conversation is worth one.

        That of a ``turn`` says at which checkpoint the turn began, by which a rewind finds it.
        """
        began = None if turn is None else turn.stood
        if self._workspace.settings.auto.wants("turn" if kind == "auto" else kind):
            self._workspace.save(
                message,
                kind=kind,
                metadata=None if began is None else {BEGAN: began},
                allow_empty=allow_empty,
                actor=self._actor,
                budget=BUDGET,
                conversation_alone=alone,
            )

    def prompted(self) -> None:
        """Keep what a person changed before a turn begins, and what one left that was cut short."""
        if not self.break_off(self.turns()):
            self.save("auto", f"before: {self._event.label}", alone=False)
        self._workspace.step_start(self._event.label or "a turn")

    def ended(self) -> None:
        """Keep what a turn came to."""
        turns = self.turns()
        last = turns[-1] if turns else None
        self.save("turn", "a turn" if last is None else last.name, turn=last)
        for one in turns:
            self._workspace.step_end(one)

    def break_off(self, turns: Sequence[Effect]) -> bool:
        """Keep what a turn left that nobody saw end; False if there is none.

        Where recovery kept that already, what is new is that it was a turn.
        """
        if turns:
            self.save("turn", _CUT_SHORT + turns[-1].name, turn=turns[-1], allow_empty=True)
        for one in turns:
            self._workspace.step_end(one, state="failed")
        return bool(turns)

    def turns(self) -> list[Effect]:
        """Return the turns under way."""
        steps = self._workspace.steps(self._session)
        return [one for one in steps if one.state == "running" and one.task is None]
