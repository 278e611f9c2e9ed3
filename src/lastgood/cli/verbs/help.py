"""help: explain a verb or a topic."""

from __future__ import annotations

from lastgood.cli.help import show_topic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call


def carry_out(call: Call, console: Console) -> int:
    """Explain."""
    return show_topic(call.argument(0), console)
