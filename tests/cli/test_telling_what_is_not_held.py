"""What is not held, at the command line (rules S5, T12a)."""

from __future__ import annotations

import os
import shutil

from tools.command import Command


def built(lastgood: Command) -> None:
    for name in ("build/a.o", "venv/bin/python", "a.c", "b.c", "c.c", "d.c"):
        path = lastgood.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content\n")
    (lastgood.project / ".gitignore").write_text("build/\n")


def test_a_save_counts_what_is_ignored(lastgood: Command) -> None:
    """S5."""
    built(lastgood)
    done = lastgood("save", "first")
    assert ", 2 ignored, " in done.out
    assert "not saved, being ignored: " in done.err


def test_a_save_says_first_that_rules_leave_out_most(lastgood: Command) -> None:
    """S5."""
    built(lastgood)
    (lastgood.project / ".gitignore").write_text("*\n")
    shown = lastgood.terminal("save", "first").out.splitlines()
    assert shown[0].startswith("rules leave out most of this folder: 6 ignored entries are not held")
    assert shown[-1].startswith("saved ")


def test_a_restore_after_a_clean_says_in_one_line_what_it_could_not_bring_back(lastgood: Command) -> None:
    """S5."""
    built(lastgood)
    lastgood("save", "first")
    for folder in ("build", "venv"):
        shutil.rmtree(lastgood.project / folder)
    (lastgood.project / "a.c").unlink()
    document = lastgood("restore", "@", "--dry-run", "--json").json
    assert document["not_held"] == [
        {"path": "build", "reason": "ignored"},
        {"path": "venv", "reason": "ignored"},
    ]
    for told in (
        lastgood("restore", "@", "--dry-run").out,
        lastgood("restore", "@", "--yes").err,
        lastgood("restore", "@", "--yes").out,
    ):
        assert "venv does not come back: tools make it anew, and no checkpoint has it\n" in told
        assert "build does not come back: git is told to ignore it, so no checkpoint has it\n" in told
        assert "to have build held from now on: lastgood config set capture.include build --project\n" in told


def test_what_is_ignored_is_held_once_the_command_was_typed_that_is_told(lastgood: Command) -> None:
    """S5: beside what was held before."""
    built(lastgood)
    (lastgood.project / ".gitignore").write_text("build/\nweb/out\n")
    (lastgood.project / "web" / "out").mkdir(parents=True)
    (lastgood.project / "web" / "out" / "a.js").write_text("1\n")
    lastgood("save", "first")
    for path, told in (("build", "build"), ("web/out", "build,web/out")):
        shutil.rmtree(lastgood.project / path)
        said = lastgood("restore", path, "--yes", expect=10).err
        command = f"config set capture.include {told} --project"
        assert f"to have it held from now on: lastgood {command}\n" in said
        lastgood(*command.split())
    built(lastgood)
    lastgood("save", "second")
    shutil.rmtree(lastgood.project / "build")
    lastgood("restore", "@", "--yes")
    assert (lastgood.project / "build" / "a.o").exists()


def test_what_is_missing_beyond_what_is_named_is_told_as_at_least(lastgood: Command) -> None:
    """S5: a hundred are named; whether the others are missing nobody knows, unless the folder was gone."""
    for number in range(130):
        (lastgood.project / f"{number:03}.log").touch()
    for number in range(140):
        (lastgood.project / f"{number:03}.c").touch()
    (lastgood.project / ".gitignore").write_text("*.log\n")
    lastgood("save", "first")
    shown = lastgood("show", "@", "--json").json["checkpoint"]
    assert shown["ignored"] == 130
    first = ", ".join(f"{number:03}.log" for number in range(10))

    for number in range(130):
        (lastgood.project / f"{number:03}.log").unlink()
    document = lastgood("restore", "@", "--dry-run", "--json").json
    assert (len(document["not_held"]), document["not_held_unnamed"]) == (100, 30)
    said = lastgood("restore", "@", "--dry-run").out
    assert f"{first} and at least 90 more do not come back: git is told to ignore them, so " in said
    assert "config set capture.include PATTERN --project" in said

    for number in range(1, 130):
        (lastgood.project / f"{number:03}.log").touch()
    said = lastgood("restore", "@", "--dry-run").out
    assert "000.log does not come back, nor perhaps 30 that are not named: git is told to ignore it, " in said

    shutil.rmtree(lastgood.project)
    home = lastgood.project.parent
    place = str(lastgood.project)
    said = lastgood("-C", place, "restore", "@", "--yes", cwd=home).err
    assert f"{first} and 120 more do not come back: " in said


def test_status_says_how_much_is_ignored_and_lists_it_when_asked(lastgood: Command) -> None:
    """S5."""
    built(lastgood)
    lastgood("save", "first")
    assert "ignored      2 entries not held; which: lastgood status --ignored\n" in lastgood("status").out
    shown = lastgood("status", "--ignored").out
    assert "ignored      2 entries not held\n" in shown
    assert "  build/\n" in shown
    assert lastgood("status", "--json").json["ignored"] == ["build/", "venv/"]


def test_status_says_how_much_of_what_was_not_held_is_gone(lastgood: Command) -> None:
    """S5."""
    built(lastgood)
    lastgood("save", "first")
    assert "did not hold" not in lastgood("status").out
    shutil.rmtree(lastgood.project / "build")
    told = lastgood("status").out
    assert "ignored      1 entry not held; which: lastgood status --ignored\n" in told
    assert "             1 entry that the checkpoint did not hold is gone: build/\n" in told
    shutil.rmtree(lastgood.project / "venv")
    told = lastgood("status").out
    gone = "2 entries that the checkpoint did not hold are gone: build/ and venv/\n"
    assert f"ignored      {gone}" in told
    (lastgood.project / "lib" / "build").mkdir(parents=True)  # is no amends for what is gone
    (lastgood.project / "lib" / "build" / "a.o").touch()
    assert f"             {gone}" in lastgood("status").out


def test_status_does_not_count_caches_that_were_cleared_among_what_is_gone(lastgood: Command) -> None:
    """S5."""
    built(lastgood)
    cache = lastgood.project / "__pycache__"
    cache.mkdir()
    lastgood("save", "first")
    cache.rmdir()
    assert "did not hold" not in lastgood("status").out
    shutil.rmtree(lastgood.project / "build")
    assert "1 entry that the checkpoint did not hold is gone: build/\n" in lastgood("status").out


def too_large(lastgood: Command) -> None:
    built(lastgood)
    (lastgood.project / "big.bin").touch()
    os.truncate(lastgood.project / "big.bin", 38 << 20)
    lastgood("save", "first", expect=3)
    (lastgood.project / "big.bin").unlink()


LACKS = "big.bin is missing, and does not come back: the checkpoint does not hold it (too-large, 38.0 MiB)\n"


def test_where_all_else_is_there_a_missing_large_file_is_told(lastgood: Command) -> None:
    """S7."""
    too_large(lastgood)
    done = lastgood("restore", "@", "--yes", expect=3)
    assert (done.code, LACKS in done.out) == (3, True)
    assert "already" in done.out
    assert "what was asked for" not in done.out


def test_a_missing_large_file_is_told_beside_what_came_back(lastgood: Command) -> None:
    """S7."""
    too_large(lastgood)
    (lastgood.project / "a.c").unlink()
    look = lastgood("restore", "@", "--dry-run")
    assert (look.code, LACKS in look.out) == (0, True)
    done = lastgood("restore", "@", "--yes", expect=3)
    assert (done.code, LACKS in done.err) == (3, True)
    aside = lastgood("restore", "@", "--to", str(lastgood.project.parent / "aside"), expect=3)
    assert (aside.code, LACKS in aside.err) == (3, True)


def test_a_missing_large_file_is_in_the_plan_that_is_asked_about(lastgood: Command) -> None:
    """S7."""
    too_large(lastgood)
    (lastgood.project / "a.c").unlink()
    shown = lastgood.terminal("restore", "@", answers="y", expect=3)
    assert "big.bin is missing, and does not come back" in shown.out


def test_a_missing_large_file_is_in_the_document(lastgood: Command) -> None:
    """S7."""
    too_large(lastgood)
    document = lastgood("restore", "@", "--yes", "--json", expect=3).json
    assert document["not_held"] == [{"path": "big.bin", "reason": "too-large", "size": 38 << 20}]


def test_a_later_save_names_what_it_leaves_out_as_before(lastgood: Command) -> None:
    """S7."""
    too_large(lastgood)
    (lastgood.project / "big.bin").touch()
    os.truncate(lastgood.project / "big.bin", 38 << 20)
    (lastgood.project / "a.c").write_text("more\n")
    done = lastgood("save", "second")
    assert done.code == 0
    assert "not saved, as before: big.bin (too-large)\n" in done.err


def test_that_nothing_is_left_out_is_said_when_asked(lastgood: Command) -> None:
    (lastgood.project / "a.txt").write_text("a\n")
    lastgood("save")
    assert "ignored      nothing that is here is left out\n" in lastgood("status", "--ignored").out


def test_a_status_calls_gone_what_is_gone_and_names_it(lastgood: Command) -> None:
    """S5: what is not ignored any more is still there."""
    built(lastgood)
    lastgood("save", "first")
    (lastgood.project / ".gitignore").unlink()
    assert "did not hold" not in lastgood("status").out
    (lastgood.project / ".gitignore").write_text("build/\n")
    shutil.rmtree(lastgood.project / "build")
    assert "1 entry that the checkpoint did not hold is gone: build/\n" in lastgood("status").out
