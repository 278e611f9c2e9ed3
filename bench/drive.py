"""The loop of a driver: one JSON request a line on stdin, one JSON answer a line on stdout.

Runs under the peers' own interpreters, so it needs nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable

from peak import own_peak

Request = dict[str, str]
Verb = Callable[[Request], object]


def serve(verbs: dict[str, Verb]) -> None:
    """Answer requests until stdin ends, timing each verb; what a verb returns is the answer's ``ref``."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a peer that prints must not disturb the answers
    known = {**verbs, "busy": _busy, "peak": _peak}
    for line in sys.stdin:
        request: Request = json.loads(line)
        before = time.perf_counter()
        ref = known[request["do"]](request)
        answers.write(json.dumps({"seconds": time.perf_counter() - before, "ref": ref}) + "\n")
        answers.flush()


def _busy(_request: Request) -> object:
    def spin() -> None:
        total = 0
        while True:
            total += 1

    threading.Thread(target=spin, daemon=True).start()
    return None


def _peak(_request: Request) -> object:
    """Return the peak memory of this process and of its largest child, in bytes."""
    # Started from this one, a child is told to have been no larger than this one was.
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(own_peak(), child * 1024)


def files_below(root: str) -> list[str]:
    """Return every file of a workspace, sorted."""
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)


def append_to_ten(paths: list[str], turn: int) -> None:
    """Change ten files cheaply, other ones every turn."""
    for number in range(10):
        with open(paths[(turn * 37 + number * 101) % len(paths)], "a", encoding="utf-8") as file:
            file.write(f"# turn {turn} of {time.time_ns()}\n")
