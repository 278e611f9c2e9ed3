"""recover: finish or roll back an interrupted restore, and say where work stands (rules T7, P7)."""

from __future__ import annotations

from lastgood.cli.opening import open_for
from lastgood.cli.plans import remarks, report_counts
from lastgood.cli.progress import Progress
from lastgood.cli.wording import called, moment
from lastgood.codec.report.restoring import recover_document
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.report import RecoverReport

_OMISSIONS = 3
_DONE = {
    "finished-restore": "finished the interrupted restore",
    "rolled-back-restore": "rolled the interrupted restore back",
}


def carry_out(call: Call, console: Console) -> int:
    """Recover, and report the position of REF or of the latest checkpoint."""
    ref = call.argument(0)
    with open_for(call) as workspace:
        named = None if ref is None else workspace.get(ref)
        with Progress(console, "recovering"):
            report = workspace.recover(roll_back=call.has("rollback"))
    if named is not None:
        report = report.replace(checkpoint=named)
    if console.json:
        console.document(recover_document(report))
    else:
        _tell(report, call, console)
    return _OMISSIONS if any(one.result in {"skipped", "failed"} for one in report.outcomes) else 0


def _tell(report: RecoverReport, call: Call, console: Console) -> None:
    if report.done is None:
        console.line("nothing was interrupted")
    else:
        console.line(f"{_DONE[report.done]}: {report_counts(report.outcomes)}")
        for line in remarks(report.outcomes):
            console.warn(line)
    checkpoint = report.checkpoint
    if checkpoint is None:
        console.line(f"no checkpoint yet; make the first: {call.command('save')}")
        return
    console.line(
        f"checkpoint {called(checkpoint)}, {checkpoint.kind}, {moment(checkpoint.manifest.created_at)}"
    )
    if report.git_matches is False:
        head = "another commit" if checkpoint.manifest.git is None else checkpoint.manifest.git.head or "none"
        console.line(f"git HEAD is not where it was then ({printable(head[:12])})")
    console.line("ready to continue")
    console.note(f"what has changed since then: {call.command(f'diff {checkpoint.short_id} --stat')}")
