"""Work plans: their order, whether two of them are the same work, and how they are kept."""

from __future__ import annotations

from _sha1 import sha1

from lastgood.errors import Invalid
from lastgood.model import canonical
from lastgood.model.run import ON_FAILURE, PlannedTask, WorkPlan
from lastgood.model.session import COMMAND_TASK
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.model.run import Command


class Differences(Value):
    """How a plan differs from what it was; ``changed`` has an id and the names of the fields."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    reordered: bool = False

    @property
    def empty(self) -> bool:
        """Whether both plans are the same work."""
        return self == Differences()

    def sentences(self) -> tuple[str, ...]:
        """Return what differs, a line for each task."""
        lines = [f"task {id} is new" for id in self.added]
        lines += [f"task {id} is gone" for id in self.removed]
        lines += [f"task {id}: its {_edited(fields)} edited" for id, fields in self.changed]
        if self.reordered:
            lines.append("the tasks come in another order")
        return tuple(lines)


def command_plan(words: Sequence[str]) -> WorkPlan:
    """Return the plan of one command: a program and its arguments."""
    if not words or not words[0]:
        raise Invalid("there is no command to run", hint="write for example: lastgood run -- make test")
    for word in words:
        fault = text_fault(word)
        if fault:
            raise Invalid(f"an argument of the command {fault}", hint="no program can be given that")
    return WorkPlan(tasks=(PlannedTask(id=COMMAND_TASK, run=tuple(words)),), command=True)


def text_fault(text: str) -> str | None:
    """Return why no program could be given a text, None if one could."""
    if "\0" in text:
        return "has a NUL character"
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "is no Unicode text"
    return None


def command_text(command: Command) -> str:
    """Return a command in one line, as it is shown and as patterns are compared with it."""
    return command if isinstance(command, str) else " ".join(command)


def matches(pattern: str, command: Command) -> bool:
    """Tell whether a pattern is found anywhere in a command; ``*`` in it stands for any text."""
    text, at = command_text(command), 0
    for part in pattern.split("*"):
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def cycle(tasks: Sequence[PlannedTask]) -> tuple[str, ...]:
    """Return the ids of tasks that need each other in a circle, the first one twice; nothing if none do.

    Needs that no task has the id of are passed over.
    """
    needs = {task.id: task.needs for task in tasks}
    sound: set[str] = set()
    for task in tasks:
        found = _circle(task.id, needs, sound)
        if found:
            return found
    return ()


def _circle(start: str, needs: Mapping[str, tuple[str, ...]], sound: set[str]) -> tuple[str, ...]:
    """Look for a circle from a task on, without recursion; what leads to none is added to ``sound``."""
    trail: dict[str, int] = {start: 0}  # in the order in which it was entered, with the next need to follow
    while trail:
        id, turn = next(reversed(trail.items()))
        if id in sound or turn >= len(needs[id]):
            sound.add(id)
            del trail[id]
            continue
        trail[id] += 1
        need = needs[id][turn]
        if need in trail:
            ids = list(trail)
            return (*ids[ids.index(need) :], need)
        if need in needs and need not in sound:
            trail[need] = 0
    return ()


def ordered(tasks: Sequence[PlannedTask]) -> tuple[PlannedTask, ...]:
    """Return tasks as written, but each after what it needs; `Invalid` if they need each other."""
    circle = cycle(tasks)
    if circle:
        raise Invalid(f"tasks need each other: {' needs '.join(circle)}", hint="take one of the needs away")
    from heapq import heappop, heappush

    place = {task.id: index for index, task in enumerate(tasks)}
    waiting = {task.id: len({need for need in task.needs if need in place}) for task in tasks}
    followers: dict[str, list[str]] = {}
    for task in tasks:
        for need in dict.fromkeys(task.needs):
            followers.setdefault(need, []).append(task.id)
    ready = [place[task.id] for task in tasks if not waiting[task.id]]
    found: list[PlannedTask] = []
    while ready:
        task = tasks[heappop(ready)]
        found.append(task)
        for follower in followers.get(task.id, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, place[follower])
    return tuple(found)


# What makes a task another piece of work. The rest (retries, timeout, on_failure, risky, terminal) says how
# it is looked after: it may be changed between two starts of one run.
_STRUCTURE = ("sprint", "run", "check", "irreversible", "needs", "env", "cwd")


def fingerprint(plan: WorkPlan) -> str:
    """Return a digest of what a plan does: equal for plans between which `compare` finds no difference.

    The tasks in their order, and of each the id, sprint, command, check, needs, env, cwd and whether
    it is irreversible. Goal, comments, retries, timeouts, failure policies and who has the terminal do
    not count.
    """
    tasks = tuple((task.id, *_structure(task).values()) for task in plan.tasks)
    digest: bytes = sha1(_spelled((tasks, plan.command)), usedforsecurity=False).digest()
    return digest.hex()


def compare(old: WorkPlan, new: WorkPlan) -> Differences:
    """Return how the work of a plan differs from what it was, by the ids of its tasks."""
    before = {task.id: _structure(task) for task in old.tasks}
    after = {task.id: _structure(task) for task in new.tasks}
    both = [id for id in after if id in before]
    return Differences(
        added=tuple(id for id in after if id not in before),
        removed=tuple(id for id in before if id not in after),
        changed=tuple(
            (id, tuple(field for field in _STRUCTURE if before[id][field] != after[id][field]))
            for id in both
            if before[id] != after[id]
        ),
        reordered=both != [id for id in before if id in after],
    )


def _structure(task: PlannedTask) -> dict[str, object]:
    fields = task.as_dict()
    return {field: fields[field] for field in _STRUCTURE} | {
        "needs": tuple(sorted(set(task.needs))),
        "env": tuple(sorted(task.env.items())),
    }


def _spelled(value: object) -> bytes:
    """Return texts, tuples, flags and None as bytes, different ones for different values."""
    if isinstance(value, str):
        content = value.encode("utf-8", "surrogatepass")
        return b"%d:%b" % (len(content), content)
    if isinstance(value, tuple):
        return b"(%b)" % b"".join(_spelled(item) for item in value)
    return b"-" if value is None else b"+" if value else b"!"


def _edited(fields: Sequence[str]) -> str:
    return _listed([f"`{field}`" for field in fields]) + (" was" if len(fields) == 1 else " were")


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# --- Plans as they are kept with a session ---


def _words(given: object) -> tuple[str, ...]:
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        return tuple(given)
    raise canonical.Wrong("a text")


TASK = canonical.Form(
    PlannedTask,
    sparse="transcript terminal",
    Command=canonical.Converter(
        _words, lambda command: command if isinstance(command, str) else list(command), kind=str
    ),
    OnFailure=canonical.words(*ON_FAILURE),
)
PLAN = canonical.Form(WorkPlan, "a work plan", version=1, PlannedTask=TASK)
