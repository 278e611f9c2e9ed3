"""Export and import: one file, made or proven beside the store."""

from __future__ import annotations

import os
from contextlib import contextmanager
from tempfile import TemporaryFile

from lastgood.errors import Damaged, Storage
from lastgood.exchange import export as exporting
from lastgood.exchange import import_
from lastgood.exchange.archive import (
    FACTS,
    HEADER,
    MOST_FACTS,
    PACK,
    Archive,
    pieces_of,
    sha256_of,
    write_archive,
)
from lastgood.exchange.form import decode_facts, decode_header, encode_facts
from lastgood.model.exchange import ExportReport, Header, ImportReport, Member, Origin
from lastgood.objects.exchange import GitAnnex
from lastgood.objects.repository import TemporaryFolder, collect_folders, storage
from lastgood.paths import to_text
from lastgood.workspace.arguments import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lastgood.context import Context
    from lastgood.engine import ObjectReader, ObjectWriter
    from lastgood.exchange.export import Read
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.exchange import Choices, ExportedCheckpoint, Facts
    from lastgood.workspace.arguments import PathLike

# So much of the file's name is in that of the folder in which it is gathered.
_NAMED = 200


def export(
    context: Context, path: bytes, checkpoints: Sequence[Checkpoint], choices: Choices
) -> ExportReport:
    """Write checkpoints into one file, whole or not at all."""
    with _gathering(context.store, path) as folder, GitAnnex(folder) as annex:
        writer = annex.writer()
        try:
            packed = exporting.pack_up(context, checkpoints, choices, writer=writer, spool=Spool(folder))
            writer.publish(durable=False)
        finally:
            writer.abandon()
        pack, bounds = annex.pack()
        facts = encode_facts(packed.facts)
        if len(facts) > MOST_FACTS:
            raise Storage(
                f"what goes with the checkpoints has {len(facts):,} bytes; an export holds {MOST_FACTS:,}",
                hint="leave the ledger here: without --private",
            )
        header = Header(
            created_at=context.clock.now(),
            checkpoints=len(packed.facts.checkpoints),
            facts=Member(size=len(facts), sha256=sha256_of([facts])),
            pack=Member(size=os.stat(pack).st_size, sha256=sha256_of(pieces_of(pack))),
            bounds=bounds,
        )
        size = write_archive(path, header=header, facts=facts, pack=pack)
    return ExportReport(
        file=to_text(path),
        checkpoints=tuple(one.id for one in packed.facts.checkpoints),
        workspaces=tuple(one.path for one in packed.facts.workspaces),
        sessions=len(packed.facts.sessions),
        size=size,
        withheld=packed.withheld,
        books=len(packed.facts.books),
        books_withheld=packed.books_withheld,
    )


@contextmanager
def _gathering(store: bytes, path: bytes) -> Iterator[bytes]:
    """Yield where an export is gathered: in the store, in one that cannot be written beside the file.

    What a killed export of the same name left there goes.
    """
    folder = store + b"/tmp"
    if os.access(folder, os.W_OK):
        yield folder
        return
    above, name = os.path.split(path)
    above, prefix = above or b".", name[:_NAMED] + b".gathered-"
    collect_folders(above, prefix=prefix)
    try:
        held = TemporaryFolder(above, prefix=prefix)
    except OSError as error:
        raise storage(error, doing="making room for an export", at=above) from error
    try:
        yield held.path
    finally:
        held.discard()


def refuse_none(path: PathLike) -> None:
    """Raise what there is to say of a file that is no export; asked before a store is made for it."""
    archive = Archive(plain(path))
    try:
        decode_header(archive.read(HEADER))
    finally:
        archive.close()


def import_file(
    context: Context, path: bytes, *, admit: Callable[[Context, Facts], None] | None = None
) -> ImportReport:
    """Prove an export whole, then add what is not known yet, all of it or nothing.

    ``admit`` may refuse what the file brings, before anything is added.
    """
    archive = Archive(path)
    try:
        header = decode_header(archive.read(HEADER))
        import_.refuse_size(context, header)
        _demand_sizes(archive, header)
        archive.prove()
        facts = decode_facts(archive.read(FACTS))
        if len(facts.checkpoints) != header.checkpoints:
            raise _damaged("its facts are not those announced")
        if admit is not None:
            admit(context, facts)
        with GitAnnex(context.store + b"/tmp") as annex:
            annex.take(archive.pieces(PACK), bounds=header.bounds)
            spool = Spool(context.store + b"/tmp")
            added, books = import_.take_in(context, facts, source=lambda: annex, spool=spool)
    finally:
        archive.close()
    fresh = {one.manifest.id for one in added.checkpoints} | set(added.revived)
    return ImportReport(
        file=to_text(path),
        checkpoints=tuple(one.id for one in facts.checkpoints if one.id in fresh),
        known=tuple(one.id for one in facts.checkpoints if one.id not in fresh),
        workspaces=tuple(
            Origin(key=row.key, path=row.path, machine=row.machine, created_at=row.created_at)
            for row in facts.workspaces
        ),
        sessions=len(added.sessions),
        reduced=tuple(one.id for one in facts.checkpoints if _is_reduced_here(context, one)),
        books=books,
    )


def _is_reduced_here(context: Context, one: ExportedCheckpoint) -> bool:
    known = context.catalogue.get(one.id)
    return known is not None and known.manifest.copy_of == one.commit


def _demand_sizes(archive: Archive, header: Header) -> None:
    """Refuse a file whose header does not say what follows, before any of that is read."""
    if header.facts.size > MOST_FACTS or archive.size(FACTS) != header.facts.size:
        raise _damaged("its facts are not as long as announced")
    if archive.size(PACK) != header.pack.size:
        raise _damaged("its objects are not as long as announced")
    if sha256_of(archive.pieces(FACTS)) != header.facts.sha256:
        raise _damaged("its facts have another checksum")
    if sha256_of(archive.pieces(PACK)) != header.pack.sha256:
        raise _damaged("its objects have another checksum")


def _damaged(reason: str) -> Damaged:
    return Damaged(f"the export cannot be imported: {reason}", hint="export again; nothing was imported")


class Spool:
    """Moves large blobs through a file, so that none has to fit into memory."""

    def __init__(self, folder: bytes) -> None:
        self._folder = folder

    def __call__(
        self,
        source: ObjectReader,
        target: ObjectWriter,
        oid: bytes,
        *,
        look: Callable[[Read, int], None] | None,
    ) -> bytes:
        """Copy one blob, showing it to ``look`` on the way, and return the id that it got."""
        try:
            with TemporaryFile(dir=os.fsdecode(self._folder)) as file:
                size = source.copy_blob(oid, file.fileno())
                if look is not None:
                    look(lambda at, amount: os.pread(file.fileno(), amount, at), size)
                os.lseek(file.fileno(), 0, os.SEEK_SET)
                return target.blob_from(file.fileno(), size)
        except OSError as error:
            raise Storage(
                f"a large file could not be copied: {error.strerror}", hint="free some space, then try again"
            ) from error
