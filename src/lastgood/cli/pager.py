"""Shows long output through the person's pager, as git does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import termios
from contextlib import suppress
from select import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# less: end at once if it fits, show colours, leave the text on the screen; and say how to go on.
_LESS = r"FRX-Ps?e(END) q\: leave:space\: more, q\: leave.$"


def paged(content: bytes) -> bool:
    """Show text in the pager and wait for its end; False if it fits on the screen, or there is no pager.

    ``PAGER`` names the program, a command for the shell; without it `less` is used. Who typed the next line
    already goes on: a pager would take that for its own keys.
    """
    command = _pager(os.environ)
    if not command or _fits(content) or _is_typed_ahead():
        return False
    settings = termios.tcgetattr(1)
    started: list[subprocess.Popen[bytes]] = []
    ended: list[int] = []

    def end(number: int, _frame: object) -> None:
        ended.append(number)
        for pager in started:
            pager.terminate()

    # Ctrl-C is the pager's own; whoever ends lastgood ends the pager too, which may have set the terminal
    # before it is known here that it was started.
    handlers = {signal.SIGINT: lambda *_: None, signal.SIGTERM: end, signal.SIGHUP: end}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        with suppress(OSError):
            started.append(_start(command))
        for pager in started:
            if ended:
                pager.terminate()
            pager.communicate(content)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if ended:
        with suppress(OSError, termios.error):  # the terminal may be gone
            termios.tcsetattr(1, termios.TCSANOW, settings)
        os.kill(os.getpid(), ended[0])
    if not started:
        return False
    # These are the shell's words for what cannot be run, or is not there.
    return started[0].returncode not in {126, 127}


def _start(command: str) -> subprocess.Popen[bytes]:
    """Start the person's own choice, from their environment; OSError."""
    environment = {"LESS": _LESS, "LV": "-c", **os.environ}
    return subprocess.Popen(  # noqa: S603 - the person's own choice
        ["/bin/sh", "-c", command], stdin=subprocess.PIPE, env=environment
    )


def _pager(environment: Mapping[str, str]) -> str:
    named = environment.get("PAGER")
    if named is not None:
        return "" if named.strip() in {"", "cat"} else named
    dumb = environment.get("TERM", "dumb") in {"", "dumb", "unknown"}
    return "" if dumb or shutil.which("less") is None else "less"


def _is_typed_ahead() -> bool:
    """Tell whether a whole line waits to be read from the terminal."""
    return os.isatty(0) and bool(select([0], [], [], 0)[0])


def _fits(content: bytes) -> bool:
    try:
        columns, rows = os.get_terminal_size(1)
    except OSError:
        return True
    if not columns or not rows:
        return True
    taken = 0
    for line in content.split(b"\n")[:rows]:
        taken += 1 + len(line) // columns
    return taken < rows
