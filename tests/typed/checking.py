"""What mypy says about a program that uses lastgood."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPTIONS = ("--strict", "--follow-imports=silent", "--config-file=", "--no-error-summary")
CACHE = ROOT / ".cache" / "mypy-of-users"


def faults(program: Path) -> dict[int, str]:
    """Return what mypy says about a program, by line; lastgood is what it imports, and not to be judged."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # the tests share the cache, and may run beside each other
        done = subprocess.run(
            [sys.executable, "-m", "mypy", *OPTIONS, f"--cache-dir={CACHE}", program.name],
            cwd=program.parent,
            env=dict(os.environ) | {"MYPYPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    assert not done.stderr, done.stderr
    found = re.findall(rf"^{program.name}:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert done.returncode == bool(found), done.stdout
    return {int(line): text for line, text in found}
