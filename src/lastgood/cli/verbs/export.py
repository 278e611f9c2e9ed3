"""export: checkpoints into one portable file."""

from __future__ import annotations

import os

from lastgood.cli.opening import open_for
from lastgood.cli.wording import count, size
from lastgood.codec.report.exchange import export_document
from lastgood.ids import short
from lastgood.names import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.model.exchange import ExportReport

_OMISSIONS = 3
_SHOWN = 10


def carry_out(call: Call, console: Console) -> int:
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
    if console.json:
        console.document(export_document(report))
        return _OMISSIONS if report.damaged else 0
    console.line(
        f"{printable(report.file)}: {count(len(report.checkpoints), 'checkpoint')}, {size(report.size)}"
    )
    _tell_withheld(report, console)
    if os.path.abspath(report.file).startswith(f"{root}/"):
        console.note("it lies in the workspace: the next save takes it in unless it is ignored")
    for id in report.damaged:
        console.warn(f"left out, being damaged: {short(id)}")
    return _OMISSIONS if report.damaged else 0


def _tell_withheld(report: ExportReport, console: Console) -> None:
    paths = sorted({path for one in report.withheld for path in one.paths})
    for path in paths[:_SHOWN]:
        console.note(f"left out, being private: {printable(to_text(path))}")
    if len(paths) > _SHOWN:
        console.note(f"and {len(paths) - _SHOWN:,} more")
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
