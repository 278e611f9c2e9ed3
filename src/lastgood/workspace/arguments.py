"""Values as callers give them: of the right type, or a `Usage` that says what was meant."""

from __future__ import annotations

import os
import sys

from lastgood.configuration import PROJECT_FILE
from lastgood.errors import Invalid, NotFound, Storage, Unsafe, Usage
from lastgood.model.checkpoint import Actor
from lastgood.paths import printable, to_bytes, to_text, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lastgood.model.checkpoint import HealthNote
    from lastgood.settings import Settings
    from lastgood.transaction import Draft


# How a path may be given.
PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]

_TEXT_OR_NONE = (str, type(None))
_ACTORS = ("agent", "tool", "person", "lastgood", "unknown")


def expect(value: object, *kinds: type, what: str) -> None:
    """Refuse a value that is of none of some types."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise Usage(f"{what} is {type(value).__name__}, not {wanted}", hint=f"give {what} as {wanted}")


def check_flags(**given: object) -> None:
    """Refuse what is neither True nor False, by its name: a text that says "false" would count as True."""
    for name, value in given.items():
        expect(value, bool, what=name)


def check_settings(settings: Settings) -> None:
    """Refuse settings with a value of a wrong type: what nobody looks at would end on it, unseen."""
    from lastgood.settings import AutoSettings, CaptureSettings, LimitSettings, Rungs, Settings, WatchSettings

    expect(settings, Settings, what="settings")
    capture, limits, auto = settings.capture, settings.limits, settings.auto
    for part, form in (("capture", CaptureSettings), ("limits", LimitSettings), ("auto", AutoSettings)):
        expect(getattr(settings, part), form, what=f"settings.{part}")
    _whole(capture.max_file_size, what="settings.capture.max_file_size")
    for name in ("built_in", "built_in_includes", "exclude", "include", "state_files"):
        _texts(getattr(capture, name), what=f"settings.capture.{name}")
    expect(capture.global_excludes, str, type(None), what="settings.capture.global_excludes")
    for name, number in limits.as_dict().items():
        _whole(number, what=f"settings.limits.{name}")
    expect(auto.enabled, bool, what="settings.auto.enabled")
    expect(auto.interval, int, float, what="settings.auto.interval")
    _texts(auto.on, what="settings.auto.on")
    expect(settings.session_expires_after, int, float, what="settings.session_expires_after")
    expect(settings.watch, WatchSettings, what="settings.watch")
    expect(settings.watch.idle, int, float, what="settings.watch.idle")
    if settings.watch.on_demand not in ("hooks", "always", "never"):
        raise Usage(f"{settings.watch.on_demand!r} starts no watch", hint='"hooks", "always" or "never"')
    if settings.durability not in ("full", "fast"):
        raise Usage(f"{settings.durability!r} is no durability", hint='"full", or "fast"')
    if not hasattr(settings.retention, "items"):
        raise Usage("settings.retention is no mapping", hint='for example {"turn": Rungs(last=100)}')
    for kind, rungs in settings.retention.items():
        expect(rungs, Rungs, what=f"settings.retention[{kind!r}]")
        for name, number in rungs.as_dict().items():
            _whole(number, what=f"settings.retention[{kind!r}].{name}")


def _whole(number: object, *, what: str) -> None:
    expect(number, int, what=what)
    if number < 0:  # type: ignore[operator]  # a whole number it is
        raise Usage(f"{what} is {number}", hint=f"give {what} as a whole number from 0 on")


def _texts(texts: object, *, what: str) -> None:
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise Usage(f"{what} is no sequence of texts", hint='for example ("data/*.bin",)')


def pairs(metadata: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return metadata as a mapping of our own."""
    try:
        return {} if metadata is None else dict(metadata)
    except (TypeError, ValueError):
        raise Usage("the metadata are no pairs", hint="give a dict of texts") from None


def check_draft(draft: Draft) -> None:
    """Refuse what could be written into a checkpoint, but not read again."""
    actor = draft.actor
    for value, kinds, what in (
        (draft.kind, (str,), "the kind"),
        (draft.message, (str,), "the message"),
        (draft.name, _TEXT_OR_NONE, "the name"),
        (actor, (Actor,), "the actor"),
        (getattr(actor, "name", None), _TEXT_OR_NONE, "the actor's name"),
        (getattr(actor, "call", None), _TEXT_OR_NONE, "the actor's call"),
        (draft.task, _TEXT_OR_NONE, "the task"),
        (draft.pinned, (bool,), "pin"),
    ):
        if type(value) not in kinds:
            expect(value, *kinds, what=what)
    if draft.tokens is not None:
        check_count(draft.tokens, least=0, what="the number of tokens")
    if draft.actor.type not in _ACTORS:
        raise Usage(f"{draft.actor.type!r} is no type of actor", hint="types: " + ", ".join(_ACTORS))
    for key, value in draft.metadata.items():
        expect(key, str, what="a key of the metadata")
        expect(value, str, what=f"the metadata {key!r}")


def check_count(value: object, *, least: int, what: str) -> None:
    """Refuse what is no whole number, or too small a one."""
    expect(value, int, what=what)
    if isinstance(value, int) and value < least:
        raise Usage(f"{what} is {value}", hint=f"give a number from {least} on")


def sought(text: str | bytes) -> bytes:
    """Return the bytes of a text that is looked for; `Usage` for none."""
    expect(text, str, bytes, what="the text")
    if not text:
        raise Usage(
            "the text to look for is empty", hint="give what is to be found, as it stands in the file"
        )
    return to_bytes(text) if isinstance(text, str) else text


def check_budget(value: object) -> None:
    """Refuse what is no number of seconds; None is no budget."""
    if value is None:
        return
    expect(value, int, float, what="the budget")
    if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
        raise Usage(f"the budget is {value}", hint="give a number of seconds")


# --- Paths as callers give them, and folders to write into ---

_EMPTY = "name a new or empty folder"


def scope(paths: Iterable[PathLike], root: bytes) -> tuple[bytes, ...]:
    """Return paths relative to the workspace; `Usage` for one path where several are meant."""
    if isinstance(paths, (str, bytes, os.PathLike)) or not hasattr(paths, "__iter__"):
        raise Usage("paths are given as a list", hint="put the path into a list: paths=[path]")
    return tuple(inside(path, root) for path in paths)


def inside(path: PathLike, root: bytes) -> bytes:
    """Return a path relative to the workspace (a relative one is meant so); `Unsafe` if it leads out."""
    given = plain(path)
    full = os.path.normpath(os.path.join(root, given))
    if not within(full, root.rstrip(b"/")):
        full = _respelled(full, root)
    if full == root:
        return b""
    if not within(full, root.rstrip(b"/")):
        raise Unsafe(
            f"'{printable(to_text(given))}' is not inside the workspace {printable(to_text(root))}",
            hint="name paths of the workspace",
        )
    return full[len(root.rstrip(b"/")) + 1 :]


def plain(path: PathLike) -> bytes:
    """Return a path as bytes; `Usage` for what is none, `Invalid` for one that nothing can have."""
    try:
        given = os.fsencode(path)
    except TypeError:
        raise Usage(f"{path!r} is no path", hint="give a text, bytes, or a path object") from None
    except UnicodeEncodeError:
        raise Invalid(f"{path!r} is no path", hint="a name's odd bytes are read by os.fsdecode") from None
    if not given or b"\0" in given:
        raise Invalid(f"'{printable(to_text(given))}' is no path", hint="a path has a name, and no NUL in it")
    return given


def make_empty(path: PathLike, *, store: bytes) -> bytes:
    """Make a folder outside the store, or accept one that is empty, and return it (rule T11)."""
    directory = os.fsencode(os.path.realpath(_absolute(os.fsdecode(plain(path)))))
    shown = printable(to_text(directory))
    if within(directory, store):
        raise Unsafe(f"{shown} is inside the store", hint=_EMPTY)
    try:
        os.makedirs(directory, exist_ok=True)
        occupied = bool(os.listdir(directory))
    except OSError as error:
        raise Unsafe(f"cannot write into {shown}: {error.strerror}", hint=_EMPTY) from error
    if occupied:
        raise Unsafe(f"{shown} is not empty", hint=_EMPTY)
    return directory


def _respelled(path: bytes, root: bytes) -> bytes:
    """Return where a path lies that may name the workspace by a link on the way to it (rule S19)."""
    if os.path.realpath(path) == root:
        return root
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


# --- Which folders are refused as workspaces: too large, or not anybody's project (rule S11) ---

_SYSTEM = frozenset(
    [
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/lib",
        "/lib32",
        "/lib64",
        "/opt",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/srv",
        "/sys",
        "/usr",
        "/var",
        "/home",
        "/media",
        "/mnt",
        "/private",
        "/Applications",
        "/Library",
        "/System",
        "/Users",
        "/Volumes",
    ]
)
# Nothing below these is a project either.
_CLOSED = ("/bin", "/boot", "/dev", "/etc", "/proc", "/sbin", "/sys", "/usr/bin", "/usr/lib", "/usr/sbin")
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/tmp")  # noqa: S108 - refused, not used
_PERSONAL = ("Desktop", "Documents", "Downloads")


def refusal(path: str, *, homes: Iterable[str], temporary: Iterable[str], bare_mount: bool) -> str | None:
    """Return why a folder is refused as a workspace, or None if it is not.

    All paths are real paths. ``homes`` are the user's home folders, ``temporary`` further temporary
    roots, ``bare_mount`` tells that it is a mount's root without a ``.git`` or ``.lastgood.toml``.
    """
    reasons = [
        (path == "/", "it is the root of the file system"),
        *(reason for home in homes for reason in _homely(path, home)),
        (path in _TEMPORARY or path in set(temporary), "it is the root of temporary files"),
        (path in _SYSTEM or any(_below(path, closed) for closed in _CLOSED), "it is a system folder"),
        (bare_mount, "it is the root of a mounted disk, and no project (no .git, no .lastgood.toml)"),
    ]
    return next((reason for refused, reason in reasons if refused), None)


def _homely(path: str, home: str) -> list[tuple[bool, str]]:
    return [
        (path == home, "it is a home folder"),
        (path in {f"{home}/{name}" for name in _PERSONAL}, "it is a personal folder, not a project"),
        (home.startswith(path + "/"), "it holds home folders"),
    ]


def _below(path: str, closed: str) -> bool:
    return path == closed or path.startswith(closed + "/")


# --- Where things are: the store of the user, and the workspace that a folder belongs to ---


def store_path(given: str | None, environment: Mapping[str, str]) -> str:
    """Return the store's path: as given, as the environment says, or the platform's place for state."""
    chosen = given or environment.get("LASTGOOD_STORE")
    return _own_folder("lastgood", chosen, environment, kept=("XDG_STATE_HOME", "state"))


def anchor_path(environment: Mapping[str, str]) -> str:
    """Return the folder of what is known of stores outside them: as the environment says, or its place."""
    chosen = environment.get("LASTGOOD_WITNESS")
    return _own_folder("lastgood-witness", chosen, environment, kept=("XDG_DATA_HOME", "share"))


def _own_folder(
    name: str, chosen: str | None, environment: Mapping[str, str], *, kept: tuple[str, str]
) -> str:
    if chosen:
        return os.path.normpath(_absolute(os.path.expanduser(chosen), environment))
    home = environment.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", name)
    variable, folder = kept
    named = environment.get(variable, "")
    return os.path.join(named if os.path.isabs(named) else os.path.join(home, ".local", folder), name)


def no_store(directory: bytes) -> NotFound:
    """Return what is said to whoever needs a store that is there."""
    return NotFound(
        f"there is no store at {printable(to_text(directory))}",
        hint="name it with --store, or LASTGOOD_STORE",
    )


def find_root(given: str | None, environment: Mapping[str, str], *, known: Callable[[str], bool]) -> str:
    """Return the workspace's real path.

    As given; else as ``LASTGOOD_WORKSPACE`` says; else the nearest folder at or above the current
    one that has checkpoints (``known``) or a project file; else the git top level; else the current
    folder.
    """
    chosen = given or environment.get("LASTGOOD_WORKSPACE")
    if chosen:
        return os.path.realpath(_absolute(chosen, environment))
    here = current_folder(environment)
    chain = _upwards(here)
    for folder in chain:
        if known(folder) or os.path.lexists(os.path.join(folder, PROJECT_FILE)):
            return folder
    return next((folder for folder in chain if os.path.lexists(os.path.join(folder, ".git"))), here)


def _absolute(path: str, environment: Mapping[str, str] = {}) -> str:
    """Return a path from the top, also where the current folder is gone."""
    return path if os.path.isabs(path) else os.path.join(current_folder(environment), path)


def current_folder(environment: Mapping[str, str] = {}) -> str:
    """Return the current folder's real path; of one that was deleted, where it was."""
    try:
        return os.path.realpath(os.getcwd())
    except FileNotFoundError:
        pass
    try:
        was = os.readlink("/proc/self/cwd").removesuffix(" (deleted)")
    except OSError:  # no Linux: what the shell says, if it may be true
        was = environment.get("PWD", "")
    if not os.path.isabs(was):
        raise NotFound("the current folder is gone", hint="go to another folder, or give one: -C DIR")
    return os.path.realpath(was)


def _upwards(folder: str) -> list[str]:
    chain = [folder]
    while (above := os.path.dirname(chain[-1])) != chain[-1]:
        chain.append(above)
    return chain


def admit(
    root: str,
    environment: Mapping[str, str],
    *,
    allow_root: bool,
    gone_below: Callable[[], Sequence[HealthNote]] = tuple,
) -> None:
    """Refuse a folder that cannot or should not be a workspace (rule S11), and name what is gone in it.

    Raises `NotFound` if it is missing, `Unsafe` if it is no folder, not readable, or too large a
    place to be a project.
    """
    shown = printable(root)
    try:
        status = os.stat(root)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"there is no folder {shown}, and the store knows of none there",
            hint="check the path given with -C",
        ) from None
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
        named = "name a project folder: -C DIR\nall with checkpoints, gone ones too: lastgood workspace list"
        gone = gone_below()
        if gone:  # which is what somebody looks for who stands here
            others = (f"{one.message}\n{one.hint}" for one in gone[1:])
            hint = "\n".join((gone[0].hint or "", *others, named))
            raise Unsafe(gone[0].message, hint=hint, details={"gone": len(gone)})
        raise Unsafe(
            f"{shown} is refused as a workspace: {reason}",
            hint=f"{named}\nor, if it is really meant: the same with --allow-root",
        )


def _is_mount(root: str, status: os.stat_result) -> bool:
    above = os.stat(os.path.dirname(root))
    return above.st_dev != status.st_dev or above.st_ino == status.st_ino


def place_of(
    root: str, given: str | None, environment: Mapping[str, str], *, known: Callable[[str], bool]
) -> str:
    """Return where a workspace's folder is, or was: a link in the place of a known one does not hide it."""
    chosen = given or environment.get("LASTGOOD_WORKSPACE")
    named = os.path.normpath(_absolute(chosen, environment)) if chosen else root
    return named if named != root and not known(root) and known(named) else root


def programs(environment: Mapping[str, str], root: str) -> bytes:
    """Return where git is looked for: absolute folders only, and none inside the workspace (rule S12)."""
    given = environment.get("PATH", os.defpath).split(os.pathsep)
    fine = [folder for folder in given if os.path.isabs(folder) and not f"{folder}/".startswith(f"{root}/")]
    return os.fsencode(os.pathsep.join(fine))


# --- The restore journals of all workspaces of a store ---

JOURNAL = b"restore.journal"
# Beside it: what came out of a path while somebody had it open for writing (rule T12b).
KEPT = b"/kept"


def interrupted_workspaces(store: bytes) -> frozenset[str]:
    """Return the keys of the workspaces where a restore waits to be finished, readable or not."""
    folder = store + b"/workspaces"
    try:
        keys = os.listdir(folder)
        return frozenset(to_text(key) for key in keys if os.path.lexists(b"/".join((folder, key, JOURNAL))))
    except OSError as error:
        raise Storage(
            f"{printable(to_text(folder))} cannot be read: {error.strerror}", hint="look at its permissions"
        ) from error
