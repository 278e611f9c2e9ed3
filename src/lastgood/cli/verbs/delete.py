"""delete: remove checkpoints, undoably."""

from __future__ import annotations

from lastgood.cli.opening import looked_up, open_existing
from lastgood.cli.wording import count, moment
from lastgood.codec.report.documents import delete_document
from lastgood.ids import short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.report import DeleteReport


def carry_out(call: Call, console: Console) -> int:
    """Delete without asking: it can be undone."""
    with open_existing(call) as workspace:
        report = workspace.delete(*(looked_up(ref, call, workspace).id for ref in call.arguments))
    if console.json:
        console.document(delete_document("delete", report))
    else:
        tell(report, call, console)
    return 0


def tell(report: DeleteReport, call: Call, console: Console) -> None:
    """Say what was deleted, when its bytes go, and the way back."""
    names = ", ".join(short(one) for one in report.checkpoints[:5])
    more = ", ..." if len(report.checkpoints) > 5 else ""
    console.line(f"deleted {count(len(report.checkpoints), 'checkpoint')}: {names}{more}")
    for id, reason in report.needed.items():
        console.warn(f"{short(id)} was {reason}: once its bytes are freed, that cannot be done any more")
    console.line(f"their bytes are freed after {moment(report.free_after)} at the earliest")
    console.line(f"take it back with: {call.command('undo')}")
