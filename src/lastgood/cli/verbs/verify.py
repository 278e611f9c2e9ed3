"""verify: prove that what is stored is whole (rule K4)."""

from __future__ import annotations

from lastgood.cli.opening import open_for
from lastgood.cli.progress import Progress
from lastgood.cli.wording import count
from lastgood.codec.report.documents import verify_document
from lastgood.ids import short
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.report import VerifyReport

_DAMAGED = 16


def carry_out(call: Call, console: Console) -> int:
    """Verify; exit code 16 where damage remains."""
    repair = call.has("repair")
    with open_for(call, purpose="repair" if repair else "find") as workspace, Progress(console, "verifying"):
        report = workspace.verify(call.argument(0), deep=call.has("deep"), repair=repair)
    if console.json:
        console.document(verify_document(report))
    else:
        _tell(report, call, console)
    return 0 if report.ok else _DAMAGED


def _tell(report: VerifyReport, call: Call, console: Console) -> None:
    for line in report.repaired:
        console.line(f"repaired: {printable(line)}")
    for line in report.faults:
        console.line(f"fault: {printable(line)}")
    for one in report.damaged:
        console.line(f"damaged {short(one.id)}: {printable(one.reason)}")
        for path in one.files:
            console.line(f"  {printable(to_text(path)) or '.'}")
    checked = count(report.checkpoints, "checkpoint")
    if report.unlisted and not call.has("repair"):
        stored = count(report.unlisted, "checkpoint")
        console.line(f"{stored} stored and not listed: of a killed save, or of a row that was lost")
        console.warn(f"list what is stored: {call.command('verify --repair')}")
    if report.ok:
        proof = "restored aside and compared" if call.has("deep") else "every stored byte proven"
        console.line(f"{checked} whole: {proof}")
        return
    if report.damaged:
        console.line(f"{len(report.damaged):,} of {checked} damaged; the others can be restored")
    else:
        console.line(f"{checked} can be restored; the store itself needs mending")
    if not call.has("repair"):
        console.warn(f"mend what can be mended: {call.command('verify --repair')}")
