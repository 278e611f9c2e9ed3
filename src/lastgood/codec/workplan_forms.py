"""What may be written in a work plan: one table, read by the validation and by the JSON Schema."""

from __future__ import annotations

from lastgood.model.workplan import ON_FAILURE
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Form = Literal[
        "id", "ids", "text", "texts", "command", "count", "duration", "flag", "choice", "env", "cwd"
    ]
    FormOrPart = Literal[Form, "tasks", "sprints"]

ID_LIMIT = 100
TEXT_LIMIT = 2_000
COMMAND_LIMIT = 100_000
COUNT_LIMIT = 1_000
# A week: beyond that nothing is a time limit but a slip.
SECONDS_LIMIT = 7 * 86_400
TASKS_LIMIT = 10_000
PATTERNS_LIMIT = 100

# Read alike by Python and by ECMAScript, which JSON Schema goes by: a bare `$` would let Python pass
# over a last line end.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?!\n)$"
DURATION_PATTERN = r"^([0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m|h|d|w))+(?!\n)$"
CWD_PATTERN = r"^(?!/)(?!([^\x00]*/)?\.\.(/|$))[^\x00]+$"
VARIABLE_PATTERN = r"^[^=\x00]+$"
TEXT_PATTERN = r"^[^\x00]*$"
FILLED_PATTERN = r"[^ \t\r\n]"

# What the runner itself says to a task.
RESERVED_VARIABLES = ("LASTGOOD_STORE", "LASTGOOD_SESSION", "LASTGOOD_TASK", "LASTGOOD_ATTEMPT")


class Key(Value):
    """One key: the form of its value, whether it has to be there, and what it says."""

    form: FormOrPart
    says: str
    needed: bool = False
    choices: tuple[str, ...] = ()
    default: object = None


TASK_KEYS: Mapping[str, Key] = {
    "id": Key(form="id", needed=True, says="What the task is called; no other task of the plan is."),
    "run": Key(
        form="command",
        needed=True,
        says="The command that does the work: a text for the shell, or a program and its arguments.",
    ),
    "check": Key(
        form="command",
        says="Has to pass for the task to be done; its checkpoint is then a good one.",
    ),
    "retries": Key(form="count", default=0, says="How often a failed task is tried again."),
    "timeout": Key(
        form="duration",
        says="How long an attempt may take with its check: seconds, or 90s, 15m, 1h30m.",
    ),
    "on_failure": Key(
        form="choice",
        choices=ON_FAILURE,
        default="stop",
        says="What becomes of the files of a failed attempt: rollback takes them back to where the task "
        "began, keep leaves them (after both, tasks that do not need this one go on), stop leaves them "
        "and ends the run.",
    ),
    "irreversible": Key(
        form="flag",
        default=False,
        says="No restore takes back what it does: it is never repeated unasked.",
    ),
    "risky": Key(
        form="flag", says="Whether a checkpoint of kind risky is made before; by default the patterns say so."
    ),
    "needs": Key(form="ids", default=[], says="The tasks that have to be done before."),
    "env": Key(form="env", default={}, says="Variables laid over the environment and over the plan's."),
    "cwd": Key(form="cwd", says="The folder that it runs in, relative to the workspace."),
}

SPRINT_KEYS: Mapping[str, Key] = {
    "id": Key(form="id", needed=True, says="What the sprint is called; no other sprint of the plan is."),
    "tasks": Key(form="tasks", needed=True, says="The tasks of the sprint, in order."),
}

PLAN_KEYS: Mapping[str, Key] = {
    "goal": Key(form="text", says="What the work is for: one sentence, shown by `lastgood status`."),
    "sprints": Key(form="sprints", says="The sprints, in order; each ends with a checkpoint."),
    "tasks": Key(form="tasks", says="The tasks, in order, where there are no sprints."),
    "env": Key(form="env", default={}, says="Variables laid over the environment of every task."),
    "cwd": Key(form="cwd", says="The folder that tasks run in unless they name their own."),
    "risky": Key(
        form="texts",
        default=[],
        says="Commands in which one of these is found (* stands for any text) get a checkpoint of kind "
        "risky before.",
    ),
}
