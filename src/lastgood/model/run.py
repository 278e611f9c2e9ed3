"""What `run` tells while it carries out a plan, and what came of it."""

from __future__ import annotations

from lastgood.model.session import Progress
from lastgood.value import Alias, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import ClassVar

    from lastgood.literals import (
        ArtifactState,
        Choice,
        OnFailure,
        Recovered,
        RunEventType,
        RunState,
        Settled,
        State,
    )
    from lastgood.model.checkpoint import Checkpoint, HealthNote
    from lastgood.model.operation import Outcome, PartOutcome
    from lastgood.model.report import ChangedBeside, HeadMoved, NotHeld, RestoreReport
    from lastgood.model.session import Effect, Living, Position, Session, SessionReport, Task
    from lastgood.model.tree import Counts
    from lastgood.value import OsText, Text, Timestamp


# A text is given to the shell; words are a program and its arguments.
Command = str | tuple[str, ...]


class PlannedRun(Value):
    """The plan that a session carries out, as it is kept; ``fingerprint`` tells it from an edited one."""

    session: str
    workspace_key: str
    fingerprint: str
    plan: WorkPlan


class RunEvent(Value):
    """One thing that happened in a run; ``at`` is in nanoseconds since the epoch.

    ``checkpoint`` is an id, ``line`` one line of output without its end, ``seconds`` how long an attempt
    or the run took. ``tasks`` is how every task of the plan stands; only the first event and those that
    change it have them. ``terminal`` says that the task has the terminal until its attempt ends.
    """

    type: RunEventType
    at: Timestamp
    session: str
    task: Text | None = None
    sprint: Text | None = None
    attempt: int | None = None
    checkpoint: str | None = None
    kind: str | None = None
    good: bool | None = None
    exit_code: int | None = None
    seconds: float | None = None
    line: Text | None = None
    reason: Text | None = None
    paths: tuple[bytes, ...] = ()
    continued: bool = False
    tasks: tuple[Task, ...] = ()
    terminal: bool = False


class LastConversation(Value):
    """What the host of a run said up to its end: ``messages`` counts its whole lines.

    ``resume_command`` is the host's own, None where nobody knows the host or what it calls the conversation,
    and where the transcript is not ``readable``, as one that is gone. ``checkpoint`` is the newest that holds
    it: a restore of that conversation makes a transcript with which the host can go on, and which is
    named here from then on.
    """

    messages: int
    transcript: OsText
    host: str | None = None
    resume_command: str | None = None
    readable: bool = True
    checkpoint: str | None = None


class RunReport(Value):
    """What came of a run. ``tasks`` are in the plan's order.

    ``state`` is ``done`` if every task is; a run that is not can be continued by the same command.
    ``unknown_effects`` are steps of which nobody saw the end, ``live_processes`` what an earlier runner
    left running. ``exit_code`` is that of the last command that ran, as a shell would say it; None if
    none did, or if it was stopped because its time was over. ``signal`` is the number of the one that
    interrupted the run; ``by_key`` means that a key of the terminal sent it to the last command alone, which
    had that. ``outputs`` is the folder where each attempt's output is kept. ``conversation`` is
    that of the agent which the last task ran, if it is known. With ``finished_at`` the plan had finished
    before, and nothing was carried out. ``start`` is the checkpoint from before its first attempt, also if
    that was made by an earlier process.
    """

    session: str
    state: RunState
    plan: WorkPlan
    tasks: tuple[Task, ...] = ()
    checkpoint: str | None = None
    continued: bool = False
    seconds: float = 0.0
    exit_code: int | None = None
    reason: Text | None = None
    unknown_effects: tuple[Effect, ...] = ()
    live_processes: tuple[Living, ...] = ()
    outputs: OsText | None = None
    signal: int | None = None
    by_key: bool = False
    finished_at: Timestamp | None = None
    start: str | None = None
    conversation: LastConversation | None = None

    goal: ClassVar[Alias[Text | None]] = Alias("plan.goal", "What the run is for, if its plan says so.")


# --- What `recover` is asked for, what it found, and what it did about it (rules T7, P7) ---

CHOICES: tuple[Choice, ...] = ("continue", "fresh", "review")


class Artifact(Value):
    """A path that was being worked on. ``missing`` also means that no checkpoint at hand holds it."""

    path: bytes
    state: ArtifactState


class RecoverReport(Value):
    """Where work stands, and what was done to go on.

    ``session`` is the run that died (None: none did), with the progress that it has now; ``waiting``
    are others that died. ``checkpoint`` is its last one, the one that was asked for, or the one that the
    workspace stands at; ``returned`` says that this is not its last or the newest one. ``progress``
    is what counts: the session's, else the checkpoint's. ``interrupted_restore`` tells what
    became of one, ``restored`` what was, or would be, brought back beside that: files of ``--rollback``,
    or artifacts that were missing. ``outcomes`` are the paths of both. ``cleared`` are temporary names of
    earlier restores that were still, or again, in the workspace, and went. ``irreversible`` are steps done
    after the checkpoint ``rolled_back_to``, that files were, or would be, taken back to; ``undone_tasks``
    were done after it, and ``edited`` are paths among these that changed after the run's last sign of life,
    by whomever, ``changed_beside`` those that other sessions saved as changed since; ``passed_over`` are
    later checkpoints that would have been nearer, but whose files are damaged.
    ``elsewhere`` tells of runs that did not finish in a folder that this one may have been.
    ``took_over`` is a session that lived, and has ended for this one to go on; ``beside`` one that lives
    and is at work, where nothing died. ``conversation`` is that of the run, kept to its last whole line
    unless it is only looked at.
    """

    state: State
    done: Recovered | None = None
    checkpoint: Checkpoint | None = None
    session: SessionReport | None = None
    progress: Progress = Progress()
    unknown_effects: tuple[Effect, ...] = ()
    irreversible: tuple[Effect, ...] = ()
    live_processes: tuple[Living, ...] = ()
    git_matches: bool | None = None
    head_moved: HeadMoved | None = None
    drift: Counts | None = None
    artifacts: tuple[Artifact, ...] = ()
    waiting: tuple[SessionReport, ...] = ()
    interrupted_restore: Settled | None = None
    restored: RestoreReport | None = None
    outcomes: tuple[Outcome, ...] = ()
    cleared: tuple[bytes, ...] = ()
    parts: tuple[PartOutcome, ...] = ()
    rolled_back_to: str | None = None
    edited: tuple[bytes, ...] = ()
    changed_beside: tuple[ChangedBeside, ...] = ()
    undone_tasks: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    elsewhere: tuple[HealthNote, ...] = ()
    took_over: Session | None = None
    beside: Session | None = None
    returned: bool = False
    conversation: LastConversation | None = None

    @property
    def position(self) -> Position | None:
        """Where the work stands; None if nobody said."""
        return None if self.progress.position.empty else self.progress.position

    tasks: ClassVar[Alias[Sequence[Task]]] = Alias(
        "progress.tasks", "The tasks of the work, in the order in which they were first named."
    )

    @property
    def guard(self) -> str | None:
        """The checkpoint that holds what was there before files were brought back."""
        return None if self.restored is None else self.restored.guard

    @property
    def operation(self) -> str | None:
        """What `undo` takes back, if files were brought back."""
        return None if self.restored is None else self.restored.operation

    files: ClassVar[Alias[tuple[Outcome, ...]]] = Alias("outcomes", "What became of each path.")

    @property
    def not_held(self) -> tuple[NotHeld, ...]:
        """What was there at the checkpoint, is missing, and could not be brought back (exit code 3)."""
        return () if self.restored is None else self.restored.not_held

    @property
    def omissions(self) -> tuple[Outcome, ...]:
        """The paths that were skipped or failed (exit code 3)."""
        return tuple(one for one in self.outcomes if one.result in {"skipped", "failed"})


# --- A plan of tasks for `run`, as its author wrote it ---

ON_FAILURE: tuple[OnFailure, ...] = ("rollback", "keep", "stop")


class PlannedTask(Value):
    """One command of a plan, and what is to happen around it.

    ``run`` does the work; ``check``, which has to pass for the task to be done, makes its checkpoint
    good. ``retries`` is how often a failed task is tried again, ``timeout`` how long one attempt (and
    its check) may take, in seconds. ``on_failure`` says what becomes of a failed attempt's files:
    ``rollback`` takes them back to where the task began, ``keep`` leaves them, and both let tasks that
    do not need this one go on; ``stop`` leaves them and ends the run. ``irreversible`` marks what no
    restore takes back. ``needs`` are tasks that have to be done before; ``env`` is laid over the
    environment, and ``cwd`` is relative to the workspace, as is ``transcript``, the file of the
    conversation where that is not found by itself. With ``terminal`` the command gets the terminal
    of the run, its output then not being kept, or else the run's standard input.
    """

    id: str
    run: Command
    sprint: str | None = None
    check: Command | None = None
    retries: int = 0
    timeout: float | None = None
    on_failure: OnFailure = "stop"
    irreversible: bool = False
    risky: bool = False
    needs: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    transcript: str | None = None
    terminal: bool = False


class WorkPlan(Value):
    """The tasks in the order in which they are carried out: as written, but each after what it needs.

    ``sprints`` are in the order in which they were written. ``source`` is the real path of the file
    that the plan was read from, if any: what a later `run` of the same file continues. ``command``
    marks the plan of one command, `run -- COMMAND`.
    """

    tasks: tuple[PlannedTask, ...]
    goal: str | None = None
    sprints: tuple[str, ...] = ()
    source: str | None = None
    command: bool = False

    def task(self, id: str) -> PlannedTask:
        """Return the task of an id; `KeyError` if there is none."""
        for task in self.tasks:
            if task.id == id:
                return task
        raise KeyError(id)
