"""What transactions alone may have: for tests that harm a store, or make what no verb would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastgood.host import ExclusiveHold

if TYPE_CHECKING:
    from lastgood.context import Context, Writers


def writers(context: Context) -> Writers:
    """Return what changes a store and a workspace, though nothing is held."""
    return context.writers(ExclusiveHold())
