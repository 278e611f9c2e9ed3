"""Capturing a conversation: whole lines, exact bytes, in segments; a save costs the new ones (rule P5).

Joining works by tiers of size. Once the segments at the end make up a full tier they become one, so
that each byte is stored again at most once a tier, and a long history of small additions does not
leave as many small blobs. Large segments are never touched again.
"""

from __future__ import annotations

from zlib import crc32

from lastgood.conversation import reader
from lastgood.conversation.reader import blobs, judged, lines_of, parsed
from lastgood.errors import Damaged, Invalid, LastgoodError
from lastgood.ids import sha1_for
from lastgood.model.checkpoint import Conversation, FileExtent, HealthNote, PrefixEvidence
from lastgood.model.tree import DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, DIRECTORY, FILE, Entry, TreeId
from lastgood.paths import printable, to_text
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lastgood.context import Context
    from lastgood.engine import ObjectReader, ObjectWriter
    from lastgood.literals import ConversationForm
    from lastgood.model.session import CurrentWork, Session
    from lastgood.worktree import Beside, Transcript

    KeptBeside = tuple[str, bytes, bytes, tuple[bytes, ...]]


# --- How a growing transcript is cut into stored segments: new bytes are added, small ones joined (P5) ---

SEGMENT_BYTES = 1 << 18
# Sizes up to which segments count as of one tier, and how many of them make one of the next.
TIERS = (1 << 7, 1 << 11, 1 << 16)
FULL = 32
# Segments a subtree: a save rewrites one subtree and the list of subtrees.
FOLDER = 64
WINDOW = 1 << 10
_WINDOWS = 14
MOST = 10_000 * FOLDER


def segment_sizes(size: int) -> list[int]:
    """Return the sizes of the segments that hold so many new bytes."""
    whole, rest = divmod(size, SEGMENT_BYTES)
    return [SEGMENT_BYTES] * whole + ([rest] if rest else [])


def joined_segments(sizes: Sequence[int]) -> tuple[int, list[int]]:
    """Return how many segments stay as they are, and the sizes of those that take the others' place."""
    rest = list(sizes)
    kept = len(rest)
    below = -1
    for tier in TIERS:
        start = len(rest)
        while start and rest[start - 1] <= tier:
            start -= 1
        if sum(size > below for size in rest[start:]) >= FULL:
            rest[start:] = [sum(rest[start:])]
            kept = min(kept, start)
        below = tier
    return kept, rest[kept:]


def segments_to_prove(
    sizes: Sequence[int], since: tuple[int, int], *, budget: int
) -> tuple[list[int], tuple[int, int]]:
    """Return whose turn it is to be read again, within a budget of bytes, and where to go on next time.

    What was not spent is saved up, so that segments larger than the budget have their turn too.
    """
    place, credit = since[0], since[1] + budget
    whose: list[int] = []
    for _ in sizes:
        place %= len(sizes)
        if sizes[place] > credit:
            return whose, (place, credit)
        whose.append(place)
        credit -= sizes[place]
        place += 1
    return whose, (place, 0)


def segment_name(place: int) -> tuple[bytes, bytes]:
    """Return the names of subtree and blob of a segment; their order is that of the places."""
    folder, rest = divmod(place, FOLDER)
    return b"%04d" % folder, b"%02d" % rest


def windows(size: int) -> list[int]:
    """Return where to look, a window each, at the first so many bytes: both ends and between."""
    last = max(0, size - WINDOW)
    return sorted({last * step // (_WINDOWS - 1) for step in range(_WINDOWS)})


# --- Capturing a conversation: whole lines, exact bytes, in segments; a save costs the new ones (rule P5)
# ---

# How much of what is stored already is read again at each save and compared: by its id, which takes
# 3 ms a MiB, and by its sum, which takes a tenth of that. A shorter transcript is read whole.
PROVEN_BYTES = 1 << 18
SUMMED_BYTES = 1 << 21
_STEP = 1 << 16
_TRIES = 3


def cut(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield bytes anew, each piece but the last as long as a segment: what stays in front is stored once."""
    rest = bytearray()
    for piece in pieces:
        rest += piece
        whole = len(rest) // SEGMENT_BYTES * SEGMENT_BYTES
        for start in range(0, whole, SEGMENT_BYTES):
            yield bytes(rest[start : start + SEGMENT_BYTES])
        del rest[:whole]
    if rest:
        yield bytes(rest)


def folder_of(writer: ObjectWriter, blobs: Iterable[bytes]) -> bytes:
    """Store the folder of what lies beside a conversation, and return its tree."""
    return writer.directory(
        Entry(name=b"%06d" % place, kind=FILE, mode=DEFAULT_FILE_MODE, oid=oid)
        for place, oid in enumerate(blobs)
    ).tree


class GivenConversation(Value):
    """Where a conversation comes from: a file that the caller names, or messages as lines of JSON.

    Unless it counts ``alone`` it is kept beside what else changed, and is no change by itself (rule S10).
    """

    transcript: bytes | None = None
    messages: bytes | None = None
    alone: bool = True

    @property
    def is_named(self) -> bool:
        """Whether the caller says where it is; else it is that of its session, if it has one."""
        return self.transcript is not None or self.messages is not None


class Captured(Value):
    """What a checkpoint holds of a conversation, and what is to be remembered of its file."""

    conversation: Conversation | None = None
    notes: tuple[HealthNote, ...] = ()
    source: bytes = b""
    evidence: PrefixEvidence | None = None

    def keep(self, context: Context) -> None:
        """Remember what was read; called only when its bytes are durable."""
        if self.evidence is not None:
            context.transcripts.remember(self.source, self.evidence)


def probe(context: Context, given: GivenConversation) -> None:
    """Refuse a transcript that cannot be read, before anything else is done."""
    if given.transcript is not None:
        context.transcripts.open(given.transcript).close()


def capture(
    context: Context, standing: CurrentWork, given: GivenConversation | None, *, writer: ObjectWriter
) -> Captured:
    """Take in the conversation: as the caller gives it, else that of its session, if it has one.

    A transcript that the caller named has to be readable; that of a session never costs the save.
    """
    if given is not None and given.messages is not None:
        source = b"messages of " + standing.key.encode()
        return _Capture(context, source, file=_GivenMessages(given.messages), writer=writer).run("messages")
    if given is not None and given.transcript is not None:
        return _from_file(context, given.transcript, writer)
    session = standing.session
    if session is None or session.transcript is None:
        return Captured()
    path = session.transcript.encode("utf-8", "surrogateescape")
    try:
        return _from_file(context, path, writer)
    except (Invalid, LookupError) as error:
        return Captured(notes=(_unread(error),))


def transcript_notes(context: Context, session: Session | None) -> tuple[HealthNote, ...]:
    """Return what a person should know of a session whose transcript cannot be read."""
    if session is None or session.transcript is None:
        return ()
    try:
        probe(context, GivenConversation(transcript=session.transcript.encode("utf-8", "surrogateescape")))
    except (Invalid, LookupError) as error:
        return (_unread(error),)
    return ()


def stands_as_kept(objects: ObjectReader, held: Conversation, file: Transcript) -> bool:
    """Tell whether what lies beside a transcript is there as a checkpoint has it, but for a title."""
    kept = reader.beside(objects, held.tree)
    if not kept:
        return True
    there = {one.name: _but_title(one.pieces()) for one in file.beside(held.form) if one.name in kept}
    return all(there.get(name) == _but_title(map(objects.read_blob, oids)) for name, oids in kept.items())


def _but_title(pieces: Iterable[bytes]) -> bytes:
    content = b"".join(pieces)
    return content.partition(b"\n")[2] if content.startswith(b'{"title":') else content


def _from_file(context: Context, path: bytes, writer: ObjectWriter) -> Captured:
    file = context.transcripts.open(path)
    try:
        return _Capture(context, path, file=file, writer=writer).run(None)
    finally:
        file.close()


def _unread(error: Exception) -> HealthNote:
    said = error.message if isinstance(error, LastgoodError) else str(error)
    return HealthNote(
        code="transcript-unreadable",
        message=f"{said}; without it checkpoints hold no conversation",
        hint="a host makes the file with the first message; see: lastgood session show",
    )


class _GivenMessages:
    """Messages that the caller gives, readable like a file that is another one every time."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def place(self) -> FileExtent:
        return FileExtent(device=0, inode=0, size=len(self._content), modified_ns=0)

    def read(self, offset: int, size: int) -> bytes:
        return self._content[offset : offset + size]

    def digest(self, size: int) -> bytes:
        """Return the digest of all of the first so many bytes: none is taken for known."""
        import hashlib  # OpenSSL's, which is several times as fast on what is long

        return hashlib.sha1(memoryview(self._content)[:size], usedforsecurity=False).digest()

    def beside(self, form: str) -> Iterable[Beside]:  # noqa: ARG002 - as of every transcript
        """Return nothing: a caller has messages alone."""
        return ()

    def close(self) -> None:
        """Hold nothing."""


class _FileReplaced(Exception):
    """The file became another one while it was being read."""


class _Capture:
    """One reading of one source."""

    def __init__(self, context: Context, source: bytes, *, file: Transcript, writer: ObjectWriter) -> None:
        self._context = context
        self._source = source
        self._file = file
        self._writer = writer
        self._generation = context.catalogue.generation()
        self._doubtful = False
        self._broken = 0
        self._unread: list[str] = []
        self._sums: dict[bytes, int] = {}
        self._turns = ((0, 0), (0, 0))
        self._folders: dict[tuple[tuple[bytes, int], ...], bytes] = {}

    def run(self, form: ConversationForm | None) -> Captured:
        """Read until the file held still; ``form`` is given where it is known."""
        for _ in range(_TRIES):
            try:
                return self._take(form)
            except _FileReplaced:
                continue
        raise Invalid(
            f"the transcript {printable(to_text(self._source))} is being rewritten all the time",
            hint="save again when its writer has finished",
        )

    def _take(self, form: ConversationForm | None) -> Captured:
        place = self._file.place()
        known = self._context.transcripts.recall(self._source)
        trusted = self._trusted(known, place)
        stored = self._stored(known)
        end = self._end(place.size, since=0 if trusted is None else trusted.size)
        kept = stored if trusted is not None else self._matching(stored, end)
        start = sum(size for _, size in kept)
        if trusted is None or (trusted.form == "lines" and trusted.size < reader.HEAD_BYTES):
            form = self._form(end) if form is None else form
            messages = self._count(form, 0, end)
        else:
            form = trusted.form
            if start == end or self._file.read(start - 1, 1) == b"\n":
                messages = trusted.messages + self._count(form, start, end)
            else:  # what was stored ends within a line
                messages = self._count(form, 0, end)
        segments = self._add(kept, end - start)
        beside = self._beside(form, known)
        after = self._file.place()
        before, digest = self._digests(0 if trusted is None else trusted.size, end)
        if after.size < end or (trusted is not None and before != trusted.digest):
            raise _FileReplaced
        held = Conversation(
            tree=self._tree(segments, beside).tree.hex(),
            form=form,
            size=end,
            messages=messages,
            source=None if isinstance(self._file, _GivenMessages) else self._source,
        )
        return Captured(
            conversation=held if end else None,
            notes=self._notes(stored, start),
            source=self._source,
            evidence=PrefixEvidence(
                generation=self._generation,
                place=place,
                form=form,
                messages=messages,
                segments=tuple(segments),
                sums=tuple(self._sums[oid] for oid, _ in segments),
                folders=tuple(self._folders[full] for full in _full(segments)),
                digest=digest,
                proven=self._turns[0],
                summed=self._turns[1],
                beside=beside,
            ),
        )

    def _trusted(self, known: PrefixEvidence | None, place: FileExtent) -> PrefixEvidence | None:
        """Return what is known if the file shows that it still begins with that; None in any doubt."""
        if known is None or self._doubtful or known.generation != self._generation:
            return None
        before = known.place
        if (before.device, before.inode) != (place.device, place.inode) or place.size < before.size:
            return None
        if place.size == before.size and place.modified_ns != before.modified_ns:
            return None  # written to, and yet not longer
        if self._digests(known.size)[0] != known.digest:
            return None
        if self._writer.lacks([*(oid for oid, _ in known.segments), *known.folders]):
            return None
        return known if self._prove(known) else None

    def _prove(self, known: PrefixEvidence) -> bool:
        """Read some of the segments again, other ones at each save, so that all have their turn."""
        sizes = [size for _, size in known.segments]
        offsets = [0]
        for size in sizes:
            offsets.append(offsets[-1] + size)
        by_id, proven = segments_to_prove(sizes, known.proven, budget=PROVEN_BYTES)
        by_sum, summed = segments_to_prove(sizes, known.summed, budget=SUMMED_BYTES)
        read = self._reading(offsets[-1], most=PROVEN_BYTES)
        same = all(_id_of(read(offsets[one], sizes[one])) == known.segments[one][0] for one in by_id) and all(
            crc32(read(offsets[one], sizes[one])) == known.sums[one] for one in set(by_sum).difference(by_id)
        )
        if same:
            self._sums = {oid: known.sums[place] for place, (oid, _) in enumerate(known.segments)}
            self._turns = proven, summed
            self._folders = dict(zip(_full(known.segments), known.folders, strict=True))
        return same

    def _same(self, segment: tuple[bytes, int], offset: int) -> bool:
        oid, size = segment
        return self._blob(self._file.read(offset, size)) == oid

    def _blob(self, content: bytes) -> bytes:
        oid = self._writer.blob(content)
        self._sums[oid] = crc32(content)
        return oid

    def _stored(self, known: PrefixEvidence | None) -> Sequence[tuple[bytes, int]]:
        """Return the segments that are stored of this source, as far as anything knows of them."""
        if known is not None:
            return known.segments
        facts = self._context.catalogue.latest_facts(self._context.key)
        newest = None if facts is None else self._context.catalogue.get(facts.newest.id)
        held = None if newest is None else newest.manifest.conversation
        if held is None or held.source != self._source:
            return ()
        try:
            return [
                (oid, self._context.engine.blob_size(oid)) for oid in blobs(self._context.engine, held.tree)
            ]
        except Damaged:
            return ()

    def _matching(self, stored: Sequence[tuple[bytes, int]], end: int) -> list[tuple[bytes, int]]:
        """Read everything, and return the segments with which the file still begins."""
        kept: list[tuple[bytes, int]] = []
        offset = 0
        for oid, size in stored:
            if offset + size > end:
                break
            if not self._same((oid, size), offset):
                break
            kept.append((oid, size))
            offset += size
        return kept

    def _add(self, kept: Sequence[tuple[bytes, int]], size: int) -> list[tuple[bytes, int]]:
        sizes = [*(size for _, size in kept), *segment_sizes(size)]
        staying, others = joined_segments(sizes) if size else (len(kept), [])
        segments = list(kept[:staying])
        others = sizes[len(segments) :] if staying > len(kept) else others
        self._prove_joined(kept, staying)
        if len(segments) + len(others) > MOST:
            raise Invalid("the transcript is too long to be kept", hint="begin a new session in the host")
        offset = sum(length for _, length in segments)
        for length in others:
            segments.append((self._blob(self._whole(offset, length)), length))
            offset += length
        return segments

    def _prove_joined(self, kept: Sequence[tuple[bytes, int]], staying: int) -> None:
        """Make sure that what is stored joined is what was stored apart."""
        offset = sum(size for _, size in kept[:staying])
        for oid, size in kept[staying:]:
            if not self._same((oid, size), offset):
                self._doubtful = True
                raise _FileReplaced
            offset += size

    def _whole(self, offset: int, size: int) -> bytes:
        content = self._file.read(offset, size)
        if len(content) < size:
            raise _FileReplaced
        return content

    def _end(self, size: int, *, since: int) -> int:
        """Return where the last whole line ends: what is being written is left to the next save.

        A line without its end counts as whole if it is a JSON object: no longer line can begin so.
        """
        position = size
        while position > since:
            begin = max(since, position - _STEP)
            found = self._whole(begin, position - begin).rfind(b"\n")
            if found >= 0:
                since = begin + found + 1
                break
            position = begin
        rest = size - since
        if 0 < rest <= reader.LINE_BYTES:
            line = self._whole(since, rest)
            begins = not since or b"\n" in (line[:1], self._file.read(since - 1, 1))
            if begins and line.rstrip().endswith(b"}") and parsed(line) is not None:
                return size
        return since

    def _form(self, end: int) -> ConversationForm:
        head = self._whole(0, min(end, reader.HEAD_BYTES))
        lines = head.split(b"\n")
        if end > len(head):
            lines.pop()  # the piece of a line
        found = [parsed(line) for line in lines if line.strip()]
        return reader.form_of(found)

    def _count(self, form: ConversationForm, start: int, end: int) -> int:
        said = [judged(form, line) for line in self._lines(start, end)]
        self._broken = said.count(None)
        return said.count(True)

    def _lines(self, start: int, end: int) -> Iterator[bytes]:
        def read() -> Iterator[bytes]:
            for offset in range(start, end, SEGMENT_BYTES):
                yield self._whole(offset, min(SEGMENT_BYTES, end - offset))

        return lines_of(read())

    def _digests(self, *sizes: int) -> list[bytes]:
        """Return the digests of the first so many bytes each: of a file, of some windows of them."""
        if isinstance(self._file, _GivenMessages):
            return [self._file.digest(size) for size in sizes]
        read = self._reading(max(sizes), most=_STEP)
        start = sha1_for(WINDOW * _WINDOWS)
        return [start(b"".join([b"%d" % size, *_windowed(read, size)])).digest() for size in sizes]

    def _reading(self, size: int, *, most: int) -> Callable[[int, int], bytes]:
        """Return what reads pieces of the first so many bytes: these at once, if they are not too many."""
        if size > most:
            return self._file.read
        whole = self._file.read(0, size)
        return lambda offset, length: whole[offset : offset + length]

    def _beside(self, form: ConversationForm, known: PrefixEvidence | None) -> tuple[KeptBeside, ...]:
        """Store what lies beside the transcript; what is the same as before is stored already (060)."""
        before: dict[str, KeptBeside] = {}
        if known is not None and known.generation == self._generation:
            before = {one[0]: one for one in known.beside}
        found = []
        self._unread = []
        for one in self._file.beside(form):
            same = before.get(one.name) if one.stamp else None
            if same is None or one.stamp != same[1] or self._writer.lacks([same[2], *same[3]]):
                try:
                    oids = tuple(self._writer.blob(piece) for piece in cut(one.pieces()))
                except Invalid as error:
                    self._unread.append(error.message)
                    continue
                same = (one.name, one.stamp, folder_of(self._writer, oids), oids)
            if same[3]:
                found.append(same)
        return tuple(found)

    def _tree(self, segments: Sequence[tuple[bytes, int]], beside: Sequence[KeptBeside]) -> TreeId:
        """Store the folders of the segments; those that are full and known are stored already."""
        folders = [
            Entry(name=name.encode("ascii"), kind=DIRECTORY, mode=DEFAULT_DIRECTORY_MODE, oid=tree)
            for name, _, tree, _ in beside
        ]
        for start in range(0, len(segments), FOLDER):
            part = tuple(segments[start : start + FOLDER])
            oid = self._folders.get(part)
            if oid is None:
                oid = self._folders[part] = self._folder(part)
            name = segment_name(start)[0]
            folders.append(Entry(name=name, kind=DIRECTORY, mode=DEFAULT_DIRECTORY_MODE, oid=oid))
        return self._writer.directory(folders)

    def _folder(self, part: Sequence[tuple[bytes, int]]) -> bytes:
        return self._writer.directory(
            Entry(name=segment_name(place)[1], kind=FILE, mode=DEFAULT_FILE_MODE, oid=oid)
            for place, (oid, _) in enumerate(part)
        ).tree

    def _notes(self, stored: Sequence[tuple[bytes, int]], kept: int) -> tuple[HealthNote, ...]:
        notes = []
        before = sum(size for _, size in stored)
        if kept < before and not isinstance(self._file, _GivenMessages):
            message = (
                f"the transcript {printable(to_text(self._source))} is no continuation of the one "
                f"that was saved before ({before} bytes): it was kept anew"
            )
            hint = "earlier checkpoints hold what it was: lastgood show REF --conversation"
            notes.append(HealthNote(code="transcript-replaced", message=message, hint=hint))
        for reason in self._unread:
            hint = "see how the host itself shows what its sub-agents said"
            message = f"what lies beside the transcript was kept without: {reason}"
            notes.append(HealthNote(code="transcript-partial", message=message, hint=hint))
        if self._broken:
            message = (
                f"of the transcript {printable(to_text(self._source))} {self._broken} new "
                f"{'line is' if self._broken == 1 else 'lines are'} broken: kept as bytes, not as messages"
            )
            hint = "see how the host itself shows the conversation"
            notes.append(HealthNote(code="transcript-broken", message=message, hint=hint))
        return tuple(notes)


def _windowed(read: Callable[[int, int], bytes], size: int) -> list[bytes]:
    return [read(offset, min(WINDOW, size - offset)) for offset in windows(size)]


def _id_of(content: bytes) -> bytes:
    """Return the id of a blob, which is git's in every engine: what is only proven is not stored."""
    return sha1_for(len(content))(b"blob %d\0%b" % (len(content), content)).digest()


def _full(segments: Sequence[tuple[bytes, int]]) -> list[tuple[tuple[bytes, int], ...]]:
    """Return the segments of each folder in which no more have room."""
    whole = len(segments) // FOLDER * FOLDER
    return [tuple(segments[start : start + FOLDER]) for start in range(0, whole, FOLDER)]
