"""The clocks."""

from __future__ import annotations

from lastgood.host import SystemClock
from lastgood.testing.clock import FakeClock


def test_the_system_clock_tells_time_and_draws_anew() -> None:
    clock = SystemClock()
    assert clock.now() > 1_700_000_000_000_000_000
    assert clock.monotonic() <= clock.monotonic()
    assert len({clock.random() for _ in range(100)}) == 100
    assert len(clock.random()) == 8


def test_a_fake_clock_stands_steps_and_jumps() -> None:
    """S15."""
    standing = FakeClock(start=5)
    assert (standing.now(), standing.now()) == (5, 5)
    stepping = FakeClock(start=0, step=1.5)
    assert (stepping.now(), stepping.now()) == (1_500_000_000, 3_000_000_000)
    assert stepping.monotonic() == 4.5
    stepping.jump(-100)
    assert stepping.now() == -94_000_000_000
    assert stepping.monotonic() == 7.5


def test_a_fake_clock_s_chance_repeats_and_never_within_a_run() -> None:
    one, two = FakeClock(), FakeClock()
    drawn = [one.random() for _ in range(1000)]
    assert drawn == [two.random() for _ in range(1000)]
    assert len(set(drawn)) == 1000
    assert {len(piece) for piece in drawn} == {8}
