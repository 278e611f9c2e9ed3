"""Checking: what a command says about a checkpoint."""

from __future__ import annotations

import os

from lastgood.errors import Usage
from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.verdict import CheckOrder, CheckReport


class Checks(Door):
    """Verbs that find out what is good."""

    def check(self, ref: str, command: str | Sequence[str], *, timeout: float | None = None) -> CheckReport:
        """Run a command on what a checkpoint holds, and record whether it passed.

        A text goes to ``/bin/sh -c``, a list is a program with its arguments. It runs in the workspace
        if that equals the checkpoint, else in a copy aside; after ``timeout`` seconds (600 unless given)
        it is stopped, and with it all that it started.
        """
        order = order_of(command, timeout=timeout)
        return self._judge(self._view.resolve(ref), order)

    def _judge(self, checkpoint: Checkpoint, order: CheckOrder, *, here: bool = False) -> CheckReport:
        # Lazily: a save without a check has no use for processes.
        from lastgood.actions.check import check
        from lastgood.adapters.command import GuardedCommands
        from lastgood.adapters.stopping import heed
        from lastgood.workspace.aside import in_copy

        return check(
            self._context,
            self._view,
            checkpoint,
            order=order,
            commands=GuardedCommands(os.environ, tick=heed),
            aside=in_copy(self._context.store, name=os.path.basename(self._context.root) or b"copy"),
            here=here,
        )


def order_of(command: str | Sequence[str], *, timeout: float | None) -> CheckOrder:
    """Return a check to be made; `Usage` for what is no command or no number of seconds."""
    from lastgood.model.verdict import CHECK_TIMEOUT, CheckOrder

    words, shown = _read(command)
    return CheckOrder(words=words, shown=shown, timeout=_limit(CHECK_TIMEOUT if timeout is None else timeout))


def _limit(timeout: float) -> float:
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0 < timeout < float("inf"):
        return timeout
    raise Usage(f"the time limit of a check is {timeout!r}", hint="give a number of seconds above 0")


def _read(command: str | Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the words to run, and how they are shown."""
    if isinstance(command, str):
        words, shown = ("/bin/sh", "-c", command), command
    elif isinstance(command, (list, tuple)) and all(isinstance(word, str) for word in command):
        from shlex import join

        words, shown = tuple(command), join(command)
    else:
        raise Usage(f"{command!r} is no command", hint="give a text for the shell, or a list of words")
    if not shown.strip():
        raise Usage("the check command is empty", hint="name a command, for example: pytest -q")
    if any("\0" in word for word in words):
        raise Usage("the check command holds a NUL", hint="no argument of a program can")
    try:
        os.fsencode(shown)
    except UnicodeEncodeError:
        raise Usage("the check command is no Unicode text", hint="write it as UTF-8") from None
    return words, shown
