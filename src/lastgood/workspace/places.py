"""Where things are: the store of the user, and the workspace that a folder belongs to."""

from __future__ import annotations

import os
import sys

from lastgood.errors import NotFound, Unsafe
from lastgood.names import printable, to_text
from lastgood.rules.roots import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROJECT_FILE = ".lastgood.toml"


def store_path(given: str | None, environment: Mapping[str, str]) -> str:
    """Return the store's path: as given, as the environment says, or the platform's place for state."""
    chosen = given or environment.get("LASTGOOD_STORE")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    home = environment.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "lastgood")
    state = environment.get("XDG_STATE_HOME", "")
    return os.path.join(state if os.path.isabs(state) else os.path.join(home, ".local", "state"), "lastgood")


def no_store(directory: bytes) -> NotFound:
    """Return what is said to whoever needs a store that is there."""
    return NotFound(
        f"there is no store at {printable(to_text(directory))}",
        hint="name it with --store, or LASTGOOD_STORE",
    )


def witness_path(environment: Mapping[str, str]) -> str:
    """Return the folder of what is known of stores outside them: as the environment says, or its place."""
    chosen = environment.get("LASTGOOD_WITNESS")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    home = environment.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "lastgood-witness")
    kept = environment.get("XDG_DATA_HOME", "")
    return os.path.join(
        kept if os.path.isabs(kept) else os.path.join(home, ".local", "share"), "lastgood-witness"
    )


def find_root(given: str | None, environment: Mapping[str, str], *, known: Callable[[str], bool]) -> str:
    """Return the workspace's real path.

    As given; else as ``LASTGOOD_WORKSPACE`` says; else the nearest folder at or above the current
    one that has checkpoints (``known``) or a project file; else the git top level; else the current
    folder.
    """
    chosen = given or environment.get("LASTGOOD_WORKSPACE")
    if chosen:
        return os.path.realpath(chosen)
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:
        raise NotFound(
            "the current folder is gone", hint="go to another folder, or give one: -C DIR"
        ) from None
    chain = _upwards(here)
    for folder in chain:
        if known(folder) or os.path.lexists(os.path.join(folder, PROJECT_FILE)):
            return folder
    return next((folder for folder in chain if os.path.lexists(os.path.join(folder, ".git"))), here)


def _upwards(folder: str) -> list[str]:
    chain = [folder]
    while (above := os.path.dirname(chain[-1])) != chain[-1]:
        chain.append(above)
    return chain


def admit(root: str, environment: Mapping[str, str], *, allow_root: bool) -> None:
    """Refuse a folder that cannot or should not be a workspace (rule S11).

    Raises `NotFound` if it is missing, `Unsafe` if it is no folder, not readable, or too large a
    place to be a project.
    """
    shown = printable(root)
    try:
        status = os.stat(root)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no folder {shown}", hint="check the path given with -C") from None
    except (OSError, ValueError) as error:
        raise Unsafe(
            f"{shown} cannot be looked at: {error}", hint="check the path and its permissions"
        ) from error
    if not os.path.isdir(root):
        raise Unsafe(f"{shown} is not a folder", hint="name the folder that holds it: -C DIR")
    if not os.access(root, os.R_OK | os.X_OK):
        raise Unsafe(f"{shown} cannot be read", hint="check its permissions")
    if allow_root:
        return
    homes = {
        os.path.realpath(home) for home in (environment.get("HOME", ""), os.path.expanduser("~")) if home
    }
    temporary = {os.path.realpath(environment["TMPDIR"])} if environment.get("TMPDIR") else set()
    bare = _is_mount(root, status) and not any(
        os.path.lexists(os.path.join(root, name)) for name in (".git", PROJECT_FILE)
    )
    reason = refusal(root, homes=homes, temporary=temporary, bare_mount=bare)
    if reason is not None:
        raise Unsafe(
            f"{shown} is refused as a workspace: {reason}",
            hint="name a project folder: -C DIR    or, if it is really meant: --allow-root",
        )


def _is_mount(root: str, status: os.stat_result) -> bool:
    above = os.stat(os.path.dirname(root))
    return above.st_dev != status.st_dev or above.st_ino == status.st_ino


def programs(environment: Mapping[str, str], root: str) -> bytes:
    """Return where git is looked for: absolute folders only, and none inside the workspace (rule S12)."""
    given = environment.get("PATH", os.defpath).split(os.pathsep)
    fine = [folder for folder in given if os.path.isabs(folder) and not f"{folder}/".startswith(f"{root}/")]
    return os.fsencode(os.pathsep.join(fine))
