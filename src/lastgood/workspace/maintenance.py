"""Starts maintenance as a process of its own, one at a time, that stands back for whoever saves."""

from __future__ import annotations

import os
import time

from lastgood.ids import SESSION_VARIABLE
from lastgood.model.canonical import Fields, dumps, loads
from lastgood.settings import PACKS_DUE, LimitSettings, Rungs, Settings
from lastgood.value import cast
from lastgood.workspace.detached import PACKAGE_FOLDER, spawn, take_turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.literals import Consolidation, Durability


# --- What a process of its own that does maintenance is told of the settings of whoever started it ---

# The variable by which the settings come: who may see a command line may not see them.
SETTINGS_VARIABLE = "LASTGOOD_UPKEEP_SETTINGS"
_WHAT = "the settings of maintenance"


def encode_settings(settings: Settings) -> str:
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


def decode_settings(text: str) -> Settings:
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


# --- Starts maintenance as a process of its own, one at a time, that stands back for whoever saves ---

_LOCK = b"/locks/upkeep.lock"
_NICENESS = 10
# With this many packs every look-up takes longer: then tidying is in everybody's interest.
_PRESSING = 4 * PACKS_DUE
# Seconds in which nobody saved, after which a burst of saves is over; for so long it is waited at most.
_CALM = 0.3
_LONGEST_BURST = 30.0
_ATTEMPTS = 5
_PATIENCE = 0.15
# Where the started process has the lock; another number where the starter's own is this one.
_PLACES = (3, 4)
_PROGRAM = (
    "import os, sys; os.chdir('/'); "
    "os.set_inheritable(int(sys.argv.pop(1)), False); sys.path.insert(0, sys.argv.pop(1)); "
    "from lastgood.workspace.maintenance import stand_back; stand_back(int(sys.argv.pop(1)), sys.argv[2]); "
    "from lastgood.workspace import maintain; maintain(*sys.argv[1:])"
)


def start(
    root: str, store: str, *, packs: int, settings: Settings, extent: Consolidation = "due"
) -> int | None:
    """Start maintenance and return its process id; None where one is under way, or none can be started.

    ``packs`` is how many there are: with very many it stands back no more. They are joined to an ``extent``.
    The started process has the turn from its first moment on: however many save meanwhile, none starts
    another. Of the ``settings`` it gets what maintenance asks for, wherever they come from, and reads no
    others.
    """
    turn = take_turn(os.fsencode(store) + _LOCK)
    if turn is None:
        return None
    try:
        words = (str(niceness(packs)), root, store, extent)
        return _spawn(words, turn=turn, settings=settings)
    except OSError:
        return None
    finally:
        os.close(turn)


def niceness(packs: int) -> int:
    """Return how far maintenance stands back for others (nice(1)) when there are so many packs."""
    return _NICENESS if packs < _PRESSING else 0


def stand_back(niceness: int, store: str) -> None:
    """Leave the processor to others, and begin when a burst of saves is over."""
    lower_priority(niceness)
    await_calm(os.fsencode(store))


def await_calm(store: bytes) -> None:
    """Wait until nobody has saved for a moment; not for long, nor where there are very many packs by now.

    Joining the first packs of eight workspaces takes more of a processor than the two hundred saves did
    that it would run beside.
    """
    packs = store + b"/objects.git/objects/pack"
    began = time.monotonic()
    while time.monotonic() - began < _LONGEST_BURST:
        try:
            calm = time.time() - os.stat(packs).st_mtime
            many = sum(name.endswith(b".idx") for name in os.listdir(packs))
        except OSError:
            return  # whoever opens the store says what is wrong
        if not 0 <= calm < _CALM or many >= _PRESSING:
            return
        time.sleep(_CALM)


def lower_priority(niceness: int) -> None:
    """Leave the processor to others, also where the kernel shares it out among sessions first."""
    os.nice(niceness)
    for _ in range(_ATTEMPTS):
        try:
            with open("/proc/self/autogroup", "w", encoding="ascii") as group:
                group.write(str(niceness))
        except BlockingIOError:  # the kernel takes one such wish in a tenth of a second
            time.sleep(_PATIENCE)
        except OSError:
            return  # no such sharing here
        else:
            return


def _spawn(words: tuple[str, ...], *, turn: int, settings: Settings) -> int | None:
    place = _PLACES[turn == _PLACES[0]]
    environment = {key: value for key, value in os.environ.items() if _is_wanted(key)}
    environment[SETTINGS_VARIABLE] = encode_settings(settings)
    words = (str(place), PACKAGE_FOLDER, *words)
    return spawn(_PROGRAM, words, environment=environment, keeping=(turn, place))


def _is_wanted(variable: str) -> bool:
    """Tell what maintenance needs of the environment; no session counts for it."""
    if variable.startswith("LASTGOOD_"):
        return variable != SESSION_VARIABLE
    return variable in {"PATH", "HOME", "LANG", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}
