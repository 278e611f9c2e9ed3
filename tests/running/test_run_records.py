"""The plans of runs in the catalogue: with their sessions or not at all, and none lost to a new version."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.catalogue import WorkspaceRow
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.database import BACKUP
from lastgood.catalogue.rebuild import restore_from_backup
from lastgood.errors import Conflict
from lastgood.model.run import PlannedRun, PlannedTask, WorkPlan
from lastgood.model.session import Effect, Owner, Progress, Session, Task
from lastgood.tasks import registered
from lastgood.testing.clock import FakeClock

KEY = "aa" * 10
OLD = Path(__file__).parents[1] / "stores_of_old" / "version-2" / "catalogue.sqlite3"
OLD_KEY = "a1" * 10
OLD_SESSION = "sess_" + "0a" * 8
PLAN = WorkPlan(
    tasks=(
        PlannedTask(id="A", run="make \udcff", env={"X": "é"}, timeout=1.5, needs=("B",)),
        PlannedTask(id="B", run=("a", ""), check="test", irreversible=True, cwd="sub", on_failure="rollback"),
    ),
    goal="ship",
    sprints=("S",),
    source="/home/ada/plan.yaml",
)


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[SqliteCatalogue]:
    opened = SqliteCatalogue.open(str(tmp_path / "catalogue.sqlite3"), clock=FakeClock(), wait=5)
    opened.add_workspace(WorkspaceRow(key=KEY, path="/home/ada", machine="m", created_at=1))
    yield opened
    opened.close()


def session(number: int, *, key: str = KEY) -> Session:
    owner = Owner(host="h", pid=number)
    return Session(
        id=f"sess_{number:016x}",
        workspace_key=key,
        owner=owner,
        started_at=number,
        heartbeat_at=number,
        exclusive=number == 1,
    )


def run(number: int, plan: WorkPlan = PLAN, *, key: str = KEY) -> PlannedRun:
    return PlannedRun(session=session(number).id, workspace_key=key, fingerprint="f" * 40, plan=plan)


def opened(catalogue: SqliteCatalogue, session: Session, run: PlannedRun | None = None) -> None:
    catalogue.work.change(lambda to: to.open_session(session, run=run))


def recorded(catalogue: SqliteCatalogue, effect: Effect) -> None:
    catalogue.work.change(lambda to: to.put_effect(effect))


def test_a_plan_comes_back_as_it_was_kept(catalogue: SqliteCatalogue) -> None:
    opened(catalogue, session(1), run=run(1))
    assert catalogue.work.run(session(1).id) == run(1)
    assert catalogue.work.run(session(2).id) is None
    assert catalogue.work.run("\udcff") is None


def test_a_session_that_is_refused_leaves_no_plan(catalogue: SqliteCatalogue) -> None:
    """P1."""
    opened(catalogue, session(1), run=run(1))
    rival = session(2).replace(exclusive=True)
    with pytest.raises(Conflict):
        opened(catalogue, rival, run=run(2))
    assert catalogue.work.run(rival.id) is None


def test_runs_are_newest_first(catalogue: SqliteCatalogue) -> None:
    for number in (1, 2, 3):
        opened(catalogue, session(number), run=run(number))
    found = [one.session for one in catalogue.work.runs(KEY, limit=2)]
    assert found == [session(3).id, session(2).id]
    assert list(catalogue.work.runs("bb" * 10, limit=2)) == []


def test_another_plan_takes_the_place_of_the_first_with_its_tasks(catalogue: SqliteCatalogue) -> None:
    opened(catalogue, session(1), run=run(1))
    edited = run(1, PLAN.replace(tasks=PLAN.tasks[:1])).replace(fingerprint="0" * 40)
    ids = [task.id for task in edited.plan.tasks]
    progress = catalogue.work.change(
        lambda to: to.put_run(edited, progress=lambda found: registered(found, ids))
    )
    assert catalogue.work.run(edited.session) == edited
    assert catalogue.work.progress(edited.session) == progress == Progress(tasks=(Task(id="A"),))
    assert len(catalogue.work.runs(KEY, limit=9)) == 1


def test_a_plan_that_was_altered_from_outside_is_not_believed(
    catalogue: SqliteCatalogue, tmp_path: Path
) -> None:
    opened(catalogue, session(1), run=run(1))
    connection = sqlite3.connect(tmp_path / "catalogue.sqlite3", isolation_level=None)
    connection.execute("UPDATE run SET payload = replace(payload, 'make', 'burn')")
    connection.close()
    assert catalogue.work.run(session(1).id) is None
    assert (catalogue.fault() or "").endswith(f"altered: run {session(1).id}")
    assert [line.split()[0] for line in catalogue.mend()] == ["run"]
    assert catalogue.fault() is None


def test_steps_are_found_by_their_name(catalogue: SqliteCatalogue) -> None:
    names = ["push", "push ", 'pu"sh', "é\udcff", "push", "push(1)"]
    for number, name in enumerate(names):
        recorded(
            catalogue,
            Effect(id=f"step_{number:016x}", workspace_key=KEY, name=name, started_at=1, session="s"),
        )
    for name in set(names):
        found = catalogue.work.effects(KEY, session="s", name=name)
        assert [one.name for one in found] == [name] * names.count(name)


def test_what_a_step_began_from_and_came_to_is_kept(catalogue: SqliteCatalogue) -> None:
    step = Effect(
        id="step_" + "0" * 16,
        workspace_key=KEY,
        name="push",
        started_at=1,
        checkpoint="ckpt_" + "1" * 16,
        result={"value": [None, 1.5, "é", {"a": True}]},
    )
    recorded(catalogue, step)
    assert list(catalogue.work.effects(KEY)) == [step]


def test_the_second_version_becomes_the_present_one_and_keeps_everything(tmp_path: Path) -> None:
    """P6: also the step that was under way."""
    path = tmp_path / "catalogue.sqlite3"
    shutil.copyfile(OLD, path)
    catalogue = SqliteCatalogue.open(str(path), clock=FakeClock())
    try:
        assert catalogue.fault() is None
        (found,) = catalogue.work.sessions(OLD_KEY)
        assert (found.id, found.goal, found.owner.pid) == (OLD_SESSION, "migrate", 41)
        tasks = catalogue.work.progress(OLD_SESSION).tasks
        assert [(task.id, task.state, task.attempts) for task in tasks] == [
            ("T01", "done", 1),
            ("T02", "running", 2),
        ]
        (step,) = catalogue.work.effects(OLD_KEY)
        assert (step.name, step.state, step.irreversible, step.checkpoint) == ("T02", "running", True, None)
        assert catalogue.work.run(OLD_SESSION) is None
        opened(catalogue, session(2, key=OLD_KEY), run=run(2, key=OLD_KEY))
        assert catalogue.work.run(session(2).id) == run(2, key=OLD_KEY)
    finally:
        catalogue.close()


@pytest.mark.parametrize("damaged", [True, False])
def test_a_backup_or_a_damaged_file_of_the_second_version_is_still_of_use(
    tmp_path: Path, *, damaged: bool
) -> None:
    """K4, invariant 6."""
    path = tmp_path / "catalogue.sqlite3"
    if damaged:
        shutil.copyfile(OLD, path)
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'checkpoint_by_name'")
        connection.close()
    else:
        shutil.copyfile(OLD, tmp_path / BACKUP)
    done = restore_from_backup(str(path), generation="g", at=1)
    assert any("rebuilt" in line for line in done)
    catalogue = SqliteCatalogue.open(str(path), clock=FakeClock(), create=False)
    try:
        assert catalogue.fault() is None
        assert [one.id for one in catalogue.work.sessions(OLD_KEY)] == [OLD_SESSION]
        assert [one.name for one in catalogue.work.effects(OLD_KEY)] == ["T02"]
        assert list(catalogue.work.runs(OLD_KEY, limit=9)) == []
    finally:
        catalogue.close()
