"""Reading what hosts send, which may be of any shape, and finding the host above the process that is told."""

from __future__ import annotations

from lastgood.procfs import PARENT, content_of, stat_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "env", "timeout"})
# Under which names tools are told of a file.
_PATHS = ("file_path", "filePath", "path", "absolute_path", "notebook_path")


def text_in(payload: Mapping[str, object], *names: str) -> str | None:
    """Return the first of some fields that is a text that says something."""
    found = (payload.get(name) for name in names)
    return next((one for one in found if isinstance(one, str) and one), None)


def object_in(payload: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return a field that is an object, an empty one where it is none."""
    found = payload.get(name)
    return found if isinstance(found, dict) else {}


def paths_in(given: Mapping[str, object], names: Iterable[str] = _PATHS) -> tuple[str, ...]:
    """Return the files that a tool was told of."""
    return tuple(one for one in (given.get(name) for name in names) if isinstance(one, str) and one)


def context_reply(event: str, text: str) -> dict[str, object]:
    """Return the reply that tells an agent something, as several hosts read it."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def host_above(pid: int) -> int | None:
    """Return the nearest process above one that is more than the shell that started it; None if none is."""
    while len(facts := stat_of(pid)) > PARENT and (pid := int(facts[PARENT])) > 1:
        program = content_of(pid, "cmdline").partition(b"\0")[0].rpartition(b"/")[2].lstrip(b"-")
        if program.decode(errors="replace") not in _SHELLS:
            return pid
    return None
