"""lastgood gets autonomous coding work back to the last good point.

>>> import lastgood
>>> with lastgood.open(project, store=store) as workspace:
...     report = workspace.save("before the refactor", name="before-refactor")
...     report.created
True
"""

# Every start of the command executes this: nothing is imported here, `__future__` no more than ours.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema, SchemaSerializer

    from lastgood.aio import (
        AsyncBlock,
        AsyncLedger,
        AsyncOnce,
        AsyncSession,
        AsyncWorkspace,
        Opening,
        open_async,
    )
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
    from lastgood.host import Clock
    from lastgood.integrations.checkpoint_manager import CheckpointManager
    from lastgood.integrations.praisonai import (
        CheckpointConfig,
        CheckpointDiff,
        CheckpointEvent,
        CheckpointService,
    )
    from lastgood.ledger import Ledger, LedgerEntry, LedgerReader, LedgerWriter
    from lastgood.ledger.cells import Encoding
    from lastgood.model.activity import (
        Activity,
        Bucket,
        CheckpointCounts,
        Mark,
        RanCommand,
        Saves,
        SessionActivity,
        Sizes,
        TaskCounts,
        WorkedTask,
    )
    from lastgood.model.calls import Consent, Observer, OutputReader, PlanConsent, RunObserver
    from lastgood.model.checkpoint import (
        Actor,
        Check,
        Checkpoint,
        CheckReport,
        Conversation,
        GitState,
        HealthNote,
        IgnoreState,
        Manifest,
        Metrics,
        NestedRepository,
        Ref,
        SaveReport,
        TreeRef,
    )
    from lastgood.model.exchange import ExportReport, ImportReport, Origin, Withheld
    from lastgood.model.operation import (
        Event,
        Merged,
        Operation,
        Outcome,
        Part,
        PartOutcome,
        RestorePlan,
        Step,
    )
    from lastgood.model.report import (
        Blamed,
        BlamedFile,
        BlamedLines,
        BlameReport,
        ChangedBeside,
        ChangedPath,
        DamagedCheckpoint,
        DeleteReport,
        DiffReport,
        FileDiff,
        Finding,
        HeadMoved,
        ListedEntry,
        LogReport,
        NotHeld,
        Occurrences,
        PathChange,
        ProgressReport,
        PurgedCheckpoint,
        PurgePlan,
        PurgeReport,
        RestoreReport,
        RewindExtent,
        SessionEnded,
        SessionStarted,
        StatusReport,
        StoreSize,
        UndoPlan,
        UndoReport,
        Unmatched,
        VerifyReport,
        WorkspaceSummary,
    )
    from lastgood.model.run import (
        Artifact,
        LastConversation,
        PlannedTask,
        RecoverReport,
        RunEvent,
        RunReport,
        WorkPlan,
    )
    from lastgood.model.session import (
        Ancestor,
        Ancestry,
        Effect,
        Features,
        Living,
        Owner,
        Position,
        Progress,
        Session,
        SessionReport,
        Task,
    )
    from lastgood.model.tree import Counts, Entry, Gap, TreeId
    from lastgood.retention.policy import Decision, PrunePlan, PruneReport, StoreSizes
    from lastgood.settings import (
        AutoSettings,
        CaptureSettings,
        LimitSettings,
        Rungs,
        Settings,
        WatchSettings,
    )
    from lastgood.value import Value
    from lastgood.workspace import Workspace, open_workspace
    from lastgood.workspace.arguments import PathLike
    from lastgood.workspace.session import OpenSession
    from lastgood.workspace.step import Once

    open = open_workspace

__version__ = "0.1.0"

# Without `open`, which after `import *` would stand before that of Python.
__all__ = [
    "Activity",
    "Actor",
    "Ambiguous",
    "Ancestor",
    "Ancestry",
    "Artifact",
    "AsyncBlock",
    "AsyncLedger",
    "AsyncOnce",
    "AsyncSession",
    "AsyncWorkspace",
    "AutoSettings",
    "BlameReport",
    "Blamed",
    "BlamedFile",
    "BlamedLines",
    "Bucket",
    "Busy",
    "CaptureSettings",
    "ChangedBeside",
    "ChangedPath",
    "Check",
    "CheckReport",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointCounts",
    "CheckpointDiff",
    "CheckpointEvent",
    "CheckpointManager",
    "CheckpointService",
    "Clock",
    "Conflict",
    "Consent",
    "Conversation",
    "Counts",
    "Damaged",
    "DamagedCheckpoint",
    "Decision",
    "DeleteReport",
    "DiffReport",
    "Effect",
    "Encoding",
    "Entry",
    "Event",
    "ExportReport",
    "Features",
    "FileDiff",
    "Finding",
    "Gap",
    "GitState",
    "HeadMoved",
    "HealthNote",
    "IgnoreState",
    "ImportReport",
    "Internal",
    "Invalid",
    "LastConversation",
    "LastgoodError",
    "Ledger",
    "LedgerEntry",
    "LedgerReader",
    "LedgerWriter",
    "LimitSettings",
    "ListedEntry",
    "Living",
    "LogReport",
    "Manifest",
    "Mark",
    "Merged",
    "Metrics",
    "NestedRepository",
    "NoRoom",
    "NotFound",
    "NotHeld",
    "Observer",
    "Occurrences",
    "Once",
    "OpenSession",
    "Opening",
    "Operation",
    "Origin",
    "Outcome",
    "OutputReader",
    "Owner",
    "Part",
    "PartOutcome",
    "PathChange",
    "PathLike",
    "PlanConsent",
    "PlannedTask",
    "Position",
    "Progress",
    "ProgressReport",
    "PrunePlan",
    "PruneReport",
    "PurgePlan",
    "PurgeReport",
    "PurgedCheckpoint",
    "RanCommand",
    "RecoverReport",
    "Ref",
    "RestorePlan",
    "RestoreReport",
    "RewindExtent",
    "RunEvent",
    "RunObserver",
    "RunReport",
    "Rungs",
    "SaveReport",
    "Saves",
    "Session",
    "SessionActivity",
    "SessionEnded",
    "SessionReport",
    "SessionStarted",
    "Settings",
    "Sizes",
    "StatusReport",
    "Step",
    "Storage",
    "StoreSize",
    "StoreSizes",
    "Task",
    "TaskCounts",
    "TreeId",
    "TreeRef",
    "UndoPlan",
    "UndoReport",
    "Unmatched",
    "Unsafe",
    "Unsupported",
    "Usage",
    "VerifyReport",
    "WatchSettings",
    "Withheld",
    "WorkPlan",
    "WorkedTask",
    "Workspace",
    "WorkspaceSummary",
    "__version__",
    "open_async",
]

# Names are loaded when asked for.
_PLACES = {
    "lastgood.aio": "AsyncBlock AsyncLedger AsyncOnce AsyncSession AsyncWorkspace Opening open_async",
    "lastgood.host": "Clock",
    "lastgood.integrations.checkpoint_manager": "CheckpointManager",
    "lastgood.integrations.praisonai": ("CheckpointConfig CheckpointDiff CheckpointEvent CheckpointService"),
    "lastgood.ledger.cells": "Encoding",
    "lastgood.ledger": "Ledger LedgerEntry LedgerReader LedgerWriter",
    "lastgood.model.activity": (
        "Activity Bucket CheckpointCounts Mark RanCommand Saves SessionActivity Sizes TaskCounts WorkedTask"
    ),
    "lastgood.model.calls": "Consent Observer OutputReader PlanConsent RunObserver",
    "lastgood.model.checkpoint": (
        "Actor Check CheckReport Checkpoint Conversation GitState HealthNote IgnoreState Manifest "
        "Metrics NestedRepository Ref SaveReport TreeRef"
    ),
    "lastgood.model.exchange": "ExportReport ImportReport Origin Withheld",
    "lastgood.model.operation": "Event Merged Operation Outcome Part PartOutcome RestorePlan Step",
    "lastgood.model.report": (
        "BlameReport Blamed BlamedFile BlamedLines "
        "ChangedBeside ChangedPath DamagedCheckpoint DeleteReport DiffReport FileDiff Finding HeadMoved "
        "ListedEntry LogReport NotHeld Occurrences PathChange ProgressReport PurgePlan PurgeReport "
        "PurgedCheckpoint RestoreReport RewindExtent SessionEnded SessionStarted StatusReport StoreSize "
        "UndoPlan UndoReport Unmatched VerifyReport WorkspaceSummary"
    ),
    "lastgood.model.run": ("Artifact LastConversation PlannedTask RecoverReport RunEvent RunReport WorkPlan"),
    "lastgood.model.session": (
        "Ancestor Ancestry Effect Features Living Owner Position Progress Session SessionReport Task"
    ),
    "lastgood.model.tree": "Counts Entry Gap TreeId",
    "lastgood.retention.policy": "Decision PrunePlan PruneReport StoreSizes",
    "lastgood.settings": "AutoSettings CaptureSettings LimitSettings Rungs Settings WatchSettings",
    "lastgood.workspace": "Workspace",
    "lastgood.workspace.arguments": "PathLike",
    "lastgood.workspace.session": "OpenSession",
    "lastgood.workspace.step": "Once",
}


def __getattr__(name: str) -> object:
    if name != "open" and name not in __all__:
        message = f"module 'lastgood' has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    place = next((place for place, names in _PLACES.items() if name in names.split()), "lastgood.errors")
    if name == "open":
        place = "lastgood.workspace"
    if not place.startswith("lastgood.integrations"):
        from lastgood.type_hints import supply

        supply()
        if place == "lastgood.aio":
            supply(asynchronous=True)
    found: object = getattr(import_module(place), "open_workspace" if name == "open" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])


# What values ask for, who are below all rooms, when somebody wants them outside. What answers is loaded then.
def document_of(value: "Value") -> dict[str, object]:
    """Return what a verb says of a value with ``--json``."""
    from lastgood.documents import told

    return told(value)


def schema_of(cls: "type[Value]", handler: "GetCoreSchemaHandler") -> "CoreSchema":
    """Return what Pydantic makes of a class of values."""
    from lastgood.pydantic_schema import schema_of

    return schema_of(cls, handler)


def serializer() -> "SchemaSerializer":
    """Return by what Pydantic writes values."""
    from lastgood.pydantic_schema import serializer

    return serializer()
