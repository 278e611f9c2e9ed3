"""rewind: go back to before the Nth last turn."""

from __future__ import annotations

from lastgood.cli import values
from lastgood.cli.opening import open_existing
from lastgood.cli.restoring import check_options, restore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call


def carry_out(call: Call, console: Console) -> int:
    """Find the checkpoint N back, and restore it."""
    text = call.argument(0)
    steps = 1 if text is None else values.number(text, what="N")
    check_options(call)
    with open_existing(call) as workspace:
        return restore(workspace.rewound(steps), call, console, workspace=workspace)
