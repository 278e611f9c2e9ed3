"""Reads the configuration: the user's file, the project's, and the environment handed in."""

from __future__ import annotations

import sys

from lastgood.errors import Invalid, Usage
from lastgood.files import read_plain
from lastgood.paths import printable
from lastgood.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from lastgood.configuration.rules import Configuration, Layer

FLAG = "--set"
PROJECT_FILE = ".lastgood.toml"
_LIMIT = 1 << 20
# A file that is longer, or has more faults, is no configuration that a merge broke; each is read again.
_MOST_SALVAGED = 32 << 10
_MOST_STUMBLES = 20
_SECTIONS = ("CAPTURE", "AUTO", "RETENTION", "SESSION", "WATCH")
_LONE = frozenset({"LASTGOOD_DURABILITY"})
_RESERVED = frozenset({"LASTGOOD_SESSION", "LASTGOOD_SESSION_ID"})
# What the sources said last, and the settings of that: the process that watches asks at each call.
_latest: list[tuple[list[Layer], Settings]] = []


def read_configuration(
    workspace: str | None,
    *,
    environment: Mapping[str, str],
    flags: Sequence[str] = (),
    faults: list[Invalid] | None = None,
) -> Configuration:
    """Return the settings that count for a workspace, and where each comes from.

    Without a workspace they are the user's alone. ``flags`` are of the form ``KEY=VALUE``, or `Usage`.
    Raises `Invalid` for a file that is no TOML, an unknown key (with the nearest one), a wrong type,
    and what a project's file may not say (rule K7); ``details["scope"]`` tells whose file it is. With
    ``faults`` those of files are added to them instead, and what is wrong is left out.
    """
    from lastgood.configuration.rules import configured

    return configured(_layers(workspace, environment, flags, faults), faults=faults)


def read_settings(
    workspace: str | None, *, environment: Mapping[str, str], flags: Sequence[str] = ()
) -> tuple[Settings, tuple[Invalid, ...]]:
    """Return the settings that count, and what is wrong with files, which is left out of them.

    Raises `Invalid` or `Usage` for what the environment or a flag says, as that is said for this call.
    Where nobody says anything, the rules of saying need no loading.
    """
    faults: list[Invalid] = []
    layers = _layers(workspace, environment, flags, faults)
    if not layers:
        return Settings(), tuple(faults)
    for known, settings in () if faults else _latest:
        if known == layers:
            return settings, ()
    from lastgood.configuration.rules import configured

    settings = configured(layers, faults=faults).settings
    if not faults:
        _latest[:] = [(layers, settings)]
    return settings, tuple(faults)


# How the line begins of a file that adds nothing, as it is wrong.
NOTHING = "nothing: "


def added_by_project(workspace: str, *, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the file of a project adds to the settings, a line each (rule K7).

    Where it is wrong and adds nothing, the line says why.
    """
    faults: list[Invalid] = []
    layers = _layers(workspace, environment, (), faults)
    added: tuple[str, ...] = ()
    if any(layer.scope == "project" for layer in layers):
        from lastgood.configuration.rules import configured

        added = configured(layers, faults=faults).added_by_project
    wrong = (one for one in faults if one.details.get("scope") == "project")
    return added or tuple(f"{NOTHING}{error.message}" for error in wrong)


def _layers(
    workspace: str | None,
    environment: Mapping[str, str],
    flags: Sequence[str],
    faults: list[Invalid] | None = None,
) -> list[Layer]:
    """Return what each source says, the weakest first; faults of files are raised, or added to a list."""
    layers: list[Layer | None] = []
    for scope in ("user", "project"):
        try:
            layers.append(_user(environment, faults) if scope == "user" else _project(workspace, faults))
        except Invalid as error:
            if faults is None:
                raise
            faults.append(error)
    layers.append(_variables(environment))
    layers += [_flag(text) for text in flags]
    return [layer for layer in layers if layer is not None]


def _user(environment: Mapping[str, str], faults: list[Invalid] | None) -> Layer | None:
    home = user_file(environment)
    content = None if home is None else _content(home, scope="user")
    return None if home is None or content is None else layer_of("user", home, content, faults=faults)


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


def _project(workspace: str | None, faults: list[Invalid] | None) -> Layer | None:
    if workspace is None:
        return None
    own = f"{workspace}/{PROJECT_FILE}"
    content = _content(own, scope="project")
    if content is not None:
        return layer_of("project", own, content, faults=faults)
    shared = f"{workspace}/pyproject.toml"
    content = _content(shared, scope=None)
    # Most files of that name say nothing to us: only one that may pays for the TOML reader.
    if content is None or b"lastgood" not in content:
        return None
    ours = b"tool.lastgood" in content.translate(None, b" \t'\"")
    try:
        return layer_of("project", shared, content, below="tool.lastgood.", faults=faults if ours else None)
    except Invalid:
        if not ours:
            return None  # broken, and it names us among its dependencies only
        raise


def layer_of(
    scope: Literal["user", "project"],
    path: str,
    content: bytes,
    *,
    below: str = "",
    faults: list[Invalid] | None = None,
) -> Layer | None:
    """Return what a file says, or the table of it that is ours; None if there is no such table.

    What is no TOML, and unknown tables, are raised, or left out and added to ``faults``.
    """
    from lastgood.configuration.rules import Layer, flattened

    table: object
    try:
        table = _parsed(content, path, scope=scope)
    except Invalid as error:
        if faults is None:
            raise
        faults.append(error)
        table = _salvaged(content)
    for name in below.split(".")[:-1]:
        table = table.get(name) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        return None
    source, text = printable(path), content.decode("utf-8", "replace")
    values = flattened(table, source=source, scope=scope, content=text, below=below, faults=faults)
    return Layer(scope=scope, source=source, values=values, content=text, below=below)


def _content(path: str, *, scope: str | None) -> bytes | None:
    """Return a file's bytes, None if there is none; a pipe or device in its place is never waited for.

    Without a scope it is a file that others keep too: whatever is wrong with it, it is passed over.
    """
    try:
        content = read_plain(path, limit=_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if scope is None:
            return None
        raise Invalid(
            f"{printable(path)} cannot be read: {error.strerror}",
            hint="fix or delete it",
            details={"source": printable(path), "scope": scope},
        ) from error
    if content is None and scope is not None:
        raise Invalid(
            f"{printable(path)} is no file that settings could be in",
            hint="it has to be a file below 1 MiB",
            details={"source": printable(path), "scope": scope},
        )
    return content


def _parsed(content: bytes, path: str, *, scope: str) -> dict[str, object]:
    import tomllib  # lazily: 13 ms, paid only where there is something to read

    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # what is no TOML, no UTF-8, or nested without end
        raise Invalid(
            f"{printable(path)} is not TOML: {printable(str(error))}",
            hint="fix the line it names",
            details={"source": printable(path), "scope": scope},
        ) from error


def _salvaged(content: bytes) -> dict[str, object]:
    """Return what a file says without the lines that TOML's reader stumbles over: merge marks, say.

    A setting that is off stays off (rule K7), whatever was broken beside it. No key is one of two tables:
    where a table's head is among those lines, its keys are unknown, and none is taken for another.
    """
    import re
    import tomllib

    if len(content) > _MOST_SALVAGED:
        return {}
    lines = content.decode("utf-8", "replace").split("\n")
    for _ in range(_MOST_STUMBLES):
        try:
            return tomllib.loads("\n".join(lines))
        except RecursionError:
            break
        except ValueError as error:
            place = re.search(r"at line (\d+), column", str(error))
            written = [number for number, line in enumerate(lines, 1) if line.strip()]
            number = int(place[1]) if place else max(written, default=0)
            if number not in written:
                break
            lines[number - 1] = ""
    return {}


def _variables(environment: Mapping[str, str]) -> Layer | None:
    """Return the settings among the environment: ``LASTGOOD_CAPTURE_MAX_FILE_SIZE`` and so on."""
    # An environment has a hundred variables of others.
    ours = [name for name in environment if name.startswith("LASTGOOD_") and name not in _RESERVED]
    if not any(_section(name) in _SECTIONS or name in _LONE for name in ours):
        return None
    from lastgood.configuration.rules import VARIABLES, Layer

    values: dict[str, object] = {}
    for name in ours:
        if name in VARIABLES:
            values[VARIABLES[name]] = environment[name]
        elif _section(name) in _SECTIONS:
            raise Invalid(f"there is no setting for {printable(name)}", hint=_near(name, list(VARIABLES)))
    return Layer(scope="environment", source="environment", values=values, texts=True) if values else None


def _flag(text: str) -> Layer:
    """Return what one flag says; each is a layer of its own, so that a list can be given in several."""
    from lastgood.configuration.rules import Layer

    key, equals, value = text.partition("=")
    if not key or not equals:
        raise Usage(
            f"{FLAG} takes KEY=VALUE, not '{printable(text)}'",
            hint=f"for example {FLAG} capture.max_file_size=64MiB\nall keys: lastgood config",
        )
    return Layer(scope="flags", source=FLAG, values={key: value}, texts=True)


def _section(name: str) -> str:
    """Return the second word of a variable of ours."""
    return name.split("_")[1]


def _near(name: str, known: list[str]) -> str:
    from lastgood.suggestions import nearest

    close = nearest(name, known)
    return f"did you mean {close[0]}?" if close else "all settings: lastgood config"
