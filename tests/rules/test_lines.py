"""Lines out of output that comes in parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lastgood.rules.lines import LINE_LIMIT, Lines


@given(st.lists(st.binary(max_size=40)))
def test_lines_are_the_same_however_the_output_is_cut_into_parts(parts: list[bytes]) -> None:
    lines = Lines()
    told = [line for part in parts for line in lines.of(part)] + lines.rest()
    whole = b"".join(parts).replace(b"\r", b"\n").split(b"\n")
    assert told == [line.decode("utf-8", "replace") for line in whole if line]


def test_a_line_is_told_when_it_ends() -> None:
    lines = Lines()
    assert lines.of(b"one") == []
    assert lines.of(b" two\nthr") == ["one two"]
    assert lines.of(b"ee") == []
    assert lines.rest() == ["three"]
    assert lines.rest() == []


def test_a_progress_bar_is_told_as_it_moves() -> None:
    assert Lines().of(b"10%\r20%\r\n") == ["10%", "20%"]


def test_a_line_without_end_takes_bounded_memory_and_is_told_in_pieces() -> None:
    lines = Lines()
    told = [line for _ in range(100) for line in lines.of(b"x" * 65536)] + lines.rest()
    assert "".join(told) == "x" * 6_553_600
    assert max(len(line) for line in told) == LINE_LIMIT
