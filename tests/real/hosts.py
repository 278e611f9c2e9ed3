"""Real agent programs, driven without network by a scripted model on the loopback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.environ.get("LASTGOOD_TEST_CACHE") or os.path.join(ROOT, ".cache", "real")
_SECONDS = 600


class Host:
    """One program in a home of its own, working in a project."""

    def __init__(self, name: str, *, home: Path, project: Path, model: str) -> None:
        self.program = os.path.join(CACHE, f"host-{name}")
        if not os.path.isfile(self.program):
            pytest.skip(f"{name} is not in {CACHE}: run scripts/real_hosts")
        self.name = name
        self.home = home
        self.project = project
        self.environment = {"HOME": str(home), "PATH": os.defpath}
        if name == "codex":
            self._configure(model)
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
        if self.name == "codex":
            words = ["exec", "--skip-git-repo-check", *(["resume", resume] if resume else []), text]
        else:
            words = ["-p", *(["--resume", resume] if resume else []), text]
        done = subprocess.run(
            [self.program, *words],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def transcripts(self) -> set[Path]:
        """Return the files of all its sessions."""
        place = ".codex/sessions/*/*/*/*.jsonl" if self.name == "codex" else ".claude/projects/*/*.jsonl"
        return set(self.home.glob(place))

    def _configure(self, model: str) -> None:
        folder = self.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(
            'model = "scripted"\nmodel_provider = "own"\n'
            f'[model_providers.own]\nname = "own"\nbase_url = "{model}/v1"\nwire_api = "responses"\n'
            f'env_key = "OWN_KEY"\n[projects."{self.project}"]\ntrust_level = "trusted"\n'
        )
        self.environment["OWN_KEY"] = "none"
