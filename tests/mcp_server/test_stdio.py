"""The server as a host starts it: a process, spoken to over pipes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tools.command import COMMAND, SOURCE, Command

# The command, killed when its restore takes the first thing away: all is written by then, nothing recorded.
_KILLED = """
import os, sys
def armed(path, *, dir_fd=None, real=os.unlink):
    if dir_fd is not None and os.path.exists(sys.argv[1]):
        os.kill(os.getpid(), 9)
    real(path, dir_fd=dir_fd)
os.unlink = armed
from lastgood.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def talk(command: Command, talking: Callable[[Client], Awaitable[Any]], *words: str) -> Any:
    """Start a server in the project, as a host does, and talk to it."""
    program = words or (COMMAND, "mcp")
    environment = {name: command.environment[name] for name in ("PATH", "LASTGOOD_STORE")}
    server = StdioServerParameters(
        command=sys.executable,
        args=list(program),
        cwd=str(command.project),
        env=environment | {"PYTHONPATH": SOURCE},
    )

    async def main() -> Any:
        async with Client(stdio_client(server)) as client:
            return await talking(client)

    return asyncio.run(main())


def test_a_host_saves_and_restores_over_pipes(lastgood: Command) -> None:
    notes = lastgood.project / "notes.txt"
    notes.write_text("good\n")

    async def talking(client: Client) -> Any:
        saved = await client.call_tool("save", {"message": "over pipes"})
        notes.write_text("ruined\n")
        restored = await client.call_tool("restore", {"ref": "@", "confirm": True})
        return saved, restored

    saved, restored = talk(lastgood, talking)

    assert notes.read_text() == "good\n"
    assert not restored.is_error
    (kept,) = lastgood("list", "--json").json["checkpoints"]
    assert kept["id"] == saved.structured_content["checkpoint"]["id"]


def test_a_server_killed_in_a_restore_leaves_what_the_next_one_recovers(
    lastgood: Command, tmp_path: Path
) -> None:
    """T7: also over MCP."""
    (lastgood.project / "notes.txt").write_text("good\n")
    lastgood("save", "before")
    (lastgood.project / "notes.txt").write_text("ruined\n")
    (lastgood.project / "new.txt").write_text("new\n")
    armed = tmp_path / "armed"
    armed.touch()

    async def dying(client: Client) -> None:
        await client.call_tool("restore", {"ref": "@", "confirm": True})

    died = False
    try:
        talk(lastgood, dying, "-c", _KILLED, str(armed), "mcp")
    except Exception:  # noqa: BLE001 - whatever a client raises when its server is gone
        died = True
    assert died
    assert lastgood("status", "--json").json["state"] == "interrupted"

    async def recovering(client: Client) -> Any:
        refused = await client.call_tool("save", {"message": "beside it"})
        return refused, await client.call_tool("recover", {})

    refused, recovered = talk(lastgood, recovering)

    assert json.loads(refused.content[0].text)["error"]["code"] == "busy"
    assert recovered.structured_content["interrupted_restore"] == "finished-restore"
    assert (lastgood.project / "notes.txt").read_text() == "good\n"
    assert not (lastgood.project / "new.txt").exists()
