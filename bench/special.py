"""Measurements that do not fit the verbs which all sides share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from drive import append_to_ten, files_below
from peak import measured
from sides import GIT_ENVIRONMENT, ROOT, Git, python_alone

sys.path.insert(0, os.path.join(ROOT, "src"))

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.literals import Consolidation
    from sides import Driven


def remove(path: str) -> None:
    """Remove a folder if it is there."""
    shutil.rmtree(path, ignore_errors=True)


def disk_usage(root: str) -> int:
    """Return the bytes of all files below a folder."""
    return sum(
        os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(root) for name in names
    )


def bare_python() -> float:
    """Return the seconds of `python -c pass`."""
    command = [python_alone(), "-c", "pass"]
    before = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - before


class Turns:
    """Turns of Claude Code as its hooks see them: what is said at each moment, and the transcript."""

    def __init__(self, place: str, root: str) -> None:
        os.makedirs(place, exist_ok=True)
        self._file = os.path.join(place, "payload.json")
        self._common = {
            "session_id": "bench",
            "transcript_path": os.path.join(place, "transcript.jsonl"),
            "cwd": root,
        }
        self._number = 0

    def at(self, event: str, *, command: str = "true") -> str:
        """Return the file that has what is said at an event; the transcript has grown by a line then."""
        with open(self._common["transcript_path"], "ab") as transcript:
            transcript.write(_line(self._number, 300))
        self._number += 1
        said = {
            "hook_event_name": event,
            "prompt": f"turn {self._number}",
            "prompt_id": f"prompt {self._number}",
            "tool_name": "Bash",
            "tool_input": {"command": command},
            "tool_use_id": f"call {self._number}",
        }
        with open(self._file, "w", encoding="utf-8") as file:
            json.dump(self._common | said, file)
        return self._file


def multiply(store: str, *, count: int) -> None:
    """Fill the catalogue with rows that repeat the last checkpoint of a store under new ids."""
    from lastgood.catalogue import Query
    from lastgood.catalogue.checkpoints import SqliteCatalogue
    from lastgood.host import SystemClock
    from lastgood.ids import checkpoint_id

    clock = SystemClock()
    catalogue = SqliteCatalogue.open(os.path.join(store, "catalogue.sqlite3"), clock=clock, durability="fast")
    model = catalogue.find(Query(limit=1))[0]
    for number in range(1, count):
        manifest = model.manifest.replace(
            id=checkpoint_id(clock.random()),
            message=f"save {number}",
            sequence=model.sequence + number,
            created_at=model.manifest.created_at + number,
        )
        catalogue.add(manifest, commit=model.commit, name=None, pinned=False)
    catalogue.close()


def git_log(store: str, *, count: int, rounds: int) -> float:
    """Return the median seconds of `git log -20` over so many commits."""
    remove(store)
    subprocess.run(["git", "init", "-q", "--bare", store], env=GIT_ENVIRONMENT, check=True)
    stream = "".join(
        f"commit refs/heads/saves\ncommitter bench <bench@localhost> {1_700_000_000 + number} +0000\n"
        f"data 4\nsave\n\n"
        for number in range(count)
    )
    subprocess.run(
        ["git", "--git-dir", store, "fast-import", "--quiet"],
        input=stream,
        text=True,
        env=GIT_ENVIRONMENT,
        check=True,
    )
    taken = []
    for _ in range(rounds):
        before = time.perf_counter()
        subprocess.run(
            ["git", "--git-dir", store, "log", "-20", "--format=%h %cI %s", "saves"],
            stdout=subprocess.DEVNULL,
            env=GIT_ENVIRONMENT,
            check=True,
        )
        taken.append(time.perf_counter() - before)
    return sorted(taken)[len(taken) // 2]


def rate_in_one_store(side: Callable[[], Driven], roots: list[str], store: str, *, saves: int) -> float:
    """Return how many saves a second processes of their own make together into one store."""
    remove(store)
    drivers = [side() for _ in roots]
    for driver, root in zip(drivers, roots, strict=True):
        driver.start(root, store)
        driver.save()
    before = time.perf_counter()
    for driver in drivers:
        driver.send("burst", count=str(saves))
    for driver in drivers:
        driver.receive("burst")
    seconds = time.perf_counter() - before
    for driver in drivers:
        driver.close()
    remove(store)
    return len(roots) * saves / seconds


def rate_of_git(roots: list[str], store: str, *, saves: int) -> float:
    """Return how many shadow commits a second go into repositories of their own."""
    sides = []
    for number, root in enumerate(roots):
        side = Git()
        side.open(root, f"{store}-{number}")
        side.first()
        sides.append(side)
    before = time.perf_counter()
    children = [_burst(side, root, saves=saves) for side, root in zip(sides, roots, strict=True)]
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    seconds = time.perf_counter() - before
    for number in range(len(roots)):
        remove(f"{store}-{number}")
    return len(roots) * saves / seconds


def _burst(side: Git, root: str, *, saves: int) -> int:
    child = os.fork()
    if child:
        return child
    paths = files_below(root)
    for turn in range(saves):
        append_to_ten(paths, turn)
        side.save()
    os._exit(0)


def consolidate(store: str, extent: Consolidation = "all") -> None:
    """Join packs of a store of ours, as the idle maintenance does: all, or those that are due."""
    from lastgood.locks import FlockLocks
    from lastgood.objects.engine import GitEngine

    directory = os.fsencode(store)
    engine = GitEngine(directory + b"/objects.git", temporary=directory + b"/tmp")
    with FlockLocks(directory).maintenance(wait=120):
        engine.consolidate(extent)
    engine.close()


class MeasuredGit(Git):
    """Git, with the most memory in bytes that a command took."""

    peak = 0.0

    def git(self, *arguments: str) -> str:
        """Run one git command and return what it prints."""
        command = ["git", *arguments]
        printed, _, peak = measured(command, environment=self._environment, folder=self._workspace)
        self.peak = max(self.peak, peak)
        return printed.strip()


def peak_of_git(root: str, store: str) -> float:
    """Return the peak memory in bytes of the largest of git's processes in a first save."""
    side = MeasuredGit()
    side.open(root, store)
    side.first()
    return side.peak


def _line(number: int, size: int) -> bytes:
    """Return a line as long as a turn's addition, of text that compresses like text."""
    words = " ".join(f"word{(number * 7919 + place * 104729) % 99_991}" for place in range(size // 10))
    record = {"type": "user", "sessionId": "bench", "message": {"role": "user", "content": words}}
    return json.dumps(record).encode() + b"\n"


def spoken_by_ours(place: str, *, saves: int, piece: int) -> list[float]:
    """Return the seconds of each save of a growing transcript; idle work is done in between, unmeasured."""
    import lastgood

    project, transcript = os.path.join(place, "project"), os.path.join(place, "transcript.jsonl")
    os.makedirs(project)
    taken = []
    with lastgood.open(project, store=os.path.join(place, "store"), maintenance="off") as workspace:
        for number in range(saves):
            with open(transcript, "ab") as file:
                file.write(_line(number, piece))
            before = time.perf_counter()
            workspace.save(kind="turn", transcript=transcript)
            taken.append(time.perf_counter() - before)
            if number % 50 == 49:
                workspace.maintain()
    return taken


def spoken_by_git(place: str, *, saves: int, piece: int) -> list[float]:
    """Return the seconds of each of the last commits of the same file; those before would take hours."""
    os.makedirs(place)
    environment = GIT_ENVIRONMENT | {"GIT_CONFIG_COUNT": "0"}
    subprocess.run(["git", "init", "-q", place], env=environment, check=True)
    taken = []
    first = max(0, saves - 12)
    with open(os.path.join(place, "transcript.jsonl"), "ab") as file:
        for number in range(saves):
            file.write(_line(number, piece))
            if number < first:
                continue
            file.flush()
            before = time.perf_counter()
            for words in (["add", "transcript.jsonl"], ["-c", "gc.auto=0", "commit", "-q", "-m", "turn"]):
                subprocess.run(["git", *words], cwd=place, env=environment, check=True)
            taken.append(time.perf_counter() - before)
    return taken
