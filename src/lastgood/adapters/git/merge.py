"""Texts merged by git's own three-way merge (git-merge-file(1)), sealed off like every run of git."""

from __future__ import annotations

import os

from lastgood.adapters.git.files import storage
from lastgood.adapters.git.repository import Layout
from lastgood.adapters.git.temporary import TemporaryFolder
from lastgood.adapters.git.tool import Git
from lastgood.errors import Storage, Unsupported
from lastgood.ports.text import MergedText, Texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.plan import Favour

# Up to here the status counts the conflicts; above it git failed.
_MOST_CONFLICTS = 127
_PRIVATE = 0o600


class GitMerger:
    """Merges by ``git merge-file``, which reads no attributes and runs no driver."""

    def __init__(self, repository: bytes, *, temporary: bytes, search_path: bytes) -> None:
        self._layout = Layout(repository, temporary=temporary)
        self._git = Git(self._layout, search_path=search_path)

    def merge(self, texts: Texts, *, favour: Favour | None, label: str) -> MergedText:
        """Merge three versions; `Unsupported` without git, `Storage` when the store's disk fails."""
        if not self._git.found:
            raise Unsupported(
                "files that both sides changed have to be merged, and there is no git to do it",
                hint="install git, or choose a side: --conflict ours    --conflict theirs",
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

    def _merged(self, folder: bytes, texts: Texts, *, favour: Favour | None, label: str) -> MergedText:
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
                hint="nothing was changed; choose a side: --conflict ours    --conflict theirs",
            )
        return MergedText(content=content, clean=status == 0)


def _written(path: bytes, content: bytes) -> bytes:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE)
    with open(descriptor, "wb") as file:
        file.write(content)
    return path
