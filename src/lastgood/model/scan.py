"""What a scan is asked for, and what it found."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.checkpoint import GitState, IgnoreState
    from lastgood.model.settings import CaptureSettings
    from lastgood.model.tree import Gap, TreeId


class ScanRequest(Value):
    """How to read a workspace into a tree.

    ``root`` is the workspace's real path. ``previous`` is the tree of the newest checkpoint: what it
    holds stays captured although ignored now (rule S5). ``forced`` are paths captured whatever the
    rules and the size cap say (a guard's; a directory means all below it but a ``.git``). They, and
    the paths in ``fresh``, are read anew whatever the scan cache knows of them.
    ``budget`` is in seconds. ``generation`` is the engine's; a scan cache of another generation
    proves no object (invariant 4). ``store`` is the store's real path: it is never captured.
    ``left_by`` are restores that left temporary names in the workspace: these are no files of anybody's.
    """

    root: bytes
    settings: CaptureSettings
    previous: TreeId | None
    generation: str
    store: bytes
    forced: tuple[bytes, ...] = ()
    fresh: tuple[bytes, ...] = ()
    budget: float | None = None
    left_by: tuple[str, ...] = ()


class ScanResult(Value):
    """A workspace as one tree.

    ``ignored`` counts the entries left out by rule (a directory counts as one). ``private`` are files
    captured although ignored and in no index, and those over the size cap that were forced. ``size``
    counts bytes of file contents.
    """

    tree: TreeId
    files: int
    size: int
    ignored: int
    gaps: tuple[Gap, ...]
    partial: bool
    private: tuple[bytes, ...]
    git: GitState | None
    ignore: IgnoreState
