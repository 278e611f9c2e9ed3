"""JSON is read as the standard library reads it, though mostly without it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import Damaged
from lastgood.model.canonical import dumps, loads

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), _VALUES), st.sampled_from(["", "\n", " \r\n\t"]))
def test_an_object_is_read_as_json_does(value: dict[str, object], end: str) -> None:
    text = json.dumps(value) + end
    assert loads(text, what="it") == loads(text.encode(), what="it") == json.loads(text)
    assert loads(" " + text, what="it") == json.loads(text)
    assert loads(dumps(value), what="it") == value


def test_what_is_wrong_is_told_also_before_the_library_was_ever_loaded() -> None:
    program = """
import sys
from lastgood.model.canonical import loads
from lastgood.errors import Damaged
assert loads('{"a":[1,{}]}', what="it") == {"a": [1, {}]}
assert "json" not in sys.modules
for text in ("{", '{"a":01}', "[1,", '{"a":"x', "tru"):
    for module in [name for name in sys.modules if name.startswith("json")]:
        del sys.modules[module]
    try:
        loads(text, what="it")
    except Damaged:
        continue
    sys.exit(text)
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env={"PYTHONPATH": ":".join(sys.path)}, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "x",
        '{"a":1}x',
        '{"a":01}',
        "{'a':1}",
        '{"a":"\n"}',
        "[1]",
        '"x"',
        "1",
        '{"a":' * 100_000,
    ],
)
def test_what_is_no_object_is_damage(text: str) -> None:
    with pytest.raises(Damaged, match="it is not"):
        loads(text, what="it")
    with pytest.raises(Damaged, match="it is not"):
        loads(text.encode() + b"\xff", what="it")
