"""help: explain a verb or a topic."""

from __future__ import annotations

from lastgood.cli.help import show_topic
from lastgood.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console


def help_verb(call: Call, console: Console) -> int:
    """Explain, or print the manual page."""
    if not call.has("man"):
        return show_topic(call.argument(0), console)
    from lastgood.cli.man import manual

    if call.argument(0) is not None:
        raise Usage(
            "the manual page is about everything: --man takes no TOPIC", hint="write: lastgood help --man"
        )
    page = manual()
    if not console.answer("help", {"topic": "man", "text": page}):
        console.send(page.encode("ascii"))
    return 0
