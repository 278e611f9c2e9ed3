"""The first minutes: what a newcomer is told fits on the screen, can be typed, and is the right thing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.cli.main import main
from lastgood.cli.wording import fitted, pairs, width, wrapped
from tools.command import COMMAND, Command
from tools.terminal import Terminal

pytestmark = pytest.mark.starts

CTRL_C = "\x03"


def test_prose_is_broken_between_words_and_commands_as_a_shell_takes_them() -> None:
    command = "lastgood --store /a/long/path/to/a/store workspace list"
    assert fitted(f"  those that have checkpoints: {command}", 40) == [
        "  those that have checkpoints:",
        f"    {command}",
    ]
    moved = "mv ./a.txt.lastgood-1 ./a.txt"
    assert fitted(f"          to take it: {moved}", 30) == ["          to take it:", f"            {moved}"]
    assert fitted("you are at ckpt_1 (before: rm -f notes.txt), risky, just now", 30) == [
        "you are at ckpt_1 (before: rm",
        "-f notes.txt), risky, just now",
    ]
    assert fitted("one two three four", 9) == ["one two", "three", "four"]
    assert fitted("short", 9) == ["short"]
    for narrow in range(12):  # a window of hardly any columns
        assert "".join(fitted("          one two", narrow)).split() == ["one", "two"]
    assert fitted("  keep    one  (as it was)", 20) == ["  keep    one  (as", "    it was)"]
    assert fitted(f"  {command}", 40) == [f"  {command}"]
    assert fitted(f"to see the list: {command}; to go back: lastgood restore ID", 50) == [
        "to see the list:",
        "  lastgood --store /a/long/path/to/a/store \\",  # as a shell takes it
        "    workspace list",
        "to go back: lastgood restore ID",
    ]
    pip = f"{sys.executable} -m pip install isal"
    assert fitted(f"compression: {pip}", 30) == ["compression:", f"  {pip}"]
    assert wrapped("nothing is changed (lastgood list --all)", 30) == [
        "nothing is changed",
        "(lastgood list --all)",
    ]
    assert wrapped("nothing changed; run `lastgood verify --repair`", 40)[1] == "`lastgood verify --repair`"


@pytest.mark.parametrize("said", ['asked last: "{}", not ended', "to ckpt_1 (before: {}): 2 files written"])
def test_a_title_that_has_a_command_in_it_is_broken_as_prose(said: str) -> None:
    """What was asked may name one behind a colon; nobody is to type that."""
    text = said.format("clean up: rm -r build and make it again from scratch")
    lines = fitted(text, 40)
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(lines) == text


def test_a_command_in_a_column_is_broken_as_a_shell_takes_it() -> None:
    command = "lastgood -C NEW_PLACE workspace attach /home/ada/projects/shop"
    lines = pairs([("health", f"  if it was moved: {command}")], limit=60)
    assert lines == [
        "health    if it was moved:",
        "            lastgood -C NEW_PLACE \\",  # as a shell takes it
        "              workspace attach /home/ada/projects/shop",
    ]
    assert pairs([("health", f"  {command}")], limit=60) == [
        "health    lastgood -C NEW_PLACE \\",
        "            workspace attach /home/ada/projects/shop",
    ]


def test_what_belongs_together_is_read_in_one_line() -> None:
    said = "took back the restore of ckpt_b8979d96 of 2026-11-26 17:07:49: 2 files written, 1 path skipped"
    assert fitted(said, 76) == [
        "took back the restore of ckpt_b8979d96 of 2026-11-26 17:07:49:",
        "2 files written, 1 path skipped",
    ]


@pytest.mark.parametrize(("said", "columns"), [(None, 80), ("60", 60), ("nonsense", 80)])
def test_help_that_goes_elsewhere_keeps_within_80_columns_or_those_that_are_said(
    said: str | None, columns: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if said is not None:
        monkeypatch.setenv("COLUMNS", said)
    for words in ([], ["restore"], ["exit-codes"]):
        assert main(["help", *words]) == 0
        lines = capfd.readouterr().out.splitlines()
        assert [line for line in lines if width(line) > columns and " " in line.strip()] == []


def test_where_there_is_no_checkpoint_the_ways_to_one_are_proposed(lastgood: Command) -> None:
    assert "checkpoints  none yet; make the first: lastgood save" in lastgood("status").out
    with Terminal(
        [sys.executable, COMMAND],
        cwd=lastgood.project,
        environment=lastgood.environment | {"TERM": "xterm-256color", "NO_COLOR": "1"},
        columns=80,
        starts=True,
    ) as terminal:
        assert terminal.end() == 0
        shown = "\n".join(terminal.everything)
    assert "you are at" not in shown
    for words in ('save "before the agent"', "run -- COMMAND", "install HOST"):
        assert f" {words} " in shown
    assert max(map(width, terminal.everything)) <= 80


def test_the_question_of_a_restore_fits_on_the_screen(kept: Command) -> None:
    """T1: what a person changed is at the top of it."""
    for number in range(30):
        (kept.project / f"added{number:02}.txt").write_text("mine\n", encoding="utf-8")
    shown = kept.terminal("restore", "one", answers="n\n", expect=130).out.replace("\r", "")
    before = shown.partition("Go ahead?")[0].splitlines()
    assert "where you are: 30 files added" in before[0]
    assert len(before) < 24
    assert "of them to delete (all of them: --dry-run)" in shown


def test_what_a_restore_takes_back_is_named_once(kept: Command) -> None:
    (kept.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    shown = kept.terminal("restore", "@", answers="n\n", expect=130).out
    assert shown.count("a.txt") == 1


def test_an_undo_says_which_restore_it_is_about(kept: Command) -> None:
    """T8."""
    (kept.project / "src" / "b.py").write_text("wrecked\n", encoding="utf-8")
    kept("restore", "@", "src", "--yes")
    assert "restore of src/b.py from 'two'" in kept("undo", "--list").out
    (kept.project / "src" / "b.py").write_text("mine\n", encoding="utf-8")
    refused = kept("undo", expect=13).err
    assert "undo is about the restore of src/b.py from ckpt_" in refused
    assert "took back the restore of src/b.py from ckpt_" in kept("undo", "--force").out


def test_ctrl_c_before_a_restore_says_that_nothing_was_changed(kept: Command) -> None:
    (kept.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    for words, prompt in ((("restore",), "arrows move"), (("restore", "@"), "Go ahead?")):
        with Terminal(
            [sys.executable, COMMAND, *words],
            cwd=kept.project,
            environment=kept.environment | {"TERM": "xterm-256color"},
            starts=True,
        ) as terminal:
            terminal.until(prompt)
            terminal.type(CTRL_C)
            assert terminal.end() == 130
            assert any("interrupted; nothing was changed" in line for line in terminal.shown)


def test_a_path_in_a_project_that_is_gone_names_the_project(kept: Command) -> None:
    """T12a: typed in the folder above."""
    above, name = kept.project.parent, kept.project.name
    shutil.rmtree(kept.project)
    for words in (("restore", f"{name}/a.txt", "--yes"), ("diff", f"{name}/a.txt"), ("undo",)):
        refused = kept(*words, cwd=above, expect=None)
        assert refused.code == 10
        assert f"lastgood -C {kept.project} restore @" in refused.err


def test_several_paths_in_a_project_that_is_gone_are_taken_as_one_is(kept: Command) -> None:
    """K2, T12a: what a shell could make of an asterisk there nobody can tell."""
    shutil.rmtree(kept.project)
    shown = kept("-C", str(kept.project), "restore", "a.txt", "new.txt", "--dry-run", cwd=kept.store)
    assert "  create  a.txt\n  create  new.txt\n" in shown.out


def above(command: Command, *words: str) -> Terminal:
    """Have the command typed in the folder above the project."""
    return Terminal(
        [sys.executable, COMMAND, *words],
        cwd=command.project.parent,
        environment=command.environment | {"TERM": "xterm-256color"},
        columns=80,
        rows=24,
        starts=True,
    )


def test_a_project_that_is_gone_can_be_named_on_a_terminal_from_the_folder_above(kept: Command) -> None:
    """T12a: what it means is shown before anything is done."""
    shutil.rmtree(kept.project)
    with above(kept, "restore", kept.project.name) as terminal:
        terminal.until("Go ahead?")
        assert any("will be made again" in line for line in terminal.everything)
        terminal.type("y\n")
        assert terminal.end() == 0
    assert (kept.project / "a.txt").exists()


def test_a_path_beside_a_project_that_is_gone_is_one_whatever_it_says(kept: Command) -> None:
    """K2, T12a: after ``--``, where a word would mean everything."""
    (kept.project / "all").write_text("all\n", encoding="utf-8")
    kept("save")
    shutil.rmtree(kept.project)
    with above(kept, "restore", kept.project.name, "--", "all") as terminal:
        terminal.until("Go ahead?")
        assert any("1 file to write" in line for line in terminal.everything)
        terminal.type("y\n")
        assert terminal.end() == 0
    assert [one.name for one in kept.project.iterdir()] == ["all"]


def test_lastgood_alone_where_a_project_is_gone_proposes_to_make_it_again(kept: Command) -> None:
    """T12a."""
    shutil.rmtree(kept.project)
    with Terminal(
        [sys.executable, COMMAND, "-C", str(kept.project)],
        cwd=kept.store,
        environment=kept.environment | {"TERM": "xterm-256color"},
        starts=True,
    ) as terminal:
        assert terminal.end() == 0
        lines = terminal.everything
    assert any("the folder is gone" in line for line in lines)
    assert not any(" save MESSAGE" in line or " diff " in line for line in lines)


def test_who_stands_in_a_deleted_folder_is_told_to_go_into_the_new_one(kept: Command) -> None:
    """T12a."""
    program = (
        "import os, shutil, subprocess, sys\n"
        "shutil.rmtree(os.getcwd())\n"
        "sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))\n"
    )
    kept.environment["PWD"] = str(kept.project)
    done = subprocess.run(
        [sys.executable, "-c", program, COMMAND, "restore", "@", "--yes"],
        cwd=kept.project,
        env=kept.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"cd {kept.project}" in done.stderr
    assert (kept.project / "a.txt").exists()


def test_a_refused_folder_is_told_of_for_whatever_was_typed(kept: Command) -> None:
    """S11."""
    refused = kept("save", cwd=Path("/"), expect=15).err
    assert "the same with --allow-root" in refused
    assert "lastgood status --allow-root" not in refused


def test_a_status_tells_what_never_changes_only_when_asked(kept: Command) -> None:
    """S13: weak durability is told all the same."""
    known = ("store ", "state ", "missing ", "durability ", "health ")
    short, whole = kept("status").out.splitlines(), kept("status", "--verbose").out.splitlines()
    assert [any(line.startswith(name) for line in short) for name in known] == [False] * len(known)
    assert [any(line.startswith(name) for line in whole) for name in known] == [True] * len(known)
    assert set(short) <= set(whole)
    weak = kept("status", "--set", "durability=fast").out
    assert [line.split() for line in weak.splitlines() if line.startswith("durability")] == [
        ["durability", "fast"]
    ]


def test_a_file_that_a_merge_put_beside_another_is_told_from_the_projects(kept: Command) -> None:
    """T17."""
    path = kept.project / "a.txt"
    path.write_text("mine\n", encoding="utf-8")
    kept("restore", "one", "--merge", "--yes", "--", "a.txt", expect=3)
    told = kept("status").out
    says = "(the other version: put it in its place, or delete it)"
    assert re.search(rf"added    a\.txt\.lastgood-ckpt_\w{{8}}\n +{re.escape(says)}\n", told)
