"""What a restore writes so that a host goes on with a conversation: its transcript, and its sub-agents'.

Each has a name that nothing else has: a new id, or the folder of one.
"""

from __future__ import annotations

from lastgood.conversation import opencode, reader
from lastgood.conversation.reader import AGENT, REST, lines_of
from lastgood.paths import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lastgood.engine import ObjectReader
    from lastgood.literals import ConversationForm

_LINES = ".jsonl"
_ID = 36
# Folders that a host makes for its sub-agents' transcripts, below that of the transcript.
_BELOW = {"claude-code": 2, "gemini-cli": 1}


class Copy:
    """One file: where it goes, what is in it, what its host is told to do with it, if it has to be told."""

    __slots__ = ("path", "pieces", "taken_by")

    def __init__(
        self, path: bytes, pieces: Callable[[], Iterator[bytes]], *, taken_by: str | None = None
    ) -> None:
        self.path: bytes = path
        self.pieces: Callable[[], Iterator[bytes]] = pieces
        self.taken_by: str | None = taken_by


def folders_of(form: str, *, first: bool) -> int:
    """Return how many of the folders that a copy lies in are its own; those of the ``first`` are others'."""
    return 0 if first else _BELOW.get(form, 0)


class Copying:
    """A conversation that is kept as ``tree``, as it comes under a new id: ``path`` is that of its copy."""

    def __init__(
        self, objects: ObjectReader, form: ConversationForm, tree: str, *, path: bytes, ids: tuple[str, str]
    ) -> None:
        self._objects = objects
        self._form = form
        self._tree = tree
        self._path = path
        self._old, self._new = ids
        beside = reader.beside(objects, tree)
        self._rest = list(lines_of(self._read(beside.get(REST, ()))))
        self._agents = {
            name.removeprefix(AGENT): oids
            for name, oids in beside.items()
            if reader.agent_name(name.removeprefix(AGENT)) == name
        }

    def copies(self) -> list[Copy]:
        """Return the files, the transcript first."""
        return self._of_opencode() if self._form == opencode.HOST else self._of_files()

    def resume_command(self, copies: Iterable[Copy]) -> str | None:
        """Return what to type so that the host goes on with the copy; None for one that nobody knows."""
        resume = reader.resume_command(self._form, self._new)
        taken = [one.taken_by for one in copies if one.taken_by is not None]
        return None if resume is None else " && ".join((*taken, resume))

    def _read(self, oids: Iterable[bytes]) -> Iterator[bytes]:
        return map(self._objects.read_blob, oids)

    def _segments(self) -> Iterator[bytes]:
        return self._read(reader.blobs(self._objects, self._tree))

    # Files of a host: it finds those of sub-agents by where they lie, or by whose they say that they are.

    def _of_files(self) -> list[Copy]:
        ids: dict[str, str] = {}
        if self._form == "codex":
            found = [name.removesuffix(_LINES)[-_ID:] for name in self._agents]
            ids = {one: self._id(one) for one in found if reader.is_uuid(one)}
        copies = [Copy(self._path, lambda: self._renamed(self._segments(), ids))]
        for name, oids in self._agents.items():
            place = self._place(name, ids)
            if place is not None:
                copies.append(Copy(place, self._pieces(oids, ids)))
        return copies

    def _pieces(self, oids: Iterable[bytes], ids: Mapping[str, str]) -> Callable[[], Iterator[bytes]]:
        return lambda: self._renamed(self._read(oids), ids)

    def _id(self, one: str) -> str:
        from hashlib import sha256

        return reader.fork_id(self._form, sha256(f"{self._new} {one}".encode()).digest()[:16], old=one)

    def _place(self, name: str, ids: Mapping[str, str]) -> bytes | None:
        """Return where a host looks for a sub-agent's transcript; None where that is not known."""
        if self._form == "claude-code":
            return self._path.removesuffix(_LINES.encode()) + b"/subagents/" + name.encode()
        folder = self._path.rpartition(b"/")[0]
        if self._form == "gemini-cli":
            return b"%b/%b/%b" % (folder, self._new.encode(), name.encode())
        one, day = name.removesuffix(_LINES)[-_ID:], name.removeprefix("rollout-")[:10].split("-")
        if one not in ids or list(map(len, day)) != [4, 2, 2] or not all(map(str.isdigit, day)):
            return None
        sessions = folder.rsplit(b"/", 3)[0]
        return b"/".join((sessions, *(part.encode() for part in day), name.replace(one, ids[one]).encode()))

    def _renamed(self, pieces: Iterator[bytes], ids: Mapping[str, str]) -> Iterator[bytes]:
        """Yield a transcript as its host takes it for another session, ending with a last line."""
        rest: list[bytes] = []  # of a line that has no end yet; it may be long
        for piece in pieces:
            whole = piece.rfind(b"\n") + 1
            if whole:
                yield self._under(b"".join((*rest, piece[:whole])), ids)
                rest.clear()
            rest.append(piece[whole:])
        if any(rest):
            yield self._under(b"".join(rest), ids) + b"\n"

    def _under(self, lines: bytes, ids: Mapping[str, str]) -> bytes:
        """Return lines under new ids; an agent is told those of its sub-agents in the middle of a text."""
        lines = reader.renamed(lines, old=self._old, new=self._new)
        for old, new in ids.items():
            lines = lines.replace(old.encode(), new.encode())
        return lines

    # Files for opencode, which takes them into its database.

    def _of_opencode(self) -> list[Copy]:
        folder = self._path.rpartition(b"/")[0]
        agents = [name for name in self._agents if opencode.is_session(name)]

        def session(oids: Iterable[bytes], rest: Iterable[bytes] = ()) -> Callable[[], Iterator[bytes]]:
            return lambda: opencode.importable(
                lines_of(self._read(oids)), rest, old=self._old, new=self._new, agents=agents
            )

        whole = tuple(reader.blobs(self._objects, self._tree))
        copies = [_imported(self._path, session(whole, self._rest))]
        for name in agents:
            path = b"%b/%b.json" % (folder, opencode.copied_id(self._new, old=name).encode())
            copies.append(_imported(path, session(self._agents[name])))
        head = next(lines_of(self._segments()), b"")
        todo = opencode.todo_statement(head, self._rest, session=self._new)
        if todo is not None:
            path = b"%b/%b.sql" % (folder, self._new.encode())
            taken_by = f'opencode db "$(cat {_quoted(path)})"'
            copies.append(Copy(path, lambda: iter((todo,)), taken_by=taken_by))
        return copies


def _imported(path: bytes, pieces: Callable[[], Iterator[bytes]]) -> Copy:
    return Copy(path, pieces, taken_by=f"opencode import {_quoted(path)}")


def _quoted(path: bytes) -> str:
    from shlex import quote

    return quote(to_text(path))
