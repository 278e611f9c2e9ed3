"""doctor: what is looked at, and what is said where something is odd."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lastgood as package
from lastgood.machine_check import file_clock_ahead, locks_exclude
from lastgood.testing.clock import FakeClock
from tools.command import COMMAND, Command

Findings = dict[str, dict[str, str]]


def findings(lastgood: Command, *words: str, expect: int = 0) -> Findings:
    document = lastgood("doctor", "--json", *words, expect=expect).json
    assert document["ok"] is (expect == 0)
    return {one["code"]: one for one in document["findings"]}


def test_a_sound_machine_is_found_good(kept: Command) -> None:
    found = findings(kept)
    looked_at = {"python", "sqlite", "git", "space", "locks", "privacy", "clock", "lease", "checkpoints"}
    assert {code: found[code]["state"] for code in looked_at} == dict.fromkeys(looked_at, "good")
    assert found["git"]["message"][0].isdigit()
    assert {f"extra-{name}" for name in ("fast", "report", "yaml")} <= set(found)


def test_what_is_not_installed_is_named_with_its_purpose(kept: Command) -> None:
    done = subprocess.run(
        [sys.executable, "-S", COMMAND, "doctor"],
        cwd=kept.project,
        env=kept.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "extra-yaml" in done.stdout
    assert "pip install 'lastgood[report]'" in done.stdout


def test_a_store_that_others_may_look_into_is_told(kept: Command) -> None:
    """Rule S18."""
    (kept.store / "README").chmod(0o644)
    found = findings(kept)["privacy"]
    assert found["state"] == "note"
    assert str(kept.store / "README") in found["message"]
    assert found["hint"] == f"chmod -R go= {kept.store}"


def test_a_clock_behind_the_last_checkpoint_is_told(kept: Command) -> None:
    """Rule S15."""
    later = FakeClock(start=time.time_ns() + 10**15)
    with package.open(kept.project, store=kept.store, maintenance="off", clock=later) as workspace:
        workspace.save("from the future", allow_empty=True)
    found = findings(kept)["clock"]
    assert found["state"] == "note"
    assert "went back" in found["message"]


def test_a_session_that_died_is_told_and_one_that_lives(kept: Command) -> None:
    """Rule P1."""
    with subprocess.Popen(["sleep", "600"]) as owner:
        kept("session", "start", "--owner-pid", str(owner.pid))
        found = findings(kept)["lease"]
        assert (found["state"], f"process {owner.pid}" in found["message"]) == ("good", True)
        owner.kill()
    found = findings(kept)["lease"]
    assert (found["state"], found["hint"]) == ("note", "lastgood recover")


def test_a_git_that_lies_in_the_workspace_is_not_run(kept: Command, tmp_path: Path) -> None:
    """Rule S12."""
    folder = kept.project / "bin"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (folder / "git").chmod(0o755)
    kept("doctor", env={"PATH": f"{folder}:{os.environ['PATH']}"})
    assert not (tmp_path / "ran").exists()
    found = kept("doctor", "--json", env={"PATH": str(folder)}).json["findings"]
    assert next(one["state"] for one in found if one["code"] == "git") == "note"


@pytest.mark.parametrize("words", [("-C", "/"), ("-C", "/nowhere")])
def test_the_machine_is_looked_at_where_no_workspace_can_be(kept: Command, words: tuple[str, ...]) -> None:
    done = kept(*words, "doctor", "--json", expect=None)
    assert done.code in {10, 15}
    assert "python" in {one["code"] for one in done.json["findings"]}


def test_a_wrong_setting_is_told_with_its_line(kept: Command) -> None:
    (kept.project / ".lastgood.toml").write_text("\n[capture]\nexlude = []\n")
    found = findings(kept)["broken-configuration"]
    assert found["state"] == "note"
    assert ".lastgood.toml:3: " in found["message"]


def test_locks_and_clocks_of_a_folder_are_tried_and_nothing_is_left(tmp_path: Path) -> None:
    """Rule S16."""
    assert locks_exclude(os.fsencode(tmp_path))
    assert abs(file_clock_ahead(os.fsencode(tmp_path), now=time.time_ns()) * 10**9) < 10**12
    assert 90 < file_clock_ahead(os.fsencode(tmp_path), now=time.time_ns() - 100 * 10**9) < 200
    assert os.listdir(tmp_path) == []
