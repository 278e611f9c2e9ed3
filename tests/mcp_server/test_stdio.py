"""The server as a host starts it: a process, spoken to over pipes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tools.command import COMMAND, PATIENCE, SOURCE, Command

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
        planned = await client.call_tool("recover", {"roll_back": True, "plan": "plan_of_nothing"})
        return refused, planned, await client.call_tool("recover", {})

    refused, planned, recovered = talk(lastgood, recovering)

    assert json.loads(planned.content[0].text)["error"]["code"] == "unsafe"
    assert json.loads(refused.content[0].text)["error"]["code"] == "busy"
    assert recovered.structured_content["interrupted_restore"] == "finished-restore"
    assert (lastgood.project / "notes.txt").read_text() == "good\n"
    assert not (lastgood.project / "new.txt").exists()


def server_of(command: Command) -> subprocess.Popen[bytes]:
    """Start a server that was greeted, its pipes in the test's hands."""
    words = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    server = subprocess.Popen(
        [sys.executable, COMMAND, "mcp"],
        cwd=command.project,
        env=command.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    say(server, {"id": 1, "method": "initialize", "params": words})
    assert server.stdout is not None
    assert b"lastgood" in server.stdout.readline()
    say(server, {"method": "notifications/initialized"})
    return server


def say(server: subprocess.Popen[bytes], words: dict[str, object]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0"} | words).encode() + b"\n")
    server.stdin.flush()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_that_has_nothing_to_do(lastgood: Command, number: signal.Signals) -> None:
    """Also while its host keeps the pipe open."""
    with server_of(lastgood) as server:
        server.send_signal(number)
        assert server.wait(PATIENCE) == 128 + number


def test_what_is_under_way_when_a_server_is_told_to_end_comes_to_its_end(lastgood: Command) -> None:
    lastgood("save", "first")
    call = {"name": "save", "arguments": {"message": "to the end"}, "_meta": {"progressToken": "seen"}}
    with server_of(lastgood) as server, (lastgood.store / "locks" / "store.lock").open("r+b") as lock:
        assert server.stdout is not None
        fcntl.flock(lock, fcntl.LOCK_EX)  # so that the save waits
        say(server, {"id": 2, "method": "tools/call", "params": call})
        assert b"saving" in server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert server.wait(PATIENCE) == 128 + signal.SIGTERM

    assert lastgood("list", "--json").json["checkpoints"][0]["message"] == "to the end"
