"""Work plans as plain JSON values: read with reasons, and kept with a session."""

from __future__ import annotations

from lastgood.codec.canonical import Fields, dumps, versioned
from lastgood.codec.workplan_reading import FAULTS_LIMIT, Fault, PlanReader, spelled
from lastgood.errors import Damaged, Invalid
from lastgood.model.workplan import ON_FAILURE, PlannedTask, WorkPlan
from lastgood.names import printable
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.codec.workplan_values import Path
    from lastgood.model.workplan import Command, OnFailure

    # Line and column (from 1) at which something stands in a plan's file.
    Places = Mapping[Path, tuple[int, int]]

VERSION = 1
_SHOWN = 10


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
    shared: dict[str, object] = {"env": {}, "cwd": None, "risky": ()}
    read = [task for task in tasks if task is not None]
    found = reader.whole(read, goal=plan.goal, sprints=plan.sprints, shared=shared)
    if found is None or reader.faults:
        raise invalid_plan(reader.faults, where="the plan", places={})
    return found.replace(source=plan.source, command=plan.command)


def invalid_plan(faults: Sequence[Fault], *, where: str, places: Places) -> Invalid:
    """Return the error that tells what is wrong with a plan, each fault with its place."""
    faults = sorted(faults, key=lambda fault: _place(fault.path, places) or (0, 0))
    told = [_told(fault, where=where, places=places) for fault in faults]
    records = [_fault_record(fault, places) for fault in faults]
    details: dict[str, object] = {"source": where, **records[0], "faults": records}
    if len(told) == 1:
        return Invalid(told[0], hint=faults[0].hint or "all keys: lastgood run --schema", details=details)
    lines = [f"{printable(where)} has {len(told)} faults{' or more' if len(told) == FAULTS_LIMIT else ''}"]
    lines += [
        f"{text} ({fault.hint})" if fault.hint else text
        for text, fault in zip(told[:_SHOWN], faults[:_SHOWN], strict=True)
    ]
    if len(told) > _SHOWN:
        lines.append(f"and {len(told) - _SHOWN} more")
    return Invalid("\n".join(lines), hint="all keys: lastgood run --schema", details=details)


def broken_plan(says: str, *, hint: str, where: str, place: tuple[int, int] | None) -> Invalid:
    """Return the error for a document that cannot be read at all."""
    faults = [Fault(path=(), says=says, hint=hint)]
    return invalid_plan(faults, where=where, places={} if place is None else {(): place})


def _told(fault: Fault, *, where: str, places: Places) -> str:
    place = _place(fault.path, places)
    at = printable(where) if place is None else f"{printable(where)}:{place[0]}:{place[1]}"
    key = spelled(fault.path)
    return f"{at}: {key}: {fault.says}" if key else f"{at}: {fault.says}"


def _fault_record(fault: Fault, places: Places) -> dict[str, object]:
    line, column = _place(fault.path, places) or (None, None)
    return {
        "line": line,
        "column": column,
        "key": spelled(fault.path),
        "message": fault.says,
        "hint": fault.hint,
    }


def _place(path: Path, places: Places) -> tuple[int, int] | None:
    """Return where something stands, or what it is in."""
    for length in range(len(path), -1, -1):
        if path[:length] in places:
            return places[path[:length]]
    return None


def plan_record(plan: WorkPlan) -> dict[str, object]:
    """Return a plan as it is kept with a session, in the form that `recorded_plan` reads back exactly."""
    return {
        "goal": plan.goal,
        "source": plan.source,
        "command": plan.command,
        "sprints": list(plan.sprints),
        "tasks": [_task_record(task) for task in plan.tasks],
    }


def encode_plan(plan: WorkPlan) -> str:
    """Return a plan as canonical JSON text."""
    return dumps({**plan_record(plan), "version": VERSION}).decode("ascii")


def decode_plan(text: str | bytes) -> WorkPlan:
    """Return the plan that a text of `encode_plan` holds; `Damaged` if it is none."""
    return recorded_plan(versioned(text, what="a work plan", version=VERSION))


def recorded_plan(fields: Fields) -> WorkPlan:
    """Return the plan of a record; `Damaged` if it is none."""
    return WorkPlan(
        tasks=tuple(_task(item) for item in fields.subs("tasks")),
        goal=fields.text_or_none("goal"),
        sprints=fields.texts("sprints"),
        source=fields.text_or_none("source"),
        command=fields.flag("command"),
    )


def _task_record(task: PlannedTask) -> dict[str, object]:
    return {
        **task.as_dict(),
        "run": _command_value(task.run),
        "check": None if task.check is None else _command_value(task.check),
        "needs": list(task.needs),
        "env": dict(task.env),
    }


def _task_document(task: PlannedTask) -> dict[str, object]:
    """Return a task as its author would write it."""
    record = {key: value for key, value in _task_record(task).items() if value is not None}
    record.pop("sprint", None)
    return record


def _command_value(command: Command) -> object:
    return command if isinstance(command, str) else list(command)


def _task(fields: Fields) -> PlannedTask:
    return PlannedTask(
        id=fields.text("id"),
        run=_command(fields, "run"),
        sprint=fields.text_or_none("sprint"),
        check=None if fields.is_null("check") else _command(fields, "check"),
        retries=fields.number("retries"),
        timeout=fields.decimal_or_none("timeout"),
        on_failure=cast("OnFailure", fields.one_of("on_failure", ON_FAILURE)),
        irreversible=fields.flag("irreversible"),
        risky=fields.flag("risky"),
        needs=fields.texts("needs"),
        env=fields.texts_by_name("env"),
        cwd=fields.text_or_none("cwd"),
    )


def _command(fields: Fields, name: str) -> Command:
    try:
        return fields.texts(name)
    except Damaged:
        return fields.text(name)
