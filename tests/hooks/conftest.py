"""Claude Code as far as hooks see it: the payloads that it sent, for a session in the test's project."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.command import COMMAND, Command

# As Claude Code 2.1.329 sent them; only the folders are changed.
PAYLOADS = Path(__file__).parent / "payloads" / "claude-code"


def payload(event: str) -> dict[str, Any]:
    """Return a recorded payload."""
    found: dict[str, Any] = json.loads((PAYLOADS / f"{event}.json").read_text())
    return found


class Agent:
    """A session of a host whose process is one that sleeps."""

    def __init__(self, lastgood: Command, home: Path) -> None:
        self.lastgood = lastgood
        self.project = lastgood.project
        self.transcript = home / "session.jsonl"
        self.process = subprocess.Popen(["sleep", "600"])
        self._lines = self._turns = self._calls = 0

    def tells(self, event: str, **fields: object) -> subprocess.CompletedProcess[str]:
        """Have the hook carry out an event; what it prints is the reply."""
        own = {"transcript_path": str(self.transcript), "cwd": str(self.project)}
        told = payload(event) | own
        self._turns += event == "UserPromptSubmit"
        self._calls += 1
        if "prompt_id" in told:
            told["prompt_id"] = f"prompt {self._turns}"
        if "tool_use_id" in told:
            told["tool_use_id"] = f"call {self._calls}"
        return self.sends(json.dumps(told | fields))

    def sends(self, text: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Give the hook a text."""
        environment = self.lastgood.environment | {
            "CLAUDE_PID": str(self.process.pid),
            "CLAUDE_PROJECT_DIR": str(self.project),
        }
        return subprocess.run(
            [sys.executable, COMMAND, "hook", "claude-code", *words],
            cwd="/",
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )

    def quietly(self, event: str, **fields: object) -> None:
        """Have the hook carry out an event without a word."""
        done = self.tells(event, **fields)
        assert (done.stdout, done.stderr) == ("", "")

    def says(self, role: str, text: str) -> None:
        """Add a line to the transcript."""
        self._lines += 1
        line = {
            "type": role,
            "uuid": f"00000000-0000-4000-8000-{self._lines:012}",
            "sessionId": payload("Stop")["session_id"],
            "message": {"role": role, "content": text},
        }
        with self.transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def asked(self, prompt: str) -> None:
        """Begin a turn."""
        self.quietly("UserPromptSubmit", prompt=prompt)
        self.says("user", prompt)

    def answered(self) -> None:
        """End a turn."""
        self.says("assistant", "done")
        self.quietly("Stop")

    def turn(self, prompt: str, text: str) -> None:
        """Have a turn in which a file is written."""
        self.asked(prompt)
        (self.project / "file").write_text(text)
        self.answered()

    def dies(self) -> None:
        """Kill the host's process."""
        self.process.kill()
        self.process.wait()

    def lives_again(self) -> None:
        """Have another process of the host."""
        self.process = subprocess.Popen(["sleep", "600"])

    def told(self) -> list[tuple[str, str]]:
        """Return the kinds and messages of the checkpoints, oldest first."""
        found = self.lastgood("list", "--json").json["checkpoints"]
        return [(one["kind"], one["message"]) for one in reversed(found)]


@pytest.fixture
def agent(lastgood: Command, tmp_path: Path) -> Iterator[Agent]:
    (lastgood.project / "file").write_text("as it was")
    made = Agent(lastgood, tmp_path)
    yield made
    made.dies()
