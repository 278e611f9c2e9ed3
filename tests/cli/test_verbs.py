"""What a person at the keyboard sees."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lastgood.cli.table import all_verbs
from lastgood.cli.wording import width
from tools.command import COMMAND, ROOT, Command
from tools.harm import flip, lose, packs_of
from tools.terminal import Terminal
from tools.values import not_none


def test_the_first_save_tells_the_id_and_the_counts(lastgood: Command) -> None:
    (lastgood.project / "a.txt").write_text("a", encoding="utf-8")
    shown = lastgood("save", "words").out
    assert re.fullmatch(r"saved ckpt_[0-9a-f]{8}: 1 file, 1 added, 0 modified, 0 deleted, \d+ ms\n", shown)


def test_an_unchanged_save_names_what_it_equals(kept: Command) -> None:
    """Rule S10."""
    latest = kept("list", "--json").json["checkpoints"][0]["short_id"]
    assert kept("save").out == f"unchanged since {latest}: no checkpoint made\n"


def test_a_quiet_save_prints_the_id_alone(kept: Command) -> None:
    assert re.fullmatch(r"ckpt_[0-9a-f]{16}\n", kept("save", "-q", "--allow-empty").out)


def test_new_gaps_give_exit_code_3_once(lastgood: Command) -> None:
    """Rule S7."""
    os.mkfifo(lastgood.project / "pipe")
    first = lastgood("save", expect=3)
    assert first.err == "1 path not saved:\n  pipe (unsupported)\n"
    (lastgood.project / "a").touch()
    assert ", 1 not saved, " in lastgood("save").out


def test_a_list_shows_the_columns_and_who_has_no_name_its_message_or_auto(kept: Command) -> None:
    kept("progress", "set", "--phase", "Build")
    os.mkfifo(kept.project / "pipe")
    kept("save", "a message\nof two lines", "--check", "true", expect=3)
    kept("save", "--allow-empty")
    header, *rows = kept("list").out.splitlines()
    columns = ["ID", "Name", "Date", "Kind", "Phase / Step", "Files", "Gaps", "Good"]
    assert re.split(r"\s{2,}", header) == columns
    assert [re.split(r"\s{2,}", row)[1] for row in rows] == ["(auto)", "a message", "two", "one"]


def test_show_tells_everything_that_a_checkpoint_holds(lastgood: Command) -> None:
    """P2, P4: the work it belongs to, how far that had come, and the verdict, as the document has them."""
    (lastgood.project / "a.txt").write_text("a", encoding="utf-8")
    session = lastgood("session", "start", "--goal", "migrate", "-q").out.strip()
    lastgood("task", "start", "T01")
    lastgood("feature", "start", "login")
    lastgood(
        "progress", "set", "--phase", "Build", "--step", "2/3", "--artifact", "a.txt", "--state", '{"n": 1}'
    )
    lastgood("save", "--task", "T01", "--tokens", "1200", "--check", "exit 4", expect=3)
    shown = lastgood("show", "@").out
    for said in (session, "T01", "migrate", "Build phase, step 2/3", "a.txt", "T01  running", "login"):
        assert said in shown
    for said in ('{"n":1}', "1,200 tokens", "`exit 4`, exit code 4"):
        assert said in shown


def test_an_empty_list_says_how_to_begin(lastgood: Command) -> None:
    done = lastgood("list")
    assert (done.out, done.err) == (
        "",
        "there is no checkpoint of this workspace yet\n  make the first: lastgood save\n",
    )


def test_control_characters_are_shown_escaped(lastgood: Command) -> None:
    with open(os.path.join(os.fsencode(lastgood.project), b"evil\x1b[31m\n\xff"), "wb"):
        pass
    lastgood("save", "red \x1b[31m message")
    for words in (("list",), ("show", "@", "--files"), ("diff", "--name-status"), ("status",)):
        shown = lastgood(*words).out
        assert "\x1b" not in shown
        assert all(line.isprintable() for line in shown.replace("\t", " ").splitlines())
    assert r"evil\x1b[31m\x0a\xff" in lastgood("show", "@", "--files").out
    assert r"red \x1b[31m message" in lastgood("list").out


def test_a_patch_is_taken_by_git_apply(kept: Command) -> None:
    patch = kept("diff", "two", "one").out_bytes
    subprocess.run(["git", "apply"], cwd=kept.project, input=patch, check=True)
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "first\n"
    assert not (kept.project / "new.txt").exists()


def test_a_diff_can_be_short(kept: Command) -> None:
    assert kept("diff", "one", "two", "--name-status").out == "M\ta.txt\nA\tnew.txt\n"
    assert kept("diff", "--previous", "two", "--name-status").out == "M\ta.txt\nA\tnew.txt\n"
    assert kept("diff", "one", "two", "--stat").out == (
        " a.txt   | 2 +-\n new.txt | 1 +\n 2 files, 2 lines added, 1 removed\n"
    )


def test_no_name_hides_an_id(kept: Command) -> None:
    """All digits of an id mean that checkpoint; beginnings of an id come after names."""
    one, two = (kept("show", name, "--json").json["checkpoint"]["id"] for name in ("one", "two"))
    digits = one.removeprefix("ckpt_")
    for words in (("name", "two", digits), ("save", "--name", digits), ("name", "two", "f" * 16)):
        assert "a name must not look like an id" in kept(*words, expect=12).err

    _name_as_once(kept, two, digits)
    assert kept("show", digits, "--json").json["checkpoint"]["id"] == one
    _name_as_once(kept, two, "e" * 16)
    assert kept("show", "e" * 16, "--json").json["checkpoint"]["id"] == two
    parcel = str(kept.store.parent / "parcel.tar")
    kept("export", parcel, "e" * 16)
    kept("--store", str(kept.store.parent / "other"), "import", parcel)


def _name_as_once(kept: Command, id: str, name: str) -> None:
    """Give a name that earlier versions took."""
    with closing(sqlite3.connect(kept.store / "catalogue.sqlite3")) as catalogue, catalogue:
        catalogue.execute("update checkpoint set name = ? where id = ?", (name, id))


def test_a_diff_names_a_path_that_neither_side_has(kept: Command) -> None:
    for words in (("diff",), ("diff", "one"), ("diff", "one", "two", "--stat")):
        done = kept(*words, "--", "nope", "src/c.py")
        assert done.out in {"", "no changes\n"}
        assert "neither side has nope\n" in done.err
        assert "neither side has src/c.py; did you mean src/b.py?" in done.err


def test_a_diff_says_nothing_of_paths_that_are_alike(kept: Command) -> None:
    assert kept("diff", "--", "a.txt", "src", ".").err == ""


def test_a_diff_tells_a_path_that_is_left_out_from_one_that_is_not_there(kept: Command) -> None:
    (kept.project / ".gitignore").write_text("*.log\nbuilt/\n", encoding="utf-8")
    (kept.project / "a.log").write_text("", encoding="utf-8")
    (kept.project / "built" / "deep").mkdir(parents=True)
    done = kept("diff", "--json", "--", "a.log", "built/deep/x", "a.txtt")
    assert done.json["unmatched"] == [
        {"path": "a.log", "left_out": True, "near": None},
        {"path": "built/deep/x", "left_out": True, "near": None},
        {"path": "a.txtt", "left_out": False, "near": "a.txt"},
    ]
    assert "a.log is left out of checkpoints" in kept("diff", "--", "a.log").err


def test_a_restore_of_a_path_that_nothing_has_names_the_nearest(kept: Command) -> None:
    for words in (("restore", "one", "--yes"), ("restore", "one", "--dry-run"), ("rewind", "--yes")):
        done = kept(*words, "--", "srx/b.py", expect=10)
        assert "has srx/b.py\n  did you mean src/b.py?" in done.err
    assert "lastgood show" in kept("restore", "@", "--yes", "--", "nope", expect=10).err


def test_the_whole_folder_can_be_given_as_a_path(kept: Command) -> None:
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    whole = kept("diff").out
    assert kept("diff", "--", ".").out == whole != ""
    assert kept("diff", "--", str(kept.project)).out == whole
    assert "--- a/src" not in kept("diff", "--", ".", cwd=kept.project / "src").out
    assert "would restore" in kept("restore", "@", "--dry-run", "--", ".").out
    kept("restore", "@", "--yes", "--", ".")
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "second\n"


def test_a_diff_against_nothing_before_is_told(kept: Command) -> None:
    assert "is the first checkpoint" in kept("diff", "--previous", "one", expect=10).err


def test_a_dry_run_shows_every_path_and_the_plan_and_changes_nothing(kept: Command) -> None:
    """Rule T1."""
    shown = kept("restore", "one", "--dry-run").out.splitlines()
    assert re.fullmatch(
        r"would restore ckpt_\w{8}, made .+ \(one\): 1 file to write, 1 file to delete", shown[0]
    )
    assert shown[1:3] == ["  change  a.txt", "  delete  new.txt"]
    assert shown[3] == "What is there now is saved first: `lastgood undo` brings it back."
    assert re.fullmatch(r"plan plan_\w{16}", shown[4])
    assert (kept.project / "new.txt").exists()


def test_the_id_of_the_dry_run_is_consent(kept: Command) -> None:
    """Rule T1."""
    plan = kept("restore", "one", "--dry-run", "--json").json["plan"]
    shown = kept("restore", "one", "--plan", plan).out
    assert "take it back with: lastgood undo" in shown
    assert not (kept.project / "new.txt").exists()
    kept("undo")
    assert (kept.project / "new.txt").read_text(encoding="utf-8") == "new\n"


def test_a_plan_that_is_no_longer_true_is_a_conflict(kept: Command) -> None:
    """Rule T1."""
    plan = kept("restore", "one", "--dry-run", "--json").json["plan"]
    (kept.project / "a.txt").write_text("edited since\n", encoding="utf-8")
    assert "something has changed since" in kept("restore", "one", "--plan", plan, expect=13).err
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "edited since\n"


def test_without_a_terminal_a_restore_needs_yes_or_a_plan(kept: Command) -> None:
    """Rule T1."""
    error = kept("restore", "one", expect=2).err
    assert "--yes or --plan ID" in error
    assert (kept.project / "new.txt").exists()


def test_a_refusal_for_want_of_consent_names_the_command_to_look_with(kept: Command) -> None:
    """Rules T1, T16: whole, to be typed as it is."""
    (kept.project / "it's.txt").write_text("new", encoding="utf-8")
    kept("save")
    error = kept("restore", "two", "--only", "files", "--", "new.txt", "it's.txt", expect=2).err
    assert "lastgood restore two --only files --dry-run -- new.txt 'it'\\''s.txt'" in error
    error = kept("restore", "one", "--plan", "plan_0000000000000000", expect=13).err
    assert "lastgood restore one --dry-run" in error


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("restore", "a.txt"), 2, "restore @ -- a.txt"),
        (("restore", "nothing"), 10, "no checkpoint 'nothing'"),
        (("rewind", "9"), 10, "cannot rewind 9"),
    ],
)
def test_what_is_wrong_is_told_before_consent_is_asked_for(
    kept: Command, words: tuple[str, ...], code: int, said: str
) -> None:
    assert said in kept(*words, expect=code).err


def test_some_paths_are_restored_relative_to_the_current_folder(kept: Command) -> None:
    (kept.project / "src" / "b.py").write_text("broken", encoding="utf-8")
    (kept.project / "a.txt").write_text("mine", encoding="utf-8")
    kept("restore", "@", "--yes", "--", "b.py", cwd=kept.project / "src")
    assert (kept.project / "src" / "b.py").read_text(encoding="utf-8") == "print(1)\n"
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "mine"


def test_a_path_in_the_place_of_a_ref_is_answered_with_the_right_form(kept: Command) -> None:
    (kept.project / "new.txt").unlink()
    for path in ("a.txt", "src/b.py", "new.txt"):
        error = kept("restore", path, "--yes", expect=2).err
        assert f"lastgood restore @ -- {path}" in error


def test_paths_outside_the_workspace_are_refused(kept: Command) -> None:
    assert "outside the workspace" in kept("restore", "@", "--yes", "--", "../x", expect=12).err


def test_a_copy_aside_touches_nothing_else(kept: Command) -> None:
    aside = kept.project.parent / "aside"
    kept("restore", "one", "--to", str(aside))
    assert sorted(os.listdir(aside)) == ["a.txt", "src"]
    assert (kept.project / "new.txt").exists()
    assert kept("undo", "--list").err == "nothing to undo\n"


def test_the_list_of_what_can_be_undone_leaves_out_what_is_final(kept: Command) -> None:
    """T8, K3."""
    kept("delete", "one", "--yes")
    assert "delete of 1 checkpoint" in kept("undo", "--list").out
    kept("prune", "--now", "--yes")
    assert kept("undo", "--list").err == "nothing to undo\n"
    assert kept("undo", "--list", "--json").json["operations"] == []
    kept("undo", expect=10)


def test_where_everything_was_deleted_for_good_that_is_said(kept: Command) -> None:
    """T15: not that there is none yet."""
    for name in ("one", "two"):
        kept("delete", name, "--yes")
    kept("prune", "--now", "--yes")
    for words in (("restore", "@", "--yes"), ("show", "@"), ("diff",)):
        assert "every checkpoint of this workspace was deleted" in kept(*words, expect=10).err
    assert "yet" not in kept("recover").out


def test_a_large_deletion_is_not_covered_by_yes(kept: Command) -> None:
    """Rule T16."""
    for number in range(60):
        (kept.project / f"{number}.txt").touch()
    done = kept("restore", "two", "--yes", expect=15)
    plan = not_none(re.search(r"--plan (plan_\w+)", done.err))
    assert (kept.project / "0.txt").exists()
    kept("restore", "two", "--plan", plan[1])
    assert not (kept.project / "0.txt").exists()


def test_on_a_terminal_it_asks_and_no_is_the_default(kept: Command) -> None:
    """Rule T1."""
    (kept.project / "a.txt").write_text("my own edit", encoding="utf-8")
    shown = kept.terminal("restore", "one", answers="\n", expect=130).out
    assert re.search(r"^Changed since ckpt_\w{8}, where you are: 1 file modified\.\s*$", shown, re.MULTILINE)
    assert shown.index("where you are: 1 file modified") < shown.index("Go ahead? [y/N]")
    assert "nothing was changed" in shown
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "my own edit"


def test_on_a_terminal_yes_goes_ahead(kept: Command) -> None:
    shown = kept.terminal("restore", "one", answers="y\n").out
    assert "take it back with: lastgood undo" in shown
    assert not (kept.project / "new.txt").exists()


def test_on_a_terminal_a_large_deletion_asks_even_with_yes(kept: Command) -> None:
    """Rule T16."""
    for number in range(60):
        (kept.project / f"{number}.txt").touch()
    shown = kept.terminal("restore", "two", "--yes", answers="n\n", expect=130).out
    assert "This deletes 60 files" in shown
    assert (kept.project / "0.txt").exists()


def test_without_a_ref_a_person_picks_one(kept: Command) -> None:
    shown = kept.terminal("restore", answers="one\ny\n").out
    assert "1 of 1" in shown
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "first\n"


def test_colour_only_on_a_terminal_and_not_against_no_color(kept: Command) -> None:
    assert "\x1b[" in kept.terminal("list").out
    assert "\x1b[" not in kept("list").out
    kept.environment["NO_COLOR"] = "1"
    assert "\x1b[" not in kept.terminal("list").out


def test_rewind_goes_one_back(kept: Command) -> None:
    kept("rewind", "--yes")
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "first\n"


def test_undo_and_redo_name_each_other(kept: Command) -> None:
    """Rule T8."""
    kept("restore", "one", "--yes")
    assert "the other way: lastgood redo" in kept("undo").out
    assert "the other way: lastgood undo" in kept("redo").out
    assert not (kept.project / "new.txt").exists()


def test_an_undo_on_a_terminal_asks_where_checkpoints_were_made_since(kept: Command) -> None:
    """Rule T8: it names the restore that it is about, which may be older than what a person means."""
    kept("restore", "one", "--yes")
    (kept.project / "later.txt").write_text("later\n", encoding="utf-8")
    kept("save", "done later")
    asked = kept.terminal("undo", answers="n\n", expect=130).out
    assert re.search(r"takes back the restore of ckpt_\w+ \(one\) of [-0-9: ]+,\s+done\s+just\s+now", asked)
    assert re.search(r"Made since: 1 checkpoint.\s+ckpt_\w+ \(done later\), ", asked)
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "first\n"
    assert "[y/N]" not in kept.terminal("undo", "--yes").out
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "second\n"


def test_an_undo_on_a_terminal_asks_nothing_right_after_the_restore(kept: Command) -> None:
    """Rule T8."""
    kept("restore", "one", "--yes")
    assert "[y/N]" not in kept.terminal("undo").out
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "second\n"


def test_status_says_where_head_is_and_was(kept: Command, git: Callable[..., str]) -> None:
    git(kept.project, "init", "-q", "-b", "main")
    git(kept.project, "commit", "-q", "--allow-empty", "-m", "one")
    saved = kept.save("on main", "--allow-empty")[:13]
    head = git(kept.project, "rev-parse", "HEAD").strip()
    assert re.search(rf"^git +on main, {head[:12]}$", kept("status", "-v").out, re.MULTILINE)
    assert not re.search("^git ", kept("status").out, re.MULTILINE)
    git(kept.project, "checkout", "-qb", "feature")
    moved = rf"^git +on feature, {head[:12]}; at {saved} it was on main, {head[:12]}$"
    assert re.search(moved, kept("status").out, re.MULTILINE)
    told = kept("status", "--json").json["git"]
    assert (told["branch"], told["head"]) == ("feature", head)


def test_an_undo_right_after_another_asks(kept: Command) -> None:
    """Rule T8: who wants the undo taken back means redo, not an older restore."""
    (kept.project / "a.txt").write_text("broken\n", encoding="utf-8")
    kept("restore", "two", "a.txt", "--yes")
    kept("restore", "one", "--yes")
    kept("undo")
    asked = kept.terminal("undo", answers="n\n", expect=130).out
    assert "This takes back the restore of a.txt" in asked
    assert "to have that again: lastgood redo" in asked.replace("\n  ", " ")
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "second\n"
    kept("undo")
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "broken\n"


def test_a_redo_on_a_terminal_asks_where_checkpoints_were_made_since(kept: Command) -> None:
    """Rule T8."""
    kept("restore", "one", "--yes")
    kept("undo")
    (kept.project / "later.txt").write_text("later\n", encoding="utf-8")
    kept("save", "done later")
    asked = kept.terminal("redo", answers="n\n", expect=130).out
    assert "This does again the restore of ckpt_" in asked
    assert "(done later), " in asked
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "second\n"
    assert "[y/N]" not in kept.terminal("redo", "--yes").out
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "first\n"


def test_a_forced_undo_on_a_terminal_asks_and_names_what_holds_what_was_edited(kept: Command) -> None:
    """Rule T8: a redo brings what the restore wrote, not what was edited after it."""
    kept("restore", "one", "--yes")
    (kept.project / "a.txt").write_text("edited\n", encoding="utf-8")
    done = kept.terminal("undo", "--force", answers="y\n").out
    assert "What changed since goes too" in done
    (guard,) = re.findall(r"what was there is in (ckpt_\w+)", done)
    kept("restore", guard, "--yes")
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "edited\n"


def test_a_delete_asks_nothing_and_says_the_way_back(kept: Command) -> None:
    shown = kept("delete", "one").out
    assert "its bytes are freed after" in shown
    assert "take it back with: lastgood undo" in shown
    kept("show", "one", expect=10)
    kept("undo")
    kept("show", "one")


def test_a_delete_of_what_an_undo_needs_says_so(kept: Command) -> None:
    """T8, K3: a guard looks like any other checkpoint, and may be all there is of some work."""
    (kept.project / "a.txt").write_text("nowhere else\n", encoding="utf-8")
    back = kept("restore", "one", "--yes", "--json").json
    error = kept("delete", back["guard"]).err
    assert f"needed to undo {back['operation']}" in error
    kept("undo")
    assert kept("delete", "two", "--json").json["needed"] == {}


def test_the_next_command_keeps_the_workspace_that_was_named(kept: Command) -> None:
    place = str(kept.project)
    shown = kept("-C", place, "restore", "one", "--yes", cwd=kept.project.parent).out
    assert f"lastgood -C {place} undo" in shown


def test_recover_with_nothing_interrupted_does_not_say_that_it_recovers(kept: Command) -> None:
    """Rule P7."""
    first, second, *_, last = kept("recover").out.splitlines()
    assert first == "Nothing was interrupted: there is nothing to recover."
    assert second.startswith("The workspace stands at checkpoint ckpt_")
    assert last == "Ready to continue."


def test_recover_of_work_that_was_recorded_does_not_say_that_nothing_was_interrupted(kept: Command) -> None:
    """Rule P7: an agent that is started again goes on there."""
    kept("progress", "set", "--phase", "Construction")
    kept("save", "a moment of work")
    done = kept("recover")
    assert done.out.startswith("Recovering from most recent checkpoint ")
    assert "interrupted" not in done.out + done.err
    assert "(one, " in kept("resume", "one").out


def test_status_says_where_the_workspace_stands_and_what_changed_since(kept: Command) -> None:
    """T15."""
    for number in range(12):
        (kept.project / f"more {number:02}").touch()
    shown = kept("status").out
    assert re.search(r"^you are at +ckpt_\w{8} \(two\), manual, ", shown, re.MULTILINE)
    assert re.search(r"^since then +12 added, 0 modified, 0 deleted$", shown, re.MULTILINE)
    assert re.findall(r"^ +added +(more \d\d)$", shown, re.MULTILINE) == [f"more {n:02}" for n in range(10)]
    assert "and 2 more: lastgood diff --stat" in shown
    assert not re.search(r"^latest ", shown, re.MULTILINE)


def test_many_deletions_hide_no_change_from_a_status(kept: Command) -> None:
    """The one that is no deletion stands in its place among the first."""
    for number in range(30):
        (kept.project / f"b{number:02}").touch()
    (kept.project / "z").write_text("one")
    kept("save", "many")
    for number in range(30):
        (kept.project / f"b{number:02}").unlink()
    (kept.project / "z").write_text("two")
    shown = kept("status").out
    assert len(re.findall(r"^ +deleted +b0\d$", shown, re.MULTILINE)) == 9
    assert re.search(r"^ +modified +z\n +and 21 more: lastgood diff --stat$", shown, re.MULTILINE)


def test_status_after_a_restore_names_where_one_stands_and_the_latest(kept: Command) -> None:
    """T15."""
    kept("restore", "one", "--yes")
    shown = kept("status").out
    assert re.search(r"^you are at +ckpt_\w{8} \(one\), manual, ", shown, re.MULTILINE)
    assert re.search(r"^latest +ckpt_\w{8} \(two\), manual, ", shown, re.MULTILINE)
    said = kept("status", "--json").json
    assert (said["at"]["name"] or said["at"]["message"], said["latest"]["message"]) == ("one", "the second")
    assert said["changed"] == []


def test_a_list_marks_where_one_stands_and_leaves_guards_to_all(kept: Command) -> None:
    """T15."""
    (kept.project / "mine").touch()
    kept("restore", "one", "--yes")
    rows = kept("list").out.splitlines()[1:]
    assert [bool(re.match(r"ckpt_\w{8} @ ", row)) for row in rows] == [False, True]
    assert " one " in rows[1]
    assert "guard" in kept("list", "--all").out
    assert "guard" in kept("list", "--kind", "guard").out
    said = kept("list", "--json").json
    assert said["at"] == kept("show", "@", "--json").json["checkpoint"]["id"]
    assert {one["kind"] for one in said["checkpoints"]} == {"manual"}


def test_rewind_twice_goes_on_back(kept: Command) -> None:
    """T15: along the history, from where one stands."""
    (kept.project / "third").touch()
    kept("save", "three")
    kept("rewind", "--yes")
    assert kept("show", "@", "--json").json["checkpoint"]["message"] == "the second"
    kept("rewind", "--yes")
    assert kept("show", "@", "--json").json["checkpoint"]["message"] == "the first"
    assert "that far back" in kept("rewind", "--yes", expect=10).err


def test_status_lists_what_a_repository_adds_to_the_settings(kept: Command) -> None:
    """Rule K7."""
    (kept.project / ".lastgood.toml").write_text('[capture]\nexclude = ["*.bin"]\n', encoding="utf-8")
    assert re.search(r"^project adds +capture\.exclude: \*\.bin$", kept("status").out, re.MULTILINE)
    assert kept("status", "--json").json["project_settings"] == ["capture.exclude: *.bin"]


@pytest.mark.damages
def test_a_restore_that_meets_damage_says_what_mends_it(kept: Command) -> None:
    """Rules K4, T10: nobody looked at the store before."""
    (kept.project / "rare").write_bytes(os.urandom(50_000))
    kept("save", "three")
    pack = max(packs_of(kept.store), key=lambda pack: pack.stat().st_size)
    flip(pack, pack.stat().st_size // 2)
    (kept.project / "rare").unlink()
    told = kept("restore", "@", "--yes", expect=3).err
    assert "failed  rare (damaged in the store: " in told
    assert re.search(r"mend what can be: lastgood verify --repair$", told, re.MULTILINE)


@pytest.mark.damages
def test_verify_says_which_checkpoints_and_files_are_hit(kept: Command) -> None:
    """Rule K4."""
    flip(max(packs_of(kept.store), key=lambda pack: pack.stat().st_mtime_ns))
    done = kept("verify", expect=16)
    assert "damaged ckpt_" in done.out
    assert "verify --repair" in done.err


@pytest.mark.damages
def test_a_file_that_cannot_be_read_hides_no_other_from_a_diff(kept: Command) -> None:
    """Rule K4: it is named, and that is no success."""
    lose(kept.store, f"{kept('show', 'two', '--json').json['checkpoint']['commit']}:workspace/a.txt")
    done = kept("diff", "one", "two", expect=3)
    assert "# a/a.txt and b/a.txt differ: damaged, cannot be read\n" in done.out
    assert "+new\n" in done.out
    assert "1 file of a checkpoint cannot be read: lastgood verify" in done.err
    told = kept("diff", "one", "two", "--json", expect=3).json["files"]
    assert {one["path"]: one["damaged"] for one in told} == {"a.txt": True, "new.txt": False}


@pytest.mark.damages
def test_what_is_left_of_a_checkpoint_that_lost_a_file_is_offered(kept: Command) -> None:
    """Rule K4: a whole restore of it is refused before the first write."""
    (kept.project / "a.txt").write_text("\n".join(map(str, range(50))), encoding="utf-8")
    commit = kept("save", "--name", "hurt", "--json").json["checkpoint"]["commit"]
    (kept.project / "a.txt").write_text("later\n", encoding="utf-8")
    lose(kept.store, f"{commit}:workspace/a.txt")
    kept("verify", "--repair", expect=16)
    done = kept("restore", "hurt", "--yes", expect=16)
    assert re.search(r"restore ckpt_[0-9a-f]{8} --to DIR$", done.err, re.MULTILINE)
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "later\n"
    kept("restore", "hurt", "--to", "aside", expect=3)
    assert (kept.project / "aside" / "src" / "b.py").exists()


@pytest.mark.damages
def test_verify_says_so_when_all_files_of_a_checkpoint_are_hit(kept: Command) -> None:
    """Rule K4: the folder at the top is one object, and without it there is no file."""
    tree = kept("show", "two", "--json").json["checkpoint"]["tree"]
    for index in packs_of(kept.store, ".idx"):
        with open(index, "rb") as file:
            rows = subprocess.run(["git", "show-index"], stdin=file, capture_output=True, check=True).stdout
        places = {row.split()[1]: int(row.split()[0]) for row in rows.decode().splitlines()}
        if tree in places:
            flip(index.with_suffix(".pack"), places[tree] + 6)
    done = kept("verify", expect=16)
    assert "all of its files cannot be read\n  .\n" in done.out


def test_workspaces_are_listed_from_anywhere(kept: Command) -> None:
    """Rule K8."""
    assert str(kept.project) in kept("workspace", "list", cwd=kept.store.parent).out


def test_the_list_of_workspaces_says_where_work_did_not_finish(kept: Command) -> None:
    """K8, P8: of eight worktrees with an agent each, that of the one that died."""
    assert "Session" not in kept("workspace", "list").out
    with subprocess.Popen(["sleep", "600"]) as agent:
        kept("session", "start", "--goal", "prices", "--owner-pid", str(agent.pid))
        assert kept("workspace", "list").out.splitlines()[1].endswith(" present  active")
        agent.kill()
    assert kept("workspace", "list").out.splitlines()[1].endswith(" present  incomplete")
    assert kept("workspace", "list", "--json").json["workspaces"][0]["session"] == "incomplete"
    kept("recover", "--fresh")
    assert kept("workspace", "list").out.splitlines()[1].endswith(" present")


def test_workspaces_are_listed_although_a_projects_file_is_broken(kept: Command) -> None:
    """Rules K7, K8: what lies in the folder has no say in it."""
    (kept.project / ".lastgood.toml").write_text("no toml", encoding="utf-8")
    assert str(kept.project) in kept("workspace", "list").out


def test_forgetting_a_workspace_shows_first_and_needs_yes(kept: Command) -> None:
    """Rule K8."""
    place = str(kept.project)
    assert "would delete 2 checkpoints" in kept("workspace", "forget", place, "--dry-run").out
    assert "--yes" in kept("workspace", "forget", place, expect=2).err
    kept("workspace", "forget", place, "--yes")
    assert kept("list").out == ""


def test_config_shows_values_sources_and_built_in_excludes(kept: Command) -> None:
    """Rule S6."""
    (kept.project / ".lastgood.toml").write_text('[capture]\nexclude = ["*.bin"]\n', encoding="utf-8")
    shown = kept("config").out
    assert re.search(rf"^capture\.exclude +{kept.project}/\.lastgood\.toml +\*\.bin$", shown, re.MULTILINE)
    assert "node_modules .venv venv __pycache__ *.pyc" in shown
    assert ".env .env.* .envrc .dev.vars *.local" in shown


def test_a_wrong_setting_is_told_with_file_key_and_nearest_key(kept: Command) -> None:
    (kept.project / ".lastgood.toml").write_text("[capture]\nexlude = []\n", encoding="utf-8")
    for verb, code in (("save", 0), ("config", 12)):
        error = kept(verb, expect=code).err
        assert ".lastgood.toml:2: there is no setting 'capture.exlude'" in error
        assert "did you mean capture.exclude?" in error


def test_doctor_goes_on_where_a_workspace_cannot_be_opened(kept: Command) -> None:
    done = kept("-C", "/", "doctor", expect=15)
    assert re.search(r"^bad +workspace-unsafe ", done.out, re.MULTILINE)
    assert re.search(r"^good +python ", done.out, re.MULTILINE)


@pytest.mark.parametrize("words", [("list",), ("diff", "one"), ("save", "--allow-empty"), ("help",)])
def test_a_reader_that_goes_away_is_no_failure(kept: Command, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, COMMAND, *words],
        cwd=kept.project,
        env=kept.environment,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_output_that_cannot_be_written_is_told(kept: Command) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, COMMAND, "list"],
            cwd=kept.project,
            env=kept.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert b"the output could not be written" in done.stderr


def test_an_interrupt_gives_exit_code_130(kept: Command) -> None:
    program = (
        "import signal, sys, time; sys.argv = ['lastgood', 'status']; "
        "from lastgood.cli.verbs import status; "
        # Asleep when it comes: a signal that one raises oneself may be seen some steps later.
        "status.status_verb = lambda *_: (signal.raise_signal(signal.SIGINT), time.sleep(60)); "
        "from lastgood.cli.main import run; run()"
    )
    environment = kept.environment | {"PYTHONPATH": os.path.join(ROOT, "src")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert done.returncode == 130
    assert done.stderr.startswith(b"lastgood: interrupted\n")


def test_an_internal_fault_is_short_and_asks_for_a_report(kept: Command) -> None:
    program = (
        "import sys; sys.argv = ['lastgood', 'status']; from lastgood.cli.verbs import status; "
        "status.status_verb = lambda *_: 1 // 0; from lastgood.cli.main import run; run()"
    )
    environment = kept.environment | {"PYTHONPATH": os.path.join(ROOT, "src")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"lastgood: internal fault: ZeroDivisionError at <string>:1")
    assert b"Traceback" not in done.stderr


def test_a_message_that_is_not_utf_8_is_kept_readable(kept: Command) -> None:
    kept("save", b"caf\xe9", "--allow-empty")
    assert r"caf\xe9" in kept("list").out
    assert kept("list", "--json").json["checkpoints"][0]["message"] == "caf\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("words", [("prune", "--keep", "abc"), ("list", "--limit", "0"), ("rewind", "x")])
def test_bad_numbers_are_usage_errors(kept: Command, words: tuple[str, ...]) -> None:
    """Rule K2."""
    kept(*words, expect=2)


def test_on_a_narrow_terminal_a_list_keeps_within_it(kept: Command) -> None:
    kept("save", "a message that goes on and on, well past the width of any terminal", "--allow-empty")
    listed = kept.terminal("list", "--limit", "20").out
    assert max(map(width, listed.splitlines())) <= 80
    assert "Kind" in listed
    assert "Gaps" not in listed
    picked = kept.terminal("restore", answers="q\n", expect=130).out
    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", picked)
    assert max(len(line) for line in drawn.splitlines() if "ckpt_" in line) <= 80


TOPICS = ["", "refs", "exit-codes", "environment", *(one.name for one in all_verbs())]


@pytest.mark.parametrize("topic", TOPICS)
def test_help_keeps_within_a_terminal(lastgood: Command, topic: str) -> None:
    shown = lastgood.terminal("help", *([topic] if topic else [])).out
    assert [line for line in shown.splitlines() if width(line) > 80] == []


def test_an_example_that_fills_the_line_has_what_it_does_below(lastgood: Command) -> None:
    shown = lastgood.terminal("help", "run").out.replace("\r", "")
    assert "--on-failure rollback -- ./agent.sh\n" in shown
    assert re.search(r"^ +until it is good$", shown, re.MULTILINE)


def test_the_help_of_restore_says_what_becomes_of_files_made_since(lastgood: Command) -> None:
    """T4."""
    said = " ".join(lastgood("help", "restore").out.split())
    assert "Files that were made since are deleted, once that save holds them" in said


# What a person sees on a terminal while a verb takes longer than half a second.


# One long call into C: no alarm is heard in it, and of those that were due one is heard after it.
DEAF = """
import signal, time
from lastgood.cli.opening import Console
from lastgood.cli.opening import ProgressLine as Progress
alarms = {signal.SIGALRM}
with Progress(Console({}), "looking"):
    signal.pthread_sigmask(signal.SIG_BLOCK, alarms)
    time.sleep(1.1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, alarms)
"""


def test_the_seconds_shown_are_those_of_the_clock_however_few_alarms_were_heard(tmp_path: Path) -> None:
    with Terminal([sys.executable, "-c", DEAF], cwd=tmp_path, environment={}) as terminal:
        assert terminal.end() == 0
        shown = re.findall(rb"looking \[.{16}\] (\d+) s", terminal.written)

    assert shown
    assert all(int(seconds) >= 1 for seconds in shown)
    assert terminal.shown == []


def test_an_undo_that_meets_edits_says_where_the_other_version_lies(kept: Command) -> None:
    """T8, T17."""
    guarded = kept.project / "a.txt"
    guarded.write_text("by hand\n", encoding="utf-8")
    kept("restore", "@", "--yes")
    guarded.write_text("since\n", encoding="utf-8")
    said = kept("undo", "--merge", expect=3)
    (copy,) = kept.project.glob("a.txt.lastgood-*")
    assert f"as it was before the restore: {copy.name}\n" in said.err
    assert copy.read_text(encoding="utf-8") == "by hand\n"
    assert guarded.read_text(encoding="utf-8") == "since\n"
    assert f"added    {copy.name}" in kept("status").out  # an ordinary file, until it is moved
    taken = next(
        line.partition("to take it (yours goes): ")[2] for line in said.err.splitlines() if "mv " in line
    )
    subprocess.run(taken, shell=True, cwd=kept.project, check=True)
    assert (copy.exists(), guarded.read_text(encoding="utf-8")) == (False, "by hand\n")


@pytest.mark.parametrize("where", ["below", "outside"])
def test_how_the_other_version_is_taken_can_be_typed_where_one_stands(kept: Command, where: str) -> None:
    """T17: also of a name that a shell would split."""
    (kept.project / "in it").mkdir()
    path = kept.project / "in it" / "-a 'file'"
    for text in ("old\n", "new\n"):
        path.write_text(text, encoding="utf-8")
        kept.save()
    path.write_text("mine\n", encoding="utf-8")
    here = path.parent if where == "below" else kept.project.parent
    words = ["-C", str(kept.project)] if where != "below" else []
    said = kept(*words, "restore", "@~1", "--merge", "--yes", cwd=here, expect=3)
    taken = next(
        line.partition("to take it (yours goes): ")[2] for line in said.err.splitlines() if "mv " in line
    )
    subprocess.run(taken, shell=True, cwd=here, check=True)
    assert path.read_text(encoding="utf-8") == "old\n"
