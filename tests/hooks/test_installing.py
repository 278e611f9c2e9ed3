"""install, uninstall: entries in the settings of Claude Code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood.hooks.entries import PERL
from tools.command import COMMAND, ROOT, SOURCE, Command, told, told_as_document

THEIRS = json.dumps({"model": "one", "hooks": {"Stop": [{"hooks": []}]}}, indent=4) + "\n"
EVENTS = {
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "Stop",
    "StopFailure",
    "PreCompact",
    "SessionEnd",
}


@pytest.fixture
def settings(lastgood: Command, tmp_path: Path) -> Path:
    """Return the user's settings, which are there."""
    home = tmp_path / "home"
    file = home / ".claude" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(THEIRS)
    lastgood.environment["HOME"] = str(home)
    lastgood.environment.pop("CLAUDE_CONFIG_DIR", None)
    return file


def entries(file: Path) -> dict[str, list[Any]]:
    """Return what is ours in some settings, by event."""
    hooks = json.loads(file.read_text())["hooks"]
    return {name: ours for name, groups in hooks.items() if (ours := [one for one in groups if one["hooks"]])}


def _handler(lastgood: Command, settings: Path) -> dict[str, Any]:
    """Return what a host is told to start when a session does."""
    lastgood("install", "claude-code")
    (group,) = entries(settings)["SessionStart"]
    (handler,) = group["hooks"]
    assert isinstance(handler, dict)
    return handler


def test_hooks_are_entered_for_each_event_and_taken_out_again(lastgood: Command, settings: Path) -> None:
    """Whatever else the file says stays, byte for byte."""
    lastgood("install", "claude-code")
    assert {name: len(ours) for name, ours in entries(settings).items()} == dict.fromkeys(EVENTS, 1)
    assert json.loads(settings.read_text())["hooks"]["Stop"][0] == {"hooks": []}

    lastgood("uninstall", "claude-code")
    assert settings.read_text() == THEIRS


def test_who_takes_hooks_out_is_told_what_ends_a_process_that_watches(
    lastgood: Command, settings: Path
) -> None:
    lastgood("install", "claude-code")
    assert "lastgood watch --stop\n" in lastgood("uninstall", "claude-code").err
    assert "watch" not in lastgood("uninstall", "claude-code").err
    assert settings.read_text() == THEIRS


def test_what_was_entered_starts_the_command_from_anywhere(lastgood: Command, settings: Path) -> None:
    handler = _handler(lastgood, settings)
    done = subprocess.run(
        [handler["command"], *handler["args"]],
        cwd="/",
        env={},
        input="{}",
        text=True,
        capture_output=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_it_is_entered_once_however_often(lastgood: Command, settings: Path) -> None:
    lastgood("install", "claude-code")
    first = settings.read_bytes()
    assert lastgood("install", "claude-code", "--json").json["changed"] is False
    assert settings.read_bytes() == first


def _moved(settings: dict[str, Any]) -> dict[str, Any]:
    moved: dict[str, Any] = json.loads(json.dumps(settings).replace(COMMAND, "/gone/lastgood"))
    return moved


def _as_entered_before(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as lastgood 0.1 entered its hooks: the program itself, or its interpreter with it."""
    for number, groups in enumerate(settings["hooks"].values()):
        (handler,) = groups[-1]["hooks"]
        words = handler["args"][-2:]
        handler |= (
            {"command": COMMAND, "args": words}
            if number % 2
            else {"command": sys.executable, "args": [COMMAND, *words]}
        )
    return settings


@pytest.mark.parametrize("changed", [_moved, _as_entered_before])
def test_the_way_to_the_program_is_written_anew_where_it_is_another(
    changed: Callable[[dict[str, Any]], dict[str, Any]], lastgood: Command, settings: Path
) -> None:
    lastgood("install", "claude-code")
    right = json.loads(settings.read_text())
    settings.write_text(json.dumps(changed(json.loads(settings.read_text()))))
    told(lastgood("install", "claude-code", "--check", expect=None), 10)

    lastgood("install", "claude-code")

    assert json.loads(settings.read_text()) == right
    lastgood("install", "claude-code", "--check")


def test_what_would_be_entered_can_be_seen(lastgood: Command, settings: Path) -> None:
    shown = lastgood("install", "claude-code", "--print").out
    assert settings.read_text() == THEIRS
    lastgood("install", "claude-code")
    assert settings.read_text() == shown


def test_whether_it_is_entered_is_an_exit_code(lastgood: Command, settings: Path) -> None:
    told(lastgood("install", "claude-code", "--check", expect=None), 10)
    told_as_document(lastgood("install", "claude-code", "--check", "--json", expect=None), 10)
    assert settings.read_text() == THEIRS
    lastgood("install", "claude-code")
    lastgood("install", "claude-code", "--check")


def test_a_project_has_settings_of_its_own(lastgood: Command, settings: Path) -> None:
    """It says what the host asks for first."""
    done = lastgood("install", "claude-code", "--project")
    assert "trust the folder" in done.err
    file = lastgood.project / ".claude" / "settings.json"
    assert entries(file).keys() == EVENTS
    assert settings.read_text() == THEIRS
    lastgood("uninstall", "claude-code", "--project")
    assert json.loads(file.read_text()) == {}


def test_settings_that_are_a_link_stay_one(lastgood: Command, settings: Path, tmp_path: Path) -> None:
    """As people have it who keep their settings in a repository."""
    kept = tmp_path / "dotfiles.json"
    settings.rename(kept)
    settings.symlink_to(kept)
    kept.chmod(0o640)
    lastgood("install", "claude-code")
    assert settings.is_symlink()
    assert entries(kept).keys() == EVENTS
    assert kept.stat().st_mode & 0o777 == 0o640


def test_where_there_are_no_settings_some_are_made_for_the_user_alone(
    lastgood: Command, settings: Path
) -> None:
    settings.unlink()
    settings.parent.rmdir()
    lastgood("install", "claude-code")
    assert entries(settings).keys() == EVENTS
    assert settings.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["{", '{"hooks": []}', '{"hooks": {"Stop": {}}}', "[]"])
def test_settings_that_nobody_understands_are_left_alone(
    lastgood: Command, settings: Path, text: str
) -> None:
    settings.write_text(text)
    told(lastgood("install", "claude-code", expect=None), 12)
    assert settings.read_text() == text


def test_hooks_that_are_switched_off_are_told_of(lastgood: Command, settings: Path) -> None:
    settings.write_text('{"disableAllHooks": true}')
    assert "disableAllHooks" in lastgood("install", "claude-code").err


def test_without_a_home_it_says_so(lastgood: Command, settings: Path) -> None:
    del lastgood.environment["HOME"]
    told(lastgood("install", "claude-code", expect=None), 2)
    assert settings.read_text() == THEIRS


def test_as_a_module_its_interpreter_is_entered(lastgood: Command, settings: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "lastgood", "install", "claude-code"],
        env=lastgood.environment | {"PYTHONPATH": os.path.join(ROOT, "src")},
        capture_output=True,
        check=True,
    )
    (group,) = entries(settings)["Stop"]
    assert f'["{sys.executable}", "-m", "lastgood"]' in group["hooks"][0]["args"][-3]


def test_a_hook_goes_on_where_the_package_is_no_longer_where_it_was(
    lastgood: Command, settings: Path
) -> None:
    """As when another Python came in the place of the one before: the program itself is started then."""
    handler = _handler(lastgood, settings)
    elsewhere = [word.replace(f'"{SOURCE}"', '"/gone"') for word in handler["args"]]
    assert elsewhere != handler["args"]
    for words in (handler["args"], elsewhere):
        done = subprocess.run(
            [handler["command"], *words],
            cwd="/",
            env={},
            input="no JSON",
            text=True,
            capture_output=True,
            check=True,
        )
        assert "no JSON" in json.loads(done.stdout)["systemMessage"]


def test_a_hook_blocks_nothing_where_the_program_is_gone_too(lastgood: Command, settings: Path) -> None:
    """As once a checkout was moved: with 2, as Python ends by itself then, a host would stop its agent."""
    handler = _handler(lastgood, settings)
    words = [word.replace(SOURCE, "/gone").replace(COMMAND, "/gone/lastgood") for word in handler["args"]]
    done = subprocess.run([handler["command"], *words], env={}, input=b"{}", capture_output=True, check=False)
    assert (done.returncode, b"/gone/lastgood" in done.stderr) == (1, True)


def test_a_hook_starts_python_by_options_that_every_python_knows(lastgood: Command, settings: Path) -> None:
    """An older one that came into the place of its own would end with 2, which blocks: -P came with 3.11."""
    words = _handler(lastgood, settings)["args"]
    assert set(words[words.index(sys.executable) + 1 if sys.executable in words else 0]) <= set("-EIS")


def test_a_hook_runs_no_module_of_the_folder_that_it_is_started_in(
    lastgood: Command, settings: Path, tmp_path: Path
) -> None:
    handler = _handler(lastgood, settings)
    for name in ("codecs", "gc", "io", "json", "lastgood", "os", "posix", "site", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("print('run'); raise SystemExit(9)")
    done = subprocess.run(
        [handler["command"], *handler["args"]],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        input=b"{}",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_hook_without_a_process_that_watches_finds_what_is_installed() -> None:
    """Its Python was started without that: ISA-L, by which saves compress, is only found so."""
    finds = "import sys; sys.path.append(sys.argv[1]); from lastgood import client; client._load_site()"
    words = [sys.executable, "-ES", "-c", f"{finds}; import isal", SOURCE]
    subprocess.run(words, env={}, check=True)


@pytest.mark.parametrize("folder", ['a "quoted" folder', "Cellar"])
def test_the_program_is_entered_where_its_interpreter_may_go_or_cannot_be_quoted(
    folder: str, lastgood: Command, settings: Path, tmp_path: Path
) -> None:
    """Homebrew gives each version a folder of its own; the name of the program leads to the last."""
    (tmp_path / folder).mkdir()
    python = tmp_path / folder / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    words = [str(python), COMMAND, "install", "claude-code"]
    subprocess.run(words, env=lastgood.environment, capture_output=True, check=True)
    (group,) = entries(settings)["Stop"]
    assert group["hooks"][0]["command"] == str(python)
    assert group["hooks"][0]["args"] == [COMMAND, "hook", "claude-code"]


def test_hooks_in_two_places_are_told_of_with_how_to_take_them_out(lastgood: Command, settings: Path) -> None:
    """By whoever enters or looks for them, and by the doctor; one place is nothing amiss."""
    lastgood("install", "claude-code")
    assert "more than once" not in lastgood("install", "claude-code", "--check").err
    assert "hooks-twice" not in lastgood("doctor").out
    said = lastgood("install", "claude-code", "--project").err
    assert "lastgood uninstall claude-code\n" in said
    assert "lastgood uninstall claude-code --project\n" in said
    lastgood("uninstall", "claude-code", "--project")

    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"enabledPlugins": PLUGINS}))
    said = lastgood("install", "claude-code", "--check").err
    assert "the plugin lastgood@mine" in said
    assert "claude plugin uninstall lastgood@mine\n" in said
    local = lastgood.project / ".claude" / "settings.local.json"
    local.write_text('{"enabledPlugins": {"lastgood@local": true}}')
    assert "uninstall lastgood@local --scope local\n" in lastgood("install", "claude-code", "--check").err
    (note,) = [one for one in lastgood("doctor", "--json").json["findings"] if one["code"] == "hooks-twice"]
    assert note["state"] == "note"
    assert "lastgood uninstall claude-code" in note["hint"]


PLUGINS = {"lastgood@mine": True, "lastgood@off": False, "other@mine": True}


def test_the_doctor_looks_for_hooks_in_whatever_settings_there_are(lastgood: Command, settings: Path) -> None:
    settings.write_text("{")
    (lastgood.project / ".claude").mkdir()
    (lastgood.project / ".claude" / "settings.json").write_text('{"hooks": {"Stop": 3}}')
    assert "in no agent's host" in lastgood("doctor").out
    lastgood("install", "opencode")
    assert "in opencode" in lastgood("doctor").out


def test_hooks_that_do_not_start_are_told(lastgood: Command, settings: Path, tmp_path: Path) -> None:
    """A Perl that is there, and whose libraries are not, ends with 127, and nobody sees that."""
    lastgood("install", "claude-code")
    lastgood("install", "claude-code", "--check")
    broken = tmp_path / "perl"
    broken.write_text("#!/bin/sh\necho 'no library' >&2\nexit 127\n")
    broken.chmod(0o755)
    text = settings.read_text()
    at = json.loads(text)["hooks"]["SessionStart"][0]["hooks"][0]["args"]
    settings.write_text(
        text.replace(PERL[0], str(broken))
        if PERL[0] in str(at)
        else text.replace(sys.executable, str(broken))
    )

    refused = lastgood("install", "claude-code", "--check", expect=10)
    assert "do not start, so no checkpoint is made: it ends with 127 (no library)\n" in refused.err
    told_of = lastgood("doctor", expect=1)
    assert "hooks-start: enter them anew: lastgood install claude-code\n" in told_of.out
    lastgood("install", "claude-code")
    lastgood("install", "claude-code", "--check")
