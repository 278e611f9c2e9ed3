"""Steps of the work, recorded before they start and after they end (rule P6)."""

from __future__ import annotations

from lastgood.ids import effect_id
from lastgood.model.effect import Effect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.effect import EffectState
    from lastgood.ports.context import Context


def begin(
    context: Context,
    name: str,
    *,
    session: str | None,
    task: str | None = None,
    attempt: int = 1,
    irreversible: bool = False,
) -> Effect:
    """Record a step that is about to start."""
    effect = planned(context, name, session=session, task=task, attempt=attempt, irreversible=irreversible)
    context.work.put_effect(effect)
    return effect


def planned(
    context: Context,
    name: str,
    *,
    session: str | None,
    task: str | None = None,
    attempt: int = 1,
    irreversible: bool = False,
) -> Effect:
    """Return the record of a step that is about to start."""
    facts = context.catalogue.latest_facts(context.key)
    return Effect(
        id=effect_id(context.clock.random()),
        workspace_key=context.key,
        name=name,
        started_at=context.clock.now(),
        session=session,
        task=task,
        attempt=attempt,
        irreversible=irreversible,
        after=0 if facts is None else facts.newest.sequence,
    )


def finish(context: Context, effect: Effect, *, state: EffectState) -> Effect:
    """Record what became of a step."""
    finished = ended(context, effect, state=state)
    context.work.put_effect(finished)
    return finished


def ended(context: Context, effect: Effect, *, state: EffectState) -> Effect:
    """Return the record of a step that ended; of an unknown end nobody knows the time."""
    return effect.replace(state=state, ended_at=None if state == "unknown" else context.clock.now())


def running(context: Context, *, session: str | None, task: str | None = None) -> tuple[Effect, ...]:
    """Return the steps under way: of a session (None: outside any), of one task only if given."""
    found = context.work.effects(context.key, session=session, state="running")
    return tuple(one for one in found if one.session == session and (task is None or _is_of(one, task)))


def forsake(context: Context, session: str) -> tuple[Effect, ...]:
    """Record that nobody will see the end of a session's running steps, and return them."""
    return tuple(finish(context, one, state="unknown") for one in running(context, session=session))


def _is_of(effect: Effect, task: str) -> bool:
    """Tell whether a step is a task itself, rather than something done within it."""
    return effect.task == effect.name == task
