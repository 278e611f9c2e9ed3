"""mcp: the verbs as tools of the Model Context Protocol (decision 054)."""

from __future__ import annotations

import sys
from functools import partial

from lastgood.cli.help import VERSION
from lastgood.cli.hints import completed_within
from lastgood.cli.opening import open_silently
from lastgood.errors import Unsupported
from lastgood.paths import quoted
from lastgood.workspace.api import Workspace
from lastgood.workspace.arguments import current_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.workspace import Purpose


def mcp_verb(call: Call, console: Console) -> int:
    """Serve until the host goes away; `Unsupported` where the SDK is not installed."""
    try:
        import mcp  # noqa: F401 - whether it is there
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    from lastgood.mcp_server.server import serve

    def opening(purpose: Purpose, folder: str | None) -> Workspace:
        there = {} if folder is None else {"directory": (folder,)}
        return open_silently(call.replace(options={**call.options, **there}), Workspace, purpose=purpose)

    if console.can_ask:
        console.note("Waiting for what an agent's host says; a host starts this, as after:")
        console.note("  claude mcp add lastgood -- lastgood mcp")
    given = call.text("directory") or console.environment.get("LASTGOOD_WORKSPACE")
    serve(
        opening,
        started=given or current_folder(console.environment),
        bound=bool(given),
        complete=partial(completed_within, call=call),
        version=VERSION,
    )
    return 0


def _missing(error: ModuleNotFoundError) -> Unsupported:
    return Unsupported(
        f"an MCP server needs the package {error.name}, which is not installed where lastgood runs",
        hint=f"install it there: {quoted(sys.executable)} -m pip install 'lastgood[mcp]'"
        "\nor: uv tool install 'lastgood[mcp]', pipx install 'lastgood[mcp]'",
    )
