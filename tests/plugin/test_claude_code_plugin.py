"""The plugin for Claude Code says what is there, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lastgood import __version__
from lastgood.cli.reader import read
from lastgood.cli.table import spellings
from lastgood.mcp_server.tools import FORMS
from tools.command import ROOT

PLUGIN = Path(ROOT) / "plugins" / "claude-code"
COMMANDS = sorted(one.stem for one in (PLUGIN / "commands").iterdir())
TEXTS = sorted(str(one.relative_to(PLUGIN)) for one in PLUGIN.rglob("*.md"))
# What stands for something of the person's.
WORDS = {"REF": "@", "ID": "plan_0123456789abcdef", "N": "2", "NAME": "parser-works", "PLAN": "plan.yaml"}
SAID = (
    "save my place",
    "mark progress",
    "pick up where we left off",
    "what checkpoints",
    "resume from checkpoint",
    "checkpoint this as",
    "create a checkpoint",
    "available checkpoints",
    "recover from the last checkpoint",
    "it crashed",
)
PHRASES = ("save my place", "mark progress", "pick up where we left off", "resume from", "what checkpoints")


def parts(path: str) -> tuple[dict[str, Any], str]:
    """Return the front matter of a file, and what follows."""
    _, head, body = (PLUGIN / path).read_text().split("---\n", 2)
    return yaml.safe_load(head), body


def commands(text: str) -> list[str]:
    """Return every command of ours that a text tells to type."""
    found = re.findall(r"`(lastgood [^`]+)`", text)
    return [*found, *re.findall(r"^    (lastgood [^#\n]+)", text, re.MULTILINE)]


def loaded(path: str) -> Any:
    return json.loads((PLUGIN / path).read_text())


def test_the_hooks_are_those_that_install_enters() -> None:
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "scripts", "plugin"), "--check"], check=False, capture_output=True
    )
    assert done.returncode == 0, done.stdout


CLIENT = "def run_for(program): print('by the client of', *program, *__import__('sys').argv[1:])"
BY_CLIENT, BY_PROGRAM = (
    "by the client of {place}/bin/lastgood hook claude-code\n",
    "by the program hook claude-code\n",
)


def installed(place: Path, *, first: str, client: str | None) -> dict[str, str]:
    """Lay a program, its Python and perhaps its package, and return an environment that has them."""
    packages = place / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/lastgood"
    for folder in (place / "bin", packages):
        folder.mkdir(parents=True)
    (place / "bin" / "python3").symlink_to(sys.executable)
    program = place / "bin" / "lastgood"
    program.write_text(f"#!{first.format(place=place)}\nimport sys\nprint('by the program', *sys.argv[1:])\n")
    program.chmod(0o755)
    if client is not None:
        (packages / "__init__.py").write_text("")
        (packages / "client.py").write_text(client)
    return {"PATH": f"/nowhere:{place}/bin:{os.environ['PATH']}"}


def hook(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Do what a hook of the plugin says."""
    handler = loaded("hooks/hooks.json")["hooks"]["Stop"][0]["hooks"][0]
    words = [shutil.which(handler["command"]) or "", *handler["args"]]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("first", "client", "more", "said"),
    [
        ("{place}/bin/python3", CLIENT, {}, BY_CLIENT),
        # Elsewhere, older, or to be found by a variable: the program finds it.
        ("{place}/bin/python3", None, {}, BY_PROGRAM),
        ("{place}/bin/python3", "", {}, BY_PROGRAM),
        ("{place}/bin/python3", CLIENT, {"PYTHONHOME": sys.base_prefix}, BY_PROGRAM),
        ("/usr/bin/env python3", CLIENT, {}, BY_PROGRAM),
    ],
)
def test_a_hook_starts_the_client_where_the_program_has_it_and_else_the_program(
    tmp_path: Path, first: str, client: str | None, more: dict[str, str], said: str
) -> None:
    place = tmp_path / "place"
    done = hook(installed(place, first=first, client=client) | more)
    assert (done.returncode, done.stdout) == (0, said.format(place=place)), done.stderr


@pytest.mark.skipif(not os.access("/usr/bin/perl", os.X_OK), reason="there is no Perl")
@pytest.mark.parametrize(
    ("perl", "said"),
    [
        ('print "by Perl for @by at @at"; exit', "by Perl for {place}/bin/lastgood at {packages}/lastgood"),
        ("nothing answers", BY_CLIENT),
    ],
)
def test_a_hook_asks_by_perl_where_the_package_has_a_client_for_it(
    tmp_path: Path, perl: str, said: str
) -> None:
    place = tmp_path / "a place"
    environment = installed(place, first="{place}/bin/python3", client=CLIENT)
    (client,) = place.glob("lib/python*/site-packages/lastgood/client.py")
    client.with_suffix(".pl").write_text(perl)
    done = hook(environment)
    told = said.format(place=place, packages=client.parents[1])
    assert (done.returncode, done.stdout) == (0, told), done.stderr


def test_without_the_program_a_hook_blocks_nothing(tmp_path: Path) -> None:
    done = hook({"PATH": str(tmp_path)})
    assert done.returncode == 127
    assert "lastgood" in done.stderr


@pytest.mark.parametrize("path", TEXTS)
def test_every_command_that_a_text_names_can_be_typed(path: str) -> None:
    told = commands((PLUGIN / path).read_text())

    assert told
    for command in told:
        words = [WORDS.get(word, word) for word in shlex.split(command)[1:]]
        call = read(words)
        assert call is not None, command
        assert call.verb.name in spellings(), command


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_called_as_its_verb_and_may_type_it(name: str) -> None:
    head, body = parts(f"commands/{name}.md")

    assert name in spellings()
    assert f"Bash(lastgood {name}:*)" in head["allowed-tools"]
    assert head["description"]
    assert {shlex.split(one)[1] for one in commands(body)} >= {name}


@pytest.mark.parametrize("name", ["restore", "rewind"])
def test_a_command_that_goes_back_looks_first_and_asks(name: str) -> None:
    """T1."""
    _, body = parts(f"commands/{name}.md")

    going = [one for one in commands(body) if one.startswith(("lastgood restore", "lastgood rewind"))]
    assert going[0].startswith(f"lastgood {name}")
    assert "--dry-run" in going[0]
    assert "--plan ID" in going[-1]
    assert "--yes" not in body
    assert "ask" in body[: body.index("--plan ID")]


def test_the_skill_is_of_the_open_format_and_says_when() -> None:
    head, body = parts("skills/checkpoints/SKILL.md")

    assert head["name"] == "checkpoints"
    assert len(head["description"]) <= 1024
    for phrase in PHRASES:
        assert phrase in head["description"], phrase
    for phrase in (*SAID, "undo what you did in the last two prompts"):
        assert phrase in body, phrase
    assert body.count('?"') >= 4  # it asks where it is not clear what is meant


def test_the_skill_names_tools_that_are_there() -> None:
    _, body = parts("skills/checkpoints/SKILL.md")

    assert set(re.findall(r"\bplan_\w+", body)) <= {form.name for form in FORMS}


def test_the_server_is_the_command() -> None:
    server = loaded(".mcp.json")["mcpServers"]["lastgood"]

    assert read(server["args"]).verb.name == server["args"][0] == "mcp"  # type: ignore[union-attr]
    assert server["command"] == "lastgood"


def test_the_plugin_is_where_the_marketplace_says_and_of_this_version() -> None:
    market = json.loads((Path(ROOT) / ".claude-plugin" / "marketplace.json").read_text())
    (entry,) = market["plugins"]

    assert (Path(ROOT) / entry["source"]).resolve() == PLUGIN
    assert loaded(".claude-plugin/plugin.json")["name"] == entry["name"] == "lastgood"
    assert loaded(".claude-plugin/plugin.json")["version"] == __version__
    assert len((PLUGIN / "README.md").read_text().split()) > 40
