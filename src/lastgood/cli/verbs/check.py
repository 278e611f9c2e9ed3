"""check: a command's verdict on a checkpoint."""

from __future__ import annotations

import signal

from lastgood.cli import opening
from lastgood.cli.opening import OMISSIONS, ProgressLine, open_for
from lastgood.cli.references import looked_up
from lastgood.cli.wording import called
from lastgood.paths import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import NoReturn

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.checkpoint import CheckReport
    from lastgood.workspace.opened import OpenWorkspace


# --- How a check runs on the command line, and how its verdict is told ---

_LINES_SHOWN = 10
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def judged(
    workspace: OpenWorkspace,
    ref: str,
    command: str | Sequence[str],
    *,
    timeout: float | None,
    console: Console,
) -> CheckReport:
    """Run a check; whoever asks this process to end ends the check with it, and no verdict is recorded."""
    # What is ignored stays ignored: `nohup` means it.
    armed = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in armed:
        signal.signal(number, _interrupt)
    try:
        with ProgressLine(console, "checking"):
            return workspace.check(ref, command, timeout=timeout)
    finally:
        for number in armed:
            signal.signal(number, signal.SIG_DFL)


def tell_verdict(report: CheckReport, console: Console, *, note: Callable[[str], None]) -> None:
    """Tell what the check said, and the end of its output unless it passed."""
    check = report.check
    where = " in a copy aside" if report.aside else ""
    ended = f"{check.seconds:.1f} s" if check.exit_code is None else f"exit code {check.exit_code}"
    shown = f"`{printable(check.command)}`{where} ({ended})"
    if report.good:
        console.line(f"check passed: {called(report.checkpoint)} is good: {shown}")
        return
    if report.good is None:
        console.line(f"check does not count: {shown}")
    else:
        console.line(f"check failed: {shown}")
    if check.reason is not None:
        console.line(f"  {printable(check.reason)}")
    for line in check.output_tail.splitlines()[-_LINES_SHOWN:]:
        note(f"  | {printable(line)}")


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


# --- check: a command's verdict on a checkpoint ---


def check_verb(call: Call, console: Console) -> int:
    """Check; exit code 3 unless the command passed, and counts."""
    timeout = opening.seconds_option(call, "timeout")
    with open_for(call) as workspace:
        checkpoint = looked_up(call.arguments[0], call, workspace)
        report = judged(workspace, checkpoint.id, call.paths or (), timeout=timeout, console=console)
    if not console.answer("check", report):
        tell_verdict(report, console, note=console.note)
    return 0 if report.good else OMISSIONS
