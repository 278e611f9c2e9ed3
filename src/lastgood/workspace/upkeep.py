"""Starts maintenance in a separate action when it is due; no save waits for it."""

from __future__ import annotations

import os
import sys

from lastgood.errors import Busy, Storage
from lastgood.ids import SESSION_VARIABLE
from lastgood.model.settings import PACKS_DUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from lastgood.ports.context import Context

    Maintenance = Literal["background", "off"]


# A count of checkpoints costs about a millisecond; every so many packs is often enough.
_ASKED_EVERY = 8


class Upkeep:
    """Decides after a save whether maintenance is due, and starts it detached."""

    def __init__(self, mode: Maintenance) -> None:
        self._mode = mode
        self._child: int | None = None

    def after_save(self, context: Context) -> None:
        """Start maintenance where it is due and wanted; failing to start it harms nothing."""
        if self._mode == "off":
            return
        if self._is_running():
            return
        try:
            due = _is_due(context)
        except (Storage, Busy):
            return  # what was saved is saved
        if due:
            self._child = _start(os.fsdecode(context.root), os.fsdecode(context.store))

    def _is_running(self) -> bool:
        """Tell whether the maintenance started last still runs; one that ended is let go."""
        if self._child is None:
            return False
        try:
            ended, _ = os.waitpid(self._child, os.WNOHANG)
        except ChildProcessError:  # the caller collects all its children, or is a fork of ours
            ended = self._child
        if ended:
            self._child = None
        return self._child is not None


def _is_due(context: Context) -> bool:
    """Tell whether there are many packs, or (asked now and then) clearly too many checkpoints."""
    packs = context.engine.packs()
    if packs >= PACKS_DUE:
        return True
    limit = context.settings.limits.max_checkpoints
    return packs % _ASKED_EVERY == 0 and context.catalogue.count_loose(context.key) > limit + limit // 10


def _is_wanted(variable: str) -> bool:
    """Tell what maintenance needs of the environment: the settings count for it too, no session does."""
    if variable.startswith("LASTGOOD_"):
        return variable != SESSION_VARIABLE
    return variable in {"PATH", "HOME", "LANG", "TMPDIR", "XDG_CONFIG_HOME"}


def _start(root: str, store: str) -> int | None:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    program = (
        "import os, sys; os.nice(10); sys.path.insert(0, sys.argv.pop(1)); "
        "from lastgood.cli.main import main; "
        "raise SystemExit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-I", "-c", program, package, "--store", store, "-C", root, "--allow-root"]
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    environment = {key: value for key, value in os.environ.items() if _is_wanted(key)}
    if not sys.executable:  # a program that embeds Python
        return None
    try:
        return os.posix_spawn(
            sys.executable, [*words, "maintain", "--quiet"], environment, file_actions=silent, setsid=True
        )
    except OSError:
        return None
