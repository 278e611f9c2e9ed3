"""What a person sees on a terminal of 80 columns: lists, colours, the pager, and `lastgood` alone."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

import pytest

import lastgood as package
from lastgood.cli.wording import ago, brief_moment, table, width, wrapped
from lastgood.testing.clock import FakeClock
from lastgood.view import timestamp
from tools.command import COMMAND, Command
from tools.harm import lose
from tools.terminal import Terminal
from tools.values import not_none

DAY = 86_400 * 1_000_000_000


@contextmanager
def shown(command: Command, *words: str, rows: int = 24, **environment: str) -> Iterator[Terminal]:
    with Terminal(
        [sys.executable, COMMAND, *words],
        cwd=command.project,
        environment=command.environment | {"TERM": "xterm-256color", "PAGER": "cat"} | environment,
        columns=80,
        rows=rows,
    ) as terminal:
        yield terminal


def seen(command: Command, *words: str, rows: int = 24, **environment: str) -> list[str]:
    with shown(command, *words, rows=rows, **environment) as terminal:
        assert terminal.end() == 0
        return terminal.everything


def test_lastgood_alone_says_where_one_stands_and_what_to_type_next(kept: Command) -> None:
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    lines = seen(kept)
    assert any(line.startswith("you are at") and "(two)" in line for line in lines)
    typed = [line.split("  ")[1] for line in lines if line.startswith("  lastgood ")]
    assert typed == [
        "lastgood diff",
        "lastgood save MESSAGE",
        "lastgood restore",
        "lastgood restore PATH",
        "lastgood restore PATH 1h",
        "lastgood list",
        "lastgood help",
    ]
    assert not any(line.startswith("   ") for line in lines[-len(typed) :])  # none of them is wrapped


def test_lastgood_alone_proposes_only_what_can_be_done(kept: Command) -> None:
    lines = seen(kept)
    assert not any(" diff " in line or " save " in line or " undo " in line for line in lines)
    kept("restore", "one", "--yes")
    assert any(line.startswith("  lastgood undo ") for line in seen(kept))


def test_a_status_fits_into_the_window(kept: Command) -> None:
    for number in range(12):
        (kept.project / f"added{number:02}").touch()
    for words in ((), ("status",)):
        lines = seen(kept, *words)
        assert len(lines) <= 23
        assert any("more: lastgood diff --stat" in line for line in lines)
    assert "added09" in kept("status").out
    (kept.project / "a.txt").unlink()
    kept("save", "without a.txt")
    for number in range(12):
        (kept.project / f"added{number:02}").unlink()
    (kept.project / "zzz").touch()
    assert any(line.endswith("zzz") for line in seen(kept, "status"))


@pytest.mark.damages
def test_a_sound_checkpoint_is_restored_where_the_one_that_one_stands_at_is_damaged(kept: Command) -> None:
    """K4, T1: what a person changed since cannot be told, and a guard keeps it."""
    lose(kept.store, f"{kept('show', 'two', '--json').json['checkpoint']['commit']}:workspace")
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    with shown(kept, "restore", "one") as terminal:
        terminal.until("Go ahead?")
        assert "What changed since the last checkpoint cannot be told" in " ".join(terminal.everything)
        terminal.type("y\n")
        assert terminal.end() == 0
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "first\n"


def test_lastgood_alone_and_quiet_says_where_one_stands_only(kept: Command) -> None:
    assert not any("lastgood diff" in line for line in seen(kept, "-q"))


def test_lastgood_alone_in_a_new_folder_proposes_the_first_checkpoint(lastgood: Command) -> None:
    lines = seen(lastgood)
    assert any('lastgood save "before the agent"' in line for line in lines)
    assert not any("restore" in line for line in lines)


def test_lastgood_alone_after_a_death_proposes_to_recover_first(kept: Command) -> None:
    kept("session", "start", "--goal", "migrate")
    kept("task", "start", "T01")
    kept("session", "end")
    first = next(line for line in seen(kept) if line.startswith("  lastgood "))
    assert first.split("  ")[1] == "lastgood recover"


def test_lastgood_alone_names_the_way_back_from_a_restore_and_from_its_undo(kept: Command) -> None:
    for done, way in ((("restore", "one", "--yes"), "undo"), (("undo",), "redo")):
        kept(*done)
        typed = {line.split("  ")[1] for line in seen(kept) if line.startswith("  lastgood ")}
        assert typed & {"lastgood undo", "lastgood redo"} == {f"lastgood {way}"}


def test_lastgood_alone_keeps_the_folder_that_was_given(kept: Command) -> None:
    assert any(line.startswith("  lastgood -C . list ") for line in seen(kept, "-C", "."))


def test_a_list_with_positions_fits_into_80_columns(kept: Command) -> None:
    kept("progress", "set", "--phase", "a phase with a long name", "--iteration", "12", "--step", "3/9")
    kept("save", "a message that is much too long for any list on a terminal of this width")
    lines = seen(kept, "list")
    assert lines.pop() == "to go back to one: lastgood restore ID"
    assert lines.pop() == "@ is where you are, @~1 the one before"
    assert len(lines) == len(kept("list").out.splitlines())
    assert lines[0].split() == ["ID", "Name", "Date", "Phase", "/", "Step"]
    assert "a message that is much too" in lines[1]
    assert max(map(len, lines)) <= 80


def test_the_figures_of_a_save_stand_whole_on_one_line(kept: Command) -> None:
    (kept.project / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (kept.project / "a.log").write_text("left out\n", encoding="utf-8")
    first, second, *_ = seen(kept, "save", "--name", "before-the-migration", "well")
    assert first.endswith(" (before-the-migration):")
    assert second.startswith("  4 files, 1 added, ")
    assert second.endswith(" ms")
    assert " (short): 4 files, " in seen(kept, "save", "--name", "short", "well")[0]


def test_a_list_in_colour_says_the_same(kept: Command) -> None:
    plain = seen(kept, "list", NO_COLOR="1")
    with shown(kept, "list") as terminal:
        assert terminal.end() == 0
        assert b"\x1b[33m" in terminal.written
        assert terminal.everything == plain


def test_dates_are_the_more_exact_the_nearer() -> None:
    now = int(time.mktime((2026, 11, 23, 12, 0, 0, 0, 0, -1))) * 1_000_000_000
    assert brief_moment(now - 1_000_000_000, now=now) == "11:59:59"
    assert brief_moment(now - DAY, now=now) == "Nov 22 12:00"
    assert brief_moment(now - 400 * DAY, now=now) == "2025-10-19 12:00"


def test_the_dates_of_one_list_have_one_form(kept: Command) -> None:
    """That of the oldest row."""
    now = int(time.mktime((2026, 11, 23, 12, 0, 0, 0, 0, -1))) * 1_000_000_000
    assert brief_moment(now, now=now, oldest=now - DAY) == "Nov 23 12:00"
    assert brief_moment(now, now=now, oldest=now - 400 * DAY) == "2026-11-23 12:00"
    clock = FakeClock(start=time.time_ns() - 2 * DAY)
    with package.open(kept.project, store=kept.store, maintenance="off", clock=clock) as workspace:
        workspace.save("two days before", allow_empty=True)
    rows = [re.split(r" {2,}", line) for line in seen(kept, "list")[1:-2]]
    assert len(rows) == 3
    assert len({re.sub(r"[A-Z][a-z]{2}", "Mon", re.sub(r"\d", "0", row[2])) for row in rows}) == 1, rows


def test_an_age_is_told_in_the_smaller_unit_up_to_two_of_the_larger() -> None:
    minute = 60 * 1_000_000_000
    told = [ago(0, now=number * minute) for number in (0, 1, 75, 119, 120, 47 * 60, 48 * 60)]
    assert told == [
        "just now",
        "60 seconds ago",
        "75 minutes ago",
        "119 minutes ago",
        "2 hours ago",
        "47 hours ago",
        "2 days ago",
    ]


def test_a_table_shortens_what_gives_way_in_order() -> None:
    rows = [("a" * 30, "b" * 30, "c" * 10)]
    assert [len(cell) for cell in table(rows, flexible=(1, 0), limit=60)[0].split()] == [30, 16, 10]
    assert [len(cell) for cell in table(rows, flexible=(1, 0), limit=40)[0].split()] == [14, 12, 10]
    assert len(table(rows, flexible=(1, 0), limit=None)[0]) == 74
    for narrow in range(16, 36):  # below what a column should have, no row is wrapped all the same
        assert width(table(rows, flexible=(1, 0), limit=narrow)[0]) <= narrow


def test_no_line_ends_between_before_and_the_prompt() -> None:
    said = "Restoring ckpt_3e5014c0 (before: tidy up the shop): 2 files to write, 1 file to delete"
    for limit in range(20, 86):
        assert not any(line.endswith("before:") for line in wrapped(said, limit, marks=",:;")), limit


def test_styles_take_no_columns() -> None:
    assert width("\x1b[1;31mred\x1b[0m") == 3


def test_what_can_be_undone_is_told_by_what_it_was_about(kept: Command) -> None:
    kept("restore", "one", "--yes")
    kept("restore", "two", "--yes")
    lines = seen(kept, "undo", "--list")
    assert "restore of 'two'" in lines[1]
    assert "2 written" in lines[1]
    assert "restore of 'one'" in lines[2]
    assert max(map(len, lines)) <= 80


def test_tables_keep_within_a_narrow_terminal(kept: Command) -> None:
    (kept.project / "a.txt").write_text("line\n" * 3000, encoding="utf-8")
    kept("save", "a message of quite some words and more", "--kind", "feature")
    kept("restore", "one", "--yes")
    for words in (("list",), ("log", "a.txt"), ("undo", "--list")):
        with Terminal(
            [sys.executable, COMMAND, *words],
            cwd=kept.project,
            environment=kept.environment | {"TERM": "xterm-256color", "PAGER": "cat"},
            columns=40,
            rows=24,
        ) as terminal:
            assert terminal.end() == 0
            lines = [line for line in terminal.everything if line]
        assert max(map(len, lines)) <= 40, words
        assert any("one" in line for line in lines), words
        rows = list(takewhile(lambda line: not line.startswith(("to ", "@ ")), lines))
        assert len(rows) <= 4, words  # none of them is wrapped


@pytest.mark.parametrize("words", ["workspace list", "list --all-workspaces", "session list"])
@pytest.mark.parametrize("columns", [40, 80])
def test_rows_of_several_workspaces_and_sessions_are_not_wrapped_and_are_told_apart(
    kept: Command, words: str, columns: int
) -> None:
    kept("session", "start", "--goal", "prices with taxes and discounts of each country")
    with Terminal(
        [sys.executable, COMMAND, *words.split()],
        cwd=kept.project,
        environment=kept.environment | {"TERM": "xterm-256color", "PAGER": "cat"},
        columns=columns,
        rows=24,
    ) as terminal:
        assert terminal.end() == 0
        header, row, *_ = (line for line in terminal.everything if line)
    columns_told = header.split()
    cells = dict(zip(columns_told, re.split(r"\s{2,}", row.strip()), strict=False))
    assert len(row) <= columns
    if "Workspace" in cells:
        assert cells["Workspace"].endswith(f"/{kept.project.name}")
    else:
        assert cells["Goal"].startswith("pric")


def a_long_diff(command: Command) -> None:
    text = "".join(f"line {number}\n" for number in range(100))
    (command.project / "a.txt").write_text(text, encoding="utf-8")


def test_a_long_diff_goes_through_the_pager(kept: Command) -> None:
    a_long_diff(kept)
    lines = seen(kept, "diff", PAGER="sed 's/^/paged: /'", NO_COLOR="1")
    assert "paged: +line 99" in lines
    assert all(line.startswith("paged: ") for line in lines)


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
def test_the_pager_says_how_to_go_on_and_what_to_type_is_seen_before_it_is_left(kept: Command) -> None:
    kept.environment.pop("LESS", None)
    for number in range(21):
        (kept.project / "a.txt").write_text(f"{number}\n", encoding="utf-8")
        kept("save", f"change {number}")
    with shown(kept, "log", "a.txt", PAGER="less", NO_COLOR="1") as terminal:
        terminal.until("space: more, q: leave")
        assert terminal.shown[:2] == [
            "to bring one back: lastgood restore ID a.txt",
            "when a text came into it, or went: lastgood log -S TEXT a.txt",
        ]
        terminal.type(" ")
        terminal.until("(END) q: leave")
        terminal.type("q")
        assert terminal.end() == 0
        assert sum("when a text came" in line for line in terminal.everything) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("log",),
            [
                "@ is where you are",
                "to go back to one: ",
                "when a file changed: ",
                "when a text came or went: ",
            ],
        ),
        (("log", "-S", "new", "--limit", "9"), ["the last with it is ", "  lastgood restore "]),
    ],
)
def test_what_to_type_next_is_seen_in_the_pager_too(
    kept: Command, words: tuple[str, ...], told: list[str]
) -> None:
    (kept.project / "new.txt").unlink()
    kept("save", "the third")
    lines = seen(kept, *words, rows=3, PAGER="sed 's/^/paged: /'", NO_COLOR="1")
    assert [line[: len(f"paged: {said}")] for said, line in zip(told, lines, strict=False)] == [
        f"paged: {said}" for said in told
    ]
    assert all(line.startswith("paged:") for line in lines)


def test_what_fits_on_the_screen_is_not_paged(kept: Command) -> None:
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    assert "+third" in seen(kept, "diff", PAGER="sed 's/^/paged: /'", NO_COLOR="1")


@pytest.mark.parametrize("pager", ["", "cat", "/nowhere/to/be/found"])
def test_without_a_pager_all_is_printed(kept: Command, pager: str) -> None:
    a_long_diff(kept)
    assert "+line 99" in seen(kept, "diff", PAGER=pager, NO_COLOR="1")


def test_who_typed_the_next_line_already_is_shown_all_without_a_pager(kept: Command) -> None:
    """It would be taken for the pager's keys."""
    (kept.project / "a.txt").write_text("line\n" * 100, encoding="utf-8")
    command = f"read line; {shlex.join([sys.executable, COMMAND])} diff; read next; echo next: $next"
    with Terminal(
        ["/bin/sh", "-c", command],
        cwd=kept.project,
        environment=kept.environment | {"TERM": "xterm", "PAGER": "sed 's/^/paged: /'", "NO_COLOR": "1"},
        columns=80,
        rows=24,
    ) as terminal:
        terminal.type("one\ntwo\n")
        assert terminal.end() == 0
        assert "+line" in terminal.everything
        assert terminal.everything[-1] == "next: two"


def test_a_pager_that_is_left_early_is_no_fault(kept: Command) -> None:
    a_long_diff(kept)
    assert "diff --git a/a.txt b/a.txt" in seen(kept, "diff", PAGER="head -n 1", NO_COLOR="1")


def test_ctrl_c_belongs_to_the_pager(kept: Command) -> None:
    a_long_diff(kept)
    pager = "trap 'echo the pager heard it; exit 0' INT; echo paging; while :; do sleep 0.1; done"
    with shown(kept, "diff", PAGER=pager, NO_COLOR="1") as terminal:
        terminal.until("paging")
        terminal.type("\x03")
        assert terminal.end() == 0
        assert any("the pager heard it" in line for line in terminal.everything)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_ends_lastgood_ends_its_pager_and_has_the_terminal_as_it_was(kept: Command, number: int) -> None:
    a_long_diff(kept)
    pager = "stty raw -echo < /dev/tty; echo paging; exec sleep 600"
    with shown(kept, "diff", PAGER=pager, NO_COLOR="1") as terminal:
        terminal.until("paging")
        assert not terminal.edits_lines
        os.kill(terminal.pid, number)
        assert terminal.end() == -number
        assert terminal.edits_lines


def test_nothing_is_paged_off_a_terminal(kept: Command) -> None:
    a_long_diff(kept)
    kept.environment["PAGER"] = "false"
    assert "+line 99" in kept("diff").out


def asked(command: Command, *words: str) -> list[str]:
    """Return what is seen before a restore is done, which is then agreed to."""
    with shown(command, *words) as terminal:
        terminal.until("Go ahead?")
        before = terminal.everything
        terminal.type("y\n")
        assert terminal.end() == 0
    return before


def test_a_path_alone_is_meant_as_of_where_one_stands(kept: Command) -> None:
    """K2: and only what changed of it is named."""
    (kept.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    (kept.project / "src" / "b.py").unlink()
    before = asked(kept, "restore", "src")
    assert any("(two)" in line and line.startswith("Restoring ") for line in before)
    assert not any("a.txt" in line for line in before)
    assert (kept.project / "src" / "b.py").is_file()
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "wrecked\n"


def test_a_path_alone_that_the_latest_has_lost_is_meant_as_of_the_newest_with_it(kept: Command) -> None:
    """K2."""
    (kept.project / "src" / "b.py").unlink()
    (kept.project / "src").rmdir()
    kept("save", "without src")
    assert any("(two)" in line for line in asked(kept, "restore", "src/b.py"))
    assert (kept.project / "src" / "b.py").is_file()


def test_a_bare_time_is_meant_as_a_time(kept: Command) -> None:
    """K2."""
    (kept.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    time.sleep(1.1)
    assert any("(two)" in line for line in asked(kept, "restore", "1s"))
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "second\n"


def test_a_path_alone_is_meant_as_of_where_one_stands_whatever_came_later(kept: Command) -> None:
    """K2, T15: later checkpoints have another version of it, or have lost it."""
    (kept.project / "src" / "b.py").unlink()
    kept("save", "without b.py")
    kept("restore", "two", "--yes")
    (kept.project / "src" / "b.py").write_text("by hand\n", encoding="utf-8")
    assert any("(two)" in line for line in asked(kept, "restore", "src/b.py"))
    assert (kept.project / "src" / "b.py").read_text(encoding="utf-8") != "by hand\n"


def test_a_path_that_only_a_later_checkpoint_holds_comes_from_that(kept: Command) -> None:
    """K2, T15: it is never deleted."""
    (kept.project / "later.txt").write_text("later\n", encoding="utf-8")
    kept("save", "with later.txt")
    kept("restore", "two", "--yes")
    (kept.project / "later.txt").write_text("by hand\n", encoding="utf-8")
    assert any("(with later.txt)" in line for line in asked(kept, "restore", "later.txt"))
    assert (kept.project / "later.txt").read_text(encoding="utf-8") == "later\n"


def test_a_path_that_nothing_holds_is_refused(kept: Command) -> None:
    """K2: and what git ignores is said."""
    (kept.project / "unsaved.txt").write_text("new\n", encoding="utf-8")
    (kept.project / ".gitignore").write_text("build/\n", encoding="utf-8")
    (kept.project / "build").mkdir()
    (kept.project / "build" / "out").write_text("out\n", encoding="utf-8")
    with shown(kept, "restore", "unsaved.txt") as terminal:
        assert terminal.end() == 10
        assert any("no checkpoint holds the path 'unsaved.txt'" in line for line in terminal.shown)
    (kept.project / "unsaved.txt").unlink()
    kept("save", "with a rule")
    with shown(kept, "restore", "build/out") as terminal:
        assert terminal.end() == 10
        assert any(
            "no checkpoint holds the path 'build/out': git ignores it" in line for line in terminal.shown
        )


def test_what_a_shell_makes_of_an_asterisk_is_taken_as_paths_although_one_is_held_nowhere(
    kept: Command,
) -> None:
    """K2: its first name is the one that git ignores, and what was deleted is not among them."""
    (kept.project / ".gitignore").write_text("Build/\n", encoding="utf-8")
    (kept.project / "Build").mkdir()
    (kept.project / "a.txt").write_text("by hand\n", encoding="utf-8")
    names = sorted(one.name for one in kept.project.iterdir() if one.name[0] != ".")
    lines = asked(kept, "restore", *names)
    assert any("what is not here any more" in line for line in lines)
    assert (kept.project / "a.txt").read_text(encoding="utf-8") != "by hand\n"


@pytest.mark.parametrize(
    "said",
    [("a.txt", "from", "agent"), ("before the ag…", "a.txt"), ("before", "the", "ag"), ("a.txt", "before")],
)
def test_a_part_of_one_message_is_taken_also_after_a_path_and_as_a_table_cuts_it(
    lastgood: Command, said: tuple[str, ...]
) -> None:
    """K2: it is said before what would happen is shown."""
    file = lastgood.project / "a.txt"
    for text in ("wanted\n", "other\n"):
        file.write_text(text, encoding="utf-8")
        lastgood("save", "before the agent" if text == "wanted\n" else "later")
    lines = asked(lastgood, "restore", *said)
    assert any("taken as ckpt_" in line or "taken as: lastgood restore " in line for line in lines)
    assert file.read_text(encoding="utf-8") == "wanted\n"


def test_a_path_that_is_a_checkpoint_too_is_named(kept: Command) -> None:
    """K2."""
    (kept.project / "two").write_text("a file\n", encoding="utf-8")
    kept("save", "with a file")
    before = asked(kept, "restore", "two")
    assert "for the path:\n  lastgood restore @ -- two\n" in "".join(f"{line.rstrip()}\n" for line in before)


def test_who_picks_is_shown_what_would_happen_although_they_agreed_before(kept: Command) -> None:
    """T1."""
    (kept.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    with shown(kept, "restore", "--yes") as terminal:
        terminal.until("arrows move")
        terminal.type("\r")
        terminal.until("Go ahead?")
        terminal.type("n\n")
        assert terminal.end() == 130
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "wrecked\n"


def test_a_bare_time_of_day_is_meant_as_a_time(kept: Command) -> None:
    """As a list on a terminal shows it."""
    made = not_none(timestamp(kept("show", "two", "--json").json["checkpoint"]["created_at"]))
    listed = time.strftime("%H:%M:%S", time.localtime(made // 10**9))
    (kept.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    assert any("(two)" in line for line in asked(kept, "restore", listed))
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "second\n"


@pytest.mark.parametrize("words", [("src",), ("1s",)])
def test_who_agreed_beforehand_has_to_say_which_checkpoint(kept: Command, words: tuple[str]) -> None:
    """K2, T1: nothing is guessed where nobody is shown it."""
    (kept.project / "src" / "b.py").unlink()
    with shown(kept, "restore", *words, "--yes") as terminal:
        assert terminal.end() in {2, 10}
    assert not (kept.project / "src" / "b.py").exists()


def test_status_counts_checkpoints_as_list_shows_them(kept: Command) -> None:
    (kept.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    kept("restore", "@", "--yes")
    (line,) = [line for line in kept("status").out.splitlines() if line.startswith("checkpoints")]
    assert line.split(maxsplit=1)[1] == "2, and 1 made before restores (lastgood list --all)"
    assert len(kept("list", "--json").json["checkpoints"]) == 2
    assert len(kept("list", "--all", "--json").json["checkpoints"]) == 3
    assert kept("status", "--json").json["guards"] == 1


def test_what_a_session_says_is_broken_between_words_and_its_commands_not_at_all(kept: Command) -> None:
    (kept.project / "in progress").mkdir()
    draft = kept.project / "in progress" / "draft of the plan.md"
    draft.write_text("draft\n", encoding="utf-8")
    lines = seen(
        kept, "session", "start", "--goal", "a goal of some length that fills a line", "--owner-pid", "1"
    )
    assert any(line.startswith("  export LASTGOOD_SESSION=sess_") for line in lines)
    words = ["--phase", "Construction", "--iteration", "3", "--step", "12/15"]
    artifact = "in progress/draft of the plan.md"
    lines = seen(kept, "progress", "set", *words, "--artifact", artifact)
    assert " ".join(lines).startswith(
        f"Recorded position: Construction phase, iteration 3, step 12/15. In-progress artifacts: {artifact}."
    )
    kept("session", "end", "--incomplete")
    draft.unlink()
    (kept.project / "below").mkdir()
    assert (
        "-- '../in progress/draft of the plan.md'"
        in kept("recover", "--review", cwd=kept.project / "below").out
    )
    lines = seen(kept, "recover", "--review")
    (command,) = (line.strip() for line in lines if line.startswith("  lastgood restore"))
    _, *words = shlex.split(command)
    kept(words[0], "--yes", *words[1:])
    assert draft.read_text(encoding="utf-8") == "draft\n"


def test_what_is_left_of_a_sentence_after_a_pause_is_broken_again() -> None:
    """No line is wider than the terminal."""
    text = "aaaa bbbb cc, dddddd eeeeeeeeeeeeeee"
    assert wrapped(text, 20, marks=",") == ["aaaa bbbb cc,", "dddddd", "eeeeeeeeeeeeeee"]


def test_a_goal_given_as_an_argument_is_shown_as_the_option_that_it_is(kept: Command) -> None:
    said = kept("session", "start", "Sprint S01", expect=2).err
    assert "write: lastgood session start --goal 'Sprint S01'" in said
    kept("session", "start", "--goal", "Sprint S01")


def test_the_commit_of_a_checkpoint_is_told_from_one_of_the_project(kept: Command) -> None:
    """`git reset --hard` with it would find nothing."""
    row = next(line for line in kept("show", "@").out.splitlines() if line.startswith("commit "))
    assert row.endswith(", in the store")


def test_git_can_be_put_back_after_the_files_were(kept: Command, git: Callable[..., str]) -> None:
    """T9: who said at first that files are enough is asked again, and told off a terminal."""
    git(kept.project, "init", "-q", "-b", "main")
    git(kept.project, "commit", "-q", "--allow-empty", "-m", "first")
    kept("save", "on main")
    git(kept.project, "checkout", "-q", "-b", "other")
    assert "git is elsewhere; to put it back: lastgood restore @ --git" in kept("restore", "@", "--yes").err
    assert "nothing to restore" in kept.terminal("restore", "@", answers="n\n").out
    assert git(kept.project, "branch", "--show-current").strip() == "other"
    asked = kept.terminal("restore", "@", answers="y\n").out
    assert "Put git back too (back to branch main)? [y/N]" in asked
    assert git(kept.project, "branch", "--show-current").strip() == "main"


def test_a_yes_to_git_too_takes_no_file_that_was_not_shown(
    lastgood: Command, git: Callable[..., str]
) -> None:
    """T1: another terminal writes while somebody thinks; where no file was to change, too."""
    git(lastgood.project, "init", "-q", "-b", "main")
    git(lastgood.project, "commit", "-q", "--allow-empty", "-m", "first")
    (lastgood.project / "a").write_text("one\n")
    lastgood("save", "on main")
    git(lastgood.project, "checkout", "-q", "-b", "other")
    for more, question in (("b", "Put git back too (back to branch main)?"), ("c", "Go ahead? [y/g/N]")):
        with shown(lastgood, "restore", "@") as terminal:
            terminal.until(question)
            (lastgood.project / "a").write_text(f"{more}\n")
            terminal.type("g\n")
            assert terminal.end() == 13
    assert (lastgood.project / "a").read_text() == "c\n"
    assert git(lastgood.project, "branch", "--show-current").strip() == "other"


def test_who_is_asked_about_an_undo_is_told_that_git_goes_too(
    lastgood: Command, git: Callable[..., str]
) -> None:
    """T8, T9."""
    git(lastgood.project, "init", "-q", "-b", "main")
    git(lastgood.project, "commit", "-q", "--allow-empty", "-m", "first")
    (lastgood.project / "a").write_text("one\n")
    lastgood("save", "on main")
    git(lastgood.project, "checkout", "-q", "-b", "other")
    (lastgood.project / "a").write_text("two\n")
    lastgood("restore", "@", "--git", "--yes")
    (lastgood.project / "a").write_text("three\n")
    asked = lastgood.terminal("undo", answers="n\n", expect=130).out
    assert re.search(r"HEAD and index: will be put back .*on other\)\n(.*\n)+Go ahead", asked)


def test_a_word_that_several_checkpoints_say_opens_their_list(kept: Command) -> None:
    for number in range(5):
        kept("save", f"invoice {number}")
    told = kept("restore", "invoice", "--yes", expect=10).err
    assert told.index("(invoice 4)") < told.index("(invoice 3)")
    assert "5 in all: lastgood list invoice" in told
    with shown(kept, "restore", "invoice") as terminal:
        terminal.until("1 of 5")
        assert not any("two" in line for line in terminal.everything)
        terminal.type("\x1b")
        assert terminal.end() == 130


def test_lastgood_alone_proposes_a_rewind_where_an_agent_was_at_work(kept: Command) -> None:
    kept("run", "--", "sh", "-c", "echo agent > a.txt")
    assert any(line.startswith("  lastgood rewind N ") and "last N runs" in line for line in seen(kept))
    kept("save", "a turn", "--kind", "turn")
    assert any(line.startswith("  lastgood rewind N ") and "last N turns" in line for line in seen(kept))


def test_a_list_on_80_columns_tells_iteration_and_step_of_a_position(kept: Command) -> None:
    """Of a long phase less is shown, rather than where in it the work stood."""
    kept("progress", "set", "--phase", "Construction", "--iteration", "3", "--step", "12/15")
    kept("save", "--name", "iteration-3-complete")
    lines = seen(kept, "list")
    assert max(map(width, lines)) <= 80
    row = next(line for line in lines if "iteration-3-complete" in line)
    assert re.search(r" Constr\w*…? / iter 3, step 12", row)


def test_a_time_of_several_words_needs_no_quotes_on_a_terminal(lastgood: Command) -> None:
    """And elsewhere the right form is told."""
    lastgood("save", "step 10 of it")
    (lastgood.project / "a").write_text("one\n")
    lastgood("save", "second")
    for words in (("10", "minutes", "ago"), ("an", "hour", "ago")):
        shown = lastgood.terminal("restore", *words, expect=10).out
        assert "is old; the oldest is" not in shown
        assert "as in the oldest (step 10 of it): lastgood restore ckpt_" in shown
    (lastgood.project / "a.txt").touch()
    lastgood("save")
    for typed in ("10 minutes ago a.txt", "a.txt 10 minutes ago", "a.txt 10m"):
        assert "10 min old" in lastgood.terminal("restore", *typed.split(), expect=10).out
    assert "1 h old" in lastgood.terminal("restore", "last", "hour", "a.txt", expect=10).out
    said = lastgood("restore", "a.txt~1", "--yes", expect=10).err
    assert "write: lastgood restore @~1 -- a.txt" in said
    for rest in ((), ("a.txt",)):
        said = lastgood("restore", *rest, "10", "minutes", "ago", "--yes", expect=10).err
        told = " ".join(("", "--", *rest)) if rest else ""
        assert re.search(rf"as in the oldest \(step 10 of it\): lastgood restore ckpt_\w{{8}}{told}\n", said)
    said = lastgood("restore", "a.txt", "0", "minutes", "ago", "--yes", expect=2).err
    assert "write: lastgood restore @{0m} -- a.txt\n" in said


def test_a_path_that_is_called_like_a_time_is_a_path(lastgood: Command) -> None:
    """Also where it is gone by now, which is why it is named."""
    for name in ("2m", "a.txt", "last", "hour"):
        (lastgood.project / name).write_text("then\n")
    lastgood("save")
    for name in ("2m", "a.txt", "last", "hour"):
        (lastgood.project / name).unlink()
    for typed in (("2m",), ("a.txt", "2m"), ("@", "--", "last", "hour")):
        shown = lastgood.terminal("restore", *typed, answers="n\n", expect=130).out
        assert set(re.findall(r"create  ([\w.]+)", shown)) == set(typed) - {"@", "--"}
    assert lastgood("restore", "@", "--yes", "--", "last", "hour").code == 0


def test_a_checkpoint_and_a_path_that_together_could_be_a_time_are_taken_as_they_are(
    lastgood: Command,
) -> None:
    (lastgood.project / "d").mkdir()
    (lastgood.project / "d" / "a").write_text("one\n")
    lastgood("save", "first", "--name", "5")
    shutil.rmtree(lastgood.project / "d")
    lastgood("restore", "5", "d", "--dry-run")
    lastgood("restore", "--yes", "5", "--", "d")
    assert (lastgood.project / "d" / "a").read_text() == "one\n"


def test_a_part_of_a_message_is_said_to_be_none(lastgood: Command) -> None:
    """It is taken where it is shown and asked about."""
    (lastgood.project / "a").write_text("one\n")
    lastgood("save", "step 10 of it")
    (lastgood.project / "a").write_text("two\n")
    lastgood("save", "second")
    shown = lastgood.terminal("restore", "10", answers="n", expect=130).out
    assert re.search(r"'10' is taken as ckpt_\w{8}, whose name or message has it", shown)


def test_show_takes_a_bare_time_on_a_terminal(lastgood: Command) -> None:
    """As restore and diff do."""
    (lastgood.project / "a").write_text("one\n")
    lastgood("save", "first")
    assert "is taken as @{0s}" in lastgood.terminal("show", "0s").out
    said = lastgood("show", "18:25", expect=10).err
    assert "@{18:25}: the newest of then, or before" in said


def test_an_undo_that_deletes_much_asks_on_a_terminal(lastgood: Command) -> None:
    """A restore asks about a single file."""
    for number in range(4):
        (lastgood.project / f"{number}").write_text("one\n")
    lastgood("save", "first")
    for number in range(3):
        (lastgood.project / f"{number}").unlink()
    lastgood("restore", "@", "--yes")
    shown = lastgood.terminal("undo", answers="n", expect=130).out
    assert "It deletes 3 files." in shown
    assert "What is there now is saved first: `lastgood redo` brings it back." in shown
    assert "delete  0" in shown
    assert (lastgood.project / "0").exists()
    lastgood.terminal("undo", "--yes")
    assert not (lastgood.project / "0").exists()


def test_an_undo_of_what_changed_since_asks_whether_to_keep_that(lastgood: Command) -> None:
    """T8: nobody has to know of --merge, and what is not in the way comes back."""
    for name in ("a", "b"):
        (lastgood.project / name).write_text("one\n")
    lastgood("save", "first")
    for name in ("a", "b"):
        (lastgood.project / name).write_text("two\n")
    lastgood("restore", "@", "--yes")
    (lastgood.project / "a").write_text("three\n")
    shown = lastgood.terminal("undo", answers="n", expect=130).out
    assert "This takes back the restore of" in shown
    assert "Files that it did not touch stay as they are, edited since or not." in shown
    assert "a has changed since. What can be done without losing that:" in shown
    stays = "  skip    a  (conflict: it changed since, and stays as it is)\n  create  a.lastgood-ckpt_"
    assert (
        shown.index("change  b") < shown.index(stays) < shown.index("which one stays, you choose afterwards.")
    )
    assert "(a as it was before the restore)" in " ".join(shown.split())
    assert "change  b" in shown
    assert (lastgood.project / "b").read_text() == "one\n"
    done = lastgood.terminal("undo", answers="y", expect=3).out
    assert "All else is done. Left to you is which version of a stays:\none of the commands above." in done
    assert (lastgood.project / "a").read_text() == "three\n"
    assert (lastgood.project / "b").read_text() == "two\n"


def test_an_undo_does_nothing_else_than_it_asked_about(lastgood: Command) -> None:
    """T1, T8: somebody edits, and another terminal restores, while a person thinks."""
    (lastgood.project / "a").write_text("one\n")
    lastgood("save", "first")
    (lastgood.project / "a").write_text("two\n")
    lastgood("restore", "@", "--yes")
    for does, left in ((("list",), "three\n"), (("restore", "@", "--yes"), "one\n")):
        with shown(lastgood, "undo", "--force") as terminal:
            terminal.until("Go ahead?")
            (lastgood.project / "a").write_text("three\n")
            lastgood(*does)
            terminal.type("y\n")
            assert terminal.end() == 13
        assert (lastgood.project / "a").read_text() == left


def test_a_dry_run_says_how_old_the_checkpoint_is(lastgood: Command) -> None:
    """The question says so too."""
    (lastgood.project / "a").write_text("one\n")
    lastgood("save", "first")
    (lastgood.project / "a").write_text("two\n")
    assert re.match(
        r"would restore ckpt_\w{8}, made .+ \(first\): ", lastgood("restore", "@", "--dry-run").out
    )
