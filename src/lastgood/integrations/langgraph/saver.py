"""A LangGraph checkpoint saver over lastgood's store."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from lastgood import AsyncWorkspace, Workspace
from lastgood.errors import Conflict, Invalid, NotFound, Usage
from lastgood.integrations.langgraph import pages as keys
from lastgood.integrations.langgraph.pages import (
    FILES,
    CheckpointQuery,
    Page,
    Thread,
    ThreadPosition,
    answers,
    drop_checkpoints,
    put_checkpoint,
    put_writes,
    superseded,
)
from lastgood.integrations.langgraph.values import Values
from lastgood.integrations.records import Records
from lastgood.ledger import LedgerReader, LedgerWriter
from lastgood.literals import Kind
from lastgood.model.report import RestoreReport
from lastgood.value import cast
from lastgood.workspace.arguments import check_count, expect

_SPACE = "langgraph"
# Where a run tells its saver how it waits for it (langgraph's CONFIG_KEY_DURABILITY), if it was asked to.
_DURABILITY = "__pregel_durability"
_WAITING = frozenset({"sync", "exit"})


class LastgoodSaver(BaseCheckpointSaver[int]):
    """Keeps the threads of a graph in the store of a workspace, durable and proven when read.

    With ``files`` each checkpoint of a thread also names the workspace's checkpoint of that moment,
    and `restore_files` brings those files back; the graph has to be run with ``durability="sync"``, or
    a step would already change files while those of the step before are kept.

    ``allow`` are types of your own that the state holds: others than these and LangGraph's own are
    refused, because reading them would have to run code that the data names. ``kind`` is the kind of
    the workspace's checkpoints, which decides how long they stay.

    Every method has its awaited form, which waits in a thread. Of an asynchronous workspace all are there,
    too; the awaited ones belong to its loop.
    """

    def __init__(
        self,
        workspace: Workspace | AsyncWorkspace,
        *,
        files: bool = False,
        allow: Iterable[type | tuple[str, ...]] = (),
        serde: SerializerProtocol | None = None,
        kind: Kind = "turn",
    ) -> None:
        self._values = Values(allow=allow, serde=serde)
        super().__init__(serde=self._values.serde)
        self._records = Records(workspace, space=_SPACE, kind=kind, files=files)

    @property
    def workspace(self) -> Workspace | AsyncWorkspace:
        """The workspace whose files belong to the threads."""
        return self._records.workspace

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a configuration names, or the newest of its thread."""
        return self._tuple(keys.spot_of(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first: of one thread, or thread after thread."""
        for spot in self._found(config, filter=filter, before=before, limit=limit):
            found = self._tuple(spot)
            if found is not None:  # removed since
                yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint, after the workspace's files where these belong to it; durable on return."""
        spot = keys.spot_of(config)
        expect(checkpoint, Mapping, what="the checkpoint")
        expect(metadata, Mapping, what="the metadata")
        if self._records.files:
            _refuse_racing(config, metadata)
        said = cast("dict[str, Any]", get_checkpoint_metadata(config, metadata))
        said.pop(FILES, None)
        work = partial(
            put_checkpoint,
            spot=spot,
            checkpoint=checkpoint,
            metadata=said,
            new_versions=new_versions,
            files=self._kept_files(spot, checkpoint["id"], said.get("step")) if self._records.files else None,
            values=self._values,
        )
        self._records.ledger.change(work)
        return keys.config_of(spot, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote after a checkpoint; durable on return."""
        spot = keys.spot_of(config)
        expect(task_path, str, what="the path of the task")
        if spot.id is None:
            raise Usage("writes belong to a checkpoint", hint="give its checkpoint_id in the configuration")
        self._records.ledger.change(
            partial(put_writes, spot=spot, writes=writes, task=task_id, path=task_path, values=self._values)
        )

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread, at once and for good; the workspace's checkpoints stay."""
        name = keys.name_of(thread_id)
        self._records.ledger.change(lambda book: book.drop_book(name))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that some runs made, in whatever thread."""
        runs = keys.names(run_ids, "the ids of the runs")

        def work(book: LedgerWriter) -> None:
            for run in runs:
                by_thread: dict[str, list[tuple[str, str]]] = {}
                for thread, key in book.marked(run):
                    by_thread.setdefault(thread, []).append(keys.parts_of(key))
                for thread, pages in by_thread.items():
                    drop_checkpoints(book, thread, pages)

        self._records.ledger.change(work)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread whole; `NotFound` if there is none, `Conflict` if the other is there already."""
        source, target = keys.name_of(source_thread_id), keys.name_of(target_thread_id)

        def work(book: LedgerWriter) -> None:
            if not book.entries(source, limit=1):
                raise NotFound(f"there is no thread {source!r}", hint="name one that has checkpoints")
            if book.entries(target, limit=1):
                raise Conflict(
                    f"there is a thread {target!r} already", hint="delete it first, or choose another name"
                )
            book.copy_book(source, to=target)

        self._records.ledger.change(work)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all of some threads (``delete``), or what their newest checkpoints do not need."""
        if not isinstance(strategy, str) or strategy not in {"keep_latest", "delete"}:
            raise Invalid(f"{strategy!r} is no strategy", hint="strategies: keep_latest, delete")
        threads = keys.names(thread_ids, "the ids of the threads")

        def work(book: LedgerWriter) -> None:
            for thread in threads:
                if strategy == "delete":
                    book.drop_book(thread)
                    continue
                pages = Thread(book, thread, self._values).pages(None)
                drop_checkpoints(book, thread, superseded(pages, self._values))

        self._records.ledger.change(work)

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ANN401, ARG002 - as inherited
        """Return a channel's next version: a number, or a text where another saver began with texts."""
        if isinstance(current, str):
            return f"{int(current.split('.')[0]) + 1:032}.0"
        return 1 if current is None else current + 1

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what was written to channels since they were last stored."""
        spot = keys.spot_of(config)
        return self._records.ledger.look(
            lambda book: Thread(book, spot.thread, self._values).history(spot, channels)
        )

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> LastgoodSaver:
        """Return a saver of the same threads that allows more types."""
        clone = copy.copy(self)
        clone._values = self._values.allowing(extra_allowlist)  # noqa: SLF001 - the same class
        clone.serde = clone._values.serde  # noqa: SLF001 - the same class
        return clone

    def files_of(self, config: RunnableConfig) -> str | None:
        """Return the id of the workspace's checkpoint of the same moment, None if none was made."""
        return self._page(keys.spot_of(config)).files

    def restore_files(self, /, config: RunnableConfig, **options: Any) -> RestoreReport:  # noqa: ANN401 - those of restore
        """Bring the files of a thread's checkpoint back; the options are those of `Workspace.restore`.

        The present files are saved first, and it can be undone. `NotFound` if the checkpoint has no
        files, or they were pruned since.
        """
        page = self._page(keys.spot_of(config))
        if page.files is None:
            raise NotFound(
                f"no files were kept with the checkpoint {page.id}",
                hint="have them kept: LastgoodSaver(workspace, files=True)",
            )
        return self._records.restore_files(page.files, options)

    def _page(self, spot: ThreadPosition) -> Page:
        page = self._records.ledger.look(
            lambda book: Thread(book, spot.thread, self._values).page(spot.namespace, spot.id)
        )
        if page is None:
            raise NotFound(
                f"the thread {spot.thread!r} has no such checkpoint",
                hint="see: graph.get_state_history(config)",
            )
        return page

    def _tuple(self, spot: ThreadPosition) -> CheckpointTuple | None:
        def work(book: LedgerReader) -> CheckpointTuple | None:
            thread = Thread(book, spot.thread, self._values)
            page = thread.page(spot.namespace, spot.id)
            return None if page is None else thread.tuple_of(page, spot)

        return self._records.ledger.look(work)

    def _found(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[ThreadPosition]:
        expect(filter, Mapping, type(None), what="the filter")
        if limit is not None:
            check_count(limit, least=0, what="the limit")
        question = CheckpointQuery(
            asked=None if config is None else keys.spot_of(config),
            earliest=None if before is None else keys.spot_of(before).id,
            filter=filter or {},
            limit=limit,
        )
        return self._records.ledger.look(lambda book: answers(book, question, self._values))

    def _kept_files(self, spot: ThreadPosition, id: str, step: object) -> str:
        """Keep the workspace's files, and return the checkpoint that holds them."""
        where = f", step {step}" if isinstance(step, int) else ""
        said = {"langgraph_thread": spot.thread, "langgraph_checkpoint": id}
        return self._records.keep_files(f"thread {spot.thread}{where}"[:200], said)

    # --- The same, awaited: each waits in a thread ---

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Await `get_tuple`."""
        return await self._records.whole(partial(self.get_tuple, config))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Await `put`."""
        return await self._records.whole(partial(self.put, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Await `put_writes`."""
        await self._records.whole(partial(self.put_writes, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Await `delete_thread`."""
        await self._records.whole(partial(self.delete_thread, thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Await `delete_for_runs`."""
        await self._records.whole(partial(self.delete_for_runs, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Await `copy_thread`."""
        await self._records.whole(partial(self.copy_thread, source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Await `prune`."""
        await self._records.whole(partial(self.prune, thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Await `get_delta_channel_history`."""
        work = partial(self.get_delta_channel_history, config=config, channels=channels)
        return await self._records.whole(work)

    async def afiles_of(self, config: RunnableConfig) -> str | None:
        """Await `files_of`."""
        return await self._records.whole(partial(self.files_of, config))

    async def arestore_files(self, /, config: RunnableConfig, **options: Any) -> RestoreReport:  # noqa: ANN401 - those of restore
        """Await `restore_files`."""
        return await self._records.whole(partial(self.restore_files, config, **options))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first: of one thread, or thread after thread."""
        spots = await self._records.whole(
            partial(self._found, config, filter=filter, before=before, limit=limit)
        )
        for spot in spots:
            found = await self._records.whole(partial(self._tuple, spot))
            if found is not None:
                yield found


def _refuse_racing(config: RunnableConfig, metadata: CheckpointMetadata) -> None:
    """Refuse to keep files beside a step that may change them meanwhile."""
    if metadata.get("source") in {"update", "fork"} or config["configurable"].get(_DURABILITY) in _WAITING:
        return
    raise Usage(
        "the graph does not wait for its checkpoints: the files kept could be those of a later moment",
        hint='run it with durability="sync": graph.invoke(input, config, durability="sync")',
    )
