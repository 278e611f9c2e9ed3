"""The long form of tests that have a short one: asked for by `scripts/torture`, which may bound it."""

from __future__ import annotations

import os

# Read here: a test runs without the variables of ours that were set outside.
LONG = bool(os.environ.get("LASTGOOD_TORTURE"))
_EXAMPLES = os.environ.get("LASTGOOD_TORTURE_EXAMPLES")


def examples(*, short: int, long: int) -> int:
    """Return how many examples to try; of the long form LASTGOOD_TORTURE_EXAMPLES may say another number."""
    return int(_EXAMPLES or long) if LONG else short
