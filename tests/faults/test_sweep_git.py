"""HEAD and index being put back, killed or failed at any call (rules T7, T9)."""

from __future__ import annotations

import os

import pytest

from faults.cli import git
from faults.injector import Blow, Injector, Trial
from faults.scenes import opened, recover
from faults.stage import Stage
from faults.sweep import each_of, sweep, sweep_both_ways

pytestmark = pytest.mark.faults

OPTIONS = {"ref": "first", "options": {"only": ["git"]}}


def staged_and_gone_on(stage: Stage) -> None:
    """Build: a checkpoint with something staged, and two commits since on another branch."""
    root = stage.workspace
    git(root, "init", "-q", "-b", "main")
    (root / "file").write_text("one\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    (root / "file").write_text("staged\n")
    git(root, "add", ".")
    with opened(stage) as workspace:
        workspace.save("the first state", name="first")
    git(root, "checkout", "-q", "-b", "side")
    git(root, "commit", "-qm", "two")
    with opened(stage) as workspace:
        workspace.save("the second state", name="second", allow_empty=True)


def seen(stage: Stage) -> tuple[str, str, str]:
    """Return what HEAD says, what status shows, and where the branches are."""
    root = stage.workspace
    shown = git(root, "status", "--porcelain", "-uall", "--no-renames")
    head = (root / ".git" / "HEAD").read_text()
    return head, str(shown), str(git(root, "for-each-ref", "refs/heads"))


def left_over(stage: Stage) -> list[str]:
    names = os.listdir(stage.workspace / ".git")
    return [name for name in names if name.endswith(".lock") or name.startswith("lastgood-")]


def test_a_kill_leaves_what_can_be_finished_or_taken_back(injector: Injector, stage: Stage) -> None:
    stage.prepare(staged_and_gone_on)
    start = seen(stage)
    with opened(stage) as workspace:
        workspace.restore("first", only=["git"])
    target = seen(stage)
    assert target != start

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert trial.killed or trial.said("restored"), f"{where}: {trial.lines}"
        with opened(stage) as workspace:
            interrupted = workspace.status().state == "interrupted"
            recover(workspace, roll_back=roll_back)
        present = seen(stage)
        wanted = (start if roll_back else target) if interrupted else present
        assert present == wanted, f"{where}: {present} != {wanted}"
        assert present in (start, target), f"{where}: {present}"
        assert left_over(stage) == [], where
        if interrupted and not roll_back:
            with opened(stage) as workspace:
                workspace.undo()
            assert seen(stage) == start, f"{where}: {seen(stage)}"

    sweep_both_ways(injector, stage, "restore", OPTIONS, blow=Blow(), check=check, points=40)


@each_of("bad-disk", "full", "short")
def test_a_failure_is_said_and_leaves_no_lock(injector: Injector, stage: Stage, blow: Blow) -> None:
    stage.prepare(staged_and_gone_on)
    start = seen(stage)
    with opened(stage) as workspace:
        workspace.restore("first", only=["git"])
    target = seen(stage)

    def check(trial: Trial, where: str) -> None:
        assert not trial.said("escaped"), f"{where}: {trial.lines}"
        with opened(stage) as workspace:
            if workspace.status().state == "interrupted":
                workspace.recover()
            workspace.restore("first", only=["git"])
        assert seen(stage) == target, f"{where}: {seen(stage)}"
        assert seen(stage)[2] == start[2], where
        assert left_over(stage) == [], where

    sweep(injector, stage, "restore", OPTIONS, blow=blow, check=check, points=40)
