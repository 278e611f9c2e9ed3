"""AIWF's settings, as its guide and its template have them."""

from __future__ import annotations

import pytest

from lastgood.configuration.import_ import translated
from lastgood.errors import Invalid


def as_pairs(tree: object) -> dict[str, object]:
    return {one.key: one.value for one in translated(tree, source="f.yaml").taken}


def test_the_settings_of_the_guide_are_translated() -> None:
    guide = {
        "auto_checkpoint": True,
        "interval_minutes": 15,
        "max_checkpoints": 50,
        "checkpoint_on": ["task_complete", "sprint_complete", "before_risky_operation", "interval"],
    }
    ours = {
        "auto.enabled": True,
        "auto.interval": "15m",
        "retention.max_checkpoints": 50,
        "auto.on": ["task", "sprint", "risky", "interval"],
    }
    assert as_pairs({"checkpoint": guide}) == ours
    assert as_pairs(guide) == ours


def test_a_setting_that_is_off_stays_off() -> None:
    """Rule K7."""
    assert as_pairs({"checkpoint": {"auto_checkpoint": False}}) == {"auto.enabled": False}
    assert as_pairs({"checkpoint": {"enabled": False}}) == {"auto.enabled": False}
    assert as_pairs({"checkpoint": {"checkpoint_on": []}}) == {"auto.on": []}


def test_what_has_no_like_is_listed_with_the_reason() -> None:
    tree = {
        "enabled": True,
        "quality": {"x": 1},
        "checkpoint": {"interval": 5, "recovery_mode": "auto", "checkpoint_on": ["task_complete", "lunch"]},
    }
    found = translated(tree, source="f.yaml")
    assert [key for key, _ in found.left] == [
        "enabled",
        "quality",
        "checkpoint.interval",
        "checkpoint.recovery_mode",
        "checkpoint.checkpoint_on: lunch",
    ]
    assert all(reason for _, reason in found.left)
    assert [one.value for one in found.taken] == [["task"]]


@pytest.mark.parametrize(
    "tree",
    [
        None,
        [],
        "text",
        {"checkpoint": 5},
        {"auto_checkpoint": "yes"},
        {"interval_minutes": 0},
        {"interval_minutes": True},
        {"interval_minutes": 10**12},
        {"max_checkpoints": "50"},
        {"checkpoint_on": "task_complete"},
        {"checkpoint_on": [1]},
    ],
)
def test_nonsense_is_refused_and_named(tree: object) -> None:
    with pytest.raises(Invalid, match=r"^f\.yaml") as caught:
        translated(tree, source="f.yaml")
    assert caught.value.hint
