"""The long form of tests that have a short one: asked for by `scripts/torture`, which may bound it."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("LASTGOOD_TORTURE"))


def examples(*, short: int, long: int) -> int:
    """Return how many examples to try; of the long form LASTGOOD_TORTURE_EXAMPLES may say another number."""
    return int(os.environ.get("LASTGOOD_TORTURE_EXAMPLES", long)) if LONG else short
