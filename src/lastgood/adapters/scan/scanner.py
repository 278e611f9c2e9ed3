"""Reads a workspace into a tree, in this process."""

from __future__ import annotations

import gc
import os
import time
from marshal import dumps

from lastgood.adapters.proven import digest
from lastgood.adapters.scan import cache
from lastgood.adapters.scan.bounds import Bounds
from lastgood.adapters.scan.build import Builder
from lastgood.adapters.scan.cache import Conditions, Details, DetailsLost, Snapshot
from lastgood.adapters.scan.examine import Examiner
from lastgood.adapters.scan.form import (
    BUDGET,
    BYTES,
    FILES,
    FLAGS,
    GAPS,
    LEFT,
    MODES,
    NESTED,
    OID,
    PRIVATE,
    RACY,
    REASONS,
    STATE,
    TREE,
)
from lastgood.adapters.scan.found import Texts, WorkspaceScan
from lastgood.adapters.scan.judge import Judge
from lastgood.adapters.scan.listing import Lister
from lastgood.adapters.scan.mounts import proving_device
from lastgood.adapters.scan.opening import open_root
from lastgood.adapters.scan.project import Project
from lastgood.adapters.scan.read import FileReader
from lastgood.adapters.scan.rulebook import RuleBook
from lastgood.adapters.scan.settle import Settlement
from lastgood.adapters.scan.sticky import Forced, Previous, relative
from lastgood.adapters.scan.walk import Trust, Walk
from lastgood.model.scan import ScanResult
from lastgood.model.tree import Gap, TreeId
from lastgood.names import join
from lastgood.rules.hostile import DEEPEST, LONGEST_PATH
from lastgood.rules.ignore import Includes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.adapters.scan.bounds import Patience
    from lastgood.adapters.scan.form import Record
    from lastgood.model.checkpoint import IgnoreState
    from lastgood.model.scan import ScanRequest
    from lastgood.model.tree import Entry
    from lastgood.ports.engine import ObjectReader, ObjectWriter
    from lastgood.ports.host import Clock

# Asking about the file system takes as long as listing so many directories.
_SEVERAL_DIRECTORIES = 16
# If more than one directory in so many proves more than before, that is worth keeping for itself.
_A_PART = 8


class ImportLost(Exception):
    """Objects of the project that a scan relied on could not be copied: their files have to be read again."""


class WorkspaceScanner:
    """Scans workspaces; ``cache`` is the folder for what one scan remembers for the next.

    ``objects`` are what checkpoints so far hold. ``sleep`` waits for some seconds.
    """

    def __init__(
        self,
        *,
        cache: bytes,
        clock: Clock,
        objects: ObjectReader,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = cache
        self._clock = clock
        self._objects = objects
        self._sleep = sleep

    def scan(
        self, request: ScanRequest, *, writer: ObjectWriter, patience: Patience | None = None
    ) -> WorkspaceScan:
        """Read the workspace; `NotFound` or `Unsafe` for the root, `Storage` for the store's disk.

        With ``patience`` it may raise `Starved`; what was added to the writer until then is whole.
        """
        pausing = gc.isenabled()
        gc.disable()  # nothing here is cyclic, and looking for cycles takes a third of a first scan
        try:
            root = open_root(request.root)
            try:
                known = cache.load(self._folder, request.root)
                if patience is not None:
                    patience.begin(known.records)
                while True:
                    try:
                        return self._scan(request, root=root, known=known, writer=writer, patience=patience)
                    except (DetailsLost, ImportLost):  # each of them once at most
                        known = Snapshot(None, records={}, details=Details(self._folder, b""))
            finally:
                os.close(root)
        finally:
            if pausing:
                gc.enable()

    def _scan(
        self,
        request: ScanRequest,
        *,
        root: int,
        known: Snapshot,
        writer: ObjectWriter,
        patience: Patience | None,
    ) -> WorkspaceScan:
        project = Project(request.root, settings=request.settings)
        rules = project.ignore_state(request.settings)
        conditions = _conditions(request, rules, index=project.signature)
        if not known.records and project.objects:
            writer.import_blobs(project.objects, project.named_objects())
        survey = Survey(
            request,
            conditions=conditions,
            known=known,
            rules=rules,
            project=project,
            objects=self._objects,
            writer=writer,
            lister=Lister(device=_proving(root, known), clock=self._clock),
            bounds=Bounds(self._clock, budget=request.budget, patience=patience),
        )
        survey.run(root, sleep=self._sleep)
        if not writer.settle_imports():
            raise ImportLost
        records = survey.records
        top = records[b""]
        conditions = conditions.replace(tree=(top[TREE], top[MODES]))
        examiner = survey.examiner
        return WorkspaceScan(
            _result(records, project=project, rules=rules, readable=not examiner.unreadable_rules),
            folder=self._folder,
            snapshot=Snapshot(conditions, records=records, details=known.details, source=known.source),
            known=known.records,
            listings=survey.listings,
            objects=self._objects,
            rules=rules,
            texts=examiner.texts,
            worth_keeping=survey.changed or conditions != known.conditions,
        )


class Survey:
    """Walk, settle and build once; ``records`` are what came of it."""

    def __init__(
        self,
        request: ScanRequest,
        *,
        conditions: Conditions,
        known: Snapshot,
        rules: IgnoreState,
        project: Project,
        objects: ObjectReader,
        writer: ObjectWriter,
        lister: Lister,
        bounds: Bounds,
    ) -> None:
        self._known = known
        self._writer = writer
        self._bounds = bounds
        self._token = conditions.policy
        forced = Forced(request.forced, fresh=request.fresh)
        previous = Previous(request.previous, objects=objects)
        trust = _trust(known.conditions, conditions, previous=request.previous)
        texts = Texts(known.records, details=known.details, objects=objects, fresh={})
        judge = Judge(
            rules=RuleBook(rules, texts=texts.of),
            includes=Includes(request.settings.include),
            forced=forced,
            index=project.index,
            previous=previous,
            store=relative(request.store, request.root),
            is_ours=_names_of(request.left_by),
        )
        self._reader = FileReader(writer, clock=bounds.clock, cap=request.settings.max_file_size)
        self.examiner = Examiner(
            judge,
            reader=self._reader,
            cap=request.settings.max_file_size,
            late=bounds.is_late,
            gone=set() if trust.objects else _gone(known, writer),
        )
        self._walk = Walk(
            known,
            trust=trust,
            lister=lister,
            examiner=self.examiner,
            forced=forced,
            previous=previous,
            late=bounds.is_late,
        )
        self.records: dict[bytes, Record] = {}
        self.listings: dict[bytes, Sequence[Entry]] = {}
        self.changed = True

    def run(self, root: int, *, sleep: Callable[[float], None]) -> None:
        """Do it, from the open root of the workspace."""
        self._walk.run(root, token=self._token)
        if self.examiner.unsettled:
            bounds = self._bounds
            Settlement(root, reader=self._reader, clock=bounds.clock, sleep=sleep, late=bounds.is_over).run(
                self.examiner.unsettled
            )
        builder = Builder(
            self._walk, before=self._known.records, details=self._known.details, writer=self._writer
        )
        self.records = builder.run()
        self.listings = builder.listings
        self.changed = builder.changed or self._walk.renewed * _A_PART > len(self.records)


def _proving(root: int, known: Snapshot) -> int | None:
    """Return the device on which times prove names, None also where asking for it would cost more."""
    return None if 0 < len(known.records) < _SEVERAL_DIRECTORIES else proving_device(root)


def _conditions(request: ScanRequest, rules: IgnoreState, *, index: bytes) -> Conditions:
    settings = request.settings
    where = relative(request.store, request.root)
    texts = (rules.excludes, rules.includes, rules.info_exclude, rules.global_exclude, rules.readable)
    policy = dumps((settings.max_file_size, texts, where, LONGEST_PATH, DEEPEST, request.left_by), 2)
    return Conditions(
        root=request.root,
        generation=request.generation,
        policy=digest(policy),
        index=index,
        tree=(b"", b""),
    )


def _names_of(restores: tuple[str, ...]) -> Callable[[bytes], bool] | None:
    """Return what tells the temporary names of some restores, None where there are none."""
    if not restores:
        return None
    from lastgood.adapters.apply.aside import is_of  # lazily: hardly any save meets such names

    return lambda name: any(is_of(name, token) for token in restores)


def _trust(known: Conditions | None, now: Conditions, *, previous: TreeId | None) -> Trust:
    if known is None:
        return Trust(verdicts=False, objects=False, index=False, previous=False)
    return Trust(
        verdicts=known.policy == now.policy,
        objects=known.generation == now.generation,
        index=known.index == now.index,
        previous=previous is not None and known.tree == (previous.tree, previous.modes),
    )


def _gone(known: Snapshot, writer: ObjectWriter) -> set[bytes]:
    """Return the objects that the cache names and the engine cannot be trusted to have (invariant 4)."""
    named: set[bytes] = set()
    for record in known.records.values():
        rows = known.details.rows(record)
        if rows is None:
            raise DetailsLost
        named.update(row[OID] for row in rows if row[STATE] <= RACY and row[OID])
    return writer.lacks(named) if named else named


def _result(
    records: Mapping[bytes, Record], *, project: Project, rules: IgnoreState, readable: bool
) -> ScanResult:
    gaps: list[Gap] = []
    private: list[bytes] = []
    nested: list[bytes] = []
    partial = False
    for path, record in records.items():
        for name, state, size in record[GAPS]:
            gaps.append(Gap(path=join(path, name), reason=REASONS[state], size=None if size < 0 else size))
            partial = partial or state == BUDGET
        if record[PRIVATE]:
            private.extend(join(path, name) for name in record[PRIVATE])
        if record[FLAGS] & NESTED and path:
            nested.append(path)
    gaps.sort(key=_path)
    top = records[b""]
    return ScanResult(
        tree=TreeId(tree=top[TREE], modes=top[MODES]),
        files=top[FILES],
        size=top[BYTES],
        ignored=top[LEFT],
        gaps=tuple(gaps),
        partial=partial,
        private=tuple(sorted(private)),
        git=project.state(nested),
        ignore=rules if readable else rules.replace(readable=False),
    )


def _path(gap: Gap) -> bytes:
    return gap.path
