"""The files of conversations on this machine."""

from __future__ import annotations

import errno
import os
import stat
from marshal import dumps, loads

from lastgood.conversation.opencode import is_session
from lastgood.errors import Conflict, Invalid, LastgoodError, NotFound, Unsafe
from lastgood.files import (
    PRIVATE_DIRECTORY,
    PRIVATE_FILE,
    read_whole,
    sync_directory,
    unlink_quietly,
    write_whole,
    written_private,
)
from lastgood.ids import sha1_for
from lastgood.model.checkpoint import CONVERSATION_FORMS, FileExtent, PrefixEvidence
from lastgood.paths import printable, quoted, to_text
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lastgood.literals import ConversationForm
    from lastgood.worktree import Presence, Transcript


# --- Reading a transcript while its owner goes on writing it ---

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
_HINT = "name the file in which the host keeps its transcript"
# The first line of a transcript is not longer, or tells nothing.
_HEAD_BYTES = 1 << 16
_DATABASE = b"SQLite format 3\0"


class OpenTranscript:
    """A plain file, open for reading only."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._descriptor = -1
        try:
            # Looked at first: to open a device can be enough to change something.
            _demand_file(os.stat(path), path)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            _demand_file(os.fstat(self._descriptor), path)
            _demand_no_database(self._descriptor, path)
        except OSError as error:
            self.close()
            raise unreadable(path, error) from error
        except Invalid:
            self.close()
            raise
        except ValueError as error:  # a NUL byte in it, which an import of earlier may have brought
            self.close()
            raise Invalid(f"{printable(to_text(path))} is no path of a file", hint=_HINT) from error

    def place(self) -> FileExtent:
        """Return where the file lies and how long it is now."""
        try:
            found = os.fstat(self._descriptor)
        except OSError as error:
            raise unreadable(self._path, error) from error
        return FileExtent(
            device=found.st_dev, inode=found.st_ino, size=found.st_size, modified_ns=found.st_mtime_ns
        )

    def read(self, offset: int, size: int) -> bytes:
        """Return that many bytes from there; fewer only at the end. `Invalid` if they cannot be read."""
        pieces = []
        while size > 0:
            try:
                piece = os.pread(self._descriptor, size, offset)
            except OSError as error:
                raise unreadable(self._path, error) from error
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def beside(self, form: str) -> Iterator[AgentFile]:
        """Yield the transcripts of sub-agents, where a host of that form keeps them."""
        from lastgood.conversation.agents import agents_beside

        for path in agents_beside(form, self._path, lambda: self.read(0, _HEAD_BYTES).partition(b"\n")[0]):
            try:
                file = OpenTranscript(path)
            except LastgoodError:  # it went meanwhile, or is none
                continue
            try:
                yield AgentFile(path, file)
            finally:
                file.close()

    def close(self) -> None:
        """Let go of the file; harmless when repeated."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class AgentFile:
    """A sub-agent's transcript, to its last whole line, or what its host notes of one."""

    __slots__ = ("_file", "_has_lines", "name", "stamp")

    def __init__(self, path: bytes, file: OpenTranscript) -> None:
        place = file.place()
        self._file = file
        self._has_lines = path.endswith(b".jsonl")
        self.name: str = "agent." + os.path.basename(path).decode("ascii")
        self.stamp: bytes = b"%d %d %d %d" % (place.device, place.inode, place.size, place.modified_ns)

    def pieces(self) -> Iterator[bytes]:
        """Yield its bytes; what has no line's end yet is left to the next save."""
        offset, end = 0, self._end()
        while offset < end:
            piece = self._file.read(offset, min(_READ_BYTES, end - offset))
            if not piece:  # it was cut short meanwhile
                return
            yield piece
            offset += len(piece)

    def _end(self) -> int:
        """Return where the last whole line ends."""
        end = self._file.place().size
        while self._has_lines and end > 0:
            start = max(0, end - _READ_BYTES)
            found = self._file.read(start, end - start).rfind(b"\n") + 1
            if found:
                return start + found
            end = start
        return end


def unreadable(path: bytes, error: OSError) -> NotFound | Invalid:
    """Return the error for a transcript that cannot be read."""
    shown = printable(to_text(path))
    if error.errno in _ABSENT:
        return NotFound(f"there is no transcript {shown}", hint=_HINT)
    return Invalid(f"the transcript {shown} cannot be read: {error.strerror}", hint=_HINT)


def _is_in_database(path: bytes) -> bool:
    """Tell whether a path names a session in a database, as if that were a folder."""
    database, _, name = path.rpartition(b"/")
    named = database.endswith(b".db") and is_session(name.decode("ascii", "replace"))
    return named and not os.path.isdir(database)


def _demand_file(found: os.stat_result, path: bytes) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"{printable(to_text(path))} is no plain file, so no transcript", hint=_HINT)


def _demand_no_database(descriptor: int, path: bytes) -> None:
    if os.pread(descriptor, len(_DATABASE), 0) == _DATABASE:
        shown = printable(to_text(path))
        raise Invalid(
            f"{shown} is a database with conversations of every project, no transcript",
            hint="name one of opencode's in it, as if it were a folder: opencode.db/ses_ID"
            "\nits ids: opencode session list",
        )


# --- The transcripts of this machine. What is remembered of them between saves is one small file each,
# checksummed, deletable (K6); a new one is put beside those of a host, and taken away again (rule T11) ---

_FORMAT = b"lastgood transcript 3\n"
_DIGEST_BYTES = 20
if TYPE_CHECKING:
    # What tells one file from another that took its place.
    _Stamp = tuple[int, int, int, int]
_PREFIX = b"transcript."
# A workspace in which many sessions took turns remembers the latest of them.
_KEPT = 16
_READ_BYTES = 1 << 20
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_WITHOUT = "restore without: --only files"


class EvidenceMemory:
    """What was remembered of transcripts last, in a process that stays; `write` has others find it, too.

    It counts as long as the file is the one that it was read from, or took the place of. Nothing is lost with
    it: whatever is there instead, an older file or none, is evidence as good, of less.
    """

    __slots__ = ("_known", "_owed")

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[_Stamp | None, PrefixEvidence | None]] = {}
        self._owed: dict[bytes, tuple[bytes, PrefixEvidence]] = {}

    def recall(self, file: bytes, source: bytes) -> PrefixEvidence | None:
        """Return what is known of a source, by its file if that is another one by now."""
        stamp, known = _stamp_of(file), self._known.get(file)
        if known is not None and known[0] == stamp:
            return known[1]
        evidence = _read(file, source)
        self._keep(file, stamp, evidence)
        return evidence

    def remember(self, file: bytes, source: bytes, evidence: PrefixEvidence) -> None:
        """Know something of a source from now on, and owe it to the others."""
        stamp = self._known[file][0] if file in self._known else _stamp_of(file)
        self._keep(file, stamp, evidence)
        self._owed[file] = source, evidence

    def write(self) -> None:
        """Write down what is owed; that this fails harms nothing."""
        while self._owed:
            file, (source, evidence) = self._owed.popitem()
            self._keep(file, _written(file, source, evidence), evidence)

    def _keep(self, file: bytes, stamp: _Stamp | None, evidence: PrefixEvidence | None) -> None:
        self._known.pop(file, None)
        self._known[file] = stamp, evidence
        if len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]


def _stamp_of(file: bytes) -> _Stamp | None:
    try:
        return _stamp(os.stat(file, follow_symlinks=False))
    except OSError:
        return None


def _stamp(found: os.stat_result) -> _Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _read(file: bytes, source: bytes) -> PrefixEvidence | None:
    """Return what a file says of a source; None in any doubt."""
    try:
        text = read_whole(file)
    except OSError:
        return None
    return None if text is None else _decoded(text, source)


def _written(file: bytes, source: bytes, evidence: PrefixEvidence) -> _Stamp | None:
    """Write what is remembered of a source, and return by what its file is known; None if that failed.

    A power cut may leave it broken, which its sum tells: so nobody waits for the disk.
    """
    # The last of several at once wins; each is whole.
    temporary = b"%b.%d" % (file, os.getpid())
    try:
        descriptor = written_private(temporary, _encoded(evidence, source))
        try:
            stamp = _stamp(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        is_new = not os.path.exists(file)
        os.rename(temporary, file)
        if is_new:
            _thin(os.path.dirname(file))
    except OSError:
        return None
    return stamp


def _thin(folder: bytes) -> None:
    with os.scandir(folder) as found:
        files = [
            (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path)
            for entry in found
            if entry.name.startswith(_PREFIX)
        ]
    for _, path in sorted(files)[:-_KEPT]:
        os.unlink(path)


class TranscriptFiles:
    """Transcripts where hosts keep them; ``cache``, the workspace's folder in the store, has the evidence.

    ``environment`` says where hosts have their homes now; without it nobody knows. A ``memory`` spares a
    process that stays reading the evidence, and waiting until it is written.
    """

    __slots__ = ("_environment", "_folder", "_memory")

    def __init__(
        self,
        cache: bytes,
        environment: Mapping[str, str] | None = None,
        *,
        memory: EvidenceMemory | None = None,
    ) -> None:
        self._folder = cache
        self._environment = environment or {}
        self._memory = memory

    def open(self, path: bytes) -> Transcript:
        """Open a file, or a conversation in a database, for reading, without ever waiting for one."""
        if not _is_in_database(path):
            return OpenTranscript(path)
        from lastgood.conversation.opencode_database import OpenConversation

        try:
            return OpenConversation(path)
        except OSError as error:
            raise unreadable(path, error) from error

    def recall(self, source: bytes) -> PrefixEvidence | None:
        """Return what was remembered of a source; None in any doubt."""
        file = self._file(source)
        return _read(file, source) if self._memory is None else self._memory.recall(file, source)

    def remember(self, source: bytes, evidence: PrefixEvidence) -> None:
        """Remember something of a source; that this fails harms nothing."""
        file = self._file(source)
        if self._memory is None:
            _written(file, source, evidence)
        else:
            self._memory.remember(file, source, evidence)

    def _file(self, source: bytes) -> bytes:
        digits = sha1_for(len(source))(source).digest().hex()[:20]
        return self._folder + b"/" + _PREFIX + digits.encode()

    def where(self, form: ConversationForm, path: bytes) -> bytes:
        """Return where a host would look for a transcript: in its present home if the one of then is gone."""
        from lastgood.conversation.hosts import home_of
        from lastgood.conversation.reader import FOLDERS

        home = home_of(form, self._environment)
        then, *below = path.rsplit(b"/", FOLDERS.get(form, 0))
        if home is None or os.path.lexists(then) or not os.path.isdir(home):
            return path
        return b"/".join((os.fsencode(home), *below))

    def beside(self, path: bytes, *, missing: int = 0) -> bytes:
        """Return the real folder that a file lies in, fit to put another one into.

        So many of the last folders may be missing; `place` makes them. What a link leads to has to be there:
        it may lie on a disk that is not attached now.
        """
        if b"\0" in path:  # which an import of earlier may have brought
            raise NotFound(f"{printable(to_text(path))} is no path of a file", hint=_WITHOUT)
        there = os.path.dirname(path)
        while missing and not os.path.lexists(there):
            missing, there = missing - 1, os.path.dirname(there)
        there = os.path.realpath(there)
        shown = printable(to_text(there))
        try:
            found = os.stat(there)
        except OSError as error:
            mend = f"mkdir -p {quoted(there)}"
            raise NotFound(
                f"the host's folder {shown} is not there",
                hint=f"make it again: {mend}\nor {_WITHOUT}",
                details={"mend": mend},
            ) from error
        if not stat.S_ISDIR(found.st_mode):
            raise NotFound(f"{shown} is no folder", hint=_WITHOUT)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & _OTHERS_WRITE:
            mend = f"chmod go-w {quoted(there)}"
            raise Unsafe(
                f"others can write into {shown}, so no transcript is put there",
                hint=f"if it is yours, keep them out: {mend}\nor {_WITHOUT}",
                details={"mend": mend},
            )
        return os.path.realpath(os.path.dirname(path))

    def present(self, path: bytes, *, size: int, digest: bytes, folders: int = 0) -> Presence:
        """Tell whether a path holds exactly some content (a SHA-256), something else, or nothing.

        A link in the place of one of the last ``folders`` is something else.
        """
        import hashlib

        folder = path
        for _ in range(folders):
            folder = os.path.dirname(folder)
            if os.path.islink(folder):
                return "different"
        if not os.path.lexists(path):
            return "absent"
        try:
            file = OpenTranscript(path)
        except LastgoodError:
            return "different"
        try:
            if file.place().size != size:
                return "different"
            running = hashlib.sha256()
            for offset in range(0, size, _READ_BYTES):
                running.update(file.read(offset, _READ_BYTES))
        except LastgoodError:
            return "different"
        finally:
            file.close()
        return "same" if running.digest() == digest else "different"

    def place(self, path: bytes, pieces: Iterable[bytes]) -> None:
        """Write a new file of mode 0600, durable and whole when its name appears."""
        aside = _aside_of(path)
        try:
            _make(os.path.dirname(path))
            _write(aside, pieces)
            _name(aside, path)
            sync_directory(os.path.dirname(path))
        except FileExistsError as error:
            raise Conflict(
                f"{printable(to_text(path))} exists already", hint="plan the restore anew", details={}
            ) from error
        except OSError as error:
            raise Unsafe(
                f"the transcript {printable(to_text(path))} cannot be written: {error.strerror}",
                hint=_WITHOUT,
            ) from error
        finally:
            unlink_quietly(aside)

    def remove(self, path: bytes, *, folders: int = 0) -> None:
        """Remove a file durably, with so many of the folders that it lies in once they are empty.

        Harmless if it is gone.
        """
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unsafe(
                f"{printable(to_text(path))} cannot be removed: {error.strerror}", hint="remove it by hand"
            ) from error
        folder = os.path.dirname(path)
        for _ in range(folders):
            try:
                os.rmdir(folder)
            except OSError:  # others lie there
                break
            folder = os.path.dirname(folder)
        sync_directory(folder)

    def tidy(self, path: bytes) -> None:
        """Remove what a killed `place` of a file left beside it."""
        self.remove(_aside_of(path))


def _encoded(evidence: PrefixEvidence, source: bytes) -> bytes:
    place = evidence.place
    body = dumps(
        (
            source,
            evidence.generation,
            (place.device, place.inode, place.size, place.modified_ns),
            evidence.form,
            evidence.messages,
            evidence.segments,
            evidence.sums,
            evidence.folders,
            evidence.digest,
            evidence.proven,
            evidence.summed,
            evidence.beside,
        )
    )
    return _FORMAT + sha1_for(len(body))(body).digest() + body


def _decoded(text: bytes, source: bytes) -> PrefixEvidence | None:
    start = len(_FORMAT) + _DIGEST_BYTES
    body = text[start:]
    if text[:start] != _FORMAT + sha1_for(len(body))(body).digest():
        return None
    known, generation, place, form, messages, *held = loads(body)  # noqa: S302 - ours, checksummed
    if known != source or form not in CONVERSATION_FORMS:
        return None
    device, inode, size, modified_ns = place
    segments, sums, folders, digest, proven, summed, beside = held
    return PrefixEvidence(
        generation=generation,
        place=FileExtent(device=device, inode=inode, size=size, modified_ns=modified_ns),
        form=cast("ConversationForm", form),
        messages=messages,
        segments=segments,
        sums=sums,
        folders=folders,
        digest=digest,
        proven=proven,
        summed=summed,
        beside=beside,
    )


def _aside_of(path: bytes) -> bytes:
    """Return where a file is written before it gets its name."""
    return os.path.join(os.path.dirname(path), b"." + os.path.basename(path) + b".lastgood")


def _make(folder: bytes) -> None:
    """Make a folder and those above it that are missing."""
    if os.path.isdir(folder):
        return
    _make(os.path.dirname(folder))
    os.mkdir(folder, PRIVATE_DIRECTORY)
    sync_directory(os.path.dirname(folder))


def _write(path: bytes, pieces: Iterable[bytes]) -> None:
    unlink_quietly(path)  # what a killed restore left of this same file
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, PRIVATE_FILE)
    try:
        os.fchmod(descriptor, PRIVATE_FILE)
        for piece in pieces:
            write_whole(descriptor, piece)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name(aside: bytes, path: bytes) -> None:
    """Give a file its name unless that is taken: a link fails where a rename would replace."""
    try:
        os.link(aside, path, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # The name itself is claimed, then replaced: file systems without links are few.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
        os.rename(aside, path)
