"""run: from what was asked for to the report."""

from __future__ import annotations

import os

from lastgood.adapters.command import GuardedCommands
from lastgood.adapters.outputs import OutputFolder
from lastgood.errors import Usage
from lastgood.model.recovery import CHOICES
from lastgood.model.running import RunReport
from lastgood.workspace.outputs import outputs_of
from lastgood.workspace.running.conductor import Conductor
from lastgood.workspace.running.plans import check_named, plan_from
from lastgood.workspace.running.resuming import Orders, Wish, alone, engage, reviewed
from lastgood.workspace.running.signals import Signals
from lastgood.workspace.running.stage import Stage
from lastgood.workspace.running.telling import Telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.model.recovery import Choice
    from lastgood.model.running import RunObserver
    from lastgood.model.workplan import WorkPlan
    from lastgood.workspace.paths import PathLike
    from lastgood.workspace.running.hands import Hands


def run(
    hands: Hands,
    given: PathLike | Mapping[str, object] | WorkPlan | Sequence[str],
    *,
    choice: Choice | None,
    rebase: bool,
    redo: Sequence[str],
    done: Sequence[str],
    observer: RunObserver | None,
    output: Callable[[bytes], object] | None,
) -> RunReport:
    """Carry out a plan."""
    if choice is not None and choice not in CHOICES:
        raise Usage(f"{choice!r} is no choice", hint="choices: " + ", ".join(CHOICES))
    if observer is not None and not callable(observer):
        raise Usage("the observer cannot be called", hint="give a function that takes an event")
    plan = plan_from(given)
    orders = Orders(redo=check_named(plan, redo, option="redo"), done=check_named(plan, done, option="done"))
    both = sorted(set(orders.redo) & set(orders.done))
    if both:
        raise Usage(f"task {both[0]} cannot be done and be done again", hint="give --done or --redo")
    if choice == "review":
        return reviewed(hands, plan)
    with Signals() as signals, alone(hands, signals):
        engaged = engage(hands, plan, Wish(choice=choice, rebase=rebase), orders=orders, signals=signals)
        if isinstance(engaged, RunReport):
            return engaged
        inside = engaged.hands
        stage = Stage(
            inside,
            plan,
            telling=Telling(inside, plan, observer=observer, output=output),
            signals=signals,
            commands=GuardedCommands(os.environ),
            outputs=OutputFolder(outputs_of(os.fsencode(inside.store), inside.key, inside.own)),
        )
        return Conductor(stage, orders=orders, engaged=engaged).carry_out()
