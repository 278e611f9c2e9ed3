"""Reads the configuration: the user's file, the project's, and the environment handed in."""

from __future__ import annotations

import os
import stat
import sys

from lastgood.errors import Invalid
from lastgood.names import printable
from lastgood.rules.configuration import KEYS, Configuration, Layer, configured, flattened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT_FILE = ".lastgood.toml"
_LIMIT = 1 << 20
_SECTIONS = ("CAPTURE", "AUTO", "RETENTION", "SESSION")
_RESERVED = frozenset({"LASTGOOD_SESSION", "LASTGOOD_SESSION_ID"})


def read_configuration(workspace: str, *, environment: Mapping[str, str]) -> Configuration:
    """Return the settings that count for a workspace, and where each comes from.

    Raises `Invalid` for a file that is no TOML, an unknown key (with the nearest one), a wrong type,
    and what a project's file may not say (rule K7).
    """
    layers = []
    home = user_file(environment)
    table = None if home is None else _table(home)
    if table is not None:
        layers.append(_layer("user", home or "", table))
    project = _project(workspace)
    if project is not None:
        layers.append(project)
    variables = _variables(environment)
    if variables is not None:
        layers.append(variables)
    return configured(layers)


def user_file(environment: Mapping[str, str]) -> str | None:
    """Return where the user's own configuration is (or would be); None without a home."""
    named = environment.get("XDG_CONFIG_HOME", "")
    if named.startswith("/"):
        return f"{named}/lastgood/config.toml"
    home = environment.get("HOME", "")
    if not home.startswith("/"):
        return None
    folder = "Library/Application Support" if sys.platform == "darwin" else ".config"
    return f"{home}/{folder}/lastgood/config.toml"


def _project(workspace: str) -> Layer | None:
    own = f"{workspace}/{PROJECT_FILE}"
    table = _table(own)
    if table is not None:
        return _layer("project", own, table)
    shared = f"{workspace}/pyproject.toml"
    content = _content(shared, strict=False)
    # Most files of that name say nothing to us: only one that does pays for the TOML reader.
    if content is None or b"tool.lastgood" not in content:
        return None
    tools = _parsed(content, shared).get("tool")
    section = tools.get("lastgood") if isinstance(tools, dict) else None
    return _layer("project", shared, section) if isinstance(section, dict) else None


def _layer(scope: str, path: str, table: Mapping[str, object]) -> Layer:
    source = printable(path)
    return Layer(
        scope="project" if scope == "project" else "user",
        source=source,
        values=flattened(table, source=source),
    )


def _table(path: str) -> dict[str, object] | None:
    content = _content(path, strict=True)
    return None if content is None else _parsed(content, path)


def _content(path: str, *, strict: bool) -> bytes | None:
    """Return a file's bytes, None if there is none; a pipe or device in its place is never waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if not strict:
            return None
        raise Invalid(
            f"{printable(path)} cannot be read: {error.strerror}", hint="mend or remove it"
        ) from error
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_size <= _LIMIT:
            return os.read(descriptor, _LIMIT)
    finally:
        os.close(descriptor)
    if strict:
        raise Invalid(
            f"{printable(path)} is no file that settings could be in", hint="it has to be a file below 1 MiB"
        )
    return None


def _parsed(content: bytes, path: str) -> dict[str, object]:
    import tomllib  # lazily: 13 ms, paid only where there is something to read

    try:
        return tomllib.loads(content.decode("utf-8"))
    except ValueError as error:  # both what is no TOML and what is no UTF-8
        raise Invalid(f"{printable(path)} is not TOML: {error}", hint="mend the line it names") from error


def _variables(environment: Mapping[str, str]) -> Layer | None:
    """Return the settings among the environment: ``LASTGOOD_CAPTURE_MAX_FILE_SIZE`` and so on."""
    names = {f"LASTGOOD_{key.replace('.', '_').replace('-', '_').upper()}": key for key in KEYS}
    values: dict[str, object] = {}
    for name in environment:
        if not name.startswith("LASTGOOD_") or name in _RESERVED:
            continue
        if name in names:
            values[names[name]] = environment[name]
        elif name.split("_")[1] in _SECTIONS:
            raise Invalid(f"there is no setting for {printable(name)}", hint=_near(name, list(names)))
    return Layer(scope="environment", source="environment", values=values, texts=True) if values else None


def _near(name: str, known: list[str]) -> str:
    from lastgood.rules.nearest import nearest

    close = nearest(name, known)
    return f"did you mean {close[0]}?" if close else "all settings: lastgood config"
