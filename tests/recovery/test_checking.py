"""check: a command's verdict counts for exactly what the checkpoint holds (rule S12)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import NotFound, Usage
from lastgood.workspace import Workspace
from tools.command import COMMAND, Command, told, told_as_document
from tools.living import eventually
from tools.runs import wait_for


@pytest.fixture
def saved(workspace: Workspace, project: Path) -> str:
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("one\n")
    return workspace.save("one").checkpoint.id


def test_a_check_that_passes_makes_the_checkpoint_good(workspace: Workspace, saved: str) -> None:
    report = workspace.check(saved, "cat src/app.py")
    found = workspace.get(saved)
    assert (report.good, report.aside, report.checkpoint) == (True, False, found)
    assert found.good is True
    assert found.check is not None
    assert (found.check.command, found.check.exit_code, found.check.output_tail) == (
        "cat src/app.py",
        0,
        "one\n",
    )


def test_good_is_the_newest_whose_check_passed(workspace: Workspace, project: Path, saved: str) -> None:
    workspace.check(saved, "true")
    (project / "src" / "app.py").write_text("two\n")
    second = workspace.save("two").checkpoint
    workspace.check(second.id, "false")
    workspace.save("three", allow_empty=True)
    assert workspace.get(second.id).good is False
    assert workspace.get("@good").id == saved
    assert [one.id for one in workspace.list(good=True)] == [saved]


def test_without_a_good_checkpoint_good_is_not_found(workspace: Workspace, saved: str) -> None:
    workspace.check(saved, "false")
    with pytest.raises(NotFound):
        workspace.get("@good")


def test_another_state_is_checked_in_a_copy_aside(
    workspace: Workspace, project: Path, store: Path, saved: str
) -> None:
    (project / "src" / "app.py").write_text("two\n")
    report = workspace.check(saved, "cat src/app.py; pwd; echo spoilt > made")
    assert (report.good, report.aside) == (True, True)
    content, folder = report.check.output_tail.split()
    assert content == "one"
    assert folder.startswith(str(store / "tmp"))
    assert os.path.basename(folder) == "project"
    assert os.listdir(store / "tmp") == []
    assert not (project / "made").exists()
    assert (project / "src" / "app.py").read_text() == "two\n"


def test_a_copy_goes_whatever_the_command_made_of_it(workspace: Workspace, store: Path, saved: str) -> None:
    (store.parent / "project" / "new").write_text("new")
    assert workspace.check(saved, "mkdir -p a/b; touch a/b/c; chmod 0 a/b; chmod 0 a").aside
    assert os.listdir(store / "tmp") == []


def test_git_in_a_copy_does_not_find_a_repository_above(
    workspace: Workspace, project: Path, tmp_path: Path, saved: str
) -> None:
    os.mkdir(tmp_path / ".git")
    (project / "new").write_text("new")
    report = workspace.check(saved, "git rev-parse --show-toplevel")
    assert report.aside
    assert "not a git repository" in report.check.output_tail


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("echo two > src/app.py", "src/app.py"),
        ("rm src/app.py", "src/app.py"),
        ("echo made > report.xml", "report.xml"),
        ("chmod 0700 src/app.py", "src/app.py"),
    ],
)
def test_a_verdict_on_something_else_does_not_count(
    workspace: Workspace, saved: str, act: str, said: str
) -> None:
    report = workspace.check(saved, act)
    assert report.good is None
    assert report.check.exit_code == 0
    assert report.check.reason == f"changed while it was being checked: {said}"
    assert workspace.get(saved).good is None


def test_a_copy_that_the_command_changes_does_not_count(
    workspace: Workspace, project: Path, saved: str
) -> None:
    (project / "new").write_text("new")
    report = workspace.check(saved, "echo two > src/app.py")
    assert report.good is None
    assert report.check.reason == "changed by the command itself: src/app.py"


def test_what_is_ignored_may_be_made_by_a_check(workspace: Workspace, project: Path) -> None:
    (project / ".gitignore").write_text("*.log\n")
    saved = workspace.save("one").checkpoint.id
    assert workspace.check(saved, "echo made > test.log").good is True


def test_a_partial_checkpoint_is_never_good(workspace: Workspace, project: Path) -> None:
    (project / "file").write_text("one")
    partial = workspace.save("one", budget=0.0).checkpoint
    assert partial.partial
    report = workspace.check(partial.id, "true")
    assert report.good is None
    assert "partial" in str(report.check.reason)


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        ("no-such-command-anywhere", 127, "the command was not found (exit code 127)"),
        (["no-such-command-anywhere"], None, "No such file or directory"),
        ("./src/app.py", 126, "the command cannot be executed (exit code 126)"),
    ],
)
def test_a_check_command_that_is_missing_says_nothing_about_the_checkpoint(
    workspace: Workspace, saved: str, command: str | list[str], code: int | None, reason: str
) -> None:
    report = workspace.check(saved, command)
    assert report.good is None
    assert report.check.exit_code == code
    assert reason in str(report.check.reason)


def test_a_check_that_hangs_has_failed(workspace: Workspace, saved: str) -> None:
    report = workspace.check(saved, ["sleep", "1000"], timeout=0.2)
    assert (report.good, report.check.exit_code) == (False, None)
    assert report.check.reason == "it was stopped after 0.2 s"
    assert report.check.command == "sleep 1000"


def test_a_check_that_dies_has_failed(workspace: Workspace, saved: str) -> None:
    report = workspace.check(saved, ["/bin/sh", "-c", "kill -KILL $$"])
    assert (report.good, report.check.exit_code) == (False, None)
    assert report.check.reason == "it was killed by SIGKILL"


@pytest.mark.parametrize("command", ["", "  ", [], "a\0b", ["x", "\0"], b"true", 7, None])
def test_what_is_no_command_is_refused(workspace: Workspace, saved: str, command: object) -> None:
    with pytest.raises(Usage):
        workspace.check(saved, command)  # type: ignore[arg-type]  # the point of the test
    assert workspace.get(saved).check is None


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "1"])
def test_what_is_no_time_limit_is_refused(workspace: Workspace, saved: str, timeout: object) -> None:
    with pytest.raises(Usage):
        workspace.check(saved, "true", timeout=timeout)  # type: ignore[arg-type]  # as above


def test_nothing_is_locked_while_a_check_runs(
    workspace: Workspace, project: Path, tmp_path: Path, saved: str
) -> None:
    runs = tmp_path / "runs"

    def meanwhile() -> None:
        assert eventually(runs.exists)
        with lastgood.open(project, store=workspace.store, maintenance="off") as other:
            (project / "file").write_text("two")
            other.save("beside the check")
            other.restore(saved)
        runs.unlink()

    thread = threading.Thread(target=meanwhile)
    thread.start()
    report = workspace.check(saved, f"touch {runs}; while [ -e {runs} ]; do sleep 0.05; done", timeout=600)
    thread.join()
    assert report.good is True
    assert [one.message for one in workspace.list(kind="manual")] == ["beside the check", "one"]


def test_an_interrupted_check_leaves_the_checkpoint_without_a_verdict(
    workspace: Workspace, tmp_path: Path, saved: str
) -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    def interrupt_it() -> None:
        wait_for(tmp_path / "runs")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    thread = threading.Thread(target=interrupt_it)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            workspace.check(saved, f"touch {tmp_path}/runs; sleep 1000")
    finally:
        thread.join()
        signal.signal(signal.SIGALRM, before)
    found = workspace.get(saved)
    assert (found.good, found.check) == (None, None)


def test_a_check_that_deletes_what_it_checks_does_not_count(
    workspace: Workspace, project: Path, store: Path, saved: str
) -> None:
    (project / "new").write_text("new")
    report = workspace.check(saved, 'rm -r "$PWD"')
    assert report.aside
    assert report.good is None
    assert os.listdir(store / "tmp") == []
    saved = workspace.save("two").checkpoint.id
    report = workspace.check(saved, 'rm -r "$PWD"')
    assert not report.aside
    assert report.good is None
    project.mkdir()
    workspace.restore(saved)
    assert (project / "src" / "app.py").read_text() == "one\n"


def test_a_checkpoint_of_another_workspace_is_checked_aside(
    workspace: Workspace, store: Path, tmp_path: Path, saved: str
) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    with lastgood.open(other, store=store, maintenance="off") as theirs:
        report = theirs.check(saved, "cat src/app.py")
    assert (report.good, report.aside) == (True, True)
    assert workspace.get("@good").id == saved


def test_hostile_names_are_checked_and_told(workspace: Workspace, project: Path) -> None:
    name = os.fsencode(project) + b"/a\nb\xff"
    with open(name, "w") as file:
        file.write("one")
    saved = workspace.save("one").checkpoint.id
    report = workspace.check(saved, "printf 'x' >> \"$(ls -d a*)\"; printf '\\377\\000'")
    assert report.good is None
    assert report.check.output_tail == "\ufffd\0"
    (project / "new").write_text("new")
    assert workspace.check(saved, "true").good is True


def test_a_thousand_files_are_checked_aside(workspace: Workspace, project: Path) -> None:
    for folder in range(10):
        (project / str(folder)).mkdir()
        for number in range(100):
            (project / str(folder) / str(number)).write_text(f"{folder} {number}")
    saved = workspace.save("many").checkpoint.id
    (project / "new").write_text("new")
    report = workspace.check(saved, "find . -type f | wc -l")
    assert (report.good, report.aside, report.check.output_tail.strip()) == (True, True, "1000")


# check and save --check on the command line: what is said, and the exit codes.


@pytest.fixture
def shop(lastgood: Command) -> Command:
    (lastgood.project / "app.py").write_text("print(1)\n")
    lastgood("save", "one", "--name", "one")
    return lastgood


def test_a_save_whose_check_passes_is_good(shop: Command) -> None:
    (shop.project / "app.py").write_text("print(2)\n")
    done = shop("save", "two", "--check", "test -f app.py")
    assert done.out.splitlines()[0].startswith("saved ckpt_")
    assert "is good: `test -f app.py` (exit code 0)" in done.out
    assert shop("show", "@good", "--json").json["checkpoint"]["message"] == "two"
    assert [line.split()[-1] for line in shop("list").out.splitlines()] == ["Good", "yes", "-"]
    assert len(shop("list", "--good", "--json").json["checkpoints"]) == 1


def test_a_save_with_a_check_is_made_although_nothing_changed(shop: Command) -> None:
    """S10."""
    done = shop("save", "--check", "true", "--json").json
    assert (done["created"], done["checkpoint"]["good"]) == (True, True)


def test_a_save_whose_check_fails_is_made_all_the_same(shop: Command) -> None:
    done = shop("save", "two", "--check", "echo no luck; exit 4", expect=3)
    assert "check failed: `echo no luck; exit 4` (exit code 4)" in done.out
    assert "  | no luck" in done.err
    saved = shop("show", "@", "--json").json["checkpoint"]
    assert (saved["message"], saved["good"], saved["check"]["exit_code"]) == ("two", False, 4)
    assert saved["check"]["output_tail"] == "no luck\n"
    assert saved["check"]["reason"] is None


def test_a_check_that_is_missing_is_said(shop: Command) -> None:
    done = shop("save", "two", "--check", "no-such-command", expect=3)
    assert "check does not count" in done.out
    assert "the command was not found (exit code 127)" in done.out


@pytest.mark.parametrize(
    "words", [["--check="], ["--check", " "], ["--timeout", "5s"], ["--check", "x", "--timeout", "0s"]]
)
def test_a_check_that_is_none_is_refused_before_anything_is_saved(shop: Command, words: list[str]) -> None:
    told(shop("save", "two", *words, expect=2), 2)
    assert len(shop("list", "--json").json["checkpoints"]) == 1


def test_a_check_of_an_older_checkpoint_runs_aside(shop: Command) -> None:
    (shop.project / "app.py").write_text("print(2)\n")
    done = shop("check", "one", "--", "echo", "--json")
    assert done.out.endswith("is good: `echo --json` in a copy aside (exit code 0)\n")
    document = shop("check", "one", "--json", "--", "grep", "print(1)", "app.py").json
    assert document["schema"] == "lastgood.check/1"
    assert (document["good"], document["aside"]) == (True, True)
    assert document["check"]["command"] == "grep 'print(1)' app.py"
    assert document["checkpoint"]["name"] == "one"


def test_a_check_that_hangs_is_stopped_in_its_time(shop: Command) -> None:
    done = shop("check", "one", "--timeout", "1s", "--", "sleep", "1000", expect=3)
    assert "check failed: `sleep 1000`" in done.out
    assert "it was stopped after 1 s" in done.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["check"], 2),
        (["check", "one"], 2),
        (["check", "one", "--"], 2),
        (["check", "--", "true"], 2),
        (["check", "one", "--", ""], 3),
        (["check", "nobody", "--", "true"], 10),
        (["check", "one", "--timeout", "soon", "--", "true"], 2),
    ],
)
def test_bad_input_of_a_check_is_told(shop: Command, words: list[str], code: int) -> None:
    done = shop(*words, expect=code)
    if code != 3:
        told(done, code)
        told_as_document(shop(words[0], "--json", *words[1:], expect=code), code)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_check_leaves_its_checkpoint_without_a_verdict(
    shop: Command, tmp_path: Path, number: signal.Signals
) -> None:
    mark = tmp_path / "runs"
    check = f"echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 1000"
    running = subprocess.Popen(
        [sys.executable, COMMAND, "save", "two", "--check", check, "--json"],
        cwd=shop.project,
        env=shop.environment,
        stdout=subprocess.PIPE,
    )
    assert eventually(mark.exists)
    running.send_signal(number)
    out, _ = running.communicate(timeout=120)
    assert running.returncode == 130
    assert json.loads(out)["error"]["code"] == "interrupted"
    saved = shop("show", "@", "--json").json["checkpoint"]
    assert (saved["message"], saved["good"], saved["check"]) == ("two", None, None)
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()
    assert os.listdir(shop.store / "tmp") == []
