"""delete: remove checkpoints, undoably."""

from __future__ import annotations

import time

from lastgood.cli.opening import DECLINED, open_for
from lastgood.cli.references import looked_up, refuse_unquoted
from lastgood.cli.restoring import agreed
from lastgood.cli.wording import ago, called, moment
from lastgood.errors import count
from lastgood.ids import short
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.report import DeleteReport


def delete_verb(call: Call, console: Console) -> int:
    """Delete; a person at a terminal is asked first, anybody can undo it."""
    with open_for(call) as workspace:
        refuse_unquoted(call, workspace)
        found = {one.id: one for one in (looked_up(ref, call, workspace) for ref in call.arguments)}
        if console.can_ask and not call.has("yes"):
            for one in found.values():
                console.warn(f"  {called(one)}, {ago(one.manifest.created_at, now=time.time_ns())}")
            if not agreed(f"Delete {count(len(found), 'checkpoint')}?", console):
                return DECLINED
        report = workspace.delete(*found)
    if not console.answer("delete", report):
        tell(report, call, console)
    return 0


def tell(report: DeleteReport, call: Call, console: Console) -> None:
    """Say what was deleted, when its bytes go, and the way back."""
    names = ", ".join(short(one) for one in report.checkpoints[:5])
    more = ", ..." if len(report.checkpoints) > 5 else ""
    console.line(f"deleted {count(len(report.checkpoints), 'checkpoint')}: {names}{more}")
    for id, reason in report.needed.items():
        console.warn(f"{short(id)} was {reason}: once its bytes are freed, that cannot be done any more")
    whose = "its" if len(report.checkpoints) == 1 else "their"
    console.line(f"{whose} bytes are freed after {moment(report.free_after)} at the earliest")
    console.line(f"take it back with: {call.command('undo')}")


# --- name: name a checkpoint ---


def name_verb(call: Call, console: Console) -> int:
    """Name one checkpoint."""
    with open_for(call) as workspace:
        checkpoint = workspace.name(looked_up(call.arguments[0], call, workspace).id, call.arguments[1])
    if not console.answer("name", {"checkpoint": checkpoint}):
        console.line(f"named {checkpoint.short_id}: {printable(checkpoint.name or '')}")
    return 0


# --- pin, unpin: keep a checkpoint for ever, or let retention decide ---


def pin_verb(call: Call, console: Console) -> int:
    """Pin or unpin one checkpoint."""
    verb = call.verb.name
    with open_for(call) as workspace:
        act = workspace.pin if verb == "pin" else workspace.unpin
        checkpoint = act(looked_up(call.arguments[0], call, workspace).id)
    if not console.answer(verb, {"checkpoint": checkpoint}):
        console.line(f"{verb}ned {called(checkpoint)}")
    return 0
