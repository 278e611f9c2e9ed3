"""The door to the configuration: what counts for a workspace, and where each setting comes from."""

from __future__ import annotations

from lastgood.adapters.configuration import read_configuration, user_file
from lastgood.errors import Invalid, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lastgood.rules.configuration import Configuration
    from lastgood.rules.configuration_import import Imported


def configuration(
    root: str | None, *, environment: Mapping[str, str], flags: Sequence[str] = ()
) -> Configuration:
    """Return the settings that count for a workspace; `Invalid` names a wrong file, line and key.

    Without a workspace they are the user's own. ``flags`` are of the form ``KEY=VALUE``, or `Usage`.
    """
    return read_configuration(root, environment=environment, flags=flags)


def added_by_project(root: str, *, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the file of a project adds to the settings, a line each (rule K7).

    Where it is wrong and adds nothing, the line says why.
    """
    faults: list[Invalid] = []
    added = read_configuration(root, environment=environment, faults=faults).added_by_project
    wrong = (one for one in faults if one.details.get("scope") == "project")
    return added or tuple(f"nothing: {error.message}" for error in wrong)


def user_configuration_path(environment: Mapping[str, str]) -> str | None:
    """Return where the user's own configuration file is, or would be."""
    return user_file(environment)


def import_configuration(source: str, *, environment: Mapping[str, str], write: bool) -> Imported:
    """Bring settings of another system (AIWF's keys, YAML) into the user's own file.

    What stands there stays. Unless ``write``, it is only told. Raises `NotFound`, `Invalid`,
    `Unsupported` (a library is missing), `Storage`.
    """
    from lastgood.adapters.configuration_import import plan_import, write_import

    home = user_file(environment)
    if home is None:
        raise NotFound("there is no home folder to keep settings in", hint="set HOME or XDG_CONFIG_HOME")
    imported = plan_import(source, into=home)
    if write and imported.written:
        write_import(imported)
    return imported
