"""What changes files over MCP needs a plan's id, ``confirm``, or a person's yes (rules T1, T16)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

import lastgood
from mcp_server.conftest import Served, saved_once

YES = ElicitResult(action="accept", content={"go_ahead": True})
ANSWERS_THAT_ARE_NO_YES = {
    "unticked": ElicitResult(action="accept", content={"go_ahead": False}),
    "declined": ElicitResult(action="decline"),
    "cancelled": ElicitResult(action="cancel"),
}


def notes(served: Served) -> str:
    return (served.project / "notes.txt").read_text()


# --- A person who is asked ---


def test_a_restore_asks_with_the_plan_and_does_it_on_a_yes(served: Served) -> None:
    """T1: what would be done is shown first."""
    report = served.done("restore", ref="first", answer=YES)

    assert notes(served) == "good\n"
    assert not (served.project / "new.txt").exists()
    (question,) = served.asked
    assert "1 file to write, 1 file to delete" in question
    assert "delete new.txt" in question
    assert "write notes.txt" in question
    assert report["plan"] in question


@pytest.mark.parametrize("how", ANSWERS_THAT_ARE_NO_YES)
def test_anything_but_a_yes_changes_nothing(served: Served, how: str) -> None:
    """T1: hosts without a person answer with a cancellation."""
    error = served.refused("restore", ref="first", answer=ANSWERS_THAT_ARE_NO_YES[how])

    assert error["code"] == "unsafe"
    assert len(served.asked) == 1
    assert notes(served) == "ruined\n"


@pytest.mark.parametrize("tool", ["rewind", "undo"])
def test_no_other_way_back_is_gone_without_a_yes(modern: Served, tool: str) -> None:
    """T1."""
    if tool == "undo":
        modern.done("restore", ref="first", confirm=True)
    else:
        modern.done("save", message="ruined")
    before = notes(modern)

    modern.refused(tool, answer=ANSWERS_THAT_ARE_NO_YES["declined"])

    assert len(modern.asked) == 1
    assert notes(modern) == before


def test_an_undo_asks_what_it_takes_back(served: Served) -> None:
    """T8."""
    done = served.done("restore", ref="first", confirm=True)
    served.done("undo", answer=YES)

    assert notes(served) == "ruined\n"
    assert done["operation"] in served.asked[0]
    assert "  write notes.txt" in served.asked[0]
    served.done("redo", answer=YES)
    assert notes(served) == "good\n"


def test_what_an_agent_did_is_taken_back_on_a_yes(modern: Served, workspace: lastgood.Workspace) -> None:
    """T17: and what a person did stays."""
    started = workspace.session_start(owner_pid=os.getpid(), exclusive=False).session.id
    (modern.project / "notes.txt").write_text("by the agent\n")
    agent = lastgood.Actor(type="agent", name="one")
    workspace.within(started).save("a turn", kind="turn", actor=agent)
    (modern.project / "mine.txt").write_text("by hand\n")

    modern.done("restore", only_agent=True, answer=YES)

    assert "Take back what an agent changed" in modern.asked[0]
    assert notes(modern) != "by the agent\n"
    assert (modern.project / "mine.txt").read_text() == "by hand\n"


def test_what_would_change_nothing_is_not_asked(served: Served) -> None:
    (served.project / "notes.txt").write_text("good\n")
    (served.project / "new.txt").unlink()

    assert served.done("restore", ref="first")["counts"]["write"] == 0


def test_a_recovery_that_takes_nothing_back_is_not_asked(served: Served) -> None:
    """P7."""
    assert served.done("recover")["schema"] == "lastgood.recover/1"


def test_a_recovery_that_rolls_back_needs_consent(served: Served) -> None:
    """P7b."""
    assert served.refused("recover", ref="first", roll_back=True)["code"] == "unsafe"
    assert notes(served) == "ruined\n"

    served.done("recover", ref="first", roll_back=True, answer=YES)
    assert notes(served) == "good\n"


@pytest.mark.parametrize("plan", ["", "plan_0000000000000000", "anything"])
def test_no_other_plan_is_consent_to_a_recovery(served: Served, plan: str) -> None:
    """T1: one that differs is refused as it is for a restore."""
    assert served.refused("recover", ref="first", roll_back=True, plan=plan)["code"] == "conflict"
    assert notes(served) == "ruined\n"


# --- Nobody to ask: a plan that was looked at, or confirm ---


@pytest.mark.parametrize("tool", ["restore", "undo", "redo"])
def test_without_anybody_to_ask_it_is_refused_and_says_how(served: Served, tool: str) -> None:
    """T1."""
    if tool != "restore":
        served.done("restore", ref="first", confirm=True)
    if tool == "redo":
        served.done("undo", confirm=True)
    before = notes(served)

    words: dict[str, Any] = {"ref": "first"} if tool == "restore" else {}
    error = served.refused(tool, **words)

    assert error["code"] == "unsafe"
    assert "confirm=true" in error["hint"]
    assert notes(served) == before


def test_the_id_of_the_plan_that_was_looked_at_is_consent(served: Served) -> None:
    """T1: and it is enough by itself, as the server remembers it."""
    looked = served.done("plan_restore", ref="first")

    assert looked["dry_run"]
    assert notes(served) == "ruined\n"
    served.done("restore", plan=looked["plan"])
    assert notes(served) == "good\n"


def test_the_id_is_enough_for_a_server_that_was_started_since(served: Served, store: Any, era: str) -> None:
    """T1: beside what is to be restored."""
    plan = served.done("plan_restore", ref="first")["plan"]
    again = Served(served.project, store, era=era)

    assert again.refused("restore", plan=plan)["code"] == "not-found"
    again.done("restore", ref="first", plan=plan)
    assert notes(served) == "good\n"


def test_a_plan_that_is_no_longer_true_is_refused(served: Served) -> None:
    """T1."""
    plan = served.done("plan_restore", ref="first")["plan"]
    (served.project / "notes.txt").write_text("edited meanwhile\n")

    assert served.refused("restore", plan=plan)["code"] == "conflict"
    assert served.refused("restore", ref="first", plan=plan)["code"] == "conflict"
    assert notes(served) == "edited meanwhile\n"


def test_a_plan_that_was_looked_at_is_no_consent_to_force_it(served: Served) -> None:
    """T14."""
    plan = served.done("plan_restore", ref="first")["plan"]

    assert served.refused("restore", ref="first", plan=plan, force=True)["code"] == "conflict"
    assert notes(served) == "ruined\n"
    forced = served.done("plan_restore", ref="first", force=True)["plan"]
    served.done("restore", plan=forced)
    assert notes(served) == "good\n"


def test_a_plan_to_rewind_is_carried_out_by_its_id(served: Served) -> None:
    """T15."""
    served.done("save", message="ruined")
    looked = served.done("plan_rewind")

    served.done("rewind", plan=looked["plan"])
    assert notes(served) == "good\n"


def test_a_restore_of_nothing_in_particular_is_refused(served: Served) -> None:
    assert served.refused("restore", confirm=True)["code"] == "usage"


# --- Very many files ---


def test_a_plan_to_rewind_is_carried_out_a_turn_later_too(served: Served, store: Path) -> None:
    """T1, T15: by its id and the words that it was made of, although a turn more counts by then."""
    with lastgood.open(served.project, store=store, maintenance="off") as workspace:
        for state in ("ruined", "worse"):
            (served.project / "notes.txt").write_text(f"{state}\n")
            workspace.save(state, kind="turn")
        plan = served.done("plan_rewind", turns=2)["plan"]
        workspace.save("undo what you did", kind="turn", allow_empty=True)
    served.done("rewind", turns=2, plan=plan)
    assert notes(served) == "good\n"


def test_very_many_deletions_need_the_plan_itself(served: Served) -> None:
    """T16."""
    for number in range(60):
        (served.project / f"made-{number}.txt").write_text("kept\n")

    error = served.refused("restore", ref="first", confirm=True)

    assert error["code"] == "unsafe"
    assert "confirm" not in error["hint"]
    assert (served.project / "made-1.txt").exists()
    served.done("restore", ref="first", plan=error["details"]["plan"])
    assert not (served.project / "made-1.txt").exists()


def test_very_many_deletions_are_asked_about_whatever_was_said(served: Served) -> None:
    """T16."""
    for number in range(60):
        (served.project / f"made-{number}.txt").write_text("kept\n")

    served.refused("restore", ref="first", confirm=True, answer=ElicitResult(action="decline"))

    assert "This deletes 61 files" in served.asked[0]
    assert (served.project / "made-1.txt").exists()


def test_a_recovery_that_takes_very_many_files_needs_the_plan_itself(served: Served) -> None:
    """T16."""
    for number in range(60):
        (served.project / f"made-{number}.txt").write_text("kept\n")

    error = served.refused("recover", ref="first", roll_back=True, confirm=True)

    assert (served.project / "made-1.txt").exists()
    served.done("recover", ref="first", roll_back=True, plan=error["details"]["plan"])
    assert not (served.project / "made-1.txt").exists()


def brought_back(served: Served) -> str:
    """Have a restore bring sixty files back that were gone; its operation."""
    for number in range(60):
        (served.project / f"made-{number}.txt").write_text("kept\n")
    served.done("save", name="many")
    for number in range(60):
        (served.project / f"made-{number}.txt").unlink()
    return str(served.done("restore", ref="many", confirm=True)["operation"])


def test_an_undo_that_takes_very_many_files_needs_the_operation_itself(served: Served) -> None:
    """T16."""
    operation = brought_back(served)

    error = served.refused("undo", confirm=True)

    assert error["code"] == "unsafe"
    assert "confirm" not in error["hint"]
    assert error["details"]["deletions"] == 60
    assert (served.project / "made-1.txt").exists()
    assert error["details"]["of"] == operation
    served.done("undo", of=operation)
    assert not (served.project / "made-1.txt").exists()


def test_an_undo_that_takes_very_many_files_is_asked_about_whatever_was_said(served: Served) -> None:
    """T16: with the counts."""
    brought_back(served)

    served.refused("undo", confirm=True, answer=ElicitResult(action="decline"))

    assert "This deletes 60 files" in served.asked[0]
    assert (served.project / "made-1.txt").exists()


def test_a_redo_that_takes_very_many_files_needs_the_operation_itself(modern: Served) -> None:
    """T16."""
    for number in range(60):
        (modern.project / f"made-{number}.txt").write_text("kept\n")
    error = modern.refused("restore", ref="first", confirm=True)
    modern.done("restore", ref="first", plan=error["details"]["plan"])
    modern.done("undo", confirm=True)

    of = modern.refused("redo", confirm=True)["details"]["of"]

    assert (modern.project / "made-1.txt").exists()
    modern.done("redo", of=of)
    assert not (modern.project / "made-1.txt").exists()


# --- Done is what was agreed to ---


def test_a_yes_to_what_is_no_longer_so_is_none(project: Path, store: Path, era: str) -> None:
    """T1: a file changes while the person thinks."""

    class Slow(Served):
        def thinks(self) -> None:
            if len(self.asked) == 1:
                (self.project / "notes.txt").write_text("edited meanwhile\n")

    saved_once(project, store, era=era)
    served = Slow(project, store, era=era)
    answered = served.call("restore", ref="first", answer=YES)

    if answered.is_error:
        assert json.loads(answered.content[0].text)["error"]["code"] == "conflict"  # type: ignore[union-attr]
        assert notes(served) == "edited meanwhile\n"
    else:  # the present plan was asked about
        before, after = served.asked
        assert before != after
        served.done("undo", confirm=True)
        assert notes(served) == "edited meanwhile\n"


@pytest.mark.parametrize("tool", ["undo", "redo"])
def test_a_yes_to_an_undo_by_force_is_none_to_what_changed_since(
    project: Path, store: Path, era: str, tool: str
) -> None:
    """T1, T8: with force nothing refuses what changed while the person thinks, but that it was not shown."""

    class Slow(Served):
        def thinks(self) -> None:
            if len(self.asked) == 1:
                (self.project / "new.txt").write_text("made meanwhile\n")

    saved_once(project, store, era=era)
    served = Slow(project, store, era=era)
    served.done("restore", ref="first", confirm=True)
    if tool == "redo":
        served.done("undo", confirm=True)
    (project / "notes.txt").write_text("mine\n")
    answered = served.call(tool, force=True, answer=YES)

    if answered.is_error:
        assert json.loads(answered.content[0].text)["error"]["code"] == "conflict"  # type: ignore[union-attr]
        assert notes(served) == "mine\n"
        assert (project / "new.txt").read_text() == "made meanwhile\n"
    assert answered.is_error == (era == "legacy")
    assert len(set(served.asked)) == len(served.asked) == (1 if answered.is_error else 2)


def test_the_operation_is_no_consent_to_what_is_done_by_force(modern: Served) -> None:
    """T1, T8: its plan is; the plan of a restore is none of an undo."""
    of = modern.done("restore", ref="first", confirm=True)["operation"]
    (modern.project / "notes.txt").write_text("mine\n")
    of_restore = modern.done("plan_restore", ref="first")["plan"]

    refused = modern.refused("undo", force=True, of=of)
    assert refused["details"]["plan"] in refused["hint"]
    assert modern.refused("undo", force=True, plan=of_restore)["code"] == "conflict"
    assert notes(modern) == "mine\n"

    modern.done("undo", force=True, plan=refused["details"]["plan"])
    assert notes(modern) == "ruined\n"


def test_an_undo_takes_no_other_operation_than_was_agreed_to(
    project: Path, store: Path, era: str, workspace: lastgood.Workspace
) -> None:
    """T1, T8: another door restores while the person thinks."""
    (project / "a").write_text("good")
    (project / "b").write_text("good")
    workspace.save("both", name="both")
    (project / "a").write_text("ruined")
    workspace.restore("both", paths=["a"])
    (project / "b").write_text("ruined")

    class Slow(Served):
        def thinks(self) -> None:
            if len(self.asked) == 1:
                workspace.restore("both", paths=["b"])

    served = Slow(project, store, era=era)
    answered = served.call("undo", answer=YES)

    assert (project / "b").read_text() == "good" or len(served.asked) > 1
    assert answered.is_error == (era == "legacy")


def test_an_undo_of_an_operation_that_is_not_the_last_is_refused(
    served: Served, workspace: lastgood.Workspace
) -> None:
    """T8."""
    first = served.done("restore", ref="first", confirm=True)["operation"]
    (served.project / "notes.txt").write_text("again\n")
    workspace.restore("first")

    assert served.refused("undo", of=first)["code"] == "conflict"
    with pytest.raises(lastgood.Conflict):
        workspace.undo(of=first)
    with pytest.raises(lastgood.Conflict):
        workspace.redo(of=first)
    assert notes(served) == "good\n"
