"""Progress, sessions and steps of the work as canonical JSON."""

from __future__ import annotations

from lastgood.codec.canonical import Fields, checked, dumps, path_value, versioned
from lastgood.codec.moment import iso
from lastgood.model.effect import EFFECT_STATES, Effect
from lastgood.model.progress import TASK_STATES, Features, Position, Progress, Task
from lastgood.model.session import SESSION_STATES, Owner, Session
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.effect import EffectState
    from lastgood.model.progress import TaskState
    from lastgood.model.session import SessionState

VERSION = 1


def progress_record(progress: Progress) -> dict[str, object]:
    """Return progress with its position, in the form that `progress_of` reads back exactly."""
    return {**_record(progress), "tasks": [task.as_dict() for task in progress.tasks]}


def written_progress(progress: Progress) -> dict[str, object]:
    """Return the same for `dumps` alone: of many tasks those that did not change are not written anew."""
    if not progress.tasks:
        return {**_record(progress), "tasks": []}
    from lastgood.codec.tasks import tasks_text  # lazily: most saves know of no tasks

    return {**_record(progress), "tasks": tasks_text(progress.tasks)}


def _record(progress: Progress) -> dict[str, object]:
    return {
        "goal": progress.goal,
        "position": position_record(progress.position),
        "features": {
            "current": progress.features.current,
            "completed": list(progress.features.completed),
        },
        "state": dict(progress.state),
    }


def position_record(position: Position) -> dict[str, object]:
    """Return a position as the interface's JSON has it."""
    return {**position.as_dict(), "artifacts": [path_value(path) for path in position.artifacts]}


def shown_progress(progress: Progress) -> dict[str, object]:
    """Return progress as the interface's JSON has it: moments as ISO 8601, the position apart."""
    record = _record(progress)
    del record["position"]
    record["tasks"] = [
        {
            **task.as_dict(),
            "started_at": None if task.started_at is None else iso(task.started_at),
            "ended_at": None if task.ended_at is None else iso(task.ended_at),
        }
        for task in progress.tasks
    ]
    return record


def progress_of(fields: Fields | None, *, known: tuple[Task, ...] = ()) -> Progress:
    """Return the progress that a record holds; the empty one of none.

    ``known`` are its tasks, where they need not be read.
    """
    if fields is None:
        return Progress()
    features = fields.sub("features")
    return Progress(
        goal=fields.text_or_none("goal"),
        position=_position(fields.sub("position")),
        tasks=known or tuple([_task(item) for item in fields.subs("tasks")]),
        features=Features(current=features.text_or_none("current"), completed=features.texts("completed")),
        state=fields.object_or_empty("state"),
    )


def _position(fields: Fields) -> Position:
    return Position(
        phase=fields.text_or_none("phase"),
        iteration=fields.number_or_none("iteration"),
        step=fields.number_or_none("step"),
        steps=fields.number_or_none("steps"),
        sprint=fields.text_or_none("sprint"),
        artifacts=fields.paths("artifacts"),
    )


def _task(fields: Fields) -> Task:
    return Task(
        id=fields.text("id"),
        state=cast("TaskState", fields.one_of("state", TASK_STATES)),
        attempts=fields.number("attempts"),
        started_at=fields.number_or_none("started_at"),
        ended_at=fields.number_or_none("ended_at"),
    )


def encode_progress(progress: Progress) -> str:
    """Return progress as JSON text; equal progress gives equal texts."""
    return _text(written_progress(progress))


def decode_progress(text: str | bytes) -> Progress:
    """Return the progress that a text holds; `Damaged` if it is none."""
    what = "a progress record"
    if isinstance(text, bytes) or '"tasks":[]' in text:
        return progress_of(_fields(text, what=what))
    from lastgood.codec.tasks import read, tasks_text  # lazily: as above

    record, known = read(text, what=what)
    found = progress_of(checked(record, what=what, version=VERSION), known=known)
    if found.tasks and not known:
        tasks_text(found.tasks)  # a run of thousands of tasks reads its record many times for each
    return found


def encode_session(session: Session) -> str:
    """Return a session as JSON text."""
    return _text({**session.as_dict(), "owner": session.owner.as_dict()})


def decode_session(text: str | bytes) -> Session:
    """Return the session that a text holds; `Damaged` if it is none."""
    fields = _fields(text, what="a session")
    owner = fields.sub("owner")
    return Session(
        id=fields.text("id"),
        workspace_key=fields.text("workspace_key"),
        owner=Owner(
            host=owner.text("host"),
            pid=owner.number_or_none("pid"),
            command=owner.text_or_none("command"),
            started=owner.text_or_none("started"),
            boot=owner.text_or_none("boot"),
            namespace=owner.text_or_none("namespace"),
        ),
        started_at=fields.number("started_at"),
        heartbeat_at=fields.number("heartbeat_at"),
        state=cast("SessionState", fields.one_of("state", SESSION_STATES)),
        goal=fields.text_or_none("goal"),
        sprint=fields.text_or_none("sprint"),
        exclusive=fields.flag("exclusive"),
        ended_at=fields.number_or_none("ended_at"),
        ended_by=fields.text_or_none("ended_by"),
        transcript=fields.text_or_none("transcript"),
        took_over=fields.text_or_none("took_over"),
        heartbeat_uptime=fields.number_or_none("heartbeat_uptime"),
        heartbeat_boot=fields.text_or_none("heartbeat_boot"),
    )


def encode_effect(effect: Effect) -> str:
    """Return a step of the work as JSON text."""
    return _text(effect.as_dict())


def decode_effect(text: str | bytes) -> Effect:
    """Return the step of the work that a text holds; `Damaged` if it is none."""
    fields = _fields(text, what="a step of the work")
    return Effect(
        id=fields.text("id"),
        workspace_key=fields.text("workspace_key"),
        name=fields.text("name"),
        started_at=fields.number("started_at"),
        session=fields.text_or_none("session"),
        task=fields.text_or_none("task"),
        attempt=fields.number("attempt"),
        irreversible=fields.flag("irreversible"),
        state=cast("EffectState", fields.one_of("state", EFFECT_STATES)),
        after=fields.number("after"),
        ended_at=fields.number_or_none("ended_at"),
        checkpoint=fields.text_or_none("checkpoint"),
        result=None if fields.is_null("result") else fields.object_or_empty("result"),
    )


def _text(record: dict[str, object]) -> str:
    return dumps({**record, "version": VERSION}).decode("ascii")


def _fields(text: str | bytes, *, what: str) -> Fields:
    return versioned(text, what=what, version=VERSION)
