"""Somebody else's JSON stays as it is but for our entries (RFC 8259)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import Invalid
from lastgood.hooks.settings_text import appended, read, without

OURS = {"hooks": [{"args": ["hook"]}]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.dictionaries(st.sampled_from("ABC"), st.lists(VALUES, min_size=1, max_size=3), min_size=1)
SETTINGS = st.dictionaries(st.sampled_from(["a", "hook", "z"]), VALUES) | st.builds(
    lambda before, events, after: {**before, "hooks": events, **after},
    st.dictionaries(st.sampled_from("ab"), VALUES),
    EVENTS,
    st.dictionaries(st.sampled_from("yz"), VALUES),
)
INDENTS = st.sampled_from([None, 0, 1, 2, 4, "\t"])
ENDS = st.sampled_from(["", "\n", "\r\n", "\n\n"])


def is_ours(value: object) -> bool:
    return value == OURS


@given(SETTINGS, INDENTS, ENDS)
def test_an_entry_is_added_and_taken_out_to_the_byte(
    settings: dict[str, Any], indent: int | str | None, end: str
) -> None:
    text = json.dumps(settings, indent=indent, ensure_ascii=bool(end)) + end
    keys = ("hooks", "A")

    longer = appended(text, keys, OURS)

    told = json.loads(longer)
    hooks = settings.get("hooks", {})
    assert told == settings | {"hooks": hooks | {"A": [*hooks.get("A", []), OURS]}}
    assert [*told][: len(settings)] == [*settings]
    assert without(longer, keys, is_ours) == text
    assert without(appended(longer, keys, OURS), keys, is_ours) == text


@given(SETTINGS, INDENTS)
def test_what_has_no_such_entry_stays_as_it_is(settings: dict[str, Any], indent: int | str | None) -> None:
    text = json.dumps(settings, indent=indent)
    assert without(text, ("hooks", "A"), is_ours) == text


def test_an_entry_is_written_as_its_neighbours_are() -> None:
    text = json.dumps({"hooks": {"A": [1]}}, indent="\t")
    assert appended(text, ("hooks", "A"), {"b": [2]}) == json.dumps(
        {"hooks": {"A": [1, {"b": [2]}]}}, indent="\t"
    )
    assert appended('{"hooks": {"A": [1]}}', ("hooks", "A"), {"b": 2}) == '{"hooks": {"A": [1, {"b": 2}]}}'


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1,}', "// no\n{}", "3"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"settings\.json is no JSON"):
        read(text, what="settings.json")
