"""Ends what a command left whose watch was killed: all that can be told by its group and its mark."""

from __future__ import annotations

import os
import signal
import time

from lastgood.adapters.procfs import GONE, GROUP, STATE, settled_pids, stat_of, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_STRIDE = 0.05


def sweep(mark: bytes, *, group: int | None, patience: float) -> None:
    """Kill what bears a mark in its environment, or is of a group, until nothing of it is left.

    Gives up after ``patience`` seconds: what the kernel does not let go of cannot be ended.
    """
    enough = time.monotonic() + patience
    while _kill_all(_living(mark, group)) and time.monotonic() < enough:
        time.sleep(_STRIDE)


def _living(mark: bytes, group: int | None) -> Iterator[int]:
    for pid in settled_pids():
        fields = stat_of(pid)
        if len(fields) <= GROUP or fields[STATE] in GONE:
            continue
        if int(fields[GROUP]) == group or mark in words_of(pid, "environ"):
            yield pid


def _kill_all(found: Iterator[int]) -> bool:
    """Kill each as soon as it is found, as some beget the next one at once; False if there was none."""
    killed = False
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # gone meanwhile, or another user's
        killed = True
    return killed
