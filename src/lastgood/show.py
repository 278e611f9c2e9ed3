"""show: what a checkpoint holds."""

from __future__ import annotations

from lastgood.conversation.reader import (
    REST,
    beside,
    blobs,
    is_message,
    lines_of,
    listed_anew,
    message_in,
    parsed,
)
from lastgood.errors import Damaged, NotFound, Unsafe
from lastgood.model.report import ListedEntry
from lastgood.model.tree import DIRECTORY
from lastgood.paths import join, printable, to_text
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lastgood.context import Context
    from lastgood.literals import ConversationForm
    from lastgood.model.checkpoint import Checkpoint
    from lastgood.model.tree import Entry, TreeId
    from lastgood.view import View


def entries(
    context: Context, view: View, checkpoint: Checkpoint, *, folder: bytes | None
) -> tuple[ListedEntry, ...]:
    """Return every path of a checkpoint, sorted by bytes; directories have the size 0.

    Of one ``folder`` only what lies directly in it, nothing if there is none. What is damaged is marked as
    lost, and hides nothing else; `Damaged` if not even the top can be read.
    """
    with context.locks.share_store(wait=context.wait):
        tree = view.tree(checkpoint)
        if folder is None:
            found = list(_walk(context, tree.root))
        else:
            found = [_listed(context, folder, entry) for entry in tree.at(folder) or ()]
    return tuple(sorted(found, key=lambda entry: entry.path))


def _walk(context: Context, root: TreeId) -> Iterator[ListedEntry]:
    waiting = [(b"", entry) for entry in context.engine.directory(root)]
    while waiting:
        above, entry = waiting.pop()
        listed = _listed(context, above, entry)
        if entry.kind == DIRECTORY:
            try:
                waiting += [(listed.path, below) for below in context.engine.directory(entry.tree_id)]
            except Damaged:
                listed = listed.replace(lost=True)
        yield listed


def _listed(context: Context, above: bytes, entry: Entry) -> ListedEntry:
    """Return one entry of a directory; of a file also its size, if that is not lost."""
    size, lost = 0, False
    if entry.kind != DIRECTORY:
        try:
            size = context.engine.blob_size(entry.oid)
        except Damaged:
            lost = True
    return ListedEntry(
        path=join(above, entry.name),
        mode=entry.mode,
        kind=entry.kind,
        size=size,
        oid=entry.oid.hex(),
        lost=lost,
    )


def content(context: Context, view: View, checkpoint: Checkpoint, *, path: bytes, private: bool) -> bytes:
    """Return the content of one file, or the target of a link; of a ``private`` file only if asked for."""
    with context.locks.share_store(wait=context.wait):
        entry = view.tree(checkpoint).entry(path)
        if not path or (entry is not None and entry.kind == DIRECTORY):
            raise NotFound(
                f"'{printable(to_text(path)) or '.'}' is a folder in {checkpoint.short_id}",
                hint=f"see what it holds: lastgood show {checkpoint.short_id} --files",
            )
        if entry is None:
            raise NotFound(
                f"{checkpoint.short_id} holds no file '{printable(to_text(path))}'",
                hint=f"see what it holds: lastgood show {checkpoint.short_id} --files",
            )
        if path in checkpoint.manifest.private and not private:
            raise _is_private(checkpoint, path)
        return context.engine.read_blob(entry.oid)


def _is_private(checkpoint: Checkpoint, path: bytes) -> Unsafe:
    shown = printable(to_text(path))
    return Unsafe(
        f"'{shown}' is private: captured although a rule leaves it out",
        hint=f"to print it all the same: lastgood cat {checkpoint.short_id} {shown} --private",
        details={"path": to_text(path)},
    )


def transcript(context: Context, checkpoint: Checkpoint) -> bytes:
    """Return the exact bytes of a checkpoint's conversation; `NotFound` if it holds none."""
    held = checkpoint.manifest.conversation
    if held is None:
        raise NotFound(
            f"{checkpoint.short_id} holds no conversation",
            hint="capture one: lastgood save --transcript FILE",
        )
    with context.locks.share_store(wait=context.wait):
        return b"".join(context.engine.read_blob(oid) for oid in blobs(context.engine, held.tree))


def messages(context: Context, checkpoint: Checkpoint, *, redacted: bool) -> tuple[dict[str, object], ...]:
    """Return the messages of a checkpoint's conversation, as their form defines them (rules P5, S17).

    A line of nobody's form comes as the JSON object that it is, else as ``{"line": TEXT}``.
    """
    held = checkpoint.manifest.conversation
    content = transcript(context, checkpoint)
    form = "lines" if held is None else held.form
    rest = b"" if held is None else _rest(context, held.tree)
    found = tuple(_said(form, lines_of(iter((content, rest)))))
    if not redacted:
        return found
    from lastgood.redaction import redact_value

    return tuple(cast("dict[str, object]", redact_value(message)) for message in found)


def _rest(context: Context, tree: str) -> bytes:
    """Return what was said, and could still change then."""
    with context.locks.share_store(wait=context.wait):
        kept = beside(context.engine, tree).get(REST, ())
        return b"".join(map(context.engine.read_blob, kept))


def _said(form: ConversationForm, lines: Iterable[bytes]) -> Iterator[dict[str, object]]:
    known: set[str] = set()
    for line in lines:
        if is_message(form, line):
            yield _message(form, line)
        if form == "gemini-cli":
            yield from listed_anew(line, known)


def _message(form: ConversationForm, line: bytes) -> dict[str, object]:
    record = parsed(line)
    if record is None:
        return {"line": to_text(line.rstrip(b"\r\n"))}
    if form in {"messages", "lines"}:
        return record
    return dict(message_in(form, record) or {})
