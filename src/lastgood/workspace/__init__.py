"""The composition root, and the synchronous API."""

from __future__ import annotations

from lastgood.workspace.opening import open_workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.workspace.api import Workspace

__all__ = ["Workspace", "open_workspace"]


def __getattr__(name: str) -> object:
    if name != "Workspace":
        message = f"module 'lastgood.workspace' has no attribute {name!r}"
        raise AttributeError(message)
    from lastgood.workspace.api import Workspace  # lazily: a list has no use for all the verbs

    globals()[name] = Workspace
    return Workspace
