"""Secrets with a known shape do not leave the store in text (S17)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversation.secrets_corpus import HARMLESS, SENTENCES, TOKENS
from lastgood.redaction import (
    ASSIGNED,
    AUTHORIZATION,
    CONTEXTS,
    first_secret,
    harmless,
    redact,
    redact_lines,
    redact_value,
    secrets_in,
    spans,
)
from lastgood.redaction import TOKENS as TOKENS_BY_VENDOR
from lastgood.workspace import Workspace


@pytest.mark.parametrize("shape", sorted(TOKENS))
def test_a_token_of_a_known_vendor_is_found_and_left_out(shape: str) -> None:
    """S17."""
    token = TOKENS[shape]
    for text in (f"see {token} here", f'"{token}"', f"x={token}\n", f"<{token}>"):
        left = redact(text)
        assert f"[redacted: {shape}]" in left
        assert token[-10:] not in left
    assert secrets_in(f"one\ntwo {token}\nthree".encode()) == ((shape, 2),)


@pytest.mark.parametrize(("text", "secret"), SENTENCES)
def test_a_secret_that_its_surroundings_announce_is_found_and_left_out(text: str, secret: str) -> None:
    """S17."""
    assert secret in text
    assert secret not in redact(text)
    assert secrets_in(b"\n\n" + text.encode())[0][1] == 3


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    """S17."""
    assert redact(text) == text
    assert secrets_in(text.encode()) == ()


def test_every_secret_of_a_text_is_left_out_and_the_rest_stays() -> None:
    """S17."""
    text = "".join(f"[{shape}] {token} end of it\n" for shape, token in sorted(TOKENS.items()))
    left = redact(text)
    assert left.count("end of it") == len(TOKENS)
    assert not any(token[-10:] in left for token in TOKENS.values())
    assert [line for _, line in secrets_in(text.encode())] == list(range(1, len(TOKENS) + 1))


def spelled_out(text: str) -> list[tuple[int, int, str]]:
    """Find secrets as slowly as it can be said: every pattern over the whole text."""
    found = []
    for shape in (*TOKENS_BY_VENDOR, AUTHORIZATION, *CONTEXTS):
        for match in shape.pattern.finditer(text):
            group = 1 if match.re.groups else 0
            if not group or not harmless(match[1]):
                found.append((*match.span(group), shape.name))
    return found


SHAPES = [shape.pattern.pattern for shape in (*TOKENS_BY_VENDOR, AUTHORIZATION, *CONTEXTS)]
PIECES = st.one_of(
    st.sampled_from(SHAPES).flatmap(st.from_regex),
    st.sampled_from([literal for shape in (*TOKENS_BY_VENDOR, *CONTEXTS) for literal in shape.literals]),
    st.from_regex(ASSIGNED),
    st.sampled_from([text for text, _ in SENTENCES]),
    st.sampled_from(
        ["a", "_", "-", " ", "\n", "=", '"', "9", "\u0130", "\u017f", "\u212a", "\xe9", "://", "@"]
    ),
    st.text(max_size=5),
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_the_quick_search_finds_what_the_patterns_find(text: str) -> None:
    """S17: where a search begins by literals alone, it passes nothing over."""
    found = [span for span in spans(text, named=False) if span[2] != "private-key"]
    assert sorted(found) == sorted(spelled_out(text))


@given(st.lists(PIECES, max_size=8).map("".join))
def test_the_quick_search_finds_every_assignment(text: str) -> None:
    """S17: the same text with a letter that has no lower case of its own is searched by the pattern alone."""
    quick = [span for span in spans(text, named=True) if span[2] == "assigned-secret"]
    slow = [span for span in spans(text + " \u017f", named=True) if span[2] == "assigned-secret"]
    assert quick == slow


def test_no_letter_but_four_stands_for_one_of_the_alphabet() -> None:
    """S17: names are looked for in lower case, which but for these is what a pattern in any case matches."""
    letter = re.compile("(?i)[a-z]")
    others = {chr(code) for code in range(128, 0x110000) if letter.match(chr(code))}
    assert others == set("\u0130\u0131\u017f\u212a")
    for one in others:
        assert redact(f"pa{one}{one}word=hunter2! api_{one}ey=hunter2! toKen=hunter2!").count("redacted") >= 1


@given(st.text())
def test_redacting_twice_is_redacting_once(text: str) -> None:
    """S17."""
    once = redact(text + " password=hunter2!")
    assert redact(once) == once


@given(st.binary(max_size=300))
def test_no_bytes_are_too_odd_to_be_looked_at(content: bytes) -> None:
    """S17."""
    assert isinstance(secrets_in(content), tuple)
    redact_lines(content)


def test_secrets_in_files_that_are_no_text_are_found_by_their_shape() -> None:
    """S17."""
    token = TOKENS["github-token"]
    assert secrets_in(b"\0\1\n" + token.encode()) == (("github-token", 2),)
    assert secrets_in(b"\0password=hunter2!") == ()
    assert secrets_in(f"x {token}".encode("utf-16")) == (("github-token", 1),)


@pytest.mark.parametrize(("encoding", "wide"), [("latin-1", 1), ("utf-16", 2)])
def test_a_large_file_is_looked_at_in_parts(encoding: str, wide: int) -> None:
    """S17: wherever in it the secret stands, also across the end of a part."""
    lines = ("as good as nothing, " * 50 + "\n") * (4_500 // wide)
    part = (4 << 20) // wide
    token = TOKENS["anthropic-key"]
    assert first(lines.encode(encoding)) is None
    for place in (0, part, part - 40, part + 70_000, len(lines)):
        for secret, shape in ((f" {token} ", "anthropic-key"), (" password=hunter2! ", "assigned-secret")):
            content = (lines[:place] + secret + lines[place:]).encode(encoding)
            assert first(content) == (shape, lines[:place].count("\n") + 1)
    assert first(("\0" + lines + "password=hunter2!").encode(encoding)) is None
    assert first(("\0" + lines + f" {token}").encode(encoding)) == ("anthropic-key", lines.count("\n") + 1)


def first(content: bytes) -> tuple[str, int] | None:
    return first_secret(lambda at, size: content[at : at + size], len(content))


def test_values_under_a_secret_name_are_left_out() -> None:
    """S17."""
    value = {"env": {"DB_PASSWORD": "swordfish", "HOME": "/root", "input_tokens": 123456}, "list": ["plain"]}
    assert redact_value(value) == {
        "env": {"DB_PASSWORD": "[redacted: assigned-secret]", "HOME": "/root", "input_tokens": 123456},
        "list": ["plain"],
    }


def test_a_redacted_transcript_is_still_json_line_by_line() -> None:
    """S17."""
    quiet = b'{"a": 1,  "b": "kept as it was"}'
    loud = json.dumps({"text": 'export API_KEY="abcdef123456"\npassword: "x\\y1234"'}).encode()
    key = b"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"
    content = b"\n".join((quiet, loud, key, b"\xff\xfe", quiet, b""))
    lines = redact_lines(content).split(b"\n")
    assert lines[0] == lines[-2] == quiet
    assert "abcdef123456" not in json.loads(lines[1])["text"]
    assert lines[2:4] == [b"[redacted: private-key]", b"\xff\xfe"]


def test_the_store_keeps_what_the_eyes_are_spared(workspace: Workspace, tmp_path: Path) -> None:
    """S17."""
    message = {"role": "user", "content": f"use {TOKENS['anthropic-key']} please"}
    checkpoint = workspace.save(messages=[message]).checkpoint
    assert workspace.conversation(checkpoint.id) == (message,)
    assert workspace.conversation(checkpoint.id, redacted=True) == (
        {"role": "user", "content": "use [redacted: anthropic-key] please"},
    )
