"""What a person reads in lists: on a terminal, in a pipe, of runs, of guards, of words."""

from __future__ import annotations

import fcntl
import re
import sys

import pytest

from lastgood.cli.wording import path_within, shortened, table, width
from tools.command import COMMAND, Command
from tools.terminal import Terminal

LONG = "a message that goes on and on " * 12 + "to its end"


def seen(command: Command, *words: str, columns: int = 80, **environment: str) -> list[str]:
    """Return what a person sees on a terminal without colour."""
    with Terminal(
        [sys.executable, COMMAND, *words],
        cwd=command.project,
        environment=command.environment | {"NO_COLOR": "1", "PAGER": "cat"} | environment,
        columns=columns,
    ) as terminal:
        terminal.end()
        return terminal.everything


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


# --- In a pipe ---


@pytest.mark.parametrize(
    "words", [("list",), ("list", "--all"), ("log", "a.txt"), ("undo", "--list"), ("session", "list")]
)
def test_a_table_in_a_pipe_has_the_columns_of_a_wide_terminal(kept: Command, words: tuple[str, ...]) -> None:
    kept("session", "start", "--goal", "migrate")
    kept("restore", "one", "--yes")
    piped = kept(*words).out.splitlines()
    shown = [line for line in seen(kept, *words, columns=200) if line]
    assert cells(piped[0]) == cells(shown[0])
    assert len(piped) > 1
    for line, on_terminal in zip(piped[1:], shown[1:], strict=False):
        times = r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d"
        assert cells(re.sub(times, "", line)) == cells(re.sub(times, "", on_terminal))


def test_a_table_in_a_pipe_is_not_cut_and_has_a_line_a_row(kept: Command) -> None:
    kept("save", f"{LONG}\nsecond line", "--allow-empty")
    header, *rows = kept("list", env={"COLUMNS": "40"}).out.splitlines()
    assert len(rows) == 3
    assert LONG in rows[0]
    assert "\x1b" not in "".join([header, *rows])
    for words in (("log", "a.txt"), ("list", "--all-workspaces")):
        assert all("ckpt_" in row for row in kept(*words).out.splitlines()[1:])


def test_one_long_name_makes_no_other_row_long() -> None:
    rows = [("ID", "Name", "Kind"), ("1", "x" * 500, "manual"), ("2", "short", "manual")]
    header, long, short = table(rows, flexible=(1,), limit=None)
    assert "x" * 500 + "  manual" in long
    assert len(short) < 100
    assert header.index("Kind") == short.index("manual")


# --- In colour ---


PAINTED = {
    ("list",): "\x1b[1mID",
    ("log", "a.txt"): "\x1b[32madded",
    ("blame", "a.txt"): "\x1b[33m(not saved)",
    ("undo", "--list"): "\x1b[1mWhen",
    ("diff", "--stat", "one"): "\x1b[32m+",
    ("diff", "--name-status", "one"): "\x1b[33mM",
    ("session", "list"): "\x1b[36mactive",
    ("status",): "\x1b[1mckpt_",
}


def test_lists_are_painted_on_a_terminal_alone_and_where_colour_is_wanted(kept: Command) -> None:
    kept("session", "start")
    kept("restore", "one", "a.txt", "--yes")
    (kept.project / "a.txt").write_text("more\nthan that\n", encoding="utf-8")
    for words, painted in PAINTED.items():
        assert painted in kept.terminal(*words).out, words
        assert "\x1b" not in kept(*words).out
    kept.environment["NO_COLOR"] = "1"
    for words in (("list",), ("diff", "--stat", "one")):
        assert "\x1b[" not in kept.terminal(*words).out


# --- Of long paths ---


def test_a_long_path_keeps_its_end_and_its_beginning_within_the_terminal(kept: Command) -> None:
    folder = kept.project / "packages" / "a-workspace-of-many" / "source" / "components" / "navigation"
    folder.mkdir(parents=True)
    (folder / "navigation_item_with_a_long_name.py").write_text("x\n", encoding="utf-8")
    whole = "packages/a-workspace-of-many/source/components/navigation/navigation_item_with_a_long_name.py"
    (line,) = [line for line in seen(kept, "status") if "packages" in line]
    assert "packages/a" in line
    assert line.endswith("/navigation_item_with_a_long_name.py")
    assert "…" in line
    assert whole in kept("status").out
    shown = kept.terminal("restore", "@", answers="n\n", expect=130).out
    assert [one for one in shown.splitlines() if width(one) > 80] == []
    assert "  delete  packages/" in shown


def test_the_sum_of_a_comparison_keeps_within_the_terminal(kept: Command) -> None:
    folder = kept.project / "packages" / "a-workspace-of-many" / "source" / "components" / "navigation"
    folder.mkdir(parents=True)
    (folder / "navigation_item_with_a_long_name.py").write_text("x\n" * 200, encoding="utf-8")
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    first, second, third = seen(kept, "diff", "--stat")
    assert max(map(width, (first, second, third))) <= 80
    assert first.index("|") == second.index("|")
    assert "item_with_a_long_name.py | 200 +" in second
    whole = kept("diff", "--stat").out.splitlines()
    assert "packages/a-workspace-of-many/source/components/navigation/navigation_item" in whole[1]
    assert "\x1b" not in "".join(whole)


@pytest.mark.parametrize("room", [20, 21, 33, 60])
@pytest.mark.parametrize("path", ["a/" * 60 + "b", "x" * 200, "ü語/" * 40, "a/" + "語" * 90])
def test_a_path_is_cut_to_the_columns_that_there_are(path: str, room: int) -> None:
    cut = path_within(path.encode(), room)
    assert width(cut) <= room
    assert cut[0] == path[0]
    assert path.endswith(cut.rpartition("…")[2])


# --- Of runs ---


def change(command: Command, text: str) -> None:
    (command.project / "a.txt").write_text(text, encoding="utf-8")


def run(command: Command, text: str) -> None:
    command("run", "--", "sh", "-c", f"echo {text} > a.txt")


def names(command: Command, *words: str) -> list[str]:
    """Return what the rows of a list are called."""
    return [cells(row.replace(" @ ", "  "))[1] for row in command("list", *words).out.splitlines()[1:]]


def test_a_run_is_one_row(kept: Command) -> None:
    """S21: of what it saves before and after, that which nothing else in the list holds."""
    for number in range(10):
        run(kept, str(number))
    assert names(kept) == [*(f"after: sh -c echo {one} > a.txt" for one in range(9, -1, -1)), "two", "one"]
    assert len(kept("list", "--all").out.splitlines()) == 33
    assert len(kept("list", "--json").json["checkpoints"]) == 32
    assert "20 more" in "\n".join(seen(kept, "list", columns=200))
    assert "lastgood list --all" in "\n".join(seen(kept, "list", columns=200))


def test_what_was_edited_before_a_run_has_a_row(kept: Command) -> None:
    """S21: nothing else holds it."""
    run(kept, "1")
    change(kept, "by hand")
    run(kept, "2")
    first, second, third, *_ = names(kept)
    assert [one.partition(":")[0] for one in (first, second, third)] == ["after", "before", "after"]


def test_a_row_is_left_out_however_few_are_asked_for(kept: Command) -> None:
    """S21: its files are those of a checkpoint further back, to which a restore went."""
    kept("restore", "one", "--yes")
    kept("session", "start", "--goal", "migrate")
    change(kept, "3")
    kept("save", "three")
    everything = names(kept)
    assert everything == ["three", "two", "one"]
    for limit in (1, 2, 3):
        assert names(kept, "--limit", str(limit)) == everything[:limit]


def test_a_run_that_changed_nothing_is_a_row_too(kept: Command) -> None:
    kept("run", "--", "true")
    assert names(kept) == ["after: true", "two", "one"]


def test_a_session_of_which_nothing_was_saved_is_told_by_its_goal(kept: Command) -> None:
    kept("session", "start", "--goal", "migrate")
    kept("session", "end")
    assert names(kept) == ["migrate", "two", "one"]


def test_the_row_that_stands_for_where_one_is_bears_its_mark(kept: Command) -> None:
    """S21, T15: its files are the same."""
    run(kept, "1")
    rows = kept("list").out.splitlines()[1:]
    assert [" @ " in row for row in rows] == [True, False, False]
    assert kept("show", "@", "--json").json["checkpoint"]["kind"] == "session-end"


def marked(command: Command) -> str:
    """Return the id of the row that a list marks."""
    return next(row for row in command("list").out.splitlines() if " @ " in row).split()[0]


def test_status_names_the_row_that_the_list_marks(kept: Command) -> None:
    """T15: a run's last checkpoint has the files of the one after its task, which has the row."""
    run(kept, "1")
    assert f"you are at   {marked(kept)} (after: sh -c echo 1 > a.txt), task, " in kept("status").out
    kept("session", "start", "--goal", "more")
    kept("session", "end")
    shown = kept("status").out
    assert f"you are at   {marked(kept)} (more), session-start, " in shown
    assert "latest" not in shown
    assert kept("status", "--json").json["at"]["kind"] == "session-end"


def test_no_row_is_left_out_that_somebody_marked(kept: Command) -> None:
    run(kept, "1")
    kept("pin", "@")
    kept("name", "@~2", "start")
    assert len(names(kept)) == 5


def test_a_limit_counts_rows(kept: Command) -> None:
    for number in range(5):
        run(kept, str(number))
    assert names(kept, "--limit", "4") == [f"after: sh -c echo {one} > a.txt" for one in (4, 3, 2, 1)]
    assert names(kept, "--limit", "6")[-1] == "two"
    assert len(kept("list", "--limit", "4", "--json").json["checkpoints"]) == 4


def test_a_list_says_what_it_leaves_out_where_nobody_looks_at_a_terminal(kept: Command) -> None:
    """S21: `status` counts these too, and an agent reads both."""
    run(kept, "1")
    counted = kept("status", "--json").json["checkpoints"]
    listed = kept("list")

    rows, left_out = len(listed.out.splitlines()) - 1, counted - len(listed.out.splitlines()) + 1
    assert rows < counted
    assert listed.err == f"{left_out} more with the same files as another row: lastgood list --all\n"
    assert kept("list", "--quiet").err == ""
    assert len(kept("list", "--all").out.splitlines()) - 1 == counted


@pytest.mark.parametrize("words", [("--kind", "session-end"), ("session end",), ("--name", "session end*")])
def test_who_asks_for_what_a_run_saves_at_its_end_finds_it(kept: Command, words: tuple[str, ...]) -> None:
    run(kept, "1")
    assert names(kept, *words) == ["session end: sh -c echo 1 > a.txt"]


def test_a_restore_keeps_the_state_before_a_run_in_the_list(kept: Command) -> None:
    """S21, T15: what only a guard holds beside it."""
    change(kept, "unsaved")
    kept("restore", "one", "--yes")
    run(kept, "1")
    assert names(kept) == ["after: sh -c echo 1 > a.txt", "two", "one"]
    kept("undo", "--force", "--yes", expect=None)
    run(kept, "2")
    assert names(kept)[0] == "after: sh -c echo 2 > a.txt"
    everything = kept("list", "--json").json["checkpoints"]
    shown = kept("list").out
    trees = {one["tree"] for one in everything if one["short_id"] in shown}
    assert trees == {one["tree"] for one in everything}


@pytest.mark.parametrize("character", ["e\u0301", "\u0e01\u0e34", "\u5bbd", "x", "\u2764\ufe0f"])
def test_a_text_is_cut_to_the_columns_that_it_takes(character: str) -> None:
    for limit in range(1, 30):
        assert width(shortened(character * 20, limit)) <= limit
        assert width(shortened(character * 20, limit)) >= min(limit - 1, width(character * 20))
    assert width(character) in {1, 2}
    assert shortened(character, 2) == character


def test_a_text_of_a_million_characters_is_cut_at_once() -> None:
    """By what it looks at: as many as fit."""
    assert shortened("\u5bbd" * 1_000_000, 9) == "\u5bbd" * 4 + "…"


@pytest.mark.parametrize("words", [("list",), ("list", "--all"), ("log", "a.txt")])
def test_of_what_a_checkpoint_is_called_enough_is_to_be_read_at_80_columns(
    kept: Command, words: tuple[str, ...]
) -> None:
    """Rather than its kind and how many files it has."""
    kept("run", "--", "sh", "-c", "echo 1 > a.txt; : and more of the same command")
    kept("restore", "one", "--yes")
    shown = seen(kept, *words)
    (line,) = [line for line in shown if "after: " in line]
    assert "after: sh -c echo 1 > a.txt; : " in line
    assert max(map(len, shown)) <= 80


def test_a_state_before_a_prompt_has_no_row_of_its_own(kept: Command) -> None:
    """S21: its last words are those of the turn before; JSON and --all leave out nothing."""
    transcript = kept.project.parent / "transcript.jsonl"
    for number in range(3):
        (kept.project / "a.txt").write_text(f"{number}\n", encoding="utf-8")
        for kind, said in (("turn", f"turn {number}"), ("auto", f"before: turn {number + 1}")):
            with transcript.open("a", encoding="utf-8") as file:
                file.write(f'{{"role": "user", "content": "{said}"}}\n')
            kept("save", said, "--kind", kind, "--transcript", str(transcript), "--allow-empty")
    shown = seen(kept, "list")
    assert not any("before: " in line for line in shown)
    assert any(line.startswith("3 more with the same files as another row") for line in shown)
    assert sum("before: " in line for line in seen(kept, "list", "--all")) == 3
    assert len(kept("list", "--json").json["checkpoints"]) == 8


def test_a_turn_is_listed_as_the_state_before_or_after_its_prompt_and_how_to_go_back_by_turns(
    kept: Command,
) -> None:
    """S20, and the words as they are shown lead back to it."""
    for text, said in (("3", "after all, rename"), ("4", "after all, rename"), ("5", "interrupted: test it")):
        (kept.project / "a.txt").write_text(text, encoding="utf-8")
        kept("save", said, "--kind", "turn", *(("--meta", "moment=before") if text == "3" else ()))
    shown = seen(kept, "list")
    names = [line[17:].partition("  ")[0] for line in shown[1:4]]
    assert names == ["interrupted: test it", "after: after all, rename", "before: after all, rename"]
    assert shown[-1] == "to before an agent's last N turns: lastgood rewind N"
    assert "after: after all, rename" in kept("list", "after: after all").out
    listed = kept("list", "--json").json["checkpoints"][1:3]
    assert [one["message"] for one in listed] == ["after all, rename"] * 2
    near = kept("restore", names[1], "--dry-run", expect=10).err
    assert f"did you mean 'after all, rename' ({listed[0]['short_id']})?" in near


def test_a_list_on_a_terminal_says_what_changed_at_what_nobody_named(kept: Command) -> None:
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    kept("save")
    assert "changed: a.txt" in seen(kept, "list")[1]
    assert "(auto)  " in kept("list").out


def test_a_list_on_a_terminal_waits_for_nobody_who_frees_bytes(kept: Command) -> None:
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    kept("save")
    with open(kept.store / "locks" / "store.lock", "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shown = seen(kept, "list")[1]
    assert "1 file changed  " in shown
