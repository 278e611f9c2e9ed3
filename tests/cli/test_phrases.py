"""What people type around a REF and its paths, in words: done where it is shown first, answered elsewhere."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

import pytest

from lastgood.view import time_meant
from tools.command import Command, told


def without_age(out: str) -> str:
    """Return what was said without how old a checkpoint is, which one call later may be another age."""
    return re.sub(r"(made|,) (just now|\d+ seconds? ago|an? minute ago)", r"\1", out)


def wreck(command: Command) -> None:
    (command.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    shutil.rmtree(command.project / "src")


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("all", "@"),
        ("Everything", "@"),
        ("all one", "one"),
        ("the whole project", "@"),
        ("a.txt the version before", "@~1 a.txt"),
        ("a.txt as it was from one", "one a.txt"),
        ("file a.txt", "@ a.txt"),
        ("the folder src/", "@ src/"),
        ("a.txt from one", "one a.txt"),
        ("src a.txt of one", "one src a.txt"),
        ("a.txt src one", "one a.txt src"),
        ("the first", "'the first'"),
        ("src a.txt the first", "'the first' src a.txt"),
        ("the first src", "'the first' src"),
        ("to one", "one"),
        ("to the first", "'the first'"),
        ("a.txt from the first", "'the first' a.txt"),
        ("a.txt previous", "@~1 a.txt"),
        ("the last checkpoint", "latest"),
    ],
)
def test_a_restore_in_words_is_the_restore_that_they_mean(kept: Command, typed: str, ours: str) -> None:
    """K2: where it is shown; elsewhere its whole command is told."""
    wreck(kept)
    wanted = re.findall(r"'[^']*'|\S+", ours)
    words = [one.strip("'") for one in wanted]
    said, wanted_out = (kept("restore", *one, "--dry-run").out for one in (typed.split(), words))
    assert without_age(said) == without_age(wanted_out)
    refused = kept("restore", *typed.split(), "--yes", expect=2)
    told(refused, 2)
    assert (
        f"lastgood restore {' '.join(wanted[:1] + ['--'] * (len(wanted) > 1) + wanted[1:])}\n" in refused.err
    )


def test_a_word_that_is_a_path_or_a_checkpoint_stands_for_itself(kept: Command) -> None:
    """K2: nothing but what was named is restored."""
    (kept.project / "all").write_text("1\n", encoding="utf-8")
    kept("save", "from", "--name", "file")
    wreck(kept)
    (kept.project / "all").unlink()
    assert "  create  all\n" in kept("restore", "all", "--dry-run").out
    assert "src" not in kept("restore", "all", "--dry-run").out
    assert "(file)" in kept("restore", "file", "a.txt", "--dry-run").out
    refused = kept("restore", "@", "--dry-run", "--", "everything", expect=10).err
    assert "everything" in refused


@pytest.fixture
def turns(lastgood: Command) -> Command:
    """Return the command in a project after three turns of an agent."""
    for number in range(4):
        (lastgood.project / "a").write_text(f"{number}\n", encoding="utf-8")
        (lastgood.project / "b").write_text(f"{number}\n", encoding="utf-8")
        lastgood("save", f"turn {number}", "--kind", "turn")
    return lastgood


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("2 turns", "2"),
        ("the last two turns", "2"),
        ("last turn", "1"),
        ("3 prompts a", "3 -- a"),
        ("2 prompts back", "2"),
        ("turns 2", "2"),
        ("2 a", "2 -- a"),
        ("a 2", "2 -- a"),
        ("a", "1 -- a"),
    ],
)
def test_a_rewind_in_words_is_the_rewind_that_they_mean(turns: Command, typed: str, ours: str) -> None:
    """K2."""
    said, wanted = (turns("rewind", "--dry-run", *one.split()).out for one in (typed, ours))
    assert without_age(said) == without_age(wanted)


def test_a_rewind_to_a_checkpoint_or_a_time_is_a_restore(turns: Command) -> None:
    """K2."""
    for typed, ours in (("@~2", ("@~2",)), ("0s a", ("@{0s}", "--", "a")), ("0 minutes ago", ("@{0m}",))):
        shown = turns("rewind", *typed.split(), "--dry-run").out
        assert shown == turns("restore", "--dry-run", *ours).out, typed


def test_a_rewind_in_words_is_answered_where_nobody_is_shown_it(turns: Command) -> None:
    for typed, ours in (
        ("two turns", "rewind 2"),
        ("a", "rewind 1 -- a"),
        ("@~2 a", "restore @~2 -- a"),
    ):
        refused = turns("rewind", *typed.split(), "--yes", expect=2)
        told(refused, 2)
        assert f"write: lastgood {ours}\n" in refused.err


def test_a_rewind_counts_what_it_counts_whatever_it_is_called(turns: Command) -> None:
    """T15."""
    said = turns("rewind", "2", "runs", "--dry-run", expect=2).err
    assert "a rewind counts an agent's turns here, no runs\n" in said
    assert "not '\u00b2'" in turns("rewind", "\u00b2", "turns", "--dry-run", expect=2).err
    said = turns("rewind", "2", "checkpoints", "--dry-run", expect=2).err
    assert "lastgood restore @~2\n" in said


def test_a_file_that_is_recovered_is_restored(kept: Command) -> None:
    """K2: shown and asked; a program is told."""
    wreck(kept)
    assert "to bring it back: lastgood restore a.txt\n" in kept("recover", "a.txt", expect=10).err
    assert "Go ahead?" in kept.terminal("recover", "a.txt", answers="y\n").out
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "second\n"
    assert not (kept.project / "src").exists()


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("show a.txt", "lastgood cat a.txt"),
        ("show one a.txt", "lastgood cat one a.txt"),
        ("undo a.txt", "lastgood restore a.txt"),
        ("undo 2", "lastgood rewind 2"),
        ("undo all", "one at a time"),
        ("recover a.txt new.txt", "lastgood restore a.txt new.txt"),
        ("restore a.txt --at yesterday", "lastgood restore @{1d} a.txt"),
        ("restore --from one a.txt", "lastgood restore one a.txt"),
        ("rewind --turns 2", "lastgood rewind 2"),
        ("rewind -2", "lastgood rewind 2"),
        ("status a.txt", "lastgood diff --stat a.txt"),
        ("restore a.txt 90d", "lastgood restore ckpt_"),
        ("restore a.txt --to 1h", "lastgood restore @{1h} a.txt"),
    ],
)
def test_what_is_typed_by_guess_is_answered_with_the_command_that_does_it(
    kept: Command, typed: str, ours: str
) -> None:
    assert ours in kept(*typed.split(), "--dry-run" if "90d" in typed else "--quiet", expect=None).err


def test_a_path_that_the_named_checkpoint_lacks_is_told_where_it_is(kept: Command) -> None:
    """K2: what the agent deleted, and a save has no more."""
    shutil.rmtree(kept.project / "src")
    kept("save", "without src")
    holder = kept("show", "two", "--json").json["checkpoint"]["short_id"]
    refused = kept("restore", "@", "src", "--yes", expect=10).err
    assert f"{holder} is the newest with it: lastgood restore {holder} -- src\n" in refused


def test_a_short_name_is_found_by_a_word_of_it(kept: Command) -> None:
    """K2: but not by any letter of it."""
    refused = kept("restore", "b", "--dry-run", expect=10).err
    assert "there is src/b.py: lastgood restore src/b.py\n" in refused
    assert "new.txt" not in refused


def test_a_commit_of_git_is_answered_with_the_checkpoint_nearest_to_it(
    kept: Command, git: Callable[..., str]
) -> None:
    """K2: the first that was made at it, else the last before it."""
    git(kept.project, "init", "-q", "-b", "main")
    for name in ("first", "second"):
        git(kept.project, "add", ".")
        git(kept.project, "commit", "-qm", name, "--allow-empty")
        kept("save", f"at the {name}")
    git(kept.project, "commit", "-qm", "third", "--allow-empty")
    for ref, words in (
        ("HEAD~1", "the first checkpoint at that commit (at the second)"),
        ("main~2", "the first checkpoint at that commit (at the first)"),
        ("HEAD", "the last checkpoint before that commit (at the second)"),
    ):
        refused = kept("restore", ref, "a.txt", "--yes", expect=10).err
        assert re.search(rf"{re.escape(words)}: lastgood restore ckpt_\w{{8}} -- a\.txt\n", refused), refused
    assert (
        "1 checkpoint before where you are: lastgood restore @~1 -- a.txt\n"
        in kept("restore", "HEAD~1", "a.txt", "--yes", expect=10).err
    )
    assert "that commit" not in kept("restore", "nobranch", "a.txt", "--yes", expect=10).err


def test_a_list_since_a_time_that_is_said_in_words(kept: Command) -> None:
    for said in ("yesterday", "2 hours ago"):
        assert kept("list", "--since", said, "--json").json == kept("list", "--json").json


def test_a_list_names_the_way_back_from_a_restore_until_something_is_saved(kept: Command) -> None:
    """A restore has no row of its own there."""
    (kept.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    kept("restore", "one", "--yes")
    assert "to take the last restore back: lastgood undo" in kept.terminal("list").out
    (kept.project / "a.txt").write_text("went on\n", encoding="utf-8")
    kept("save", "more")
    assert "undo" not in kept.terminal("list").out


def test_a_list_of_a_path_says_how_to_bring_it_back(kept: Command) -> None:
    assert "to go back to one: lastgood restore ID a.txt" in kept.terminal("list", "a.txt").out


def test_a_guess_is_asked_about_where_no_file_differs(kept: Command) -> None:
    """T1, T15: where one stands changes, too."""
    kept("save", "before the docs", "--allow-empty")
    kept("save", "later", "--allow-empty")
    stands = kept("status", "--json").json["at"]
    for words in (("restore", "docs"), ("restore", "previous"), ("rewind", "0s", "ago")):
        shown = kept.terminal(*words, answers="n\n", expect=130 if words[0] == "restore" else None).out
        assert ("Stand there from now on (@)? [y/N]" in shown) is (words[0] == "restore")
        assert kept("status", "--json").json["at"] == stands
    kept.terminal("restore", "docs", answers="y\n")
    assert kept("status", "--json").json["at"]["message"] == "before the docs"


def test_a_part_of_a_title_and_a_place_in_the_history_lead_to_a_checkpoint(kept: Command) -> None:
    """K2: the whole command is told where nobody is shown it."""
    wreck(kept)
    first = kept("show", "one", "--json").json["checkpoint"]["short_id"]
    for typed in (
        "a.txt e first",
        "first a.txt",
        "a.txt before two",
        "a.txt to before two",
        "before: the second a.txt",
    ):
        shown = kept("restore", *typed.split(), "--dry-run").out
        wanted = kept("restore", first, "a.txt", "--dry-run").out
        assert without_age(shown) == without_age(wanted), typed
        refused = kept("restore", *typed.split(), "--yes", expect=2).err
        assert f"write: lastgood restore {first} -- a.txt\n" in refused


def test_a_path_after_dashes_is_a_path_whatever_it_says(turns: Command) -> None:
    """K2."""
    for words in (
        ("rewind", "2", "--", "turn"),
        ("restore", "@", "--", "latest"),
        ("restore", "a", "--", "@"),
    ):
        assert turns(*words, "--dry-run", expect=None).code in {2, 10}, words
    turns("delete", "@")
    (turns.project / "turn").write_text("1\n", encoding="utf-8")
    assert turns("restore", "2", "turn", "--dry-run", expect=None).code in {2, 10}
    turns("save", "turn 4", "--kind", "turn")
    shown = turns("rewind", "1", "--dry-run", "--", "turn").out
    assert "  delete  turn\n" in shown
    assert "  a\n" not in shown


def test_a_restore_by_so_many_turns_is_the_rewind_that_it_means(turns: Command) -> None:
    """K2."""
    for typed, ours in (("2 turns ago", "2"), ("two prompts ago", "2"), ("a 2 turns ago", "2 -- a")):
        shown = turns("restore", *typed.split(), "--dry-run").out
        assert without_age(shown) == without_age(turns("rewind", "--dry-run", *ours.split()).out)
    assert "write: lastgood rewind 2\n" in turns("restore", "2", "turns", "--yes", expect=2).err


def test_a_name_without_its_quotes_is_answered_where_checkpoints_are_deleted(kept: Command) -> None:
    """K2."""
    refused = kept("delete", "the", "first", expect=2)
    told(refused, 2)
    assert "write: lastgood delete 'the first'\n" in refused.err
    assert kept("list", "--json").json["checkpoints"][1]["name"] == "one"


def test_a_path_as_the_message_of_a_save_is_told(kept: Command) -> None:
    wreck(kept)
    assert "'a.txt' is the message; everything was saved, as ever\n" in kept("save", "a.txt").err
    assert "as ever" not in kept("save", "new words", "--allow-empty").err


def test_a_restore_by_a_time_says_what_is_next_to_it(kept: Command) -> None:
    wreck(kept)
    shown = kept.terminal("restore", "a.txt", "0s", answers="n\n", expect=130).out
    assert "It is the newest that there is." in shown


def test_a_restore_to_a_turn_says_how_its_work_goes_too(turns: Command) -> None:
    """T15: it is called as its prompt, and holds what came of it."""
    before = turns("show", "turn 1", "--json").json["checkpoint"]["short_id"]
    shown = turns.terminal("restore", "turn 2", answers="n\n", expect=130).out
    assert f"It is as that turn left it; as it was before: lastgood restore {before}\n" in shown


def test_a_restore_of_a_path_says_where_one_stands_still(kept: Command) -> None:
    """T15."""
    assert "you are still at ckpt_" in kept("restore", "one", "a.txt", "--yes").err
    assert "you are still" not in kept("restore", "one", "--yes").err


def test_what_the_last_restore_took_is_told_where_its_path_is_asked_for(kept: Command) -> None:
    (kept.project / "a.txt").write_text("mine\n", encoding="utf-8")
    kept("restore", "@", "--yes")
    assert "to take that back: lastgood undo\n" in kept("restore", "@", "a.txt", "--dry-run").err
    assert "undo" not in kept("restore", "@", "src", "--dry-run").err


def test_what_cannot_be_restored_beside_a_path_is_told_with_the_command_for_the_rest(kept: Command) -> None:
    wreck(kept)
    for typed, ours in (
        ("@ a.txt now", "without it: lastgood restore @ -- a.txt"),
        ("@ a.txt 1", "lastgood restore @~1 -- a.txt"),
        ("1 a.txt", "lastgood rewind 1 -- a.txt"),
        ("9 a.txt", "its versions: lastgood log a.txt"),
        ("def total a.txt", "lastgood log -S 'def total' a.txt"),
        ("@ a.txt def total", "lastgood log -S 'def total' a.txt"),
        ("@ a.txt monday", "a time is said as 1h"),
    ):
        assert ours in kept("restore", *typed.split(), "--yes", expect=10).err


def test_what_git_ignores_is_told_so_whatever_looks_for_it(kept: Command) -> None:
    """S5."""
    (kept.project / ".gitignore").write_text("build/\n", encoding="utf-8")
    (kept.project / "build").mkdir()
    (kept.project / "build" / "out").touch()
    kept("save")
    for words in (
        ("show", "build"),
        ("cat", "build/out"),
        ("list", "build"),
        ("restore", "@", "a.txt", "build", "--dry-run"),
    ):
        shutil.rmtree(kept.project / "build", ignore_errors=True)
        assert "git ignores it" in kept(*words, expect=None).err, words


def test_times_are_understood_as_people_say_them() -> None:
    said = {
        "two hours ago": "2h",
        "an hour earlier": "1h",
        "hour ago": "1h",
        "half an hour ago": "30m",
        "1h old": "1h",
        "1.5h": "90m",
        "1h30m": "90m",
        "2pm": "14:00",
        "9:41 pm": "21:41",
        "12am": "0:00",
        "before 1h": "1h",
        "14:05": "14:05",
        "13pm": None,
        "1": None,
        "hour": None,
        "2 a": None,
        "ago": None,
        "before": None,
        "12:99pm": None,
        "1.5 days": "2160m",
        "1.5 months": None,
        "2.5mo": None,
        "half past the hour": None,
        "half": None,
    }
    assert {one: time_meant(one) for one in said} == said


def test_git_and_several_paths_may_be_said_in_words(kept: Command) -> None:
    """K2."""
    wreck(kept)
    assert "lastgood restore --git @" in kept("restore", "all", "with", "git", "--dry-run", expect=15).err
    said, wanted = (kept("restore", *one, "--dry-run").out for one in (("a.txt,src",), ("a.txt", "src")))
    assert without_age(said) == without_age(wanted)
