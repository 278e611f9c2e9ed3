"""An agent as simple as can be: a plan of tasks, each of which edits files, and one that deploys.

A process of its own: ``agent.py PROJECT STORE OUTSIDE TAG MODE``. It goes on where a killed one stopped.
In mode ``keep`` a task may be done again on top of what was half done; in mode ``rollback`` it may not:
it appends.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import lastgood

TASKS = ("T01", "T02", "T03", "T04", "T05")
DEPLOYING = "T03"
STEP = "deploy"


def edit(folder: Path, task: str, *, tag: str, mode: str) -> None:
    """Change the files as one task does; the result depends on nothing else."""
    source = folder / "src"
    source.mkdir(exist_ok=True)
    for number in range(6):
        (source / f"{task.lower()}_{number}.py").write_text(f"# {tag}\nVALUE = '{task} {number}'\n" * 40)
    (folder / "current.txt").write_text(f"{tag} is at {task}\n")
    if task == "T04":
        (source / "t01_0.py").unlink(missing_ok=True)
        (folder / "run.sh").write_text("#!/bin/sh\n")
        (folder / "run.sh").chmod(0o755)
    if mode == "rollback":
        with (folder / "CHANGES").open("a") as file:
            file.write(f"{task} of {tag}\n")


def main(project: Path, store: Path, outside: Path, *, tag: str, mode: str) -> None:
    """Carry out the plan, or what is left of it."""
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        session = _session(workspace, outside, mode=mode)
        if session is None:
            return
        inside = workspace.within(session)
        for number, task in enumerate(TASKS, 1):
            states = {one.id: one.state for one in inside.progress().tasks}
            if states.get(task) in {"done", "skipped"}:
                continue
            _say(outside, f"{tag}: {task}")
            inside.progress_set(phase="Construction", step=number, steps=len(TASKS))
            inside.task_start(task)
            edit(project, task, tag=tag, mode=mode)
            inside.save(f"in the middle of {task}", kind="tool")
            if task == DEPLOYING:
                _deploy(inside, outside, session, tag=tag)
            inside.task_done(task)
        inside.session_end(session)


def _session(workspace: lastgood.Workspace, outside: Path, *, mode: str) -> str | None:
    """Return the session to work in: that of a run that died, else a new one; None when all is done."""
    if any(one.session.ended_by == "finished" for one in workspace.sessions()):
        return None
    found = workspace.recover(choice="review")
    if found.session is None:
        started = workspace.session_start(
            goal="the plan", owner_pid=os.getpid(), transcript=outside / "transcript.jsonl"
        )
        return started.session.id
    id = found.session.id
    between = _between_tasks(workspace, id) if mode == "rollback" else None
    report = workspace.recover(
        between or id, choice="continue", roll_back=between is not None, owner_pid=os.getpid()
    )
    told = {
        "unknown": [one.name for one in report.unknown_effects],
        "tasks": {one.id: one.state for one in report.tasks},
    }
    _append(outside / "reports", json.dumps(told))
    if mode == "rollback" and between is None:  # killed before its first checkpoint: there is nothing yet
        workspace.within(id).save("the start", allow_empty=True)
    return id


def _between_tasks(workspace: lastgood.Workspace, session: str) -> str | None:
    """Return the newest checkpoint of a run at which no task was half done."""
    for one in workspace.list(session=session):
        tasks = () if one.progress is None else one.progress.tasks
        if one.kind != "guard" and all(task.state != "running" for task in tasks):
            return one.id
    return None


def _deploy(inside: lastgood.Workspace, outside: Path, session: str, *, tag: str) -> None:
    """Deploy once: not if that was done, and not before looking if nobody knows (rule P6)."""
    seen = [one.state for one in inside.steps(session) if one.name == STEP]
    if "done" in seen:
        return
    log = outside / "deployed"
    if seen and log.exists():
        return
    step = inside.step_start(STEP, task=DEPLOYING, irreversible=True)
    _append(log, tag)
    inside.step_end(step, state="done")


def _say(outside: Path, text: str) -> None:
    line = {"type": "user", "uuid": text, "message": {"role": "user", "content": text}}
    _append(outside / "transcript.jsonl", json.dumps(line))


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line.encode() + b"\n")
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    places = [Path(word) for word in sys.argv[1:4]]
    main(*places, tag=sys.argv[4], mode=sys.argv[5])
