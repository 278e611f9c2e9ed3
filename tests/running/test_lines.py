"""Lines out of output that comes in parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lastgood.workspace.running.attempt import LINE_LIMIT, Lines

ALL = 10**9


def told_of(parts: list[bytes]) -> list[str]:
    lines = Lines()
    return [line for part in parts for line in lines.of(part, most=ALL)[0]] + lines.rest()


@given(st.lists(st.binary(max_size=40)))
def test_lines_are_the_same_however_the_output_is_cut_into_parts(parts: list[bytes]) -> None:
    told = told_of(parts)
    whole = b"".join(parts).replace(b"\r", b"\n").split(b"\n")
    assert told == [line.decode("utf-8", "replace") for line in whole if line]


def test_a_line_is_told_when_it_ends() -> None:
    lines = Lines()
    assert lines.of(b"one", most=ALL) == ([], 0)
    assert lines.of(b" two\nthr", most=ALL) == (["one two"], 0)
    assert lines.of(b"ee", most=ALL) == ([], 0)
    assert lines.rest() == ["three"]
    assert lines.rest() == []


def test_a_progress_bar_is_told_as_it_moves() -> None:
    assert Lines().of(b"10%\r20%\r\n", most=ALL) == (["10%", "20%"], 0)


def test_a_line_without_end_takes_bounded_memory_and_is_told_in_pieces() -> None:
    told = told_of([b"x" * 65536] * 100)
    assert "".join(told) == "x" * 6_553_600
    assert max(len(line) for line in told) == LINE_LIMIT


@given(
    st.lists(st.binary(max_size=40).map(lambda part: part.replace(b"x", b"\n")), max_size=5),
    st.integers(1, 5),
)
def test_of_a_flood_the_first_lines_and_the_last_are_told_and_the_others_counted(
    parts: list[bytes], most: int
) -> None:
    lines, every = Lines(), Lines()
    for part in parts:
        told, untold = lines.of(part, most=most)
        whole, _ = every.of(part, most=ALL)
        assert len(told) + untold == len(whole)
        assert len(told) == min(len(whole), most)
        assert told == whole if not untold else told == [*whole[: most - 1], whole[-1]]
    assert lines.rest() == every.rest()


def test_of_a_flood_of_long_lines_no_more_is_told_either() -> None:
    for part in (b"x" * 1_000_000, (b"y" * 10_000 + b"\n") * 100, b"\n" * 1_000_000 + b"z\n"):
        told, untold = Lines().of(part, most=10)
        assert len(told) <= 10
        assert bool(untold) == (b"z" not in part)
        assert max(map(len, told)) <= LINE_LIMIT
