"""The list that a person picks a checkpoint from, with real keys on a real terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lastgood as package
from lastgood.cli.picker import Picking, Rewind
from lastgood.model.checkpoint import Actor
from lastgood.workspace import Workspace
from tools.command import COMMAND, Command
from tools.terminal import Shell, Terminal

UP, DOWN, ESCAPE, ENTER, ERASE = "\x1b[A", "\x1b[B", "\x1b", "\r", "\x7f"
CTRL_C, CTRL_Z = "\x03", "\x1a"
HELP = "arrows move"
# Changes to the second screen.
ENTERS = b"\x1b[?1049h"


@pytest.fixture
def three(lastgood: Command) -> Command:
    """Return the command in a project that is wrecked after three checkpoints."""
    for number, message in enumerate(("the first", "the second", "the third"), 1):
        (lastgood.project / "a.txt").write_text(f"{number}\n", encoding="utf-8")
        lastgood("save", message)
    (lastgood.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    return lastgood


@contextmanager
def shown(
    command: Command, *words: str, columns: int = 80, rows: int = 24, **environment: str
) -> Iterator[Terminal]:
    with Terminal(
        [sys.executable, COMMAND, *words],
        cwd=command.project,
        environment=command.environment | {"TERM": "xterm-256color"} | environment,
        columns=columns,
        rows=rows,
    ) as terminal:
        yield terminal


def text_of(command: Command) -> str:
    return (command.project / "a.txt").read_text(encoding="utf-8")


def test_enter_shows_what_would_happen_and_a_yes_does_it(three: Command) -> None:
    """T1: the plan comes before the question."""
    with shown(three, "restore") as terminal:
        terminal.until(HELP)
        assert ["the third" in line for line in terminal.shown[1:4]] == [True, False, False]
        assert "1 file changed" in terminal.shown[1]
        assert "  1 file  ckpt_" in terminal.shown[3]  # nothing was before it
        terminal.type(ENTER)
        terminal.until("Go ahead?")
        assert any("change  a.txt" in line for line in terminal.shown)
        assert text_of(three) == "wrecked\n"
        terminal.type("y\n")
        assert terminal.end() == 0
    assert text_of(three) == "3\n"


def test_the_row_under_the_cursor_has_its_changed_files_named(three: Command) -> None:
    """S20: what each turn changed; of what was there first nobody lists everything."""
    (three.project / "b.txt").write_text("new")
    three("save", "the fourth")
    with shown(three, "rewind") as terminal:
        terminal.until(HELP)
        terminal.type(UP)
        terminal.until("1 of 4; changed there: a.txt, b.txt")
        terminal.type(DOWN + DOWN)
        terminal.until("3 of 4; changed there: a.txt")
        terminal.type(DOWN)
        terminal.until("4 of 4")
        assert "a.txt" not in terminal.shown[-2]
        terminal.type(ESCAPE)


def test_a_checkpoint_that_nobody_named_is_told_by_its_files(three: Command) -> None:
    """S20: sixty rows of the same word would help nobody."""
    three("save", "--kind", "auto")
    (three.project / "b.txt").write_text("new", encoding="utf-8")
    three("save", "--kind", "auto")
    with shown(three, "restore") as terminal:
        terminal.until(HELP)
        assert [
            f"changed: {one} " in row
            for one, row in zip(("b.txt", "a.txt"), terminal.shown[1:3], strict=True)
        ] == [True, True]
        terminal.type(ESCAPE)


def test_arrows_move(three: Command) -> None:
    with shown(three, "restore") as terminal:
        terminal.until(">")
        terminal.until(HELP)
        terminal.type(DOWN + DOWN + UP)
        terminal.until(lambda: any(line.startswith(">") and "the second" in line for line in terminal.shown))
        terminal.type(ENTER)
        terminal.until("Go ahead?")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert text_of(three) == "2\n"


def test_typing_filters_and_erasing_takes_it_back(three: Command) -> None:
    with shown(three, "restore") as terminal:
        terminal.until(HELP)
        terminal.type("FIRSTX")
        terminal.until("nothing fits")
        terminal.type(ENTER + ERASE)
        terminal.until("1 of 1")
        terminal.type(ENTER)
        terminal.until("Go ahead?")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert text_of(three) == "1\n"


@pytest.mark.parametrize("key", [ESCAPE, "q", "\x04"])
def test_leaving_changes_nothing_and_says_so(three: Command, key: str) -> None:
    """As an answer with no does: exit code 130."""
    with shown(three, "restore") as terminal:
        terminal.until(HELP)
        terminal.type(key)
        assert terminal.end() == 130
        assert terminal.shown == ["nothing was changed"]
    assert text_of(three) == "wrecked\n"


def test_q_is_a_letter_where_something_was_typed(three: Command) -> None:
    with shown(three, "restore") as terminal:
        terminal.until(HELP)
        terminal.type("/q")
        terminal.until("nothing fits")
        terminal.type(ESCAPE)
        assert terminal.end() == 130


def child_of(pid: int) -> int:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    return int(found.stdout.split()[0])


def leave(terminal: Terminal, how: str) -> None:
    terminal.until(HELP)
    if how.startswith("SIG"):
        os.kill(child_of(terminal.pid), signal.Signals[how])
    else:
        terminal.type(how)
    terminal.until("code ")


@pytest.mark.parametrize(
    ("how", "code"),
    [(CTRL_C, 130), (ESCAPE, 130), ("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129), ("SIGQUIT", 131)],
)
def test_the_terminal_is_set_as_before_however_it_is_left(three: Command, how: str, code: int) -> None:
    """The shell's settings are those that `stty` told before."""
    script = f"ulimit -c 0; stty -g; {sys.executable} {COMMAND} restore; echo code $?; stty -g"
    with Terminal(
        ["/bin/sh", "-c", script],
        cwd=three.project,
        environment=three.environment | {"TERM": "xterm-256color"},
    ) as terminal:
        leave(terminal, how)
        terminal.end()
        lines = [line for line in terminal.written.decode().replace("\r\n", "\n").split("\n") if line]
    settings = [line.rpartition("\x1b[?1049l")[2] for line in lines if line.count(":") > 10]
    assert len(settings) == 2
    assert settings[0] == settings[1]
    assert any(f"code {code}" in line for line in lines)
    assert text_of(three) == "wrecked\n"


@pytest.mark.parametrize("how", [CTRL_Z, "SIGTSTP", "SIGSTOP"])
def test_a_picker_that_was_stopped_is_drawn_again_when_it_goes_on(
    three: Command, tmp_path: Path, how: str
) -> None:
    """Meanwhile the shell's terminal is set as before."""
    with Shell(cwd=three.project, environment=three.environment) as shell:
        before = shell.settings(tmp_path / "before")
        shell.type(f"clear; {sys.executable} {COMMAND} restore\n")
        shell.until(HELP)
        if how == CTRL_Z:
            shell.type(how)
        else:
            os.kill(child_of(shell.pid), signal.Signals[how])
        shell.until("Stopped")
        assert shell.settings(tmp_path / "stopped") == before
        drawn = shell.written.count(ENTERS)
        shell.type("clear; fg\n")
        shell.until(lambda: shell.written.count(ENTERS) > drawn)
        shell.until(HELP)
        shell.type(DOWN)
        shell.until(lambda: any(line.startswith(">") and "the second" in line for line in shell.shown))
        shell.type(ESCAPE)
        shell.until("nothing was changed")
        assert shell.settings(tmp_path / "after") == before


def test_rewind_without_a_number_begins_where_it_would_go(three: Command) -> None:
    with shown(three, "rewind") as terminal:
        terminal.until(HELP)
        assert any(line.startswith(">") and "the second" in line for line in terminal.shown)
        assert terminal.shown[0] == "Go back to (this row stays, later ones go):"
        beside = [re.split(r"\s{2,}", line)[-2] for line in terminal.shown[1:4]]
        assert beside == ["1 file changed", "1 later change goes", "2 later changes go"]
        terminal.type(ENTER)
        terminal.until("Go ahead?")
        assert any("Back by 1 saved state:" in line for line in terminal.everything)
        terminal.type("y\n")
        assert terminal.end() == 0
    assert text_of(three) == "2\n"


def test_rewind_where_nothing_before_differs_begins_where_one_stands(lastgood: Command) -> None:
    """T15: what changed since is taken back from there."""
    (lastgood.project / "a.txt").write_text("kept\n", encoding="utf-8")
    lastgood("save", "the only one")
    (lastgood.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    with shown(lastgood, "rewind") as terminal:
        terminal.until(HELP)
        terminal.type(ENTER)
        terminal.until("Go ahead?")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert text_of(lastgood) == "kept\n"


def test_rewind_with_a_number_asks_no_such_thing(three: Command) -> None:
    with shown(three, "rewind", "2") as terminal:
        terminal.until("Go ahead?")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert text_of(three) == "1\n"


def test_without_a_terminal_restore_says_what_to_type_and_rewind_goes_back_one(three: Command) -> None:
    refused = three("restore", "--yes", expect=2)
    assert "lastgood restore @" in refused.err
    assert "lastgood list" in refused.err
    three("rewind", "--yes")
    assert text_of(three) == "2\n"


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (20, 5), (9, 3)])
def test_no_line_is_broken_however_small_the_window(three: Command, columns: int, rows: int) -> None:
    three("save", "宽字符 " * 20 + "\x1b[31mred\x07", "--allow-empty")
    with shown(three, "restore", columns=columns, rows=rows) as terminal:
        terminal.until(">")
        assert len(terminal.shown) <= rows
        assert b"\x1b[31m" not in terminal.written
        assert b"\x07" not in terminal.written
        terminal.type(ESCAPE)
        assert terminal.end() == 130


def test_it_is_drawn_anew_when_the_window_changes(three: Command) -> None:
    with shown(three, "restore") as terminal:
        terminal.until(HELP)
        terminal.resize(50, 6)
        terminal.until(lambda: terminal.written.count(b"\x1b[?7l") > 1)
        assert len(terminal.shown) <= 6
        terminal.type(ESCAPE)
        assert terminal.end() == 130


def test_without_colour_the_cursor_is_a_sign(three: Command) -> None:
    with shown(three, "restore", NO_COLOR="1") as terminal:
        terminal.until(HELP)
        assert b"\x1b[7m" not in terminal.written
        assert terminal.shown[1].startswith(">")
        terminal.type(ESCAPE)
        assert terminal.end() == 130


def test_a_terminal_that_cannot_be_drawn_upon_gets_numbers(three: Command) -> None:
    with shown(three, "restore", TERM="dumb") as terminal:
        terminal.until("Which one?")
        terminal.type("2\n")
        terminal.until("Go ahead?")
        terminal.type("y\n")
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.written
    assert text_of(three) == "2\n"


def test_hundreds_are_walked_through_and_searched(lastgood: Command) -> None:
    """They are loaded as they are come to."""
    with package.open(lastgood.project, store=lastgood.store, maintenance="off") as workspace:
        for number in range(450):
            workspace.save(f"number {number:03}", allow_empty=True)
    with shown(lastgood, "restore") as terminal:
        terminal.until("1 of 200+")
        terminal.type("\x1b[F")
        terminal.until("450 of 450")
        assert any(line.startswith(">") and "number 000" in line for line in terminal.shown)
        terminal.type("number 123")
        terminal.until("1 of 1")
        terminal.type(ESCAPE)
        assert terminal.end() == 130


def test_without_checkpoints_there_is_nothing_to_pick(lastgood: Command) -> None:
    with shown(lastgood, "restore") as terminal:
        assert terminal.end() == 10
        assert any("no checkpoint of this workspace yet" in line for line in terminal.shown)


def test_it_begins_where_one_stands_and_marks_it(three: Command) -> None:
    """T15: after going back, to take the last damage back is as near as ever."""
    three("restore", "the second", "--yes")
    (three.project / "a.txt").write_text("wrecked again\n", encoding="utf-8")
    with shown(three, "restore") as terminal:
        terminal.until(HELP)
        (line,) = [line for line in terminal.shown if line.startswith(">")]
        assert "the second" in line
        terminal.type(UP)
        terminal.until("1 of 3")
        assert any(line.startswith(" @ ") and "the second" in line for line in terminal.shown)
        terminal.type(DOWN + ENTER)
        terminal.until("Go ahead?")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert text_of(three) == "2\n"


def test_ctrl_w_takes_the_last_word_back(three: Command) -> None:
    with shown(three, "restore") as terminal:
        terminal.until(HELP)
        terminal.type("second nosuch")
        terminal.until("nothing fits")
        terminal.type("\x17")
        terminal.until("1 of 1")
        assert any("the second" in line for line in terminal.shown)


@pytest.mark.parametrize("columns", [40, 25])
def test_how_to_leave_is_told_however_narrow_it_is(three: Command, columns: int) -> None:
    with shown(three, "restore", columns=columns) as terminal:
        terminal.until("Enter looks, Esc leaves")
        terminal.type(ESCAPE)
        terminal.until("nothing was changed")


# --- By file (Tab) ---


@pytest.fixture
def files(three: Command) -> Command:
    """Return the command in the same project, of which one checkpoint has another file that changed."""
    (three.project / "src").mkdir()
    (three.project / "src" / "prices.py").write_text("1\n", encoding="utf-8")
    three("save", "no word of it")
    (three.project / "src" / "prices.py").unlink()
    three("save", "without")
    (three.project / "a.txt").write_text("4\n", encoding="utf-8")
    three("save", "the last")
    return three


def test_tab_filters_by_file_and_back_by_words(files: Command) -> None:
    """S20: by what changed there, a deletion too, whatever the checkpoint is called."""
    with shown(files, "restore") as terminal:
        terminal.until("Tab: by file")
        terminal.type("PRIC")
        terminal.until("nothing fits; Tab looks for files")
        terminal.type("\t")
        terminal.until("1 of 2")
        assert ["deleted: src/prices.py" in line for line in terminal.shown[1:3]] == [True, False]
        assert "src/prices.py" in terminal.shown[2]
        assert "without" in terminal.shown[1]
        terminal.until("Tab: by words")
        terminal.type("q")
        terminal.until("no path that changed has that")
        terminal.type("\t\x15")
        terminal.until("1 of 6")
        terminal.type(ESCAPE)
        assert terminal.end() == 130


def test_of_files_that_were_looked_for_only_these_come_back(files: Command) -> None:
    """T11: what else the checkpoint holds is left as it is, which is said before the question."""
    with shown(files, "restore") as terminal:
        terminal.until("Tab: by file")
        terminal.type("\tprices" + DOWN)
        terminal.until("Restore only files with: prices")
        terminal.type(ENTER)
        terminal.until("Go ahead?")
        assert "Only what you looked for: src/prices.py" in "\n".join(terminal.shown)
        terminal.type("y\r")
        assert terminal.end() == 0
    assert (files.project / "src" / "prices.py").read_text() == "1\n"
    assert text_of(files) == "4\n"


def test_what_was_deleted_then_and_is_gone_keeps_nothing_else_from_coming_back(files: Command) -> None:
    """And alone it is told how to be had."""
    with shown(files, "restore") as terminal:
        terminal.until("Tab: by file")
        terminal.type("\tprices")
        terminal.until("Restore only files with: prices")
        terminal.type(ENTER)
        assert terminal.end() == 10
        assert "as it was before: lastgood restore src/prices.py" in "\n".join(terminal.shown)
    (files.project / "src" / "more.py").write_text("1\n", encoding="utf-8")
    (files.project / "src" / "old.py").write_text("1\n", encoding="utf-8")
    files("save", "two of them")
    (files.project / "src" / "more.py").write_text("2\n", encoding="utf-8")
    (files.project / "src" / "old.py").unlink()
    files("save", "one of them")
    (files.project / "src" / "more.py").unlink()
    with shown(files, "restore") as terminal:
        terminal.until("Tab: by file")
        terminal.type("\tsrc/")
        terminal.until("Restore only files with: src/")
        terminal.type(ENTER)
        terminal.until("Go ahead?")
        terminal.type("y\r")
        assert terminal.end() == 0
    assert (files.project / "src" / "more.py").read_text() == "2\n"


def test_a_dry_run_of_what_was_picked_says_what_does_just_that(files: Command) -> None:
    """T1: with the id of the plan, which is of that checkpoint."""
    with shown(files, "restore", "--dry-run") as terminal:
        terminal.until("Tab: by file")
        terminal.type("\tprices" + DOWN)
        terminal.until("Restore only files with: prices")
        terminal.type(ENTER)
        assert terminal.end() == 0
        said = " ".join(line.strip() for line in terminal.shown)
    words = said.partition("To do it: lastgood ")[2].split()
    files(*words[: words.index("--") + 2])
    assert (files.project / "src" / "prices.py").read_text() == "1\n"
    assert text_of(files) == "4\n"


@pytest.mark.parametrize(("columns", "told"), [(80, "typing filters (Tab: by file)"), (40, "Tab: by file")])
def test_what_tab_does_is_told(files: Command, columns: int, told: str) -> None:
    with shown(files, "restore", columns=columns) as terminal:
        terminal.until(told)
        terminal.type("\t")
        terminal.until("Tab: by words")
        terminal.type(ESCAPE)


def test_a_run_is_one_row_there_too(three: Command) -> None:
    """S21: what it saved besides is found by its name."""
    three("run", "--", "sh", "-c", "echo run > a.txt")
    (three.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    with shown(three, "restore") as terminal:
        terminal.until("1 of 5")
        (line,) = [line for line in terminal.shown if line.startswith(">")]
        assert "after: sh" in line
        terminal.type("session end")
        terminal.until("1 of 1")
        terminal.type(ENTER)
        terminal.until("Go ahead?")


HOSTILE = {
    "escapes": "\x1b[2J\x1b[31m\x9b1m red",
    "right to left": "\u202eexe.txt \u05e9\u05dc\u05d5\u05dd",
    "long": "x" * 200,
    "combining": "e\u0301" * 60 + "\u0e01\u0e49" * 20,
    "wide": "\u5bbd" * 120,
    "joined": "\U0001f468\u200d\U0001f469\ufe0f " * 20,
}


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_hostile_names_of_checkpoints_and_files_stay_in_their_row(three: Command, columns: int) -> None:
    for title, name in HOSTILE.items():
        os.makedirs(three.project / title, exist_ok=True)
        (three.project / title / name[:50].replace("/", "")).touch()
        three("save", f"{title}: {name}")
    with shown(three, "restore", columns=columns) as terminal:
        for keys in ("", "\t."):
            terminal.type(keys)
            terminal.until(f"of {len(HOSTILE) + 3}" if not keys else "1 of 5")
        terminal.type("\x15escapes/")
        terminal.until("1 of 1")
        assert not any(sign in terminal.written for sign in (b"\x1b[31m", b"\xc2\x9b", "\u202e".encode()))
        terminal.type("\x15")
        terminal.until(f"of {len(HOSTILE) + 3}")
        rows = terminal.shown[1:-2]
        assert len(rows) == len(HOSTILE) + 3, "a row was broken, or wiped out"
        terminal.type(ESCAPE)
        assert terminal.end() == 130


def test_what_agents_changed_since_what_is_picked_is_taken_back(lastgood: Command) -> None:
    """T17: in the turns or runs that began since, whatever is picked."""
    (lastgood.project / "a").write_text("0\n", encoding="utf-8")
    lastgood("save", "start")
    lastgood("run", "--", "sh", "-c", "echo agent > a")
    (lastgood.project / "notes").write_text("mine\n", encoding="utf-8")
    lastgood("save", "my notes")
    lastgood("run", "--", "sh", "-c", "echo agent > b")
    with shown(lastgood, "rewind", "--only-agent") as terminal:
        terminal.until("Go back to (this row stays, later ones go):")
        terminal.type("my notes")
        terminal.until("my notes")
        terminal.type(ENTER)
        terminal.until("Go ahead?")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert {path.name for path in lastgood.project.iterdir()} == {"a", "notes"}
    assert (lastgood.project / "a").read_text(encoding="utf-8") == "agent\n"


def test_all_that_agents_changed_since_is_taken_back_however_long_ago(lastgood: Command) -> None:
    """T17: not what the first few steps of a rewind lead to."""
    (lastgood.project / "a").write_text("0\n", encoding="utf-8")
    lastgood("save", "the beginning")
    with package.open(lastgood.project, store=lastgood.store, maintenance="off") as workspace:
        session = workspace.session_start(exclusive=False).session.id
        for number in range(22):
            (lastgood.project / f"new-{number}").touch()
            workspace.within(session).save(f"turn {number}", kind="turn", actor=Actor(type="agent"))
        workspace.session_end(session)
    with shown(lastgood, "rewind", "--only-agent") as terminal:
        terminal.until("Go back to (this row stays, later ones go):")
        terminal.type("the beginning")
        terminal.until("1 of 1")
        terminal.type(ENTER)
        terminal.until("Go ahead?")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert [path.name for path in lastgood.project.iterdir()] == ["a"]


def test_the_row_of_a_rewind_says_what_it_goes_back_to_before(workspace: Workspace, project: Path) -> None:
    """S20: whether its own turn goes, too, is no question then; and it is found by these words."""
    (project / "a").write_text("1")
    made = workspace.save("write the plan", kind="turn").checkpoint
    back = {made.id: Rewind(takes="1 turn goes", past="tidy up")}
    picking = Picking(lambda _: [made], lambda _: {}, holds=lambda *_: True, at=None, rewinds=back)
    picking.begin("tidy")
    shown = picking.lines("Go back to:", columns=80, rows=4, colour=False)[1]
    assert re.fullmatch(rf">  [\d:]+  before: tidy up +1 turn goes  {made.short_id}", shown)
