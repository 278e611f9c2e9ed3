"""import: take in an export of another store."""

from __future__ import annotations

from lastgood.cli.opening import open_anywhere, open_for
from lastgood.cli.wording import count
from lastgood.codec.report.exchange import import_document
from lastgood.names import printable
from lastgood.workspace.exchange import refuse_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call

_SHOWN = 5


def carry_out(call: Call, console: Console) -> int:
    """Import, and say where the checkpoints are now."""
    attach = call.has("attach")
    refuse_none(call.arguments[0])
    with open_for(call) if attach else open_anywhere(call, purpose="make") as workspace:
        report = workspace.import_file(call.arguments[0], attach=attach)
        here = workspace.path
    if console.json:
        console.document(import_document(report))
        return 0
    known = f", {len(report.known):,} known already" if report.known else ""
    books = f", {count(report.books, 'book')} of the ledger" if report.books else ""
    console.line(f"imported {count(len(report.checkpoints), 'checkpoint')}{books}{known}")
    if report.reduced:
        copies = count(len(report.reduced), "reduced copy")
        console.warn(f"known here as {copies}: what was left out there was not taken in")
        shown = " ".join(report.reduced[:_SHOWN])
        console.warn(
            f"  to have it whole: {call.command(f'delete {shown}')}"
            f" && {call.command('prune --now --yes')}, then import again"
        )
    for one in report.workspaces:
        if one.path == here:
            continue
        if report.attached is not None:
            console.line(f"the checkpoints of {printable(one.path)} are those of {printable(here)} now")
        else:
            console.line(f"they belong to {printable(one.path)}; to have them in another folder:")
            console.line(f"  cd FOLDER && {call.command(f'workspace attach {one.key}')}")
    return 0
