"""Plays an agent program: keeps its conversation in a file as the real one does, until it is told to end.

``HOST CONTROL [WORDS]``: in the folder CONTROL it says where its file is (``up``), and waits for ``end``.
With ``--silent`` it says nothing before there is ``speak``.
What each host writes was recorded from the real programs, scrubbed and cut.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

from tools.opencode_database import OpencodeDatabase

PROMPT, BEGUN, DONE = "please do it", "I begin", "it is done"


class Claude:
    """``CLAUDE_CONFIG_DIR/projects/FOLDER/SESSION.jsonl``, and a record of the process while it lives."""

    def __init__(self, words: list[str]) -> None:
        home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path(os.environ["HOME"]) / ".claude")
        self.session = words[1] if words[:1] == ["--resume"] else str(uuid.uuid4())
        folder = "".join(one if one.isalnum() and one.isascii() else "-" for one in os.getcwd())
        self.path = home / "projects" / folder / f"{self.session}.jsonl"
        self.record = home / "sessions" / f"{os.getpid()}.json"
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        said = {"pid": os.getpid(), "sessionId": self.session, "cwd": os.getcwd(), "procStart": started}
        for file in (self.path, self.record):
            file.parent.mkdir(parents=True, exist_ok=True)
        self.record.write_text(json.dumps({**said, "version": "2.1.329", "kind": "interactive"}))

    def lines(self, role: str, text: str) -> list[dict[str, Any]]:
        content: Any = text if role == "user" else [{"type": "text", "text": text}]
        message = {"role": role, "content": content}
        kept = {"type": role, "message": message, "uuid": str(uuid.uuid4()), "sessionId": self.session}
        return [kept, {"type": "last-prompt", "sessionId": self.session}]

    def end(self) -> None:
        self.record.unlink()


class Codex:
    """``CODEX_HOME/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl``, open as long as the process lives."""

    def __init__(self, words: list[str]) -> None:
        home = Path(os.environ.get("CODEX_HOME") or Path(os.environ["HOME"]) / ".codex")
        self.session = str(uuid.uuid4())
        self.path = home / f"sessions/2026/11/23/rollout-2026-11-23T01-33-42-{self.session}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        source: Any = {"subagent": "review"} if "--subagent" in words else "exec"
        self._head = {"id": self.session, "cwd": os.getcwd(), "source": source, "cli_version": "0.169.0"}
        self._file = open(self.path, "ab")  # noqa: SIM115 - for as long as it lives

    def lines(self, role: str, text: str) -> list[dict[str, Any]]:
        content = [{"type": "input_text" if role == "user" else "output_text", "text": text}]
        payload = {"type": "message", "role": role, "content": content}
        head = [] if self.path.stat().st_size else [{"type": "session_meta", "payload": self._head}]
        return [*head, {"type": "response_item", "payload": payload}]

    def end(self) -> None:
        self._file.close()


class Gemini:
    """``GEMINI_CLI_HOME/.gemini/tmp/PROJECT/chats/session-TIME-ID.jsonl``: nothing names a process."""

    def __init__(self, words: list[str]) -> None:
        home = Path(os.environ.get("GEMINI_CLI_HOME") or os.environ["HOME"]) / ".gemini"
        self.session = words[1] if words[:1] == ["--session-id"] else str(uuid.uuid4())
        folder = home / "tmp/project"
        self.path = folder / f"chats/session-2026-11-23T01-34-{self.session[:8]}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        (folder / ".project_root").write_text(os.getcwd())

    def lines(self, role: str, text: str) -> list[dict[str, Any]]:
        digest = hashlib.sha256(os.getcwd().encode()).hexdigest()
        head = {"sessionId": self.session, "projectHash": digest, "kind": "main"}
        kind, content = ("user", [{"text": text}]) if role == "user" else ("gemini", text)
        kept = {"id": str(uuid.uuid4()), "type": kind, "content": content}
        return [*([] if self.path.exists() else [head]), kept, {"$set": {"lastUpdated": "2026-11-23"}}]

    def end(self) -> None:
        """Leave nothing but the file."""


class Opencode:
    """``XDG_DATA_HOME/opencode/opencode.db``, open as long as the process lives; nothing names a process."""

    def __init__(self, words: list[str]) -> None:
        data = os.environ.get("XDG_DATA_HOME") or os.environ["HOME"] + "/.local/share"
        now = time.time_ns() // 1_000_000
        self._database = OpencodeDatabase(Path(data), directory=os.getcwd(), now=now)
        self._database.session = words[1] if words[:1] == ["--session"] else ""

    @property
    def session(self) -> str:
        return self._database.session

    @property
    def path(self) -> Path:
        return self._database.path

    def say(self, role: str, text: str) -> None:
        """Say something; the session begins with the first prompt."""
        self._database.now = max(self._database.now, time.time_ns() // 1_000_000)
        if not self.session:
            self._database.begin()
        if role == "user":
            self._database.user(text)
        else:
            self._database.assistant(text)

    def begin(self) -> None:
        """Be at an answer that has no whole part yet."""
        self._database.assistant()
        self._database.part({"type": "text", "text": "", "time": {"start": self._database.now}})

    def go_on(self) -> None:
        self._database.end(error={"name": "MessageAbortedError"})

    def end(self) -> None:
        self._database.close()


HOSTS: dict[str, Any] = {"claude-code": Claude, "codex": Codex, "gemini-cli": Gemini, "opencode": Opencode}


def say(host: Any, role: str, text: str) -> None:
    if isinstance(host, Opencode):
        host.say(role, text)
        return
    lines = (json.dumps(line, separators=(",", ":")).encode() for line in host.lines(role, text))
    write(host, b"".join(line + b"\n" for line in lines))


def write(host: Any, content: bytes) -> None:
    with open(host.path, "ab") as file:
        file.write(content)


def begin(host: Any) -> None:
    """Leave what is said next half-written."""
    if isinstance(host, Opencode):
        host.begin()
    else:
        write(host, b'{"half a line')


def go_on(host: Any) -> None:
    if isinstance(host, Opencode):
        host.go_on()
    else:
        write(host, b'": 1}\n')


def main(name: str, control: Path, words: list[str]) -> None:
    host = HOSTS[name](words)
    while "--silent" in words and not (control / "speak").exists():
        time.sleep(0.01)
    say(host, "user", PROMPT)
    say(host, "assistant", BEGUN)
    begin(host)
    up = control / f"up-{os.getpid()}"
    aside = control / f"aside-{os.getpid()}"
    aside.write_text(json.dumps({"pid": os.getpid(), "session": host.session, "path": str(host.path)}))
    aside.rename(up)
    while not (control / "end").exists():
        time.sleep(0.01)
    go_on(host)
    say(host, "assistant", DONE)
    host.end()
