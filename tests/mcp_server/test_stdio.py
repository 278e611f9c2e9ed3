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
from typing import IO, Any

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


def server_of(command: Command, *, said: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Start a server that was greeted, its pipes in the test's hands; it complains to ``said``."""
    words = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    server = subprocess.Popen(
        [sys.executable, COMMAND, "mcp"],
        cwd=command.project,
        env=command.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=said,
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


def test_a_client_that_goes_away_in_a_restore_leaves_it_done_or_not_begun(
    lastgood: Command, tmp_path: Path
) -> None:
    """T7: whenever that is."""
    files = [lastgood.project / f"file-{number}.txt" for number in range(100)]
    for file in files:
        file.write_text("good\n")
    lastgood("save", "before")
    for file in files:
        file.write_text("ruined\n")
    call = {"name": "restore", "arguments": {"ref": "@", "confirm": True}, "_meta": {"progressToken": 1}}
    with (tmp_path / "said").open("w+b") as said:
        server = server_of(lastgood, said=said)
        assert server.stdin is not None
        assert server.stdout is not None
        say(server, {"id": 2, "method": "tools/call", "params": call})
        while b"restoring" not in server.stdout.readline():
            pass
        server.stdout.close()
        server.stdin.close()
        server.wait(PATIENCE)
        said.seek(0)
        assert b"Traceback" not in said.read()

    if lastgood("status", "--json").json["state"] == "interrupted":
        lastgood("recover")
    assert {file.read_text() for file in files} in ({"good\n"}, {"ruined\n"})


def answer_of(server: subprocess.Popen[bytes], id: int) -> dict[str, Any]:
    """Return the answer to a request, past whatever is told before it."""
    assert server.stdout is not None
    while True:
        said: dict[str, Any] = json.loads(server.stdout.readline())
        if said.get("id") == id:
            return said


def test_odd_tokens_for_progress_harm_nothing(lastgood: Command) -> None:
    tokens: list[object] = [None, 0, -1, "", "x" * 100_000, 1.5, [], {"a": 1}, True]
    with server_of(lastgood) as server:
        for number, token in enumerate(tokens, 2):
            words = {"name": "list", "arguments": {}, "_meta": {"progressToken": token}}
            say(server, {"id": number, "method": "tools/call", "params": words})
            assert answer_of(server, number).keys() & {"result", "error"}
        say(server, {"id": 100, "method": "ping"})
        assert answer_of(server, 100)["result"] == {}
        server.terminate()


def test_fifty_requests_at_once_are_all_answered(lastgood: Command) -> None:
    """However many are sent before the first is answered."""
    with server_of(lastgood) as server:
        for number in range(2, 52):
            words = (
                {"name": "save", "arguments": {"message": f"number {number}"}}
                if number < 7
                else {"name": "list"}
            )
            say(server, {"id": number, "method": "tools/call", "params": words})
        assert server.stdout is not None
        answers = [json.loads(server.stdout.readline()) for _ in range(50)]
        server.terminate()

    assert {one["id"] for one in answers} == set(range(2, 52))
    assert not any(one["result"]["isError"] for one in answers)
    assert len(lastgood("list", "--json").json["checkpoints"]) == 5


def test_a_host_that_is_gone_before_it_is_answered_is_no_fault(lastgood: Command) -> None:
    pipe = subprocess.PIPE
    words = [sys.executable, COMMAND, "mcp"]
    with subprocess.Popen(
        words, cwd=lastgood.project, env=lastgood.environment, stdin=pipe, stdout=pipe, stderr=pipe
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdout.close()
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": ""},
        }
        line = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        server.stdin.write(json.dumps(line).encode() + b"\n")
        server.stdin.close()
        assert server.stderr.read() == b""
        assert server.wait() == 0
