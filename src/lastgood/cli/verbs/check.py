"""check: a command's verdict on a checkpoint."""

from __future__ import annotations

from lastgood.cli import values
from lastgood.cli.checking import judged, tell_verdict
from lastgood.cli.opening import looked_up, open_existing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call

_OMISSIONS = 3


def carry_out(call: Call, console: Console) -> int:
    """Check; exit code 3 unless the command passed, and counts."""
    timeout = values.seconds_option(call, "timeout")
    with open_existing(call) as workspace:
        checkpoint = looked_up(call.arguments[0], call, workspace)
        report = judged(workspace, checkpoint.id, call.paths or (), timeout=timeout, console=console)
    if console.json:
        from lastgood.codec.report.recovery import check_document

        console.document(check_document(report))
    else:
        tell_verdict(report, console, note=console.note)
    return 0 if report.good else _OMISSIONS
