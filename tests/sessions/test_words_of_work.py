"""The command line of sessions, tasks and progress, in the words of the guides."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.workspace import Workspace
from tools.command import COMMAND, Command, told, told_as_document
from tools.values import not_none

Sleeper = Callable[[], subprocess.Popen[bytes]]


def started(lastgood: Command, *words: str) -> str:
    id: str = lastgood("session", "start", "--json", *words).json["session"]["id"]
    return id


def test_a_session_is_started_joined_and_ended(lastgood: Command, project: Path) -> None:
    """P1, P3."""
    done = lastgood("session", "start", "--goal", "migrate", "--sprint", "S01")
    found = not_none(re.search(r"export LASTGOOD_SESSION=(sess_[0-9a-f]{16})", done.out))
    session = {"LASTGOOD_SESSION": found.group(1)}
    (project / "a.txt").write_text("a")
    lastgood("task", "start", "T01", env=session)
    done = lastgood("task", "done", "T01", env=session)
    assert f"completed task T01 in session {found.group(1)}" in done.out
    assert "(Completed task T01)" in done.out
    record = lastgood("session", "end", "--json", env=session).json
    assert record["session"]["state"] == "ended"
    assert record["session"]["progress"]["tasks"][0]["state"] == "done"
    assert record["checkpoint"]["kind"] == "session-end"
    assert record["unknown_effects"] == []
    listed = lastgood("list", "--session", found.group(1), "--json").json["checkpoints"]
    assert [one["kind"] for one in listed] == ["session-end", "task", "session-start"]
    some_digits = lastgood("list", "--session", found.group(1)[5:13], "--json").json["checkpoints"]
    assert some_digits == listed
    assert lastgood("list", "--session", "sess_none").out == ""


def test_a_second_session_is_refused(lastgood: Command, sleeper: Sleeper) -> None:
    """P1."""
    pid = str(sleeper().pid)
    first = started(lastgood, "--owner-pid", pid)
    refused = lastgood("session", "start", expect=None)
    told(refused, 13)
    assert f"{first} of process {pid} (sleep 600)" in refused.err
    assert "lastgood session start --force" in refused.err
    told_as_document(lastgood("session", "start", "--json", expect=None), 13)
    again = lastgood("session", "start", "--owner-pid", pid, expect=None)
    told(again, 13)
    assert "has a session already" in again.err
    forced = lastgood("session", "start", "--force")
    assert f"took over from {first}" in forced.err
    shared = started(lastgood, "--shared")
    assert {line.split()[0] for line in lastgood("session", "list").out.splitlines()[1:]} >= {first, shared}


def test_the_check_of_the_guide_finds_what_is_incomplete(lastgood: Command, sleeper: Sleeper) -> None:
    """P8: `status | grep -q "incomplete"`, in the words of the guide."""

    def check() -> int:
        line = f"{os.environ.get('PYTHON', 'python3')} $0 checkpoint status | grep -q incomplete"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line, COMMAND],
            cwd=lastgood.project,
            env=lastgood.environment,
            check=False,
        )
        return done.returncode

    assert check() == 1
    one = sleeper()
    first = started(lastgood, "--owner-pid", str(one.pid), "--goal", "g")
    assert check() == 1
    assert lastgood("status", "--json").json["state"] == "active"
    one.kill()
    one.wait()
    assert check() == 0
    status = lastgood("status")
    assert f"{first} is incomplete" in status.out
    assert "lastgood recover" in status.out
    record = lastgood("status", "--json").json
    assert (record["state"], record["session"]["id"]) == ("incomplete", first)
    assert [one["id"] for one in record["incomplete"]] == [first]
    second = started(lastgood)
    assert check() == 0
    record = lastgood("status", "--json").json
    assert (record["state"], [one["id"] for one in record["sessions"]]) == ("active", [second])
    lastgood("session", "end", first)
    assert check() == 1


def test_the_words_of_the_position(lastgood: Command, project: Path) -> None:
    """P2: as the second guide has them on create and in its table."""
    draft = project / "working" / "integration-plan-draft.md"
    draft.parent.mkdir()
    draft.write_text("draft")
    lastgood("progress", "set", "--phase", "Construction", "--iteration", "1", "--step", "8/15")
    lastgood("progress", "set", "--iteration", "2", "--step", "15/15")
    lastgood("progress", "set", "--step", "12/15", "--artifact", "working/integration-plan-draft.md")
    done = lastgood("checkpoint", "create", "--name", "iteration-3-complete")
    assert (
        "Recorded position: Construction phase, iteration 2, step 12/15."
        " In-progress artifacts: working/integration-plan-draft.md." in done.out
    )
    header, *rows = lastgood("checkpoint", "list").out.splitlines()
    assert re.split(r"  +", header)[:5] == ["ID", "Name", "Date", "Kind", "Phase / Step"]
    cells = [re.split(r"  +", row) for row in rows]
    assert [(row[1], row[4]) for row in cells] == [
        ("iteration-3-complete", "Construction / iter 2, step 12"),
        ("(auto)", "Construction / iter 2, step 15"),
        ("(auto)", "Construction / iter 1, step 8"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row[2]) for row in cells)
    assert lastgood("progress", "set", "--no-artifacts").out == (
        "Recorded position: Construction phase, iteration 2, step 12/15.\n"
    )


def test_what_progress_says_is_shown(lastgood: Command) -> None:
    assert "no progress recorded" in lastgood("progress").err
    lastgood("progress", "set", "--goal", "all of it", "--state", '{"retries": 2, "x": null}')
    lastgood("feature", "start", "login")
    lastgood("feature", "done", "login")
    lastgood("feature", "start", "logout")
    lastgood("sprint", "start", "S01")
    lastgood("sprint", "done", "S01")
    lastgood("task", "start", "T01")
    lastgood("task", "fail", "T01", "--reason", "no network")
    lastgood("task", "skip", "T02")
    shown = lastgood("progress", "show").out
    for words in (
        "all of it",
        "sprint S01",
        "T01  failed",
        "T02  skipped",
        "logout",
        "login",
        '{"retries":2}',
    ):
        assert words in shown
    record = lastgood("progress", "--json").json
    assert record["schema"] == "lastgood.progress/1"
    assert record["progress"]["features"] == {"current": "logout", "completed": ["login"]}
    assert record["position"]["sprint"] == "S01"
    assert lastgood("show", "task:T01").out.count("no network") >= 1
    kinds = [one["kind"] for one in lastgood("list", "--json").json["checkpoints"]]
    assert kinds == ["error", "sprint", "feature"]


def test_a_task_that_never_started_is_told_with_what_to_type(lastgood: Command) -> None:
    """P2."""
    refused = lastgood("task", "done", "T01", expect=None)
    told(refused, 13)
    assert "never started" in refused.err
    assert "lastgood task start T01" in refused.err


def test_the_progress_of_a_dead_session_is_pointed_to(lastgood: Command, sleeper: Sleeper) -> None:
    one = sleeper()
    first = started(lastgood, "--owner-pid", str(one.pid))
    lastgood("task", "start", "T01")
    one.kill()
    one.wait()
    refused = lastgood("task", "done", "T01", expect=None)
    told(refused, 13)
    assert f"session {first}, which did not finish: lastgood recover" in refused.err


def test_a_task_started_again_says_that_its_effect_is_unknown(lastgood: Command, project: Path) -> None:
    """P6."""
    (project / "a.txt").write_text("a")
    done = lastgood("task", "start", "deploy", "--irreversible")
    assert "(before task deploy)" in done.out
    again = lastgood("task", "start", "deploy")
    assert "attempt 2" in again.out
    assert "nobody saw the end of attempt 1 of deploy" in again.err
    record = lastgood("task", "done", "deploy", "--json").json
    assert (record["task"]["state"], record["task"]["attempts"]) == ("done", 2)
    assert lastgood("diff", "before:task:deploy", "task:deploy", "--json").json["files"] == []


def test_a_save_for_a_task_carries_it(lastgood: Command) -> None:
    """P4."""
    record = lastgood("save", "--kind", "task", "--task", "T07", "--tokens", "1200", "--json").json[
        "checkpoint"
    ]
    assert (record["task"], record["moment"], record["metrics"]["tokens"]) == ("T07", "after", 1200)
    assert lastgood("show", "task:T07", "--json").json["checkpoint"]["id"] == record["id"]


@pytest.mark.chance("how far a command is when it is killed")
def test_a_kill_leaves_a_task_and_its_step_agreeing(lastgood: Command, workspace: Workspace) -> None:
    """P2, P6: whenever it strikes; and saying it again brings it about."""
    chance = random.Random(7)
    lastgood("session", "start")
    context = workspace._context
    for id in (f"T{number:02}" for number in range(10)):
        for verb in ("start", "done"):
            (lastgood.project / "a.txt").write_text(f"{verb} {id}")
            one = subprocess.Popen(
                [sys.executable, COMMAND, "task", verb, id],
                cwd=lastgood.project,
                env=lastgood.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(chance.uniform(0.02, 0.12))
            one.kill()
            one.wait()
            tasks = [task.state for task in workspace.tasks() if task.id == id]
            assert tasks == [step.state for step in context.work.effects(context.key) if step.name == id]
        if not tasks:
            lastgood("task", "start", id)
        lastgood("task", "done", id)
        after = workspace.get(f"task:{id}").manifest.progress
        assert after.tasks[-1].state == "done"
    assert workspace.progress().count("done") == 10


def test_what_changed_since_the_start_of_the_session(lastgood: Command, project: Path) -> None:
    (project / "a.txt").write_text("before\n")
    session = {"LASTGOOD_SESSION": started(lastgood)}
    (project / "a.txt").write_text("after\n")
    lastgood("save", env=session)
    done = lastgood("diff", "--since-start", "--name-status", env=session)
    assert done.out.split() == ["M", "a.txt"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("session", "start", "--owner-pid", "0"), 2),
        (("session", "start", "--owner-pid", "x"), 2),
        (("session", "start", "--owner-pid", "999999999"), 10),
        (("session", "start", "--sprint", " S01"), 12),
        (("session", "start", "sess_1234"), 2),
        (("session", "start", "--incomplete"), 2),
        (("session", "end"), 10),
        (("session", "end", "sess_1234"), 10),
        (("session", "end", "--goal", "x"), 2),
        (("session", "show"), 10),
        (("session", "show", "-x"), 2),
        (("session", "stop"), 2),
        (("session", "heartbeat"), 10),
        (("session",), 2),
        (("task", "start"), 2),
        (("task", "start", ""), 12),
        (("task", "start", "a\nb"), 12),
        (("task", "done", "T01", "--risky"), 2),
        (("task", "end", "T01"), 2),
        (("feature", "done", "F1"), 13),
        (("feature", "skip", "F1"), 2),
        (("sprint", "done", "S01"), 13),
        (("progress", "set"), 2),
        (("progress", "get"), 2),
        (("progress", "show", "--step", "1"), 2),
        (("progress", "set", "--step", "16/15"), 12),
        (("progress", "set", "--step", "a/b"), 2),
        (("progress", "set", "--step", "1/"), 2),
        (("progress", "set", "--iteration", "-1"), 2),
        (("progress", "set", "--iteration", "one"), 2),
        (("progress", "set", "--state", "{"), 2),
        (("progress", "set", "--state", "[]"), 2),
        (("progress", "set", "--state", '{"x": NaN}'), 2),
        (("progress", "set", "--state", "[" * 100_000), 2),
        (("progress", "set", "--artifact", "../outside"), 15),
        (("progress", "set", "--artifact", "a", "--no-artifacts"), 2),
        (("progress", "set", "--phase", b"\xff"), 12),
        (("save", "--tokens", "-5"), 2),
        (("save", "--tokens", "many"), 2),
        (("save", "--task", ""), 12),
        (("show", "@start"), 10),
        (("show", "task:T01"), 10),
        (("show", "before:task:T01"), 10),
        (("show", "step:x"), 12),
        (("show", "step:" + "9" * 5000), 12),
    ],
)
def test_bad_words_are_told_and_change_nothing(
    lastgood: Command, words: tuple[str | bytes, ...], code: int
) -> None:
    told(lastgood(*words, expect=None), code)
    assert lastgood("session", "list", "--json").json["sessions"] == []
    assert lastgood("progress", "--json").json["position"] is None
    assert lastgood("list", "--json").json["checkpoints"] == []


def test_a_session_nobody_knows_is_told_but_saves_go_on(lastgood: Command, project: Path) -> None:
    (project / "a.txt").write_text("a")
    lost = {"LASTGOOD_SESSION": "sess_0123456789abcdef"}
    refused = lastgood("task", "start", "T01", env=lost, expect=None)
    told(refused, 10)
    assert "unset LASTGOOD_SESSION" in refused.err
    assert lastgood("save", "--json", env=lost).json["checkpoint"]["session"] is None


@pytest.mark.parametrize("action", ["start", "end"])
def test_a_session_whose_checkpoint_has_new_gaps_says_so(
    lastgood: Command, project: Path, action: str
) -> None:
    """S7: no later save would, for by then they are known, and named as such."""
    if action == "end":
        lastgood("session", "start", "-q")
    with open(project / "large", "wb") as file:
        file.truncate(40 << 20)
    done = lastgood("session", action, expect=3)
    assert "lacks paths" in done.err
    assert lastgood("save", "--allow-empty").err == "not saved, as before: large (too-large)\n"


def test_a_session_whose_transcript_is_not_there_says_so(lastgood: Command, tmp_path: Path) -> None:
    """P5: it may come later; until then nobody should count on it."""
    for words in (("session", "start", "--transcript", str(tmp_path / "chat.jsonl")), ("session", "end")):
        assert "there is no transcript" in lastgood(*words).err


@pytest.mark.parametrize("fate", ["--force", "nobody"])
def test_a_save_in_a_session_that_is_over_says_so(lastgood: Command, fate: str) -> None:
    """P1: a lease lost while working is told at the next word; nothing that was saved is lost for it."""
    first = lastgood("session", "start", "-q").out.strip()
    lastgood("session", "start", "--force", "-q")
    lost = {"LASTGOOD_SESSION": first if fate == "--force" else "sess_0123456789abcdef"}
    said = lastgood("save", "--allow-empty", env=lost).err
    assert lost["LASTGOOD_SESSION"] in said
    assert ("another session took over" if fate == "--force" else "is not known here") in said
    (note,) = lastgood("save", "--allow-empty", "--json", env=lost).json["notes"]
    assert note["code"] == "session-astray"
    assert "unset LASTGOOD_SESSION" in note["hint"]


def test_control_characters_in_goals_are_shown_escaped(lastgood: Command) -> None:
    lastgood("session", "start", "--goal", "clear\x1b[2J\nall")
    for words in (("status",), ("session", "list"), ("session", "show"), ("progress",), ("list",)):
        assert "\x1b" not in lastgood(*words).out


def test_a_damaged_session_is_set_aside_and_hides_nothing(lastgood: Command, store: Path) -> None:
    """K4."""
    kept = started(lastgood, "--shared")
    hit = started(lastgood, "--shared")
    connection = sqlite3.connect(store / "catalogue.sqlite3")
    connection.execute("UPDATE session SET payload = 'garbage' WHERE id = ?", (hit,))
    connection.commit()
    connection.close()
    ids = [one["id"] for one in lastgood("session", "list", "--json").json["sessions"]]
    assert ids == [kept]
    assert hit in lastgood("verify", expect=16).out + lastgood("verify", expect=16).err
    lastgood("verify", "--repair")
    lastgood("verify")
    ids = [one["id"] for one in lastgood("session", "list", "--json").json["sessions"]]
    assert ids == [kept]
    lastgood("save", "goes on", "--allow-empty")
