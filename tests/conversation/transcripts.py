"""Transcripts as hosts write them: lines of JSON at the end of a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lastgood.model.checkpoint import SaveReport
from lastgood.workspace import Workspace

SESSION = "550e8400-e29b-41d4-a716-446655440000"
THREAD = "01a1feb9-521d-79e1-a95c-74cf5d4e1555"


def said(text: str, *, role: str = "user", session: str = SESSION, **more: Any) -> bytes:
    """Return a line of Claude Code's."""
    record = {"type": role, "sessionId": session, "message": {"role": role, "content": text}, **more}
    return json.dumps(record).encode() + b"\n"


def noted(kind: str, *, session: str = SESSION) -> bytes:
    """Return a line of Claude Code's that is no message."""
    return json.dumps({"type": kind, "sessionId": session}).encode() + b"\n"


def rolled(text: str | None = None, *, role: str = "user", thread: str = THREAD) -> bytes:
    """Return a line of Codex's: a message, or the head of the file."""
    if text is None:
        record: dict[str, Any] = {"type": "session_meta", "payload": {"id": thread, "session_id": thread}}
    else:
        content = [{"type": "input_text", "text": text}]
        record = {"type": "response_item", "payload": {"type": "message", "role": role, "content": content}}
    return json.dumps({"timestamp": "2026-11-21T15:28:41.430Z", **record}).encode() + b"\n"


def append(file: Path, content: bytes) -> None:
    """Append to a file the way hosts do."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)


def overwrite(file: Path, offset: int, content: bytes) -> None:
    """Change bytes of a file where they are."""
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.pwrite(descriptor, content, offset)
    finally:
        os.close(descriptor)


def whole_lines(content: bytes) -> bytes:
    """Return the lines that have their end, and one without that is a whole JSON object."""
    cut = content.rfind(b"\n") + 1
    rest = content[cut:]
    try:
        finished = isinstance(json.loads(rest), dict)
    except (ValueError, RecursionError):
        finished = False
    return content if finished else content[:cut]


def captured(workspace: Workspace, file: Path, **more: Any) -> SaveReport:
    """Save with a transcript, as an automatic save does."""
    return workspace.save(kind="turn", transcript=file, **more)
