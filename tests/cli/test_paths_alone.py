"""Paths where a REF may stand: what is meant is done where only that can be meant."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tools.command import COMMAND, Command
from tools.harm import lose


def test_a_diff_takes_paths_after_its_refs_or_without_any(kept: Command) -> None:
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    for words, same in (
        (("a.txt", "src"), ("@", "--", "a.txt", "src")),
        (("one", "a.txt"), ("one", "--", "a.txt")),
        (("one", "two", "a.txt", "--", "src"), ("one", "two", "--", "a.txt", "src")),
    ):
        shown = kept("diff", *words).out
        assert shown
        assert shown == kept("diff", *same).out


def test_a_diff_of_a_path_that_is_gone_is_from_the_newest_that_holds_it(kept: Command) -> None:
    (kept.project / "new.txt").unlink()
    kept("save", "without it")
    (kept.project / "new.txt").write_text("other\n", encoding="utf-8")
    done = kept("diff", "new.txt")
    assert "-new\n+other\n" in done.out
    assert "the newest with it" in done.err


def test_a_diff_of_what_is_neither_a_ref_nor_a_path_is_refused(kept: Command) -> None:
    assert "no checkpoint 'nosuch'" in kept("diff", "@", "nosuch", expect=10).err


def test_a_name_comes_before_a_path_and_the_path_is_told_of(kept: Command) -> None:
    kept("name", "@", "src")
    assert "lastgood diff @ -- src" in kept("diff", "src").err


def test_cat_of_a_path_alone_is_as_of_where_one_stands(kept: Command) -> None:
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    assert kept("cat", "a.txt").out == "second\n"
    (kept.project / "new.txt").unlink()
    kept("save", "without it")
    assert kept("cat", "new.txt").out == "new\n"


def test_cat_of_a_ref_alone_wants_the_path(kept: Command) -> None:
    assert "write: lastgood cat @~1 PATH" in kept("cat", "@~1", expect=2).err


def test_show_without_a_ref_is_of_where_one_stands(kept: Command) -> None:
    assert kept("show", "--json").json == kept("show", "@", "--json").json


def test_show_alone_where_nothing_was_saved_says_so(lastgood: Command) -> None:
    assert lastgood("show", expect=10).err.startswith(
        "lastgood: there is no checkpoint of this workspace yet"
    )


def test_a_dry_run_of_a_path_alone_is_of_where_one_stands(kept: Command) -> None:
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    assert "  change  a.txt\n" in kept("restore", "a.txt", "--dry-run").out


def test_a_program_is_told_the_right_form_of_a_restore(kept: Command) -> None:
    """T1: a name that is there tomorrow would make the same words mean all files."""
    hint = "lastgood restore @ -- a.txt"
    assert hint in kept("restore", "a.txt", "--yes", expect=2).err


def test_a_path_before_its_ref_is_answered_with_the_right_form(kept: Command) -> None:
    for words, form, code in (
        (("restore", "a.txt", "@~1", "--yes"), "lastgood restore @~1 -- a.txt", 2),
        (("restore", "a.txt@{1h}", "--yes"), "lastgood restore @{1h} -- a.txt", 10),
        (("cat", "a.txt", "@~1"), "lastgood cat @~1 a.txt", 2),
        (("cat", "@~1:a.txt"), "lastgood cat @~1 a.txt", 10),
        (("show", "@~1:a.txt"), "lastgood cat @~1 a.txt", 12),
    ):
        assert form in kept(*words, expect=code).err, words


@pytest.mark.parametrize(
    "words", [("second",), ("SECOND",), ("the", "two"), ("--grep", "sec", "the"), ("-g", "two")]
)
def test_a_list_of_words_has_what_bears_them_all(kept: Command, words: tuple[str, ...]) -> None:
    """S20: in its name or in its message."""
    found = kept("list", "--json", *words).json["checkpoints"]
    assert [one["name"] for one in found] == ["two"]


def test_a_list_of_words_is_limited_to_those_that_fit(kept: Command) -> None:
    assert "(one)" not in kept("list", "-n", "1", "first").out
    assert [one["name"] for one in kept("list", "-n", "1", "first", "--json").json["checkpoints"]] == ["one"]


def test_words_find_what_changed_under_such_a_path(kept: Command) -> None:
    """S20: and the row says which path it was."""
    for words, found in (
        (("NEW.txt",), ["two"]),
        (("b.py",), ["one"]),
        (("*.py",), ["one"]),
        (("first", "src/"), ["one"]),
        (("a.txt",), ["two", "one"]),
    ):
        assert [one["name"] for one in kept("list", "--json", *words).json["checkpoints"]] == found, words
    assert "src/b.py" in kept("list", "src").out
    assert "Found by" not in kept("list", "first").out


def test_words_find_a_task_an_id_a_kind_and_a_date(kept: Command) -> None:
    """S20: whatever a list tells."""
    made = kept.save("plain", "--task", "wallet-7", "--allow-empty")
    for word in ("wallet", made[5:11], made[:11], "plain"):
        assert [one["id"] for one in kept("list", "--json", word).json["checkpoints"]] == [made], word
    for word in ("manual", kept("show", "@", "--json").json["checkpoint"]["created_at"][:4]):
        assert len(kept("list", "--json", word).json["checkpoints"]) == 3


def test_a_day_or_several_of_a_kind_are_no_words_and_answered_with_the_option(kept: Command) -> None:
    assert "made since then: lastgood list --since 24h\n" in kept("list", "today").err
    assert kept("list", "--since", "24h").code == 0
    assert "of that kind: lastgood list --kind turn\n" in kept("list", "turns").err


@pytest.mark.parametrize("verb", ["restore", "rewind"])
def test_a_checkpoint_is_no_folder_to_write_to(kept: Command, verb: str) -> None:
    """K2: `rewind --to ckpt_...` is to go back to that, and not to have a folder of that name."""
    words = ("restore", "@") if verb == "restore" else ("rewind",)
    said = kept(*words, "--to", "ckpt_0123abcd", expect=2).err
    assert "to go back to that: lastgood restore ckpt_0123abcd\n" in said
    assert not (kept.project / "ckpt_0123abcd").exists()


def test_where_words_find_nothing_it_is_said_what_was_searched(kept: Command) -> None:
    done = kept("list", "no such", "thing")
    assert done.out == ""
    assert "no checkpoint has 'no such thing'" in done.err
    assert "searched: names, messages, tasks, kinds, dates, ids, and the paths that changed" in done.err
    assert "\nin files: lastgood log -S " in done.err
    assert "all of them: lastgood list" in done.err
    assert "no checkpoint that fits the rest has 'thing'" in kept("list", "thing", "--good").err


@pytest.mark.parametrize(
    "words", [("list", "-m", "second"), ("list", "--message=second"), ("log", "--grep", "second")]
)
def test_what_git_calls_a_search_is_answered_with_ours(kept: Command, words: tuple[str, ...]) -> None:
    assert "lastgood list --grep second" in kept(*words, expect=2).err


def test_a_name_without_its_folder_is_answered_with_the_paths_of_that_name(kept: Command) -> None:
    """Also of files that only earlier checkpoints hold."""
    (kept.project / "src" / "b.py").unlink()
    (kept.project / "other").mkdir()
    (kept.project / "other" / "c.py").write_text("print(2)\n", encoding="utf-8")
    kept("save", "without b.py")
    for name, path in (("b.py", "src/b.py"), ("c.py", "other/c.py"), ("src/c.py", "other/c.py")):
        for words, code in (
            (("restore", name, "--yes"), 10),
            (("restore", name, "--dry-run"), 10),
            (("log", name), 10),
            (("cat", name), 10),
            (("diff", name), 10),
        ):
            said = kept(*words, expect=code).err
            there = "was" if path == "src/b.py" else "is"
            assert f"there {there} {path}: lastgood {words[0]} {path}\n" in said, words
    assert "print(1)" in kept("cat", "src/b.py").out


def test_who_has_nothing_to_restore_is_told_where_to_look_on(kept: Command) -> None:
    """K2: what is there may be what was saved after the damage."""
    assert "earlier versions: lastgood log a.txt\n" in kept("restore", "@", "a.txt", "--yes").err
    assert "other checkpoints: lastgood list\n" in kept("restore", "@", "--yes").err
    assert kept("restore", "@", "a.txt", "--yes", "--quiet").err == ""


def test_a_restore_that_only_moves_where_one_stands_says_so(kept: Command) -> None:
    """T15: it can be undone, and the next undo is its."""
    kept("save", "the same", "--allow-empty")
    before = kept("list", "--json").json["checkpoints"][1]["short_id"]
    said = kept("restore", "@~1", "--yes")
    assert said.out.startswith("nothing to restore: ")
    assert f"you are at {before} (two) now; take that back with: lastgood undo\n" in said.err
    assert "you are at" not in kept("restore", "@", "--yes").err


def test_who_has_nothing_to_restore_of_a_file_is_told_the_version_before(kept: Command) -> None:
    """K2."""
    (kept.project / "a.txt").write_text("as it should be\n", encoding="utf-8")
    good = kept.save("good")[:13]
    (kept.project / "a.txt").write_text("ruined\n", encoding="utf-8")
    kept("save", "ruined")
    said = kept("restore", "@", "a.txt", "--yes").err
    assert re.search(rf"the newest other version is of {good}, made .+ \(good\):\n", said)
    assert f":\n  lastgood restore {good} a.txt\n" in said
    kept("restore", good, "a.txt", "--yes")
    then = kept("list", "--json").json["checkpoints"][0]["short_id"]
    assert f"  lastgood restore {then} a.txt\n" in kept("restore", good, "a.txt", "--yes").err
    several = kept("restore", "one", "--yes", "--", "a.txt", "src", "src/b.py", "./a.txt").out
    assert several.startswith("restored a.txt, src, src/b.py and 1 more from ckpt_")


def test_a_log_on_a_terminal_says_how_to_bring_one_back(kept: Command) -> None:
    shown = kept.terminal("log", "a.txt").out
    assert "to bring one back: lastgood restore ID a.txt" in shown
    assert "when a text came into it, or went: lastgood log -S TEXT a.txt" in shown
    assert "to bring one back" not in kept("log", "a.txt").err


def test_on_a_terminal_a_log_takes_a_name_without_its_folder(kept: Command) -> None:
    shown = kept.terminal("log", "b.py").out
    assert "'b.py' is taken as src/b.py" in shown
    assert "lastgood restore ID src/b.py" in shown


def test_on_a_terminal_a_bare_time_may_come_before_a_name_without_its_folder(kept: Command) -> None:
    """T16: what is going to be done is shown first."""
    (kept.project / "src" / "b.py").unlink()
    time.sleep(1.1)
    shown = kept.terminal("restore", "1s", "b.py", answers="y\n").out
    assert "'b.py' is taken as src/b.py (deleted)" in shown
    assert (kept.project / "src" / "b.py").read_text() == "print(1)\n"


def test_on_a_terminal_a_bare_time_is_taken_where_one_only_looks(kept: Command) -> None:
    """K2: a program is told the right form."""
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    time.sleep(1.1)
    shown = kept.terminal("cat", "1s", "a.txt").out
    assert "'1s' is taken as @{1s}" in shown
    assert shown.endswith("second\n")
    assert "third" in kept.terminal("diff", "1s").out
    assert "-first" in kept.terminal("diff", "the", "first").out  # a message without its quotes
    assert "a time is written @{1s}" in kept("cat", "1s", "a.txt", expect=10).err


def test_a_path_of_the_same_name_is_told_as_it_is_typed_there(kept: Command) -> None:
    said = kept("log", "a.txt", expect=10, cwd=kept.project / "src").err
    assert "there is ../a.txt: lastgood log ../a.txt\n" in said
    assert "there is" not in kept("log", "nosuch", expect=10).err


def test_what_a_restore_may_mean_is_told_with_what_is_missing_first(kept: Command) -> None:
    """A part of a name and a pattern too; the file that is whole is no loss."""
    (kept.project / "other").mkdir()
    (kept.project / "other" / "b.py").write_text("print(2)\n", encoding="utf-8")
    kept("save", "two of them")
    (kept.project / "src" / "b.py").unlink()
    for words in (("b.py", "--yes"), ("*/b.py", "--yes"), ("b.p", "--dry-run")):
        said = kept("restore", *words, expect=10).err
        was, still = "there was src/b.py: lastgood restore src/b.py", "there is other/b.py: lastgood restore"
        assert was in said, words
        assert said.index(was) < said.index(still), words


def test_a_path_that_a_checkpoint_lacks_is_answered_with_those_of_its_name(kept: Command) -> None:
    """Also after the REF."""
    said = kept("restore", "@", "b.py", "--yes", expect=10).err
    assert "there is src/b.py: lastgood restore @ -- src/b.py\n" in said


def test_dashes_change_nothing_of_a_path_alone(kept: Command) -> None:
    """K2: a program is told the right form."""
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    assert "  change  a.txt\n" in kept("restore", "--dry-run", "--", "a.txt").out
    said = kept("restore", "--yes", "--", "a.txt", expect=2).err
    assert "lastgood restore @ -- a.txt" in said
    assert "no checkpoint" in kept("restore", "--yes", "--", "nosuch", expect=10).err


@pytest.mark.damages
def test_a_path_alone_is_meant_as_of_the_newest_from_which_it_can_be_read(kept: Command) -> None:
    """K4: a file and a folder of which `@` has lost what it holds."""
    texts = [random.Random(seed).randbytes(300).hex() + "\n" for seed in (1, 2)]
    for name, text in zip(("older", "newer"), texts, strict=True):
        (kept.project / "src" / "b.py").write_text(text, encoding="utf-8")
        kept("save", name)
    lose(kept.store, f"{kept('show', '@', '--json').json['checkpoint']['commit']}:workspace/src/b.py")
    (kept.project / "src" / "b.py").unlink()
    for path in ("src/b.py", "src"):
        shown = kept("restore", path, "--dry-run")
        assert "(older)" in shown.out, path
        assert f"what @ has of '{path}' is damaged" in shown.err, path
    assert kept("cat", "src/b.py").out == texts[0]


def test_head_is_told_of_a_whole_restore_and_once(kept: Command, git: Callable[..., str]) -> None:
    """T9: of some files that it has moved says nothing."""
    git(kept.project, "init", "-q")
    kept("save", "before the commit")
    git(kept.project, "add", ".")
    git(kept.project, "commit", "-qm", "one")
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    whole = kept.terminal("restore", "@", answers="y\n").out
    assert whole.count("HEAD has moved") == 1, whole
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    assert "HEAD" not in kept.terminal("restore", "@", "a.txt", answers="y\n").out


@pytest.fixture
def switched(kept: Command, git: Callable[..., str]) -> Command:
    """Return the command after a checkpoint on `main`, in a project where somebody forced another branch."""
    git(kept.project, "init", "-q", "-b", "main")
    git(kept.project, "add", ".")
    git(kept.project, "commit", "-qm", "one")
    git(kept.project, "branch", "other")
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    kept("save", "at work")
    git(kept.project, "checkout", "-qf", "other")
    return kept


@pytest.mark.parametrize(("answer", "branch"), [("g", "main"), ("y", "other"), ("git", "main")])
def test_whoever_is_asked_can_have_the_branch_back_with_the_files(
    switched: Command, git: Callable[..., str], answer: str, branch: str
) -> None:
    """T9: HEAD moves only for those who say so."""
    shown = switched.terminal("restore", "@", answers=f"{answer}\n").out
    assert "Go ahead? [y/g/N]" in shown
    choices = (
        "  y: only the files; git stays on other\n  g: git, too: back on main, with what was staged then\n"
    )
    assert choices in shown
    assert (switched.project / "a.txt").read_text() == "third\n"
    assert git(switched.project, "branch", "--show-current").strip() == branch


def test_of_a_branch_that_moved_or_is_gone_is_said_that_head_will_be_on_none(
    switched: Command, git: Callable[..., str]
) -> None:
    """T9: what will be is said, not what may be."""
    for done, why in (
        (
            ("branch", "-f", "main", git(switched.project, "commit-tree", "-m", "x", "HEAD^{tree}").strip()),
            "has moved",
        ),
        (("branch", "-D", "main"), "is gone"),
    ):
        git(switched.project, *done)
        asked = " ".join(switched.terminal("restore", "@", answers="n\n", expect=130).out.split())
        assert f"again, on no branch, as main {why}" in asked
        assert f"on no branch, as main {why}" in switched("restore", "@", "--dry-run").out
    switched.terminal("restore", "@", answers="g\n")
    assert git(switched.project, "branch", "--show-current").strip() == ""


def test_where_git_could_not_be_put_back_the_command_that_does_it_later_is_told(
    switched: Command, git: Callable[..., str]
) -> None:
    """T9, K4: the restore itself is over, and `recover` has nothing to finish."""
    in_the_way = switched.project / ".git" / "lastgood-HEAD.new"
    (in_the_way / "x").mkdir(parents=True)
    said = switched("restore", "@", "--git", "--yes", expect=3).err
    assert "HEAD and index: failed" in said
    (way,) = re.findall("to put git back once that is mended: lastgood (.*)\n", said)
    (in_the_way / "x").rmdir()
    in_the_way.rmdir()
    switched(*way.split(), "--yes")
    assert git(switched.project, "branch", "--show-current").strip() == "main"


def test_whoever_does_not_say_so_changes_nothing(switched: Command, git: Callable[..., str]) -> None:
    for answer in ("", "n", "what"):
        assert (
            "nothing was changed" in switched.terminal("restore", "@", answers=f"{answer}\n", expect=130).out
        )
    assert (switched.project / "a.txt").read_text() == "second\n"
    assert git(switched.project, "branch", "--show-current").strip() == "other"


def test_a_guard_says_before_what_it_was_made(kept: Command) -> None:
    """S20: by what people know the checkpoint by, and of which paths."""
    file = kept.project / "a.txt"
    file.write_text("third\n", encoding="utf-8")
    kept("restore", "one", "--yes")
    (kept.project / "made").touch()
    kept("undo", "--force")
    file.write_text("fourth\n", encoding="utf-8")
    kept("restore", "two", "--yes", "--", "a.txt")

    said = [one["message"] for one in kept("list", "--all", "--json").json["checkpoints"]]

    assert said[:3] == [
        'before restoring "two" (a.txt)',
        'before undoing the restore of "one"',
        'before restoring "one"',
    ]


def test_a_private_file_that_stays_is_told_before_the_question_and_how_it_comes_back(kept: Command) -> None:
    """S5, T1: what is broken in it is not said to be restored."""
    (kept.project / ".gitignore").write_text(".env\n", encoding="utf-8")
    (kept.project / ".env").write_text("KEY=1\n", encoding="utf-8")
    saved = kept.save("with a key")[:13]
    (kept.project / ".env").write_text("BROKEN\n", encoding="utf-8")
    nothing = kept("restore", "@", "--yes").out
    assert nothing.startswith(
        ".env differs and stays as it is: of private files only missing ones come back by themselves\n"
    )
    assert nothing.index(f"lastgood restore {saved} -- .env\n") < nothing.index("nothing else to restore: ")
    assert nothing.count(".env differs") == 1
    (kept.project / "src" / "b.py").unlink()
    done = kept("restore", "@", "--yes")
    assert f"lastgood restore {saved} -- .env\n" in done.err
    inside = kept("restore", "@", "--yes", cwd=kept.project / "src").out
    assert f"lastgood restore {saved} -- ../.env\n" in inside
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    shown = kept.terminal("restore", "@", answers="y\n").out
    assert f"lastgood restore {saved} -- .env\n" in plain(shown).partition("Go ahead?")[0]
    assert (kept.project / ".env").read_text(encoding="utf-8") == "BROKEN\n"


def test_what_will_be_deleted_is_named_first(kept: Command) -> None:
    """T1: what is made for files is no news."""
    (kept.project / "src" / "b.py").unlink()
    (kept.project / "src").rmdir()
    (kept.project / "zz.txt").write_text("junk\n", encoding="utf-8")
    kept("save", "later")
    shown = kept.terminal("restore", "two", answers="n\n", expect=130).out
    assert re.search(r"\n  delete  zz\.txt\n  create  src/b\.py\n", plain(shown)), shown
    assert "mkdir" not in shown
    assert "\x1b[31m  delete  zz.txt\x1b[0m" in shown


def plain(text: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", text)


def test_a_question_names_each_path_once_and_marks_what_nothing_has_kept(kept: Command) -> None:
    """T1: a restore of an older state, over edits."""
    (kept.project / "a.txt").write_text("mine\n", encoding="utf-8")
    (kept.project / "mine.txt").write_text("mine\n", encoding="utf-8")
    (kept.project / "new.txt").unlink()
    shown = plain(kept.terminal("restore", "one", answers="n\n", expect=130).out)
    told = [line for line in shown.partition("Go ahead?")[0].splitlines() if line.startswith("  ")]
    at = kept("list", "--json").json["checkpoints"][0]["id"][:13]
    assert told == [
        f"  delete  mine.txt  (added since {at})",
        f"  change  a.txt  (modified since {at})",
        f"  stays   new.txt  (deleted since {at})",
    ]


def test_a_question_too_long_for_the_screen_tells_of_all_that_will_be_deleted(kept: Command) -> None:
    """T1: by folders that go whole, and how many more."""
    (kept.project / "out" / "deep").mkdir(parents=True)
    for number in range(30):
        (kept.project / "out" / "deep" / f"{number}.txt").write_text("made\n", encoding="utf-8")
        (kept.project / f"{number:02}.txt").write_text("made\n", encoding="utf-8")
    (kept.project / "a.txt").write_text("mine\n", encoding="utf-8")
    shown = plain(kept.terminal("restore", "@", answers="n\n", expect=130).out)
    assert "  delete  out/  (30 paths)\n" in shown
    listed = len(re.findall(r"  delete  \d\d\.txt\n", shown))
    assert f"  and {31 - listed} more, {30 - listed} of them to delete (all of them: --dry-run)\n" in shown
    assert "  change" not in shown


def test_a_shell_in_a_folder_that_was_deleted_is_told_to_leave_it(kept: Command) -> None:
    """T12a: also of a folder within the workspace, where all was brought back already."""
    restores = f"{sys.executable} {COMMAND} restore @ --yes"
    script = f"cd src && rm -r ../src && {restores} && {restores}"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=kept.project,
        env=kept.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (kept.project / "src" / "b.py").is_file()
    assert done.stderr.count(f"cd {kept.project}/src\n") == 2


def test_a_path_that_git_ignores_is_told_so_also_when_it_is_gone(kept: Command) -> None:
    """S5: without a slash too it is no checkpoint's name."""
    (kept.project / ".gitignore").write_text("build/\n", encoding="utf-8")
    (kept.project / "build").mkdir()
    kept("save", "with a rule")
    (kept.project / "build").rmdir()
    said = kept("restore", "build", "--yes", expect=10).err
    assert said.startswith(
        "lastgood: no checkpoint holds the path 'build': git ignores it, and of what git ignores only "
        "small files like .env are held, so it cannot come back\n"
    )
    assert "status --ignored" not in said  # which lists what is there
    assert "no checkpoint holds 'build': git ignores it, " in kept("log", "build", expect=10).err


def test_a_path_as_it_is_shown_is_found_from_within_a_folder(kept: Command) -> None:
    """T1: what is printed is relative to the top."""
    (kept.project / "other").mkdir()
    (kept.project / "other" / "b.py").write_text("print(2)\n", encoding="utf-8")
    kept("save", "two of them")
    said = kept("restore", "src/b.py", "--yes", expect=10, cwd=kept.project / "src").err
    assert "there is b.py: lastgood restore b.py\n" in said
    assert "other" not in said


def test_a_path_as_it_is_shown_is_understood_in_each_folder(kept: Command) -> None:
    """K2: on a terminal; a program is told how to type it."""
    (kept.project / "deep").mkdir()
    (kept.project / "deep" / "a.txt").write_text("deep\n", encoding="utf-8")
    kept("save", "with another of that name")
    (kept.project / "src" / "b.py").unlink()
    here = Command(kept.project / "src", kept.store)
    for words in (("log",), ("cat",), ("cat", "@"), ("diff",), ("diff", "@"), ("diff", "@", "--")):
        seen = here.terminal(*words, "src/b.py").out
        assert seen.startswith("lastgood: 'src/b.py' is taken as b.py\n"), words
        assert seen.partition("\n")[2] == here.terminal(*words, "b.py").out != "", words
    assert Command(kept.project / "deep", kept.store).terminal("cat", "a.txt").out == "deep\n"
    for words in (("log",), ("cat",), ("diff",), ("restore", "--yes"), ("restore", "--yes", "@")):
        refused = here(*words, "src/b.py", expect=10).err
        assert re.findall(r"there was b\.py: lastgood (.*)\n", refused) == [
            f"{words[0]} {'@ -- ' if '@' in words else ''}b.py"
        ]


def test_a_yes_after_the_paths_of_a_restore_is_told_where_it_belongs(kept: Command) -> None:
    """It is added to the end of a command that was printed, as `lastgood restore ID -- .env`."""
    (kept.project / "a.txt").write_text("third\n", encoding="utf-8")
    refused = kept("restore", "@", "--", "a.txt", "src", "--yes", expect=2).err
    assert refused.endswith("with --yes before it: lastgood restore @ --yes -- a.txt src\n")
    assert "--dry-run" in kept("restore", "@", "--", "--yes", expect=2).err
