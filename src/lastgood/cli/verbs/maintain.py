"""maintain: tidy the store; started by itself when it is due."""

from __future__ import annotations

from lastgood.cli.opening import open_for
from lastgood.codec.report.documents import document
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call


def carry_out(call: Call, console: Console) -> int:
    """Tidy, and say what was done."""
    with open_for(call, purpose="need") as workspace:
        done = workspace.maintain()
    if console.json:
        console.document(document("maintain", {"done": list(done)}))
        return 0
    for line in done:
        console.line(printable(line))
    if not done:
        console.note("nothing to do")
    return 0
