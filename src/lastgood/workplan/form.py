"""Work plans as plain JSON values, read with reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lastgood.errors import Invalid
from lastgood.model.run import ON_FAILURE, PlannedTask, WorkPlan
from lastgood.paths import printable
from lastgood.quantities import parse_duration
from lastgood.suggestions import nearest
from lastgood.value import Value, cast
from lastgood.workplan.plan import TASK, cycle, matches, ordered, text_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from lastgood.model.run import Command

    Form = Literal[
        "id", "ids", "text", "texts", "command", "count", "duration", "flag", "choice", "env", "cwd"
    ]
    # Where something stands in a plan: keys, and places in lists.
    Path = tuple[str | int, ...]


# --- What may be written in a work plan: one table, read by the validation and by the JSON Schema ---

if TYPE_CHECKING:
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
    "transcript": Key(
        form="text",
        says="The file in which its host keeps the conversation, relative to the workspace, where that is "
        "not found by itself.",
    ),
    "terminal": Key(
        form="flag",
        default=False,
        says="It gets the terminal of the run, and what it prints is not kept; or, where there is none, "
        "the standard input of the run.",
    ),
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
    "transcript": Key(form="text", says="The conversation's file of tasks that name none of their own."),
    "risky": Key(
        form="texts",
        default=[],
        says="Commands in which one of these is found (* stands for any text) get a checkpoint of kind "
        "risky before.",
    ),
}


# --- Reads the values of a work plan by their forms; each says what is wrong with it, and what to write ---

_SHOWN = 60
# Python writes no number of more than 4,300 digits.
_BITS_WRITTEN = 10_000
_BLANK = " \t\r\n"


class Wrong(ValueError):
    """A value is not of its form; ``path`` leads to it from the value that was to be read."""

    def __init__(self, says: str, *, hint: str = "", path: Path = ()) -> None:
        super().__init__(says)
        self.says = says
        self.hint = hint
        self.path = path


def wrong(value: object, wanted: str, *, hint: str = "") -> Wrong:
    """Return the error for a value of another form than the wanted one."""
    if not hint and wanted == "a text" and isinstance(value, int | float):
        hint = "write it in quotes"
    return Wrong(f"has to be {wanted}; it is {_kind(value)}", hint=hint)


def did_you_mean(word: object, known: tuple[str, ...]) -> str:
    """Return the hint that names what was probably meant; nothing if nothing is near."""
    close = nearest(word, known) if isinstance(word, str) and len(word) <= _SHOWN else ()
    return f"did you mean {close[0]}?" if close else ""


def shortened(value: object) -> str:
    """Return a value as it may be shown, cut where it is long."""
    if isinstance(value, int) and value.bit_length() > _BITS_WRITTEN:
        return "of too many digits"
    text = printable(value if isinstance(value, str) else str(value))
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return f"'{text}'" if isinstance(value, str) else text


def _kind(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "keys with values"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return f"the text {shortened(value)}"
    return f"the number {shortened(value)}" if isinstance(value, int | float) else f"a {type(value).__name__}"


def _id(value: object, _key: Key) -> str:
    if not isinstance(value, str):
        raise wrong(value, "a text")
    if not re.search(ID_PATTERN, value):
        hint = f"an id has 1 to {ID_LIMIT} letters, digits, '.', '_' and '-', the first a letter or digit"
        raise Wrong(f"{shortened(value)} cannot be an id", hint=hint)
    return value


def _each(value: object, key: Key, *, what: str, read: Callable[[object, Key], str]) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise wrong(value, f"a list of {what}")
    found = []
    for index, item in enumerate(value):
        try:
            found.append(read(item, key))
        except Wrong as fault:
            raise Wrong(fault.says, hint=fault.hint, path=(index,)) from None
    return tuple(found)


def _ids(value: object, key: Key) -> tuple[str, ...]:
    return _each(value, key, what="ids", read=_id)


def _texts(value: object, key: Key) -> tuple[str, ...]:
    found = _each(value, key, what="texts", read=_text)
    if len(found) > PATTERNS_LIMIT:
        raise Wrong(f"has {len(found)} texts; the limit is {PATTERNS_LIMIT}")
    return found


def _text(value: object, _key: Key) -> str:
    if not isinstance(value, str):
        raise wrong(value, "a text")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Wrong("is no Unicode text", hint="write it as UTF-8")
    return _bounded(_filled(value), TEXT_LIMIT)


def _command(value: object, key: Key) -> Command:
    if isinstance(value, str):
        return _bounded(_filled(value, missing="there is no command"), COMMAND_LIMIT)
    if not isinstance(value, list | tuple):
        raise wrong(value, "a command: a text, or a list of words")
    words = _each(value, key, what="words", read=_word)
    if not words or not words[0].strip(_BLANK):
        raise Wrong("there is no command", hint="write the program's name, then its arguments")
    return words


def _word(value: object, _key: Key) -> str:
    """Return what a program is given: a text, or a whole number as it is written."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _BITS_WRITTEN:
        return str(value)
    if not isinstance(value, str):
        raise wrong(value, "a text")
    return _bounded(value, COMMAND_LIMIT)


def _filled(text: str, *, missing: str = "is empty") -> str:
    if not text.strip(_BLANK):
        raise Wrong(missing, hint="write something, or take the key away")
    return text


def _bounded(text: str, limit: int) -> str:
    if len(text) > limit:
        raise Wrong(f"has {len(text)} characters; the limit is {limit}", hint="keep long texts in a file")
    fault = text_fault(text)
    if fault:
        raise Wrong(fault, hint="no program can be given that")
    return text


def _count(value: object, _key: Key) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= COUNT_LIMIT:
        raise wrong(value, f"a whole number from 0 to {COUNT_LIMIT}")
    return value


def _duration(value: object, _key: Key) -> float:
    seconds = 0.0
    if isinstance(value, str) and re.search(DURATION_PATTERN, value):
        seconds = parse_duration(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    if not 0 < seconds <= SECONDS_LIMIT:
        raise wrong(value, "a time of more than 0 seconds and at most a week: 90, 90s, 15m, 1h30m")
    return float(seconds)


def _flag(value: object, _key: Key) -> bool:
    if not isinstance(value, bool):
        raise wrong(value, "true or false")
    return value


def _choice(value: object, key: Key) -> str:
    if not isinstance(value, str) or value not in key.choices:
        raise wrong(value, f"one of {', '.join(key.choices)}", hint=did_you_mean(value, key.choices))
    return value


def _env(value: object, key: Key) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise wrong(value, "variables with values")
    found: dict[str, str] = {}
    for name, item in value.items():
        path = (name if isinstance(name, str) else str(name),)
        if not isinstance(name, str) or not re.search(VARIABLE_PATTERN, name) or text_fault(name):
            raise Wrong("cannot be the name of a variable", hint="a name has no '=' and no NUL", path=path)
        if name in RESERVED_VARIABLES:
            raise Wrong("is set by the runner itself", hint="take it away", path=path)
        try:
            found[name] = _word(item, key)
        except Wrong as fault:
            raise Wrong(fault.says, hint=fault.hint, path=path) from None
    return found


def _cwd(value: object, _key: Key) -> str:
    """Return a folder without needless parts; the workspace itself is ``.``."""
    if not isinstance(value, str):
        raise wrong(value, "a text")
    if not re.search(CWD_PATTERN, value):
        hint = "write it relative to the workspace, without a leading '/' and without '..'"
        raise Wrong(f"{shortened(value)} is no folder of the workspace", hint=hint)
    _bounded(value, TEXT_LIMIT)
    return "/".join(part for part in value.split("/") if part not in {"", "."}) or "."


_FORMS: dict[str, Callable[[object, Key], object]] = {
    "id": _id,
    "ids": _ids,
    "text": _text,
    "texts": _texts,
    "command": _command,
    "count": _count,
    "duration": _duration,
    "flag": _flag,
    "choice": _choice,
    "env": _env,
    "cwd": _cwd,
}


# --- Reads a work plan out of plain JSON values, and says everything that is wrong with it ---

_KEY_SHOWN = 60
FAULTS_LIMIT = 100
# Of more ids, none is looked for that is like another: that would take seconds.
_COMPARED = 500


class Fault(Value):
    """One thing that is wrong with a plan, where, and what to write instead."""

    path: Path
    says: str
    hint: str = ""


class ReadTask(Value):
    """The fields of a task as they were read, and where it stands; wrong ones have their default."""

    path: Path
    fields: Mapping[str, object]
    sprint: str | None = None

    @property
    def id(self) -> str | None:
        """The task's id, None if there is no good one."""
        return cast("str | None", self.fields["id"])


class PlanReader:
    """Reads one plan; ``faults`` are in the order in which they were found."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def plan(self, value: object) -> WorkPlan | None:
        """Return the plan that a value is; None, with the reasons in ``faults``, if it is none."""
        if value is None or value == {}:
            self._add((), "the plan is empty", hint="a plan has tasks: each with an id and a command to run")
            return None
        record = self._record(value, (), PLAN_KEYS)
        if record is None:
            return None
        shared = self._values(record, (), PLAN_KEYS)
        if "tasks" in record and "sprints" in record:
            self._add((), "the plan has both tasks and sprints", hint="put the tasks into the sprints")
        elif "tasks" not in record and "sprints" not in record:
            self._add((), "the plan has neither tasks nor sprints", hint="write tasks, each with id and run")
        tasks = self._tasks(record, ())
        sprints: tuple[str, ...] = ()
        if "sprints" in record:
            sprints, tasks = self._sprints(record["sprints"])
        return self.whole(tasks, goal=cast("str | None", shared["goal"]), sprints=sprints, shared=shared)

    def task(self, value: object, path: Path, *, sprint: str | None = None) -> ReadTask | None:
        """Return one task; None if it is nothing like it."""
        record = self._record(value, path, TASK_KEYS)
        if record is None:
            return None
        return ReadTask(path=path, fields=self._values(record, path, TASK_KEYS), sprint=sprint)

    def labels(self, plan: WorkPlan) -> None:
        """Look at what a program called a plan and its sprints, and whether its tasks are of those."""
        self._values({"goal": plan.goal} if plan.goal is not None else {}, (), PLAN_KEYS)
        for index, sprint in enumerate(plan.sprints):
            self._values({"id": sprint}, ("sprints", index), SPRINT_KEYS)
        self._unique([(("sprints", index, "id"), id) for index, id in enumerate(plan.sprints)], "sprint")
        for index, task in enumerate(plan.tasks):
            if task.sprint is not None and task.sprint not in plan.sprints:
                hint = did_you_mean(task.sprint, plan.sprints) or "name it among the plan's sprints"
                self._add(
                    ("tasks", index, "sprint"), f"there is no sprint {shortened(task.sprint)}", hint=hint
                )

    def whole(
        self,
        tasks: Sequence[ReadTask],
        *,
        goal: str | None,
        sprints: tuple[str, ...],
        shared: Mapping[str, object],
    ) -> WorkPlan | None:
        """Return the plan of tasks that were read one by one; None if anything is wrong with it."""
        if len(tasks) > TASKS_LIMIT:
            self._add((), f"the plan has {len(tasks)} tasks; the limit is {TASKS_LIMIT}", hint="split it")
        self._unique([((*task.path, "id"), task.id) for task in tasks], "task")
        self._check_needs(tasks)
        if self.faults:
            return None
        made = [_task(task, shared) for task in tasks]
        circle = cycle(made)
        if circle:
            path = next(task.path for task in tasks if task.id == circle[0])
            told = " needs ".join(circle)
            self._add((*path, "needs"), f"tasks need each other: {told}", hint="take one of the needs away")
            return None
        return WorkPlan(tasks=ordered(made), goal=goal, sprints=sprints)

    def _sprints(self, value: object) -> tuple[tuple[str, ...], list[ReadTask]]:
        ids: list[tuple[Path, str | None]] = []
        tasks: list[ReadTask] = []
        for index, item in enumerate(self._filled(value, ("sprints",), "sprints")):
            path: Path = ("sprints", index)
            record = self._record(item, path, SPRINT_KEYS)
            if record is None:
                continue
            id = cast("str | None", self._values(record, path, SPRINT_KEYS)["id"])
            ids.append(((*path, "id"), id))
            tasks += self._tasks(record, path, sprint=id)
        self._unique(ids, "sprint")
        return tuple(id for _, id in ids if id is not None), tasks

    def _tasks(
        self, record: Mapping[str, object], path: Path, *, sprint: str | None = None
    ) -> list[ReadTask]:
        if "tasks" not in record:
            return []
        within: Path = (*path, "tasks")
        items = self._filled(record["tasks"], within, "tasks")
        read = [self.task(item, (*within, index), sprint=sprint) for index, item in enumerate(items)]
        return [task for task in read if task is not None]

    def _filled(self, value: object, path: Path, what: str) -> Sequence[object]:
        if not isinstance(value, list | tuple):
            self._fail(wrong(value, f"a list of {what}"), path)
            return ()
        if not value:
            self._add(path, f"has no {what}", hint="a plan has at least one task, and so has each sprint")
        return value

    def _record(self, value: object, path: Path, keys: Mapping[str, Key]) -> Mapping[str, object] | None:
        """Return an object, after telling the keys that are not known and those that are missing."""
        if not isinstance(value, Mapping):
            self._fail(wrong(value, f"keys with values ({', '.join(keys)})"), path)
            return None
        for key in value:
            if key not in keys and len(self.faults) < FAULTS_LIMIT:
                hint = did_you_mean(key, tuple(keys)) or f"keys here: {', '.join(keys)}"
                self._add((*path, str(key)), "there is no such key", hint=hint)
        for name, key in keys.items():
            if key.needed and name not in value:
                self._add(path, f"the key '{name}' is missing", hint=f"{name}: {key.says}")
        return value

    def _values(self, record: Mapping[str, object], path: Path, keys: Mapping[str, Key]) -> dict[str, object]:
        """Return the values of an object; the default of what is not there or wrong."""
        found = {name: key.default for name, key in keys.items() if key.form not in {"tasks", "sprints"}}
        for name in found:
            if name not in record:
                continue
            try:
                found[name] = _FORMS[keys[name].form](record[name], keys[name])
            except Wrong as fault:
                self._fail(fault, (*path, name))
        return found

    def _unique(self, ids: Sequence[tuple[Path, str | None]], what: str) -> None:
        first: dict[str, Path] = {}
        for path, id in ids:
            if id is not None and first.setdefault(id, path) != path:
                self._add(path, f"another {what} is called {id}", hint=f"see {path_text(first[id])}")

    def _check_needs(self, tasks: Sequence[ReadTask]) -> None:
        present = {task.id for task in tasks if task.id is not None}
        known = tuple(sorted(present)) if len(present) <= _COMPARED else ()
        for task in tasks:
            for index, need in enumerate(cast("Sequence[str]", task.fields["needs"])):
                if need not in present and len(self.faults) < FAULTS_LIMIT:
                    hint = did_you_mean(need, known) or "needs are ids of tasks of this plan"
                    self._add((*task.path, "needs", index), f"there is no task {need}", hint=hint)

    def _fail(self, fault: Wrong, path: Path) -> None:
        self._add((*path, *fault.path), fault.says, hint=fault.hint)

    def _add(self, path: Path, says: str, *, hint: str = "") -> None:
        if len(self.faults) < FAULTS_LIMIT:
            self.faults.append(Fault(path=path, says=says, hint=hint))


def path_text(path: Path) -> str:
    """Return a place in a plan as people write it: ``sprints[0].tasks[1].run``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        name = printable(part if len(part) <= _KEY_SHOWN else part[:_KEY_SHOWN] + "…")
        text += f".{name}" if text else name
    return text


def _task(task: ReadTask, shared: Mapping[str, object]) -> PlannedTask:
    """Return a task, with what the plan says for all of them."""
    fields = {**task.fields}
    run, cwd = cast("Command", fields["run"]), fields["cwd"] or shared["cwd"]
    if fields["risky"] is None:
        fields["risky"] = any(matches(pattern, run) for pattern in cast("Sequence[str]", shared["risky"]))
    return PlannedTask(id="", run=run).replace(
        **fields
        | {
            "sprint": task.sprint,
            "needs": tuple(dict.fromkeys(cast("Sequence[str]", fields["needs"]))),
            "env": cast("dict[str, str]", shared["env"]) | cast("dict[str, str]", fields["env"]),
            "cwd": None if cwd == "." else cwd,
            "transcript": fields["transcript"] or shared["transcript"],
        }
    )


# --- The plan that a document is, or a program has made; and what is said of one that is none ---

if TYPE_CHECKING:
    # Line and column (from 1) at which something stands in a plan's file.
    Places = Mapping[Path, tuple[int, int]]

_SHOWN_FAULTS = 10


def plan_of(value: object, *, where: str, places: Places | None = None) -> WorkPlan:
    """Return the plan that a document is, its tasks in the order in which they are carried out.

    ``where`` names the document in errors, ``places`` says where in it things stand. Raises `Invalid`,
    which tells each fault with file, line, key and what was probably meant; ``details["faults"]`` has
    them all.
    """
    reader = PlanReader()
    plan = reader.plan(value)
    if plan is None or reader.faults:
        raise invalid_plan(reader.faults, where=where, places=places or {})
    return plan


def checked_plan(plan: WorkPlan) -> WorkPlan:
    """Return a plan that a program has made, in the order of its needs; `Invalid` as a file would be."""
    reader = PlanReader()
    if not plan.tasks:
        raise Invalid("the plan is empty", hint="a plan has at least one task")
    tasks = [
        reader.task(_task_document(task), ("tasks", index), sprint=task.sprint)
        for index, task in enumerate(plan.tasks)
    ]
    reader.labels(plan)
    shared: dict[str, object] = {"env": {}, "cwd": None, "risky": (), "transcript": None}
    read = [task for task in tasks if task is not None]
    found = reader.whole(read, goal=plan.goal, sprints=plan.sprints, shared=shared)
    if found is None or reader.faults:
        raise invalid_plan(reader.faults, where="the plan", places={})
    return found.replace(source=plan.source, command=plan.command)


_HOW = "a plan is YAML or JSON; all keys: lastgood run --schema"


def invalid_plan(faults: Sequence[Fault], *, where: str, places: Places) -> Invalid:
    """Return the error that tells what is wrong with a plan, each fault with its place."""
    faults = sorted(faults, key=lambda fault: _place(fault.path, places) or (0, 0))
    told = [_fault_line(fault, where=where, places=places) for fault in faults]
    records = [_fault_record(fault, places) for fault in faults]
    details: dict[str, object] = {"source": where, **records[0], "faults": records}
    if len(told) == 1:
        return Invalid(told[0], hint=faults[0].hint or _HOW, details=details)
    lines = [f"{printable(where)} has {len(told)} faults{' or more' if len(told) == FAULTS_LIMIT else ''}"]
    lines += [
        f"{text} ({fault.hint})" if fault.hint else text
        for text, fault in zip(told[:_SHOWN_FAULTS], faults[:_SHOWN_FAULTS], strict=True)
    ]
    if len(told) > _SHOWN_FAULTS:
        lines.append(f"and {len(told) - _SHOWN_FAULTS} more")
    return Invalid("\n".join(lines), hint=_HOW, details=details)


def broken_plan(says: str, *, hint: str, where: str, place: tuple[int, int] | None) -> Invalid:
    """Return the error for a document that cannot be read at all."""
    faults = [Fault(path=(), says=says, hint=hint)]
    return invalid_plan(faults, where=where, places={} if place is None else {(): place})


def _fault_line(fault: Fault, *, where: str, places: Places) -> str:
    place = _place(fault.path, places)
    at = printable(where) if place is None else f"{printable(where)}:{place[0]}:{place[1]}"
    key = path_text(fault.path)
    return f"{at}: {key}: {fault.says}" if key else f"{at}: {fault.says}"


def _fault_record(fault: Fault, places: Places) -> dict[str, object]:
    line, column = _place(fault.path, places) or (None, None)
    return {
        "line": line,
        "column": column,
        "key": path_text(fault.path),
        "message": fault.says,
        "hint": fault.hint,
    }


def _place(path: Path, places: Places) -> tuple[int, int] | None:
    """Return where something stands, or what it is in."""
    for length in range(len(path), -1, -1):
        if path[:length] in places:
            return places[path[:length]]
    return None


def _task_document(task: PlannedTask) -> dict[str, object]:
    """Return a task as its author would write it."""
    record = {key: value for key, value in TASK.write(task).items() if value is not None}
    record.pop("sprint", None)
    return record
