"""What an agent is told when a person asks it to take its work back: the command that goes back by turns."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.hooks.event import HookEvent

# Whoever asks that does so in a few words; a long prompt is about something else.
_LONGEST = 300
_ASKS = re.compile(r"\b(undo|rewind|revert|roll(ing)? ?back|(take|go|put)\b.{0,60}\bback)\b", re.IGNORECASE)


def asks_for_it(event: HookEvent) -> bool:
    """Tell whether a prompt may ask for what the agent did to be taken back."""
    asked = event.kind == "prompt" and not event.is_hosts and len(event.text) <= _LONGEST
    return asked and _ASKS.search(event.text) is not None


def words(lastgood: str) -> str:
    """Return what the agent is told; ``lastgood`` is how the program is called.

    What was shown is named by its checkpoint: a turn later N turns are others.
    """
    return (
        "lastgood keeps a checkpoint of each of your turns. If the person asks to have your work taken back:"
        f" `{lastgood} rewind N --only files --dry-run` shows what going back to before your last N turns"
        " would do, the checkpoint and the plan's id; a turn that changed no file does not count."
        f" Show that to the person. Once they agree, `{lastgood} restore CHECKPOINT --only files --plan ID`"
        " does just that, and says how to undo it."
    )
