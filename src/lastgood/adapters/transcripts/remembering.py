"""What is remembered of transcripts between saves: one small file each, checksummed, deletable (K6)."""

from __future__ import annotations

import os
from _sha1 import sha1
from marshal import dumps, loads

from lastgood.adapters.files import read_whole, write_private
from lastgood.model.conversation import CONVERSATION_FORMS, Evidence, Stretch
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.conversation import ConversationForm

_FORMAT = b"lastgood transcript 2\n"
_DIGEST_BYTES = 20
_PREFIX = b"transcript."
# A workspace in which many sessions took turns remembers the latest of them.
_KEPT = 16


class Memory:
    """The evidence of each source, in a folder of the store."""

    __slots__ = ("_folder",)

    def __init__(self, folder: bytes) -> None:
        self._folder = folder

    def recall(self, source: bytes) -> Evidence | None:
        """Return what was remembered of a source; None in any doubt."""
        try:
            text = read_whole(self._file(source))
        except OSError:
            return None
        return None if text is None else _decoded(text, source)

    def remember(self, source: bytes, evidence: Evidence) -> None:
        """Remember something of a source; that this fails harms nothing."""
        file = self._file(source)
        # The last of several at once wins; each is whole.
        temporary = b"%b.%d" % (file, os.getpid())
        try:
            write_private(temporary, _encoded(evidence, source))
            os.rename(temporary, file)
            self._thin()
        except OSError:
            return

    def _thin(self) -> None:
        with os.scandir(self._folder) as found:
            files = [
                (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path)
                for entry in found
                if entry.name.startswith(_PREFIX)
            ]
        for _, path in sorted(files)[:-_KEPT]:
            os.unlink(path)

    def _file(self, source: bytes) -> bytes:
        digits = str(sha1(source).hexdigest())[:20]
        return self._folder + b"/" + _PREFIX + digits.encode()


def _encoded(evidence: Evidence, source: bytes) -> bytes:
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
        )
    )
    return _FORMAT + bytes(sha1(body).digest()) + body


def _decoded(text: bytes, source: bytes) -> Evidence | None:
    start = len(_FORMAT) + _DIGEST_BYTES
    body = text[start:]
    if text[:start] != _FORMAT + sha1(body).digest():
        return None
    known, generation, place, form, messages, *held = loads(body)  # noqa: S302 - ours, checksummed
    if known != source or form not in CONVERSATION_FORMS:
        return None
    device, inode, size, modified_ns = place
    segments, sums, folders, digest, proven, summed = held
    return Evidence(
        generation=generation,
        place=Stretch(device=device, inode=inode, size=size, modified_ns=modified_ns),
        form=cast("ConversationForm", form),
        messages=messages,
        segments=segments,
        sums=sums,
        folders=folders,
        digest=digest,
        proven=proven,
        summed=summed,
    )
