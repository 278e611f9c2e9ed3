"""Has no test hear of what others mount: who watches folders takes all for changed then, and looks anew."""

from __future__ import annotations

import ctypes
import os
import sys

# From <linux/sched.h> and <linux/mount.h>.
_NEW_MOUNTS = 0x20000
_PRIVATE, _AND_BELOW = 1 << 18, 1 << 14


def pytest_configure() -> None:
    """Have this process, and what it starts, see only mounts of its own; who is not root cannot mount."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None)
    if libc.unshare(_NEW_MOUNTS) == 0:
        libc.mount(b"none", b"/", None, _PRIVATE | _AND_BELOW, None)
