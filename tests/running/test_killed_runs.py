"""Runs that are killed at random moments come to what an uninterrupted run comes to (P6, P7).

Killed are the runner, the task, both, what watches over the task, everything at once; some are asked to
end instead. Each task's effect is counted outside the workspace. The long form, ``scripts/torture
running``, strikes a hundred times, the short one twelve; the seed is printed, and LASTGOOD_RUN_SEED
repeats it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.processes import ProcFiles
from lastgood.procfs import content_of
from tools.command import COMMAND
from tools.judge import git_faults
from tools.living import children, lives
from tools.runs import catches

STRIKES = int(os.environ.get("LASTGOOD_RUN_KILLS", "6"))
# The short form takes the same chances each time: whether a commit is sound must not depend on them.
_CHANCE = random.SystemRandom().getrandbits(20) if STRIKES > 6 else 7
SEED = int(os.environ.get("LASTGOOD_RUN_SEED", "0")) or _CHANCE
# How a strike is made; one run is struck in each way once.
WAYS = ("runner", "task", "both", "watch", "everything", "asked")
MORTAL = {"runner", "both", "everything", "asked"}
ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# The run answers them with an exit code; before it begins, and after its end, they just kill.
SIGNALLED = {code for number in ASKED for code in (128 + number, -number)}
IRREVERSIBLE = ("T04", "T08", "T11")
# What a run may need beyond one attempt a strike: a person who looks what happened, or says so.
MORE_TURNS = 8


def work(folder: Path) -> dict[str, Any]:
    """Return a plan of twelve tasks, of each kind that there is; effects are counted in a folder."""
    return {
        "goal": "ship it",
        "env": {"EFFECTS": str(folder / "effects"), "STARTS": str(folder / "starts")},
        "sprints": [
            {"id": "S01", "tasks": [_appends("T01"), _appends("T02"), _writes("T03"), _ships("T04")]},
            {"id": "S02", "tasks": [_appends("T05"), _writes("T06"), _removes("T07"), _ships("T08")]},
            {"id": "S03", "tasks": [_appends("T09"), _checked("T10"), _ships("T11"), _appends("T12")]},
        ],
    }


def _task(id: str, text: str, **terms: Any) -> dict[str, Any]:
    return {"id": id, "run": f'echo {id} >> "$STARTS"; {text}', **terms}


def _appends(id: str) -> dict[str, Any]:
    """Return a task that must not find what an attempt of itself left: it is taken back first."""
    text = f"echo begin {id} >> CHANGES; mkdir -p src; echo {id} > src/{id}.new; sleep 0.04; "
    text += f"mv src/{id}.new src/{id}.py; echo end {id} >> CHANGES"
    needs = {"T02": ["T01"], "T05": ["T02"], "T09": ["T05"], "T12": ["T09"]}
    return _task(id, text, on_failure="rollback", retries=1, needs=needs.get(id, []))


def _writes(id: str) -> dict[str, Any]:
    """Return a task that may be done again on top of what was half done."""
    text = f"for n in 1 2 3 4; do echo {id} $n > {id}_$n.txt; sleep 0.01; done; chmod 755 {id}_1.txt"
    return _task(id, text, on_failure="keep", retries=1)


def _removes(id: str) -> dict[str, Any]:
    return _task(id, "rm -f T03_4.txt; ln -sf T03_1.txt first; sleep 0.03", on_failure="keep", needs=["T03"])


def _checked(id: str) -> dict[str, Any]:
    text = f"echo half > {id}.txt; sleep 0.03; echo whole > {id}.txt"
    return _task(id, text, check=f"grep -q whole {id}.txt; sleep 0.03", on_failure="rollback", retries=2)


def _ships(id: str) -> dict[str, Any]:
    """Return a task whose effect nothing takes back; it is the last thing that the task does."""
    text = (
        f'echo shipping > {id}.txt; sleep 0.03; echo shipped > {id}.txt; echo {id} >> "$EFFECTS"; sleep 0.03'
    )
    return _task(id, text, irreversible=True)


class Site:
    """A project with a store, a plan outside both, and a person who looks what became of it."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.store = folder / "store"
        self.outside = folder / "outside"
        for made in (self.project, self.outside):
            made.mkdir(parents=True)
        (self.project / "README").write_text("what was there before\n")
        self.plan = self.outside / "plan.json"
        self.plan.write_text(json.dumps(work(self.outside)))
        self.unknown: list[str] = []

    def start(self, *flags: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, COMMAND, "run", str(self.plan), "--json", *flags],
            cwd=self.project,
            env=os.environ | {"LASTGOOD_STORE": str(self.store)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def end_of(self, runner: subprocess.Popen[bytes]) -> list[str]:
        """Wait for a runner's end, and return what a person has to say before the next one."""
        out, err = runner.communicate(timeout=120)
        assert runner.returncode in {0, 3, -signal.SIGKILL, *SIGNALLED}, err.decode()
        assert b"Traceback" not in err, err.decode()
        lines = [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith(b"\n")]
        if not lines or lines[-1].get("event") != "finished":
            assert runner.returncode not in {0, 3}, lines[-1:]
            return []
        report = lines[-1]["report"]
        if runner.returncode in {0, 3}:
            assert (runner.returncode == 0) == (report["state"] == "done")
        unknown = {one["task"] for one in report["unknown_effects"] if one["irreversible"]}
        self.unknown += sorted(unknown)
        undone = [one["id"] for one in report["tasks"] if one["state"] != "done" and one["id"] in unknown]
        happened = self.lines("effects")
        return [word for id in undone for word in ("--done" if id in happened else "--redo", id)]

    def lines(self, name: str) -> list[str]:
        file = self.outside / name
        return file.read_text().splitlines() if file.exists() else []

    def tree(self) -> dict[str, tuple[int, bytes]]:
        return {
            str(path.relative_to(self.project)): (
                path.lstat().st_mode,
                os.readlink(path).encode() if path.is_symlink() else path.read_bytes(),
            )
            for path in self.project.rglob("*")
            if path.is_symlink() or path.is_file()
        }


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[[str], Site]]:
    """Return a maker of sites; at the end git judges their stores."""
    made: list[Site] = []

    def make(name: str) -> Site:
        made.append(Site(tmp_path / name))
        return made[-1]

    yield make
    for one in made:
        assert git_faults(one.store) == ""


@pytest.mark.chance("how far a run is when something of it is killed")
def test_killed_runs_come_to_what_an_uninterrupted_one_does(site: Callable[[str], Site]) -> None:
    """P6, P7."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    calm = site("calm")
    began = time.monotonic()
    assert calm.end_of(calm.start()) == []
    lasts = time.monotonic() - began
    judge(calm)
    left, turn = STRIKES, 0
    while left > 0:
        turn += 1
        harassed = site(f"harassed-{turn}")
        left -= harass(harassed, chance, strikes=min(left, len(WAYS)), lasts=lasts)
        assert harassed.tree() == calm.tree()
        judge(harassed)


def harass(site: Site, chance: random.Random, *, strikes: int, lasts: float) -> int:
    """Let a plan be carried out by as many runners as it takes, and return how often one was struck."""
    made, turns = 0, 0
    ways = chance.sample(WAYS, len(WAYS))
    flags: list[str] = []
    while True:
        turns += 1
        assert turns <= strikes + MORE_TURNS, site.lines("starts")
        runner = site.start(*flags)
        dead = False
        while made < strikes and not dead:
            way, after = ways[made], chance.uniform(0.05, lasts * 0.6)
            time.sleep(after)
            if runner.poll() is not None:
                break
            struck = strike(runner, way, chance)
            made += struck
            dead = struck and way in MORTAL
            print(f"{site.project.parent.name}: {way} {'struck' if struck else 'missed'} after {after:.3f} s")
        said = site.end_of(runner)
        if runner.returncode == 0:
            return made
        flags = [*said, *(["--continue"] if has_begun(site) else [])]


def has_begun(site: Site) -> bool:
    """Tell whether there is a run to go on with; one that died is incomplete, and says so (P8)."""
    if not site.store.exists():
        return False
    with lastgood.open(site.project, store=site.store, maintenance="off") as workspace:
        sessions = workspace.sessions()
        for one in sessions:
            assert one.session.ended_by == "finished" or one.state == "incomplete"
        return bool(sessions)


def strike(runner: subprocess.Popen[bytes], way: str, chance: random.Random) -> bool:
    """Kill in one of the ways; False if there was nothing to be killed."""
    if way == "asked":
        while not catches(runner.pid, signal.SIGTERM):  # a Python that just starts dies of SIGINT noisily
            if runner.poll() is not None:
                return False
        runner.send_signal(chance.choice(ASKED))
        return True
    if way == "runner":
        runner.kill()
        return True
    watch, tasks = at_work(runner)
    if watch is None or (way != "watch" and not tasks):
        return False
    if way in {"both", "everything"}:
        runner.kill()
    if way in {"watch", "everything"}:
        kill(watch)
    if way in {"task", "both", "everything"}:
        for task in tasks:
            kill(-task)
    return True


def at_work(runner: subprocess.Popen[bytes]) -> tuple[int | None, list[int]]:
    """Wait until a task is at work, and return what watches over it, and the task."""
    while runner.poll() is None:
        for pid in offspring(runner.pid):
            if b"lastgood.supervisor" in content_of(pid, "cmdline"):
                tasks = offspring(pid)
                if tasks:
                    return pid, tasks
    return None, []


def offspring(pid: int) -> list[int]:
    try:
        return children(pid)
    except (FileNotFoundError, ProcessLookupError):
        return []


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def judge(site: Site) -> None:
    """Nothing was done twice, nothing was concealed, nothing is left over."""
    assert sorted(site.lines("effects")) == list(IRREVERSIBLE)
    with lastgood.open(site.project, store=site.store, maintenance="off") as workspace:
        (session,) = workspace.sessions()
        assert (session.session.state, session.session.ended_by) == ("ended", "finished")
        ids = [f"T{number:02}" for number in range(1, 13)]
        assert [(one.id, one.state) for one in session.progress.tasks] == [(id, "done") for id in ids]
        for one in workspace.steps(session.id):
            assert one.state in {"done", "failed", "unknown"}
            if one.irreversible and one.state == "unknown":
                assert one.task in site.unknown
        for id in IRREVERSIBLE:
            steps = [one.state for one in workspace.steps(session.id) if one.task == id]
            assert steps.count("done") <= 1
            assert len(steps) == site.lines("starts").count(id) or "unknown" in steps
        latest = workspace.get("latest")
        assert latest.kind == "session-end"
        assert workspace.status().state == "idle"
        assert workspace.verify().ok
        assert workspace.recover().session is None
        living = ProcFiles().marked(session.id)
        assert not [one for one in living if lives(one.pid)]
