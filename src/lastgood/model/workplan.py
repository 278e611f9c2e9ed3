"""A plan of tasks for `run`, as its author wrote it."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    OnFailure = Literal["rollback", "keep", "stop"]
    # A text is given to the shell; words are a program and its arguments.
    Command = str | tuple[str, ...]

ON_FAILURE: tuple[OnFailure, ...] = ("rollback", "keep", "stop")


class PlannedTask(Value):
    """One command of a plan, and what is to happen around it.

    ``run`` does the work; ``check``, which has to pass for the task to be done, makes its checkpoint
    good. ``retries`` is how often a failed task is tried again, ``timeout`` how long one attempt (and
    its check) may take, in seconds. ``on_failure`` says what becomes of a failed attempt's files:
    ``rollback`` takes them back to where the task began, ``keep`` leaves them, and both let tasks that
    do not need this one go on; ``stop`` leaves them and ends the run. ``irreversible`` marks what no
    restore takes back. ``needs`` are tasks that have to be done before; ``env`` is laid over the
    environment, and ``cwd`` is relative to the workspace.
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
