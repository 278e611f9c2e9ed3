"""Brings settings of another system into the user's own configuration file, keeping what stands there."""

from __future__ import annotations

import os
import stat

from lastgood.adapters.configuration import layer_of
from lastgood.errors import Invalid, NotFound, Storage, Unsupported
from lastgood.names import printable
from lastgood.rules.configuration import configured
from lastgood.rules.configuration_import import Imported, translated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastgood.rules.configuration_import import Taken

_LIMIT = 1 << 20
_INSTALL = "pip install 'lastgood[yaml]'"


def plan_import(source: str, *, into: str) -> Imported:
    """Read a YAML file and return what the user's file is to become; nothing is written.

    Raises `NotFound`, `Invalid` (no YAML, a wrong value, a user's file that is wrong itself), or
    `Unsupported` if the libraries are not installed.
    """
    translation = translated(_yaml(source), source=printable(source))
    present = _read(into, missing=b"")
    layer = layer_of("user", into, present)
    known = {} if layer is None else layer.values
    written = tuple(one for one in translation.taken if one.key not in known)
    kept = tuple(one for one in translation.taken if one.key in known)
    content = _with(present.decode(), written)
    # What is written must be readable: a user's file that is wrong stops every verb.
    whole = layer_of("user", into, content.encode())
    configured([] if whole is None else [whole])
    return Imported(path=into, translation=translation, written=written, kept=kept, content=content)


def write_import(imported: Imported) -> None:
    """Put the new content in the file's place; through a link, into the file that it leads to."""
    target = os.path.realpath(imported.path)
    beside = f"{target}.lastgood-{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o600
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(imported.content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, target)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise Storage(
            f"{printable(imported.path)} could not be written: {error.strerror}",
            hint="the file is as it was; see what would be written: --print",
        ) from error


def _yaml(path: str) -> object:
    try:
        import yaml
    except ImportError:
        raise Unsupported("reading YAML needs the library PyYAML", hint=_INSTALL) from None
    content = _read(path, missing=None)
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = printable(" ".join(str(error).split()))
        raise Invalid(f"{printable(path)} is not YAML: {reason}", hint="mend the line it names") from error


def _with(content: str, taken: Iterable[Taken]) -> str:
    """Return a TOML text with settings added, everything else as it was, comments too."""
    try:
        import tomlkit
    except ImportError:
        raise Unsupported("keeping your file's comments needs the library tomlkit", hint=_INSTALL) from None
    document = tomlkit.parse(content)
    for one in taken:
        section, _, name = one.key.rpartition(".")
        if section not in document:
            document.add(section, tomlkit.table())
        table = document[section]
        assert isinstance(table, dict)
        table[name] = one.value
    return tomlkit.dumps(document)


def _read(path: str, *, missing: bytes | None) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if missing is not None:
            return missing
        raise NotFound(f"there is no file {printable(path)}", hint="give the path of the YAML file") from None
    except (OSError, ValueError) as error:
        raise Invalid(f"{printable(path)} cannot be read: {error}", hint="check the path") from error
    try:
        found = os.fstat(descriptor)
        content = os.read(descriptor, _LIMIT + 1) if stat.S_ISREG(found.st_mode) else None
    finally:
        os.close(descriptor)
    if content is None or len(content) > _LIMIT:
        raise Invalid(
            f"{printable(path)} is no file that settings could be in", hint="it has to be a file below 1 MiB"
        )
    return content
