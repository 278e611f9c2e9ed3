"""`CheckpointService`: the words of `praisonaiagents.checkpoints`, awaited, over checkpoints that hold."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from lastgood.aio.calls import present_bridge
from lastgood.errors import LastgoodError, Usage
from lastgood.integrations.praisonai.timeline import PROTECTED_PATHS as PROTECTED_PATHS  # noqa: PLC0414 - for its users
from lastgood.integrations.praisonai.timeline import (
    Conversation,
    Messages,
    NoSuchStep,
    Rescued,
    Restored,
    Saved,
    Timeline,
    is_number,
    store_of,
)
from lastgood.integrations.praisonai.types import (
    DEFAULT_FILE_SIZE,
    USER_EMAIL,
    USER_NAME,
    Checkpoint,
    CheckpointConfig,
    CheckpointDiff,
    CheckpointEvent,
    CheckpointResult,
)

Result = TypeVar("Result")
Checkpoints = list[Checkpoint]
Reference = str | CheckpointResult | Checkpoint
Told = tuple[CheckpointEvent, object]


logger: logging.Logger = logging.getLogger(__name__)

_STEP_TAG = re.compile(r"\[step-\d+\]\s*")
_NOT_BEGUN = "Service not initialized"
_UNCHANGED = "No changes to checkpoint"


class CheckpointService:
    """Keeps checkpoints of a workspace.

    Nothing is raised for what can go wrong: each call answers with a result that says so. Cancelling
    one never leaves it running. A handler may be a coroutine function, which is awaited.

    >>> import asyncio
    >>> async def main():
    ...     service = CheckpointService(str(project), storage_dir=str(store))
    ...     await service.initialize()
    ...     before = await service.save("before the refactor")
    ...     (project / "notes.txt").write_text("ruined")
    ...     return (await service.restore(before)).success
    >>> asyncio.run(main())
    True
    """

    def __init__(  # noqa: PLR0913 - the original's words, and the guide's
        self,
        workspace_dir: str,
        storage_dir: str | None = None,
        enabled: bool = True,  # noqa: FBT001, FBT002 - the same
        auto_checkpoint: bool = True,  # noqa: FBT001, FBT002 - the same
        max_checkpoints: int = 100,
        user_name: str = USER_NAME,
        user_email: str = USER_EMAIL,
        max_file_size: int = DEFAULT_FILE_SIZE,
        *,
        exclude_patterns: Sequence[str] | None = None,
        config: CheckpointConfig | None = None,
    ) -> None:
        own = CheckpointConfig(
            workspace_dir=workspace_dir,
            storage_dir=storage_dir,
            enabled=enabled,
            auto_checkpoint=auto_checkpoint,
            max_checkpoints=max_checkpoints,
            user_name=user_name,
            user_email=user_email,
            max_file_size=max_file_size,
        )
        if config is not None and not isinstance(config, CheckpointConfig):
            raise Usage(
                f"the config is {type(config).__name__}, not CheckpointConfig",
                hint="give a CheckpointConfig of lastgood.integrations.praisonai",
            )
        if config is not None:  # as the guide has it: the rest is said there
            chosen = config.storage_dir if storage_dir is None or storage_dir == "" else storage_dir
            own = replace(config, workspace_dir=workspace_dir, storage_dir=chosen)
        patterns: Any = own.exclude_patterns if exclude_patterns is None else exclude_patterns
        self.config: CheckpointConfig = replace(own, exclude_patterns=patterns)
        self.timeline: Timeline = Timeline(self.config)
        self._initialized = False
        self._listeners: dict[CheckpointEvent, list[Callable[[Any], object]]] = {
            event: [] for event in CheckpointEvent
        }

    @property
    def workspace_dir(self) -> str:
        """The workspace, as it was named."""
        return self.config.workspace_dir

    @property
    def storage_dir(self) -> str | None:
        """Where the checkpoints of all workspaces are kept."""
        return self.config.storage_dir

    @property
    def checkpoint_dir(self) -> str:
        """The folder of this workspace's checkpoints."""
        return self.config.get_checkpoint_dir()

    @property
    def git_dir(self) -> str:
        """Where PraisonAI has its repository."""
        return os.path.join(self.checkpoint_dir, ".git")

    @property
    def store(self) -> str:
        """Lastgood's store of this workspace, as ``lastgood --store`` takes it."""
        return store_of(self.config)

    @property
    def is_initialized(self) -> bool:
        """Whether checkpoints can be made."""
        return self._initialized

    def on(self, event: CheckpointEvent, handler: Callable[[Any], object]) -> None:
        """Have a function called with what happened, after the fact; `KeyError` for no event."""
        if not callable(handler):
            raise Usage(f"the handler is {type(handler).__name__}, not a call", hint="hand over a function")
        self._listeners[event].append(handler)

    async def initialize(self) -> bool:
        """Begin, with the checkpoints that are there; False if this workspace cannot have any."""
        if not self.config.enabled:
            return False
        try:
            await present_bridge().call(self.timeline.open)
        except LastgoodError as error:
            logger.warning("checkpoints cannot be kept: %s", _words(error))
            return False
        self._initialized = True
        await self._tell((CheckpointEvent.INITIALIZED, {"workspace": self.workspace_dir}))
        return True

    async def save(
        self,
        message: str,
        allow_empty: bool = False,  # noqa: FBT001, FBT002 - the original's
        step: int | None = None,
        *,
        messages: Messages | None = None,
    ) -> CheckpointResult:
        """Make a checkpoint; one of an unchanged workspace fails, unless empty ones are allowed.

        The result of that has the checkpoint that holds the files already: its id can be restored, too.
        ``messages`` are the conversation so far, for `conversation` to give back.
        """
        if not self._initialized:
            return CheckpointResult.fail(_NOT_BEGUN)
        fault = _fault(message, step)
        if fault is not None:
            return CheckpointResult.fail(fault)
        text = message if step is None else f"[step-{step}] {_untagged(message)}"
        try:
            saved = await present_bridge().call(
                partial(self.timeline.save, text, allow_empty=allow_empty, step=step, messages=messages)
            )
        except LastgoodError as error:
            return await self._failed(_words(error))
        if not saved.made:
            return CheckpointResult.unchanged(_UNCHANGED, held=saved.checkpoint.id)
        await self._tell(*_news(saved))
        return CheckpointResult.ok(saved.checkpoint)

    async def restore(
        self, checkpoint_id: Reference | None = None, step: int | None = None
    ) -> CheckpointResult:
        """Bring the files of a checkpoint back, by its id or by its step.

        What is unsaved is saved first, as ``[pre-restore] auto-save``. Later checkpoints stay.
        """
        if not self._initialized:
            return CheckpointResult.fail(_NOT_BEGUN)
        if checkpoint_id is not None and step is not None:
            return CheckpointResult.fail("Provide either checkpoint_id or step, not both")
        if checkpoint_id is None and step is None:
            return CheckpointResult.fail("No checkpoint id or step provided")

        def work(rescued: Rescued) -> Restored:
            ref = None if checkpoint_id is None else _named(checkpoint_id)
            return self.timeline.restore(ref, step=step, rescued=rescued)

        return await self._back(work)

    async def rewind(self, steps: int = 1) -> CheckpointResult:
        """Go some checkpoints back from where the workspace stands."""
        if not self._initialized:
            return CheckpointResult.fail(_NOT_BEGUN)
        if not is_number(steps) or steps < 1:
            return CheckpointResult.fail("steps must be >= 1")
        return await self._back(lambda rescued: self.timeline.rewind(steps, rescued=rescued))

    async def diff(self, from_id: Reference | None = None, to_id: Reference | None = None) -> CheckpointDiff:
        """Compare a checkpoint (by default the one before the last) with another, or the workspace."""
        if not self._initialized:
            return CheckpointDiff("", "", error=_NOT_BEGUN)

        def work() -> CheckpointDiff:
            ends = [None if one is None or one == "" else _named(one) for one in (from_id, to_id)]
            return self.timeline.diff(*ends)

        try:
            return await present_bridge().call(work)
        except LastgoodError as error:
            logger.error("failed to compare: %s", _words(error))  # noqa: TRY400 - one line is enough
            return CheckpointDiff("", "", error=_words(error))

    async def list_checkpoints(self, limit: int = 50) -> Checkpoints:
        """Return checkpoints, newest first."""
        return await self._looked(partial(self.timeline.list, limit), [])

    async def list(self, limit: int | None = None) -> Checkpoints:
        """Return all checkpoints, newest first."""
        return await self._looked(partial(self.timeline.list, limit), [])

    async def get_checkpoint(self, checkpoint_id: Reference) -> Checkpoint | None:
        """Return the one checkpoint whose id begins so; None if there is none, or several."""
        return await self._looked(lambda: self.timeline.get(_named(checkpoint_id)), None)

    get = get_checkpoint

    async def get_checkpoint_by_step(self, step: int) -> Checkpoint | None:
        """Return the newest checkpoint of a step."""
        return await self._looked(partial(self.timeline.of_step, step), None)

    async def conversation(self, checkpoint_id: Reference) -> Conversation:
        """Return the messages that were given to a checkpoint, so that they go back with the files."""
        return await self._looked(lambda: self.timeline.conversation(_named(checkpoint_id)), [])

    async def delete(self, checkpoint_id: Reference) -> bool:
        """Delete a checkpoint; for a day ``lastgood undo`` brings it back."""
        deleted = await self._looked(lambda: self.timeline.delete(_named(checkpoint_id)), None)
        if deleted is None:
            return False
        await self._tell((CheckpointEvent.DELETED, deleted))
        return True

    async def cleanup(self) -> None:
        """Let go of the store; `initialize` begins again."""
        self._initialized = False
        await present_bridge().call(self.timeline.close)

    async def delete_all(self) -> bool:
        """Delete every checkpoint of this workspace."""
        try:
            await present_bridge().call(self.timeline.delete_all)
        except LastgoodError as error:
            logger.error("failed to delete checkpoints: %s", _words(error))  # noqa: TRY400 - one line is enough
            return False
        self._initialized = False
        return True

    def before_tool(self, call: object) -> None:
        """Make a checkpoint before a tool runs: a hook for ``HookEvent.BEFORE_TOOL``.

        It does so only where ``auto_checkpoint`` is on, and never keeps a tool from running.
        """
        if not (self.config.enabled and self.config.auto_checkpoint):
            return
        try:
            if not self._initialized:
                self.timeline.open()
                self._initialized = True
            saved = self.timeline.save(f"Before {_tool_of(call)}")
        except LastgoodError as error:
            logger.warning("no checkpoint before a tool: %s", _words(error))
            news: list[Told] = [(CheckpointEvent.ERROR, {"error": _words(error)})]
        else:
            news = _news(saved) if saved.made else []
        if any(self._listeners[event] for event, _ in news):
            _run(self._tell(*news))

    async def _back(self, work: Callable[[Rescued], Restored]) -> CheckpointResult:
        rescued: Rescued = []
        try:
            restored = await present_bridge().call(partial(work, rescued))
        except NoSuchStep as error:
            return CheckpointResult.fail(error.message)
        except LastgoodError as error:
            await self._tell(*(told for one in rescued for told in _news(one)))
            return await self._failed(_words(error))
        await self._tell(*(told for one in rescued for told in _news(one)))
        if restored.omitted:
            return await self._failed(
                "Not restored: " + ", ".join(restored.omitted), checkpoint=restored.checkpoint
            )
        await self._tell((CheckpointEvent.CHECKPOINT_RESTORED, restored.checkpoint))
        return CheckpointResult.ok(restored.checkpoint)

    async def _looked(self, work: Callable[[], Result], nothing: Result) -> Result:
        """Return what was looked up, or nothing where it cannot be."""
        if not self._initialized:
            return nothing
        try:
            return await present_bridge().call(work)
        except LastgoodError as error:
            logger.error("%s", _words(error))  # noqa: TRY400 - one line is enough
            return nothing

    async def _failed(self, words: str, *, checkpoint: Checkpoint | None = None) -> CheckpointResult:
        await self._tell((CheckpointEvent.ERROR, {"error": words}))
        return CheckpointResult(success=False, checkpoint=checkpoint, error=words)

    async def _tell(self, *news: Told) -> None:
        """Call the handlers, one after the other; a fault of one harms nobody else."""
        for event, said in news:
            for listener in tuple(self._listeners[event]):
                try:
                    answer = listener(said)
                    if inspect.isawaitable(answer):
                        await answer
                except Exception:
                    logger.warning("a handler of %s failed", event.value, exc_info=True)


def _news(saved: Saved) -> list[Told]:
    created: Told = (CheckpointEvent.CHECKPOINT_CREATED, saved.checkpoint)
    if not saved.dropped:
        return [created]
    pruned = {"action": "pruned", "removed_count": saved.dropped}
    return [(CheckpointEvent.CHECKPOINTS_PRUNED, pruned), created]


def _fault(message: object, step: object) -> str | None:
    """Return what is wrong with the words of a save."""
    if step is not None and not (is_number(step) and step >= 0):
        return "step must be a non-negative integer"
    return None if isinstance(message, str) else "message must be a string"


def _tool_of(call: object) -> str:
    name = getattr(call, "tool_name", None)
    return name if isinstance(name, str) and name else "a tool"


def _untagged(message: str) -> str:
    """Return a message without the tag of an earlier step."""
    tag = _STEP_TAG.match(message)
    return message if tag is None else message[tag.end() :]


def _named(reference: Reference) -> str:
    named = reference if isinstance(reference, str) else getattr(reference, "id", None)
    if not isinstance(named, str):
        raise Usage(
            f"a checkpoint is named by its id, not by {type(reference).__name__}",
            hint="give its id, a string",
        )
    return named


def _words(error: LastgoodError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Carry out what is asynchronous from a thread that has no loop of its own, or beside one that has."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
    else:
        from threading import Thread

        aside = Thread(target=asyncio.run, args=(work,))
        aside.start()
        aside.join()
