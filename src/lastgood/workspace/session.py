"""A session as a ``with`` block: a lease, checkpoints by themselves, and an honest end."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Generic, TypeVar

from lastgood.errors import LastgoodError, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType, TracebackType
    from typing import Self

    from lastgood.literals import Kind
    from lastgood.model.checkpoint import Actor, SaveReport
    from lastgood.model.report import SessionEnded, SessionStarted
    from lastgood.model.session import Effect, Progress, SessionReport, Task
    from lastgood.workspace import Workspace
    from lastgood.workspace.arguments import PathLike
    from lastgood.workspace.step import Once


# --- Which task of a session is at work: in each thread, and in each task of an event loop, its own ---

_AT_WORK: ContextVar[tuple[str, str | None] | None] = ContextVar("lastgood_task", default=None)


def task_of(session: str, *, otherwise: str | None) -> str | None:
    """Return the task that the caller works on in a session, ``otherwise`` if nothing here says so."""
    held = _AT_WORK.get()
    return held[1] if held is not None and held[0] == session else otherwise


def work_on(session: str, task: str | None) -> None:
    """Have the caller, and whatever it starts, work on a task of a session, or on none."""
    _AT_WORK.set((session, task))


# --- A session as a ``with`` block: a lease, checkpoints by themselves, and an honest end ---

AnyWorkspace = TypeVar("AnyWorkspace", bound="Workspace")
SIGTERM_CODE = 128 + signal.SIGTERM
_REASON_LIMIT = 500


class Terminated(SystemExit):
    """SIGTERM arrived within a session; goes on as the exit that the signal would have been."""


class OpenSession(Generic[AnyWorkspace]):
    """A session of this process; made by `Workspace.session`.

    Within the block ``save`` and the other verbs of the workspace belong to it. Left by an interruption
    (Ctrl-C, SIGTERM) or by an error, it makes a checkpoint of that kind and stays incomplete, to be
    continued by `recover`; the exception goes on.
    """

    def __init__(self, workspace: AnyWorkspace, *, start: Callable[[], SessionStarted]) -> None:
        self._workspace = workspace
        self._start = start
        self._inside: AnyWorkspace | None = None
        self._started: SessionStarted | None = None
        self._ended: SessionEnded | None = None
        self._at_work: list[str] = []
        self._kept: BaseException | None = None
        self._armed = False
        self._turns: dict[str, AbstractContextManager[object]] = {}

    def __enter__(self) -> Self:
        if self._started is not None:
            raise Usage("a session is entered once", hint="make another: workspace.session(...)")
        self._started = self._start()
        self._inside = self._workspace.within(self._started.session.id)
        self._arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disarm()
        plain = error is not None and _is_plain_exit(error) and not self.progress().count("running")
        if error is None or plain:
            self._ended = self.workspace.session_end(self.id)
        else:
            self._beside(error, partial(self._break_off, error))

    def __repr__(self) -> str:
        how = "not begun" if self._started is None else repr(self.id)
        return f"{type(self).__name__}({how}{'' if self._ended is None else ', ended'})"

    @property
    def _task(self) -> str | None:
        """The task that the caller works on; a thread that says nothing works on the newest."""
        return task_of(self.id, otherwise=self._at_work[-1] if self._at_work else None)

    @property
    def id(self) -> str:
        """The session's id."""
        return self.started.session.id

    @property
    def started(self) -> SessionStarted:
        """How it began: its first checkpoint, whom it took over from, what died before."""
        if self._started is None:
            raise Usage("the session has not begun", hint="with workspace.session(...) as session:")
        return self._started

    @property
    def ended(self) -> SessionEnded | None:
        """How it ended; None while it lasts."""
        return self._ended

    @property
    def environment(self) -> Mapping[str, str]:
        """What a child process needs in its environment to work in this session."""
        return {"LASTGOOD_SESSION": self.id}

    @property
    def workspace(self) -> AnyWorkspace:
        """The workspace as the session sees it: every verb of it belongs to the session."""
        if self._inside is None:
            raise Usage("the session has not begun", hint="with workspace.session(...) as session:")
        return self._inside

    def save(  # noqa: PLR0913 - what `Workspace.save` takes
        self,
        message: str = "",
        *,
        name: str | None = None,
        kind: Kind = "manual",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool | None = None,
        budget: float | None = None,
        pin: bool = False,
        actor: Actor | None = None,
        task: str | None = None,
        tokens: int | None = None,
        check: str | Sequence[str] | None = None,
        check_timeout: float | None = None,
        messages: Iterable[Mapping[str, object]] | None = None,
        transcript: PathLike | None = None,
        conversation_alone: bool = True,
    ) -> SaveReport:
        """Make a checkpoint within the session, of the task at work; takes what `Workspace.save` takes."""
        return self.workspace.save(
            message,
            name=name,
            kind=kind,
            metadata=metadata,
            allow_empty=allow_empty,
            budget=budget,
            pin=pin,
            actor=actor,
            task=self._task if task is None else task,
            tokens=tokens,
            check=check,
            check_timeout=check_timeout,
            messages=messages,
            transcript=transcript,
            conversation_alone=conversation_alone,
        )

    checkpoint = save

    def show(self) -> SessionReport:
        """Return the session as it stands now."""
        return self.workspace.get_session(self.id)

    def heartbeat(self) -> SessionReport:
        """Tell that the session lives (saves and tasks do so too); `Conflict` if its lease is lost."""
        return self.workspace.session_heartbeat(self.id)

    def progress(
        self,
        *,
        goal: str | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        step: int | None = None,
        steps: int | None = None,
        artifacts: Sequence[PathLike] | None = None,
        state: Mapping[str, object] | None = None,
    ) -> Progress:
        """Say where the work stands, and return how far it has come; without words only the latter."""
        said = (goal, phase, iteration, step, steps, artifacts, state)
        if all(one is None for one in said):
            return self.workspace.progress()
        report = self.workspace.progress_set(
            goal=goal,
            phase=phase,
            iteration=iteration,
            step=step,
            steps=steps,
            artifacts=artifacts,
            state=state,
        )
        return report.progress

    @contextmanager
    def task(self, id: str, *, risky: bool = False, irreversible: bool = False) -> Iterator[Task]:
        """Work on a task: started, then done; or failed, with a checkpoint of kind error.

        After an interruption it is still running, and `recover` reports its effect as unknown.
        """
        started = self.workspace.task_start(id, risky=risky, irreversible=irreversible)
        assert started.task is not None
        outer = self._task
        self._at_work.append(id)
        work_on(self.id, id)
        try:
            yield started.task
        except Exception as error:
            self._beside(error, partial(self._fail, id, error))
            raise
        finally:
            work_on(self.id, outer)
            self._at_work.remove(id)
        self.workspace.task_done(id)

    @contextmanager
    def feature(self, id: str) -> Iterator[None]:
        """Build a feature: complete when the block ends without an exception."""
        self.workspace.feature_start(id)
        yield
        self.workspace.feature_done(id)

    @contextmanager
    def sprint(self, id: str) -> Iterator[None]:
        """Work through a sprint: over when the block ends without an exception."""
        self.workspace.sprint_start(id)
        yield
        self.workspace.sprint_done(id)

    @contextmanager
    def step(self, name: str, *, irreversible: bool = False) -> Iterator[Effect]:
        """Do something that must not be done twice unawares: recorded before and after (rule P6)."""
        effect = self.workspace.step_start(name, task=self._task, irreversible=irreversible)
        try:
            yield effect
        except Exception as error:
            self._beside(error, partial(self.workspace.step_end, effect, state="failed"))
            raise
        except BaseException as error:
            self._beside(error, partial(self.workspace.step_end, effect, state="unknown"))
            raise
        self.workspace.step_end(effect, state="done")

    def once(self, name: str | None = None, *, irreversible: bool = False) -> Once:
        """Make a function a step that is done once in a session, however often the program starts (rule P6).

        The step is recorded before and after. What has ended well is not called again, also in a session
        that goes on after a crash: the recorded result is returned, as it comes out of JSON. ``name`` is
        the function's own unless given; other arguments make another step. One of which nobody saw the
        end is done again, but if ``irreversible`` it raises `Conflict`. `Invalid` for arguments or a
        result that JSON cannot hold.
        """
        from lastgood.workspace.step import Once

        return Once(self.workspace, name, task=self._task, irreversible=irreversible, turns=self._turns)

    def _fail(self, id: str, error: Exception) -> None:
        self.workspace.task_fail(id, reason=reason_of(error))
        self._kept = error

    def _break_off(self, error: BaseException) -> None:
        """Make the checkpoint of an interruption or error, and leave the session to be continued."""
        stopped = _is_interruption(error)
        self._ended = self.workspace.session_break_off(
            self.id,
            reason="interrupted" if stopped else reason_of(error),
            interrupted=stopped,
            save=error is not self._kept,
        )

    def _beside(self, error: BaseException, work: Callable[[], object]) -> None:
        """Record something while an exception goes on, which must not be hidden by a failure of ours."""
        try:
            work()
        except LastgoodError as failure:
            error.add_note(f"lastgood could not record this: {failure.message} ({failure.hint})")

    def _arm(self) -> None:
        """Have SIGTERM end the block as Ctrl-C does, unless the program has its own way with it."""
        try:
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _terminate)
                self._armed = True
        except ValueError:  # outside the main thread there are no signals to be had
            self._armed = False

    def _disarm(self) -> None:
        """Let the next SIGTERM kill, as it did before."""
        if self._armed and signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._armed = False


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated(SIGTERM_CODE)


def _is_interruption(error: BaseException) -> bool:
    """Tell whether somebody put an end to the work from outside: Ctrl-C, SIGTERM, a cancelled task."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_interruption(one) for one in error.exceptions)
    return isinstance(error, (KeyboardInterrupt, Terminated, *_cancellations()))


def _cancellations() -> Iterator[type[BaseException]]:
    """Yield what a cancelled task meets, under the event loops that are in use."""
    for name, cancelled in (("asyncio", "CancelledError"), ("trio", "Cancelled")):
        loop = sys.modules.get(name)
        if loop is not None:
            yield getattr(loop, cancelled)


def _is_plain_exit(error: BaseException) -> bool:
    """Tell whether a program ended itself, saying that all is well."""
    return isinstance(error, SystemExit) and error.code in {None, 0}


def reason_of(error: BaseException) -> str:
    """Return what went wrong, as one short text that every record can hold."""
    try:
        said = error.message if isinstance(error, LastgoodError) else error
        text = f"{type(error).__name__}: {said}"
    except Exception:  # noqa: BLE001 - whatever a foreign exception does when it is asked for words
        text = type(error).__name__
    return text.encode("utf-8", "backslashreplace").decode("utf-8")[:_REASON_LIMIT]
