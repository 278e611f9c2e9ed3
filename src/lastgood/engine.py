"""The engine keeps bytes and trees; what it stores never changes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Protocol

    from lastgood.literals import Consolidation
    from lastgood.model.tree import Entry, TreeId

    # The path of a directory, names of files in it, and what stat said of each.
    Folder = tuple[bytes, list[bytes], list[tuple[int, int, int, int, int]]]
    # Yields the content of each, None where that is not what stat said.
    ReadFolder = Callable[[Folder], Iterable[bytes | None]]
    # Takes the store's lock; two of them: beside others, and alone.
    Hold = Callable[[], AbstractContextManager[object]]
    Holds = tuple[Hold, Hold]
else:
    Protocol = object


class ObjectReader(Protocol):
    """Reads what is stored. All ids are 20 bytes; `Damaged` where bytes are missing or wrong."""

    def read_blob(self, oid: bytes) -> bytes:
        """Return a blob whole, its id proven again from its bytes."""

    def pieces(self, oid: bytes) -> Iterator[bytes]:
        """Yield the bytes of a blob in bounded memory; its id is proven only after the last of them."""

    def copy_blob(self, oid: bytes, descriptor: int) -> int:
        """Write a blob to a descriptor in bounded memory, prove its id, return its size in bytes."""

    def blob_size(self, oid: bytes) -> int:
        """Return the size of a blob in bytes without reading it all."""

    def directory(self, tree: TreeId) -> Sequence[Entry]:
        """Return the entries of one directory, sorted by name as bytes."""

    def missing(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return those ids of which nothing is stored (an index look-up, not a proof of content)."""


class ObjectWriter(Protocol):
    """One pack in the making. Nothing is visible to readers before `publish`.

    Storing what the engine already has costs a look-up and stores nothing.
    """

    def blob(self, content: bytes) -> bytes:
        """Add a blob and return its id."""

    def blob_from(self, descriptor: int, size: int) -> bytes:
        """Add ``size`` bytes read from a descriptor, in bounded memory; EOFError if there are fewer."""

    def directory(self, entries: Iterable[Entry]) -> TreeId:
        """Add a directory (entries in any order) and return its identity."""

    def plain_directory(self, rows: Sequence[tuple[bytes, int, bytes]]) -> TreeId:
        """Add a directory of files, and of directories with no other permissions than the defaults below.

        Each is a name, its whole mode and an id, sorted by name.
        """

    def edited_directory(self, before: bytes, edits: Iterable[tuple[bytes, bytes, bytes]]) -> bytes | None:
        """Add a plain directory that is one ``before`` but for some ids, and return its own.

        Of each it is told by which name it is there, what it was, and what it is. None where that directory
        is not remembered, or these are not in it.
        """

    def checkpoint(
        self,
        *,
        id: str,
        manifest: bytes,
        workspace: TreeId,
        state: Mapping[str, bytes],
        created_at: int,
        conversation: TreeId | None = None,
        progress: Mapping[str, bytes] | None = None,
    ) -> bytes:
        """Add the commit of a checkpoint and return its id.

        Its tree holds ``checkpoint.json`` (the manifest), ``workspace/``, ``modes/`` where there
        are any, ``conversation/``, ``progress/NAME`` for each tree id given, and ``state/NAME`` for each
        blob id given. ``created_at`` is in nanoseconds.
        """

    def read_beside(self, read: ReadFolder, *, root: int) -> bool:
        """Begin to have files read and added by another process; False where that is not sound.

        ``read`` reads those of a folder there, from the open directory ``root``.
        """

    def offer_files(self, folders: Sequence[Folder]) -> object:
        """Hand files over to be read there; None if nobody takes them now, else what `files_read` names."""

    def files_read(self, *, wait: bool = False) -> Iterator[tuple[object, Sequence[bytes]]]:
        """Yield what came of files handed over: their ids, b"" for each that has to be read here."""

    def import_blobs(self, objects: bytes, oids: Iterable[bytes]) -> set[bytes]:
        """Begin to copy blobs out of another git object directory; return the ids that count as stored.

        A convenience that saves compressing; what cannot be copied is simply not in the answer. Of
        the copies, what is never added may be left out. Nothing of the other repository's
        configuration is read, nothing is fetched.
        """

    def settle_imports(self) -> bool:
        """Wait for what `import_blobs` began; False if contents have to be added again that relied on it."""

    def lacks(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return those ids of which this writer would store the content, were it added."""

    def unreadable(self, oids: Iterable[bytes]) -> set[bytes]:
        """Return what `lacks` does, and those of which nothing that is stored can be read: now it would."""

    @property
    def stored_bytes(self) -> int:
        """How many bytes the pack has grown to so far."""

    @property
    def contents(self) -> Mapping[bytes, bytes]:
        """The blobs that were added first, by their ids, if what is in it is not to be compressed."""

    def publish_part(self) -> None:
        """Publish what was added so far, durably, once it is much: who comes after a kill finds it."""

    def publish(self, *, durable: bool = True) -> None:
        """Make everything added readable; when it returns, it survives a power cut (unless not durable)."""

    def abandon(self) -> None:
        """Forget everything added; harmless after `publish`."""

    def detach(self) -> Mapping[str, object]:
        """Hand over the unpublished pack as plain data (for `Engine.resume` in another process)."""

    def adopt(self, detached: Mapping[str, object]) -> None:
        """Go on, after `detach`, with the pack that another process detached in its turn."""

    def take_back(self) -> None:
        """Go on with what this writer detached: whoever had it is gone, and what he added is forgotten."""


class CheckpointContents(Protocol):
    """What a checkpoint's commit holds."""

    @property
    def manifest(self) -> bytes:
        """The manifest as it was written."""

    @property
    def workspace(self) -> TreeId:
        """The workspace's tree."""

    @property
    def state(self) -> Mapping[str, bytes]:
        """Blob ids of the state files by name."""

    @property
    def conversation(self) -> TreeId | None:
        """The tree of the conversation's segments."""

    @property
    def progress(self) -> Mapping[str, bytes]:
        """Tree ids of the long lists of the progress by name."""


class Fault(Protocol):
    """One thing wrong in the engine's files.

    ``file`` is the file's name in the engine's folder. ``oid`` is the object hit, None when the
    whole file is (its reason says what is lost). ``mendable`` tells whether `Engine.repair` can
    mend it without losing anything, ``left_over`` whether a save that was killed leaves just that.
    """

    @property
    def file(self) -> str:
        """Where it is wrong."""

    @property
    def oid(self) -> bytes | None:
        """Which object is hit."""

    @property
    def reason(self) -> str:
        """What is wrong."""

    @property
    def mendable(self) -> bool:
        """Whether nothing is lost."""

    @property
    def left_over(self) -> bool:
        """Whether it is no damage if no checkpoint needs what is in the file."""


class CheckpointReader(ObjectReader, Protocol):
    """Reads whole checkpoints."""

    def contents(self, commit: bytes) -> CheckpointContents:
        """Return what a checkpoint's commit holds."""


class EngineReader(CheckpointReader, Protocol):
    """Reads all that there is."""

    def has_content(self, oid: bytes, content: bytes) -> bool:
        """Tell whether a blob reads as a content that is known to have its id; False too of a large one."""

    def commits(self, *, besides: Collection[bytes] = ()) -> Iterator[bytes]:
        """Yield the id of every checkpoint commit stored, in no order; unreadable ones are left out.

        Those ``besides`` are known to the caller, and are not even read.
        """

    def check(self, *, besides: Collection[bytes] = ()) -> Iterator[Fault]:
        """Prove every stored byte and yield each fault; one bad file never hides the others.

        Of the commits ``besides`` something may be missing: they are being freed.
        """

    def packs(self, *, lately: bool = False) -> int:
        """Return how many packs there are, or ``lately`` were (consolidation is due at 64)."""

    def stored_bytes(self) -> int:
        """Return what all packs and indexes take of the disk, in bytes."""

    def unreached_bytes(self, live: Iterable[bytes], *, wounded: Iterable[bytes] = ()) -> int:
        """Return about how many bytes a sweep would free; `Damaged` if that cannot be told."""

    def needed_bytes(
        self,
        commits: Iterable[bytes],
        *,
        live: Iterable[bytes],
        wounded: Iterable[bytes] = (),
        hurt: Iterable[bytes] = (),
    ) -> int:
        """Return about how many bytes only some commits need, beside the live and the wounded ones.

        ``hurt`` are more of them, which are damaged. `Damaged` if it cannot be told.
        """

    def doubted(self) -> int:
        """Return how many packs were found damaged, or copied and not proven yet: none relies on them."""

    def refresh(self) -> None:
        """Notice packs that other processes published or removed."""


class EngineMaintainer(EngineReader, Protocol):
    """A place of objects, as others may use it meanwhile: nothing is freed."""

    def writer(self, *, kept: bool = True, compressed: bool = True) -> ObjectWriter:
        """Begin a pack; one that is not ``kept`` takes no room on the disk, and cannot be published.

        Unless all is to be ``compressed`` it takes less time, and a little more room until packs are joined.
        """

    def resume(self, detached: Mapping[str, object]) -> ObjectWriter:
        """Go on with a pack that `ObjectWriter.detach` handed over."""

    def repair(
        self,
        *,
        holds: Holds | None = None,
        changing: Callable[[], None] | None = None,
        wanted: Collection[bytes] = (),
        besides: Collection[bytes] = (),
    ) -> Sequence[str]:
        """Mend what can be mended, set damaged files aside (none is deleted), and say what was done.

        A missing or bad index is rebuilt from its pack; good objects of a damaged pack are saved
        into a new one before the damaged pack is set aside. ``changing`` is called before the first
        change; where nothing is wrong, nothing is changed. By ``holds`` the store is held beside others
        while it is read and written to, and alone while files are moved; without, the caller holds it.
        What the commits ``wanted``, or stored and not ``besides``, miss is taken from what was set aside.
        """

    def consolidate(self, extent: Consolidation = "all") -> bool:
        """Join packs into one, dropping nothing; False if there was nothing to do or no means.

        What is ``due`` leaves a pack alone that outweighs all smaller ones: in a store that grows,
        each object is written a few times, however large the store. What is joined when ``idle`` leaves
        hardly any alone in a store that is soon written anew.

        The caller holds the store's lock exclusively only if it must keep readers out: old packs
        stay readable until the new one is durable.
        """

    def collect_leftovers(self) -> int:
        """Delete temporary files whose writer is gone (proven by its lock), and return their bytes.

        What was copied unproven is proven; if it proves wrong and nothing is lost by that, it is set aside.
        """

    def write_tags(self, tags: Mapping[str, bytes]) -> None:
        """Make the refs exactly these (checkpoint id to commit), packed and durable; a convenience."""


class Engine(EngineMaintainer, Protocol):
    """A place of objects: they are freed by who holds the store alone."""

    def sweep(self, live: Iterable[bytes], *, wounded: Iterable[bytes] = ()) -> int:
        """Free every object that no live commit reaches, and return the bytes freed.

        `Damaged`, and nothing freed, if a live one cannot be kept whole; of ``wounded`` ones what is
        left of them is kept. The caller holds the store's lock exclusively, and changed the generation.
        """

    def close(self) -> None:
        """Let go of files and maps."""
