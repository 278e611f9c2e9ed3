"""check and save --check on the command line: what is said, and the exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.command import COMMAND, Command, told, told_as_document


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
    while not mark.exists():
        time.sleep(0.02)
    running.send_signal(number)
    out, _ = running.communicate(timeout=120)
    assert running.returncode == 130
    assert json.loads(out)["error"]["code"] == "interrupted"
    saved = shop("show", "@", "--json").json["checkpoint"]
    assert (saved["message"], saved["good"], saved["check"]) == ("two", None, None)
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()
    assert os.listdir(shop.store / "tmp") == []
