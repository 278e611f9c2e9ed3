"""The composition root, and the synchronous API."""

from lastgood.workspace.api import Workspace
from lastgood.workspace.opening import open_workspace

__all__ = ["Workspace", "open_workspace"]
