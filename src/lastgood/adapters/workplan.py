"""Reads work plans from files: YAML or JSON, told apart by name or else by the first character."""

from __future__ import annotations

import os
import stat

from lastgood.codec.workplan import plan_of
from lastgood.errors import Invalid, NotFound
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.workplan import WorkPlan

SIZE_LIMIT = 1 << 20
_BOM = b"\xef\xbb\xbf"


def read_plan(path: str) -> WorkPlan:
    """Return the plan in a file, with the file's real path as its source.

    Raises `NotFound` if there is none, `Unsupported` where YAML cannot be read, and `Invalid`, with
    file, line, column and key, for anything wrong in it.
    """
    content = _content(path)
    text = _decoded(content, path)
    if _is_json(path, text):
        from lastgood.adapters.workplan_json import read_json

        value, places = read_json(text, where=path)
    else:
        from lastgood.adapters.workplan_yaml import read_yaml

        value, places = read_yaml(text, where=path)
    return plan_of(value, where=path, places=places).replace(source=os.path.realpath(path))


def _is_json(path: str, text: str) -> bool:
    name = path.lower()
    return name.endswith(".json") or (
        not name.endswith((".yaml", ".yml")) and text.lstrip(" \t\r\n").startswith("{")
    )


def _content(path: str) -> bytes:
    """Return a file's bytes; a pipe or device in its place is never waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(
            f"there is no plan {printable(path)}", hint="for one command: lastgood run -- COMMAND"
        ) from error
    except (OSError, ValueError) as error:
        raise Invalid(
            f"{printable(path)} cannot be read: {printable(str(error))}", hint="name a file with a plan"
        ) from error
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_size <= SIZE_LIMIT:
            return _all(descriptor)
    finally:
        os.close(descriptor)
    raise Invalid(
        f"{printable(path)} is no file that a plan could be in", hint="it has to be a file of at most 1 MiB"
    )


def _all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, SIZE_LIMIT):
        parts.append(part)
    return b"".join(parts)


def _decoded(content: bytes, path: str) -> str:
    try:
        return content.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{printable(path)}:{line}: is no UTF-8", hint="save the file as UTF-8") from error
