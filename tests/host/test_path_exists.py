"""Whether a path is there is told, also in a sandbox that refuses new calls of the system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.files import path_exists

# Refuses faccessat2(2) with EPERM, as container runtimes do that are older than the call; then asks.
_REFUSED = """
import ctypes, struct, sys
words = [(0x20, 0, 0, 0), (0x15, 0, 1, 439), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("HBBI", *word) for word in words)
held = ctypes.create_string_buffer(code, len(code))
program = struct.pack("@HP", len(words), ctypes.addressof(held))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
    sys.exit("no sandbox")
from lastgood.files import path_exists
print(*map(path_exists, sys.argv[1:]))
"""


def test_what_is_there_is_found_and_nothing_else(tmp_path: Path) -> None:
    assert path_exists(os.fsencode(tmp_path))
    assert not path_exists(os.fsencode(tmp_path / "none"))


@pytest.mark.skipif(sys.platform != "linux", reason="a filter of Linux")
def test_it_is_found_where_a_sandbox_refuses_the_call_that_asks_for_who_acts(tmp_path: Path) -> None:
    asked = subprocess.run(
        [sys.executable, "-c", _REFUSED, tmp_path, tmp_path / "none"],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    if asked.stderr.strip() == "no sandbox":
        pytest.skip("no filter can be set here")
    assert asked.stdout.split() == ["True", "False"]
