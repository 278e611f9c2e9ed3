from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lastgood.cli.help import EXIT_CODES, VERSION
from lastgood.cli.opening import bar
from lastgood.cli.table import all_verbs
from lastgood.cli.verbs.help import script
from tools.command import ROOT, Command

LISTED = [verb for verb in all_verbs() if not verb.hidden]


def test_the_overview_names_every_verb_but_the_hidden(lastgood: Command) -> None:
    shown = lastgood("help").out
    assert [verb.name for verb in LISTED if f"\n  {verb.name} " not in shown] == []
    assert "maintain" not in shown


@pytest.mark.parametrize("verb", [verb.name for verb in all_verbs()])
def test_help_on_a_verb_shows_its_options_examples_and_exit_codes(lastgood: Command, verb: str) -> None:
    by_help = lastgood("help", verb)
    assert lastgood(verb, "--help").out == by_help.out
    entry = next(one for one in all_verbs() if one.name == verb)
    assert [one.name for one in entry.options if f"--{one.name}" not in by_help.out] == []
    assert [command for command, _ in entry.examples if command not in by_help.out] == []
    assert [code for code in entry.codes if EXIT_CODES[code] not in by_help.out] == []


@pytest.mark.parametrize("topic", ["refs", "exit-codes", "environment"])
def test_there_is_help_on_topics(lastgood: Command, topic: str) -> None:
    assert len(lastgood("help", topic).out.splitlines()) > 5


def test_help_on_what_is_not_there_suggests(lastgood: Command) -> None:
    assert "did you mean `lastgood help restore`?" in lastgood("help", "restor", expect=2).err


def test_without_a_verb_it_is_a_usage_error(lastgood: Command) -> None:
    done = lastgood(expect=2)
    assert done.out == ""
    assert done.err == "lastgood: no verb given\n  see all verbs: lastgood help\n"


def test_the_version_is_that_of_the_project(lastgood: Command) -> None:
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        assert tomllib.load(file)["project"]["version"] == VERSION
    assert lastgood("--version").out == f"lastgood {VERSION}\n"


def test_the_script_works_through_a_link_and_from_anywhere(tmp_path: Path) -> None:
    link = tmp_path / "lg"
    link.symlink_to(os.path.join(ROOT, "lastgood"))
    done = subprocess.run([sys.executable, link, "--version"], cwd="/", capture_output=True, check=True)
    assert done.stdout.startswith(b"lastgood ")


def test_the_module_can_be_run() -> None:
    environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "src"))
    done = subprocess.run(
        [sys.executable, "-m", "lastgood", "--version"], env=environment, capture_output=True, check=True
    )
    assert done.stdout.startswith(b"lastgood ")


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    program = f"{script('bash')}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _lastgood; "
    done = subprocess.run(
        ["bash", "-c", program + 'printf "%s\\n" "${COMPREPLY[@]}"'],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_bash_completes_verbs_options_and_choices() -> None:
    assert completed("lastgood", "res") == ["restore", "resume"]
    assert "--dry-run" in completed("lastgood", "restore", "--")
    assert completed("lastgood", "save", "--kind", "man") == ["manual"]
    assert completed("lastgood", "-C", "/", "rollback", "--pl") == ["--plan"]
    assert completed("lastgood", "completion", "f") == ["fish"]
    assert completed("lastgood", "workspace", "a") == ["attach"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_sound_and_name_every_verb_and_option(shell: str) -> None:
    text = script(shell)
    assert [verb.name for verb in LISTED if verb.name not in text] == []
    assert [option.name for verb in LISTED for option in verb.options if option.name not in text] == []
    assert "maintain" not in text
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=text.encode(), check=True)


def test_the_bar_moves_to_and_fro_and_keeps_its_width() -> None:
    shown = [bar(tick) for tick in range(30)]
    assert {len(one) for one in shown} == {18}
    assert shown[0] == shown[24] == "[====            ]"
    assert shown[12] == "[            ====]"
