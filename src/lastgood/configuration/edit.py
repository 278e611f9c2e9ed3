"""Changes a configuration file: what is not spoken of stays as it was, comments too."""

from __future__ import annotations

import os

from lastgood.configuration import PROJECT_FILE, layer_of, user_file
from lastgood.configuration.rules import KEYS, Layer, checked, configured, from_text
from lastgood.errors import Invalid, NotFound, Storage, Unsupported
from lastgood.files import read_plain
from lastgood.paths import printable
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Literal

    from tomlkit import TOMLDocument
    from tomlkit.container import Container
    from tomlkit.items import Table

    Scope = Literal["user", "project"]


_LIMIT = 1 << 20
_TABLE = "tool.lastgood"


class Place(Value):
    """A configuration file that can be changed: whose it is, and the table in it that is ours."""

    path: str
    scope: Scope
    below: str = ""

    def said(self, content: str) -> Mapping[str, object]:
        """Return what a text of this file says, by full key; `Invalid` where it is wrong."""
        prefix = f"{self.below}." if self.below else ""
        layer = layer_of(self.scope, self.path, content.encode(), below=prefix)
        configured([] if layer is None else [layer])
        return {} if layer is None else layer.values


class Edit(Value):
    """A file as it is, and as it is to be."""

    place: Place
    before: str
    content: str


def own_place(environment: Mapping[str, str]) -> Place:
    """Return the user's own file, which counts in all workspaces; `NotFound` without a home."""
    home = user_file(environment)
    if home is None:
        raise NotFound("there is no home folder to keep settings in", hint="set HOME or XDG_CONFIG_HOME")
    return Place(path=home, scope="user")


def project_place(workspace: str) -> Place:
    """Return the file of a project that speaks of us: ``pyproject.toml`` only where that alone does."""
    own, shared = f"{workspace}/{PROJECT_FILE}", f"{workspace}/pyproject.toml"
    if not os.path.lexists(own) and os.path.exists(shared):
        try:
            layer = layer_of("project", shared, read_text(shared).encode(), below=f"{_TABLE}.")
        except Invalid:
            layer = None
        if layer is not None:
            return Place(path=shared, scope="project", below=_TABLE)
    return Place(path=own, scope="project")


def set_value(place: Place, key: str, text: str) -> tuple[Edit, object]:
    """Return the edit by which a file says a setting, and the value as TOML has it.

    ``text`` is written as in variables: lists as ``a,b``. Raises `Invalid` for an unknown key, a wrong
    value, what a project may not decide (rule K7), and a file that is wrong itself.
    """
    said = Layer(scope=place.scope, source=printable(place.path), values={}, texts=True)
    checked(key, text, said)
    value = from_text(text, KEYS[key].form)
    return edit(place, {key: value}), value


def unset_value(place: Place, key: str) -> Edit:
    """Return the edit by which a file says nothing of a setting; `NotFound` where it does not."""
    if key not in place.said(read_text(place.path)):
        raise NotFound(
            f"{printable(place.path)} says nothing of '{printable(key)}'",
            hint="see where each setting comes from: lastgood config",
        )
    return edit(place, {}, removed=(key,))


def edit(place: Place, values: Mapping[str, object], *, removed: Collection[str] = ()) -> Edit:
    """Return a file with settings changed; nothing is written.

    What is to be written must be readable, so a file that is wrong itself is refused (`Invalid`).
    Raises `Unsupported` where the library that keeps comments is missing.
    """
    before = read_text(place.path)
    place.said(before)
    try:
        import tomlkit
    except ImportError:
        from lastgood.libraries import install

        raise Unsupported(
            "keeping the comments of your file needs the library tomlkit", hint=install("tomlkit")
        ) from None
    document = tomlkit.parse(before)
    for key, value in values.items():
        table, name = _table_of(document, f"{place.below}.{key}" if place.below else key)
        table[name] = value
    for key in removed:
        table, name = _table_of(document, f"{place.below}.{key}" if place.below else key)
        del table[name]
    content = tomlkit.dumps(document)
    place.said(content)
    return Edit(place=place, before=before, content=content)


def _table_of(document: TOMLDocument, key: str) -> tuple[Container | Table, str]:
    """Return the table that a key stands in, made where there is none, and its name there."""
    import tomlkit

    *sections, name = key.split(".")
    table: Container | Table = document
    for section in sections:
        if section not in table:
            table[section] = tomlkit.table()
        below = table[section]
        assert isinstance(below, dict)
        table = below  # type: ignore[assignment] # tables and inline tables are written alike
    return table, name


def read_text(path: str) -> str:
    """Return a file's text, empty where there is none; `Invalid` for what is no such file."""
    try:
        content = read_plain(path, limit=_LIMIT)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise Invalid(f"{printable(path)} cannot be read: {error}", hint="check the path") from error
    if content is None:
        raise Invalid(
            f"{printable(path)} is no file that settings could be in", hint="it has to be a file below 1 MiB"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{printable(path)} is not UTF-8: {error}", hint="fix or delete it") from error


def write(change: Edit) -> None:
    """Put the new content in the file's place, durably; `Storage` leaves the file as it was."""
    write_text(change.place.path, change.content, private=change.place.scope == "user")


def write_text(path: str, content: str, *, private: bool) -> None:
    """Put a text in the place of somebody's file, durably; through a link, into the file that it leads to.

    A ``private`` one, and the folders to it, are made for the user alone where missing. Raises `Storage`,
    and leaves the file as it was.
    """
    target = os.path.realpath(path)
    beside = f"{target}.lastgood-{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(target), mode=0o700 if private else 0o777, exist_ok=True)
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o600 if private else 0o666
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, target)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise Storage(
            f"{printable(path)} could not be written: {error.strerror}",
            hint="the file is as it was; see what would be written: --print",
        ) from error
