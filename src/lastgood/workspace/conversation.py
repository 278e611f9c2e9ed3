"""Conversations as callers give them: messages, or the file in which a host writes them down."""

from __future__ import annotations

import os

from lastgood.conversation.capture import GivenConversation
from lastgood.errors import Usage
from lastgood.workspace.arguments import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lastgood.workspace.arguments import PathLike


def given_conversation(
    messages: Iterable[Mapping[str, object]] | None, transcript: PathLike | None, *, alone: bool
) -> GivenConversation | None:
    """Return what to capture; None if neither is given, `Usage` for both, or for what is no message."""
    if messages is not None and transcript is not None:
        raise Usage("messages and a transcript are given", hint="give one of them")
    if transcript is not None:
        # The folder of a link is not the one that the host writes to; where the link leads is.
        return GivenConversation(transcript=os.path.abspath(plain(transcript)), alone=alone)
    return GivenConversation(messages=None if messages is None else _lines(messages), alone=alone)


def _lines(messages: Iterable[Mapping[str, object]]) -> bytes:
    import json

    if isinstance(messages, (str, bytes, dict)) or not hasattr(messages, "__iter__"):
        raise Usage("the messages are no list", hint="give a list of dicts")
    lines = []
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            raise Usage(f"message {place} is {type(message).__name__}, not dict", hint="give a list of dicts")
        try:
            lines.append(json.dumps(message, allow_nan=False, separators=(",", ":")) + "\n")
        except (TypeError, ValueError, RecursionError) as error:
            raise Usage(
                f"message {place} cannot be written as JSON: {error}",
                hint="give texts, numbers, lists, dicts",
            ) from error
    return "".join(lines).encode("ascii")
