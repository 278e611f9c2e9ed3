"""Where a service keeps its checkpoints, and the settings that its own configuration amounts to."""

from __future__ import annotations

import os
import shutil

import lastgood
from lastgood.errors import NotFound, Storage, Unsafe
from lastgood.integrations.praisonai.types import DEFAULT_FILE_SIZE
from lastgood.model.settings import MEBIBYTE, Rungs, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.integrations.praisonai.types import CheckpointConfig
    from lastgood.workspace import Workspace

# Folders that are nobody's project.
PROTECTED_PATHS = [
    *map(os.path.expanduser, ("~", "~/Desktop", "~/Documents", "~/Downloads")),
    "/",
    "/tmp",  # noqa: S108 - refused, not used
    "/var",
    "/etc",
]
_SYSTEM = {"/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var"}
_UNLIMITED = 1 << 62
_UNCOUNTED = 1 << 40
_OURS = 32 * MEBIBYTE
_FORMAT = "format"


def store_of(config: CheckpointConfig) -> str:
    """Return the store's path: where PraisonAI has its repository, or beside one that is there."""
    folder = config.get_checkpoint_dir()
    usual, beside = os.path.join(folder, ".git"), os.path.join(folder, "lastgood")
    if os.path.lexists(os.path.join(beside, _FORMAT)):
        return beside
    foreign = os.path.lexists(os.path.join(usual, "HEAD")) or os.path.isfile(usual)
    return beside if foreign else usual


def refuse_nameless(config: CheckpointConfig) -> None:
    """Refuse an empty name: it does not mean the current folder."""
    if not config.workspace_dir:
        raise NotFound("Workspace does not exist: its name is empty", hint="name the folder of a project")


def refuse_unfit(config: CheckpointConfig) -> None:
    """Refuse what cannot be a workspace, before anything is made for it."""
    refuse_nameless(config)
    root = config.root
    if root in {os.path.realpath(path) for path in PROTECTED_PATHS}:
        raise Unsafe(f"Cannot checkpoint protected path: {root}", hint="name the folder of a project")
    if not os.path.isdir(root):
        raise NotFound(f"Workspace does not exist: {config.workspace_dir}", hint="make it first")


def prepared(config: CheckpointConfig) -> Settings:
    """Make a workspace's store, if there is none, and return the settings to open it with."""
    root, store = config.root, store_of(config)
    with lastgood.open(root, store=store, maintenance="off", allow_root=_is_meant(root)) as workspace:
        return settled(config, workspace.settings, store=store)


def opened(config: CheckpointConfig, settings: Settings) -> Workspace:
    """Open a workspace that is prepared."""
    root, store = config.root, store_of(config)
    return lastgood.open(root, store=store, maintenance="off", allow_root=_is_meant(root), settings=settings)


def _is_meant(root: str) -> bool:
    """Tell whether a folder is the root of a mounted disk that is no system's: a container's, say."""
    return os.path.ismount(root) and f"/{root.split('/')[1]}" not in _SYSTEM


def settled(config: CheckpointConfig, configured: Settings, *, store: str) -> Settings:
    """Return the settings of a workspace with what the service's configuration says laid over them."""
    capture = configured.capture
    size = config.max_file_size
    if size == DEFAULT_FILE_SIZE:
        size = max(capture.max_file_size, _OURS)
    kept = kept_of(config)
    most = max(configured.limits.max_checkpoints, 3 * kept)
    return configured.replace(
        capture=capture.replace(
            built_in=(),
            exclude=(*capture.exclude, *_patterns(config), *_own(config.root, store)),
            max_file_size=min(size, _UNLIMITED) if size > 0 else _UNLIMITED,
        ),
        retention={**configured.retention, "manual": Rungs(last=kept), "turn": Rungs(last=kept)},
        limits=configured.limits.replace(max_checkpoints=most),
    )


def kept_of(config: CheckpointConfig) -> int:
    """Return how many checkpoints stay."""
    most = config.max_checkpoints
    return min(most, _UNCOUNTED) if most > 0 else _UNCOUNTED


def _patterns(config: CheckpointConfig) -> tuple[str, ...]:
    """Return what is left out; ``.git`` always is, and needs no pattern."""
    return tuple(pattern for pattern in config.exclude_patterns if pattern.strip("/") != ".git")


def _own(root: str, store: str) -> tuple[str, ...]:
    """Return the pattern of a folder of checkpoints that lies inside the workspace."""
    folder = os.path.realpath(os.path.dirname(store))
    if not folder.startswith(root.rstrip("/") + "/"):
        return ()
    return ("/" + os.path.relpath(folder, root) + "/",)


def remove(config: CheckpointConfig) -> None:
    """Delete a service's store, and its folder unless something else is in it."""
    refuse_nameless(config)
    folder, store = config.get_checkpoint_dir(), store_of(config)
    try:
        if os.path.lexists(os.path.join(store, _FORMAT)):
            shutil.rmtree(store)
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
    except OSError as error:
        raise Storage(
            f"{error.filename or folder} cannot be deleted: {error.strerror}", hint="check its permissions"
        ) from error
