"""export: checkpoints and all that is known about them, for one portable file (rules S5, S17)."""

from __future__ import annotations

from lastgood.actions.copying import Copying
from lastgood.actions.leaving_plans import leaving
from lastgood.actions.spoken import blobs
from lastgood.codec import plain
from lastgood.codec.manifest import decode, encode
from lastgood.errors import Damaged, LastgoodError, NotFound, Unsafe
from lastgood.model.checkpoint import TreeRef
from lastgood.model.exchange import Choices, Facts, KeptProgress, Origin, Parcelled, Withheld
from lastgood.model.tree import DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, DIRECTORY, FILE, Entry, Gap, TreeId
from lastgood.names import printable, to_text, within
from lastgood.rules import segments
from lastgood.rules.redact import first_secret, redact, redact_lines, redact_value, secret_under
from lastgood.value import Value, cast
from lastgood.view import Files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lastgood.actions.copying import Read, Spool
    from lastgood.model.checkpoint import Check, Checkpoint, Manifest
    from lastgood.model.conversation import Conversation
    from lastgood.model.effect import Effect
    from lastgood.model.exchange import KeptBook
    from lastgood.model.progress import Progress
    from lastgood.ports.context import Context
    from lastgood.ports.engine import ObjectWriter
    from lastgood.ports.ledger import Ledgers

_SHOWN = 20


class Packed(Value):
    """What goes into the file beside the objects, and what was left out."""

    facts: Facts
    withheld: tuple[Withheld, ...]
    books_withheld: int | None


def pack_up(
    context: Context,
    checkpoints: Sequence[Checkpoint],
    choices: Choices,
    *,
    writer: ObjectWriter,
    spool: Spool,
) -> Packed:
    """Copy what checkpoints hold to a writer, and return all that is known about them.

    Raises `Unsafe` with a list if files show secrets and that is not allowed, `Damaged` if one of
    the checkpoints is.
    """
    if not checkpoints:
        raise NotFound("there is no checkpoint to export", hint="make one: lastgood save")
    with context.locks.share_store(wait=context.wait):
        packing = _Packing(context, choices, writer=writer, spool=spool)
        ordered = sorted(checkpoints, key=lambda one: one.sequence)
        parcelled = [packing.add(one) for one in ordered]
    keys = tuple(dict.fromkeys(one.manifest.workspace_key for one in ordered))
    books = packing.books(context.ledgers, keys)
    packing.refuse_secrets()
    facts = _facts(context, ordered, tuple(parcelled), exact=choices.exact)
    return Packed(
        facts=facts.replace(books=books),
        withheld=tuple(packing.withheld),
        books_withheld=_left_here(context.ledgers, keys, without=books),
    )


def _left_here(ledgers: Ledgers, workspaces: Sequence[str], *, without: Sequence[KeptBook]) -> int | None:
    """Return how many books stay; None where the ledger cannot say: checkpoints leave all the same."""
    try:
        return ledgers.count(workspaces) - len(without)
    except LastgoodError:
        return None


class _Packing:
    """One export in the making."""

    def __init__(
        self,
        context: Context,
        choices: Choices,
        *,
        writer: ObjectWriter,
        spool: Spool,
    ) -> None:
        self.withheld: list[Withheld] = []
        self._engine = context.engine
        self._catalogue = context.catalogue
        self._cap = context.settings.capture.max_file_size
        self._choices = choices
        self._writer = writer
        self._secrets: dict[bytes, tuple[str, int]] = {}
        look = None if choices.secrets else self._look
        self._copying = Copying(context.engine, writer, spool=spool, look=look)
        self._speaking = Copying(context.engine, writer, spool=spool)
        self._spoken: dict[str, Conversation] = {}

    def add(self, checkpoint: Checkpoint) -> Parcelled:
        """Copy one checkpoint: as it is, or a reduced copy of it that says so."""
        contents = self._engine.contents(bytes.fromhex(checkpoint.commit))
        original = decode(contents.manifest)
        if original.id != checkpoint.id:
            raise Damaged(f"{checkpoint.short_id} is damaged", hint="run: lastgood verify --repair")
        manifest = self._reduced(original, contents.workspace)
        root = TreeId(tree=bytes.fromhex(manifest.root.tree), modes=bytes.fromhex(manifest.root.modes))
        if manifest is original or root == contents.workspace:
            self._copying.tree(contents.workspace)
        for oid in contents.state.values():
            self._copying.blob(oid)
        spoken = manifest.conversation
        if spoken is not None and spoken == original.conversation:
            self._speaking.tree(TreeId(tree=bytes.fromhex(spoken.tree)))
        if manifest is not original:
            manifest = manifest.replace(copy_of=original.copy_of or checkpoint.commit)
        commit = self._writer.checkpoint(
            id=manifest.id,
            manifest=contents.manifest if manifest is original else encode(manifest),
            workspace=root,
            state=contents.state,
            created_at=manifest.created_at,
            conversation=None if spoken is None else TreeId(tree=bytes.fromhex(spoken.tree)),
        )
        if manifest is original and commit.hex() != checkpoint.commit:
            raise Damaged(f"{checkpoint.short_id} came out as another one", hint="run: lastgood verify")
        return Parcelled(
            id=checkpoint.id,
            commit=commit.hex(),
            sequence=checkpoint.sequence,
            name=checkpoint.name,
            pinned=checkpoint.pinned,
            good=checkpoint.good,
            check=_told(checkpoint.check, exact=self._choices.exact),
        )

    def books(self, ledgers: Ledgers, workspaces: Sequence[str]) -> tuple[KeptBook, ...]:
        """Return the books that leave: what frameworks keep is private, and leaves as it is."""
        if not (self._choices.private and self._choices.conversation):
            return ()
        books = ledgers.leaving(workspaces)
        if not (self._choices.secrets or self._choices.exact):
            self._look_into(books)
        return books

    def _look_into(self, books: Sequence[KeptBook]) -> None:
        for book in books:
            pieces = {plain.piece_id(piece): piece for piece in book.pieces}
            cells = (*book.pieces, *(cell for entry in book.entries for cell in entry[2:]))
            texts = (text for cell in cells for text in plain.said(cell, pieces.__getitem__))
            found = next((one for text in texts if (one := secret_under(*text)) is not None), None)
            if found is not None:
                self._secrets[f"the ledger: {book.space} ".encode() + book.name] = found

    def refuse_secrets(self) -> None:
        """Stop an export of files that show secrets."""
        if not self._secrets:
            return
        lines = [
            f"{printable(to_text(path))} (line {line}: {shape})"
            for path, (shape, line) in sorted(self._secrets.items())
        ]
        more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise Unsafe(
            f"{len(lines)} file(s) show what looks like a secret: {', '.join(lines[:_SHOWN])}{more}",
            hint="to let them out all the same: --allow-secrets    nothing was written",
            details={"files": [to_text(path).encode("utf-8", "replace").decode() for path in self._secrets]},
        )

    def _look(self, path: bytes, read: Read, size: int) -> None:
        found = first_secret(read, size)
        if found is not None:
            self._secrets.setdefault(path, found)

    def _reduced(self, manifest: Manifest, root: TreeId) -> Manifest:
        """Return what leaves of a manifest; the very same where nothing is held back."""
        private = () if self._choices.private else (*manifest.private, *self._oversized(manifest, root))
        left: tuple[bytes, ...] = ()
        words: list[str] = []
        made = manifest
        if private:
            tree, missing = self._copying.without(root, tuple(dict.fromkeys(private)))
            left = tuple(path for path, _ in missing.paths)
        if left:
            words.append("files")
            made = made.replace(
                root=TreeRef(tree=tree.tree.hex(), modes=tree.modes.hex()),
                files=made.files - missing.files,
                size=made.size - missing.size,
                gaps=(
                    *made.gaps,
                    *(Gap(path=path, reason="withheld", size=size) for path, size in missing.paths),
                ),
                private=_staying(made.private, left),
                forced=_staying(made.forced, left),
            )
        spoken = self._conversation(manifest.conversation)
        if spoken != manifest.conversation:
            words.append("conversation")
            made = made.replace(conversation=spoken)
        told = made if self._choices.exact else _redacted(made)
        if told != made:
            words.append("secrets")
        if not words:
            return manifest
        self.withheld.append(
            Withheld(
                id=manifest.id,
                paths=left,
                conversation="conversation" in words and spoken is None,
                redacted="secrets" in words or (spoken is not None and spoken != manifest.conversation),
            )
        )
        return told.replace(withheld=tuple(dict.fromkeys((*manifest.withheld, *words))))

    def _oversized(self, manifest: Manifest, root: TreeId) -> Iterator[bytes]:
        """Yield the forced files that only a guard holds because of their size.

        Guards used to name all paths that an undo touches as forced, ordinary files among them, and
        the oversized ones as private nowhere else.
        """
        private = frozenset(manifest.private)
        named = [path for path in manifest.forced if path not in private]
        before = self._catalogue.get(manifest.previous) if named and manifest.previous else None
        gaps = () if before is None else before.gaps
        known = {gap.path for gap in gaps if gap.reason == "too-large"}
        files = Files(root, self._engine)
        for path in named:
            entry = files.entry(path)
            if entry is None or entry.kind != FILE:
                continue
            if path in known or self._engine.blob_size(entry.oid) > self._cap:
                yield path

    def _conversation(self, conversation: Conversation | None) -> Conversation | None:
        """Return the conversation that leaves: none, without known secrets, or exactly as it is."""
        if conversation is None or not self._choices.conversation:
            return None
        if self._choices.exact:
            return conversation
        known = self._spoken.get(conversation.tree)
        if known is None:
            content = b"".join(self._engine.read_blob(oid) for oid in blobs(self._engine, conversation.tree))
            shown = redact_lines(content)
            known = conversation
            if shown != content:
                known = conversation.replace(tree=self._spoken_tree(shown).tree.hex(), size=len(shown))
            self._spoken[conversation.tree] = known
        return known

    def _spoken_tree(self, content: bytes) -> TreeId:
        """Store a conversation in segments."""
        folders: dict[bytes, list[Entry]] = {}
        start = 0
        for place, size in enumerate(segments.pieces(len(content))):
            folder, name = segments.name(place)
            oid = self._writer.blob(content[start : start + size])
            start += size
            folders.setdefault(folder, []).append(
                Entry(name=name, kind=FILE, mode=DEFAULT_FILE_MODE, oid=oid)
            )
        rows = []
        for folder, entries in folders.items():
            made = self._writer.directory(entries)
            rows.append(
                Entry(
                    name=folder,
                    kind=DIRECTORY,
                    mode=DEFAULT_DIRECTORY_MODE,
                    oid=made.tree,
                    modes=made.modes,
                )
            )
        return self._writer.directory(rows)


def _staying(paths: tuple[bytes, ...], left: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(path for path in paths if not any(within(one, path) or within(path, one) for one in left))


def _redacted(manifest: Manifest) -> Manifest:
    """Return a manifest whose texts show no known secret."""
    progress, actor = manifest.progress, manifest.actor
    shown = {
        "message": redact(manifest.message),
        "metadata": {redact(key): redact(value) for key, value in manifest.metadata.items()},
        "progress": _shown_progress(progress),
        "actor": actor.replace(name=_shown(actor.name), call=_shown(actor.call)),
    }
    return manifest.replace(**shown)


def _shown_progress(progress: Progress) -> Progress:
    return progress.replace(
        goal=_shown(progress.goal),
        state=cast("dict[str, object]", redact_value(dict(progress.state))),
    )


def _told(check: Check | None, *, exact: bool) -> Check | None:
    if check is None or exact:
        return check
    return check.replace(
        command=redact(check.command), output_tail=redact(check.output_tail), reason=_shown(check.reason)
    )


def _shown(text: str | None) -> str | None:
    return None if text is None else redact(text)


def _shown_step(step: Effect) -> Effect:
    result = None if step.result is None else cast("dict[str, object]", redact_value(dict(step.result)))
    return step.replace(name=redact(step.name), result=result)


def _facts(
    context: Context, checkpoints: Sequence[Checkpoint], parcelled: tuple[Parcelled, ...], *, exact: bool
) -> Facts:
    keys = dict.fromkeys(one.manifest.workspace_key for one in checkpoints)
    work = context.work
    rows = [row for key in keys if (row := context.catalogue.workspace(key)) is not None]
    sessions = [session for key in keys for session in reversed(work.sessions(key))]
    plans = leaving(work, sessions, exact=exact)
    owners = [*((key, key) for key in keys), *((one.id, one.workspace_key) for one in sessions)]
    kept = [KeptProgress(key=key, workspace_key=owner, progress=work.progress(key)) for key, owner in owners]
    if not exact:
        sessions = [
            one.replace(goal=_shown(one.goal), owner=one.owner.replace(command=_shown(one.owner.command)))
            for one in sessions
        ]
        kept = [one.replace(progress=_shown_progress(one.progress)) for one in kept]
    effects = [effect for key in keys for effect in work.effects(key)]
    return Facts(
        workspaces=tuple(
            Origin(key=row.key, path=row.path, machine=row.machine, created_at=row.created_at) for row in rows
        ),
        checkpoints=parcelled,
        sessions=tuple(sessions),
        progress=tuple(one for one in kept if not one.progress.empty),
        effects=tuple(effects if exact else [_shown_step(one) for one in effects]),
        plans=plans,
    )
