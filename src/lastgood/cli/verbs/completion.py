"""completion: a script for a shell."""

from __future__ import annotations

from lastgood.cli.completion import script
from lastgood.codec.report.documents import document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call


def carry_out(call: Call, console: Console) -> int:
    """Print the script."""
    shell = call.arguments[0]
    if console.json:
        console.document(document("completion", {"shell": shell, "script": script(shell)}))
    else:
        console.send(script(shell).encode())
    return 0
