"""The table of hosts whose hooks there are, each a module of this package."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.hooks.host import Host


def host_named(name: str) -> Host:
    """Return a host by its name: no other one's module is loaded."""
    if name == "codex":
        from lastgood.hooks import codex

        return codex
    if name == "gemini-cli":
        from lastgood.hooks import gemini_cli

        return gemini_cli
    from lastgood.hooks import claude_code

    return claude_code


def host_of(payload: Mapping[str, object]) -> Host | None:
    """Return the host whose payloads are of such a shape; None if nobody's are."""
    from lastgood.hooks import claude_code, codex, gemini_cli

    every: tuple[Host, ...] = (gemini_cli, codex, claude_code)
    return next((one for one in every if one.is_from_it(payload)), None)
