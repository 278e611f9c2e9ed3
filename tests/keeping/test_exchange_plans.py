"""The plans of runs leave with their sessions: what began in one place goes on in another (P6, P7)."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

import lastgood
from lastgood.errors import Conflict, Damaged, Storage
from lastgood.exchange.form import decode_facts, encode_facts
from lastgood.model.exchange import ExportedPlan, Facts
from lastgood.settings import LimitSettings, Settings
from lastgood.workplan.plan import encode_plan
from parcels import facts_of, lines, members_of, rebuilt
from runs import Told, states
from workplans import plans

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.model.run import WorkPlan
    from lastgood.workspace import Workspace

SECRET = "ghp_" + "a1B2c3D4e5" * 4


@pytest.fixture
def parcel(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.tar"


def opened(folder: Path, store: Path) -> Workspace:
    folder.mkdir(exist_ok=True)
    return lastgood.open(folder, store=store, maintenance="off")


def begun(project: Path, *tasks: dict[str, Any], **fields: Any) -> Path:
    """Write a plan into a project: by default one whose second task fails until a file is there."""
    usual = (
        {"id": "A", "run": "echo a >> A"},
        {"id": "B", "run": "test -e ready"},
        {"id": "C", "run": "echo c >> C", "needs": ["B"]},
    )
    path = project / "plan.json"
    path.write_text(json.dumps({"tasks": list(tasks or usual), **fields}))
    return path


def arrived(tmp_path: Path, parcel: Path) -> Workspace:
    """Return the workspace of another store, in another folder, with what the export brought."""
    there = opened(tmp_path / "elsewhere", tmp_path / "other-store")
    there.import_file(parcel, attach=True)
    there.restore("@")
    return there


def leave(workspace: Workspace, project: Path, parcel: Path, **choices: Any) -> None:
    """Export, and let the project be gone: it is on another machine."""
    workspace.export(parcel, **choices)
    project.rename(project.parent / "gone")


def test_a_run_that_did_not_finish_goes_on_where_it_was_imported(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """P6: what is done stays done, though the folder is another one."""
    first = workspace.run(str(begun(project)))
    assert states(first) == {"A": "done", "B": "failed", "C": "pending"}
    leave(workspace, project, parcel)
    told = Told()
    with arrived(tmp_path, parcel) as there:
        (Path(there.path) / "ready").touch()
        report = there.run(str(Path(there.path) / "plan.json"), observer=told)

        assert (report.session, report.continued, report.state) == (first.session, True, "done")
        assert (Path(there.path) / "A").read_text() == "a\n"
        assert "the plan was edited" not in told.notices
        assert there.verify(deep=True).ok


def test_a_run_that_finished_is_known_as_finished(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    (project / "ready").touch()
    first = workspace.run(str(begun(project)))
    leave(workspace, project, parcel)
    with arrived(tmp_path, parcel) as there:
        report = there.run(str(Path(there.path) / "plan.json"), choice="continue")
        assert (report.session, report.reason) == (first.session, "it has finished already")


def test_a_recovery_of_what_was_imported_knows_the_plan(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    first = workspace.run(str(begun(project)))
    leave(workspace, project, parcel)
    with arrived(tmp_path, parcel) as there:
        (waiting,) = there.status().incomplete
        assert waiting.words == ("run", str(Path(there.path) / "plan.json"))
        kept = there._context.work.run(first.session)
        assert kept is not None
        assert [task.id for task in kept.plan.tasks] == ["A", "B", "C"]


def test_a_plan_edited_since_is_told_by_its_tasks(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """P7: nobody continues another plan unawares."""
    workspace.run(str(begun(project)))
    leave(workspace, project, parcel)
    with arrived(tmp_path, parcel) as there:
        edited = begun(Path(there.path), {"id": "A", "run": "echo a >> A"}, {"id": "B", "run": "true"})
        with pytest.raises(Conflict, match="the plan was edited since its run"):
            there.run(str(edited))


def test_a_plan_outside_the_workspace_keeps_its_place(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    (tmp_path / "project-plans").mkdir()
    plan = begun(tmp_path / "project-plans")
    first = workspace.run(str(plan))
    leave(workspace, project, parcel)
    with arrived(tmp_path, parcel) as there:
        (Path(there.path) / "ready").touch()
        assert there.run(str(plan)).session == first.session


def test_plans_arrive_with_an_import_into_a_store_that_has_their_sessions(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """As after an import of an export of old, which had none."""
    first = workspace.run(str(begun(project)))
    workspace.export(parcel)
    members = members_of(parcel)
    old = tmp_path / "old.tar"
    kept = [fact for fact in facts_of(members) if fact["fact"] != "plan"]
    assert len(kept) == len(facts_of(members)) - 1
    rebuilt(old, members | {"facts.jsonl": lines(kept)})
    with opened(tmp_path / "elsewhere", tmp_path / "other-store") as there:
        there.import_file(old)
        assert there._context.work.run(first.session) is None
        there.import_file(parcel)
        before = there._context.work.run(first.session)
        assert before is not None
        there.import_file(parcel)
        assert there._context.work.run(first.session) == before


def test_what_is_known_of_a_run_here_stays(workspace: Workspace, project: Path, parcel: Path) -> None:
    first = workspace.run(str(begun(project)))
    workspace.export(parcel)
    edited = begun(project, {"id": "A", "run": "echo a >> A"}, {"id": "B", "run": "true"})
    assert workspace.run(str(edited), rebase=True).state == "done"
    before = workspace._context.work.run(first.session)

    workspace.import_file(parcel)

    assert workspace._context.work.run(first.session) == before


def test_plans_leave_without_secrets_unless_exact(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """S17: a plan without its secret is another plan, and says so when it goes on."""
    task = {
        "id": "A",
        "run": f"false {SECRET}",
        "check": f"echo {SECRET}",
        "env": {"API_TOKEN": "hunter-four"},
    }
    plan = begun(project, task, {"id": "B", "run": ["echo", SECRET]}, goal=f"use {SECRET}")
    (project / ".lastgoodignore").write_text("plan.json\n")
    text = plan.read_text()
    first = workspace.run(str(plan))
    workspace.export(tmp_path / "exact.tar", exact=True)
    leave(workspace, project, parcel)
    for file in (parcel, tmp_path / "exact.tar"):
        with tarfile.open(file) as archive:
            member = archive.extractfile("facts.jsonl")
            assert member is not None
            facts = member.read()
        assert (SECRET.encode() in facts) == (b"hunter-four" in facts) == (file != parcel)
    with arrived(tmp_path, parcel) as there:
        (Path(there.path) / "plan.json").write_text(text)
        with pytest.raises(Conflict, match="task A") as refused:
            there.run(str(Path(there.path) / "plan.json"))
        assert refused.value.details["session"] == first.session
        report = there.run(str(Path(there.path) / "plan.json"), rebase=True)
        assert report.session == first.session


def test_a_plan_that_many_runs_carried_out_leaves_once(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    (project / "ready").touch()
    plan = begun(project)
    made = [workspace.run(str(plan), choice="fresh").session for _ in range(3)]
    workspace.export(parcel)
    (fact,) = [fact for fact in facts_of(members_of(parcel)) if fact["fact"] == "plan"]
    assert sorted(fact["sessions"]) == sorted(made)
    with opened(tmp_path / "elsewhere", tmp_path / "other-store") as there:
        there.import_file(parcel)
        assert all(there._context.work.run(session) is not None for session in made)


def _without(fact: dict[str, Any], key: str) -> None:
    del fact[key]


LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no sessions": lambda fact: fact.update(sessions=[]),
    "a session that the file does not have": lambda fact: fact.update(sessions=["sess_0123456789abcdef"]),
    "a session twice": lambda fact: fact.update(sessions=fact["sessions"] * 2),
    "sessions that are none": lambda fact: fact.update(sessions=[7]),
    "another workspace": lambda fact: fact.update(workspace_key="abcd"),
    "no plan": lambda fact: _without(fact, "plan"),
    "a plan that is none": lambda fact: fact.update(plan={"version": 1}),
    "no tasks": lambda fact: fact["plan"].update(tasks=[]),
    "one task twice": lambda fact: fact["plan"].update(tasks=fact["plan"]["tasks"] * 2),
    "a task in front of what it needs": lambda fact: fact["plan"]["tasks"].reverse(),
    "needs of nothing": lambda fact: fact["plan"]["tasks"][0].update(needs=["Z"]),
    "an id with a control character": lambda fact: fact["plan"]["tasks"][0].update(id="\x1b[2J"),
    "a folder outside": lambda fact: fact["plan"]["tasks"][0].update(cwd="../../etc"),
    "a variable of ours": lambda fact: fact["plan"]["tasks"][0].update(env={"LASTGOOD_STORE": "/"}),
    "a source that is no path": lambda fact: fact["plan"].update(source="plan.json"),
    "a source with a NUL": lambda fact: fact["plan"].update(source="/a\0b"),
    "a source that no file can have": lambda fact: fact["plan"].update(source="/\ud800"),
    "an endless number": lambda fact: fact["plan"]["tasks"][0].update(retries=10**30),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_plan_that_lies_is_refused(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path, lie: str
) -> None:
    workspace.run(str(begun(project)))
    workspace.export(parcel)
    facts = facts_of(members_of(parcel))
    LIES[lie](next(fact for fact in facts if fact["fact"] == "plan"))
    rebuilt(parcel, members_of(parcel) | {"facts.jsonl": lines(facts)})
    with opened(tmp_path / "elsewhere", tmp_path / "other-store") as there:
        with pytest.raises(Damaged):
            there.import_file(parcel)
        assert there._context.catalogue.workspaces() == []


def test_a_plan_of_so_many_sessions_that_no_store_could_hold_it_is_refused(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    """It is in the file once, and would be in the catalogue for each of them."""
    workspace.run(str(begun(project, {"id": "A", "run": f"false {'x' * 90_000}"})))
    workspace.export(parcel)
    facts = facts_of(members_of(parcel))
    plan = next(fact for fact in facts if fact["fact"] == "plan")
    session = next(fact for fact in facts if fact["fact"] == "session")
    plan["sessions"] = [f"sess_{number:016x}" for number in range(100)]
    facts += [{**session, "session": {**session["session"], "id": id}} for id in plan["sessions"]]
    rebuilt(parcel, members_of(parcel) | {"facts.jsonl": lines(facts)})
    (tmp_path / "elsewhere").mkdir()
    small = Settings(limits=LimitSettings(max_store_size=4 << 20))
    with lastgood.open(
        tmp_path / "elsewhere", store=tmp_path / "other-store", maintenance="off", settings=small
    ) as there:
        with pytest.raises(Storage, match="plans"):
            there.import_file(parcel)
        assert there._context.catalogue.workspaces() == []


def test_a_plan_of_a_newer_lastgood_is_unsupported(
    workspace: Workspace, project: Path, tmp_path: Path, parcel: Path
) -> None:
    workspace.run(str(begun(project)))
    workspace.export(parcel)
    facts = facts_of(members_of(parcel))
    next(fact for fact in facts if fact["fact"] == "plan")["plan"]["version"] = 99
    rebuilt(parcel, members_of(parcel) | {"facts.jsonl": lines(facts)})
    with (
        opened(tmp_path / "elsewhere", tmp_path / "other-store") as there,
        pytest.raises(lastgood.Unsupported),
    ):
        there.import_file(parcel)


@given(plan=plans())
def test_every_sound_plan_comes_back_as_it_was(plan: WorkPlan) -> None:
    sound = plan.replace(source=None if plan.source is None else "/" + plan.source)
    kept = ExportedPlan(sessions=("sess_0123456789abcdef",), workspace_key="ab", plan=sound)
    (back,) = decode_facts(encode_facts(Facts(plans=(kept,)))).plans
    assert encode_plan(back.plan) == encode_plan(sound)
    assert (back.sessions, back.workspace_key) == (kept.sessions, kept.workspace_key)


def test_a_run_goes_on_in_a_folder_that_was_moved(
    workspace: Workspace, project: Path, store: Path, tmp_path: Path
) -> None:
    """S19: what is attached brings its runs along."""
    first = workspace.run(str(begun(project)))
    moved = tmp_path / "moved"
    project.rename(moved)
    with opened(moved, store) as there:
        there.attach(str(project))
        (moved / "ready").touch()
        report = there.run(str(moved / "plan.json"))
        assert (report.session, report.state) == (first.session, "done")
