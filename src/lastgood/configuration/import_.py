"""Brings settings of another system into the user's own configuration file, keeping what stands there."""

from __future__ import annotations

import os

from lastgood.configuration import layer_of, user_file
from lastgood.configuration.rules import configured
from lastgood.errors import Invalid, NotFound, Storage, Unsupported
from lastgood.files import read_plain
from lastgood.paths import printable
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# --- Settings of another checkpoint system (AIWF's keys), translated into ours; what has no like is listed
# ---

_SECTION = "checkpoint"
_TRIGGERS = {
    "session_start": "session-start",
    "task_complete": "task",
    "sprint_complete": "sprint",
    "feature_complete": "feature",
    "before_risky_operation": "risky",
    "risky_operation": "risky",
    "interval": "interval",
    "auto": "interval",
    "interruption": "interrupt",
    "graceful_interruption": "interrupt",
    "on_interruption": "interrupt",
    "error": "error",
    "error_recovery": "error",
}
_REASONS = {
    "interval": "counts tasks; here every finished task makes a checkpoint (auto.on has 'task')",
    "recovery_mode": "recovery is asked for by the verb: lastgood recover --continue, --fresh or --review",
    "state_file": "the store keeps the progress; a file of the workspace belongs into capture.state_files",
}


class ImportedSetting(Value):
    """One setting that was translated: the foreign key, ours, and the value as TOML has it."""

    source: str
    key: str
    value: object


class Translation(Value):
    """What could be translated, and what not: the foreign key with the reason."""

    taken: tuple[ImportedSetting, ...]
    left: tuple[tuple[str, str], ...]


class Imported(Value):
    """What an import brings, or brought: ``kept`` are those that the user's file already decides.

    ``content`` is the whole file as it is to be.
    """

    path: str
    translation: Translation
    written: tuple[ImportedSetting, ...]
    kept: tuple[ImportedSetting, ...]
    content: str


def translated(tree: object, *, source: str) -> Translation:
    """Translate a parsed file; `Invalid` names the file and the key whose value is wrong.

    The keys may stand at the top or below ``checkpoint:``.
    """
    if not isinstance(tree, dict):
        raise Invalid(
            f"{source} holds no settings", hint="it has to have keys with values, such as checkpoint:"
        )
    section = tree.get(_SECTION, {})
    if section is not None and not isinstance(section, dict):
        raise _wrong(source, _SECTION, section, "a table of settings")
    given = {str(key): value for key, value in tree.items() if key != _SECTION}
    given |= {f"{_SECTION}.{key}": value for key, value in (section or {}).items()}
    taken: list[ImportedSetting] = []
    left: list[tuple[str, str]] = []
    for key, value in given.items():
        name = key.removeprefix(f"{_SECTION}.")
        if name in {"auto_checkpoint", "enabled"} and (name != "enabled" or key != name):
            taken.append(ImportedSetting(source=key, key="auto.enabled", value=_flag(key, value, source)))
        elif name == "interval_minutes":
            taken.append(
                ImportedSetting(source=key, key="auto.interval", value=f"{_number(key, value, source)}m")
            )
        elif name == "max_checkpoints":
            count = _number(key, value, source)
            taken.append(ImportedSetting(source=key, key="retention.max_checkpoints", value=count))
        elif name == "checkpoint_on":
            known, unknown = _triggers(key, value, source)
            taken.append(ImportedSetting(source=key, key="auto.on", value=known))
            left += [(f"{key}: {one}", "there is no such moment here") for one in unknown]
        else:
            left.append((printable(key), _REASONS.get(name, "there is no such setting here")))
    return Translation(taken=tuple(taken), left=tuple(left))


def _triggers(key: str, value: object, source: str) -> tuple[list[str], list[str]]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(source, key, value, "a list of moments, such as task_complete")
    moments = [(item, _TRIGGERS.get(item.strip().lower().replace("-", "_"))) for item in value]
    known = list(dict.fromkeys(moment for _, moment in moments if moment is not None))
    return known, [printable(item) for item, moment in moments if moment is None]


def _flag(key: str, value: object, source: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(source, key, value, "true or false")
    return value


def _number(key: str, value: object, source: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 10**9:
        raise _wrong(source, key, value, "a whole number above 0")
    return value


def _wrong(source: str, key: str, value: object, wanted: str) -> Invalid:
    # Aliases can make a few lines of YAML into lists of lists without end: those are not written out.
    shown = f"a {type(value).__name__}" if isinstance(value, list | dict) else printable(repr(value))[:80]
    return Invalid(
        f"{source}: {printable(key)} cannot be {shown}",
        hint=f"it has to be {wanted}",
        details={"source": source, "key": printable(key)},
    )


# --- Brings settings of another system into the user's own configuration file, keeping what stands there
# ---

_LIMIT = 1 << 20
_INSTALL = "pip install 'lastgood[yaml]'"


def import_configuration(source: str, *, environment: Mapping[str, str], write: bool) -> Imported:
    """Bring settings of another system (AIWF's keys, YAML) into the user's own file.

    What stands there stays. Unless ``write``, it is only told. Raises `NotFound`, `Invalid`,
    `Unsupported` (a library is missing), `Storage`.
    """
    home = user_file(environment)
    if home is None:
        raise NotFound("there is no home folder to keep settings in", hint="set HOME or XDG_CONFIG_HOME")
    imported = plan_import(source, into=home)
    if write and imported.written:
        write_import(imported)
    return imported


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


def _with(content: str, taken: Iterable[ImportedSetting]) -> str:
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
        content = read_plain(path, limit=_LIMIT)
    except FileNotFoundError:
        if missing is not None:
            return missing
        raise NotFound(f"there is no file {printable(path)}", hint="give the path of the YAML file") from None
    except (OSError, ValueError) as error:
        raise Invalid(f"{printable(path)} cannot be read: {error}", hint="check the path") from error
    if content is None:
        raise Invalid(
            f"{printable(path)} is no file that settings could be in", hint="it has to be a file below 1 MiB"
        )
    return content
