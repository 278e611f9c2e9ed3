"""pin, unpin: keep a checkpoint for ever, or let retention decide."""

from __future__ import annotations

from lastgood.cli.opening import looked_up, open_existing
from lastgood.cli.wording import called
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import checkpoint_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call


def carry_out(call: Call, console: Console) -> int:
    """Pin or unpin one checkpoint."""
    verb = call.verb.name
    with open_existing(call) as workspace:
        act = workspace.pin if verb == "pin" else workspace.unpin
        checkpoint = act(looked_up(call.arguments[0], call, workspace).id)
    if console.json:
        console.document(document(verb, {"checkpoint": checkpoint_record(checkpoint)}))
    else:
        console.line(f"{verb}ned {called(checkpoint)}")
    return 0
