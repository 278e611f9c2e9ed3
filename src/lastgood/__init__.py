"""lastgood gets autonomous coding work back to the last good point.

>>> import lastgood
>>> with lastgood.open(project, store=store) as workspace:
...     report = workspace.save("before the refactor", name="before-refactor")
...     report.created
True
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.aio import AsyncWorkspace, open_async
    from lastgood.errors import (
        Ambiguous,
        Busy,
        Conflict,
        Damaged,
        Internal,
        Invalid,
        LastgoodError,
        NoRoom,
        NotFound,
        Storage,
        Unsafe,
        Unsupported,
        Usage,
    )
    from lastgood.integrations.checkpoint_manager import CheckpointManager
    from lastgood.integrations.praisonai import (
        CheckpointConfig,
        CheckpointDiff,
        CheckpointEvent,
        CheckpointService,
    )
    from lastgood.model.checkpoint import Actor, Checkpoint
    from lastgood.model.operation import Event, RestorePlan
    from lastgood.model.run import PlannedTask, RunEvent, RunReport, WorkPlan
    from lastgood.settings import Settings
    from lastgood.workspace import Workspace
    from lastgood.workspace import open_workspace as open  # noqa: A004 - the word of the interface

__version__ = "0.1.0"

__all__ = [
    "Actor",
    "Ambiguous",
    "AsyncWorkspace",
    "Busy",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointDiff",
    "CheckpointEvent",
    "CheckpointManager",
    "CheckpointService",
    "Conflict",
    "Damaged",
    "Event",
    "Internal",
    "Invalid",
    "LastgoodError",
    "NoRoom",
    "NotFound",
    "PlannedTask",
    "RestorePlan",
    "RunEvent",
    "RunReport",
    "Settings",
    "Storage",
    "Unsafe",
    "Unsupported",
    "Usage",
    "WorkPlan",
    "Workspace",
    "__version__",
    "open",
    "open_async",
]

# Importing the package is part of every start of the command line: names are loaded when asked for.
_PLACES = {
    "Actor": "lastgood.model.checkpoint",
    "AsyncWorkspace": "lastgood.aio",
    "Checkpoint": "lastgood.model.checkpoint",
    "CheckpointConfig": "lastgood.integrations.praisonai",
    "CheckpointDiff": "lastgood.integrations.praisonai",
    "CheckpointEvent": "lastgood.integrations.praisonai",
    "CheckpointManager": "lastgood.integrations.checkpoint_manager",
    "CheckpointService": "lastgood.integrations.praisonai",
    "Event": "lastgood.model.operation",
    "PlannedTask": "lastgood.model.run",
    "RestorePlan": "lastgood.model.operation",
    "RunEvent": "lastgood.model.run",
    "RunReport": "lastgood.model.run",
    "Settings": "lastgood.settings",
    "WorkPlan": "lastgood.model.run",
    "Workspace": "lastgood.workspace",
    "open": "lastgood.workspace",
    "open_async": "lastgood.aio",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        message = f"module 'lastgood' has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    module = import_module(_PLACES.get(name, "lastgood.errors"))
    found: object = getattr(module, "open_workspace" if name == "open" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
