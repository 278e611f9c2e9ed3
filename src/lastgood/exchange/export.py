"""export: checkpoints and all that is known about them, for one portable file (rules S5, S17)."""

from __future__ import annotations

from functools import partial

from lastgood.conversation import capture
from lastgood.conversation.reader import beside, blobs
from lastgood.errors import Damaged, LastgoodError, NotFound, Unsafe
from lastgood.exchange.form import is_sound
from lastgood.ledger import cells as plain
from lastgood.model.checkpoint import TreeRef, decode, encode
from lastgood.model.exchange import (
    Choices,
    ExportedCheckpoint,
    ExportedPlan,
    ExportedProgress,
    Facts,
    Origin,
    Withheld,
)
from lastgood.model.session import LISTS
from lastgood.model.tree import (
    DEFAULT_DIRECTORY_MODE,
    DEFAULT_FILE_MODE,
    DIRECTORY,
    FILE,
    LINK,
    Entry,
    Gap,
    TreeId,
)
from lastgood.paths import join, to_text, ways, within
from lastgood.redaction import first_secret, redact, redact_lines, redact_value, secret_under
from lastgood.sessions.session import planned_run
from lastgood.trees import Files
from lastgood.value import Value, cast
from lastgood.workplan.plan import PLAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Protocol

    from lastgood.context import Context, WorkReader
    from lastgood.engine import ObjectReader, ObjectWriter
    from lastgood.ledger import LedgersReader
    from lastgood.model.checkpoint import Check, Checkpoint, Conversation, Manifest
    from lastgood.model.exchange import ExportedBook
    from lastgood.model.run import Command, PlannedRun, PlannedTask, WorkPlan
    from lastgood.model.session import Effect, Progress, Session

    # Returns so many bytes of a file from some place on.
    Read = Callable[[int, int], bytes]
    # Told of each entry of a directory once, with its path; may refuse it.
    Admit = Callable[[bytes, Entry], None]


# --- Copies what checkpoints hold from one place of objects to another, each proven on the way ---

if TYPE_CHECKING:
    # Told of each file once, with its path, how to read it, and its size.
    Look = Callable[[bytes, Read, int], None]

    class Spool(Protocol):
        """Moves one large blob without holding it."""

        def __call__(
            self,
            source: ObjectReader,
            target: ObjectWriter,
            oid: bytes,
            *,
            look: Callable[[Read, int], None] | None,
        ) -> bytes:
            """Copy it, showing it to ``look`` on the way, and return the id that it got."""


# A tree of a few objects can name more paths than any disk holds.
MOST_PATHS = 20_000_000
_WHOLE_BYTES = 8 << 20


class LeftOut(Value):
    """What a copy left out: the paths, and how many files and bytes they are."""

    paths: tuple[tuple[bytes, int | None], ...] = ()
    files: int = 0
    size: int = 0


class ObjectCopy:
    """One run of copying; what several checkpoints share is copied once.

    ``spool`` moves one large blob, ``look`` is shown every file that is copied for the first time,
    ``admit`` every entry before anything of its directory is stored.
    """

    def __init__(
        self,
        source: ObjectReader,
        target: ObjectWriter,
        *,
        spool: Spool,
        look: Look | None = None,
        admit: Admit | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._spool = spool
        self._look = look
        self._admit = admit
        self._paths: dict[TreeId, int] = {}
        self._blobs: set[bytes] = set()

    def tree(self, root: TreeId, *, path: bytes = b"") -> None:
        """Copy a directory with all below it; `Damaged` if something is missing or wrong."""
        waiting: list[tuple[TreeId, bytes, Sequence[Entry] | None]] = [(root, path, None)]
        while waiting:
            tree, place, entries = waiting.pop()
            if tree in self._paths:
                continue
            if entries is None:
                entries = self._read(tree, place)
                waiting.append((tree, place, entries))
                waiting += [
                    (one.tree_id, join(place, one.name), None) for one in entries if one.kind == DIRECTORY
                ]
                continue
            self._paths[tree] = self._finish(tree, place, entries)

    def _read(self, tree: TreeId, place: bytes) -> Sequence[Entry]:
        entries = self._source.directory(tree)
        if self._admit is not None:
            for entry in entries:
                self._admit(join(place, entry.name), entry)
        return entries

    def blob(self, oid: bytes, *, path: bytes = b"", kind: str = LINK) -> None:
        """Copy a blob; ``kind`` tells whether it is a file's content."""
        if oid in self._blobs:
            return
        self._blobs.add(oid)
        if not self._target.lacks((oid,)):
            return
        look = self._look if kind == FILE else None
        if self._source.blob_size(oid) > _WHOLE_BYTES:
            seen = None if look is None else partial(look, path)
            made = self._spool(self._source, self._target, oid, look=seen)
        else:
            content = self._source.read_blob(oid)
            if look is not None:
                look(path, lambda at, size: content[at : at + size], len(content))
            made = self._target.blob(content)
        if made != oid:
            raise _changed(oid)

    def without(self, root: TreeId, scopes: Sequence[bytes]) -> tuple[TreeId, LeftOut]:
        """Copy a directory but for some paths, and return what it became and what was left out."""
        gone, leading = set(scopes), ways(scopes)
        met: list[tuple[bytes, Sequence[Entry]]] = []
        waiting = [(b"", root)]
        while waiting:
            place, tree = waiting.pop()
            entries = self._source.directory(tree)
            met.append((place, entries))
            inner = ((join(place, one.name), one) for one in entries if one.kind == DIRECTORY)
            waiting += [(path, one.tree_id) for path, one in inner if path in leading and path not in gone]
        left: list[tuple[bytes, int | None]] = []
        amounts = [0, 0]
        made: dict[bytes, TreeId] = {}
        for place, entries in reversed(met):  # what lies in a directory was met after it
            kept = []
            for entry in entries:
                path = join(place, entry.name)
                if path in gone or b"" in gone:
                    files, size = self._amount(entry)
                    left.append((path, size if entry.kind != DIRECTORY else None))
                    amounts[0] += files
                    amounts[1] += size
                elif path in made:
                    kept.append(entry.replace(oid=made[path].tree, modes=made[path].modes))
                else:
                    self._entry(entry, path)
                    kept.append(entry)
            made[place] = self._target.directory(kept)
        left.sort()
        return made[b""], LeftOut(paths=tuple(left), files=amounts[0], size=amounts[1])

    def _finish(self, tree: TreeId, place: bytes, entries: Sequence[Entry]) -> int:
        paths = len(entries)
        for entry in entries:
            if entry.kind == DIRECTORY:
                paths += self._paths.get(entry.tree_id, MOST_PATHS)
            else:
                self.blob(entry.oid, path=join(place, entry.name), kind=entry.kind)
        if paths > MOST_PATHS:
            raise Damaged("a tree names an absurd number of paths", hint="nothing was copied")
        if self._target.directory(entries) != tree:
            raise _changed(tree.tree)
        return paths

    def _entry(self, entry: Entry, path: bytes) -> None:
        if entry.kind == DIRECTORY:
            self.tree(entry.tree_id, path=path)
        else:
            self.blob(entry.oid, path=path, kind=entry.kind)

    def _amount(self, entry: Entry) -> tuple[int, int]:
        files = size = 0
        waiting = [entry]
        while waiting:
            one = waiting.pop()
            if one.kind == DIRECTORY:
                waiting += self._source.directory(one.tree_id)
                continue
            files += 1
            size += self._source.blob_size(one.oid) if one.kind == FILE else 0
        return files, size


def _changed(oid: bytes) -> Damaged:
    return Damaged(
        f"object {oid.hex()} came out as another one",
        hint="run: lastgood verify",
        details={"object": oid.hex()},
    )


# --- The plans of runs on their way out of a store, and into another (rules S17, P6) ---


def exported_plans(work: WorkReader, sessions: Sequence[Session], *, exact: bool) -> tuple[ExportedPlan, ...]:
    """Return the plans that sessions carry out: each once, without known secrets unless ``exact``.

    One that no run could begin with (any more) stays.
    """
    found: dict[tuple[str, str], list[str]] = {}
    plans: dict[tuple[str, str], WorkPlan] = {}
    for session in sessions:
        run = work.run(session.id)
        if run is None:
            continue
        plan = run.plan if exact else _redacted_plan(run.plan)
        key = session.workspace_key, PLAN.encode(plan)
        if key not in plans and not is_sound(plan):
            continue
        plans[key] = plan
        found.setdefault(key, []).append(session.id)
    return tuple(
        ExportedPlan(sessions=tuple(ids), workspace_key=key[0], plan=plans[key]) for key, ids in found.items()
    )


def imported_plans(facts: Facts) -> tuple[PlannedRun, ...]:
    """Return the plan of each session that has one; what tells it from an edited one is made anew."""
    sessions = {session.id: session for session in facts.sessions}
    return tuple(planned_run(sessions[id], kept.plan) for kept in facts.plans for id in kept.sessions)


def imported_plan_bytes(facts: Facts) -> int:
    """Return how much room plans take here, where each session has its own."""
    return sum(len(kept.sessions) * len(PLAN.encode(kept.plan)) for kept in facts.plans)


def contradict(facts: Facts) -> bool:
    """Tell whether plans are of sessions that the facts do not have, or two of one session."""
    known = {(session.id, session.workspace_key) for session in facts.sessions}
    named = [(id, kept.workspace_key) for kept in facts.plans for id in kept.sessions]
    return len(set(named)) != len(named) or not set(named) <= known


def _redacted_plan(plan: WorkPlan) -> WorkPlan:
    return plan.replace(
        goal=None if plan.goal is None else redact(plan.goal),
        tasks=tuple(_redacted_task(task) for task in plan.tasks),
    )


def _redacted_task(task: PlannedTask) -> PlannedTask:
    return task.replace(
        run=_redacted_command(task.run),
        check=None if task.check is None else _redacted_command(task.check),
        env=cast("dict[str, str]", redact_value(dict(task.env))),
    )


def _redacted_command(command: Command) -> Command:
    return redact(command) if isinstance(command, str) else tuple(redact(word) for word in command)


# --- export: checkpoints and all that is known about them, for one portable file (rules S5, S17) ---


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
        exported = [packing.add(one) for one in ordered]
    keys = tuple(dict.fromkeys(one.manifest.workspace_key for one in ordered))
    books = packing.books(context.ledgers, keys)
    packing.refuse_secrets()
    facts = _facts(context, ordered, tuple(exported), exact=choices.exact)
    return Packed(
        facts=facts.replace(books=books),
        withheld=tuple(packing.withheld),
        books_withheld=_left_here(context.ledgers, keys, without=books),
    )


def _left_here(
    ledgers: LedgersReader, workspaces: Sequence[str], *, without: Sequence[ExportedBook]
) -> int | None:
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
        self._copying = ObjectCopy(context.engine, writer, spool=spool, look=look)
        self._speaking = ObjectCopy(context.engine, writer, spool=spool)
        self._spoken: dict[str, Conversation] = {}

    def add(self, checkpoint: Checkpoint) -> ExportedCheckpoint:
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
        # Operations stay here, and what a guard holds for one of them.
        lists = {name: tree for name, tree in contents.progress.items() if name in LISTS}
        for tree in lists.values():
            self._speaking.tree(TreeId(tree=tree))
        if manifest is not original or len(lists) < len(contents.progress):
            manifest = manifest.replace(copy_of=original.copy_of or checkpoint.commit)
        commit = self._writer.checkpoint(
            id=manifest.id,
            manifest=contents.manifest if manifest is original else encode(manifest),
            workspace=root,
            state=contents.state,
            created_at=manifest.created_at,
            conversation=None if spoken is None else TreeId(tree=bytes.fromhex(spoken.tree)),
            progress=lists,
        )
        if manifest is original and commit.hex() != checkpoint.commit:
            raise Damaged(f"{checkpoint.short_id} came out as another one", hint="run: lastgood verify")
        return ExportedCheckpoint(
            id=checkpoint.id,
            commit=commit.hex(),
            sequence=checkpoint.sequence,
            name=checkpoint.name,
            pinned=checkpoint.pinned,
            good=checkpoint.good,
            check=_redacted_check(checkpoint.check, exact=self._choices.exact),
        )

    def books(self, ledgers: LedgersReader, workspaces: Sequence[str]) -> tuple[ExportedBook, ...]:
        """Return the books that leave: what frameworks keep is private, and leaves as it is."""
        if not (self._choices.private and self._choices.conversation):
            return ()
        books = ledgers.leaving(workspaces)
        if not (self._choices.secrets or self._choices.exact):
            self._look_into(books)
        return books

    def _look_into(self, books: Sequence[ExportedBook]) -> None:
        for book in books:
            pieces = {plain.piece_id(piece): piece for piece in book.pieces}
            cells = (*book.pieces, *(cell for entry in book.entries for cell in entry[2:]))
            texts = (text for cell in cells for text in plain.cell_texts(cell, pieces.__getitem__))
            found = next((one for text in texts if (one := secret_under(*text)) is not None), None)
            if found is not None:
                self._secrets[f"the ledger: {book.space} ".encode() + book.name] = found

    def refuse_secrets(self) -> None:
        """Stop an export of files that show secrets."""
        if not self._secrets:
            return
        finds = [
            {"path": to_text(path).encode("utf-8", "replace").decode(), "line": line, "kind": kind}
            for path, (kind, line) in sorted(self._secrets.items())
        ]
        files = "1 file shows" if len(finds) == 1 else f"{len(finds)} files show"
        raise Unsafe(
            f"{files} what looks like a secret; nothing was written",
            hint="if they may leave all the same: lastgood export FILE --allow-secrets"
            "\nor take a file out of every checkpoint, for good: lastgood purge PATH",
            details={"files": [one["path"] for one in finds], "finds": finds},
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
            tree = conversation.tree
            parts = {"": tuple(blobs(self._engine, tree)), **beside(self._engine, tree)}
            contents = {name: b"".join(map(self._engine.read_blob, oids)) for name, oids in parts.items()}
            shown = {name: redact_lines(content) for name, content in contents.items()}
            known = conversation
            if shown != contents:
                said = shown.pop("")
                known = conversation.replace(tree=self._spoken_tree(said, shown).tree.hex(), size=len(said))
            self._spoken[conversation.tree] = known
        return known

    def _spoken_tree(self, content: bytes, beside: Mapping[str, bytes]) -> TreeId:
        """Store a conversation in segments, and what lies beside it."""
        folders: dict[bytes, list[Entry]] = {}
        start = 0
        for place, size in enumerate(capture.segment_sizes(len(content))):
            folder, name = capture.segment_name(place)
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
        for kept, said in beside.items():
            oids = map(self._writer.blob, capture.cut((said,)))
            tree = capture.folder_of(self._writer, oids)
            rows.append(
                Entry(name=kept.encode("ascii"), kind=DIRECTORY, mode=DEFAULT_DIRECTORY_MODE, oid=tree)
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
        "progress": _redacted_progress(progress),
        "actor": actor.replace(name=_redacted_text(actor.name), call=_redacted_text(actor.call)),
    }
    return manifest.replace(**shown)


def _redacted_progress(progress: Progress) -> Progress:
    return progress.replace(
        goal=_redacted_text(progress.goal),
        state=cast("dict[str, object]", redact_value(dict(progress.state))),
    )


def _redacted_check(check: Check | None, *, exact: bool) -> Check | None:
    if check is None or exact:
        return check
    return check.replace(
        command=redact(check.command),
        output_tail=redact(check.output_tail),
        reason=_redacted_text(check.reason),
    )


def _redacted_text(text: str | None) -> str | None:
    return None if text is None else redact(text)


def _redacted_step(step: Effect) -> Effect:
    result = None if step.result is None else cast("dict[str, object]", redact_value(dict(step.result)))
    return step.replace(name=redact(step.name), result=result)


def _facts(
    context: Context,
    checkpoints: Sequence[Checkpoint],
    exported: tuple[ExportedCheckpoint, ...],
    *,
    exact: bool,
) -> Facts:
    keys = dict.fromkeys(one.manifest.workspace_key for one in checkpoints)
    work = context.work
    rows = [row for key in keys if (row := context.catalogue.workspace(key)) is not None]
    sessions = [session for key in keys for session in reversed(work.sessions(key))]
    plans = exported_plans(work, sessions, exact=exact)
    owners = [*((key, key) for key in keys), *((one.id, one.workspace_key) for one in sessions)]
    kept = [
        ExportedProgress(key=key, workspace_key=owner, progress=work.progress(key)) for key, owner in owners
    ]
    if not exact:
        sessions = [
            one.replace(
                goal=_redacted_text(one.goal),
                owner=one.owner.replace(command=_redacted_text(one.owner.command)),
            )
            for one in sessions
        ]
        kept = [one.replace(progress=_redacted_progress(one.progress)) for one in kept]
    effects = [effect for key in keys for effect in work.effects(key)]
    return Facts(
        workspaces=tuple(
            Origin(key=row.key, path=row.path, machine=row.machine, created_at=row.created_at) for row in rows
        ),
        checkpoints=exported,
        sessions=tuple(sessions),
        progress=tuple(one for one in kept if not one.progress.empty),
        effects=tuple(effects if exact else [_redacted_step(one) for one in effects]),
        plans=plans,
    )
