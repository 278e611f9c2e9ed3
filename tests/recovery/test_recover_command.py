"""recover on the command line: the sentences, the questions, the exit codes (rules P7, P8)."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from lastgood.workspace import Workspace
from lastgood.workspace.session import OpenSession
from tools.command import COMMAND, Command, told, told_as_document

Died = Callable[..., str]

SHORT = r"ckpt_[0-9a-f]{8}"


# Blocks that are entered and never left: a run that is killed leaves none.
left: list[AbstractContextManager[object]] = []


def work(session: OpenSession[Workspace]) -> None:
    folder = session.workspace.path
    session.progress(phase="Construction", iteration=3, step=12, steps=15, artifacts=["draft.md"])
    with open(f"{folder}/draft.md", "w", encoding="utf-8") as file:
        file.write("a draft")
    with session.task("T01"):
        pass
    left.append(session.task("T02"))
    left[-1].__enter__()
    left.append(session.step("deploy", irreversible=True))
    left[-1].__enter__()


def test_the_sentences_of_a_recovery_with_nothing_dead(lastgood: Command) -> None:
    """The words of the AIWG guide."""
    draft = lastgood.project / "draft.md"
    draft.write_text("a draft")
    words = ["--phase", "Construction", "--iteration", "3", "--step", "12/15", "--artifact", "draft.md"]
    lastgood("progress", "set", *words)
    lastgood("checkpoint", "create", "--name", "iteration-3-complete")
    draft.unlink()

    shown = lastgood("checkpoint", "recover").out

    assert re.fullmatch(
        rf"Recovering from most recent checkpoint iteration-3-complete \({SHORT}\)\.\n"
        r"Resuming Construction phase, iteration 3, step 12/15\.\n"
        r"In-progress artifact draft\.md reloaded\.\n"
        r"Ready to continue\.\n",
        shown,
    ), shown
    assert draft.read_text() == "a draft"


def test_the_sentences_of_a_recovery_of_one_checkpoint(lastgood: Command) -> None:
    (lastgood.project / "a").write_text("1")
    lastgood("progress", "set", "--phase", "Construction", "--iteration", "2", "--step", "15/15")
    saved = lastgood.save()
    shown = lastgood("checkpoint", "recover", saved).out
    assert re.fullmatch(
        rf"Recovering from checkpoint {SHORT} \(auto, \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\)\.\n"
        r"Resuming Construction phase, iteration 2, step 15/15\.\n"
        r"No in-progress artifacts\.\n"
        r"Ready to continue\.\n",
        shown,
    ), shown


def test_without_a_terminal_the_only_dead_run_goes_on(lastgood: Command, died: Died) -> None:
    id = died(work, goal="ship it")
    shown = lastgood("recover").out
    assert "Resuming Construction phase, iteration 3, step 12/15.\n" in shown
    assert "In-progress artifact draft.md is in place.\n" in shown
    assert "Tasks: 1 done, 1 pending (T02).\n" in shown
    assert "Effect unknown: step deploy of task T02, irreversible, started " in shown
    assert f"Session {id} is active again: export LASTGOOD_SESSION={id}\n" in shown
    assert shown.endswith("Ready to continue.\n")
    assert lastgood("status", "--json").json["state"] == "active"


def test_the_document_of_a_recovery(lastgood: Command, died: Died) -> None:
    id = died(work)
    document = lastgood("recover", "--continue", "--json").json
    assert document["schema"] == "lastgood.recover/1"
    assert (document["state"], document["done"]) == ("active", "continue")
    assert (document["session"]["id"], document["session"]["state"]) == (id, "active")
    assert document["checkpoint"]["session"] == id
    assert document["position"]["step"] == 12
    assert [(one["id"], one["state"]) for one in document["tasks"]] == [("T01", "done"), ("T02", "pending")]
    assert [one["name"] for one in document["unknown_effects"]] == ["deploy", "T02"]
    assert (document["live_processes"], document["git_matches"], document["files"]) == ([], None, [])
    assert document["artifacts"] == [{"path": "draft.md", "state": "present"}]


def test_fresh_says_what_to_type(lastgood: Command, died: Died) -> None:
    id = died(work, goal="ship it")
    shown = lastgood("recover", "--fresh").out
    assert f"Session {id} was ended; its checkpoints stay, and no file was touched.\n" in shown
    assert "Effect unknown: step deploy" in shown
    assert shown.endswith("lastgood session start --goal 'ship it'\n")
    assert "incomplete" not in lastgood("status").out


def test_review_only_tells(lastgood: Command, died: Died) -> None:
    id = died(work)
    done = lastgood("recover", "--review")
    assert f"Session {id}: stopped without finishing, process " in done.out
    assert "It stood at Construction phase, iteration 3, step 12/15.\n" in done.out
    assert "Tasks: 1 done, 1 running (T02).\n" in done.out
    assert f"go on: lastgood recover {id} --continue" in done.err
    assert "incomplete" in lastgood("status").out


def test_several_dead_runs_are_listed(lastgood: Command, died: Died) -> None:
    """P7."""
    first, second = died(), died()
    for words in (["recover"], ["recover", "--continue"], ["recover", "--fresh"]):
        done = lastgood(*words, expect=11)
        assert first in done.err
        assert second in done.err
        assert "--continue" in done.err
        told_as_document(lastgood(*words, "--json", expect=11), 11)
    assert first in lastgood("recover", first, "--continue").out


def test_rollback_takes_the_files_back(lastgood: Command, died: Died) -> None:
    died(work)
    (lastgood.project / "late").write_text("late")
    done = lastgood("recover", "--continue", "--rollback")
    assert "Files taken back to ckpt_" in done.out
    assert "take the files back with: lastgood undo" in done.err
    assert not (lastgood.project / "late").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--continue", "--fresh"],
        ["--review", "--fresh"],
        ["--fresh", "--rollback"],
        ["--review", "--rollback"],
        ["--owner-pid", "0"],
        ["--owner-pid", "me"],
        ["--continue", "one", "two"],
    ],
)
def test_what_contradicts_itself_is_refused(lastgood: Command, died: Died, words: list[str]) -> None:
    id = died()
    told(lastgood("recover", *words, expect=2), 2)
    assert lastgood("session", "show", id, "--json").json["session"]["state"] == "incomplete"


@pytest.mark.parametrize(
    ("answers", "code", "state"),
    [
        ("c\n", 0, "active"),
        ("continue\n", 0, "active"),
        ("f\n", 0, "ended"),
        ("\n", 130, "incomplete"),
        ("x\n", 130, "incomplete"),
    ],
)
def test_on_a_terminal_a_person_decides(
    lastgood: Command, died: Died, answers: str, code: int, state: str
) -> None:
    id = died(work)
    done = lastgood.terminal("recover", answers=answers, expect=code)
    assert "It stood at Construction phase" in done.out
    assert lastgood("session", "show", id, "--json").json["session"]["state"] == state


def test_on_a_terminal_one_of_several_is_picked(lastgood: Command, died: Died) -> None:
    first, second = died(), died()
    done = lastgood.terminal("recover", answers="2\nc\n")
    assert f"  1  Session {second}" in done.out
    assert f"Session {first} is active again" in done.out


def test_on_a_terminal_nothing_is_asked_when_nothing_died(lastgood: Command) -> None:
    (lastgood.project / "a").write_text("1")
    lastgood("save")
    assert "Ready to continue." in lastgood.terminal("recover").out


def test_the_check_of_the_aiwf_guide_finds_an_incomplete_session(lastgood: Command, died: Died) -> None:
    """P8: `status` says so, and ends with 0."""
    check = f'if {COMMAND} checkpoint status | grep -q "incomplete"; then echo "Found incomplete session"; fi'

    def found() -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", check],
            cwd=lastgood.project,
            env=lastgood.environment | {"PATH": f"{os.path.dirname(COMMAND)}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    (lastgood.project / "a").write_text("1")
    lastgood("save")
    assert found() == ""
    died(work)
    assert found() == "Found incomplete session\n"
    lastgood("recover", "--fresh")
    assert found() == ""


def test_a_run_goes_on_where_its_store_was_brought_by_import(
    lastgood: Command, died: Died, tmp_path: Path
) -> None:
    """P7, P8: on a fresh runner, where nobody can see its owner."""
    id = died(work, goal="ship it")
    lastgood("export", str(tmp_path / "kept.lastgood"))
    lastgood.project.rename(tmp_path / "not on that machine")
    runner = tmp_path / "runner"
    runner.mkdir()
    there = Command(runner, tmp_path / "store of the runner")
    there("import", str(tmp_path / "kept.lastgood"), "--attach")
    assert "incomplete" in there("checkpoint", "status").out

    document = there("recover", "--continue", "--rollback", "--json").json

    assert (document["done"], document["session"]["id"]) == ("continue", id)
    assert (runner / "draft.md").read_text() == "a draft"
    assert [one["name"] for one in document["unknown_effects"]] == ["deploy", "T02"]
    assert "incomplete" not in there("checkpoint", "status").out


def test_hostile_words_are_shown_escaped(lastgood: Command, died: Died) -> None:
    def die(session: OpenSession[Workspace]) -> None:
        session.progress(phase="x\u202ey", artifacts=[b"a\nb\xff"])
        left.append(session.step("s\u2066p", irreversible=True))
        left[-1].__enter__()

    died(die, goal="\u202eevil 'goal'")
    for words in (["--review"], ["--continue"]):
        shown = lastgood("recover", *words)
        assert not any(ch in shown.out + shown.err for ch in "\u202e\u2066")
        assert "a\\x0ab\\xff" in shown.out
        json.loads(lastgood("recover", "--review", "--json").out)
