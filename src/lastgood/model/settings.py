"""What may be configured, with its defaults (the composition root fills it from files and flags)."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Durability = Literal["full", "fast"]

MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30

# Consolidation is due at this many packs: a look-up in 64 of one checkpoint each takes about 3 ms more.
PACKS_DUE = 64

# Rule S6: few, printed by `lastgood config`, and any but ``.git`` can be switched off.
BUILT_IN_EXCLUDES: tuple[str, ...] = (
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    "*.pyc",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
)


class CaptureSettings(Value):
    """What a save takes in.

    ``built_in`` are those of `BUILT_IN_EXCLUDES` that are switched on. ``exclude`` and ``include``
    are gitignore patterns relative to the workspace. ``global_excludes`` is a file of such
    patterns, read only where configured. ``max_file_size`` is in bytes.
    """

    built_in: tuple[str, ...] = BUILT_IN_EXCLUDES
    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    global_excludes: str | None = None
    max_file_size: int = 32 * MEBIBYTE


class LimitSettings(Value):
    """How much is kept: checkpoints per workspace, and bytes per store."""

    max_checkpoints: int = 500
    max_store_size: int = 5 * GIBIBYTE


class Settings(Value):
    """Everything that configuration decides."""

    capture: CaptureSettings = CaptureSettings()
    limits: LimitSettings = LimitSettings()
    durability: Durability = "full"
