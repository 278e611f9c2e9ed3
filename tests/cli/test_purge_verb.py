"""purge at the command line: shown first, asked for, and gone (rule S5)."""

from __future__ import annotations

import pytest

from tools.command import Command

SECRET = "TOKEN=a very secret word\n"


@pytest.fixture
def leaky(lastgood: Command) -> Command:
    """Return the command in a project that saved a key twice."""
    (lastgood.project / "key").write_text(SECRET)
    lastgood("save", "one", "--name", "one")
    (lastgood.project / "other").write_text("other\n")
    (lastgood.project / "copy").write_text(SECRET)
    lastgood("save", "two", "--name", "two")
    return lastgood


def test_a_dry_run_shows_where_it_is_and_changes_nothing(leaky: Command) -> None:
    """S5."""
    shown = leaky("purge", "key", "--dry-run", "--everywhere").out.splitlines()
    assert shown[0] == "key: 1 version, 25 B, in 2 checkpoints"
    assert [line.split()[1:] for line in shown[1:3]] == [["copy,", "key"], ["key"]]
    assert shown[3] == "The same content goes at 1 other path: copy"
    assert leaky("cat", "two", "key").out == SECRET


def test_without_a_terminal_it_needs_a_yes(leaky: Command) -> None:
    """S5: it cannot be undone."""
    refused = leaky("purge", "key", expect=2)
    assert "--yes" in refused.err
    assert leaky("cat", "two", "key").out == SECRET


def test_the_command_that_looks_first_is_for_the_path_that_was_given(leaky: Command) -> None:
    """S5."""
    refused = leaky("purge", "a key", "--everywhere", expect=2)
    assert "look first: lastgood purge 'a key' --everywhere --dry-run\n" in refused.err


def test_on_a_terminal_it_shows_and_asks_first(leaky: Command) -> None:
    """S5."""
    declined = leaky.terminal("purge", "key", "--everywhere", answers="n\n", expect=None)
    assert "key: 1 version, 25 B, in 2 checkpoints" in declined.out
    assert "It cannot be undone. [y/N]" in declined.out
    assert leaky("cat", "two", "key").out == SECRET
    done = leaky.terminal("purge", "key", "--everywhere", answers="y\n")
    assert "purged key: 1 version out of 2 checkpoints, none is stored any more" in done.out
    leaky("cat", "two", "key", expect=10)


def test_it_says_what_it_does_not_reach_and_what_became_of_checkpoints(leaky: Command) -> None:
    """S5."""
    done = leaky("purge", "key", "--yes", "--everywhere")
    assert "not reached: exported files, conversations, what runs printed, and the file itself" in done.err
    shown = leaky("show", "two").out
    assert "key (purged)" in shown
    assert "copy (purged)" in shown
    assert "1 checkpoint whole" not in leaky("verify").out
    assert "2 checkpoints whole" in leaky("verify").out
    again = leaky("purge", "key", "--yes", "--everywhere")
    assert "purged before; nothing of it is left" in again.out


def test_a_file_that_is_gone_is_not_said_to_be_saved_again(leaky: Command) -> None:
    """S5."""
    (leaky.project / "copy").unlink()
    kept = leaky("purge", "key", "--yes", "--everywhere")
    assert "next save takes in again" in kept.err
    (leaky.project / "key").unlink()
    gone = leaky("purge", "key", "--yes")
    assert gone.err == "not reached: exported files, conversations and what runs printed\n"


def test_it_is_one_document(leaky: Command) -> None:
    """S5."""
    document = leaky("purge", "key", "--dry-run", "--everywhere", "--json").json
    assert (document["schema"], document["dry_run"]) == ("lastgood.purge/1", True)
    assert (document["path"], document["size"], len(document["contents"])) == ("key", 25, 1)
    assert document["elsewhere"] == ["copy"]
    assert [one["paths"] for one in document["checkpoints"]] == [["copy", "key"], ["key"]]
    done = leaky("purge", "key", "--yes", "--everywhere", "--json").json
    assert (done["dry_run"], done["not_searched"]) == (False, [])


def test_what_is_at_another_path_too_stays_and_is_named_before_anything_is_done(leaky: Command) -> None:
    """S5."""
    (leaky.project / "key").write_text("another\n")
    leaky("save", "three", "--name", "three")
    done = leaky("purge", "key", "--yes", expect=3)
    assert "1 version will stay, being at 1 other path too: copy" in done.err
    assert "--everywhere" in done.err
    assert "purged key: 1 version out of 1 checkpoint" in done.out
    assert leaky("cat", "two", "copy").out == SECRET
    leaky("cat", "three", "key", expect=10)
    gone = leaky("purge", "key", "--yes", "--everywhere")
    assert "The same content goes at 1 other path: copy" in gone.err
    leaky("cat", "two", "copy", expect=10)


def test_where_all_of_it_is_at_another_path_too_it_says_that_nothing_went(leaky: Command) -> None:
    """S5."""
    done = leaky("purge", "key", "--yes", "--json", expect=3).json
    assert (done["contents"], done["spared"], len(done["spared_contents"])) == ([], ["copy"], 1)
    assert "nothing of key was purged" in leaky("purge", "key", "--yes", expect=3).out
