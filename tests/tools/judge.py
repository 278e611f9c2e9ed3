"""Git as the judge of what we write."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git_faults(store: Path) -> str:
    """Return what git finds wrong with a store, an empty text if nothing."""
    if not (store / "objects.git" / "config").exists():
        return ""
    # For each of these, there or not, git would start another git to look after it.
    objects = store / "objects.git" / "objects"
    beside = {"core.commitGraph": "info/commit-graph*", "core.multiPackIndex": "pack/multi-pack-index"}
    absent = (name for name, files in beside.items() if not any(objects.glob(files)))
    without = [word for name in absent for word in ("-c", f"{name}=false")]
    done = subprocess.run(
        ["git", *without, "--git-dir", store / "objects.git", "fsck", "--full", "--strict", "--no-dangling"],
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
