"""What the project's repository says at this moment, as a checkpoint records it."""

from __future__ import annotations

import os

from lastgood.adapters.project import refs, repository
from lastgood.adapters.project.files import read_file, read_known
from lastgood.model.checkpoint import GitState, IgnoreState
from lastgood.names import to_text
from lastgood.rules.ignore import GITIGNORE, Unreadable, workspace_rules
from lastgood.rules.ignore_relative import relative

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.project.repository import Repository
    from lastgood.model.checkpoint import Operation
    from lastgood.rules.ignore import Text

IGNORE_FILE_LIMIT = 16 << 20
_HEADS = b"refs/heads/"
# In this order: a rebase leaves marks of the others while it runs.
_MARKS: tuple[tuple[bytes, Operation], ...] = (
    (b"rebase-merge", "rebase"),
    (b"rebase-apply", "rebase"),
    (b"MERGE_HEAD", "merge"),
    (b"CHERRY_PICK_HEAD", "cherry-pick"),
    (b"REVERT_HEAD", "revert"),
)


def state(found: Repository) -> GitState:
    """Return HEAD, branch and operation under way; ``dirty`` and ``nested`` are left to the scanner."""
    commit, ref = refs.head(found)
    branch = to_text(ref[len(_HEADS) :]) if ref is not None and ref.startswith(_HEADS) else None
    return GitState(head=commit, branch=branch, operation=operation(found))


def operation(found: Repository) -> Operation | None:
    """Return what a person or tool has begun in the repository and not ended."""
    for mark, begun in _MARKS:
        if os.path.lexists(found.git_dir + b"/" + mark):
            return begun
    todo = read_known(found.git_dir + b"/sequencer/todo", limit=IGNORE_FILE_LIMIT)
    if todo is not None:  # between two commits of a series
        return "revert" if todo.startswith(b"revert") else "cherry-pick"
    return "bisect" if os.path.lexists(found.git_dir + b"/BISECT_LOG") else None


def nested_head(directory: bytes) -> str | None:
    """Return the commit of the repository whose ``.git`` lies in a directory (rule S4)."""
    found = repository.at(directory, root=directory)
    return None if found is None else refs.head(found)[0]


def outer_rules(found: Repository) -> Text:
    """Return the ignore rules that lie outside the workspace's files, as one text relative to it.

    These are ``info/exclude`` and, where the workspace is a folder within the repository, the
    ``.gitignore`` files above it. If those ignore the workspace itself, it is no part of the project
    (a home directory under version control, say), and they do not count.
    """
    exclude = read_file(found.common_dir + b"/info/exclude", limit=IGNORE_FILE_LIMIT)
    if not found.prefix or isinstance(exclude, Unreadable):
        return exclude
    return _rules_above(found, exclude or b"")


def _rules_above(found: Repository, exclude: bytes) -> Text:
    names = found.prefix.split(b"/")
    top_text = _gitignore(found.top)
    if isinstance(top_text, Unreadable):
        return top_text
    rules = workspace_rules(IgnoreState(info_exclude=exclude), top_text)
    texts = [relative(exclude, names), relative(top_text or b"", names)]
    directory = found.top.rstrip(b"/")
    for depth, name in enumerate(names, start=1):
        if rules.ignored(name, directory=True):
            return b""
        if depth == len(names):
            break
        directory += b"/" + name
        text = _gitignore(directory)
        if isinstance(text, Unreadable):
            return text
        rules = rules.child(name, text)
        texts.append(relative(text or b"", names[depth:]))
    return b"".join(texts)


def _gitignore(directory: bytes) -> Text:
    path = directory + b"/" + GITIGNORE
    # As in git, an ignore file that is a link is none.
    return None if os.path.islink(path) else read_file(path, limit=IGNORE_FILE_LIMIT, follow=False)
