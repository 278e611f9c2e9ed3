"""What may be configured, with its defaults (the composition root fills it from files and flags)."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.literals import Durability, OnDemand, Scope


MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30

# Consolidation is due at this many packs: a look-up in 64 of one checkpoint each takes about 3 ms more.
PACKS_DUE = 64
# When nobody waits for it, so few are worth joining.
PACKS_WHEN_IDLE = 8

# What may bring about a checkpoint by itself.
TRIGGERS: tuple[str, ...] = (
    "session-start",
    "turn",
    "task",
    "sprint",
    "feature",
    "iteration",
    "risky",
    "interval",
    "compaction",
    "interrupt",
    "error",
)

# What may do so beside these, where it is asked for: two looks at the files for each call of a tool.
MORE_TRIGGERS: tuple[str, ...] = ("tool",)

# Rule P2: the files in which agents commonly keep how far they are.
STATE_FILES: tuple[str, ...] = ("feature_list.json", "progress.md")

# What its program makes again by itself.
CACHES: tuple[str, ...] = ("__pycache__", "*.pyc", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox")

# Rule S6: few, printed by `lastgood config`, and any but ``.git`` can be switched off.
BUILT_IN_EXCLUDES: tuple[str, ...] = ("node_modules", ".venv", "venv", *CACHES)

# Rule S5: what people write by hand and git ignores; captured although ignored, and private. Any can be
# switched off.
BUILT_IN_INCLUDES: tuple[str, ...] = (
    ".env",
    ".env.*",
    ".envrc",
    ".dev.vars",
    "*.local",
    "*.local.*",
    "terraform.tfvars",
    "*.auto.tfvars",
    ".npmrc",
    ".pypirc",
)
# A larger one was made by a program.
HAND_WRITTEN_BYTES = 256 << 10

# What can be brought back.
SCOPES: tuple[Scope, ...] = ("files", "conversation", "progress", "git")
# Rule T11: what comes back together unless something else is asked for.
DEFAULT_SCOPES: tuple[Scope, ...] = ("files", "conversation", "progress")


class CaptureSettings(Value):
    """What a save takes in.

    ``built_in`` are those of `BUILT_IN_EXCLUDES` that are switched on, ``built_in_includes`` those of
    `BUILT_IN_INCLUDES`. ``exclude`` and ``include``
    are gitignore patterns relative to the workspace; ``state_files``, which are among ``include``
    (from the workspace's top), come back with the progress (rule P2). ``global_excludes`` is a file
    of such patterns, read only where configured. ``max_file_size`` is in bytes.
    """

    built_in: tuple[str, ...] = BUILT_IN_EXCLUDES
    built_in_includes: tuple[str, ...] = BUILT_IN_INCLUDES
    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = tuple(f"/{name}" for name in STATE_FILES)
    global_excludes: str | None = None
    state_files: tuple[str, ...] = STATE_FILES
    max_file_size: int = 32 * MEBIBYTE


class LimitSettings(Value):
    """How much is kept: checkpoints per workspace, and bytes per store."""

    max_checkpoints: int = 500
    max_store_size: int = 5 * GIBIBYTE


class Rungs(Value):
    """How many checkpoints of a kind stay: the newest, then one an hour, then one a day."""

    last: int
    hourly: int = 0
    daily: int = 0


class AutoSettings(Value):
    """Which moments make a checkpoint by themselves; ``interval`` is in seconds."""

    enabled: bool = True
    interval: float = 900.0
    on: tuple[str, ...] = TRIGGERS

    def wants(self, trigger: str) -> bool:
        """Tell whether a moment makes a checkpoint."""
        return self.enabled and trigger in self.on


class WatchSettings(Value):
    """Whether a process that watches is started by those who have use for it, and when it leaves.

    ``idle`` is how long nobody must have asked it for anything, and nothing must have changed, in seconds.
    """

    on_demand: OnDemand = "hooks"
    idle: float = 10_800.0

    def wants(self, verb: str) -> bool:
        """Tell whether a verb starts it."""
        return self.on_demand == "always" or (self.on_demand == "hooks" and verb == "hook")


class Settings(Value):
    """Everything that configuration decides.

    ``retention`` holds what is configured of rule K1's table, by kind. A session whose owner cannot
    be proven dead is over ``session_expires_after`` seconds after its last heartbeat.
    """

    capture: CaptureSettings = CaptureSettings()
    limits: LimitSettings = LimitSettings()
    auto: AutoSettings = AutoSettings()
    watch: WatchSettings = WatchSettings()
    retention: Mapping[str, Rungs] = {}
    durability: Durability = "full"
    session_expires_after: float = 86_400.0
