"""What the command says of a restore beside its files (rules T1, T9, T11, T14, T17, P6)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools.command import Command


@pytest.fixture
def first(command: Command) -> str:
    """Save a state with progress, then go on; return the first one's id."""
    file = command.project / "file"
    file.write_text("one\n")
    command("progress", "set", "--phase", "build", "--step", "1/3")
    saved = command.save("--name", "first")
    command("task", "start", "deploy", "--irreversible")
    command("task", "done", "deploy")
    command("progress", "set", "--step", "2/3")
    file.write_text("two\n")
    return saved


def test_a_person_is_told_of_everything_before_the_first_write(command: Command, first: str) -> None:
    """T1, P6: first what changed since the newest checkpoint, then the parts, and what stays done."""
    said = command.terminal("restore", first, answers="n\n", expect=130).out
    places = [
        said.index(words)
        for words in (
            "Changed since the newest",
            "progress: will be put back",
            "deploy was done",
            "Go ahead?",
        )
    ]
    assert places == sorted(places)
    assert "step 1/3" in said
    assert (command.project / "file").read_text() == "two\n"


def test_a_report_tells_of_parts_and_of_steps_that_stay_done(command: Command, first: str) -> None:
    """T11, P6: in the documents of a dry run, a restore, and an undo."""
    planned = command("restore", first, "--dry-run", "--json").json
    assert planned["parts"] == [{"scope": "progress", "result": "planned"}]
    done = command("restore", first, "--plan", planned["plan"], "--json").json
    for document in (planned, done):
        assert document["scopes"] == ["files", "conversation", "progress"]
        assert [step["name"] for step in document["irreversible"]] == ["deploy"]
        assert document["conflicts"] == []
    assert done["parts"] == [{"scope": "progress", "result": "restored"}]
    assert (planned["progress"]["tasks"][0]["state"], done["progress"]["tasks"]) == ("done", [])
    undone = command("undo", "--json").json
    assert undone["parts"] == [{"scope": "progress", "result": "restored"}]


def test_scopes_are_named_one_by_one(command: Command, first: str) -> None:
    """T11: `--only` may be repeated; paths mean files only."""
    document = command("restore", first, "--only", "progress", "--yes", "--json").json
    assert (document["scopes"], document["files"]) == (["progress"], [])
    assert (command.project / "file").read_text() == "two\n"
    both = command("restore", first, "--only", "progress", "--only", "files", "--dry-run", "--json").json
    assert both["scopes"] == ["files", "progress"]
    paths = command("restore", first, "--dry-run", "--json", "--", "file").json
    assert paths["scopes"] == ["files"]
    command("restore", first, "--only", "progress", "--yes", "--", "file", expect=2)
    command("restore", first, "--git", "--to", "../aside", expect=2)
    command("restore", first, "--base", "@", "--yes", expect=2)
    command("undo", "--force", "--merge", expect=2)


def test_head_is_named_when_it_has_moved(command: Command, first: str) -> None:
    """T9: also by a dry run; and where it goes with `--git`."""
    git = ("git", "-C", str(command.project))
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    for number in range(2):
        (command.project / "file").write_text(f"{number}\n")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "words"], check=True)
        if number == 0:
            target = command.save("--name", "second")
    moved = command("restore", target, "--dry-run", "--json").json["head_moved"]
    assert moved["commits"] == 1
    assert "HEAD has moved by 1 commit" in command("restore", target, "--dry-run").out
    planned = command("restore", target, "--git", "--dry-run").out
    assert f"HEAD and index: will be put back (at {moved['from'][:12]}, detached)" in planned
    said = command("restore", target, "--git", "--yes")
    assert "HEAD and index: put back" in said.err
    assert "main is not where it was" in said.err


def test_conflicts_are_listed_and_give_code_3(command: Command, first: str) -> None:
    """T17, T10: with the other version beside them; a choice settles them."""
    command.save("base")
    (command.project / "file").write_text("three\n")
    short = first[:13]
    planned = command("restore", first, "--merge", "--dry-run")
    assert f"create  file.lastgood-{short}" in planned.out
    assert "skip    file  (conflict)" in planned.out
    said = command("restore", first, "--merge", "--yes", expect=3)
    assert "skipped file (conflict)" in said.err
    assert (command.project / f"file.lastgood-{short}").read_text() == "one\n"
    again = command("restore", first, "--merge", "--only", "files", "--yes", "--json", expect=3).json
    assert (again["conflicts"], again["operation"]) == (["file"], None)
    command("undo")
    command("restore", first, "--merge", "--conflict", "theirs", "--yes")
    assert (command.project / "file").read_text() == "one\n"


def test_an_undo_can_keep_what_changed_since(command: Command, first: str) -> None:
    """T8, T17."""
    command("restore", first, "--yes")
    (command.project / "file").write_text("three\n")
    refused = command("undo", expect=13)
    assert "--merge" in refused.err
    said = command("undo", "--merge", expect=3)
    assert "skipped file (conflict)" in said.err
    assert "progress: put back" in said.err
    assert (command.project / "file").read_text() == "three\n"


def test_a_session_at_work_refuses_a_restore(command: Command, first: str) -> None:
    """T14: with exit code 13, the session and its owner, and the way to go on all the same."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as agent:
        started = command("session", "start", "--owner-pid", str(agent.pid), "--json").json
        id = started["session"]["id"]
        refused = command("restore", first, "--yes", expect=13)
        assert id in refused.err
        assert str(agent.pid) in refused.err
        assert "--force" in refused.err
        command("restore", first, "--only", "files", "--yes", env={"LASTGOOD_SESSION": id})
        assert (command.project / "file").read_text() == "one\n"
        command("undo", env={"LASTGOOD_SESSION": id})
        command("restore", first, "--only", "files", "--yes", "--force")
        agent.kill()
    assert os.path.exists(command.project / "file")
