"""Plain values come back as they were, share what they have in common, and are nothing but data."""

from __future__ import annotations

import math
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.errors import Damaged, Invalid
from lastgood.ledger.cells import pack, piece_id, references, unpack

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters(codec=None))
    | st.binary(max_size=600)
)
PAIRS = st.tuples(st.text(alphabet="abc/+", max_size=9), st.binary(max_size=600))
VALUES = st.recursive(
    SCALARS | PAIRS,
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(SCALARS, inner, max_size=40),
    max_leaves=120,
)


def came_back(value: object) -> object:
    cell, pieces = pack(value)
    return unpack(cell, pieces.__getitem__)


@settings(max_examples=50)
@given(VALUES)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    again = came_back(value)
    assert again == value
    assert repr(again) == repr(value)  # 1, 1.0 and True are equal, and not the same


@pytest.mark.parametrize("size", [0, 1, 255, 256, 8191, 8192, 8193, 500_000])
def test_long_texts_and_bytes_come_back_whole(size: int) -> None:
    assert came_back("ä" * size) == "ä" * size
    assert came_back(b"x" * size) == b"x" * size


def test_large_lists_and_dicts_come_back_in_their_order() -> None:
    numbers = list(range(100_000, 0, -1))
    assert came_back(numbers) == numbers
    named = {f"key {number}": number for number in numbers[:5000]}
    assert came_back(named) == named
    assert list(came_back(named)) == list(named)  # type: ignore[call-overload]


def test_not_a_number_stays_none() -> None:
    again = came_back(float("nan"))
    assert isinstance(again, float)
    assert math.isnan(again)


@pytest.mark.parametrize("seed", range(5))
def test_a_list_that_grew_or_shrank_at_either_end_shares_nearly_all_pieces(seed: int) -> None:
    chance = random.Random(seed)
    items = [chance.randbytes(chance.randint(50, 600)).hex() for _ in range(2000)]
    _, before = pack(items)
    for changed in (
        [*items, "one more"],
        ["one more", *items],
        items[1:],
        items[:-1],
        items[:900] + items[901:],
    ):
        _, after = pack(changed)
        assert sum(len(cell) for name, cell in after.items() if name not in before) < 8000


def test_a_text_that_grew_shares_what_it_was() -> None:
    text = "".join(f"line {number}\n" for number in range(50_000))
    _, before = pack(text)
    _, after = pack(text + "one more line\n")
    assert sum(len(cell) for name, cell in after.items() if name not in before) < 12_000


def test_every_piece_is_reached_from_the_cell() -> None:
    cell, pieces = pack([{"n": number, "text": "x" * number} for number in range(1000)])
    found: set[bytes] = set()
    wanted = list(references(cell))
    while wanted:
        name = wanted.pop()
        assert piece_id(pieces[name]) == name
        found.add(name)
        wanted += references(pieces[name])
    assert found == set(pieces)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, (1, 2), ("form", "text"), [bytearray(b"x")], {(1, 2): 3}, 1j, type, len]
)
def test_what_is_no_plain_value_is_refused(value: object) -> None:
    with pytest.raises(Invalid):
        pack(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(Invalid, match="too deep"):
        pack(endless)


@given(st.binary(max_size=200))
def test_garbage_is_damage_and_nothing_else(garbage: bytes) -> None:
    def nothing(name: bytes) -> bytes:
        raise Damaged(f"no {name.hex()}")

    with suppress(Damaged):
        unpack(garbage, nothing)
    with suppress(Damaged):
        list(references(garbage))


@settings(max_examples=50)
@given(VALUES, st.data())
def test_a_cell_cut_short_or_altered_is_damage_or_another_value(value: object, data: st.DataObject) -> None:
    cell, pieces = pack(value)
    place = data.draw(st.integers(0, len(cell) - 1))
    altered = bytes([*cell[:place], data.draw(st.integers(0, 255)), *cell[place + 1 :]])
    for bad in (cell[:place], altered):
        with suppress(Damaged):
            unpack(bad, lambda name: pieces.get(name, b"\xff"))
