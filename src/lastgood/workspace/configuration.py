"""The door to the configuration: what counts for a workspace, and where each setting comes from."""

from __future__ import annotations

from lastgood.adapters.configuration import read_configuration, user_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.rules.configuration import Configuration


def configuration(root: str, *, environment: Mapping[str, str]) -> Configuration:
    """Return the settings that count for a workspace; `Invalid` names a wrong file and key."""
    return read_configuration(root, environment=environment)


def user_configuration_path(environment: Mapping[str, str]) -> str | None:
    """Return where the user's own configuration file is, or would be."""
    return user_file(environment)
