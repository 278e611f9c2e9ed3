"""What every part of a run works with."""

from __future__ import annotations

import os

from lastgood.errors import Busy, LastgoodError, Storage
from lastgood.names import to_bytes
from lastgood.workspace.running.signals import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.adapters.outputs import OutputFolder
    from lastgood.model.workplan import PlannedTask, WorkPlan
    from lastgood.ports.command import Commands
    from lastgood.workspace.running.hands import Hands
    from lastgood.workspace.running.signals import Signals
    from lastgood.workspace.running.telling import Telling


# How often a run looks whether it still holds its workspace, in seconds.
BEAT = 30.0
# A task that ends so soon, in seconds, needs no word on it.
_AT_ONCE = 0.5


class Stage:
    """One run: its plan, the hands that do it, the voice that tells of it, the ear for its end."""

    def __init__(
        self,
        hands: Hands,
        plan: WorkPlan,
        *,
        telling: Telling,
        signals: Signals,
        commands: Commands,
        outputs: OutputFolder,
    ) -> None:
        self.hands = hands
        self.plan = plan
        self.telling = telling
        self.signals = signals
        self.commands = commands
        self.outputs = outputs
        self.exit_code: int | None = None
        self._due = self._next()
        self._beats = hands.monotonic() + BEAT
        self._heard_at: float | None = None
        self._said = False

    def asked(self, task: PlannedTask) -> Sequence[int]:
        """Return the signals that ask the run to end; that a task takes its time to do so is told."""
        heard = self.signals.asked()
        if heard and not self._said:
            now = self.hands.monotonic()
            self._heard_at = now if self._heard_at is None else self._heard_at
            self._said = now - self._heard_at > _AT_ONCE
            if self._said:
                self.telling.notice(
                    f"told to end by {name_of(heard[0])}, and not over yet; the same again ends it at once",
                    task=task.id,
                )
        return heard

    def variables(self, task: PlannedTask, *, attempt: int) -> Mapping[str, str]:
        """Return what a task's commands find in their environment beside that of the caller.

        The store is named too: what works within the session has to find it.
        """
        return {
            **task.env,
            "LASTGOOD_STORE": self.hands.store,
            "LASTGOOD_SESSION": self.hands.own,
            "LASTGOOD_TASK": task.id,
            "LASTGOOD_ATTEMPT": str(attempt),
        }

    def folder(self, task: PlannedTask) -> bytes:
        """Return where a task's commands run."""
        return self.hands.root if task.cwd is None else os.path.join(self.hands.root, to_bytes(task.cwd))

    def rested(self) -> None:
        """Begin the interval to the next checkpoint anew: one was made a moment ago."""
        self._due = self._next()

    def tick(self, task: PlannedTask) -> None:
        """Make a checkpoint if one is due, and give a sign of life.

        A failure of the checkpoint is told, and does the task no harm. Raises `Conflict` if the session
        has lost its lease: whoever took over must not find the task at work.
        """
        now = self.hands.monotonic()
        if now >= self._beats:
            self._beats = now + BEAT
            self._beat()
        if now < self._due:
            return
        self.rested()
        if not self.hands.wants("interval"):
            return
        try:
            report = self.hands.keep("auto", f"while task {task.id} runs", task=task.id)
        except LastgoodError as error:
            self.telling.notice(f"no checkpoint could be made: {said(error)}", task=task.id)
            return
        self.telling.saved(report, task=task.id)

    def _beat(self) -> None:
        try:
            self.hands.session_heartbeat(self.hands.own)
        except (Busy, Storage) as error:
            self.telling.notice(f"no sign of life could be given: {said(error)}")

    def _next(self) -> float:
        return self.hands.monotonic() + self.hands.settings.auto.interval


def said(error: LastgoodError) -> str:
    """Return an error with what to do about it."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
