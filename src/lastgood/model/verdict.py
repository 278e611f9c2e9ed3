"""What came of a check command, and what it says about a checkpoint."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from lastgood.model.checkpoint import Check, Checkpoint

    Ending = Literal["exited", "killed", "stopped", "unstarted"]

CHECK_TIMEOUT = 600.0


class Ran(Value):
    """What came of a command.

    ``code`` is its exit code if it ``exited``, the number of the signal if it was ``killed``, else 0.
    ``stopped`` means that it was still running when its time was over. ``tail`` is the end of what it
    wrote to standard output and standard error together. ``fault`` says why it could not start.
    """

    ending: Ending
    code: int
    seconds: float
    tail: bytes
    fault: str = ""


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
