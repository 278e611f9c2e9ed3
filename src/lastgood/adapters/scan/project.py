"""What the project's repository has to say about a scan; read as files, never run."""

from __future__ import annotations

import os
from marshal import dumps

from lastgood.adapters.project import repository
from lastgood.adapters.project.files import read_file
from lastgood.adapters.project.index import Index, read_index
from lastgood.adapters.project.state import IGNORE_FILE_LIMIT, nested_head, outer_rules, state
from lastgood.adapters.proven import digest
from lastgood.adapters.scan.form import evidence
from lastgood.model.checkpoint import GitState, IgnoreState, NestedRepository
from lastgood.names import join
from lastgood.rules.ignore import Includes, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.adapters.project.repository import Repository
    from lastgood.model.settings import CaptureSettings
    from lastgood.rules.ignore import Text

# Below this many objects, hashing and compressing is quicker than asking git for them.
_WORTH_IMPORTING = 256
_DIGEST_SIZE = 20  # of an object id that our engine could take over


class IndexPaths:
    """The paths that the project's index holds; it is read only when somebody asks.

    ``excludes`` are the patterns that leave a path out whatever the project itself ignores.
    """

    def __init__(self, found: Repository | None, *, excludes: Sequence[str] = ()) -> None:
        self._repository = found
        self._index: Index | None = None
        self._known = found is None
        self._excludes = excludes
        self._excluded: Includes | None = None

    @property
    def index(self) -> Index | None:
        """The index, None if there is none or it cannot be understood."""
        if not self._known and self._repository is not None:
            read = read_index(self._repository)
            if isinstance(read, Index):
                self._index = read
            else:
                self._excluded = Includes(self._excludes)
            self._known = True
        return self._index

    def holds(self, path: bytes) -> bool:
        """Tell whether a path is tracked."""
        index = self.index
        return index is not None and path in index.places

    def holds_below(self, path: bytes) -> bool:
        """Tell whether a directory holds tracked paths, or is a submodule."""
        index = self.index
        return index is not None and (path in index.tracked_directories or path in index.places)

    def may_hold(self, path: bytes, *, directory: bool) -> bool:
        """Tell whether a path may be tracked because nobody can tell: the index cannot be understood."""
        if self.index is not None or self._excluded is None:
            return False
        return not self._excluded.matches(path, directory=directory)


class Project:
    """The repository of a workspace, if it has one."""

    def __init__(self, root: bytes, *, settings: CaptureSettings) -> None:
        self._root = root
        self._found = repository.find(root)
        self.index = IndexPaths(self._found, excludes=(*settings.built_in, *settings.exclude))

    @property
    def signature(self) -> bytes:
        """What changes whenever the index does; b"" without a repository."""
        if self._found is None:
            return b""
        path = self._found.git_dir + b"/index"
        try:
            seen = evidence(os.stat(path))
        except OSError:
            return digest(path)
        return digest(dumps((path, seen), 2))

    @property
    def objects(self) -> bytes:
        """The repository's object directory; b"" if there is none to copy from."""
        if self._found is None or self._found.digest_size != _DIGEST_SIZE:
            return b""
        return self._found.objects

    def ignore_state(self, settings: CaptureSettings) -> IgnoreState:
        """Return the rules that are not files of the workspace."""
        outer: Text = None if self._found is None else outer_rules(self._found)
        everywhere: Text = None
        if settings.global_excludes is not None:
            path = os.fsencode(settings.global_excludes)
            everywhere = read_file(path, limit=IGNORE_FILE_LIMIT)
        return IgnoreState(
            excludes=(*settings.built_in, *settings.exclude),
            includes=settings.include,
            info_exclude=outer if isinstance(outer, bytes) else b"",
            global_exclude=everywhere if isinstance(everywhere, bytes) else b"",
            readable=not isinstance(outer, Unreadable) and not isinstance(everywhere, Unreadable),
        )

    def state(self, nested: Iterable[bytes]) -> GitState | None:
        """Return what the repository says now, with the HEADs of nested repositories (rule S4)."""
        heads = tuple(
            NestedRepository(path=path, head=nested_head(join(self._root, path))) for path in sorted(nested)
        )
        if self._found is not None:
            return state(self._found).replace(nested=heads)
        return GitState(head=None, branch=None, nested=heads) if heads else None

    def named_objects(self) -> set[bytes]:
        """Return the objects that files of the workspace may equal, if there are many."""
        index = self.index.index
        if index is None or not self.objects or len(index.places) < _WORTH_IMPORTING:
            return set()
        found = index.blobs()
        return found if len(found) >= _WORTH_IMPORTING else set()
