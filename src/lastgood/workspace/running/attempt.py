"""One attempt of a task: recorded, run, checked, recorded again (rules P3, P6)."""

from __future__ import annotations

import os
from signal import SIGHUP, SIGINT, SIGQUIT

from lastgood.attribution import UNKNOWN
from lastgood.check import signal_name
from lastgood.errors import Conflict, LastgoodError, count
from lastgood.ids import short
from lastgood.paths import printable, to_bytes, to_text, within
from lastgood.root import gone, is_gone
from lastgood.sessions import progress, session
from lastgood.tasks import ATTEMPT
from lastgood.tasks import task as task_of
from lastgood.terminal import is_hung_up
from lastgood.value import Value
from lastgood.workspace.running.context import Interrupted, message_of, worker_of
from lastgood.workspace.running.given import STDIN
from lastgood.workspace.running.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.command import Given
    from lastgood.literals import EffectState
    from lastgood.model.checkpoint import Checkpoint, CheckReport, CommandResult
    from lastgood.model.report import HeadMoved, RestoreReport
    from lastgood.model.run import Command, PlannedTask
    from lastgood.model.session import Effect
    from lastgood.workspace.running.context import RunContext


# --- What an attempt left: kept before anything of it is taken back, and taken back (rule T17) ---

# Somebody may save a file in the very moment in which it is merged.
_TRIES = 3
_CAUSES_SHOWN = 3
_INTERRUPTED = "it was interrupted"


def keep_start(context: RunContext, task: PlannedTask) -> str | None:
    """Return the checkpoint of what is there before an attempt, made unless an equal one is there.

    None where the settings want none and nothing is going to be taken back to it.
    """
    risky = task.risky or task.irreversible
    if task.on_failure != "rollback" and not context.workspace.settings.auto.wants(
        "risky" if risky else "task"
    ):
        return None
    report = context.workspace.keep(
        "risky" if risky else "auto",
        f"before task {task.id}",
        task=task.id,
        moment="before",
        actor=UNKNOWN,
    )
    context.events.saved(report, task=task.id)
    context.rested()
    return report.checkpoint.id


def save_leftover(
    context: RunContext,
    task: PlannedTask,
    attempt: Effect,
    *,
    reason: str,
    replaces: Checkpoint | None = None,
) -> Checkpoint | None:
    """Return a new checkpoint of what an attempt left.

    None where the settings want none and nothing is going to be taken back.
    """
    if task.on_failure != "rollback" and not context.workspace.settings.auto.wants("error"):
        return None
    workspace, said = context.workspace, f"Task {task.id} failed: {reason}"
    command = session.command_of(workspace.context, workspace.own) if context.plan.command else None
    report = workspace.keep(
        "error",
        said if command is None else session.command_words("after", f"{command} ({reason})"),
        task=task.id,
        moment="after",
        metadata={ATTEMPT: str(attempt.attempt)},
        replaces=replaces,
        # Of one that nobody saw end nobody knows who was at work since.
        actor=UNKNOWN if reason == _INTERRUPTED else worker_of(task),
    )
    context.events.saved(report, task=task.id)
    context.rested()
    return report.checkpoint


def keep_once(context: RunContext, task: PlannedTask, attempt: Effect) -> Checkpoint:
    """Return the checkpoint of what an attempt left of which nobody saw the end, made unless it is there."""
    left = progress.left_by(context.workspace.context, attempt) or save_leftover(
        context, task, attempt, reason=_INTERRUPTED
    )
    assert left is not None
    return left


def take_back(context: RunContext, task: PlannedTask, attempt: Effect) -> str | None:
    """Take the files back to where an attempt began; return why that could not be done, None if it was.

    What changed since the attempt ended is somebody else's, and stays. What the attempt left is in a
    checkpoint before anything is touched. Safe to be repeated: what was taken back is not again.
    """
    workspace = context.workspace
    try:
        left = progress.left_by(workspace.context, attempt)
        before = progress.taken_back(workspace.context, attempt, left)
        if left is None and before is not None:
            return None  # somebody deleted the checkpoint of what it left since
        if left is None and not workspace.is_newest(attempt):
            context.events.notice(
                "what it left is not taken back: it cannot be told from later work", task=task.id
            )
            return None
        if left is None:
            left = save_leftover(context, task, attempt, reason=_INTERRUPTED)
            assert left is not None
        start = progress.kept_start(workspace.context, attempt)
        limit = _beside_the_plan(context, start, left) if attempt.state == "unknown" else ()
        if before is not None:
            limit = _missed(context, start, left, before=before, limit=limit)
        if limit is None:
            return None
        report = _merged(context, start, left, limit)
    except LastgoodError as error:
        return f"the files of task {task.id} could not be taken back: {message_of(error)}"
    _name_gaps(context, task, start, left)
    _name_repositories(context, task, start, left)
    return _attempt_report(context, task, report, left=left)


def _name_gaps(context: RunContext, task: PlannedTask, start: Checkpoint, left: Checkpoint) -> None:
    """Name what an attempt made or took away that no checkpoint holds: it stays as it is (rule T4)."""
    before, after = ({gap.path: gap.reason for gap in one.gaps} for one in (start, left))
    changed = sorted(before.keys() ^ after.keys())
    if changed:
        reasons = ", ".join(sorted({(before | after)[path] for path in changed}))
        context.events.notice(
            f"not taken back, as no checkpoint holds it: {reasons}", task=task.id, paths=tuple(changed)
        )


def _name_repositories(context: RunContext, task: PlannedTask, start: Checkpoint, left: Checkpoint) -> None:
    """Name the nested repositories that an attempt took away, and those whose HEAD it moved (rule T9)."""
    before, after = ((one.manifest.git and one.manifest.git.nested) or () for one in (start, left))
    heads = {one.path: one.head for one in after}
    there = {
        one.path for one in before if os.path.lexists(b"/".join((context.workspace.root, one.path, b".git")))
    }
    gone = tuple(sorted(one.path for one in before if one.path not in there))
    if gone:
        context.events.notice(
            "a nested repository is gone, and no checkpoint holds it", task=task.id, paths=gone
        )
    moved = tuple(one.path for one in before if one.path in there and heads.get(one.path) != one.head)
    if moved:
        context.events.notice(
            "the HEAD of a nested repository is not taken back", task=task.id, paths=tuple(sorted(moved))
        )


def _beside_the_plan(context: RunContext, start: Checkpoint, left: Checkpoint) -> Sequence[bytes] | None:
    """Return what to take back of an attempt that nobody saw the end of: nothing means all, None nothing.

    The plan itself may have been edited since the crash, to go on with what it says now.
    """
    source = None if context.plan.source is None else to_bytes(context.plan.source)
    if source is None or not within(source, context.workspace.root):
        return ()
    plan = source.removeprefix(context.workspace.root + b"/")
    changed = _changed(context, start, left)
    if plan not in changed:
        return ()
    return sorted(changed - {plan}) or None


def _missed(
    context: RunContext,
    start: Checkpoint,
    left: Checkpoint,
    *,
    before: frozenset[bytes],
    limit: Sequence[bytes] | None,
) -> Sequence[bytes] | None:
    """Return what could not be taken back when that was tried: it is still as the attempt left it."""
    if limit is None:
        return None
    missed = _changed(context, start, left) - before
    if limit:
        missed &= set(limit)
    if missed:
        missed -= _changed(context, left)
    return sorted(missed) or None


def _changed(context: RunContext, one: Checkpoint, other: Checkpoint | None = None) -> set[bytes]:
    """Return the paths of files that differ between two checkpoints, or one and the workspace."""
    files = context.workspace.diff(one.id, None if other is None else other.id, patch=False).files
    return {path for file in files for path in (file.path, file.old_path) if path is not None}


def _merged(
    context: RunContext, start: Checkpoint, left: Checkpoint, paths: Sequence[bytes]
) -> RestoreReport:
    tries = _TRIES
    while True:
        try:
            return context.workspace.verbs.restore(
                start.id, paths=paths, only=["files"], merge=True, base=left.id
            )
        except Conflict as error:
            tries -= 1
            if not tries or not error.details.get("paths"):
                raise


def _attempt_report(
    context: RunContext, task: PlannedTask, report: RestoreReport, *, left: Checkpoint
) -> str | None:
    back = tuple(one.path for one in report.outcomes if one.result in {"restored", "removed"})
    # What a person edited while the task ran cannot be told from what the task did.
    yours = f"an edit of yours among them comes back with: lastgood restore {short(left.id)} -- PATH"
    context.events.tell(
        "rolled-back", task=task.id, checkpoint=left.id, paths=back, reason=yours if back else None
    )
    failed = [one for one in report.outcomes if one.result == "failed"]
    kept = [one for one in report.outcomes if one.result in {"kept", "skipped"}]
    if kept:
        reasons = ", ".join(sorted({one.reason or "?" for one in kept})[:_CAUSES_SHOWN])
        context.events.notice(
            f"not taken back: {reasons}", task=task.id, paths=tuple(one.path for one in kept)
        )
    for effect in report.irreversible:
        context.events.notice(f"no restore takes back {effect.name}: it is irreversible", task=task.id)
    if report.head_moved is not None:
        context.events.notice(_head_words(report.head_moved), task=task.id)
    if not failed:
        return None
    context.events.notice(
        f"could not be taken back: {failed[0].reason}", task=task.id, paths=tuple(one.path for one in failed)
    )
    return (
        f"{count(len(failed), 'path')} of task {task.id} could not be taken back: {failed[0].reason}"
        f" (what the attempt left is in {short(left.id)})"
    )


def _head_words(moved: HeadMoved) -> str:
    """Say that the project's HEAD stays where an attempt left it (rule T9)."""
    to = "no commit" if moved.to is None else moved.to[:12]
    by = "" if moved.commits is None else f", {count(moved.commits, 'commit')} on"
    return f"the project's HEAD is not taken back: it stands at {to}{by}"


# --- Lines out of output that comes in parts, in bounded memory and time whatever comes ---

# A longer line is told in pieces of this many bytes.
LINE_LIMIT = 4096


class Lines:
    """Puts lines together; a carriage return ends one too, so that a progress bar is told as it moves."""

    def __init__(self) -> None:
        self._begun = b""

    def of(self, part: bytes, *, most: int) -> tuple[list[str], int]:
        """Return the lines that a part completes, without their ends, and how many more there were.

        Empty ones are left out. Of more than ``most`` it is the first ones and the last: a flood is
        counted, and not taken apart. ``most`` is at least 1.
        """
        text, _, rest = (self._begun + part.replace(b"\r", b"\n")).rpartition(b"\n")
        *early, self._begun = _pieces(rest) or [b""]
        text = _without_empty(text)
        amount = text.count(b"\n") + 1 if text else 0
        flood = amount > most
        known = text.split(b"\n", most)[:most] if text else []
        pieces = [piece for line in known for piece in _pieces(line)] + early
        amount = amount + len(early) if flood else len(pieces)
        if amount <= most:
            return [str(piece, "utf-8", "replace") for piece in pieces], 0
        if flood and not early:
            pieces.append(_pieces(text[text.rfind(b"\n") + 1 :])[-1])
        pieces = [*pieces[: most - 1], pieces[-1]]
        return [str(piece, "utf-8", "replace") for piece in pieces], amount - most

    def rest(self) -> list[str]:
        """Return the line that has no end, if any; the output is over."""
        begun, self._begun = self._begun, b""
        return [str(begun, "utf-8", "replace")] if begun else []


def _without_empty(text: bytes) -> bytes:
    while b"\n\n" in text:
        text = text.replace(b"\n\n", b"\n")
    return text.strip(b"\n")


def _pieces(line: bytes) -> list[bytes]:
    return [line[at : at + LINE_LIMIT] for at in range(0, len(line), LINE_LIMIT)]


# --- The output of a task, told line by line, as far as anybody can follow ---

# Beyond so many lines a second only the last one of each part is told.
LINES_A_SECOND = 1000


class OutputLines:
    """Takes output in parts and tells lines; ``untold`` counts those that came too fast."""

    def __init__(self, tell: Callable[[str], None], *, monotonic: Callable[[], float]) -> None:
        self._tell = tell
        self._monotonic = monotonic
        self._lines = Lines()
        self._second = 0
        self._told = 0
        self.untold: int = 0

    def write(self, part: bytes) -> None:
        """Take what was written."""
        lines, untold = self._lines.of(part, most=max(self._room(), 1))
        self.untold += untold
        self._told += len(lines)
        for line in lines:
            self._tell(line)

    def end(self) -> None:
        """Tell the line that has no end."""
        for line in self._lines.rest():
            self._tell(line)

    def _room(self) -> int:
        second = int(self._monotonic())
        if second != self._second:
            self._second, self._told = second, 0
        return max(LINES_A_SECOND - self._told, 0)


# --- One attempt of a task: recorded, run, checked, recorded again (rules P3, P6) ---

_FOREVER = float("inf")
_SIGNALLED = 128
_NOT_FOUND = 127
# How many processes that a command left running are named.
_LEFT_TOLD = 5
_NOT_RECORDED = b"[it had the terminal: what it printed is not recorded]\n"


class KeyPressed(Interrupted):
    """A key of the terminal that a command had ended it; only that has got the signal."""


class Ended(Value):
    """How an attempt ended: ``reason`` says why it failed, None if it did not.

    ``unknown`` means that nobody can say whether its command had its effect.
    """

    effect: Effect
    reason: str | None = None
    unknown: bool = False


class Attempt:
    """An attempt of a task under way, which runs its own check; ``effect`` is its record."""

    def __init__(self, context: RunContext, task: PlannedTask) -> None:
        self._context = context
        self._task = task
        self._lent = context.input.is_lent_to(task)
        self._log: Output | None = None
        self._began = context.workspace.monotonic()
        self._lines = OutputLines(self._line, monotonic=context.workspace.monotonic)
        self._effect: Effect | None = None
        self._checking: Checkpoint | None = None

    @property
    def effect(self) -> Effect:
        """The record of the attempt; it has one once it began."""
        assert self._effect is not None
        return self._effect

    def carry_out(self) -> Ended:
        """Run the command, and if that ends well its check; `Interrupted` if the run is to end."""
        context, task = self._context, self._task
        context.input.keep_for(task, tell=lambda reason: context.events.notice(reason, task=task.id))
        self._began = context.workspace.monotonic()
        self._begin()
        try:
            return self._carried_out()
        finally:
            self._close()

    def check_again(self, effect: Effect) -> Ended:
        """Make the check alone of an attempt whose command ended well before the run was interrupted."""
        self._effect = effect
        self._log = Output(self._context.outputs, task=f"{self._task.id} check", attempt=effect.attempt)
        try:
            return self._checked()
        finally:
            self._close()

    def _carried_out(self) -> Ended:
        ran = self._run()
        self._demand_workspace()
        if ran.ending == "interrupted":
            raise Interrupted(ran.code)
        if self._lent and not (ran.ending == "exited" and ran.code == 0):
            self._heed_terminal(ran)
        self._context.exit_code = _exit_code(ran)
        reason = _fault(ran, timeout=self._task.timeout) or self._own_word()
        if reason is not None:
            unknown = self._task.irreversible and ran.ending in {"killed", "stopped"}
            return self._failed(reason, ran=ran, unknown=unknown)
        if self._task.check is None:
            return self._done(None)
        self._effect = session.finish(self._context.workspace.context, self.effect, state="done")
        return self._checked()

    def _heed_terminal(self, ran: CommandResult) -> None:
        """Raise `Interrupted` if a command that had the terminal ended by a key, or with its window."""
        if ran.ending not in {"exited", "killed"}:
            return
        if ran.key in {SIGINT, SIGQUIT}:
            raise KeyPressed(ran.key)
        if ran.key:
            raise Interrupted(ran.key)
        if ran.ending == "killed" and ran.code in {SIGINT, SIGQUIT, SIGHUP}:
            raise Interrupted(ran.code)
        if is_hung_up(STDIN):
            raise Interrupted(SIGHUP)
        self._context.signals.check()

    def _demand_workspace(self) -> None:
        """Record as failed what took the workspace itself away: nothing can be saved of that."""
        workspace = self._context.workspace
        if is_gone(workspace.root):
            workspace.attempt_failed(self._task.id, state="unknown" if self._task.irreversible else "failed")
            raise gone(workspace.root)

    def _begin(self) -> None:
        context, task = self._context, self._task
        start = keep_start(context, task)
        begun = context.workspace.attempt_begins(task.id, irreversible=task.irreversible, start=start)
        self._effect = begun.effect
        self._log = Output(context.outputs, task=task.id, attempt=begun.effect.attempt)
        context.expect_conversation(task)
        if self._lent:
            self._log.write(_NOT_RECORDED)
        context.events.changed(
            "task-started",
            task=task.id,
            sprint=task.sprint,
            attempt=begun.effect.attempt,
            checkpoint=start,
            terminal=self._lent,
        )

    def _run(self) -> CommandResult:
        context, task = self._context, self._task
        ran = self._attend(
            task.run,
            context.folder(task),
            timeout=task.timeout,
            output=self._written,
            given=context.input.given(task),
        )
        context.follow_conversation(task, over=True)
        for one in ran.left[:_LEFT_TOLD]:
            command = printable(one.command) or "?"
            context.events.notice(
                f"it left process {one.pid} running ({command}), which was ended", task=task.id
            )
        if len(ran.left) > _LEFT_TOLD:
            context.events.notice(
                f"it left {len(ran.left) - _LEFT_TOLD} more processes running, which were ended", task=task.id
            )
        return ran

    def _checked(self) -> Ended:
        context, task = self._context, self._task
        assert task.check is not None
        number = self.effect.attempt
        saved = context.workspace.keep(
            "auto",
            f"task {task.id} before its check",
            task=task.id,
            metadata={ATTEMPT: str(number)},
            actor=worker_of(task),
        )
        context.events.saved(saved, task=task.id)
        context.events.tell("check-started", task=task.id, attempt=number, checkpoint=saved.checkpoint.id)
        left = _FOREVER
        if task.timeout is not None:
            left = max(task.timeout - (context.workspace.monotonic() - self._began), 0.001)
        verdict = context.workspace.judge(saved.checkpoint, task.check, commands=self, timeout=left)
        context.signals.check()
        if saved.created and verdict.good is not None:
            self._checking = verdict.checkpoint
        if verdict.check.exit_code != 0:
            return self._failed(f"its check failed: {_check_fault(verdict)}", ran=None, verdict=verdict)
        if verdict.good is None:
            context.events.notice(
                f"its check passed, but says nothing of the checkpoint: {verdict.check.reason}", task=task.id
            )
        return self._done(verdict)

    def run(
        self, words: Sequence[str], *, directory: bytes, variables: Mapping[str, str], timeout: float
    ) -> CommandResult:
        """Run the check's command as the task's own, where that runs."""
        folder = directory
        if directory == self._context.workspace.root:
            folder = self._context.folder(self._task)
        limit = None if timeout == _FOREVER else timeout
        return self._attend(tuple(words), folder, variables=variables, timeout=limit, output=self._output)

    def _attend(
        self,
        command: Command,
        folder: bytes,
        *,
        timeout: float | None,
        output: Callable[[bytes], None],
        variables: Mapping[str, str] = {},
        given: Given | None = None,
    ) -> CommandResult:
        context, task = self._context, self._task
        try:
            return context.commands.attend(
                command,
                directory=folder,
                variables={**variables, **context.variables(task, attempt=self.effect.attempt)},
                timeout=timeout,
                output=output,
                tick=lambda: context.tick(task),
                asked=lambda: context.asked(task),
                given=given,
            )
        finally:
            self._quiet()

    def _done(self, verdict: CheckReport | None) -> Ended:
        context, task = self._context, self._task
        report = context.workspace.attempt_done(task.id, replaces=self._checking, actor=worker_of(task))
        checkpoint = self._judged(report.saved.checkpoint if report.saved else None, verdict)
        if checkpoint is not None:
            context.events.checkpoint(checkpoint, task=task.id)
            context.rested()
        context.events.changed(
            "task-done",
            task=task.id,
            sprint=task.sprint,
            attempt=self.effect.attempt,
            checkpoint=None if checkpoint is None else checkpoint.id,
            good=None if checkpoint is None else checkpoint.good,
            exit_code=context.exit_code,
            seconds=self._seconds(),
        )
        return Ended(effect=self.effect)

    def _failed(
        self,
        reason: str,
        *,
        ran: CommandResult | None,
        unknown: bool = False,
        verdict: CheckReport | None = None,
    ) -> Ended:
        """Record the failure, and keep what the attempt left (before anything of it is taken back)."""
        context, task = self._context, self._task
        state: EffectState = "unknown" if unknown else "failed"
        context.workspace.attempt_failed(task.id, state=state)
        left = save_leftover(context, task, self.effect, reason=reason, replaces=self._checking)
        checkpoint = self._judged(left, verdict)
        context.events.changed(
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
        """Return the checkpoint of an attempt's end with its check's verdict; the one before goes."""
        if checkpoint is None or verdict is None:
            return checkpoint
        judged = self._context.workspace.pass_on(verdict, checkpoint)
        if self._checking is not None:
            self._context.workspace.give_up(self._checking, to=judged)
        return judged

    def _own_word(self) -> str | None:
        """Return why the task failed by its own word, though its command ended well."""
        found = task_of(self._context.workspace.progress, self._task.id)
        said = found is not None and found.state == "failed"
        return "it said itself that it failed" if said else None

    def _written(self, part: bytes) -> None:
        self._context.events.pass_on(part)
        self._output(part)

    def _output(self, part: bytes) -> None:
        assert self._log is not None
        self._log.write(part)
        self._lines.write(part)

    def _line(self, line: str) -> None:
        self._context.events.tell("output", task=self._task.id, attempt=self.effect.attempt, line=line)

    def _quiet(self) -> None:
        self._lines.end()
        if self._lines.untold and not self._context.events.passes_on:
            assert self._log is not None
            kept = printable(to_text(self._log.path))
            self._context.events.notice(
                f"{self._lines.untold:,} lines came too fast to be told one by one; they are in {kept}",
                task=self._task.id,
            )
            self._lines.untold = 0

    def _close(self) -> None:
        assert self._log is not None
        self._log.close()
        if self._log.fault is not None:
            self._context.events.notice(
                f"not all of its output could be kept: {self._log.fault}", task=self._task.id
            )

    def _seconds(self) -> float:
        return round(self._context.workspace.monotonic() - self._began, 3)


def _exit_code(ran: CommandResult) -> int | None:
    """Return what a shell would say: 128 and the number of the signal, 127 for what could not start."""
    codes = {"exited": ran.code, "killed": _SIGNALLED + ran.code, "unstarted": _NOT_FOUND}
    return codes.get(ran.ending)


def _fault(ran: CommandResult, *, timeout: float | None) -> str | None:
    """Return why a command did not end well, None if it did."""
    if ran.ending == "exited":
        return None if ran.code == 0 else f"it ended with exit code {ran.code}"
    if ran.ending == "killed":
        return f"it was killed by {signal_name(ran.code)}" + (f" ({ran.fault})" if ran.fault else "")
    if ran.ending == "stopped":
        return f"it was stopped after {timeout:g} s"
    return f"it could not be started: {ran.fault}"


def _check_fault(verdict: CheckReport) -> str:
    check = verdict.check
    if check.exit_code is not None:
        return f"exit code {check.exit_code}"
    return check.reason or "it did not end by itself"
