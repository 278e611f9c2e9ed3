"""Turns of a coding session: files and conversation go back together."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from lastgood.errors import LastgoodError
from lastgood.integrations.praisonai.service import CheckpointService
from lastgood.integrations.praisonai.timeline import Timeline, is_number
from lastgood.integrations.praisonai.types import CheckpointDiff

Result = TypeVar("Result")


logger: logging.Logger = logging.getLogger(__name__)

_YES = frozenset({"1", "true", "yes", "on"})
_SWITCH = "PRAISONAI_CHECKPOINTS"
_CLEARING = ("clear_messages", "clear_history", "clear")


@dataclass
class Turn:
    """A turn that can be taken back, as it was about to begin.

    ``message_count`` is how many messages the conversation had; None where none is known of.
    """

    turn: int
    checkpoint_id: str
    short_id: str
    message: str
    message_count: int | None = None


@dataclass
class SessionCheckpointManager:
    """Makes a checkpoint before each turn of a session, and takes turns back.

    ``session_store`` is what keeps the conversation: `get_messages`, `revert_to_message`, and a way to
    clear it. Nothing is raised into the session: what cannot be done is None, and logged.
    """

    workspace_dir: str
    enabled: bool = False
    verbose: bool = False
    storage_dir: str | None = None
    session_store: object | None = None
    session_id: str | None = None
    _kept: CheckpointService | None = field(default=None, repr=False, kw_only=True)
    _turns: list[Turn] = field(default_factory=list, kw_only=True)
    _count: int = field(default=0, kw_only=True)

    @classmethod
    def from_config(
        cls,
        workspace_dir: str | None = None,
        config: Mapping[str, Any] | None = None,
        verbose: bool = False,  # noqa: FBT001, FBT002 - the original's parameters, in its order
        session_store: object | None = None,
        session_id: str | None = None,
        default: bool = False,  # noqa: FBT001, FBT002 - the same
    ) -> Self:
        """Return one as the section ``checkpoints`` of a configuration says: ``auto``, ``storage_dir``.

        The environment variable ``PRAISONAI_CHECKPOINTS`` counts more than that.
        """
        section = config.get("checkpoints") if isinstance(config, Mapping) else None
        chosen = section if isinstance(section, Mapping) else {}
        switch = os.environ.get(_SWITCH)
        wanted = bool(chosen.get("auto", default)) if switch is None else switch.strip().lower() in _YES
        return cls(
            workspace_dir=workspace_dir or os.getcwd(),
            enabled=wanted,
            verbose=verbose,
            storage_dir=chosen.get("storage_dir"),
            session_store=session_store,
            session_id=session_id,
        )

    @property
    def turns(self) -> list[Turn]:
        """The turns that can be taken back, oldest first."""
        return list(self._turns)

    def checkpoint_turn(self, message: str) -> str | None:
        """Make a checkpoint before a turn, and return its id."""
        if not self.enabled:
            return None
        self._count += 1
        label = f"turn {self._count}: {message if isinstance(message, str) else ''}".strip()
        count = self._messages()
        saved = self._attempt(lambda timeline: timeline.save(label, allow_empty=True))
        if saved is None:
            return None
        made = saved.checkpoint
        self._turns.append(Turn(self._count, made.id, made.short_id, label, count))
        return made.id

    def revert(self, n: int = 1) -> Turn | None:
        """Take back the last n turns, files and conversation, and return the one gone back to."""
        target = self._turn(n)
        if target is None:
            return None
        restored = self._attempt(lambda timeline: timeline.restore(target.checkpoint_id))
        if restored is None:
            return None
        if restored.omitted:
            logger.warning("not restored: %s", ", ".join(restored.omitted))
            return None
        self._shorten(target.message_count)
        del self._turns[-max(1, n) :]
        return target

    def dropped_message_count(self, n: int = 1) -> int | None:
        """Return how many messages `revert` would drop; None where no conversation is known of."""
        target = self._turn(n)
        if target is None or target.message_count is None:
            return None
        present = self._messages()
        return None if present is None else max(0, present - target.message_count)

    def preview(self, n: int = 1) -> None:
        """Print what `revert` would take back."""
        target = self._turn(n)
        if target is None:
            return
        found = self._attempt(lambda timeline: timeline.diff(target.checkpoint_id))
        if found is not None:
            print(self.render_diff(found))  # noqa: T201 - what it is for
        dropped = self.dropped_message_count(n)
        if dropped:
            told = f"This will also drop {dropped} conversation message(s)"
            print(f"{told} to keep history in sync with the files.")  # noqa: T201 - the same

    def diff(
        self,
        turn_only: bool = False,  # noqa: FBT001, FBT002 - the original's
        path: str | None = None,
    ) -> CheckpointDiff | None:
        """Return what changed since the session began, or since its last turn, of all files or of one."""
        if not self.enabled or not self._turns:
            return None
        given: object = path
        if given is not None and not isinstance(given, str):
            logger.warning("a path is a text, not %s", type(given).__name__)
            return None
        since = self._turns[-1 if turn_only else 0].checkpoint_id
        found = self._attempt(lambda timeline: timeline.diff(since))
        if found is None or not path:
            return found
        wanted = path.strip()
        return CheckpointDiff(
            found.from_checkpoint,
            found.to_checkpoint,
            [one for one in found.files if one.path == wanted or one.path.endswith(f"/{wanted}")],
            from_id=found.from_id,
        )

    @staticmethod
    def render_diff(diff: CheckpointDiff | None, scope: str = "session") -> str:
        """Return differences as a few lines of text."""
        if diff is None:
            return (
                "Workspace checkpointing is disabled. Enable it with "
                f"`checkpoints.auto: true` in config or `{_SWITCH}=on`."
            )
        if not getattr(diff, "files", None):
            return f"No file changes this {scope}."
        lines = [f"  {one.status:>8}  {one.path}  (+{one.additions}/-{one.deletions})" for one in diff.files]
        total = f"  +{diff.total_additions} / -{diff.total_deletions} across {len(diff.files)} file(s)"
        return "\n".join([f"Changes this {scope}:", "", *lines, "", total])

    def _get_handler(self) -> CheckpointService:
        """Return the service that keeps the files; `LastgoodError` if there can be none."""
        if self._kept is None:
            kept = CheckpointService(self.workspace_dir, storage_dir=self.storage_dir)
            kept.timeline.open()
            self._kept = kept
        return self._kept

    def _attempt(self, work: Callable[[Timeline], Result]) -> Result | None:
        try:
            return work(self._get_handler().timeline)
        except LastgoodError as error:
            logger.warning("%s (%s)", error.message, error.hint)
            return None

    def _turn(self, n: int) -> Turn | None:
        """Return the turn to go back to; None if there is none so far back, or that is no number."""
        if not is_number(n) or not self.enabled or max(1, n) > len(self._turns):
            return None
        return self._turns[-max(1, n)]

    def _messages(self) -> int | None:
        """Return how many messages there are; None where that cannot be told."""
        if self.session_store is None or not self.session_id:
            return None
        try:
            messages = self._stored_messages(self.session_id)
            return None if messages is None else len(messages)
        except Exception:
            logger.warning("the conversation cannot be counted", exc_info=True)
            return None

    def _stored_messages(self, session: str) -> Any:  # noqa: ANN401 - a foreign store's messages
        getter = getattr(self.session_store, "get_messages", None)
        if callable(getter):
            return getter(session)
        extended = getattr(self.session_store, "get_extended_session", None)
        return getattr(extended(session), "messages", None) if callable(extended) else None

    def _shorten(self, count: int | None) -> None:
        """Take the conversation back to a number of messages, as far as its store can."""
        if self.session_store is None or not self.session_id or count is None:
            return
        names = _CLEARING if count <= 0 else ("revert_to_message",)
        calls = (getattr(self.session_store, name, None) for name in names)
        call = next((one for one in calls if callable(one)), None)
        if call is None:
            return
        try:
            # A store keeps the message of an index and all before it.
            call(*(self.session_id,) if count <= 0 else (self.session_id, count - 1))
        except Exception:
            logger.warning("the conversation could not be taken back", exc_info=True)
