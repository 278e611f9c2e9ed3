"""The git engine: one bare repository, one new pack for each checkpoint.

What a plain save does not need is imported when it is called for: start-up time is part of a save.
"""

from __future__ import annotations

from lastgood.objects import Hasher
from lastgood.objects.pack import PackDraft
from lastgood.objects.read import GitReader, NoPacks, Packs
from lastgood.objects.repository import Layout, create, storage, suspect_packs
from lastgood.objects.write import Compressor, GitWriter, TreeMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from lastgood.engine import Holds
    from lastgood.literals import Consolidation
    from lastgood.objects.check import GitFault
    from lastgood.objects.merge_text import Git

DEFAULT_SEARCH_PATH = b"/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"


class GitEngine(GitReader):
    """The engine in one folder.

    ``temporary`` is a folder of the same file system; ``search_path`` says where git may be found
    (absolute folders only; without git there is no consolidation, all else works).
    """

    __slots__ = ("_compressor", "_layout", "_search_path", "_trees")

    def __init__(
        self, directory: bytes, *, temporary: bytes, search_path: bytes = DEFAULT_SEARCH_PATH
    ) -> None:
        self._layout = Layout(directory, temporary=temporary)
        self._search_path = search_path
        self._compressor = Compressor()
        self._trees = TreeMemory()
        super().__init__(Packs(self._layout.packs), Hasher())

    @classmethod
    def create(cls, directory: bytes, *, temporary: bytes, search_path: bytes = DEFAULT_SEARCH_PATH) -> Self:
        """Create the repository durably (or complete it) and open it; `Storage`."""
        create(Layout(directory, temporary=temporary))
        return cls(directory, temporary=temporary, search_path=search_path)

    def writer(self, *, kept: bool = True, compressed: bool = True) -> GitWriter:
        """Begin a pack; one that is not ``kept`` takes no room, and cannot be published.

        Unless all is to be ``compressed``, a little of it is not, until packs are joined.
        """
        draft = None if kept else PackDraft(self._layout.temporary, kept=False)
        return self._writer(draft, compressed=compressed)

    def resume(self, detached: Mapping[str, object]) -> GitWriter:
        """Go on with a pack that `GitWriter.detach` handed over; `Storage`."""
        try:
            return self._writer(PackDraft.resume(self._layout.temporary, detached))
        except OSError as error:
            raise storage(error, doing="taking over a pack", at=self._layout.root) from error

    def commits(self, *, besides: Collection[bytes] = ()) -> Iterator[bytes]:
        """Yield the id of every checkpoint commit stored, in no order; unreadable ones are left out."""
        from lastgood.objects.check import checkpoint_commits

        self.stored.refresh()
        return checkpoint_commits(self, besides)

    def check(self, *, besides: Collection[bytes] = ()) -> Iterator[GitFault]:
        """Prove every stored byte and yield each fault; one bad file never hides the others.

        Of the commits ``besides`` something may be missing: they are being freed.
        """
        from lastgood.objects.check import check

        return check(self._layout, reader=self, besides=besides)

    def repair(
        self,
        *,
        holds: Holds | None = None,
        changing: Callable[[], None] | None = None,
        wanted: Collection[bytes] = (),
        besides: Collection[bytes] = (),
    ) -> Sequence[str]:
        """Mend what can be mended, set damaged files aside, and say what was done; `Storage`."""
        from lastgood.objects.repair import repair

        # By an engine of its own: other threads may be reading and saving by this one.
        own = GitEngine(self._layout.root, temporary=self._layout.temporary, search_path=self._search_path)
        try:
            done = repair(
                self._layout,
                reader=own,
                new_writer=own.writer,
                holds=holds,
                changing=changing,
                wanted=wanted,
                besides=besides,
            )
        finally:
            own.close()
        if done:
            self.close()
        return done

    def packs(self, *, lately: bool = False) -> int:
        """Return how many packs there are, or ``lately`` were."""
        return len(self.stored.look_lately() if lately else self.stored.look())

    def stored_bytes(self) -> int:
        """Return what all packs and indexes take of the disk, in bytes."""
        from lastgood.objects.consolidate import allotted_bytes

        return sum(allotted_bytes(pack.path) for pack in self.stored.look())

    def consolidate(self, extent: Consolidation = "all") -> bool:
        """Join packs into one, dropping nothing; False if there was nothing to do or no git."""
        from lastgood.objects.consolidate import consolidate

        return consolidate(self._layout, reader=self, git=self._git(), extent=extent)

    def sweep(self, live: Iterable[bytes], *, wounded: Iterable[bytes] = ()) -> int:
        """Free every object that no commit reaches, and return the bytes freed; `Damaged`."""
        from lastgood.objects.sweep import sweep

        return sweep(self._layout, reader=self, git=self._git(), live=live, wounded=wounded)

    def unreached_bytes(self, live: Iterable[bytes], *, wounded: Iterable[bytes] = ()) -> int:
        """Return about how many bytes a sweep would free; `Damaged` if that cannot be told."""
        from lastgood.objects.sweep import unreached_bytes

        return unreached_bytes(self._layout, reader=self, live=live, wounded=wounded)

    def needed_bytes(
        self,
        commits: Iterable[bytes],
        *,
        live: Iterable[bytes],
        wounded: Iterable[bytes] = (),
        hurt: Iterable[bytes] = (),
    ) -> int:
        """Return about how many bytes only some commits need; `Damaged` if that cannot be told."""
        from lastgood.objects.sweep import needed_bytes

        return needed_bytes(self, commits=commits, live=live, wounded=wounded, hurt=hurt)

    def collect_leftovers(self) -> int:
        """Delete temporary files whose writer is gone (proven by its lock), and return their bytes.

        A pack that a killed writer left without its index gets one. One that was copied is proven; if it
        proves wrong and nothing is lost by that, it is set aside.
        """
        from lastgood.objects.repair import index_lone_packs, settle
        from lastgood.objects.repository import collect

        index_lone_packs(self._layout, hasher=self.hasher)
        settle(self._layout, reader=self, new_writer=self.writer)
        return collect(self._layout.temporary)

    def doubted(self) -> int:
        """Return how many packs were found damaged, or copied and not proven yet: none relies on them."""
        return len(suspect_packs(self._layout))

    def write_tags(self, tags: Mapping[str, bytes]) -> None:
        """Make the refs exactly these, packed and durable; commits that are not stored get none."""
        from lastgood.objects.consolidate import write_tags

        lost = self.missing(tags.values())
        write_tags(self._layout, {id.encode(): oid for id, oid in tags.items() if oid not in lost})

    def refresh(self) -> None:
        """Notice packs that other processes published or removed."""
        self.stored.refresh()

    def close(self) -> None:
        """Let go of files and maps; they open again when needed."""
        self.stored.close()

    def _writer(self, draft: PackDraft | None, *, compressed: bool = True) -> GitWriter:
        return GitWriter(
            self._layout,
            packs=self.stored,
            hasher=self.hasher,
            compressor=self._compressor,
            draft=draft,
            trees=self._trees,
            compressed=compressed,
        )

    def _git(self) -> Git:
        from lastgood.objects.merge_text import Git

        return Git(self._layout, search_path=self._search_path)


class AbsentEngine(GitEngine):
    """The engine of a store that is not there: it holds nothing, and nothing can be published by it."""

    __slots__ = ()

    def __init__(self, directory: bytes) -> None:
        super().__init__(directory, temporary=directory)
        self.stored: NoPacks = NoPacks(self._layout.packs)

    def check(self, *, besides: Collection[bytes] = ()) -> Iterator[GitFault]:  # noqa: ARG002 - as of any engine
        """Find nothing wrong."""
        return iter(())
