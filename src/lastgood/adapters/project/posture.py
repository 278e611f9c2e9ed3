"""Where HEAD stands and what the index holds; whether both can be put back, and how."""

from __future__ import annotations

import os
from _sha1 import sha1

from lastgood.adapters.project import refs, repository
from lastgood.adapters.project.entries import (
    GITLINK,
    INTENDED,
    STAGE,
    Entries,
    flags_of,
    mode_of,
    oid_of,
    read_entries,
)
from lastgood.adapters.project.files import read_known
from lastgood.adapters.project.index import IndexDamage
from lastgood.adapters.project.realigning import (
    HEAD,
    INDEX,
    REF,
    Held,
    Realigning,
    clear,
    refuse_foreign,
    refuse_locked,
)
from lastgood.adapters.project.settings import read_settings
from lastgood.adapters.project.state import operation
from lastgood.errors import Conflict, Damaged, Storage, Unsafe, Unsupported
from lastgood.names import printable, to_bytes, to_text
from lastgood.ports.host import Posture, Realigned, Stance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.adapters.project.asking import Asker
    from lastgood.adapters.project.repository import Repository

_SHOWN = 5
_PATIENCE_SECONDS = 60.0


def posture(root: bytes) -> Posture | None:
    """Return how the workspace's own repository stands; None if there is none."""
    found = repository.find(root)
    return None if found is None else _posture(found, root=root)


def attachable(root: bytes, stance: Stance) -> bool:
    """Tell whether HEAD could stand on the branch: it still points at the commit, or is still unborn."""
    found = repository.find(root)
    return found is not None and _attachable(found, stance)


def refuse(root: bytes, wanted: Stance, content: bytes, *, asker: Asker) -> None:
    """Raise what speaks against bringing a stance about."""
    found = _own(root)
    begun = operation(found)
    if begun is not None:
        raise Unsafe(
            f"a {begun} is under way in the project: HEAD and index are part of it",
            hint=f"end it first: git {begun} --abort"
            if begun != "bisect"
            else "end it first: git bisect reset",
            details={"operation": begun},
        )
    if read_settings(found).bare:
        raise Unsafe("the project's repository is a bare one", hint="restore without --git")
    refuse_locked(found)
    if wanted.commit is None and not _attachable(found, wanted):
        raise Conflict(
            f"{printable(wanted.branch or 'the branch')} has commits by now",
            hint="HEAD cannot stand before its first commit: restore without --git",
        )
    _refuse_missing(found, wanted, content, asker=asker)


def realign(root: bytes, *, known: Stance, wanted: Stance, content: bytes, words: str, at: int) -> Realigned:
    """Bring a stance about, from the known one or from half-way between them.

    Raises `Conflict` if something else is found, or a lock is held; `Storage` if the disk fails.
    """
    found = _own(root)
    try:
        for name in (INDEX, HEAD, REF):
            clear(found, name)
        if refs.head(found)[0] == wanted.commit and _stands(found, root, wanted):
            return _realigned(found, content, kept=None)
        with Realigning(found, head=_text(found, wanted), index=content) as locks:
            now = _posture(found, root=root).stance
            if now.commit not in {known.commit, wanted.commit} or now.index not in {
                known.index,
                wanted.index,
            }:
                raise Conflict("HEAD or index changed since", hint="look again: git status")
            kept = None
            if _head(found) != _text(found, wanted):
                kept = locks.put_head(old=now.commit, new=wanted.commit, message=words, at=at)
            if now.index != wanted.index:
                locks.put_index()
            return _realigned(found, content, kept=kept)
    except Held:
        refuse_locked(found)
        raise Conflict("git is at work in the project", hint="try again") from None
    except OSError as error:
        raise Storage(
            f"the project's git could not be written: {error.strerror}",
            hint="mend the disk or its permissions, then: lastgood recover",
        ) from error


def _own(root: bytes) -> Repository:
    found = repository.find(root)
    if found is None:
        raise Unsafe("the workspace has no repository now", hint="restore without --git")
    try:
        refuse_foreign(found, root=root)
    except OSError as error:
        raise Unsafe(
            f"the project's repository cannot be looked at: {error.strerror}", hint="restore without --git"
        ) from error
    return found


def _posture(found: Repository, *, root: bytes) -> Posture:
    refuse_foreign(found, root=root)
    try:
        entries = read_entries(found)
        content = entries.canonical()
    except IndexDamage as damage:
        raise Unsafe(
            f"the project's index cannot be read: {damage}", hint="mend it: git reset, or git read-tree HEAD"
        ) from damage
    commit, ref = refs.head(found)
    branch = None if ref is None else to_text(ref)
    stance = Stance(branch=branch, commit=commit, index=_blob(content))
    return Posture(stance=stance, conflicts=_conflicts(entries))


def _stands(found: Repository, root: bytes, wanted: Stance) -> bool:
    """Tell whether everything is as wanted already."""
    return _head(found) == _text(found, wanted) and _posture(found, root=root).stance.index == wanted.index


def _head(found: Repository) -> bytes:
    return read_known(found.git_dir + b"/HEAD", limit=8192) or b""


def _text(found: Repository, wanted: Stance) -> bytes:
    """Return what HEAD has to say: the branch if it is where it was, else the commit itself."""
    if _attachable(found, wanted):
        assert wanted.branch is not None
        return b"ref: " + to_bytes(wanted.branch) + b"\n"
    if wanted.commit is None:
        raise Conflict("the branch has commits by now", hint="restore without --git")
    return wanted.commit.encode() + b"\n"


def _attachable(found: Repository, stance: Stance) -> bool:
    if stance.branch is None:
        return False
    ref = to_bytes(stance.branch)
    if refs.target_of(b"ref: " + ref) != ref or not _sound(ref) or _is_elsewhere(found, ref):
        return False
    if stance.commit is None:
        return not refs.exists(found, ref)
    return refs.commit_of(found, ref) == stance.commit


def _sound(ref: bytes) -> bool:
    """Tell whether git would take a name of a branch (git-check-ref-format(1)), whatever was recorded."""
    bad = (b"..", b"@{", b"//", b"/.", b".lock/", b"\\", b"~", b"^", b":", b"?", b"*", b"[", b" ", b"\x7f")
    plain = not any(part in ref for part in bad) and min(ref) > 0x20
    return plain and ref.startswith(b"refs/heads/") and not ref.endswith((b".lock", b".", b"/"))


def _is_elsewhere(found: Repository, ref: bytes) -> bool:
    """Tell whether another worktree stands on a branch: git lets only one do so."""
    folder = found.common_dir + b"/worktrees"
    try:
        others = [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        others = []
    for place in (found.common_dir, *others):
        if os.path.realpath(place) == os.path.realpath(found.git_dir):
            continue
        text = read_known(place + b"/HEAD", limit=8192) or b""
        if text.rstrip(b"\n") == b"ref: " + ref:
            return place != found.common_dir or not read_settings(found).bare
    return False


def _refuse_missing(found: Repository, wanted: Stance, content: bytes, *, asker: Asker) -> None:
    """Refuse if git could not find all that HEAD and index are going to name."""
    names: dict[bytes, bytes] = {}
    for path, place in Entries(content, repository=found).rows:
        if mode_of(place) != GITLINK and not flags_of(place) & INTENDED:
            names.setdefault(oid_of(place).hex().encode(), path)
    questions = [*names]
    if wanted.commit is not None:
        questions += [wanted.commit.encode(), wanted.commit.encode() + b"^{tree}"]
    if not questions:
        return
    if asker.program is None:
        raise Unsupported(
            "without git nobody can tell whether the commit is still there",
            hint="install git, or leave out --git",
        )
    given = b"".join(question + b"\n" for question in questions)
    said = asker.ask(
        found, [b"cat-file", b"--batch-check", b"--buffer"], given=given, patience=_PATIENCE_SECONDS
    )
    lines = (said or b"").splitlines()
    if len(lines) != len(questions):
        raise Damaged("git cannot read the project's objects", hint="see what is wrong: git fsck")
    lost = [question for question, line in zip(questions, lines, strict=True) if line.endswith(b" missing")]
    if lost:
        told = [to_text(names.get(question, b"commit " + question)) for question in lost]
        raise Unsafe(
            f"{len(lost)} object(s) are no longer in the project's repository: {_some(told)}",
            hint="fetch them again, or restore the files alone: leave out --git",
            details={"missing": told},
        )


def _realigned(found: Repository, content: bytes, *, kept: str | None) -> Realigned:
    text = _head(found).rstrip(b"\n")
    conflicts = _conflicts(Entries(content, repository=found))
    return Realigned(head=to_text(text), kept=kept, conflicts=conflicts)


def _conflicts(entries: Entries) -> tuple[bytes, ...]:
    return tuple(sorted({path for path, place in entries.rows if flags_of(place) & STAGE}))


def _blob(content: bytes) -> str:
    digest: str = sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    return digest


def _some(names: list[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
