"""What came of a check command, and what it says about a checkpoint."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from lastgood.model.checkpoint import Check, Checkpoint
    from lastgood.model.session import Living

    Ending = Literal["exited", "killed", "stopped", "interrupted", "unstarted"]

CHECK_TIMEOUT = 600.0


class Ran(Value):
    """What came of a command.

    ``code`` is its exit code if it ``exited``, the number of the signal if it was ``killed``, or if the
    caller was asked to end and it was ``interrupted`` with it, whatever it made of that; else 0.
    ``stopped`` means that it was still running when its time was over. ``tail`` is the end of what it
    wrote to standard output and standard error together. ``fault`` says why it could not start.
    ``left`` is what it had started and left running, which was ended after it.
    """

    ending: Ending
    code: int
    seconds: float
    tail: bytes
    fault: str = ""
    left: tuple[Living, ...] = ()


class CheckOrder(Value):
    """A check to be made: a program with its arguments, how it is shown, and its time in seconds."""

    words: tuple[str, ...]
    shown: str
    timeout: float = CHECK_TIMEOUT


class CheckReport(Value):
    """A checkpoint with its verdict; ``aside`` tells that the command ran in a copy, not in the workspace."""

    checkpoint: Checkpoint
    good: bool | None
    check: Check
    aside: bool
