"""A workspace that a program drops without closing it holds nothing any more."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import lastgood


def held(folder: Path) -> list[str]:
    """Return the files below a folder that this process has open or mapped."""
    with open("/proc/self/maps") as file:
        found = [line for line in file if str(folder) in line]
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # with which they were listed
            continue
        if path.startswith(str(folder)):
            found.append(path)
    return found


def test_a_workspace_that_is_dropped_lets_go_of_the_store(project: Path, store: Path) -> None:
    (project / "a").write_text("first")
    opened = lastgood.open(project, store=store, maintenance="off")
    opened.save("first", name="first")
    (project / "a").write_text("second")
    opened.save("second")
    opened.restore("first")
    opened.undo()
    assert opened.read("first", "a") == b"first"
    opened.session_start(goal="to be dropped")
    opened.session_end()
    assert held(store) != []
    del opened
    gc.collect()
    assert held(store) == []
