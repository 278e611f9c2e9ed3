"""`CheckpointManager`: the skill's class, awaited."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from lastgood.aio.calls import present_bridge
from lastgood.errors import Usage
from lastgood.integrations.checkpoint_manager.records import (
    NEWEST,
    NewCheckpoint,
    RecordedCheckpoints,
    Records,
    Rollback,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeVar

    from lastgood.integrations.checkpoint_manager.records import Checkpoint
    from lastgood.model.report import UndoReport
    from lastgood.workspace.arguments import PathLike

    Result = TypeVar("Result")


class CheckpointManager:
    """Makes checkpoints of a project before what is risky, and goes back to them.

    They are in lastgood's ``store`` (the user's own unless named) and hold the project's real content;
    the project's git is read, and never moved. ``feature_list`` and ``progress_file`` are paths in the
    project; by default the usual ones are looked for. Failures are the exceptions of `lastgood.errors`.
    Cancelling a call never leaves it running.

    >>> import asyncio
    >>> async def main():
    ...     manager = CheckpointManager(project, store=store)
    ...     checkpoint = await manager.create_checkpoint("before-refactor")
    ...     (project / "notes.txt").write_text("ruined")
    ...     return (await manager.rollback(checkpoint.id)).restored
    >>> asyncio.run(main())
    ('notes.txt',)
    """

    def __init__(
        self,
        project_dir: PathLike,
        *,
        store: PathLike | None = None,
        feature_list: str | None = None,
        progress_file: str | None = None,
    ) -> None:
        self.keeper = RecordedCheckpoints(
            project_dir, store=store, feature_list=feature_list, progress_file=progress_file
        )

    @property
    def project_dir(self) -> str:
        """The project's real path."""
        return self.keeper.root

    async def create_checkpoint(
        self,
        name: str = "",
        description: str = "",
        type: str = "manual",
        *,
        context: Mapping[str, Any] | None = None,
        messages: Iterable[Mapping[str, object]] | None = None,
    ) -> Checkpoint:
        """Make a checkpoint.

        Of type automatic five stay, of type session three; manual ones stay until they are deleted,
        those of a feature for ever. ``context`` may give ``session_number`` and ``token_usage``,
        ``messages`` the conversation so far.
        """
        request = NewCheckpoint(
            name=_text(name, "the name"),
            description=_text(description, "the description"),
            type=type,
            context=_facts(context),
            messages=messages,
        )
        return await present_bridge().call(partial(self.keeper.create, request))

    async def rollback(self, checkpoint_id: str, *, git: bool = False) -> Rollback:
        """Go back to a checkpoint: files, feature list, progress; ``undo`` takes it back.

        The present state is saved first. HEAD, branches and the index stay, unless ``git``.
        """
        return await present_bridge().call(partial(self.keeper.roll_back, checkpoint_id, git=git))

    async def rollback_to_latest(self, *, git: bool = False) -> Rollback:
        """Go back to the newest checkpoint."""
        return await present_bridge().call(partial(self.keeper.roll_back, NEWEST, git=git))

    async def restore_checkpoint(self, checkpoint_id: str, *, git: bool = False) -> Rollback:
        """Go back to a checkpoint."""
        return await self.rollback(checkpoint_id, git=git)

    async def undo(self, *, force: bool = False, merge: bool = False) -> UndoReport:
        """Take the last rollback back; `Conflict` if its files changed since.

        ``force`` takes it back all the same (the present state is saved first), ``merge`` keeps what
        changed since.
        """
        return await present_bridge().call(partial(self.keeper.undo, force=force, merge=merge))

    async def list_checkpoints(self, type: str | None = None) -> Records:
        """Return the checkpoints, newest first, all or those of a type."""
        return await present_bridge().call(partial(self.keeper.list, type))

    async def get_checkpoint(self, checkpoint_id: str) -> Checkpoint:
        """Return a checkpoint's record."""
        return await present_bridge().call(partial(self.keeper.get, checkpoint_id))

    async def read(self, checkpoint_id: str, path: str) -> bytes:
        """Return a file of the project as a checkpoint holds it."""
        return await present_bridge().call(partial(self.keeper.read, checkpoint_id, path))

    async def validate_checkpoint(self, checkpoint_id: str) -> bool:
        """Prove that a checkpoint can be brought back, by bringing it back aside."""
        return await present_bridge().call(partial(self.keeper.is_whole, checkpoint_id))

    async def delete_checkpoint(self, checkpoint_id: str) -> None:
        """Delete a checkpoint; for a day ``lastgood undo`` brings it back."""
        await present_bridge().call(partial(self.keeper.delete, checkpoint_id))


def _text(given: object, what: str) -> str:
    """Return a text; None is none, as programs leave it out."""
    if given is not None and not isinstance(given, str):
        raise Usage(f"{what} is {type(given).__name__}, not str", hint=f"give {what} as a text")
    return given or ""


def _facts(context: object) -> dict[str, Any]:
    if context is not None and not isinstance(context, Mapping):
        raise Usage(f"the context is {type(context).__name__}, not dict", hint="give the context as a dict")
    return dict(context or {})
