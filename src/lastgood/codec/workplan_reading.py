"""Reads a work plan out of plain JSON values, and says everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping

from lastgood.codec.workplan_forms import PLAN_KEYS, SPRINT_KEYS, TASK_KEYS, TASKS_LIMIT
from lastgood.codec.workplan_values import Wrong, did_you_mean, read_value, shown, wrong
from lastgood.model.workplan import PlannedTask, WorkPlan
from lastgood.names import printable
from lastgood.rules.workplan import cycle, matches, ordered
from lastgood.value import Value, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.codec.workplan_forms import Key
    from lastgood.codec.workplan_values import Path
    from lastgood.model.workplan import Command, OnFailure

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
                self._add(("tasks", index, "sprint"), f"there is no sprint {shown(task.sprint)}", hint=hint)

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
                found[name] = read_value(record[name], keys[name])
            except Wrong as fault:
                self._fail(fault, (*path, name))
        return found

    def _unique(self, ids: Sequence[tuple[Path, str | None]], what: str) -> None:
        first: dict[str, Path] = {}
        for path, id in ids:
            if id is not None and first.setdefault(id, path) != path:
                self._add(path, f"another {what} is called {id}", hint=f"see {spelled(first[id])}")

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


def spelled(path: Path) -> str:
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
    fields = task.fields
    run = cast("Command", fields["run"])
    risky = cast("bool | None", fields["risky"])
    if risky is None:
        risky = any(matches(pattern, run) for pattern in cast("Sequence[str]", shared["risky"]))
    cwd = cast("str | None", fields["cwd"] or shared["cwd"])
    return PlannedTask(
        id=cast("str", fields["id"]),
        run=run,
        sprint=task.sprint,
        check=cast("Command | None", fields["check"]),
        retries=cast("int", fields["retries"]),
        timeout=cast("float | None", fields["timeout"]),
        on_failure=cast("OnFailure", fields["on_failure"]),
        irreversible=cast("bool", fields["irreversible"]),
        risky=risky,
        needs=tuple(dict.fromkeys(cast("Sequence[str]", fields["needs"]))),
        env={**cast("Mapping[str, str]", shared["env"]), **cast("Mapping[str, str]", fields["env"])},
        cwd=None if cwd == "." else cwd,
    )
