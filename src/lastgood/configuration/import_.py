"""Brings settings of another system into a configuration file, keeping what stands there."""

from __future__ import annotations

import os

from lastgood.configuration.edit import edit, read_text
from lastgood.configuration.edit import write as write_edit
from lastgood.configuration.rules import OPEN_TO_PROJECTS
from lastgood.errors import Invalid, NotFound, Unsupported
from lastgood.paths import printable
from lastgood.settings import TRIGGERS
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.configuration.edit import Place


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
# Its guide lists these alone; a session starts, or is interrupted, with a checkpoint whatever is listed.
_LISTED = frozenset({"task", "sprint", "risky", "interval"})
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
    """What an import brings, or brought: ``kept`` are those that the file already decides.

    ``content`` is the whole file as it is to be.
    """

    path: str
    translation: Translation
    written: tuple[ImportedSetting, ...]
    kept: tuple[ImportedSetting, ...]
    content: str


def translated(tree: object, *, source: str, extends: bool = False) -> Translation:
    """Translate a parsed file; `Invalid` names the file and the key whose value is wrong.

    The keys may stand at the top or below ``checkpoint:``. What ``extends`` other settings, as the file of
    a project does, says of a list only what it names.
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
            known, unknown = _triggers(key, value, source, extends=extends)
            taken.append(ImportedSetting(source=key, key="auto.on", value=known))
            left += [(f"{key}: {one}", "there is no such moment here") for one in unknown]
        else:
            left.append((printable(key), _REASONS.get(name, "there is no such setting here")))
    return Translation(taken=tuple(taken), left=tuple(left))


def _triggers(key: str, value: object, source: str, *, extends: bool) -> tuple[list[str], list[str]]:
    """Return the moments that a list leaves on, and what of it is none.

    Those of which such a list says nothing stay as they are by default, unless it is empty.
    """
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(source, key, value, "a list of moments, such as task_complete")
    moments = [(item, _TRIGGERS.get(item.strip().lower().replace("-", "_"))) for item in value]
    named = {moment for _, moment in moments}
    stays = bool(value) and not extends
    known = [one for one in TRIGGERS if one in named or (stays and one not in _LISTED)]
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


# --- What a file is to become by them: what stands there stays, unless it is to be replaced ---


def import_configuration(source: str, *, place: Place, replace: bool, write: bool) -> Imported:
    """Bring settings of another system (AIWF's keys, YAML) into a configuration file.

    What stands there stays, unless ``replace``; what the file of a project may not decide is left out
    (rule K7). Unless ``write``, it is only told. Raises `NotFound`, `Invalid` (no YAML, a wrong value, a
    file that is wrong itself), `Unsupported` (a library is missing), `Storage`.
    """
    is_project = place.scope == "project"
    translation = translated(_yaml(source), source=printable(source), extends=is_project)
    if is_project:
        translation = _within_a_project(translation)
    present = place.said(read_text(place.path))
    told = [one for one in translation.taken if one.key in present]
    kept = () if replace else tuple(told)
    same = {one.key for one in told if present[one.key] == one.value}
    written = tuple(one for one in translation.taken if one not in kept and one.key not in same)
    change = edit(place, {one.key: one.value for one in written})
    if write and written:
        write_edit(change)
    return Imported(
        path=place.path, translation=translation, written=written, kept=kept, content=change.content
    )


def _within_a_project(found: Translation) -> Translation:
    """Leave out what the file of a repository may not decide."""
    reason = "a repository cannot decide it (K7); for all your projects: lastgood config set {} VALUE"
    refused = [one for one in found.taken if one.key not in OPEN_TO_PROJECTS]
    return Translation(
        taken=tuple(one for one in found.taken if one.key in OPEN_TO_PROJECTS),
        left=(*((one.source, reason.format(one.key)) for one in refused), *found.left),
    )


def _yaml(path: str) -> object:
    try:
        import yaml
    except ImportError:
        from lastgood.libraries import install

        raise Unsupported("reading YAML needs the library PyYAML", hint=install("pyyaml")) from None
    if not os.path.lexists(path):
        raise NotFound(f"there is no file {printable(path)}", hint="give the path of the YAML file")
    content = read_text(path)
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = printable(" ".join(str(error).split()))
        raise Invalid(f"{printable(path)} is not YAML: {reason}", hint="fix the line it names") from error
