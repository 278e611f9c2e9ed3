"""One attempt of a task: recorded, run, checked, recorded again (rules P3, P6)."""

from __future__ import annotations

from lastgood.names import printable, to_text
from lastgood.rules.attempts import ATTEMPT
from lastgood.rules.progress import task as task_of
from lastgood.value import Value
from lastgood.workspace.running.leftovers import keep_leftover, keep_start
from lastgood.workspace.running.lines import Spoken
from lastgood.workspace.running.signals import Interrupted, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.adapters.outputs import Output
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.effect import Effect, EffectState
    from lastgood.model.verdict import CheckReport, Ran
    from lastgood.model.workplan import PlannedTask
    from lastgood.ports.command import Commands
    from lastgood.workspace.running.stage import Stage

_FOREVER = float("inf")
_SIGNALLED = 128
_NOT_FOUND = 127
# How many processes that a command left running are named.
_LEFT_TOLD = 5


class Ended(Value):
    """How an attempt ended: ``reason`` says why it failed, None if it did not.

    ``unknown`` means that nobody can say whether its command had its effect.
    """

    effect: Effect
    reason: str | None = None
    unknown: bool = False


class Attempt:
    """An attempt of a task under way; ``effect`` is its record."""

    def __init__(self, stage: Stage, task: PlannedTask) -> None:
        self._stage = stage
        self._task = task
        self._log: Output | None = None
        self._began = stage.hands.monotonic()
        self._lines = Spoken(self._line, monotonic=stage.hands.monotonic)
        self._effect: Effect | None = None

    @property
    def effect(self) -> Effect:
        """The record of the attempt; it has one once it began."""
        assert self._effect is not None
        return self._effect

    def carry_out(self) -> Ended:
        """Run the command, and if that ends well its check; `Interrupted` if the run is to end."""
        self._begin()
        try:
            return self._carried_out()
        finally:
            self._close()

    def check_again(self, effect: Effect) -> Ended:
        """Make the check alone of an attempt whose command ended well before the run was interrupted."""
        self._effect = effect
        self._log = self._stage.outputs.open(f"{self._task.id} check", effect.attempt)
        try:
            return self._checked()
        finally:
            self._close()

    def _carried_out(self) -> Ended:
        ran = self._run()
        if ran.ending == "interrupted":
            raise Interrupted(ran.code)
        self._stage.exit_code = _exit_code(ran)
        reason = _fault(ran, timeout=self._task.timeout) or self._own_word()
        if reason is not None:
            unknown = self._task.irreversible and ran.ending in {"killed", "stopped"}
            return self._failed(reason, ran=ran, unknown=unknown)
        if self._task.check is None:
            return self._done(None)
        self._effect = self._stage.hands.command_ended(self.effect)
        return self._checked()

    def _begin(self) -> None:
        stage, task = self._stage, self._task
        start = keep_start(stage, task)
        begun = stage.hands.attempt_begins(task.id, irreversible=task.irreversible, start=start)
        self._effect = begun.effect
        self._log = stage.outputs.open(task.id, begun.effect.attempt)
        stage.telling.changed(
            "task-started",
            task=task.id,
            sprint=task.sprint,
            attempt=begun.effect.attempt,
            checkpoint=start,
        )

    def _run(self) -> Ran:
        stage, task = self._stage, self._task
        try:
            ran = stage.commands.attend(
                task.run,
                directory=stage.folder(task),
                variables=stage.variables(task, attempt=self.effect.attempt),
                timeout=task.timeout,
                output=self._written,
                tick=lambda: stage.tick(task),
                asked=lambda: stage.asked(task),
            )
        finally:
            self._quiet()
        for one in ran.left[:_LEFT_TOLD]:
            command = printable(one.command) or "?"
            stage.telling.notice(
                f"it left process {one.pid} running ({command}), which was ended", task=task.id
            )
        if len(ran.left) > _LEFT_TOLD:
            stage.telling.notice(
                f"it left {len(ran.left) - _LEFT_TOLD} more processes running, which were ended", task=task.id
            )
        return ran

    def _checked(self) -> Ended:
        stage, task = self._stage, self._task
        assert task.check is not None
        number = self.effect.attempt
        saved = stage.hands.keep(
            "auto", f"task {task.id} before its check", task=task.id, metadata={ATTEMPT: str(number)}
        )
        stage.telling.saved(saved, task=task.id)
        stage.telling.tell("check-started", task=task.id, attempt=number, checkpoint=saved.checkpoint.id)
        left = _FOREVER
        if task.timeout is not None:
            left = max(task.timeout - (stage.hands.monotonic() - self._began), 0.001)
        verdict = stage.hands.judge(
            saved.checkpoint, task.check, commands=_Checking(self, stage.commands), timeout=left
        )
        stage.signals.heed()
        if verdict.check.exit_code != 0:
            return self._failed(f"its check failed: {_check_fault(verdict)}", ran=None, verdict=verdict)
        if verdict.good is None:
            stage.telling.notice(
                f"its check passed, but says nothing of the checkpoint: {verdict.check.reason}", task=task.id
            )
        return self._done(verdict)

    def attend_check(
        self, words: Sequence[str], *, directory: bytes, variables: Mapping[str, str], timeout: float
    ) -> Ran:
        """Run the check's command as the task's own, where that runs."""
        stage, task = self._stage, self._task
        try:
            return stage.commands.attend(
                tuple(words),
                directory=stage.folder(task) if directory == stage.hands.root else directory,
                variables={**variables, **stage.variables(task, attempt=self.effect.attempt)},
                timeout=None if timeout == _FOREVER else timeout,
                output=self._output,
                tick=lambda: stage.tick(task),
                asked=lambda: stage.asked(task),
            )
        finally:
            self._quiet()

    def _done(self, verdict: CheckReport | None) -> Ended:
        stage, task = self._stage, self._task
        report = stage.hands.attempt_done(task.id)
        checkpoint = self._judged(report.saved.checkpoint if report.saved else None, verdict)
        if checkpoint is not None:
            stage.telling.checkpoint(checkpoint, task=task.id)
            stage.rested()
        stage.telling.changed(
            "task-done",
            task=task.id,
            sprint=task.sprint,
            attempt=self.effect.attempt,
            checkpoint=None if checkpoint is None else checkpoint.id,
            good=None if checkpoint is None else checkpoint.good,
            exit_code=stage.exit_code,
            seconds=self._seconds(),
        )
        return Ended(effect=self.effect)

    def _failed(
        self, reason: str, *, ran: Ran | None, unknown: bool = False, verdict: CheckReport | None = None
    ) -> Ended:
        """Record the failure, and keep what the attempt left (before anything of it is taken back)."""
        stage, task = self._stage, self._task
        state: EffectState = "unknown" if unknown else "failed"
        stage.hands.attempt_failed(task.id, state=state)
        left = keep_leftover(stage, task, self.effect, reason=reason)
        checkpoint = self._judged(left, verdict)
        stage.telling.changed(
            "attempt-failed",
            task=task.id,
            attempt=self.effect.attempt,
            checkpoint=None if checkpoint is None else checkpoint.id,
            exit_code=None if ran is None else _exit_code(ran),
            seconds=self._seconds(),
            reason=reason,
        )
        return Ended(effect=self.effect, reason=reason, unknown=unknown)

    def _judged(self, checkpoint: Checkpoint | None, verdict: CheckReport | None) -> Checkpoint | None:
        if checkpoint is None or verdict is None:
            return checkpoint
        return self._stage.hands.pass_on(verdict, checkpoint)

    def _own_word(self) -> str | None:
        """Return why the task failed by its own word, though its command ended well."""
        found = task_of(self._stage.hands.stands(), self._task.id)
        said = found is not None and found.state == "failed"
        return "it said itself that it failed" if said else None

    def _written(self, part: bytes) -> None:
        self._stage.telling.pass_on(part)
        self._output(part)

    def _output(self, part: bytes) -> None:
        assert self._log is not None
        self._log.write(part)
        self._lines.write(part)

    def _line(self, line: str) -> None:
        self._stage.telling.tell("output", task=self._task.id, attempt=self.effect.attempt, line=line)

    def _quiet(self) -> None:
        self._lines.end()
        if self._lines.untold and not self._stage.telling.passes_on:
            assert self._log is not None
            kept = printable(to_text(self._log.path))
            self._stage.telling.notice(
                f"{self._lines.untold:,} lines came too fast to be told one by one; they are in {kept}",
                task=self._task.id,
            )
            self._lines.untold = 0

    def _close(self) -> None:
        assert self._log is not None
        self._log.close()
        if self._log.fault is not None:
            self._stage.telling.notice(
                f"not all of its output could be kept: {self._log.fault}", task=self._task.id
            )

    def _seconds(self) -> float:
        return round(self._stage.hands.monotonic() - self._began, 3)


class _Checking:
    """Runs a check as a part of its attempt."""

    def __init__(self, attempt: Attempt, commands: Commands) -> None:
        self.run = attempt.attend_check
        self.attend = commands.attend


def _exit_code(ran: Ran) -> int | None:
    """Return what a shell would say: 128 and the number of the signal, 127 for what could not start."""
    codes = {"exited": ran.code, "killed": _SIGNALLED + ran.code, "unstarted": _NOT_FOUND}
    return codes.get(ran.ending)


def _fault(ran: Ran, *, timeout: float | None) -> str | None:
    """Return why a command did not end well, None if it did."""
    if ran.ending == "exited":
        return None if ran.code == 0 else f"it ended with exit code {ran.code}"
    if ran.ending == "killed":
        return f"it was killed by {name_of(ran.code)}" + (f" ({ran.fault})" if ran.fault else "")
    if ran.ending == "stopped":
        return f"it was stopped after {timeout:g} s"
    return f"it could not be started: {ran.fault}"


def _check_fault(verdict: CheckReport) -> str:
    check = verdict.check
    if check.exit_code is not None:
        return f"exit code {check.exit_code}"
    return check.reason or "it did not end by itself"
