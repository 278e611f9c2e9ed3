"""What is said when something does not go as meant: what, why, and what to type, for the same place."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lastgood as package
from lastgood.cli.hints import completed
from lastgood.cli.plans import at_work_lines, choosing_lines, done_words, run_line
from lastgood.cli.reader import read
from lastgood.cli.wording import fitted
from lastgood.errors import count
from lastgood.model.operation import CONFLICT, Outcome, PartOutcome
from lastgood.model.session import Session
from lastgood.paths import quoted
from lastgood.processes import ProcFiles
from tools.command import COMMAND, Command, told
from tools.report_records import session
from tools.terminal import Terminal


def test_a_number_comes_with_its_noun_in_the_right_form() -> None:
    """It was `2 daies` once."""
    assert (count(1, "day"), count(1_000, "day"), count(2, "entry")) == ("1 day", "1,000 days", "2 entries")


def test_hints_keep_the_folder_and_the_store_as_given(kept: Command) -> None:
    """Output: what is to be typed next can be typed from here."""
    place = ("-C", str(kept.project), "--store", str(kept.store))
    for words, hint in (
        (("show", "nosuch"), "list"),
        (("restore", "@good", "--yes"), "check @ -- COMMAND"),
        (("undo",), "restore @"),
        (("restore", "@{90d}", "--yes"), "list"),
    ):
        done = kept(*place, *words, cwd=kept.store, expect=10)
        assert f"lastgood {' '.join(place)} {hint}" in done.err
        assert f"lastgood {hint}" not in done.err
    document = kept(*place, "show", "nosuch", "--json", cwd=kept.store, expect=10).json
    assert f"lastgood {' '.join(place)} list" in document["error"]["hint"]


def test_a_note_that_is_called_hint_is_told_as_it_was_given(kept: Command) -> None:
    """K4: it is its author's, whatever command it names."""
    said = {"hint": "try lastgood list first"}
    done = kept("-C", str(kept.project), "save", "one", "--meta", f"hint={said['hint']}", "--json")
    assert done.json["checkpoint"]["metadata"] == said


def test_all_else_is_said_to_be_done_only_where_it_is() -> None:
    """T10, T17: beside a file that stays as it is, with the other version at its side."""
    conflict = (
        Outcome(path=b"a", action="skip", result="skipped", reason=CONFLICT),
        Outcome(path=b"a.lastgood-ckpt_1", action="write", result="restored"),
    )
    done, kept, failed = (
        Outcome(path=b"b", action="write", result="restored"),
        Outcome(path=b"c", action="keep", result="kept"),
        Outcome(path=b"d", action="write", result="failed"),
    )
    progress = PartOutcome(scope="progress", result="kept")
    left = "Left to you is which version of a stays: one of the commands above."
    assert choosing_lines((*conflict, done, kept), ()) == [f"All else is done. {left}"]
    for others, parts in (((), ()), ((kept,), ()), ((done, failed), ()), ((done,), (progress,))):
        assert choosing_lines((*conflict, *others), parts) == [left]
    assert choosing_lines((done, failed), ()) == []


@pytest.mark.parametrize("place", ["plain", "with space", "it's", 'say "so"', 'it\'s "so"', "a\nb'c"])
def test_hints_keep_the_store_beside_a_folder_of_any_name(place: str) -> None:
    call = read(["--store", "s t", "-C", place, "list"])
    hint = f"make it again: lastgood -C {quoted(place)} restore @"
    whole = f"make it again: lastgood -C {quoted(place)} --store 's t' restore @"
    assert completed(hint, call) == whole
    assert completed(hint.replace(quoted(place), shlex.quote(place)), call) == whole.replace(
        quoted(place), shlex.quote(place)
    )


def test_a_store_that_was_named_and_is_not_there_is_no_empty_one(kept: Command, tmp_path: Path) -> None:
    typed = tmp_path / "mistyped"
    for words, code in ((("list",), 0), (("restore", "@", "--yes"), 10)):
        done = kept("--store", str(typed), *words, expect=code)
        assert f"there is no store at {typed}\n  to make it: lastgood --store {typed} save\n" in done.err
    assert not typed.exists()


def test_no_store_is_made_inside_the_workspace(lastgood: Command) -> None:
    """S12: what deletes the project would delete its safety net."""
    (lastgood.project / "a.txt").write_text("mine\n", encoding="utf-8")
    inside = lastgood.project / ".store"
    told(lastgood("--store", str(inside), "save", expect=15), 15)
    assert not inside.exists()


def test_a_store_that_is_inside_already_works_and_is_told_of(lastgood: Command) -> None:
    """S12: no checkpoint holds it."""
    (lastgood.project / "a.txt").write_text("mine\n", encoding="utf-8")
    lastgood("save", "one")
    inside = lastgood.project / ".store"
    lastgood.store.rename(inside)
    lastgood("--store", str(inside), "save", "two")
    health = lastgood("--store", str(inside), "status", "--json").json["health"]
    assert "store-inside" in [one["code"] for one in health]
    assert lastgood("--store", str(inside), "show", "@", "--json").json["checkpoint"]["files"] == 1


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("checkout", "lastgood restore REF [PATH...]"),
        ("revert", "lastgood undo"),
        ("stash", "lastgood save"),
        ("commit", "lastgood save MESSAGE"),
        ("version", "lastgood --version"),
    ],
)
def test_the_verbs_of_other_tools_are_answered_with_ours(lastgood: Command, word: str, hint: str) -> None:
    done = lastgood(word, expect=2)
    told(done, 2)
    assert hint in done.err


def test_a_dry_run_ends_with_the_command_that_does_it(kept: Command) -> None:
    """T1."""
    (kept.project / "a.txt").write_text("wrecked\n", encoding="utf-8")
    shown = kept("restore", "@", "a.txt", "--dry-run").out.splitlines()[-1]
    said = shown.removeprefix("Nothing changed. To do it: lastgood ")
    assert said != shown
    kept(*said.split())
    assert (kept.project / "a.txt").read_text(encoding="utf-8") == "second\n"


def test_what_changed_since_the_plan_is_named_in_a_sentence(kept: Command) -> None:
    """T8."""
    kept("restore", "one", "--yes")
    (kept.project / "a.txt").write_text("mine\n", encoding="utf-8")
    assert kept("undo", expect=13).err.startswith("lastgood: a.txt has changed since\n")


def test_hints_are_told_a_line_each(kept: Command) -> None:
    kept("restore", "one", "--yes")
    (kept.project / "a.txt").write_text("mine\n", encoding="utf-8")
    lines = kept("undo", expect=13).err.splitlines()
    assert [line for line in lines if "    " in line.strip()] == []
    assert sum("lastgood undo --" in line for line in lines) == 2


def test_what_could_not_be_restored_comes_first_with_why() -> None:
    """T10."""
    done = Outcome(path=b"a", action="write", result="restored")
    failed = Outcome(path=b"b", action="write", result="failed", reason="permission denied")
    alone = "could not restore 1 of 1 path of ckpt_1: permission denied"
    assert done_words([failed], "ckpt_1") == alone
    both = "could not restore 1 of 2 paths of ckpt_1: permission denied (1 file written)"
    assert done_words([done, failed], "ckpt_1") == both


def test_a_delete_at_a_terminal_asks(kept: Command) -> None:
    """As a restore does."""
    before = kept("list", "--json").json["checkpoints"]
    assert "nothing was changed" in kept.terminal("delete", "@", answers="n\n", expect=130).out
    assert kept("list", "--json").json["checkpoints"] == before
    kept.terminal("delete", "@", answers="y\n")
    assert len(kept("list", "--json").json["checkpoints"]) == len(before) - 1
    kept.terminal("delete", "one", "--yes")
    assert kept("list", "--json").json["checkpoints"] == []


def test_a_path_is_no_id_of_a_task(kept: Command) -> None:
    told(kept("task", "start", "../x", expect=12), 12)


def test_an_artifact_that_is_not_there_is_told_of(kept: Command) -> None:
    """P2: it may come to be."""
    done = kept("progress", "set", "--artifact", "draft.md", "--artifact", "a.txt")
    assert done.err.startswith("lastgood: there is no draft.md yet; it is recorded all the same\n")


def test_an_interrupted_save_says_that_nothing_was_saved(lastgood: Command) -> None:
    """S14: and nothing was."""
    with package.open(lastgood.project, store=lastgood.store, maintenance="off") as workspace:
        workspace.save("one", allow_empty=True)
    hold = (
        f"import fcntl, glob, os, time; found = [open(p, 'r+') for p in glob.glob({str(lastgood.store)!r}"
        " + '/locks/*')]; [fcntl.flock(one, fcntl.LOCK_EX) for one in found]; print(len(found), flush=True);"
        " time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert int(holder.stdout.readline()) > 0
        with Terminal(
            [sys.executable, COMMAND, "save", "two"], cwd=lastgood.project, environment=lastgood.environment
        ) as terminal:
            terminal.until("saving")
            terminal.type("\x03")
            assert terminal.end() == 130
            assert any("interrupted; nothing was saved" in line for line in terminal.shown)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    assert [one["message"] for one in lastgood("list", "--json").json["checkpoints"]] == ["one"]


def test_a_session_without_an_owner_says_how_it_ends(lastgood: Command) -> None:
    """P1: not by what its lease lives."""
    said = lastgood("session", "start").out.splitlines()
    assert said[-1] == "when the work is over: lastgood session end"
    assert ":" not in said[0]
    assert "is active: owner not known" in lastgood("status").out


def test_a_process_is_told_by_its_number_to_be_ended_only_where_that_is_its_number() -> None:
    """T14: on another machine, or in a container, `kill` would end another one here."""
    here = ProcFiles().owner(os.getpid())
    owners = (here, here.replace(host="elsewhere"), here.replace(namespace="pid:[1]"))
    sessions = [
        Session(id=f"ses_{number}", workspace_key="abc", owner=owner, started_at=0, heartbeat_at=0)
        for number, owner in enumerate(owners)
    ]
    ends = [line.partition(" Quit it before you go on, ")[2] for line in at_work_lines(sessions)]
    assert ends == [f"in its window or by: kill {os.getpid()}", "in its window.", "in its window."]


def test_a_session_whose_processes_are_gone_is_not_said_to_have_outlived_its_lease() -> None:
    """P1: that takes a day; who was at work in it is known to be gone at once."""
    left = session("sess_1", started=0, state="incomplete")
    assert "its lease ran out" in run_line(left, now=1)
    assert "who was at work in it is gone" in run_line(left.replace(owner_state="dead"), now=1)


def test_a_place_that_takes_over_one_checkpoint_says_so(kept: Command, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    made = len(kept("list", "--all", "--json").json["checkpoints"])
    kept.project.rename(elsewhere)
    said = kept("-C", str(elsewhere), "workspace", "attach", str(kept.project), cwd=elsewhere).out
    assert said == f"{elsewhere} took over {count(made, 'checkpoint')} of {kept.project}\n"


@pytest.mark.parametrize("name", [b"two\nlines", b"no \xff UTF-8", b"it's"])
def test_what_is_said_of_a_moved_folder_of_any_name_can_be_typed(
    name: bytes, kept: Command, tmp_path: Path
) -> None:
    """S19: the words that lead to its checkpoints mean that folder to a shell."""
    odd, moved = tmp_path / os.fsdecode(name), tmp_path / "moved"
    kept.project.rename(odd)
    kept("workspace", "attach", str(kept.project), cwd=odd)
    odd.rename(moved)
    hint = kept("list", cwd=moved).err.partition("lastgood workspace attach ")[2].partition("\n  make")[0]

    word = subprocess.run(["bash", "-c", f"printf %s {hint}"], capture_output=True, check=True).stdout
    kept("workspace", "attach", os.fsdecode(word), cwd=moved)

    assert kept("list", "--json", cwd=moved).json["checkpoints"]


def test_where_a_moved_folder_went_on_its_older_checkpoints_are_had_without_forgetting_the_newer(
    kept: Command, tmp_path: Path
) -> None:
    """S19: what is said first loses nothing."""
    moved = tmp_path / "moved"
    kept.project.rename(moved)
    (moved / "newer").write_text("newer")
    kept("save", "newer", cwd=moved)
    hint = kept("workspace", "attach", str(kept.project), cwd=moved, expect=13).err.splitlines()[1]

    words = shlex.split(hint.partition(": lastgood ")[2])

    assert words == ["-C", str(kept.project), "list"]
    assert "newer" not in {one["message"] for one in kept(*words, "--json", cwd=moved).json["checkpoints"]}


def test_a_path_that_a_checkpoint_does_not_have_is_answered_with_its_id(kept: Command) -> None:
    id = kept("list", "--json").json["checkpoints"][0]["short_id"]
    told(kept("restore", "@", "nosuch.xyz", "--yes", expect=10), 10)
    assert f"lastgood show {id} --files" in kept("restore", "@", "nosuch.xyz", "--yes", expect=10).err


def test_a_command_for_a_folder_far_down_goes_on_in_a_second_line_as_a_shell_takes_it() -> None:
    """Who copies both lines runs all of it; a terminal would break it within a word."""
    command = "lastgood -C '/home/ada/all of my work/shop' config set capture.include build --project"
    said = fitted(f"to have build held from now on: {command}", 80)
    assert said == [
        "to have build held from now on:",
        "  lastgood -C '/home/ada/all of my work/shop' \\",
        "    config set capture.include build --project",
    ]
    assert shlex.split("\n".join(said[1:]).replace("\\\n", "")) == shlex.split(command)
    farther = command.replace("shop", "shop " * 20)
    assert fitted(f"do: {farther}", 80)[1:] == [f"  {farther}"]
