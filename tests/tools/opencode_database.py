"""Databases as opencode 1.18.33 makes them: its own tables, as far as conversations lie in them."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE `project` (
  `id` text PRIMARY KEY, `worktree` text NOT NULL, `vcs` text, `name` text, `icon_url` text,
  `icon_url_override` text, `icon_color` text, `time_created` integer NOT NULL,
  `time_updated` integer NOT NULL, `time_initialized` integer, `sandboxes` text NOT NULL, `commands` text
);
CREATE TABLE `session` (
  `id` text PRIMARY KEY, `project_id` text NOT NULL, `workspace_id` text, `parent_id` text,
  `slug` text NOT NULL, `directory` text NOT NULL, `path` text, `title` text NOT NULL,
  `version` text NOT NULL, `share_url` text, `summary_additions` integer, `summary_deletions` integer,
  `summary_files` integer, `summary_diffs` text, `metadata` text, `cost` real DEFAULT 0 NOT NULL,
  `tokens_input` integer DEFAULT 0 NOT NULL, `tokens_output` integer DEFAULT 0 NOT NULL,
  `tokens_reasoning` integer DEFAULT 0 NOT NULL, `tokens_cache_read` integer DEFAULT 0 NOT NULL,
  `tokens_cache_write` integer DEFAULT 0 NOT NULL, `revert` text, `permission` text, `agent` text,
  `model` text, `time_created` integer NOT NULL, `time_updated` integer NOT NULL,
  `time_compacting` integer, `time_archived` integer,
  CONSTRAINT `fk_session_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`)
    ON DELETE CASCADE
);
CREATE TABLE `message` (
  `id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL,
  `time_updated` integer NOT NULL, `data` text NOT NULL,
  CONSTRAINT `fk_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`)
    ON DELETE CASCADE
);
CREATE TABLE `part` (
  `id` text PRIMARY KEY, `message_id` text NOT NULL, `session_id` text NOT NULL,
  `time_created` integer NOT NULL, `time_updated` integer NOT NULL, `data` text NOT NULL,
  CONSTRAINT `fk_part_message_id_message_id_fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`)
    ON DELETE CASCADE
);
CREATE TABLE `todo` (
  `session_id` text NOT NULL, `content` text NOT NULL, `status` text NOT NULL, `priority` text NOT NULL,
  `position` integer NOT NULL, `time_created` integer NOT NULL, `time_updated` integer NOT NULL,
  CONSTRAINT `todo_pk` PRIMARY KEY(`session_id`, `position`),
  CONSTRAINT `fk_todo_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`)
    ON DELETE CASCADE
);
CREATE INDEX `session_project_idx` ON `session` (`project_id`);
CREATE INDEX `session_parent_idx` ON `session` (`parent_id`);
CREATE INDEX `message_session_time_created_id_idx` ON `message` (`session_id`,`time_created`,`id`);
CREATE INDEX `part_message_id_id_idx` ON `part` (`message_id`,`id`);
CREATE INDEX `part_session_idx` ON `part` (`session_id`);
CREATE TABLE "migration" (id TEXT PRIMARY KEY, time_completed INTEGER NOT NULL);
"""
UNTITLED = "New session - 2026-11-23T13:03:26.000Z"
BEGAN = 1_795_439_006_000


class OpencodeDatabase:
    """One database and the session that is written to at present; open as long as it is used."""

    def __init__(self, data: Path, *, directory: str, now: int = BEGAN) -> None:
        self.file = data / "opencode" / "opencode.db"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = not self.file.exists()
        self.connection = sqlite3.connect(self.file, isolation_level=None, timeout=30)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.now = now
        self.session = ""
        self.directory = directory
        self._last = ""
        if new:
            self.connection.executescript(SCHEMA)
            self.connection.execute(
                "INSERT INTO project (id, worktree, sandboxes, time_created, time_updated)"
                " VALUES ('global', '/', '[]', ?, ?)",
                (now, now),
            )

    def close(self) -> None:
        self.connection.close()

    @property
    def path(self) -> Path:
        """The conversation, as lastgood names it."""
        return self.file / self.session

    def id(self, kind: str) -> str:
        """Return a new id: later ones are greater, but those of sessions, which are less."""
        self.now += 1
        number = self.now * 4096
        hexadecimal = f"{(~number if kind == 'ses' else number) & 0xFFFFFFFFFFFF:012x}"
        return f"{kind}_{hexadecimal}{os.urandom(7).hex()}"

    def begin(self, *, parent: str | None = None, directory: str | None = None) -> str:
        """Begin a session, and go on with it."""
        self.session = self.id("ses")
        self.connection.execute(
            "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, time_created,"
            " time_updated) VALUES (?, 'global', ?, 'brave-garden', ?, ?, '1.18.33', ?, ?)",
            (self.session, parent, directory or self.directory, UNTITLED, self.now, self.now),
        )
        return self.session

    def user(self, text: str) -> str:
        """Add a person's message."""
        message = self._message({"role": "user", "agent": "build", "model": {"modelID": "m"}})
        self.part({"type": "text", "text": text})
        return message

    def assistant(self, text: str | None = None) -> str:
        """Begin an answer; with a text, whole."""
        info = {
            "parentID": self._last,
            "role": "assistant",
            "mode": "build",
            "agent": "build",
            "path": {"cwd": self.directory, "root": self.directory},
            "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "modelID": "m",
            "providerID": "own",
        }
        message = self._message(info)
        if text is not None:
            self.part({"type": "step-start"})
            self.text(text)
            self.end()
        return message

    def text(self, text: str) -> str:
        """Add a whole text to the answer."""
        return self.part({"type": "text", "text": text, "time": {"start": self.now, "end": self.now}})

    def tool(self, command: str, *, output: str | None = None) -> str:
        """Use a tool, that has ended if there is an output."""
        state: dict[str, Any] = {"input": {"command": command}, "time": {"start": self.now}}
        if output is None:
            state |= {"status": "running"}
        else:
            state |= {"status": "completed", "output": output, "title": command, "metadata": {}}
            state["time"]["end"] = self.now
        return self.part({"type": "tool", "tool": "bash", "callID": "call_1", "state": state})

    def part(self, data: dict[str, Any]) -> str:
        """Add a part to the last message."""
        return self.raw_part(json.dumps(data, separators=(",", ":"), ensure_ascii=False))

    def raw_part(self, data: str) -> str:
        """Add a part of any text."""
        part = self.id("prt")
        self.connection.execute(
            "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)",
            (part, self._last, self.session, self.now, self.now, data),
        )
        self._touch()
        return part

    def end(self, **more: Any) -> None:
        """End the last answer."""
        (created,) = self.connection.execute(
            "SELECT time_created FROM message WHERE id = ?", (self._last,)
        ).fetchone()
        self.change(self._last, time={"created": created, "completed": self.now}, finish="stop", **more)

    def change(self, message: str, **more: Any) -> None:
        """Write a message anew."""
        self.now += 1
        (data,) = self.connection.execute("SELECT data FROM message WHERE id = ?", (message,)).fetchone()
        self.connection.execute(
            "UPDATE message SET data = ?, time_updated = ? WHERE id = ?",
            (json.dumps({**json.loads(data), **more}), self.now, message),
        )
        self._touch()

    def change_part(self, part: str, data: dict[str, Any]) -> None:
        """Write a part anew."""
        self.now += 1
        self.connection.execute(
            "UPDATE part SET data = ?, time_updated = ? WHERE id = ?", (json.dumps(data), self.now, part)
        )

    def call(self, title: str) -> None:
        """Give the session a title, as opencode does of itself after the first prompt."""
        self.connection.execute("UPDATE session SET title = ? WHERE id = ?", (title, self.session))

    def plan(self, *contents: str) -> None:
        """Write the to-do list anew."""
        self.connection.execute("DELETE FROM todo WHERE session_id = ?", (self.session,))
        for place, content in enumerate(contents):
            row = (self.session, content, "pending", "high", place, self.now, self.now)
            self.connection.execute("INSERT INTO todo VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def revert(self, to: dict[str, str] | None) -> None:
        """Take back what was said from a message or part on, as ``/undo`` does."""
        text = None if to is None else json.dumps(to)
        self.connection.execute("UPDATE session SET revert = ? WHERE id = ?", (text, self.session))

    def _message(self, info: dict[str, Any]) -> str:
        self._last = self.id("msg")
        info["time"] = {"created": self.now}
        self.connection.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?, ?)",
            (self._last, self.session, self.now, self.now, json.dumps(info, separators=(",", ":"))),
        )
        self._touch()
        return self._last

    def _touch(self) -> None:
        self.connection.execute("UPDATE session SET time_updated = ? WHERE id = ?", (self.now, self.session))
