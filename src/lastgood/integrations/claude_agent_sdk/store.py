"""A session store of the Claude Agent SDK over lastgood's store."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookContext,
    HookInput,
    HookJSONOutput,
    HookMatcher,
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreFlushMode,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fork_session_via_store,
    project_key_for_directory,
)

from lastgood import AsyncWorkspace, Workspace
from lastgood.conversation.hosts import claude_home
from lastgood.conversation.reader import is_uuid
from lastgood.errors import Invalid, LastgoodError, NotFound
from lastgood.integrations.claude_agent_sdk import lines
from lastgood.integrations.claude_agent_sdk.lines import files_at, newest, origin_of
from lastgood.integrations.records import Records, Spoken
from lastgood.ledger import LedgerReader
from lastgood.literals import Kind
from lastgood.model.report import RestoreReport
from lastgood.value import Value, cast
from lastgood.workspace.arguments import PathLike

_SPACE = "claude-agent-sdk"


class Rewound(Value):
    """What a rewind did: ``prompt`` and all that came of it are taken back.

    ``session_id`` is the session to resume, a copy of the conversation before the prompt; None where the
    prompt was its first. ``files`` is what became of the files.
    """

    session_id: str | None
    prompt: str
    files: RestoreReport


class LastgoodSessionStore(SessionStore):
    """Keeps the SDK's sessions in the store of a workspace, durable and proven when read.

    With ``files`` the workspace's files are kept at the same moments: whenever lines of a session are
    handed over (as they come, where `attached` gave the options; else once a turn), and before each prompt
    where `attached` did. The conversation so far is kept with them. `restore_files` brings the files back.
    ``kind`` is the kind of the workspace's checkpoints, which decides how long they stay. The workspace may
    be an asynchronous one.
    """

    def __init__(
        self, workspace: Workspace | AsyncWorkspace, *, files: bool = True, kind: Kind = "turn"
    ) -> None:
        self._records = Records(workspace, space=_SPACE, kind=kind, files=files)
        self._home = claude_home(os.environ)
        # Where the program said that it keeps sessions, by their ids.
        self._told: dict[str, str] = {}

    @property
    def workspace(self) -> Workspace | AsyncWorkspace:
        """The workspace whose files belong to the sessions."""
        return self._records.workspace

    def attached(
        self, options: ClaudeAgentOptions, *, flush: SessionStoreFlushMode = "eager"
    ) -> ClaudeAgentOptions:
        """Return options with this store, and a hook that keeps the files before each prompt.

        Lines are handed over as they come, so that a turn which is killed is kept as far as it went; with
        ``flush`` "batched" once a turn.
        """
        self._home = claude_home({**os.environ, **options.env})
        hooks: dict[Any, Any] = {**(options.hooks or {})}
        if self._records.files:
            before = HookMatcher(hooks=[self.before_prompt])
            hooks["UserPromptSubmit"] = [*hooks.get("UserPromptSubmit", []), before]
        return replace(options, session_store=self, session_store_flush=flush, hooks=hooks or None)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep lines of a session, then the workspace's files of the moment; durable on return.

        If the files cannot be kept the lines are, and the error is raised: the SDK tries again, and
        tells whoever reads its messages when it gives up.
        """
        if entries:
            await self._records.whole(partial(self._append, key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the lines of a session, or of a transcript beside it; None if there are none."""
        return await self._records.looked(partial(lines.load, key=key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, with the time of their last change in milliseconds."""
        return await self._records.looked(partial(lines.sessions, project=project_key))

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return what the SDK shows of the sessions of a project."""
        return await self._records.looked(partial(lines.summaries, project=project_key))

    async def delete(self, key: SessionKey) -> None:
        """Remove a session with all its transcripts, or one beside the main one; files stay."""
        await self._records.changed(partial(lines.delete, key=key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the transcripts beside a session's main one."""
        return await self._records.looked(partial(lines.subkeys, key=key))

    async def before_prompt(
        self,
        said: HookInput,
        tool_use_id: str | None,  # noqa: ARG002 - the SDK's signature
        context: HookContext,  # noqa: ARG002 - the SDK's signature
    ) -> HookJSONOutput:
        """Keep the files before a prompt is carried out; a hook for ``UserPromptSubmit``.

        A failure never stops the agent: it is told to the user.
        """
        if said["hook_event_name"] != "UserPromptSubmit" or not isinstance(said.get("prompt"), str):
            return {}
        try:
            transcript = said.get("transcript_path")
            if transcript:
                self._told[said["session_id"]] = transcript
            key = self._key(said["session_id"], _project_of(transcript))
            await self._records.whole(partial(self._expect, key, said["prompt"]))
        except LastgoodError as error:
            return {"systemMessage": f"lastgood could not keep the files: {error.message} ({error.hint})"}
        return {}

    async def files_of(
        self, session_id: str, *, message: str | None = None, project_key: str | None = None
    ) -> str | None:
        """Return the workspace's checkpoint of a moment of a session, None if none was made.

        ``message`` is the id (uuid) of a line: for a prompt it is the moment before it was carried out,
        for others the end of their turn. Without one it is the newest moment.
        """
        key = self._key(session_id, project_key)
        return await self._records.looked(partial(_files_of, key=key, message=message))

    async def restore_files(
        self,
        session_id: str,
        *,
        message: str | None = None,
        project_key: str | None = None,
        **options: Any,  # noqa: ANN401 - those of restore
    ) -> RestoreReport:
        """Bring the files of a moment back; ``options`` are those of `Workspace.restore`.

        The present files are saved first, and it can be undone. `NotFound` if the moment has no files,
        or they were pruned since.
        """
        files = await self.files_of(session_id, message=message, project_key=project_key)
        if files is None:
            raise NotFound(
                f"no files were kept with {message or 'the session'}",
                hint="have them kept: LastgoodSessionStore(workspace, files=True).attached(options)",
            )
        return await self._records.whole(partial(self._records.restore_files, files, options))

    async def rewind(
        self,
        session_id: str,
        *,
        message: str | None = None,
        directory: PathLike | None = None,
        **options: Any,  # noqa: ANN401 - those of restore
    ) -> Rewound:
        """Go back to before a prompt, files and conversation together: the newest, or that of an id (uuid).

        The session stays as it is; what was said before the prompt is a new one, to be resumed.
        ``directory`` is the ``cwd`` of the session, the workspace unless given; ``options`` are those of
        `Workspace.restore`. `NotFound` without such a prompt, or without files of before it: then nothing
        was done.
        """
        folder = self.workspace.path if directory is None else os.fsdecode(directory)
        project = project_key_for_directory(folder)
        entries = await self.load({"project_key": project, "session_id": session_id})
        prompt = lines.prompt_among(entries or [], message=message)
        if prompt is None:
            said = "no prompt" if message is None else f"no prompt {message}"
            raise NotFound(
                f"the session {session_id} has {said}", hint="give the uuid of a line that a person wrote"
            )
        fork: str | None = None
        if prompt.after is not None:
            fork = (
                await fork_session_via_store(
                    self, session_id, directory=folder, up_to_message_id=prompt.after
                )
            ).session_id
        try:
            files = await self.restore_files(session_id, message=prompt.id, project_key=project, **options)
        except LastgoodError:
            if fork is not None:
                await self.delete({"project_key": project, "session_id": fork})
            raise
        return Rewound(session_id=fork, prompt=prompt.text, files=files)

    def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        at, files = time.time_ns() // 1_000_000, self._records.files
        moment = self._records.ledger.change(
            lambda book: lines.append(book, key, entries, at=at, files=files)
        )
        if moment is None:
            return
        kept: str | None = None
        failure: str | None = "interrupted"
        try:
            ended = lines.ends_turn(entries)
            kept, failure = self._keep(key, lines.label_of(entries), talk_counts=ended), None
        except LastgoodError as error:
            failure = error.message
            raise
        finally:
            self._records.ledger.change(
                lambda book: lines.settle(book, key, moment, files=kept, failure=failure)
            )

    def _expect(self, key: SessionKey, prompt: str) -> None:
        files = self._keep(key, lines.shortened(f"before: {prompt}"), talk_counts=True)
        self._records.ledger.change(lambda book: lines.expect_prompt(book, key, prompt, files))

    def _keep(self, key: SessionKey, label: str | None, *, talk_counts: bool) -> str:
        """Keep files and conversation; that more was said makes a checkpoint by itself only if it counts."""
        session = key["session_id"]
        message, notes = label or f"Claude session {session}", {"claude_session": session}
        transcript = self._transcript(key)
        if transcript is not None:
            spoken: Spoken = {"transcript": transcript, "conversation_alone": talk_counts}
            try:
                return self._records.keep_files(message, notes, spoken)
            except (Invalid, NotFound):  # it cannot be read; the lines that were handed over can
                pass
        said = self._records.ledger.look(lambda book: lines.load(book, key)) or []
        told = cast("Sequence[Mapping[str, object]]", said)
        spoken = {"messages": told, "conversation_alone": talk_counts} if told else {}
        return self._records.keep_files(message, notes, spoken)

    def _transcript(self, key: SessionKey) -> str | None:
        """Return the file in which the program keeps a session itself, None if there is none."""
        told = self._told.get(key["session_id"])
        if told is None and self._home is not None and is_uuid(key["session_id"]):
            name = f"{key['session_id']}.jsonl"
            told = os.path.join(self._home, "projects", os.path.basename(key["project_key"]), name)
        return told if told is not None and os.path.isfile(told) else None

    def _key(self, session: str, project: str | None) -> SessionKey:
        chosen = project_key_for_directory(self.workspace.path) if project is None else project
        return {"project_key": chosen, "session_id": session}


def _files_of(book: LedgerReader, key: SessionKey, message: str | None) -> str | None:
    seen: set[tuple[str, str]] = set()
    while True:
        found = lines.moments(book, key)
        if message is None:
            return newest(found)
        if (key["session_id"], message) in seen:  # a transcript can say anything of where it comes from
            return None
        seen.add((key["session_id"], message))
        place = lines.place_of(book, key, message)
        if place is None:
            raise NotFound(
                f"the session {key['session_id']} has no message {message}", hint="give the uuid of one"
            )
        origin = origin_of(place[1])
        if origin is None:
            return files_at(found, *place)
        # A copy has the files of what it is a copy of.
        key = {"project_key": key["project_key"], "session_id": origin[0]}
        message = origin[1]


def _project_of(transcript: str | None) -> str | None:
    """Return the key of a project: the host keeps its transcripts in a folder of that name."""
    return os.path.basename(os.path.dirname(transcript)) or None if transcript else None
