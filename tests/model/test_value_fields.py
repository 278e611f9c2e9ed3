"""Values are built whole, by their fields alone."""

from __future__ import annotations

import pytest

from lastgood.model.tree import Counts, Gap


def test_a_value_has_what_is_given_and_for_the_rest_what_is_usual() -> None:
    assert Counts(deleted=3).as_dict() == {"added": 0, "modified": 0, "deleted": 3}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"path": b"a"}, "Gap needs 'reason'"),
        ({"path": b"a", "reason": "budget", "other": 1}, "Gap has no field 'other'"),
        # As many as there are fields, and not those.
        ({"path": b"a", "other": 1}, "Gap needs 'reason'"),
    ],
)
def test_a_value_of_other_fields_cannot_be_built(given: dict[str, object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Gap(**given)  # type: ignore[arg-type]  # that is the point
