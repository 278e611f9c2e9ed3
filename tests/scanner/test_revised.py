"""The records of a watched scan, which leave those of the scan before as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lastgood.scanner import revised
from lastgood.scanner.revised import revise

if TYPE_CHECKING:
    from lastgood.scanner import Record


def record(number: int) -> Record:
    return (b"%d" % number, b"", b"", 0, b"", b"", number, 0, 0, (), (), (), b"", (), 0, 0)


@pytest.mark.parametrize("most", [0, 2, 1_000])
def test_revised_records_are_as_if_copied_and_those_before_stay(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(revised, "_MOST", most)
    first = {b"": record(0), b"a": record(1), b"b": record(2)}
    steps: list[tuple[bytes, Record | None]] = [
        (b"a", record(3)),
        (b"b", None),
        (b"c", record(4)),
        (b"a", None),
        (b"b", record(5)),
        (b"c", None),
    ]
    plain, found = dict(first), revise(first)
    for path, new in steps:
        before, as_it_was = found, dict(plain)
        found = revise(before)
        if new is None:
            plain.pop(path)
            assert found.pop(path) is not None
        else:
            plain[path] = found[path] = new
        assert dict(found.items()) == plain
        assert len(found) == len(plain)
        assert set(found) == set(plain)
        assert [(one in found, found.get(one)) for one in (b"a", b"b", b"c", b"d")] == [
            (one in plain, plain.get(one)) for one in (b"a", b"b", b"c", b"d")
        ]
        assert dict(before.items()) == as_it_was
    assert first == {b"": record(0), b"a": record(1), b"b": record(2)}
    with pytest.raises(KeyError):
        del found[b"d"]
