"""Texts merged by git's own three-way merge (git-merge-file(1)), sealed off like every run of git."""

from __future__ import annotations

import errno
import os

from lastgood.errors import Damaged, LastgoodError, Storage, Unsupported
from lastgood.git_command import SEALED
from lastgood.host import MergedText, MergeInput
from lastgood.objects.repository import Layout, TemporaryFile, TemporaryFolder, storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lastgood.literals import Favour


# --- Runs git where git is better: sealed off from the user's settings, the workspace and the network ---

_SETTINGS = (
    b"-c",
    b"pack.packSizeLimit=0",
    b"-c",
    b"pack.writeReverseIndex=false",
    b"-c",
    b"core.fsync=none",
    b"-c",
    b"core.fsmonitor=false",
)
_ERROR_BYTES = 2000
_NO_ROOM = (b"No space", b"diskspace", b"quota")
_DISK_TROUBLE = (b"Input/output", b"Read-only", b"File too large")


class Git:
    """The git program, found once in absolute folders only."""

    __slots__ = ("_layout", "_path", "_program")

    def __init__(self, layout: Layout, *, search_path: bytes) -> None:
        folders = [folder for folder in search_path.split(b":") if folder.startswith(b"/")]
        self._layout = layout
        self._path = b":".join(folders)
        programs = [folder + b"/git" for folder in folders]
        self._program = next((path for path in programs if os.access(path, os.X_OK)), b"")

    @property
    def found(self) -> bool:
        """Whether there is a git to run."""
        return bool(self._program)

    def run(
        self,
        arguments: Sequence[bytes],
        *,
        feed: Iterable[bytes] = (),
        output: int | None = None,
        environment: dict[bytes, bytes] | None = None,
    ) -> bytes:
        """Run a git command in our repository and return what it printed, unless ``output`` takes it.

        `Storage` or `Damaged` when it fails, with its own words.
        """
        status, printed, complaint = self.attempt(
            arguments, feed=feed, output=output, environment=environment
        )
        if status != 0:
            raise _refused(arguments[0], status, complaint, at=self._layout.root)
        return printed

    def attempt(
        self,
        arguments: Sequence[bytes],
        *,
        feed: Iterable[bytes] = (),
        output: int | None = None,
        environment: dict[bytes, bytes] | None = None,
    ) -> tuple[int, bytes, bytes]:
        """Run a git command in our repository; return its status, what it printed, and its complaints."""
        files: list[TemporaryFile] = []
        try:
            files.extend(self._scratch() for _ in range(3))
            given, printed, complaint = (file.descriptor for file in files)
            with open(given, "wb", closefd=False) as stream:
                stream.writelines(feed)
            os.lseek(given, 0, os.SEEK_SET)
            status = self._spawn(
                arguments, (given, printed if output is None else output, complaint), environment or {}
            )
            words = os.pread(complaint, _ERROR_BYTES, 0)
            return status, os.pread(printed, os.fstat(printed).st_size, 0), words
        except OSError as error:
            raise storage(error, doing="running git", at=self._layout.root) from error
        finally:
            for file in files:
                file.discard()

    def _scratch(self) -> TemporaryFile:
        """Return a file for git to read or write, in memory if possible: a full disk must be sayable."""
        if hasattr(os, "memfd_create"):
            return TemporaryFile(b"", os.memfd_create("lastgood"))
        return TemporaryFile.create(self._layout.temporary, b".git")

    def _spawn(
        self, arguments: Sequence[bytes], streams: tuple[int, int, int], extra: dict[bytes, bytes]
    ) -> int:
        sealed = SEALED | {b"PATH": self._path, b"GIT_DIR": self._layout.root} | extra
        actions = [(os.POSIX_SPAWN_DUP2, descriptor, place) for place, descriptor in enumerate(streams)]
        # Git has to stand somewhere; the caller's folder may be gone, and is none of its concern.
        command = (self._program, b"-C", b"/", *_SETTINGS, *arguments)
        child = os.posix_spawn(self._program, command, sealed, file_actions=actions)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _refused(command: bytes, status: int, complaint: bytes, *, at: bytes) -> LastgoodError:
    if any(words in complaint for words in _NO_ROOM):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return storage(full, doing=f"git {command.decode()}", at=at)
    words = complaint.decode("utf-8", "replace").strip()
    message = f"git {command.decode()} failed ({status}): {words}"
    details: dict[str, object] = {"status": status}
    if status < 0 or any(words in complaint for words in _DISK_TROUBLE):
        return Storage(message, hint="nothing was changed; fix that and try again", details=details)
    return Damaged(message, hint="nothing was changed; run `lastgood verify --repair`", details=details)


# --- Texts merged by git's own three-way merge (git-merge-file(1)), sealed off like every run of git ---

# Up to here the status counts the conflicts; above it git failed.
_MOST_CONFLICTS = 127
_PRIVATE = 0o600


class GitMerger:
    """Merges by ``git merge-file``, which reads no attributes and runs no driver."""

    def __init__(self, repository: bytes, *, temporary: bytes, search_path: bytes) -> None:
        self._layout = Layout(repository, temporary=temporary)
        self._git = Git(self._layout, search_path=search_path)

    def merge(self, texts: MergeInput, *, favour: Favour | None, label: str) -> MergedText:
        """Merge three versions; `Unsupported` without git, `Storage` when the store's disk fails."""
        if not self._git.found:
            raise Unsupported(
                "files that both sides changed have to be merged, and there is no git to do it",
                hint="install git, or choose a side: --conflict ours or --conflict theirs",
            )
        try:
            folder = TemporaryFolder(self._layout.temporary)
        except OSError as error:
            raise storage(error, doing="merging") from error
        try:
            return self._merged(folder.path, texts, favour=favour, label=label)
        except OSError as error:
            raise storage(error, doing="merging") from error
        finally:
            folder.discard()

    def _merged(self, folder: bytes, texts: MergeInput, *, favour: Favour | None, label: str) -> MergedText:
        paths = [
            _written(folder + name, content)
            for name, content in ((b"/ours", texts.ours), (b"/base", texts.base), (b"/theirs", texts.theirs))
        ]
        side = [b"--" + favour.encode()] if favour in {"ours", "theirs"} else []
        labels = [word for name in (b"now", b"base", label.encode()) for word in (b"-L", name)]
        status, content, complaint = self._git.attempt([b"merge-file", b"-p", b"-q", *side, *labels, *paths])
        if not 0 <= status <= _MOST_CONFLICTS:
            raise Storage(
                f"git could not merge ({status}): {complaint.decode('utf-8', 'replace').strip()}",
                hint="nothing was changed; choose a side: --conflict ours or --conflict theirs",
            )
        return MergedText(content=content, clean=status == 0)


def _written(path: bytes, content: bytes) -> bytes:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE)
    with open(descriptor, "wb") as file:
        file.write(content)
    return path
