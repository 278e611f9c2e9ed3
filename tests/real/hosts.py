"""Real agent programs, driven without network by a scripted model on the loopback."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.environ.get("LASTGOOD_TEST_CACHE") or os.path.join(ROOT, ".cache", "real")
WANTED = os.environ.get("LASTGOOD_TEST_HOSTS", "").split()
_SECONDS = 600
_TRANSCRIPTS = {
    "claude-code": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/*/*/*/*.jsonl",
    "gemini-cli": ".gemini/tmp/*/chats/*.jsonl",
    "cline": "data/sessions/*/*.messages.json",
}
_IN_FOLDER = {"gemini-cli": ("bundle", "gemini.js")}
# Without these Gemini CLI would ask before it uses a tool, and take the model that its vendor likes best.
GEMINI = ["--yolo", "--skip-trust", "-m", "gemini-2.5-flash"]


def skip_unless_wanted(name: str) -> None:
    """Leave a host to `scripts/hosts`, which says which it drives."""
    if name not in WANTED:
        pytest.skip(f"{name} is driven by scripts/hosts")


class Host:
    """One program in a home of its own, working in a project."""

    def __init__(self, name: str, *, home: Path, project: Path, model: str, hooks: bool = False) -> None:
        self.hooks = hooks
        self.program = os.path.join(CACHE, f"host-{name}", *_IN_FOLDER.get(name, ()))
        if not os.path.isfile(self.program):
            pytest.skip(f"{name} is not in {CACHE}: run scripts/real_hosts")
        self.name = name
        self.home = home
        self.project = project
        # None is to outlive its test: a process that watches would.
        self.environment = {"HOME": str(home), "PATH": os.defpath, "LASTGOOD_WATCH_ON_DEMAND": "never"}
        if name == "codex":
            self._configure(model)
        elif name == "opencode":
            self._configure_opencode(model)
        elif name == "gemini-cli":
            self._configure_gemini(model)
        elif name == "cline":
            self._configure_cline(model)
        else:
            self.environment |= {
                "ANTHROPIC_BASE_URL": model,
                "ANTHROPIC_API_KEY": "none",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_AUTOUPDATER": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "IS_SANDBOX": "1",
            }

    def say(self, text: str, *, resume: str | None = None) -> None:
        """Have one turn, in a new session or in one of before."""
        self.do(*self.words(text, resume=resume))

    def words(self, text: str, *, resume: str | None = None) -> list[str]:
        """Return the words that have one turn."""
        if self.name == "codex":
            trusting = ["--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox"]
            asked = ["resume", resume] if resume else []
            return ["exec", "--skip-git-repo-check", *(trusting if self.hooks else []), *asked, text]
        if self.name == "opencode":
            return ["run", *(["--session", resume] if resume else []), text]
        if self.name == "cline":
            known = ["--id", resume] if resume else []
            return ["-P", "openai-compatible", "--data-dir", str(self.home / "data"), *known, text]
        if self.name == "gemini-cli":
            return [*GEMINI, *(["--resume", resume] if resume else []), "-p", text]
        return ["-p", *(["--resume", resume] if resume else []), text]

    def started(self, text: str) -> subprocess.Popen[bytes]:
        """Have one turn begin."""
        return subprocess.Popen(
            [self.program, *self.words(text)],
            cwd=self.project,
            env={**self.environment, "GEMINI_CLI_NO_RELAUNCH": "true"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def talk(self, *prompts: str, options: Sequence[str] = ()) -> list[str]:
        """Have several turns in one session of Claude Code; what it says at the end of each."""
        words = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        ends = []
        with subprocess.Popen(
            [self.program, *options, "-p", *words],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for prompt in prompts:
                said = {"type": "user", "message": {"role": "user", "content": prompt}}
                process.stdin.write(json.dumps(said) + "\n")
                process.stdin.flush()
                ends.append(next(line for line in process.stdout if '"type":"result"' in line))
            process.stdin.close()
        assert process.returncode == 0, ends
        return ends

    def session_of(self, transcript: Path) -> str:
        """Return by what a conversation is resumed."""
        if self.name == "opencode":
            return transcript.name
        if self.name == "gemini-cli":
            head: dict[str, str] = json.loads(transcript.read_text().partition("\n")[0])
            return head["sessionId"]
        return transcript.parent.name if self.name == "cline" else transcript.stem[-36:]

    def do(self, *words: str) -> None:
        """Run the program with some words."""
        done = subprocess.run(
            [self.program, *words],
            cwd=self.project,
            env={**self.environment, "GEMINI_CLI_NO_RELAUNCH": "true"},  # it starts itself twice otherwise
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def transcripts(self) -> set[Path]:
        """Return the files of all its sessions; of opencode they lie in one database."""
        if self.name == "opencode":
            file = self.home / ".local/share/opencode/opencode.db"
            if not file.exists():
                return set()
            with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
                rows = database.execute("SELECT id FROM session WHERE parent_id IS NULL").fetchall()
            return {file / name for (name,) in rows}
        return set(self.home.glob(_TRANSCRIPTS[self.name]))

    def _configure_opencode(self, model: str) -> None:
        """Have it ask the model; by its own name, as it is called, which tells that it is opencode."""
        folder = self.home / ".config/opencode"
        folder.mkdir(parents=True)
        own = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{model}/v1", "apiKey": "none"},
            "models": {"scripted": {"name": "scripted", "tool_call": True}},
        }
        settings: dict[str, Any] = {
            "model": "own/scripted",
            "small_model": "own/scripted",
            "provider": {"own": own},
        }
        settings |= {"autoupdate": False, "share": "disabled", "permission": {"bash": "allow"}}
        (folder / "opencode.json").write_text(json.dumps(settings))
        (self.home / "opencode").symlink_to(self.program)
        self.program = str(self.home / "opencode")
        self.environment |= {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        self.environment["PWD"] = str(self.project)  # it believes that more than where it is
        for name, place in ("CONFIG", ".config"), ("DATA", ".local/share"), ("CACHE", ".cache"):
            self.environment[f"XDG_{name}_HOME"] = str(self.home / place)

    def _configure_cline(self, model: str) -> None:
        self.environment["DO_NOT_TRACK"] = "1"
        known = ["-p", "openai-compatible", "-b", f"{model}/v1", "-k", "none", "-m", "scripted"]
        self.do("auth", *known, "--data-dir", str(self.home / "data"))

    def _configure_gemini(self, model: str) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("gemini-cli needs Node, which is not installed")
        self.environment["PATH"] = f"{os.path.dirname(node)}:{os.defpath}"
        (self.home / ".gemini").mkdir()
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
        }
        (self.home / ".gemini/settings.json").write_text(json.dumps(settings))
        self.environment |= {"GOOGLE_GEMINI_BASE_URL": model, "GEMINI_API_KEY": "none"}
        self.environment["TMPDIR"] = str(self.home)  # for what it leaves when it is killed

    def _configure(self, model: str) -> None:
        folder = self.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(
            'model = "scripted"\nmodel_provider = "own"\n'
            f'[model_providers.own]\nname = "own"\nbase_url = "{model}/v1"\nwire_api = "responses"\n'
            f'env_key = "OWN_KEY"\n[projects."{self.project}"]\ntrust_level = "trusted"\n'
        )
        self.environment["OWN_KEY"] = "none"


def working(project: Path) -> list[int]:
    """Return the processes that work in a folder."""
    found = []
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and os.readlink(f"/proc/{pid}/cwd") == str(project):
                found.append(int(pid))
        except OSError:
            continue
    return found


def stays(project: Path) -> bool:
    """Tell whether `sleep` runs in a folder, which a shell starts some time after what comes before it."""
    return any(_command(pid)[:1] == [b"sleep"] for pid in working(project))


def is_program(pid: int, host: Host) -> bool:
    """Tell whether a process is a host's program."""
    return host.program.encode() in _command(pid)[:3]


def _command(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
