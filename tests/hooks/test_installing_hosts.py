"""install, uninstall: the settings of the other hosts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tools.command import COMMAND, ROOT, Command, told

# Whose settings are JSON with hooks in it: the file below the home folder, or a project, and an event's name.
SETTINGS = {
    "codex": (".codex/hooks.json", "Stop"),
    "gemini-cli": (".gemini/settings.json", "AfterAgent"),
    "cursor": (".cursor/hooks.json", "stop"),
}
# Whose hooks are files of their own: one of them below the home folder, and below a project.
OWN = {
    "opencode": (".config/opencode/plugin/lastgood.js", ".opencode/plugin/lastgood.js"),
    "cline": (".cline/hooks/PreToolUse", ".clinerules/hooks/PreToolUse"),
}
VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME")


@pytest.fixture(autouse=True)
def home(lastgood: Command, tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    lastgood.environment["HOME"] = str(folder)
    for name in VARIABLES:
        lastgood.environment.pop(name, None)
    return folder


@pytest.mark.parametrize("host", SETTINGS)
def test_hooks_come_and_go_and_what_else_is_there_stays(host: str, lastgood: Command, home: Path) -> None:
    name, event = SETTINGS[host]
    file = home / name
    file.parent.mkdir(parents=True)
    theirs = json.dumps({"version": 1, "more": [], "hooks": {event: [{"command": "other hook"}]}}, indent=4)
    file.write_text(theirs)
    told(lastgood("install", host, "--check", expect=None), 10)

    assert lastgood("install", host, "--json").json == {
        "schema": "lastgood.install/1",
        "host": host,
        "file": str(file),
        "changed": True,
    }
    held = json.loads(file.read_text())["hooks"]
    assert held[event][0] == {"command": "other hook"}
    assert len(held[event]) == 2
    assert all(len(entries) == 1 for name, entries in held.items() if name != event)
    lastgood("install", host, "--check")
    before = file.read_bytes()
    assert lastgood("install", host, "--json").json["changed"] is False
    assert file.read_bytes() == before

    lastgood("uninstall", host)
    assert file.read_text() == theirs


@pytest.mark.parametrize("host", [*SETTINGS, *OWN])
def test_the_page_of_a_host_shows_what_install_says(host: str, lastgood: Command, home: Path) -> None:
    lastgood.environment["COLUMNS"] = "120"
    done = lastgood("install", host)
    said = (done.out + done.err).replace(str(home), "~")
    page = Path(ROOT, "docs", "agents", f"{host}.md").read_text()
    assert f"```console\n$ lastgood install {host}\n{said}```\n" in page


@pytest.mark.parametrize("host", SETTINGS)
def test_what_was_entered_starts_the_command_from_anywhere(host: str, lastgood: Command, home: Path) -> None:
    lastgood("install", host)
    name, event = SETTINGS[host]
    (entry,) = json.loads((home / name).read_text())["hooks"][event]
    (handler,) = entry.get("hooks", [entry])
    done = subprocess.run(
        ["sh", "-c", handler["command"]],
        cwd="/",
        env={},
        input="{}",
        text=True,
        capture_output=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("host", SETTINGS)
def test_a_project_has_settings_of_its_own(host: str, lastgood: Command, home: Path) -> None:
    done = lastgood("install", host, "--project")
    name, event = SETTINGS[host]
    assert event in json.loads((lastgood.project / name).read_text())["hooks"]
    assert not (home / name).exists()
    assert "trust" in done.err or host == "cursor"


@pytest.mark.parametrize("host", SETTINGS)
@pytest.mark.parametrize("text", ["{", '{"hooks": []}', "[]"])
def test_settings_that_nobody_understands_are_left_alone(
    host: str, text: str, lastgood: Command, home: Path
) -> None:
    file = home / SETTINGS[host][0]
    file.parent.mkdir(parents=True)
    file.write_text(text)
    told(lastgood("install", host, expect=None), 12)
    assert file.read_text() == text


@pytest.mark.parametrize("host", OWN)
def test_files_of_our_own_come_and_go(host: str, lastgood: Command, home: Path) -> None:
    file = home / OWN[host][0]
    told(lastgood("install", host, "--check", expect=None), 10)
    assert lastgood("install", host, "--json").json["changed"] is True
    assert COMMAND in file.read_text()
    assert file.read_text() == lastgood("install", host, "--print").out
    lastgood("install", host, "--check")
    assert lastgood("install", host, "--json").json["changed"] is False
    assert lastgood("uninstall", host, "--json").json["changed"] is True
    assert not list(file.parent.iterdir())
    assert lastgood("uninstall", host, "--json").json["changed"] is False


@pytest.mark.parametrize("host", OWN)
def test_a_project_has_files_of_its_own(host: str, lastgood: Command, home: Path) -> None:
    lastgood("install", host, "--project")
    assert (lastgood.project / OWN[host][1]).exists()
    assert not (home / OWN[host][0]).exists()


@pytest.mark.parametrize("host", OWN)
def test_a_file_that_is_somebody_else_s_is_left_alone(host: str, lastgood: Command, home: Path) -> None:
    """And then none of the others is written."""
    file = home / OWN[host][0]
    file.parent.mkdir(parents=True)
    file.write_text("theirs")
    told(lastgood("install", host, expect=None), 13)
    told(lastgood("install", host, "--check", expect=None), 13)
    lastgood("uninstall", host)
    assert [one.read_text() for one in file.parent.iterdir()] == ["theirs"]


def test_cline_s_hooks_are_programs_that_run_from_anywhere(lastgood: Command, home: Path) -> None:
    lastgood("install", "cline")
    file = home / OWN["cline"][0]
    done = subprocess.run([file], cwd="/", env={}, input="{}", text=True, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    file.chmod(0o600)
    told(lastgood("install", "cline", "--check", expect=None), 10)
    lastgood("install", "cline")
    assert file.stat().st_mode & 0o777 == 0o700


def test_a_hook_that_was_set_to_block_still_does(lastgood: Command, home: Path) -> None:
    """Also where the way to a lastgood that moved is written anew."""
    lastgood("install", "gemini-cli")
    file = home / SETTINGS["gemini-cli"][0]
    text = file.read_text().replace("hook gemini-cli", "hook gemini-cli --block")
    file.write_text(text.replace(COMMAND, "/gone/lastgood"))
    lastgood("install", "gemini-cli")
    assert file.read_text() == text
    lastgood("uninstall", "gemini-cli")
    assert json.loads(file.read_text()) == {}


def test_hooks_that_gemini_cli_has_switched_off_are_told_of(lastgood: Command, home: Path) -> None:
    file = home / SETTINGS["gemini-cli"][0]
    file.parent.mkdir()
    file.write_text('{"hooksConfig": {"enabled": false}}')
    assert "hooksConfig.enabled" in lastgood("install", "gemini-cli").err


def test_codex_s_review_is_told_of(lastgood: Command) -> None:
    assert "/hooks" in lastgood("install", "codex").err


@pytest.mark.parametrize("host", [*SETTINGS, *OWN])
def test_without_a_home_it_says_so(host: str, lastgood: Command) -> None:
    del lastgood.environment["HOME"]
    told(lastgood("install", host, expect=None), 2)


def test_settings_that_cannot_be_written_stay_as_they_were(lastgood: Command, home: Path) -> None:
    file = home / SETTINGS["codex"][0]
    file.parent.write_text("no folder")
    told(lastgood("install", "codex", expect=None), 12)
    assert file.parent.read_text() == "no folder"


def test_a_host_that_is_not_named_is_told_by_what_it_says(lastgood: Command, home: Path) -> None:
    lastgood.environment["HOME"] = str(lastgood.project)  # where no checkpoint is made
    said = {
        "hook_event_name": "SessionStart",
        "session_id": "s",
        "timestamp": "1",
        "cwd": str(lastgood.project),
    }
    reply = lastgood("hook", stdin=json.dumps(said).encode()).json
    assert "it is a home folder" in reply["systemMessage"]
    assert "lastgood hook HOST" in lastgood("hook", stdin=b'{"some": "thing"}').err
