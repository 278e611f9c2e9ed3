"""`CheckpointManager`: the skill's class, awaited."""

from __future__ import annotations

from typing import Final

from lastgood.aio.bridge import AsyncFace, RunningCalls, awaited
from lastgood.aio.calls import present_bridge
from lastgood.integrations.checkpoint_manager.records import RecordedCheckpoints
from lastgood.workspace.arguments import PathLike


class CheckpointManager(AsyncFace[RecordedCheckpoints]):
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
        self.keeper: RecordedCheckpoints = RecordedCheckpoints(
            project_dir, store=store, feature_list=feature_list, progress_file=progress_file
        )
        super().__init__(self.keeper, running=RunningCalls(present_bridge))

    @property
    def project_dir(self) -> str:
        """The project's real path."""
        return self.keeper.root

    create_checkpoint: Final = awaited(RecordedCheckpoints.create_checkpoint)
    rollback: Final = awaited(RecordedCheckpoints.rollback)
    restore_checkpoint: Final = rollback
    rollback_to_latest: Final = awaited(RecordedCheckpoints.rollback_to_latest)
    undo: Final = awaited(RecordedCheckpoints.undo)
    list_checkpoints: Final = awaited(RecordedCheckpoints.list_checkpoints)
    get_checkpoint: Final = awaited(RecordedCheckpoints.get_checkpoint)
    read: Final = awaited(RecordedCheckpoints.read)
    validate_checkpoint: Final = awaited(RecordedCheckpoints.validate_checkpoint)
    delete_checkpoint: Final = awaited(RecordedCheckpoints.delete_checkpoint)
