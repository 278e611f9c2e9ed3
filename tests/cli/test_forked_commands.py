"""A command in a fork, as most tests run it, does what a started one does."""

from __future__ import annotations

import pytest

from tools.command import Command, command, started_command

VERBS = [
    ["list"],
    ["status"],
    ["show", "one"],
    ["diff", "one"],
    ["log", "a.txt"],
    ["cat", "one:a.txt"],
    ["verify"],
    ["restore", "one", "--dry-run"],
    ["restore", "nothing"],
    ["help"],
    ["--version"],
    ["no-such-verb"],
    ["config"],
    ["task", "list"],
    ["session", "list", "--json"],
]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_forked_command_says_what_a_started_one_says(kept: Command, words: list[str]) -> None:
    forked, started = (
        run(words, folder=kept.project, environment=kept.environment) for run in (command, started_command)
    )
    assert (forked.code, forked.out, forked.err) == (started.code, started.out, started.err)
