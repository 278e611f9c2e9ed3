"""What a process of its own that does maintenance is told of the settings of whoever started it."""

from __future__ import annotations

from lastgood.codec.canonical import Fields, dumps, loads
from lastgood.model.settings import LimitSettings, Rungs, Settings
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.settings import Durability

# The variable by which the settings come: who may see a command line may not see them.
HANDED = "LASTGOOD_UPKEEP_SETTINGS"
_WHAT = "the settings of maintenance"


def handed(settings: Settings) -> str:
    """Return what maintenance asks of settings, as JSON: patterns of files are not for it."""
    record = {
        "durability": settings.durability,
        "max_checkpoints": settings.limits.max_checkpoints,
        "max_store_size": settings.limits.max_store_size,
        "retention": {kind: rungs.as_dict() for kind, rungs in settings.retention.items()},
        # As text, as JSON has no number for a program's "never".
        "session_expires_after": str(settings.session_expires_after),
    }
    return dumps(record).decode("ascii")


def taken(text: str) -> Settings:
    """Return the settings that a text of `handed` holds."""
    fields = Fields(loads(text, what=_WHAT), what=_WHAT)
    kinds = fields.object_or_empty("retention")
    rungs = {kind: Fields(cast("dict[str, object]", one), what=_WHAT) for kind, one in kinds.items()}
    return Settings(
        limits=LimitSettings(
            max_checkpoints=fields.number("max_checkpoints"), max_store_size=fields.number("max_store_size")
        ),
        retention={
            kind: Rungs(last=one.number("last"), hourly=one.number("hourly"), daily=one.number("daily"))
            for kind, one in rungs.items()
        },
        durability=cast("Durability", fields.one_of("durability", ("full", "fast"))),
        session_expires_after=float(fields.text("session_expires_after")),
    )
