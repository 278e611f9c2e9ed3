"""Which folders are refused as workspaces: too large, or not anybody's project (rule S11)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SYSTEM = (
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
    "/Applications",
    "/Library",
    "/System",
    "/Users",
    "/Volumes",
    "/home",
    "/media",
    "/mnt",
    "/private",
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
