"""What the end of a check command says about a checkpoint, decided from its end alone."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.verdict import Ran

# What a shell (and `env`) says of a command that it cannot find, or not execute (POSIX, 2.8.2).
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


def verdict(ran: Ran, *, doubt: str | None, timeout: str) -> tuple[bool | None, str | None]:
    """Return whether a checkpoint is good, None if the check does not count, and the reason in words.

    ``doubt`` says why what was checked was not what the checkpoint holds. A check that did not end in
    its time, or died, has failed; one that never ran says nothing.
    """
    unrun = _unrun(ran)
    if unrun is not None or doubt is not None:
        return None, unrun or doubt
    if ran.ending == "stopped":
        return False, f"it was stopped after {timeout}"
    if ran.ending == "killed":
        return False, f"it was killed by {_signal(ran.code)}"
    return ran.code == 0, None


def _unrun(ran: Ran) -> str | None:
    if ran.ending == "unstarted":
        return f"the command could not be run: {ran.fault}"
    if ran.ending == "interrupted":
        return f"it was interrupted by {_signal(ran.code)}"
    if ran.ending != "exited" or ran.code not in {_NOT_EXECUTABLE, _NOT_FOUND}:
        return None
    what = "was not found" if ran.code == _NOT_FOUND else "cannot be executed"
    return f"the command {what} (exit code {ran.code})"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
