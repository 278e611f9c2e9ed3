"""The table of hosts whose hooks there are, each a module of this package."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.hooks.host import Host


def host_named(name: str) -> Host:
    """Return a host by its name: no other one's module is loaded."""
    found: Host = __import__(f"lastgood.hooks.{name.replace('-', '_')}", fromlist=("NAME",))
    return found


def host_of(payload: Mapping[str, object]) -> Host | None:
    """Return the host whose payloads are of such a shape; None if nobody's are."""
    from lastgood.hooks import claude_code, cline, codex, cursor, gemini_cli, opencode

    # Claude Code's shape is what others took over: it comes last.
    every: tuple[Host, ...] = (opencode, cline, cursor, gemini_cli, codex, claude_code)
    return next((one for one in every if one.is_from_it(payload)), None)
