"""The folders in which hosts keep their transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from conversation.transcripts import SESSION, THREAD, rolled, said


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where a transcript goes that lies in no host's folder."""
    return tmp_path / "transcript.jsonl"


@pytest.fixture
def claude(tmp_path: Path) -> Path:
    """Return a transcript of Claude Code's with two messages."""
    folder = tmp_path / "home" / ".claude" / "projects" / "-work-project"
    folder.mkdir(parents=True)
    file = folder / f"{SESSION}.jsonl"
    file.write_bytes(said("one") + said("two", role="assistant"))
    return file


@pytest.fixture
def codex(tmp_path: Path) -> Path:
    """Return a transcript of Codex's with two messages."""
    folder = tmp_path / "home" / ".codex" / "sessions" / "2026" / "11" / "21"
    folder.mkdir(parents=True)
    file = folder / f"rollout-2026-11-21T15-28-40-{THREAD}.jsonl"
    file.write_bytes(rolled() + rolled("one") + rolled("two", role="assistant"))
    return file
