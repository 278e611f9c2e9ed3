"""Maintenance as a process of its own does it: by the settings of whoever started it."""

from __future__ import annotations

import os

from lastgood.workspace import open_as
from lastgood.workspace.api import Workspace
from lastgood.workspace.maintenance import SETTINGS_VARIABLE, decode_settings


def maintain(root: str, store: str) -> None:
    """Tidy a store that is there, for a workspace; `NotFound` if it has gone meanwhile."""
    settings = decode_settings(os.environ.pop(SETTINGS_VARIABLE))
    with open_as(
        Workspace,
        root,
        store=store,
        allow_root=True,
        environment=os.environ,
        settings=settings,
        maintenance="off",
        purpose="need",
    ) as workspace:
        workspace.maintain()
