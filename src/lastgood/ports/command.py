"""Commands of the caller, run apart; nothing that a workspace holds is ever run by itself (rule S12)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from lastgood.model.verdict import Ran
    from lastgood.model.workplan import Command
else:
    Protocol = object


class Commands(Protocol):
    """Runs commands; when a call returns, nothing that it started is left.

    Nor is anything left for long if the caller is killed meanwhile.
    """

    def run(
        self, words: Sequence[str], *, directory: bytes, variables: Mapping[str, str], timeout: float
    ) -> Ran:
        """Run a program with its arguments in a folder, standard input empty.

        ``variables`` are added to the caller's environment, ``timeout`` is in seconds.
        """

    def attend(
        self,
        command: Command,
        *,
        directory: bytes,
        variables: Mapping[str, str],
        timeout: float | None,
        output: Callable[[bytes], None],
        tick: Callable[[], None],
        asked: Callable[[], Sequence[int]],
    ) -> Ran:
        """Run a command, a text by the shell, and stay with it; standard input is empty.

        ``output`` gets what it writes, standard output and standard error together, as it comes, in
        parts of at most 64 KiB. ``tick`` is called about every 50 ms. ``asked`` tells which signals
        have come so far that ask the work to end: each is forwarded to the command, which has a few
        seconds then; the same one again ends it at once. All three are called in the caller's thread;
        what they raise ends the command and goes on. ``timeout`` is in seconds, None for no end.
        """
