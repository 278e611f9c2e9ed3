"""The most memory that a process takes, whoever starts it.

What `getrusage` and `wait4` say of a process is also what it was before it ran its program: of one that the
bench starts, the memory of the bench. So commands are started by a process that is smaller than any of them,
and a process that answers is asked what the kernel counted since it runs its program (`VmHWM`, proc(5)).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

# Runs a command, and says on the descriptor that is named first its seconds, kB and exit code.
_STARTING = """
import os, sys, time
telling = int(sys.argv[1])
os.set_inheritable(telling, False)
before = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(child, 0)
seconds = time.perf_counter() - before
os.write(telling, b"%a %d %d" % (seconds, used.ru_maxrss, os.waitstatus_to_exitcode(status)))
"""


def measured(
    command: Sequence[str], *, environment: Mapping[str, str], folder: str | None = None
) -> tuple[str, float, float]:
    """Run a command; return what it prints, its seconds, and the peak of its largest process in bytes."""
    hearing, telling = os.pipe()
    with os.fdopen(hearing, "rb") as told:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _STARTING, str(telling), *command],
                cwd=folder,
                env=environment,
                pass_fds=(telling,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=True,
            )
        finally:
            os.close(telling)
        seconds, peak, code = told.read().split()
    assert int(code) == 0, (code, command)
    return done.stdout, float(seconds), float(peak) * 1024


def own_peak() -> int:
    """Return the peak of this process in bytes."""
    with open("/proc/self/status", "rb") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"VmHWM:"))
