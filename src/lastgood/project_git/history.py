"""The project's repository: questions to its history, and what a checkpoint keeps of it."""

from __future__ import annotations

from lastgood import project_git
from lastgood.paths import to_bytes
from lastgood.project_git import find, read_known
from lastgood.project_git.query import Asker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastgood.engine import ObjectWriter
    from lastgood.host import FoundGitPosition, GitPosition, RealignedGit
    from lastgood.model.checkpoint import GitState
    from lastgood.model.tree import Change
    from lastgood.project_git import Repository
    from lastgood.project_git.status import GitSnapshot
    from lastgood.worktree import Scan

DEFAULT_SEARCH_PATH = b"/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
_HEX = frozenset("0123456789abcdef")
_DIGEST_SIZE = 20  # our repository cannot borrow from one with SHA-256
# So much of an id git shows at least.
_LEAST_DIGITS = 7
_SHALLOW_LIMIT = 1 << 24
_PATIENCE_SECONDS = 3.0  # for a number that is only told


class SealedGit:
    """The project's repository; where git is needed, it is run in a repository of ours that borrows objects.

    ``repository`` is that repository of ours, ``search_path`` the ``PATH`` on which git is looked for,
    ``folder`` where something may be remembered, and scratch files lie.
    """

    def __init__(
        self,
        repository: bytes,
        *,
        search_path: bytes = DEFAULT_SEARCH_PATH,
        folder: bytes | None = None,
    ) -> None:
        self._folder = repository if folder is None else folder
        self._asker = Asker(repository, search_path=search_path, folder=self._folder)
        # Of which repository the index was last asked for, what stat said of it, and the id.
        self._index: tuple[bytes, bytes, bytes] | None = None

    def state(self, root: bytes) -> GitState | None:
        """Return where HEAD stands; None without a repository. ``dirty`` and ``nested`` are not looked up."""
        found = find(root)
        return None if found is None else project_git.state(found)

    def commits_between(self, root: bytes, old: str, new: str) -> int | None:
        """Return by how many commits HEAD moved; None if that cannot be told.

        New commits count; where there are none, HEAD went back, and those that it left count.
        """
        if not (_is_oid(old) and _is_oid(new)):
            return None
        if old == new:
            return 0
        found = find(root)
        if found is None or found.digest_size != _DIGEST_SIZE:
            return None
        shallow = read_known(found.common_dir + b"/shallow", limit=_SHALLOW_LIMIT)
        between = f"{old}...{new}".encode()
        if shallow:
            return self._listed(found, between, ends=frozenset(shallow.split()))
        question = [b"rev-list", b"--count", b"--left-right", between, b"--"]
        counts = (self._asker.ask(found, question, patience=_PATIENCE_SECONDS) or b"").split()
        if len(counts) != 2 or not all(count.isdigit() for count in counts):
            return None
        gone, come = (int(count) for count in counts)
        return come or gone

    def _listed(self, found: Repository, between: bytes, *, ends: frozenset[bytes]) -> int | None:
        """Count in a shallow clone; None where its history ends in between."""
        question = [b"rev-list", b"--left-right", between, b"--"]
        said = self._asker.ask(found, question, patience=_PATIENCE_SECONDS)
        if said is None:
            return None
        lines = said.split()
        if ends.intersection(line[1:] for line in lines):
            return None
        come = sum(line.startswith(b">") for line in lines)
        return come or len(lines)

    def commit(self, root: bytes, revision: str) -> tuple[str, int] | None:
        """Return the commit that git means by a revision, and its time in nanoseconds; None if it is none.

        Known are HEAD, branches, tags and ids, and so many before them: ``main~2``, ``HEAD^``.
        """
        from re import fullmatch  # lazily: only what is no REF pays for it

        parts = fullmatch(r"(.+?)((?:~\d*|\^\d*)*)", revision)
        found = None if parts is None else find(root)
        if parts is None or found is None or found.digest_size != _DIGEST_SIZE:
            return None
        start = _oid_of(found, parts[1])
        if start is None:
            return None
        question = [b"log", b"-1", b"--format=%H %ct", f"{start}{parts[2]}^{{commit}}".encode(), b"--"]
        said = (self._asker.ask(found, question, patience=_PATIENCE_SECONDS) or b"").split()
        if len(said) != 2 or not said[1].isdigit():
            return None
        return said[0].decode("ascii"), int(said[1]) * 10**9

    def snapshot(
        self, root: bytes, *, scan: Scan, writer: ObjectWriter, since: str | None, changes: Sequence[Change]
    ) -> GitSnapshot | None:
        """Return what a checkpoint keeps of the repository; None if the workspace belongs to none."""
        git = scan.result.git
        if git is None:
            return None
        from lastgood.project_git.status import GitSnapshots

        snapshots = GitSnapshots(root, scan, folder=self._folder, asker=self._asker, writer=writer)
        return snapshots.run(git, since=since, changes=changes)

    def index(self, root: bytes) -> bytes | None:
        """Return the id of the blob that would hold the index; None if it cannot be known.

        Read only where git has written it since it was read last.
        """
        from lastgood.project_git.remembered import index_seen

        found = find(root)
        if found is None:
            return None
        place, seen, last = found.git_dir, index_seen(found), self._index
        if last is not None and last[:2] == (place, seen):
            return last[2]
        now = self._index_now(found, seen)
        self._index = None if now is None else (place, seen, now)
        return now

    def _index_now(self, found: Repository, seen: bytes) -> bytes | None:
        from lastgood.project_git.remembered import recall, remember

        known = recall(self._folder)
        if known is not None and known.seen == seen and known.index:
            return known.index
        from lastgood.project_git.entries import read_entries
        from lastgood.project_git.index import IndexDamage, blob_id

        try:
            now = blob_id(read_entries(found).canonical())
        except IndexDamage:
            return None
        if known is not None and known.index == now:  # git only learned what stat says by now
            remember(self._folder, known.replace(seen=seen))
        return now

    def found_position(self, root: bytes) -> FoundGitPosition | None:
        """Return how HEAD and index stand; None without a repository."""
        from lastgood.project_git import restore

        return restore.found_position(root)

    def attachable(self, root: bytes, position: GitPosition) -> bool:
        """Tell whether HEAD could stand on the position's branch without that being moved."""
        from lastgood.project_git import restore

        return restore.attachable(root, position)

    def is_taken(self, root: bytes, branch: str) -> bool:
        """Tell whether another worktree stands on a branch, by its whole name."""
        from lastgood.project_git import restore

        return restore.is_taken(root, branch)

    def refuse_realigning(self, root: bytes, wanted: GitPosition, content: bytes) -> None:
        """Raise what speaks against putting HEAD and index back."""
        from lastgood.project_git import restore

        restore.refuse(root, wanted, content, asker=self._asker)

    def realign(
        self, root: bytes, *, known: GitPosition, wanted: GitPosition, content: bytes, words: str, at: int
    ) -> RealignedGit:
        """Put HEAD and index back; see `lastgood.project_git.restore`."""
        from lastgood.project_git import restore

        return restore.realign(root, known=known, wanted=wanted, content=content, words=words, at=at)


def _oid_of(found: Repository, name: str) -> str | None:
    """Return the id of what a name stands for: HEAD, a branch, a tag; an id, or its beginning, as it is."""
    if name == "HEAD":
        return project_git.head(found)[0]
    if _LEAST_DIGITS <= len(name) <= 2 * _DIGEST_SIZE and _HEX.issuperset(name):
        return name
    for place in (b"refs/heads/", b"refs/tags/", b"refs/remotes/"):
        ref = project_git.target_of(b"ref: " + place + to_bytes(name))
        oid = None if ref is None else project_git.commit_of(found, ref)
        if oid is not None:
            return oid
    return None


def _is_oid(oid: str) -> bool:
    return len(oid) == 2 * _DIGEST_SIZE and _HEX.issuperset(oid)
