"""A restore of files with all that is beside them, killed or failed at any call (rules T7, T9, T11, T17)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from faults.cli import git
from faults.injector import Blow, Injector, Trial
from faults.scenes import assert_nothing_lost, opened, target_of
from faults.stage import Stage, Tree, alter, differences, edit, fill
from faults.sweep import each_of, sweep, sweep_both_ways
from lastgood.model.session import Progress

pytestmark = pytest.mark.faults

EVERYTHING = {"git": True}
MANY = 18
HOST = "550e8400-e29b-41d4-a716-446655440000"


class HostStage(Stage):
    """A stage with a host that keeps its transcripts outside the workspace."""

    @property
    def transcript(self) -> Path:
        return self.folder / "live" / "host" / "projects" / "here" / f"{HOST}.jsonl"

    @property
    def roots(self) -> tuple[Path, ...]:  # type: ignore[override]  # one more
        return (self.workspace, self.store, self.transcript.parent)

    def say(self, *texts: str) -> None:
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        records = [
            {"type": "user", "sessionId": HOST, "message": {"role": "user", "content": text}}
            for text in texts
        ]
        self.transcript.write_text("".join(json.dumps(record) + "\n" for record in records))


@dataclass(frozen=True)
class Seen:
    """Everything that a restore may change."""

    tree: Tree
    progress: Progress
    transcripts: dict[str, str]
    head: str
    index: str

    def unlike(self, other: Seen) -> str:
        """Say in what two differ."""
        beside = [
            f"{name}: {getattr(self, name)} != {getattr(other, name)}"
            for name in ("progress", "transcripts", "head", "index")
            if getattr(self, name) != getattr(other, name)
        ]
        return "\n".join([differences(self.tree, other.tree), *beside])


def seen(stage: HostStage) -> Seen:
    with opened(stage) as workspace:
        progress = workspace.progress()
        progress = progress.replace(tasks=tuple(progress.tasks))
    return Seen(
        tree=stage.tree(),
        progress=progress,
        transcripts={path.name: path.read_text() for path in stage.transcript.parent.iterdir()},
        head=(stage.workspace / ".git" / "HEAD").read_text(),
        index=git(stage.workspace, "ls-files", "--stage"),
    )


def everything(stage: Stage) -> None:
    """Build: two checkpoints that differ in files, conversation, progress and commit; unsaved work."""
    assert isinstance(stage, HostStage)
    git(stage.workspace, "init", "-q", "-b", "main")
    with opened(stage) as workspace:
        for step, (change, name) in enumerate(((fill, "first"), (alter, "second")), 1):
            change(stage.workspace)
            git(stage.workspace, "add", "README.md", "src")
            git(stage.workspace, "commit", "-q", "-m", name)
            stage.say(*["first", "second"][:step])
            workspace.progress_set(goal="go", step=step, state={"step": step})
            for number in range(0, MANY, step):  # a long list, which journals and operations only name
                workspace.task_start(f"T{number:03}")
                workspace.task_skip(f"T{number:03}")
            workspace.save(name, name=name, transcript=stage.transcript)
        workspace.progress_set(step=3)
    edit(stage.workspace)


@pytest.fixture(scope="module")
def hosted(arena: Path) -> HostStage:
    return HostStage(arena / "test_sweep_parts")


def ends(stage: HostStage) -> tuple[Seen, Seen]:
    """Return how things are before and after a restore of everything."""
    start = seen(stage)
    with opened(stage) as workspace:
        report = workspace.restore("first", git=True)
        assert {part.scope: part.result for part in report.parts} == {
            "progress": "restored",
            "conversation": "restored",
            "git": "restored",
        }
        target = seen(stage)
    stage.reset()
    assert target.tree == target_of(stage)
    assert target.progress.position.step == 1
    assert len(target.transcripts) == 2
    assert (start.head != target.head, start.index != target.index) == (True, True)
    return start, target


def assert_one_end(stage: HostStage, where: str, *, start: Seen, target: Seen, roll_back: bool) -> None:
    """After a blow, and recovery where one is needed, all of it is at the start or all at the target."""
    with opened(stage) as workspace:
        interrupted = workspace.status().state == "interrupted"
        if interrupted:
            workspace.recover(roll_back=roll_back)
        present = seen(stage)
        if interrupted:
            wanted = start if roll_back else target
            assert present == wanted, f"{where}: recovered\n{present.unlike(wanted)}"
        assert present in (start, target), f"{where}: in between\n{present.unlike(target)}"
        if present == target:
            workspace.undo()
            present = seen(stage)
            assert present == start, f"{where}: undone\n{present.unlike(start)}"
        assert workspace.verify().ok, where


def test_a_restore_of_everything_killed_at_any_call_ends_at_one_end(
    injector: Injector, hosted: HostStage
) -> None:
    hosted.prepare(everything)
    start, target = ends(hosted)

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert trial.killed or trial.said("restored"), f"{where}: {trial.lines}"
        assert_nothing_lost(hosted, start.tree, where)
        assert_one_end(hosted, where, start=start, target=target, roll_back=roll_back)

    order = {"ref": "first", "options": EVERYTHING}
    sweep_both_ways(injector, hosted, "restore", order, blow=Blow(), check=check, points=40)


@each_of("full-once", "bad-disk")
def test_a_restore_of_everything_that_fails_at_any_call_says_what_it_left(
    injector: Injector, hosted: HostStage, blow: Blow
) -> None:
    """T10: what failed is told, by path or by part; an undo takes back what was done."""
    hosted.prepare(everything)
    start, target = ends(hosted)

    def check(trial: Trial, where: str) -> None:
        spoke = trial.said("restored") or trial.said("failed") or trial.said("incomplete")
        assert spoke, f"{where}: no typed answer: {trial.status} {trial.lines}"
        for left in hosted.transcript.parent.glob(".*.lastgood"):
            left.unlink()  # what a failing disk did not let go of
        assert_nothing_lost(hosted, start.tree, where)
        if trial.said("incomplete") is None:
            assert_one_end(hosted, where, start=start, target=target, roll_back=False)
            return
        with opened(hosted) as workspace:
            workspace.undo()
        present = seen(hosted)
        assert present.tree == start.tree, f"{where}: undone\n{differences(present.tree, start.tree)}"
        assert present.progress == start.progress, f"{where}: undone\n{present.unlike(start)}"

    order = {"ref": "first", "options": EVERYTHING}
    sweep(injector, hosted, "restore", order, blow=blow, check=check, points=30)


def test_an_undo_of_everything_killed_at_any_call_ends_at_one_end(
    injector: Injector, hosted: HostStage
) -> None:
    hosted.prepare(everything)
    start, target = ends(hosted)
    with opened(hosted) as workspace:
        workspace.restore("first", git=True)
    hosted.keep()

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert trial.killed or trial.said("undone"), f"{where}: {trial.lines}"
        with opened(hosted) as workspace:
            interrupted = workspace.status().state == "interrupted"
            if interrupted:
                workspace.recover(roll_back=roll_back)
            present = seen(hosted)
            if interrupted:
                wanted = target if roll_back else start
                assert present == wanted, f"{where}: recovered\n{present.unlike(wanted)}"
            assert present in (start, target), f"{where}: in between\n{present.unlike(start)}"
            workspace.redo() if present == start else workspace.undo()
            wanted = target if present == start else start
            assert seen(hosted) == wanted, f"{where}: {seen(hosted).unlike(wanted)}"

    sweep_both_ways(injector, hosted, "undo", {}, blow=Blow(), check=check, points=28)


def test_a_merge_killed_at_any_call_ends_at_one_end(injector: Injector, hosted: HostStage) -> None:
    """T17: merged contents are in the store before the journal names them."""
    hosted.prepare(everything)
    readme = hosted.workspace / "src" / "app.py"
    readme.write_text(readme.read_text() + "print('of a person')\n")
    hosted.keep()
    start = seen(hosted)
    options = {"merge": True, "base": "second", "conflict": "markers"}
    with opened(hosted) as workspace:
        assert workspace.restore("first", **options).planned.merged  # type: ignore[arg-type]
    target = seen(hosted)
    hosted.reset()

    def check(trial: Trial, where: str, *, roll_back: bool) -> None:
        assert trial.killed or trial.said("restored"), f"{where}: {trial.lines}"
        assert_nothing_lost(hosted, start.tree, where)
        assert_one_end(hosted, where, start=start, target=target, roll_back=roll_back)

    order = {"ref": "first", "options": options}
    sweep_both_ways(injector, hosted, "restore", order, blow=Blow(), check=check, points=28)
