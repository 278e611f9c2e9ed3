"""The plans of runs on their way out of a store, and into another (rules S17, P6)."""

from __future__ import annotations

from lastgood.actions.session import planned_run
from lastgood.codec.exchange_plans import is_sound
from lastgood.codec.workplan import encode_plan
from lastgood.model.exchange import KeptPlan
from lastgood.rules.redact import redact, redact_value
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.exchange import Facts
    from lastgood.model.running import PlannedRun
    from lastgood.model.session import Session
    from lastgood.model.workplan import Command, PlannedTask, WorkPlan
    from lastgood.ports.work import WorkReader


def leaving(work: WorkReader, sessions: Sequence[Session], *, exact: bool) -> tuple[KeptPlan, ...]:
    """Return the plans that sessions carry out: each once, without known secrets unless ``exact``.

    One that no run could begin with (any more) stays.
    """
    found: dict[tuple[str, str], list[str]] = {}
    plans: dict[tuple[str, str], WorkPlan] = {}
    for session in sessions:
        run = work.run(session.id)
        if run is None:
            continue
        plan = run.plan if exact else _shown_plan(run.plan)
        key = session.workspace_key, encode_plan(plan)
        if key not in plans and not is_sound(plan):
            continue
        plans[key] = plan
        found.setdefault(key, []).append(session.id)
    return tuple(
        KeptPlan(sessions=tuple(ids), workspace_key=key[0], plan=plans[key]) for key, ids in found.items()
    )


def arriving(facts: Facts) -> tuple[PlannedRun, ...]:
    """Return the plan of each session that has one; what tells it from an edited one is made anew."""
    sessions = {session.id: session for session in facts.sessions}
    return tuple(planned_run(sessions[id], kept.plan) for kept in facts.plans for id in kept.sessions)


def arriving_bytes(facts: Facts) -> int:
    """Return how much room plans take here, where each session has its own."""
    return sum(len(kept.sessions) * len(encode_plan(kept.plan)) for kept in facts.plans)


def contradict(facts: Facts) -> bool:
    """Tell whether plans are of sessions that the facts do not have, or two of one session."""
    known = {(session.id, session.workspace_key) for session in facts.sessions}
    named = [(id, kept.workspace_key) for kept in facts.plans for id in kept.sessions]
    return len(set(named)) != len(named) or not set(named) <= known


def _shown_plan(plan: WorkPlan) -> WorkPlan:
    return plan.replace(
        goal=None if plan.goal is None else redact(plan.goal),
        tasks=tuple(_shown_task(task) for task in plan.tasks),
    )


def _shown_task(task: PlannedTask) -> PlannedTask:
    return task.replace(
        run=_shown_command(task.run),
        check=None if task.check is None else _shown_command(task.check),
        env=cast("dict[str, str]", redact_value(dict(task.env))),
    )


def _shown_command(command: Command) -> Command:
    return redact(command) if isinstance(command, str) else tuple(redact(word) for word in command)
