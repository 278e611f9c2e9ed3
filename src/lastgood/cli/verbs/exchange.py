"""export: checkpoints into one portable file."""

from __future__ import annotations

import os

from lastgood.cli.opening import OMISSIONS, open_for
from lastgood.cli.wording import size
from lastgood.errors import count
from lastgood.ids import short
from lastgood.paths import printable, quoted, to_text
from lastgood.workspace.exchange import refuse_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.exchange import ExportReport


_SHOWN_WITHHELD = 10


def export_verb(call: Call, console: Console) -> int:
    """Export, and say what was held back."""
    file, *refs = call.arguments
    with open_for(call, purpose="need") as workspace:
        report = workspace.export(
            file,
            *refs,
            private=call.has("private"),
            conversation=not call.has("no-conversation"),
            exact=call.has("exact"),
            allow_secrets=call.has("allow-secrets"),
        )
        root = workspace.path
    if console.answer("export", report):
        return OMISSIONS if report.damaged else 0
    console.line(
        f"{printable(report.file)}: {count(len(report.checkpoints), 'checkpoint')}, {size(report.size)}"
    )
    _tell_withheld(report, console)
    if os.path.abspath(report.file).startswith(f"{root}/"):
        console.note("it lies in the workspace: the next save takes it in unless it is ignored")
    for id in report.damaged:
        console.warn(f"left out, being damaged: {short(id)}")
    return OMISSIONS if report.damaged else 0


def _tell_withheld(report: ExportReport, console: Console) -> None:
    paths = sorted({path for one in report.withheld for path in one.paths})
    for path in paths[:_SHOWN_WITHHELD]:
        console.note(f"left out, being private: {printable(to_text(path))}")
    if len(paths) > _SHOWN_WITHHELD:
        console.note(f"and {len(paths) - _SHOWN_WITHHELD:,} more")
    books = report.books_withheld
    if books:
        console.note(f"left out, being private: {count(books, 'book')} of the ledger")
    if books is None:
        console.warn("the ledger stays here, and cannot be read: lastgood verify")
    if paths or books:
        console.note("to take them along: --private")
    changed = sum(one.redacted for one in report.withheld)
    if changed:
        console.note(f"texts of {count(changed, 'checkpoint')} leave without what looks like a secret")
    without = sum(one.conversation for one in report.withheld)
    if without:
        console.note(f"{count(without, 'checkpoint')} without conversation")


# --- import: take in an export of another store ---

_SHOWN_REDUCED = 5


def import_verb(call: Call, console: Console) -> int:
    """Import, and say where the checkpoints are now."""
    attach = call.has("attach")
    refuse_none(call.arguments[0])
    with open_for(call, purpose="make", anywhere=not attach) as workspace:
        report = workspace.import_file(call.arguments[0], attach=attach)
        here = workspace.path
        present = {one.key for one in workspace.workspaces() if one.present}
    if console.answer("import", report):
        return 0
    known = f", {len(report.known):,} known already" if report.known else ""
    books = f", {count(report.books, 'book')} of the ledger" if report.books else ""
    console.line(f"imported {count(len(report.checkpoints), 'checkpoint')}{books}{known}")
    if report.reduced:
        copies = count(len(report.reduced), "reduced copy")
        console.warn(f"known here as {copies}: what was left out there was not taken in")
        shown = " ".join(report.reduced[:_SHOWN_REDUCED])
        console.warn(
            f"  to have it whole: {call.command(f'delete {shown}')}"
            f" && {call.command('prune --now --yes')}, then import again"
        )
    for one in report.workspaces:
        if one.path == here:
            continue
        if report.attached is not None:
            console.line(f"the checkpoints of {printable(one.path)} are those of {printable(here)} now")
        elif one.key in present:
            console.line(f"they belong to {printable(one.path)}, which is here:")
            console.line(f"  {call.command('list', folder=quoted(one.path))}")
        else:
            console.line(f"they belong to {printable(one.path)}; to have them in another folder:")
            console.line(f"  {call.command(f'workspace attach {one.key}', folder='FOLDER')}")
    return 0
