"""Values of every kind, for what takes one kind of them."""

from __future__ import annotations

from typing import Any


class WithId:
    """Bears an id that is none."""

    id = 7


NUMBERS: list[Any] = [0, 1, -1, 7, 10**30]
OTHER_NUMBERS: list[Any] = [3.5, float("nan"), float("inf"), True, False]
TEXTS: list[Any] = ["", " ", "7", "0x7", "\0", "\ud800", "x" * 100_000]
OTHERS: list[Any] = [b"", b"7", [], ["a"], (), {}, {"a": 1}, {1}, object(), WithId(), object, print]
NO_TEXTS: list[Any] = [None, *NUMBERS, *OTHER_NUMBERS, *OTHERS]
NO_NUMBERS: list[Any] = [None, *OTHER_NUMBERS, *TEXTS, *OTHERS]
NO_PATHS: list[Any] = [*NUMBERS, *OTHER_NUMBERS, *OTHERS[2:]]
