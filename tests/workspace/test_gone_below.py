"""Somebody stands above a project whose folder is gone: what the store has of it is named (rule T12a)."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.command import COMMAND, Command


@pytest.fixture
def gone(lastgood: Command) -> Command:
    """Return the command of a project with one checkpoint that was deleted."""
    lastgood.project = made(lastgood, "my blog")
    shutil.rmtree(lastgood.project)
    return lastgood


def made(command: Command, name: str) -> Path:
    """Return a project in a folder of its own, with one checkpoint."""
    project = command.store.parent / "work" / name
    project.mkdir(parents=True)
    (project / "README.md").write_text("mine\n", encoding="utf-8")
    command("save", "good", cwd=project)
    return project


@pytest.mark.parametrize(
    "words", [("status",), ("list",), ("recover",), ("restore", "@", "--yes"), ("restore", "my blog")]
)
def test_the_folder_above_names_it_and_the_way_back(gone: Command, words: tuple[str, ...]) -> None:
    """T12a."""
    done = gone(*words, cwd=gone.project.parent, expect=10 if words[0] == "restore" else 0)
    shown = done.out + done.err
    assert "my blog, in this folder, is gone and has 1 checkpoint" in shown
    assert "workspace attach" not in shown
    (command,) = re.findall(r"bring it back: lastgood (.*)", shown)
    subprocess.run(
        [sys.executable, COMMAND, *shlex.split(command), "--yes"],
        cwd=gone.store,
        env=gone.environment,
        check=True,
    )
    assert (gone.project / "README.md").read_text(encoding="utf-8") == "mine\n"


def test_a_home_folder_that_is_refused_names_it_too(gone: Command) -> None:
    """S11, T12a."""
    home = gone.project.parent
    gone.environment["HOME"] = str(home)
    for words in (("list",), ("restore", "@", "--yes")):
        done = gone(*words, cwd=home, expect=15)
        assert "my blog, in this folder, is gone and has 1 checkpoint" in done.err
        assert f"lastgood -C '{gone.project}' restore @" in done.err
    gone.project = home
    alone = gone.terminal().out
    assert "my blog, in this folder, is gone and has 1 checkpoint" in alone
    assert "  bring it back:" in alone


def test_of_several_the_newest_three_are_named_newest_first(lastgood: Command) -> None:
    projects = [made(lastgood, name) for name in ("one", "four", "two", "three")]
    stays = made(lastgood, "stays")
    for project in projects:
        shutil.rmtree(project)
    shown = lastgood("list", cwd=stays.parent).err
    assert re.findall(r"(\w+), in this folder, is gone", shown) == ["three", "two", "four"]


def test_a_folder_beside_it_that_begins_alike_does_not_name_it(gone: Command) -> None:
    beside = gone.project.parent.parent / "wor"
    beside.mkdir()
    assert "in this folder, is gone" not in gone("list", cwd=beside).err
