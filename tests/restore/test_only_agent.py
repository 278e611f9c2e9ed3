"""Taking back what an agent changed, and keeping the rest (rule T17, decision 055)."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from lastgood.errors import NotFound, Usage
from lastgood.model.checkpoint import Actor
from lastgood.model.report import RestoreReport
from lastgood.restore.only_agent import work_in_session
from lastgood.restore.restore import RestoreRequest, plan_restore
from lastgood.workspace import Workspace

AGENT = Actor(type="agent", name="claude-code")
TOOL = Actor(type="tool", name="Bash", call="one")
PERSON = Actor(type="person")
TEXT = "".join(f"line {number}\n" for number in range(1, 21))


class Work:
    """An agent and a person who save in turns."""

    def __init__(self, workspace: Workspace, project: Path) -> None:
        self.workspace = workspace
        self.project = project
        self.session = workspace.session_start(exclusive=False).session.id
        self.within = workspace.within(self.session)

    def write(self, name: str, text: str | None) -> None:
        file = self.project / name
        if text is None:
            file.unlink()
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)

    def agent(self, actor: Actor = AGENT, **files: str | None) -> None:
        for name, text in files.items():
            self.write(name.replace("__", "/"), text)
        self.within.save("a turn", kind="turn", actor=actor)

    def person(self, **files: str | None) -> None:
        for name, text in files.items():
            self.write(name.replace("__", "/"), text)
        self.within.save("before: a turn", kind="auto", actor=PERSON)

    def text(self, name: str) -> str | None:
        file = self.project / name
        return file.read_text() if file.exists() else None


@pytest.fixture
def work(workspace: Workspace, project: Path) -> Work:
    (project / "both").write_text(TEXT)
    (project / "theirs").write_text("one\n")
    (project / "mine").write_text("one\n")
    (project / "gone").write_text("one\n")
    workspace.save("begin")
    return Work(workspace, project)


def results(report: RestoreReport) -> dict[str, str]:
    return {one.path.decode(): one.result for one in report.outcomes}


def test_the_agents_changes_go_and_the_others_stay(work: Work) -> None:
    """Edits, additions and deletions, in several turns, what is not saved yet included."""
    work.agent(both=TEXT.replace("line 3\n", "LINE 3\n"), theirs="two\n", folder__new="new\n")
    work.person(mine="two\n", both=TEXT.replace("line 3\n", "LINE 3\n").replace("line 10\n", "mine\n"))
    work.agent(TOOL, gone=None, theirs="three\n")
    work.write("mine", "three\n")
    work.write("beside", "not saved\n")

    report = work.workspace.restore(only_agent=True)

    assert report.complete
    assert work.text("both") == TEXT.replace("line 10\n", "mine\n")
    assert [work.text(name) for name in ("theirs", "gone", "mine", "beside")] == [
        "one\n",
        "one\n",
        "three\n",
        "not saved\n",
    ]
    assert not (work.project / "folder").exists()
    assert work.workspace.stands_at() == work.workspace.get("@").id

    work.workspace.undo()
    assert work.text("theirs") == "three\n"
    assert work.text("folder/new") == "new\n"
    assert work.text("gone") is None


def test_changes_that_alternate_in_one_file_are_taken_back_one_by_one(work: Work) -> None:
    text = TEXT
    for line, by in ((3, "agent"), (8, "person"), (13, "agent"), (18, "person")):
        text = text.replace(f"line {line}\n", f"by the {by}\n")
        (work.agent if by == "agent" else work.person)(both=text)

    work.workspace.restore(only_agent=True)

    expected = TEXT.replace("line 8\n", "by the person\n").replace("line 18\n", "by the person\n")
    assert work.text("both") == expected


def test_permissions_that_alternate_with_texts_are_taken_back_too(work: Work) -> None:
    both = work.project / "both"
    work.agent(both=TEXT.replace("line 3\n", "by the agent\n"))
    text = TEXT.replace("line 18\n", "by the person\n")
    work.person(both=text.replace("line 3\n", "by the agent\n"))
    both.chmod(0o755)
    work.agent()

    work.workspace.restore(only_agent=True)

    assert (work.text("both"), both.stat().st_mode & 0o777) == (text, 0o644)


def test_histories_of_any_turns_leave_just_what_the_person_did(work: Work) -> None:
    """Judged by a model: each line belongs to somebody, and no two touch each other's neighbours."""
    draw = random.Random(11)
    lines = [f"line {number}\n" for number in range(200)]
    kept = list(lines)
    places = list(range(0, 200, 5))
    draw.shuffle(places)
    work.person(both="".join(lines))
    for turn in range(16):
        by_agent = draw.random() < 0.5
        for _ in range(2):
            place = places.pop()
            lines[place] = f"changed in {turn}\n"
            if not by_agent:
                kept[place] = lines[place]
        (work.agent if by_agent else work.person)(both="".join(lines))

    work.workspace.restore(only_agent=True)

    assert work.text("both") == "".join(kept)


def test_a_file_that_the_agent_made_a_folder_comes_back_and_goes_again(work: Work) -> None:
    (work.project / "theirs").unlink()
    work.agent(theirs__inside="two\n")

    report = work.workspace.restore(only_agent=True)

    assert report.complete
    assert work.text("theirs") == "one\n"
    assert len({one.path for one in report.outcomes}) == len(report.outcomes)
    work.workspace.undo()
    assert work.text("theirs/inside") == "two\n"


def test_what_both_changed_in_one_place_is_a_conflict(work: Work) -> None:
    work.agent(theirs="two\n")
    work.person(theirs="mine\n")

    plan = work.workspace.plan_restore(only_agent=True)
    assert plan.conflicts == (b"theirs",)
    work.workspace.restore(only_agent=True, conflict="theirs")
    assert work.text("theirs") == "one\n"
    work.workspace.undo()
    work.workspace.restore(only_agent=True)
    assert work.text("theirs") == "mine\n"
    [beside] = work.project.glob("theirs.lastgood-*")
    assert beside.read_text() == "one\n"


@pytest.mark.parametrize("turns", [1, 2], ids=["in one turn", "in several"])
def test_what_a_person_changed_beside_stays_with_the_line_next_to_it_and_the_rest_goes(
    work: Work, turns: int
) -> None:
    """T17: and is named; what the file would have been lies beside it."""
    first = TEXT.replace("line 3\n", "LINE 3\n")
    if turns == 2:
        work.agent(both=first)
        work.person(mine="two\n", both=first.replace("line 8\n", "mine\n"))
    text = work.text("both") if turns == 2 else first
    assert text is not None
    work.agent(both=text.replace("line 18\n", "LINE 18\n"))
    now = text.replace("line 18\n", "LINE 18\n").replace("line 17\n", "mine 17\n")
    work.person(both=now)

    report = work.workspace.restore(only_agent=True)

    assert work.text("both") == now.replace("LINE 3\n", "line 3\n")
    assert report.conflicts == (b"both",)
    assert not report.complete
    [beside] = work.project.glob("both.lastgood-*")
    assert beside.read_text() == TEXT
    work.workspace.undo()
    assert work.text("both") == now
    assert not beside.exists()


def test_of_a_private_file_it_is_said_how_to_see_what_it_was(work: Work) -> None:
    """T17, S5: where its path is given; no copy lies beside it."""
    work.person(**{".gitignore": ".env\n", ".env": TEXT})
    text = TEXT.replace("line 3\n", "LINE 3\n").replace("line 18\n", "LINE 18\n")
    work.write(".env", text)
    work.agent()
    now = text.replace("line 17\n", "mine 17\n")
    work.person(**{".env": now})

    report = work.workspace.restore(only_agent=True, paths=[".env"])

    assert work.text(".env") == now.replace("LINE 3\n", "line 3\n")
    [outcome] = report.outcomes
    assert outcome.reason is not None
    assert outcome.reason.startswith("conflict: kept as it is where both changed it: private")
    assert outcome.reason.endswith(" .env --private")
    assert not report.complete


def test_a_file_of_the_agents_that_a_person_went_on_with_stays(work: Work) -> None:
    work.agent(new="one\n")
    work.person(new="one\nmore\n")

    report = work.workspace.restore(only_agent=True)

    assert work.text("new") == "one\nmore\n"
    assert results(report) == {"new": "skipped"}


def test_sessions_are_taken_back_one_at_a_time(work: Work) -> None:
    """The last agent's by default; another by its name."""
    work.agent(theirs="two\n")
    other = Work(work.workspace, work.project)
    other.agent(gone="two\n")

    work.workspace.restore(only_agent=True)
    assert (work.text("theirs"), work.text("gone")) == ("two\n", "one\n")
    work.workspace.undo()
    work.workspace.restore(only_agent=True, session=work.session[:10])
    assert (work.text("theirs"), work.text("gone")) == ("one\n", "two\n")


def test_a_turn_under_way_counts_as_the_agents(work: Work) -> None:
    work.agent(theirs="two\n")
    work.within.step_start("a prompt")
    work.write("theirs", "three\n")
    work.write("gone", None)

    work.workspace.restore(only_agent=True)

    assert (work.text("theirs"), work.text("gone")) == ("one\n", "one\n")


def test_a_hook_that_saves_between_the_looks_of_a_plan_hides_nothing_from_it(work: Work) -> None:
    """T17, T1: what is taken back is measured from where the first look found the workspace."""
    work.agent(theirs="two\n")
    work.within.step_start("a prompt")
    work.write("gone", "two\n")
    context, view = work.workspace._context, work.workspace._view
    found = work_in_session(context, session=None, since=None, favour=None)
    work.within.save("before: rm", kind="risky", actor=AGENT)

    plan = plan_restore(context, view, RestoreRequest(target=found.target, scopes=("files",), agent=found))

    assert {one.path for one in plan.of("write")} == {b"theirs", b"gone"}


def test_a_turn_whose_host_died_leaves_what_came_since_alone(work: Work) -> None:
    """Who changed it since nobody knows; the last session whose work is known is meant."""
    died = work.workspace.session_start(exclusive=False)
    work.workspace.within(died.session.id).step_start("a prompt")
    work.workspace.session_break_off(died.session.id, reason="killed")
    work.agent(theirs="two\n")
    work.write("gone", "mine\n")

    work.workspace.restore(only_agent=True)

    assert (work.text("theirs"), work.text("gone")) == ("one\n", "mine\n")


def test_what_a_turn_left_that_was_cut_short_stays_and_is_named(work: Work) -> None:
    """A person may have edited by hand after it, before the next prompt."""
    work.agent(gone="two\n")
    turn = work.within.step_start("a prompt")
    work.write("theirs", "mine\n")
    work.within.save("interrupted: a prompt", kind="turn", actor=Actor())
    work.within.step_end(turn, state="failed")

    report = work.workspace.restore(only_agent=True)

    assert (work.text("theirs"), work.text("gone")) == ("mine\n", "one\n")
    assert results(report) == {"theirs": "kept", "gone": "restored"}


def test_where_a_turn_was_cut_short_alone_nothing_is_taken_back(work: Work) -> None:
    work.write("theirs", "two\n")
    work.within.save("interrupted: a prompt", kind="turn")

    plan = work.workspace.plan_restore(only_agent=True)

    [step] = plan.steps
    assert (step.path, step.action) == (b"theirs", "keep")
    assert step.reason is not None
    assert "cut short" in step.reason
    work.workspace.apply(plan)
    assert work.text("theirs") == "two\n"


def test_what_nobody_saved_since_a_host_died_in_its_turn_stays_and_is_named(work: Work) -> None:
    work.agent(theirs="two\n")
    with subprocess.Popen(["sleep", "600"]) as host:
        died = work.workspace.session_start(exclusive=False, owner_pid=host.pid).session.id
        within = work.workspace.within(died)
        within.step_start("a prompt")
        within.save("before: rm", kind="risky", actor=AGENT, allow_empty=True)
        host.kill()
    work.write("gone", "mine\n")

    plan = work.workspace.plan_restore(only_agent=True, session=died)

    assert [(one.path, one.action) for one in plan.steps] == [(b"gone", "keep")]


@pytest.mark.parametrize("saved", [True, False], ids=["a turn that ended", "one under way"])
def test_a_file_that_the_agent_no_longer_ignores_was_perhaps_there_before(work: Work, *, saved: bool) -> None:
    """T4: what was ignored then is never deleted."""
    work.person(**{".gitignore": "hidden\nfolder/\n", "hidden": "mine\n", "folder__file": "mine\n"})
    if not saved:
        work.within.step_start("a prompt")
    work.write(".gitignore", "\n")
    work.write("new", "new\n")
    if saved:
        work.agent()

    report = work.workspace.restore(only_agent=True)

    kept = {"folder/file": "kept", "hidden": "kept"}
    assert results(report) == {".gitignore": "restored", "new": "removed"} | kept
    assert [work.text(name) for name in ("hidden", "folder/file", "new")] == ["mine\n", "mine\n", None]


def test_a_file_of_the_agents_that_is_ignored_by_now_stays_and_is_named(work: Work) -> None:
    """T4."""
    work.agent(new="new\n", theirs="two\n")
    work.person(**{".gitignore": "new\n"})

    report = work.workspace.restore(only_agent=True)

    assert results(report) == {"new": "kept", "theirs": "restored"}
    assert work.text("new") == "new\n"


def test_a_folder_that_a_person_made_stays_when_the_agents_file_in_it_goes(work: Work) -> None:
    work.agent(theirs="two\n")
    (work.project / "folder").mkdir()
    work.person()
    work.agent(folder__new="new\n", other__new="new\n")

    work.workspace.restore(only_agent=True)

    assert list((work.project / "folder").iterdir()) == []
    assert not (work.project / "other").exists()


def test_it_is_limited_by_paths_and_by_a_checkpoint(work: Work) -> None:
    work.agent(theirs="two\n", gone="two\n")
    since = work.workspace.get("@").id
    work.agent(theirs="three\n", gone="three\n")

    work.workspace.restore(since, only_agent=True, paths=["theirs"])

    assert (work.text("theirs"), work.text("gone")) == ("two\n", "three\n")


def test_what_two_agents_did_at_once_stays_and_is_named(work: Work) -> None:
    other = Work(work.workspace, work.project)
    work.agent(gone="two\n")
    theirs = other.within.step_start("their prompt")
    work.agent(theirs="two\n")
    other.within.step_end(theirs)

    plan = work.workspace.plan_restore(only_agent=True, session=work.session)

    assert {(one.path, one.action) for one in plan.steps} == {(b"gone", "write"), (b"theirs", "keep")}


def test_where_no_agent_is_known_that_is_said(workspace: Workspace, project: Path) -> None:
    (project / "file").write_text("one")
    workspace.save("one")
    with pytest.raises(NotFound, match="agent"):
        workspace.plan_restore(only_agent=True)
    with pytest.raises(Usage):
        workspace.plan_restore(only_agent=True, merge=True)
    with pytest.raises(Usage):
        workspace.plan_restore("@", session="x")
    with pytest.raises(Usage):
        workspace.plan_restore()
