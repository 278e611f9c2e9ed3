"""An interpreter whose processes are killed in the middle of a scan, for certain."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lastgood.scanner.remote import ScanProcess
from tools.scan_processes import ends

# What each process does before all else. As long as there are orders, it takes one when it calls the system
# for its work, not to speak with its owner; it leaves its number, and is gone, or works no more.
_ARMED = """
import os, time
def armed(descriptor, rest, real=os.{call}):
    done = real(descriptor, rest)
    orders = os.listdir({orders!r}) if {when} else []
    if orders:
        os.rename({orders!r} + '/' + orders[0], {killed!r} + '/' + str(os.getpid()))
        time.sleep(600) if orders[0] == 'hold' else os.kill(os.getpid(), 9)
    return done
os.{call} = armed
"""
# A pack is written to behind the three streams; the sheet for the answer is emptied when a question came.
_WHEN = {"write": "descriptor > 2", "ftruncate": "descriptor == 2"}


class Killer:
    """Has processes that scan killed, as many as it is told. ``python`` is what they are to be run with.

    It happens after the first ``write`` to a pack, or after the first ``ftruncate``, when a question came.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, call: str) -> None:
        self._orders, self._killed = folder / "orders", folder / "killed"
        self._orders.mkdir()
        self._killed.mkdir()
        armed = _ARMED.format(call=call, when=_WHEN[call], orders=str(self._orders), killed=str(self._killed))
        self.python = folder / "python-armed"
        self.python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S -B -c "{armed}$5" "$6"\n')
        self.python.chmod(0o755)
        wait = ScanProcess._wait

        def waiting(resident: ScanProcess) -> bytes:
            announced = wait(resident)
            assert all(ends(process) for process in self.killed)  # its last locks go a moment after its pipes
            return announced

        monkeypatch.setattr(ScanProcess, "_wait", waiting)

    @property
    def killed(self) -> list[int]:
        """The processes that took an order so far."""
        return [int(path.name) for path in self._killed.iterdir()]

    def kill(self, count: int) -> None:
        """Kill the next so many, and no more."""
        for order in self._orders.iterdir():
            order.unlink()
        for number in range(count):
            (self._orders / str(number)).touch()

    def hold(self) -> None:
        """Have the next one work no more."""
        (self._orders / "hold").touch()
