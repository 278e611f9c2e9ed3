"""Generated plans whose tasks fail on purpose, beside a slow and obvious model of what has to come of it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lastgood
from lastgood.model.run import ON_FAILURE, RunReport
from lastgood.workspace import Workspace

if TYPE_CHECKING:
    from lastgood.literals import OnFailure


Files = dict[str, str]

PLANS = int(os.environ.get("LASTGOOD_RUN_PLANS", "4"))
SEED = int(os.environ.get("LASTGOOD_RUN_SEED", "1"))
MOST_RUNS = 20


class Planned:
    """One task of a generated plan: attempt number ``good_at`` is the first that ends well."""

    def __init__(self, id: str, chance: random.Random, before: list[str]) -> None:
        self.id = id
        self.good_at = chance.choice([1, 1, 2, 3])
        self.retries = chance.randrange(3)
        self.on_failure: OnFailure = chance.choice(ON_FAILURE)
        self.needs = chance.sample(before, min(len(before), chance.randrange(3)))
        self.by_check = chance.random() < 0.5

    def document(self, outside: Path) -> dict[str, object]:
        number = '"$LASTGOOD_ATTEMPT"'
        enough = f"test {number} -ge {self.good_at}"
        work = (
            f"echo {self.id} {number} >> shared.txt; echo {number} > {self.id}.txt;"
            f" mkdir -p made/{self.id}; echo > made/{self.id}/file; rm -f old-{self.id}.txt;"
            f" echo {self.id} {number} >> {outside}/effects"
        )
        found = {"id": self.id, "retries": self.retries, "on_failure": self.on_failure, "needs": self.needs}
        checked = {"run": work, "check": enough}
        return found | (checked if self.by_check else {"run": f"{work}; {enough}"})


class Oracle:
    """What the files, tasks and effects are after each run."""

    def __init__(self, tasks: list[Planned], files: Files) -> None:
        self.tasks = tasks
        self.files = files
        self.states = dict.fromkeys((task.id for task in tasks), "pending")
        self.attempts = dict.fromkeys((task.id for task in tasks), 0)
        self.effects: list[str] = []

    @property
    def done(self) -> bool:
        return set(self.states.values()) == {"done"}

    def edit(self, chance: random.Random, number: int) -> None:
        """Edit what is not done: one task more, one less, other commands, another order."""
        open_tasks = [task for task in self.tasks if self.states[task.id] != "done"]
        needed = {need for task in self.tasks for need in task.needs}
        for task in open_tasks:
            task.good_at = min(task.good_at, self.attempts[task.id] + chance.choice([1, 1, 2]))
        gone = [task for task in open_tasks if task.id not in needed][:1]
        self.tasks = [task for task in self.tasks if task not in gone]
        for task in gone:
            del self.states[task.id], self.attempts[task.id]
        new = Planned(f"N{number}", chance, [task.id for task in self.tasks])
        self.tasks.append(new)
        chance.shuffle(self.tasks)
        self.states[new.id], self.attempts[new.id] = "pending", 0

    def run(self) -> None:
        """Carry out the plan once, from where the last time ended."""
        for task in self._in_order():
            if self.states[task.id] == "done":
                continue
            if any(self.states[need] != "done" for need in task.needs):
                self.states[task.id] = "skipped"
            elif not self._try(task) and task.on_failure == "stop":
                return

    def _try(self, task: Planned) -> bool:
        for _ in range(1 + task.retries):
            self.attempts[task.id] += 1
            before = dict(self.files)
            self._work(task, self.attempts[task.id])
            if self.attempts[task.id] >= task.good_at:
                self.states[task.id] = "done"
                return True
            if task.on_failure == "rollback":
                self.files = before
        self.states[task.id] = "failed"
        return False

    def _work(self, task: Planned, attempt: int) -> None:
        line = f"{task.id} {attempt}\n"
        self.files["shared.txt"] = self.files.get("shared.txt", "") + line
        self.files[f"{task.id}.txt"] = f"{attempt}\n"
        self.files[f"made/{task.id}/file"] = "\n"
        self.files.pop(f"old-{task.id}.txt", None)
        self.effects.append(line)

    def _in_order(self) -> list[Planned]:
        left = list(self.tasks)  # in the order of the plan, but after what they need
        found: list[Planned] = []
        while left:
            known = {task.id for task in found}
            found.append(next(task for task in left if known.issuperset(task.needs)))
            left.remove(found[-1])
        return found


def generated(chance: random.Random, project: Path) -> Oracle:
    """Return the model of a new plan in a project with some files."""
    ids = [f"T{index}" for index in range(chance.randrange(2, 7))]
    tasks = [Planned(id, chance, ids[:place]) for place, id in enumerate(ids)]
    chance.shuffle(tasks)
    files = {f"old-{id}.txt": "old\n" for id in ids if chance.random() < 0.5} | {"person.txt": "0\n"}
    for name, text in files.items():
        (project / name).write_text(text)
    return Oracle(tasks, files)


def compare(oracle: Oracle, report: RunReport, project: Path, outside: Path) -> None:
    """Compare what came of a run with what should have."""
    assert {task.id: task.state for task in report.tasks} == oracle.states
    assert {task.id: task.attempts for task in report.tasks} == oracle.attempts
    assert (outside / "effects").read_text() == "".join(oracle.effects)
    assert files_of(project) == oracle.files
    assert folders_of(project) == folders_for(oracle.files)
    assert report.state == ("done" if oracle.done else "failed")


def edited_by_a_person(oracle: Oracle, project: Path, turn: int) -> None:
    oracle.files["person.txt"] = f"{turn}\n"
    (project / "person.txt").write_text(f"{turn}\n")


def files_of(project: Path) -> Files:
    return {str(path.relative_to(project)): path.read_text() for path in project.rglob("*") if path.is_file()}


def folders_of(project: Path) -> set[str]:
    return {str(path.relative_to(project)) for path in project.rglob("*") if path.is_dir()}


def folders_for(files: Files) -> set[str]:
    return {os.path.dirname(name) for name in files if "/" in name} | {
        "made" for name in files if "/" in name
    }


@pytest.mark.parametrize("number", range(PLANS))
def test_whatever_fails_the_outcome_is_what_the_plan_says(
    number: int, workspace: Workspace, project: Path, store: Path, outside: Path
) -> None:
    """P3, P6, P7, T17: states, attempts, effects and files, run after run; a person edits between them."""
    chance = random.Random(SEED * 1_000_003 + number)
    oracle = generated(chance, project)
    plan = {"tasks": [task.document(outside) for task in oracle.tasks]}
    for turn in range(MOST_RUNS):
        report = workspace.run(plan)
        oracle.run()
        compare(oracle, report, project, outside)
        assert report.continued == (turn > 0)
        if oracle.done:
            break
        edited_by_a_person(oracle, project, turn)
        with lastgood.open(project, store=store, maintenance="off") as other:
            assert [one.id for one in other.status().incomplete] == [report.session]
    assert oracle.done
    assert workspace.status().incomplete == ()


@pytest.mark.parametrize("number", range(PLANS))
def test_a_plan_that_is_edited_between_runs_goes_on_task_by_task(
    number: int, workspace: Workspace, project: Path, outside: Path, plan_file: Callable[..., str]
) -> None:
    """P6, P7: what is done stays done, what is new is pending, what is gone is gone, in the new order."""
    chance = random.Random(SEED * 1_000_003 - number - 1)
    oracle = generated(chance, project)
    for turn in range(MOST_RUNS):
        plan = plan_file(*(task.document(outside) for task in oracle.tasks))
        report = workspace.run(plan, rebase=turn > 0)
        oracle.run()
        compare(oracle, report, project, outside)
        if oracle.done:
            break
        edited_by_a_person(oracle, project, turn)
        if turn < MOST_RUNS // 2:
            oracle.edit(chance, turn)
    assert oracle.done
