"""A command that is shown can be typed, whatever the names in it are, and does nothing to the terminal."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.cli.grammar import quoted
from lastgood.paths import printable


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("plan.yaml", "plan.yaml"),
        ("a plan's.yaml", "'a plan'\\''s.yaml'"),
        ("~", "'~'"),
        ("", "''"),
        ("übung", "übung"),
        ("a\n\x1b[31m'\\\udcff", "$'a\\x0a\\x1b[31m\\'\\\\\\xff'"),
    ],
)
def test_a_word_is_quoted_where_a_shell_would_read_it_otherwise(word: str, shown: str) -> None:
    assert quoted(word) == shown


@settings(max_examples=25)
@given(st.lists(st.binary(max_size=12).filter(lambda word: b"\0" not in word), min_size=1, max_size=20))
def test_a_shell_reads_back_every_word_as_it_was(words: list[bytes]) -> None:
    texts = [quoted(os.fsdecode(word)) for word in words]
    assert all(printable(text) == text for text in texts)
    script = b"printf '%s\\0' " + os.fsencode(" ".join(texts))
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == words
