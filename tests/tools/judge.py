"""Git as the judge of what we write."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git_faults(store: Path) -> str:
    """Return what git finds wrong with a store, an empty text if nothing."""
    if not (store / "objects.git" / "config").exists():
        return ""
    done = subprocess.run(
        ["git", "--git-dir", store / "objects.git", "fsck", "--full", "--strict", "--no-dangling"],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )
    if done.returncode == 0:
        return ""
    # What is in a project's .gitattributes, a directory perhaps, is its own business. Git judges it since
    # 2.39, and a configuration that said so would stop an older git.
    lines = (done.stdout + done.stderr).splitlines()
    faults = [line for line in lines if ": gitattributes" not in line and not line.startswith("notice: ")]
    return "\n".join(faults)
