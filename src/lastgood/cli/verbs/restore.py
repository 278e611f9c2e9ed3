"""restore: bring back a checkpoint, whole or some paths."""

from __future__ import annotations

from lastgood.cli.opening import looked_up, open_existing
from lastgood.cli.restoring import DECLINED, check_options, restore
from lastgood.errors import NotFound, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.workspace import Workspace

_OFFERED = 15
_INDENT = 5


def carry_out(call: Call, console: Console) -> int:
    """Restore; without a REF a person picks one."""
    ref = call.argument(0)
    if ref is None and (not console.can_ask or call.has("plan")):
        raise Usage(
            "`restore` needs a REF",
            hint=f"write: lastgood {call.verb.usage}   (the latest is @; `lastgood list` shows all)",
        )
    check_options(call)
    with open_existing(call) as workspace:
        target = _picked(console, workspace) if ref is None else looked_up(ref, call, workspace)
        if target is None:
            console.warn("nothing was changed")
            return DECLINED
        return restore(target, call, console, workspace=workspace)


def _picked(console: Console, workspace: Workspace) -> Checkpoint | None:
    from lastgood.cli.verbs.list import lines

    offered = [one for one in workspace.list(limit=_OFFERED) if one.kind != "guard" or one.name]
    if not offered:
        raise NotFound("there is no checkpoint yet", hint="make the first: lastgood save")
    header, *rows = lines(offered, console, indent=_INDENT)
    console.warn(f"{'':{_INDENT}}{header}")
    for number, row in enumerate(rows, 1):
        console.warn(f"{number:{_INDENT - 2}}  {row}")
    answer = console.ask("Which one? A number or a REF, nothing to leave: ")
    if not answer:
        return None
    if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(offered):
        return offered[int(answer) - 1]
    return workspace.get(answer)
