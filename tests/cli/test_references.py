"""REF as a person types it: messages, what is near, and paths beside it."""

from __future__ import annotations

import re
import time

import pytest

from lastgood.view import timestamp
from tools.command import Command, told
from tools.values import not_none


def text_of(lastgood: Command) -> str:
    return (lastgood.project / "a.txt").read_text(encoding="utf-8")


def write(lastgood: Command, text: str) -> None:
    (lastgood.project / "a.txt").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "message", ["before-agent", "before the refactor", 'fix a/b: it\'s "done" … ü', "v1..v2"]
)
def test_what_was_typed_at_save_works_at_restore(lastgood: Command, message: str) -> None:
    """S20 and REF: a message, whole, names its checkpoint."""
    write(lastgood, "good\n")
    lastgood("save", message)
    write(lastgood, "wrecked\n")
    lastgood("save", "later")
    lastgood("restore", message, "--yes")
    assert text_of(lastgood) == "good\n"


def test_a_message_of_two_lines_is_found_whole(lastgood: Command) -> None:
    write(lastgood, "good\n")
    saved = lastgood.save("first line\n\nthe rest")
    assert lastgood("show", "first line\n\nthe rest", "--json").json["checkpoint"]["id"] == saved
    assert lastgood("show", "first line", expect=10).code == 10


def test_of_several_with_one_message_the_newest_counts_and_the_others_are_named(lastgood: Command) -> None:
    write(lastgood, "1\n")
    first = lastgood.save("again")
    write(lastgood, "2\n")
    second = lastgood.save("again")
    shown = lastgood("show", "again", "--json")
    assert shown.json["checkpoint"]["id"] == second
    assert f"the newest of that message is {second[:13]}; others: {first[:13]}\n" in shown.err


def test_a_name_comes_before_a_message(lastgood: Command) -> None:
    write(lastgood, "1\n")
    named = lastgood.save("--name", "spot")
    write(lastgood, "2\n")
    lastgood.save("spot")
    shown = lastgood("show", "spot", "--json")
    assert shown.json["checkpoint"]["id"] == named
    assert shown.err == ""


def test_a_message_that_may_begin_another_checkpoints_id_is_ambiguous(lastgood: Command) -> None:
    """Both are listed, and the digits of an id settle it."""
    write(lastgood, "1\n")
    first = lastgood.save("--allow-empty")
    digits = first.removeprefix("ckpt_")[:6]
    write(lastgood, "2\n")
    second = lastgood.save(digits)
    refused = lastgood("show", digits, "--json", expect=11).json["error"]
    assert refused["details"]["candidates"] == [first, second]
    assert lastgood("show", first[:13], "--json").json["checkpoint"]["id"] == first


@pytest.mark.parametrize("ref", ["@home now", "task:", "before:task:"])
def test_what_no_message_can_be_reached_by_says_how_to_reach_it(kept: Command, ref: str) -> None:
    refused = kept("restore", ref, "--yes", expect=12)
    told(refused, 12)
    assert "is named by its id" in refused.err


def test_a_message_among_thousands_is_found(lastgood: Command) -> None:
    """A message in metadata, or a longer one, is none."""
    write(lastgood, "1\n")
    wanted = lastgood.save("needle")
    for number in range(3):
        lastgood("save", f"needle {number}", "--meta", "message=needle", "--allow-empty")
    assert lastgood("show", "needle", "--json").json["checkpoint"]["id"] == wanted


@pytest.mark.parametrize(
    ("typed", "meant"), [("before-agnet", "before-agent"), ("before the", "before the refactor")]
)
def test_a_ref_that_fits_nothing_is_answered_with_what_is_near(
    lastgood: Command, typed: str, meant: str
) -> None:
    write(lastgood, "1\n")
    lastgood.save(meant)
    refused = lastgood("restore", typed, "--yes", expect=10)
    told(refused, 10)
    assert f"did you mean '{meant}' (ckpt_" in refused.err


def test_a_time_as_a_list_shows_it_finds_that_checkpoint(kept: Command) -> None:
    made = kept("show", "two", "--json").json["checkpoint"]
    shown = time.strftime("%H:%M:%S", time.localtime(not_none(timestamp(made["created_at"])) // 10**9))
    assert kept("show", f"@{{{shown}}}", "--json").json["checkpoint"]["id"] == made["id"]


def test_a_message_that_reads_like_a_time_is_found_as_a_message(lastgood: Command) -> None:
    """What fits exactly wins."""
    write(lastgood, "1\n")
    said = lastgood.save("14:20")
    assert lastgood("show", "14:20", "--json").json["checkpoint"]["id"] == said


def test_an_age_that_none_has_is_answered_with_the_oldest(kept: Command) -> None:
    refused = kept("restore", "@{90d}", "--yes", expect=10)
    oldest = kept("show", "one", "--json").json["checkpoint"]["short_id"]
    assert re.match(r"lastgood: no checkpoint is 12 weeks old; the oldest is \d+ (s|min)\n", refused.err)
    assert f"\n  as in the oldest (one): lastgood restore {oldest}\n" in refused.err
    assert "the oldest is of 20" in kept("restore", "@{2020-01-01}", "--yes", expect=10).err


def test_without_any_checkpoint_every_ref_says_how_to_make_one(lastgood: Command) -> None:
    refused = lastgood("restore", "@", "--yes", expect=10)
    told(refused, 10)
    assert "no checkpoint of this workspace yet" in refused.err
    assert "lastgood save" in refused.err


def test_good_without_a_verdict_says_how_to_get_one(kept: Command) -> None:
    assert "lastgood check @ -- COMMAND" in kept("restore", "@good", "--yes", expect=10).err


# --- Paths beside a REF ---


def test_paths_follow_a_ref_without_dashes(kept: Command) -> None:
    """What is not named stays."""
    write(kept, "wrecked\n")
    (kept.project / "new.txt").write_text("wrecked\n", encoding="utf-8")
    kept("restore", "@", "a.txt", "--yes")
    assert text_of(kept) == "second\n"
    assert (kept.project / "new.txt").read_text(encoding="utf-8") == "wrecked\n"


def test_paths_come_before_and_after_dashes(kept: Command) -> None:
    write(kept, "wrecked\n")
    (kept.project / "-x").write_text("1\n", encoding="utf-8")
    kept("save")
    (kept.project / "-x").unlink()
    report = kept("restore", "two", "a.txt", "--yes", "--json", "--", "new.txt").json
    assert [one["path"] for one in report["files"]] == ["a.txt"]
    kept("restore", "@", "--yes", "--", "-x")
    assert (kept.project / "-x").exists()


def test_a_path_where_a_ref_belongs_is_answered_with_the_right_form(kept: Command) -> None:
    refused = kept("restore", "a.txt", "src/b.py", "--yes", expect=2)
    told(refused, 2)
    assert "lastgood restore @ -- a.txt src/b.py" in refused.err


def test_a_deleted_private_file_where_a_ref_belongs_is_known_as_a_path(lastgood: Command) -> None:
    """S5: its name is no secret, and it is what one most wants back."""
    (lastgood.project / ".gitignore").write_text(".env\n")
    (lastgood.project / ".env").write_text("KEY=1\n")
    lastgood("save")
    (lastgood.project / ".env").unlink()
    assert "lastgood restore @ -- .env" in lastgood("restore", ".env", expect=2).err


def test_an_empty_path_is_refused(kept: Command) -> None:
    """It would mean everything."""
    told(kept("restore", "@", "", "--yes", expect=2), 2)


def test_the_plan_of_some_paths_is_offered_with_them(kept: Command) -> None:
    write(kept, "wrecked\n")
    planned = kept("restore", "@", "a.txt", "--dry-run", "--json").json
    kept("restore", "@", "a.txt", "--plan", planned["plan"])
    assert text_of(kept) == "second\n"


@pytest.mark.parametrize("path", ["src/b.py", "src"])
def test_a_path_that_the_latest_has_lost_is_offered_from_the_newest_that_holds_it(
    kept: Command, path: str
) -> None:
    """K2: what is deleted is what one most wants back."""
    (kept.project / "src" / "b.py").unlink()
    (kept.project / "src").rmdir()
    kept("save", "without src")
    refused = kept("restore", path, "--yes", expect=2)
    holder = next(line.split()[0] for line in kept("list").out.splitlines() if " two " in line)
    hint = f"for this path from {holder}, the newest with it: lastgood restore {holder} -- {path}"
    assert hint in refused.err
    kept("restore", holder, "--yes", "--", path)
    assert (kept.project / "src" / "b.py").is_file()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("1h", "@{1h}"),
        ("1hour", "@{1h}"),
        ("14:20", "@{14:20}"),
        ("14:16:32", "@{14:16:32}"),
        ("2 hours ago", "@{2h}"),
        ("1 day ago", "@{1d}"),
        ("an hour ago", "@{1h}"),
        ("last week", "@{1w}"),
        ("yesterday", "@{1d}"),
        ("2020-11-21T10:00", "@{2020-11-21T10:00}"),
        ("2020-11-21 10:00", "@{2020-11-21 10:00}"),
    ],
)
def test_a_time_that_is_typed_as_people_say_it_is_answered_with_the_form_of_a_time(
    kept: Command, typed: str, meant: str
) -> None:
    """K2."""
    which = "the newest of then, or before" if ":" in meant else "the newest that is at least so old"
    assert f"a time is written {meant}: {which}" in kept("show", typed, expect=10).err


@pytest.mark.parametrize("typed", ["2 bananas", "2 months ago", "1", "later", "2026", "h"])
def test_what_is_no_time_is_not_taken_for_one(kept: Command, typed: str) -> None:
    assert "a time is written" not in kept("show", typed, expect=10).err


def test_a_rewind_says_what_it_counts_where_there_are_no_turns(kept: Command) -> None:
    """T15."""
    said = kept("rewind", "1", "--dry-run")
    assert "Back by 1 saved state:" in said.err
    assert "(two), " in said.err
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    kept("save", "--kind", "turn")
    said = kept("rewind", "1", "--dry-run")
    assert "saved state" not in said.err


def test_a_word_of_messages_is_answered_with_who_bears_it(kept: Command) -> None:
    """K2: newest first, and at most three of them."""
    for number in range(4):
        kept("save", f"login with OAuth, step {number}")
    said = kept("restore", "oauth", "--yes", expect=10).err
    assert [f"step {number}" in said for number in range(4)] == [False, True, True, True]
    assert said.index("step 3") < said.index("step 2") < said.index("step 1")


def test_so_many_before_any_reference_is_one_too(kept: Command) -> None:
    """T15: along its own history, whatever came since; names and messages that end so come first."""
    kept("save", "the third", "--allow-empty")
    first, second = (kept("show", name, "--json").json["checkpoint"]["id"] for name in ("one", "two"))
    for ref in ("two~1", "two^", "the third~2", "the third^^", f"{second}~1", f"{second[:12]}^", "latest~2"):
        assert kept("show", ref, "--json").json["checkpoint"]["id"] == first, ref
    assert kept("show", "@{0s}~1", "--json").json["checkpoint"]["id"] == second
    kept("save", "two~1")
    assert kept("show", "two~1", "--json").json["checkpoint"]["message"] == "two~1"


def test_nothing_is_before_the_first_of_a_history(kept: Command) -> None:
    refused = kept("show", "two~7", expect=10)
    assert "there is no 'two~7': before `two` there is 1 checkpoint" in refused.err
    assert "no checkpoint 'nosuch~1'" in kept("show", "nosuch~1", expect=10).err


def test_on_a_terminal_the_only_one_that_may_be_meant_is_shown(kept: Command) -> None:
    """K2: and asked about; a program is told."""
    write(kept, "third\n")
    assert "(one)" in kept.terminal("restore", "the frst", answers="n\n", expect=130).out
    assert "(two)" in kept.terminal("restore", "SECOND", answers="n\n", expect=130).out
    refused = kept("restore", "the frst", "--yes", expect=10).err
    assert re.search(r"did you mean 'the first' \(ckpt_\w{8}\)\?", refused)
