"""Every JSON document against the field lists of the published interface."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood as package
from lastgood.machine_check import file_clock_ahead, locks_exclude
from lastgood.testing.clock import FakeClock
from tools.command import COMMAND, ROOT, Command

pytestmark = pytest.mark.starts

CHECKPOINT = """id short_id name message kind created_at sequence workspace session previous commit tree
changes files bytes ignored gaps partial good check pinned actor position progress git metrics conversation
metadata"""

METRICS = """session_seconds tasks_done tasks_failed tasks_total success_ratio tokens memory_bytes cpu_seconds
save_ms stored_bytes"""

OPERATION = "id type at target guard undone"

RESTORE = """plan target guard operation dry_run scopes counts files head_moved irreversible conversation
progress"""

STATUS = """workspace store state session position latest drift gaps durability resident checkpoints
store_bytes store_parts health"""

RECOVER = """state session checkpoint position tasks unknown_effects live_processes git_matches done"""

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def lacks(record: dict[str, Any], fields: str) -> set[str]:
    return set(fields.split()) - set(record)


def check_checkpoint(record: dict[str, Any]) -> None:
    assert lacks(record, CHECKPOINT) == set()
    assert lacks(record["metrics"], METRICS) == set()
    assert set(record["changes"]) == {"added", "modified", "deleted"}
    assert re.fullmatch(r"ckpt_[0-9a-f]{16}", record["id"])
    assert record["short_id"] == record["id"][:13]
    assert ISO.fullmatch(record["created_at"])
    assert record["actor"]["type"] in {"agent", "tool", "person", "lastgood", "unknown"}


def test_save(lastgood: Command) -> None:
    (lastgood.project / "a").write_text("a", encoding="utf-8")
    document = lastgood("save", "words", "--name", "n", "--meta", "k=v", "--pin", "--json").json
    assert document["schema"] == "lastgood.save/1"
    assert lacks(document, "checkpoint created reason unchanged_since") == set()
    check_checkpoint(document["checkpoint"])
    assert document["checkpoint"]["metadata"] == {"k": "v"}
    assert (document["checkpoint"]["name"], document["checkpoint"]["pinned"]) == ("n", True)


def test_a_save_of_what_has_not_changed(kept: Command) -> None:
    document = kept("save", "--json").json
    assert (document["created"], document["reason"]) == (False, "unchanged")
    assert document["unchanged_since"] == document["checkpoint"]["id"]


def test_list(kept: Command) -> None:
    document = kept("list", "--json").json
    assert document["schema"] == "lastgood.list/2"
    assert [one["name"] for one in document["checkpoints"]] == ["two", "one"]
    for one in document["checkpoints"]:
        check_checkpoint(one)


def test_of_tasks_and_changed_paths_lists_say_nothing_and_show_says_all(kept: Command) -> None:
    subprocess.run(["git", "init", "-q"], cwd=kept.project, check=True)
    kept("task", "start", "t1")
    kept("save", "the third")
    listed = kept("list", "--limit", "1", "--json").json["checkpoints"][0]
    shown = kept("show", listed["id"], "--json").json["checkpoint"]
    assert [one["id"] for one in shown["progress"]["tasks"]] == ["t1"]
    assert shown["git"]["dirty"] == ["a.txt", "new.txt", "src/b.py"]
    shown["progress"]["tasks"] = shown["git"]["dirty"] = None
    assert listed == shown


def test_show(kept: Command) -> None:
    document = kept("show", "one", "--files", "--json").json
    assert document["schema"] == "lastgood.show/1"
    check_checkpoint(document["checkpoint"])
    assert all(lacks(entry, "path mode kind size oid") == set() for entry in document["entries"])
    assert "entries" not in kept("show", "one", "--json").json


def test_diff(kept: Command) -> None:
    document = kept("diff", "one", "two", "--json").json
    assert document["schema"] == "lastgood.diff/1"
    assert lacks(document, "from to files patch") == set()
    assert {one["path"]: one["status"] for one in document["files"]} == {
        "a.txt": "modified",
        "new.txt": "added",
    }
    assert all(lacks(one, "path status additions deletions binary") == set() for one in document["files"])
    against_workspace = kept("diff", "--stat", "--json").json
    assert against_workspace["to"] is None
    assert "patch" not in against_workspace


@pytest.mark.parametrize("verb", [("restore", "one"), ("rewind",)])
def test_restore_and_rewind(kept: Command, verb: tuple[str, ...]) -> None:
    planned = kept(*verb, "--dry-run", "--json").json
    done = kept(*verb, "--yes", "--json").json
    for document in (planned, done):
        assert document["schema"] == f"lastgood.{verb[0]}/1"
        assert lacks(document, RESTORE) == set()
        assert lacks(document["counts"], "write delete mkdir rmdir chmod keep skip fail") == set()
        assert all(lacks(one, "path action result") == set() for one in document["files"])
        assert document["scopes"] == ["files", "conversation", "progress"]
    assert (planned["dry_run"], planned["guard"], planned["operation"]) == (True, None, None)
    assert not done["dry_run"]
    assert done["guard"].startswith("ckpt_")
    assert planned["plan"] == done["plan"]
    assert planned["counts"] == done["counts"]


def test_undo_and_redo(kept: Command) -> None:
    kept("restore", "one", "--yes")
    for verb in ("undo", "redo"):
        planned = kept(verb, "--dry-run", "--json").json
        assert planned["schema"] == f"lastgood.{verb}/1"
        assert planned["dry_run"]
        listed = kept(verb, "--list", "--json").json
        assert [lacks(one, OPERATION) for one in listed["operations"]] == [set()]
        document = kept(verb, "--json").json
        assert document["schema"] == f"lastgood.{verb}/1"
        assert lacks(document, "operation guard files") == set()
        assert lacks(document["operation"], OPERATION) == set()
        assert lacks(planned, "plan operation guard dry_run counts files conflicts parts") == set()
        assert [one["path"] for one in planned["files"]] == [one["path"] for one in document["files"]]
        assert ISO.fullmatch(document["operation"]["at"])


def test_status(kept: Command) -> None:
    (kept.project / "more").touch()
    document = kept("status", "--json").json
    assert document["schema"] == "lastgood.status/1"
    assert lacks(document, STATUS) == set()
    assert document["drift"] == {"added": 1, "modified": 0, "deleted": 0}
    check_checkpoint(document["latest"])


def test_recover(kept: Command) -> None:
    document = kept("recover", "--json").json
    assert document["schema"] == "lastgood.recover/1"
    assert lacks(document, RECOVER) == set()
    assert (document["state"], document["done"]) == ("idle", None)


def test_verify(kept: Command) -> None:
    document = kept("verify", "--json").json
    assert document["schema"] == "lastgood.verify/1"
    assert lacks(document, "ok checkpoints damaged repaired unreferenced_bytes") == set()
    assert document["ok"]


def test_delete_pin_unpin_and_name(kept: Command) -> None:
    for words in (("pin", "one"), ("unpin", "one"), ("name", "one", "uno")):
        document = kept(*words, "--json").json
        assert document["schema"] == f"lastgood.{words[0]}/1"
        check_checkpoint(document["checkpoint"])
    document = kept("delete", "uno", "--json").json
    assert document["schema"] == "lastgood.delete/1"
    assert lacks(document["operation"], OPERATION) == set()
    assert ISO.fullmatch(document["free_after"])


def test_workspace_config_doctor_completion_and_help(kept: Command) -> None:
    listed = kept("workspace", "list", "--json").json
    assert listed["workspaces"][0]["checkpoints"] == 2
    config = kept("config", "--json").json
    assert config["built_in_excludes"][:2] == [".git", "node_modules"]
    assert {one["key"] for one in config["settings"]} >= {"capture.exclude", "retention.turn", "durability"}
    assert kept("doctor", "--json").json["ok"]
    assert "_lastgood" in kept("completion", "bash", "--json").json["script"]
    assert kept("help", "--json").json["schema"] == "lastgood.help/1"
    assert kept("save", "--help", "--json").json["verbs"][0]["name"] == "save"


def test_a_name_that_is_not_utf_8_comes_as_bytes(lastgood: Command) -> None:
    """Rule S3."""
    with open(os.path.join(os.fsencode(lastgood.project), b"caf\xe9"), "wb"):
        pass
    lastgood("save")
    entries = lastgood("show", "@", "--files", "--json").json["entries"]
    assert [entry["path"] for entry in entries] == [{"bytes": base64.b64encode(b"caf\xe9").decode()}]


def test_a_branch_that_is_not_utf_8_comes_as_bytes(lastgood: Command, git: Callable[..., str]) -> None:
    """Rule T9: git allows it, and JSON does not."""
    project, branch = lastgood.project, os.fsdecode(b"br\xff")
    (project / "a").write_text("a")
    git(project, "init", "-q", "-b", branch)
    git(project, "add", "a")
    git(project, "commit", "-qm", "one")
    saved = lastgood("save", "--json")
    assert b"\\ud" not in saved.out_bytes
    assert saved.json["checkpoint"]["git"]["branch"] == {"bytes": base64.b64encode(b"br\xff").decode()}
    git(project, "checkout", "-q", "-b", "other")
    back = lastgood("restore", "@", "--git", "--yes", "--json")
    assert b"\\ud" not in back.out_bytes
    assert (project / ".git" / "HEAD").read_bytes() == b"ref: refs/heads/br\xff\n"


def test_such_a_name_comes_as_bytes_in_a_failure_too(lastgood: Command) -> None:
    """Rule S3: a lone surrogate is no text, and other readers of JSON refuse the whole document."""
    name = os.path.join(os.fsencode(lastgood.project), b"caf\xe9")
    for text in (b"one", b"two", b"three"):
        with open(name, "wb") as file:
            file.write(text)
        if text != b"three":
            lastgood("save", "--name", text.decode())
            lastgood("restore", "one", "--yes")
    error = lastgood("undo", "--json", expect=13)
    assert b"\\ud" not in error.out_bytes
    expected = [{"bytes": base64.b64encode(b"caf\xe9").decode()}]
    assert error.json["error"]["details"]["paths"] == expected


def test_half_a_character_in_a_message_does_not_take_the_list_away(lastgood: Command) -> None:
    """Rule S3: JSON can bring a surrogate that stands for no byte, and it is in every later list."""
    with package.open(lastgood.project, store=lastgood.store, maintenance="off") as workspace:
        workspace.save("half a \ud800 character", metadata={"note": "\udfff"})
    listed = lastgood("list", "--json")
    assert b"\\ud" not in listed.out_bytes
    assert listed.json["checkpoints"][0]["message"] == "half a ? character"
    assert listed.json["checkpoints"][0]["metadata"] == {"note": "?"}


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("frobnicate", "--json"), "usage", 2),
        (("show", "nothing-like-it", "--json"), "not-found", 10),
        (("show", "--json", "@b"), "invalid", 12),
        (("list", "--limit", "-1", "--json"), "usage", 2),
        (("restore", "one", "--plan", "plan_0000000000000000", "--json"), "conflict", 13),
        (("restore", "one", "--json"), "usage", 2),
    ],
)
def test_a_failure_is_one_document_too(
    kept: Command, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    done = kept(*words, expect=exit_code)
    assert done.json["schema"] == "lastgood.error/1"
    assert lacks(done.json["error"], "code message hint details") == set()
    assert done.json["error"]["code"] == code
    assert done.err == ""


# doctor: what is looked at, and what is said where something is odd.


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
    assert {f"extra-{name}" for name in ("report", "yaml")} <= set(found)
    assert found["compression"]["message"] == "ISA-L"
    assert found["stat"]["message"] == "as quick as it gets here"


def test_that_the_library_in_c_is_not_there_is_told(kept: Command, tmp_path: Path) -> None:
    """As from a clone in which nothing was set up."""
    shutil.copytree(os.path.join(ROOT, "src"), tmp_path / "src", ignore=shutil.ignore_patterns("*.so.*"))
    shutil.copy(os.path.join(ROOT, "lastgood"), tmp_path)
    done = subprocess.run(
        [sys.executable, tmp_path / "lastgood", "doctor", "--json"],
        cwd=kept.project,
        env=kept.environment,
        capture_output=True,
        check=True,
    )
    found = {one["code"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["stat"]["state"] == "note"
    assert "C compiler" in found["stat"]["hint"]


def test_what_is_not_installed_is_named_with_its_purpose(kept: Command) -> None:
    done = subprocess.run(
        [sys.executable, "-S", COMMAND, "doctor"],
        cwd=kept.project,
        env=kept.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "zlib alone" in done.stdout
    assert "extra-yaml" in done.stdout
    assert f"pip install --python {sys.executable} jinja2 vl-convert-python" in done.stdout


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
    with subprocess.Popen(["sleep", "60"]) as owner:
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


@pytest.mark.parametrize("words", [("-C", "/"), ("-C", "/dev/null/nowhere")])
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
