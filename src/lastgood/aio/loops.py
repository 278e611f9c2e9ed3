"""Finds the event loop that runs here."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.aio.bridge import Bridge


def present_bridge() -> Bridge:
    """Return the bridge to the event loop that runs here; `Usage` if none does."""
    if "trio" in sys.modules:
        from lastgood.aio.under_trio import TrioBridge, in_trio

        if in_trio():
            return TrioBridge()
    from lastgood.aio.under_asyncio import present_asyncio

    return present_asyncio()
