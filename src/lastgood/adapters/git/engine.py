"""The git engine: one bare repository, one new pack for each checkpoint."""

from __future__ import annotations

from lastgood.adapters.git.objects import Hasher
from lastgood.adapters.git.pack_write import Draft
from lastgood.adapters.git.packs import Packs
from lastgood.adapters.git.reader import GitReader
from lastgood.adapters.git.repository import Layout, create
from lastgood.adapters.git.writer import GitWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


class GitEngine(GitReader):
    """The engine in one folder. ``temporary`` is a folder of the same file system."""

    __slots__ = ("_layout",)

    def __init__(self, directory: bytes, *, temporary: bytes) -> None:
        self._layout = Layout(directory, temporary=temporary)
        super().__init__(Packs(self._layout.packs), Hasher())

    @classmethod
    def create(cls, directory: bytes, *, temporary: bytes) -> Self:
        """Create the repository durably (or complete it) and open it; `Storage`."""
        create(Layout(directory, temporary=temporary))
        return cls(directory, temporary=temporary)

    def writer(self) -> GitWriter:
        """Begin a pack."""
        return GitWriter(self._layout, packs=self.packs, hasher=self.hasher)

    def resume(self, detached: Mapping[str, object]) -> GitWriter:
        """Go on with a pack that `GitWriter.detach` handed over."""
        draft = Draft.resume(self._layout.temporary, detached)
        return GitWriter(self._layout, packs=self.packs, hasher=self.hasher, draft=draft)
