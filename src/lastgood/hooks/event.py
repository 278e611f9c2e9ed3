"""What hosts of coding agents tell of, whatever each calls it."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    EventKind = Literal[
        "session-start",
        "prompt",
        "tool",
        "tool-end",
        "tool-failed",
        "batch-end",
        "turn-end",
        "compaction",
        "agent-start",
        "agent-end",
        "session-end",
    ]

_LABEL = 200


class HookEvent(Value):
    """Something that happens in a host.

    ``session`` is what the host calls the conversation, ``transcript`` the file that it keeps it in (which
    need not be there yet), ``owner`` the host's process. ``text`` is what a person asked for in a prompt, and
    else why it happens, in the host's words. A ``tool`` is about to be used ("tool"), or was, by one
    ``call``: ``command`` is what it has a shell carry out, ``paths`` are those that it names, ``changes`` the
    only ones that it changes, None where the host does not say that. ``agent`` is
    the sub-agent in which it happens, if any. A host that is in a hurry gives us so many ``seconds``.
    A turn that a person broke off ``is_cut``, a prompt that the host wrote itself ``is_hosts``. With the
    ``is_last`` of its turns a session ends. One that ``goes_on`` was told to have ended before, and whoever
    was told of that had the agent go on. ``moment`` is what the host calls just this, if it does:
    whatever else is told alike happened at another.
    """

    host: str
    kind: EventKind
    session: str
    folder: str
    transcript: str | None = None
    owner: int | None = None
    text: str = ""
    tool: str | None = None
    command: str | None = None
    call: str | None = None
    paths: tuple[str, ...] = ()
    changes: tuple[str, ...] | None = None
    agent: str | None = None
    seconds: float | None = None
    is_cut: bool = False
    is_hosts: bool = False
    is_last: bool = False
    goes_on: bool = False
    moment: str | None = None

    @property
    def label(self) -> str:
        """The text, or the command, as one line that is not long."""
        line = " ".join((self.command or self.text).split())
        return line if len(line) <= _LABEL else line[: _LABEL - 1] + "…"
