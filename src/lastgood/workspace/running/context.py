"""What every part of a run works with."""

from __future__ import annotations

import os
import signal
import time

from lastgood.cancellation import CancelWhen, cancel_check
from lastgood.check import signal_name
from lastgood.errors import Busy, LastgoodError, Storage
from lastgood.model.checkpoint import Actor
from lastgood.model.run import RunEvent
from lastgood.paths import to_bytes, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType, TracebackType
    from typing import Self

    from lastgood.command import GuardedCommands
    from lastgood.conversation.hosts import FoundConversation
    from lastgood.conversation.search import ConversationSearch
    from lastgood.literals import RunEventType
    from lastgood.model.calls import RunObserver
    from lastgood.model.checkpoint import Checkpoint, SaveReport
    from lastgood.model.run import PlannedTask, WorkPlan
    from lastgood.model.session import Task
    from lastgood.workspace.running.given import StandardInput
    from lastgood.workspace.running.workspace import RunWorkspace


# --- Whose the changes are that are made while a task runs ---

# The programs of agents, as they are started.
_AGENTS = frozenset(
    {"aider", "claude", "cline", "codex", "copilot", "crush", "cursor-agent", "gemini", "goose", "opencode"}
)


def worker_of(task: PlannedTask) -> Actor:
    """Return who does a task's work: the program that it starts, an agent if it is known to be one."""
    words = task.run.split() if isinstance(task.run, str) else list(task.run)
    program = next((word for word in words if "=" not in word), "")
    name = program.strip("'\"").rpartition("/")[2]
    return Actor(type="agent" if name in _AGENTS else "tool", name=name or None, call=task.id)


# --- Signals that ask this process to end, kept until its work has come to an orderly stop ---

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# The same one so soon after itself (seconds) is no second word: what sends it to a process and to the
# group of that, as timeout(1) does, sends it twice.
_ECHO = 0.1
# Who says it so often means it, whatever is under way.
_ENOUGH = 3


class CaughtSignals:
    """Catches what asks this process to end while a block lasts, and tells what came so far.

    What is ignored stays ignored (``nohup``), and what the program has its own way with stays so.
    Outside the main thread nothing can be caught. Call it to have the numbers in the order in which
    they came. The third of the same number ends this process at once.
    """

    def __init__(self) -> None:
        self._came: tuple[int, ...] = ()
        self._at: dict[int, float] = {}
        self._taken: list[int] = []

    def __call__(self) -> tuple[int, ...]:
        """Return the signals that came so far."""
        return self._came

    def __enter__(self) -> Self:
        for number in ENDING:
            if signal.getsignal(number) not in {signal.SIG_DFL, signal.default_int_handler}:
                continue
            try:
                signal.signal(number, self._catch)
            except ValueError:  # not the main thread
                break
            self._taken.append(number)
        return self

    def __exit__(self, *_error: object) -> None:
        while self._taken:
            number = self._taken.pop()
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)

    def _catch(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._at.get(number, -_ECHO) < _ECHO:
            return
        self._at[number] = now
        self._came += (number,)
        if self._came.count(number) >= _ENOUGH:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


# --- What asks a run to end: signals, or a caller in another thread; heeded where nothing is half done ---


class Interrupted(Exception):
    """The run was asked to end; ``signal`` is the number of the first signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


class Signals:
    """While entered, what asks for an end is written down, and interrupts nothing by itself.

    A call that its caller gives up (`lastgood.cancellation`) counts as one that got SIGINT. The
    third signal of the same number ends this process, whatever it does.
    """

    _outlast = False

    @classmethod
    def outlast(cls) -> None:
        """Go on so until the process ends, which has nothing to do but to say what came of its run."""
        cls._outlast = True

    def __init__(self) -> None:
        self._caught = CaughtSignals()
        self._caller: Callable[[], bool] | None = None
        self._given_up = False
        self._heard: list[int] = []
        self._counted = 0
        self._deaf = CancelWhen(_never)

    def __enter__(self) -> Self:
        self._caller = cancel_check()
        self._deaf.__enter__()
        self._caught.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._outlast:
            self._caught.__exit__(kind, error, trace)
        self._deaf.__exit__(kind, error, trace)

    def asked(self) -> Sequence[int]:
        """Return the signals that came so far, in their order."""
        came = self._caught()
        self._heard += came[self._counted :]
        self._counted = len(came)
        if not self._given_up and self._caller is not None and self._caller():
            self._given_up = True
            self._heard.append(signal.SIGINT)
        return self._heard

    def check(self) -> None:
        """Raise `Interrupted` if the run was asked to end."""
        came = self.asked()
        if came:
            raise Interrupted(came[0])


def _never() -> bool:
    return False


# --- What every part of a run works with ---

# How often a run looks whether it still holds its workspace, in seconds.
BEAT = 30.0
# A task that ends so soon, in seconds, needs no word on it.
_AT_ONCE = 0.5
# How soon it is tried again to keep a conversation, in seconds: after twice as long each time.
_RETRY, _RETRY_MOST = 2.0, 60.0


class RunContext:
    """What every part of one run works with: plan, workspace, events, signals."""

    def __init__(
        self,
        workspace: RunWorkspace,
        plan: WorkPlan,
        *,
        events: RunEvents,
        signals: Signals,
        commands: GuardedCommands,
        outputs: bytes,
        search: ConversationSearch,
        input: StandardInput,
    ) -> None:
        self.workspace = workspace
        self.plan = plan
        self.events = events
        self.signals = signals
        self.commands = commands
        self.outputs = outputs
        self._search = search
        self._doubts: set[str] = set()
        self._failed: dict[str | None, tuple[float, float]] = {}
        self._follows = False
        self._transcript = workspace.kept_transcript
        self.input = input
        self.exit_code: int | None = None
        self._due = self._next()
        self._beats = workspace.monotonic() + BEAT
        self._heard_at: float | None = None
        self._said = False

    def asked(self, task: PlannedTask) -> Sequence[int]:
        """Return the signals that ask the run to end; that a task takes its time to do so is told."""
        heard = self.signals.asked()
        if heard and not self._said:
            now = self.workspace.monotonic()
            self._heard_at = now if self._heard_at is None else self._heard_at
            self._said = now - self._heard_at > _AT_ONCE
            if self._said:
                by, again = signal_name(heard[0]), _again(heard[0])
                self.events.notice(
                    f"told to end by {by}: still stopping; {again} to end it now", task=task.id
                )
        return heard

    def variables(self, task: PlannedTask, *, attempt: int) -> Mapping[str, str]:
        """Return what a task's commands find in their environment beside that of the caller.

        The store is named too: what works within the session has to find it.
        """
        return {
            **task.env,
            "LASTGOOD_STORE": self.workspace.store,
            "LASTGOOD_SESSION": self.workspace.own,
            "LASTGOOD_TASK": task.id,
            "LASTGOOD_ATTEMPT": str(attempt),
        }

    def folder(self, task: PlannedTask) -> bytes:
        """Return where a task's commands run."""
        return (
            self.workspace.root if task.cwd is None else os.path.join(self.workspace.root, to_bytes(task.cwd))
        )

    def rested(self) -> None:
        """Begin the interval to the next checkpoint anew: one was made a moment ago."""
        self._due = self._next()

    def tick(self, task: PlannedTask) -> None:
        """Make a checkpoint if one is due, and give a sign of life.

        A failure of the checkpoint is told, and does the task no harm. Raises `Conflict` if the session
        has lost its lease: whoever took over must not find the task at work.
        """
        now = self.workspace.monotonic()
        if now >= self._beats:
            self._beats = now + BEAT
            self._beat()
        if self._follows:
            self.follow_conversation(task)
        if now < self._due:
            return
        self.rested()
        if not self.workspace.settings.auto.wants("interval"):
            return
        try:
            report = self.workspace.keep(
                "auto", f"while task {task.id} runs", task=task.id, actor=worker_of(task)
            )
        except LastgoodError as error:
            self.events.notice(f"no checkpoint could be made: {message_of(error)}", task=task.id)
            return
        self.events.saved(report, task=task.id)

    def expect_conversation(self, task: PlannedTask) -> None:
        """Get ready for a task's conversation: the file that the plan names, or one to be looked for."""
        self._follows = True
        if task.transcript is None:
            self._search.renew()
        else:
            path = os.path.join(to_text(self.workspace.root), os.path.expanduser(task.transcript))
            self.workspace.keep_conversation(path)
            self._transcript = path

    def follow_conversation(self, task: PlannedTask, *, over: bool = False) -> None:
        """Have checkpoints hold the conversation of the host that the task runs, as soon as there is one.

        When its command is ``over`` that is the last look: what its check runs is not the task's agent.
        """
        self._follows = self._follows and not over
        looked = None if task.transcript is not None else self._search.look(over=over)
        if looked is None:
            return
        if looked.doubt is not None:
            self._say_once(looked.doubt, task)
        found = looked.conversation
        wanted = self._transcript if looked.withdrawn is None else None
        wanted = wanted if found is None else found.transcript
        after, wait = self._failed.get(wanted, (0.0, _RETRY))
        now = self.workspace.monotonic()
        if wanted == self._transcript or (now < after and not over):
            return
        try:
            self._keep_other(found, task)
        except LastgoodError as error:
            self._failed[wanted] = (now + wait, min(wait * 2, _RETRY_MOST))
            self._say_once("the conversation is not kept: " + message_of(error), task)

    def _keep_other(self, found: FoundConversation | None, task: PlannedTask) -> None:
        if found is None:  # nobody can tell any more whose it is
            self.workspace.keep_conversation(None)
        else:
            if self.workspace.said_more():  # in the one before
                self.events.saved(
                    self.workspace.keep(
                        "auto", f"while task {task.id} runs", task=task.id, actor=worker_of(task)
                    )
                )
            self.workspace.keep_conversation(found.transcript, host=found.host, name=found.session)
        self._transcript = None if found is None else found.transcript

    def _say_once(self, reason: str, task: PlannedTask) -> None:
        if reason not in self._doubts:
            self._doubts.add(reason)
            self.events.notice(reason, task=task.id)

    def _beat(self) -> None:
        try:
            self.workspace.verbs.session_heartbeat(self.workspace.own)
        except (Busy, Storage) as error:
            self.events.notice(f"no sign of life could be given: {message_of(error)}")

    def _next(self) -> float:
        return self.workspace.monotonic() + self.workspace.settings.auto.interval


def _again(number: int) -> str:
    return "press Ctrl-C again" if number == signal.SIGINT else f"send {signal_name(number)} again"


def message_of(error: LastgoodError) -> str:
    """Return an error with what to do about it."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


# --- Tells an observer of a run what happens; its faults harm nothing ---


class RunEvents:
    """The voice of one run; ``last`` is the newest checkpoint that it made or found equal."""

    def __init__(
        self,
        workspace: RunWorkspace,
        plan: WorkPlan,
        *,
        observer: RunObserver | None,
        output: Callable[[bytes], object] | None = None,
    ) -> None:
        self._workspace = workspace
        self._plan = plan
        self._observer = observer
        self._output = output
        self.last: str | None = None
        self._recorded: Sequence[Task] | None = None
        self._tasks: tuple[Task, ...] = ()

    def tell(self, type: RunEventType, **fields: object) -> None:
        """Tell of one thing."""
        if self._observer is None:
            return
        event = RunEvent(type=type, at=self._workspace.now(), session=self._workspace.own).replace(**fields)
        try:  # noqa: SIM105 - contextlib costs start-up time
            self._observer(event)
        except Exception:  # noqa: BLE001, S110 - an observer's fault never harms the run
            pass

    @property
    def passes_on(self) -> bool:
        """Whether somebody gets all output as it is."""
        return self._output is not None

    def pass_on(self, part: bytes) -> None:
        """Give on what a task's command wrote, as it is."""
        if self._output is None:
            return
        try:  # noqa: SIM105 - contextlib costs start-up time
            self._output(part)
        except Exception:  # noqa: BLE001, S110 - the same
            pass

    def changed(self, type: RunEventType, **fields: object) -> None:
        """Tell of something that changed how the tasks stand."""
        if self._observer is not None:
            self.tell(type, tasks=self.tasks(), **fields)

    def saved(self, report: SaveReport | None, **fields: object) -> None:
        """Tell of a checkpoint, if one was made."""
        if report is None:
            return
        self.last = report.checkpoint.id
        if report.created:
            self.checkpoint(report.checkpoint, **fields)

    def checkpoint(self, checkpoint: Checkpoint, **fields: object) -> None:
        """Tell of a checkpoint."""
        self.last = checkpoint.id
        self.tell(
            "checkpoint", checkpoint=checkpoint.id, kind=checkpoint.kind, good=checkpoint.good, **fields
        )

    def notice(self, reason: str, **fields: object) -> None:
        """Tell something that a person should know."""
        self.tell("noticed", reason=reason, **fields)

    def tasks(self) -> tuple[Task, ...]:
        """Return how every task of the plan stands."""
        from lastgood.model.session import Task

        recorded = self._workspace.progress.tasks
        if recorded != self._recorded:
            known = {task.id: task for task in recorded}
            self._recorded = recorded
            self._tasks = tuple([known.get(task.id) or Task(id=task.id) for task in self._plan.tasks])
        return self._tasks
