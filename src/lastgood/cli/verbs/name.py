"""name: name a checkpoint."""

from __future__ import annotations

from lastgood.cli.opening import looked_up, open_existing
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import checkpoint_record
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call


def carry_out(call: Call, console: Console) -> int:
    """Name one checkpoint."""
    with open_existing(call) as workspace:
        checkpoint = workspace.name(looked_up(call.arguments[0], call, workspace).id, call.arguments[1])
    if console.json:
        console.document(document("name", {"checkpoint": checkpoint_record(checkpoint)}))
    else:
        console.line(f"named {checkpoint.short_id}: {printable(checkpoint.name or '')}")
    return 0
