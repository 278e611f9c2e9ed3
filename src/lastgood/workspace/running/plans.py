"""What is to be carried out: a file, a document, a plan made by a program, or one command."""

from __future__ import annotations

import os

from lastgood.errors import Usage
from lastgood.model.workplan import WorkPlan
from lastgood.rules.nearest import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.workspace.paths import PathLike

_GOAL_LIMIT = 200


def plan_from(given: PathLike | Mapping[str, object] | WorkPlan | Sequence[str]) -> WorkPlan:
    """Return a plan that was given in one of its forms; `Invalid` with reasons, `Usage` for what is none."""
    if isinstance(given, WorkPlan):
        from lastgood.codec.workplan import checked_plan

        return checked_plan(given)
    if isinstance(given, (str, bytes, os.PathLike)):
        from lastgood.adapters.workplan import read_plan
        from lastgood.names import to_text
        from lastgood.workspace.paths import plain

        return read_plan(to_text(plain(given)))
    if hasattr(given, "keys"):
        from lastgood.codec.workplan import plan_of

        return plan_of(dict(given), where="the plan")
    if isinstance(given, (list, tuple)) and all(isinstance(word, str) for word in given):
        from lastgood.rules.workplan import command_plan

        return command_plan(given)
    raise Usage(
        f"{type(given).__name__} is no plan",
        hint="give a file's path, a dict, a WorkPlan, or a list of words: a command",
    )


def goal_of(plan: WorkPlan) -> str | None:
    """Return what a run is for: what its plan says, or the one command."""
    if plan.goal is not None or not plan.command:
        return plan.goal
    from lastgood.rules.workplan import command_text

    text = command_text(plan.tasks[0].run)[:_GOAL_LIMIT]
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def check_named(plan: WorkPlan, ids: Sequence[str], *, option: str) -> frozenset[str]:
    """Return ids of tasks; `Usage` for one that the plan does not have."""
    if isinstance(ids, (str, bytes)) or not all(isinstance(id, str) for id in ids):
        raise Usage(f"{option} takes a list of ids of tasks", hint=f'for example {option}=["T01"]')
    known = [task.id for task in plan.tasks]
    for id in ids:
        if id not in known:
            like = nearest(id, known)
            hint = f"did you mean {like[0]}?" if like else "its tasks: " + ", ".join(known[:10])
            raise Usage(f"the plan has no task {id!r}", hint=hint)
    return frozenset(ids)
