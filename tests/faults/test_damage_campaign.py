"""Whatever becomes of a file of the store: a repair loses nothing readable, and mends what can be (K4)."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest

import lastgood
from faults.damage import Trial, harm, sample, trials
from faults.injector import Blow, Injector
from faults.stage import copy
from lastgood.errors import LastgoodError
from lastgood.ledger import LedgerWriter
from lastgood.model.report import VerifyReport
from lastgood.objects.check import reachable
from lastgood.objects.engine import GitEngine
from lastgood.workspace import Workspace
from tools.long_form import LONG

SEED = 20_261_122
SHORT = 66
BITS = 12
PARTS = 4
SHOWN = 12
# Only those trials that have this in their name.
ONLY = os.environ.get("LASTGOOD_TRIAL", "")
# What has to be noticed whatever the damage is, and what unless there is none or a good older one.
PROVEN = frozenset({"pack", "idx", "format", "machine", "config", "HEAD"})
COPIES = frozenset({"backup", "ledger.backup.sqlite3.gz", "restore.journal"})
MADE_AGAIN = frozenset({"HEAD", "config"})
# Derived from the rest, and made again.
HARMLESS = frozenset(
    {
        "packed-refs",
        "reserve",
        "lock",
        "scan.records",
        "scan details",
        "catalogue.sqlite3-shm",
        "ledger.sqlite3-shm",
    }
)
Object = tuple[bytes, int]
Read = dict[tuple[str, bytes], str]


@dataclass
class Scene:
    """A store in several states, what each holds, and the places where trials happen."""

    folder: Path
    # Of each state: what each commit needs, itself among it, every object with its kind.
    objects: dict[str, dict[bytes, frozenset[Object]]] = field(default_factory=dict)
    shown: dict[str, Read] = field(default_factory=dict)
    facts: dict[str, dict[str, object]] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        return self.folder / "live" / "store"

    @property
    def workspaces(self) -> tuple[Path, Path]:
        return self.folder / "live" / "one", self.folder / "live" / "two"

    @property
    def states(self) -> dict[str, Path]:
        return {name: self.folder / name / "store" for name in ("closed", "open", "interrupted")}

    @property
    def older(self) -> Path:
        return self.folder / "older" / "store"

    def keep(self, name: str) -> None:
        copy(self.folder / "live", self.folder / name)

    def reset(self, name: str) -> None:
        shutil.rmtree(self.folder / "live", ignore_errors=True)
        copy(self.folder / name, self.folder / "live")

    def open(self, number: int = 0, *, repair: bool = False) -> Workspace:
        return lastgood.open(
            self.workspaces[number],
            store=self.store,
            maintenance="off",
            allow_root=True,
            repair=repair,
            environment={
                "HOME": str(self.folder),
                "PATH": os.environ["PATH"],
                "LASTGOOD_WITNESS": str(self.folder / "live" / "witness"),
            },
        )

    def engine(self) -> GitEngine:
        return GitEngine(os.fsencode(self.store / "objects.git"), temporary=os.fsencode(self.store / "tmp"))


def _work(folder: Path, number: int) -> None:
    chance = random.Random(f"{folder.name} {number}")
    (folder / "deep" / "er").mkdir(parents=True, exist_ok=True)
    (folder / "same").write_text("the same in every state\n" * 40)
    (folder / "text").write_text("".join(f"line {line}\n" for line in range(100 + number)))
    (folder / "deep" / f"own-{number}").write_bytes(chance.randbytes(400))
    (folder / "deep" / "er" / "key").write_text(f"key {number}")
    (folder / "deep" / "er" / "key").chmod(0o600)


@pytest.fixture(scope="module")
def scene(arena: Path, injector: Injector) -> Scene:
    made = Scene(arena / "campaign")
    for workspace in made.workspaces:
        workspace.mkdir(parents=True)
    _build(made)
    made.keep("closed")
    with made.open() as one:
        _work(made.workspaces[0], 7)
        one.save("in the log alone")
        made.keep("open")
    made.reset("closed")
    _interrupt(made, injector)
    made.keep("interrupted")
    for state in made.states:
        made.reset(state)
        made.objects[state] = _objects(made)
        made.shown[state] = _shown(made) | _noted(made)
        made.facts[state] = _facts(made)
        with made.open() as one:
            report = one.verify()
            assert report.ok, (state, report)
            assert one.verify(repair=True).repaired == ()
        assert len(made.shown[state]) > 12
    return made


def _build(made: Scene) -> None:
    for number in range(4):
        for place in (0, 1):
            _work(made.workspaces[place], number)
            with made.open(place) as workspace:
                workspace.save(f"state {number}", name=f"named-{place}-{number}" if number % 2 else None)
                workspace.ledger("notes").change(_entry(number))
                if number == 0:
                    workspace.session_start(goal="all of it")
                if number in {1, 2}:
                    workspace.maintain()
        if number == 1:  # a pack with deltas, as maintenance makes one of many
            engine = made.engine()
            assert engine.consolidate()
            engine.close()
        if number == 1:
            made.keep("older")


def _entry(number: int) -> Callable[[LedgerWriter], None]:
    return lambda book: book.put("book", f"key {number}", head={"n": number}, body=["x" * 300])


def _interrupt(made: Scene, injector: Injector) -> None:
    """Kill a restore that has begun to change files."""
    with made.open() as one:
        target = one.list()[-1].id
    order = {
        "workspace": str(made.workspaces[0]),
        "store": str(made.store),
        "ref": target,
        "environment": {"LASTGOOD_WITNESS": str(made.folder / "live" / "witness")},
    }
    done = injector.run("restore", order, roots=[made.workspaces[0]], blow=Blow(at=3))
    assert done.killed, done
    assert list((made.store / "workspaces").glob("*/restore.journal"))


def _objects(made: Scene) -> dict[bytes, frozenset[Object]]:
    engine = made.engine()
    try:
        return {
            commit: frozenset((oid, _kind(engine, oid)) for oid in {commit, *reachable(engine, [commit])})
            for commit in engine.commits()
        }
    finally:
        engine.close()


def _kind(engine: GitEngine, oid: bytes) -> int:
    pack, offset = next(engine.stored.find(oid))
    return pack.kind(offset)


def _sound(made: Scene, wanted: frozenset[Object]) -> set[Object]:
    """Return the objects that the engine gives back, their hash proven."""
    engine = made.engine()
    found = set()
    for oid, kind in wanted:
        with suppress(LastgoodError):
            engine.read_object(oid, kind=kind)
            found.add((oid, kind))
    engine.close()
    return found


def _shown(made: Scene) -> Read:
    """Return what the verbs give back of every checkpoint: id and path, with the hash of the content."""
    seen: Read = {}
    known: dict[str, str | None] = {}
    with made.open() as workspace:
        for checkpoint in workspace.list(all_workspaces=True):
            try:
                entries = workspace.entries(checkpoint.id)
            except LastgoodError as error:
                assert error.hint
                continue
            for entry in entries:
                if entry.kind == "directory":
                    continue
                if entry.oid not in known:
                    known[entry.oid] = _content(workspace, checkpoint.id, entry.path)
                content = known[entry.oid]
                if content is not None:
                    seen[checkpoint.id, entry.path] = content
    return seen


def _noted(made: Scene) -> Read:
    """Return the entries of the ledger, each proven."""
    with made.open() as workspace:
        ledger = workspace.ledger("notes")
        return ledger.look(
            lambda book: {("ledger", one.key.encode()): repr(one) for one in book.entries("book")}
        )


def _content(workspace: Workspace, ref: str, path: bytes) -> str | None:
    try:
        return sha256(workspace.read(ref, path)).hexdigest()
    except LastgoodError as error:
        assert error.hint
        return None


def _facts(made: Scene) -> dict[str, object]:
    """Return what else was said of the work: names, messages, sessions, entries of the ledger."""
    with made.open() as workspace:
        facts: dict[str, object] = {
            one.id: (one.name, one.message, one.commit) for one in workspace.list(all_workspaces=True)
        }
        facts["sessions"] = [one.id for one in workspace.sessions()]
        ledger = workspace.ledger("notes")
        facts["ledger"] = ledger.look(lambda book: [one.key for one in book.entries("book")])
    return facts


def _files(made: Scene) -> dict[str, str]:
    """Return every file of the store with its hash, but for what each run writes anew."""
    return {
        str(path.relative_to(made.store)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(made.store.rglob("*"))
        if path.is_file() and not path.name.endswith((".owner", "-shm"))
    }


class _Check:
    """One trial, step by step."""

    def __init__(self, made: Scene, trial: Trial) -> None:
        self.made = made
        self.trial = trial
        made.reset(trial.state)
        self.commits = made.objects[trial.state]
        self.every = frozenset().union(*self.commits.values())
        harm(made.store, trial, older=made.older)

    def run(self) -> None:
        report = self._verified()
        sound = _sound(self.made, self.every)
        before = self._looked()
        self._used()
        self._noticed(report, before)
        first = self._repaired()
        after = self._looked()
        assert before.items() <= after.items(), self._lost(before, after)
        again = _sound(self.made, self.every)
        assert sound <= again, f"{len(sound - again)} objects were readable and are not"
        self._brought_back(first, sound, after)
        self._twice(first)
        self._saves()

    def _looked(self) -> Read:
        seen: Read = {}
        for look in (_shown, _noted):
            try:
                seen |= look(self.made)
            except LastgoodError as error:
                assert error.hint, error
        return seen

    def _used(self) -> None:
        """Each verb works, or says what to do."""
        for number in (0, 1):
            try:
                with self.made.open(number) as workspace:
                    workspace.status()
                    found = workspace.list()
                    if found and not number:
                        workspace.get(found[-1].id)
                        self._written(workspace)
            except LastgoodError as error:
                assert error.hint, error

    def _written(self, workspace: Workspace) -> None:
        target = self.made.folder / "live" / "aside"
        try:
            workspace.restore(workspace.list()[0].id, to=target)
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def _verified(self) -> VerifyReport | None:
        try:
            with self.made.open() as workspace:
                return workspace.verify()
        except LastgoodError as error:
            assert error.code in {"damaged", "unsupported"}, error
            assert "verify --repair" in error.hint, error
            return None

    def _noticed(self, report: VerifyReport | None, before: Read) -> None:
        """Damage is told, or nothing is missing."""
        kind, damage = self.trial.kind, self.trial.damage
        if report is None or not report.ok or report.unlisted or kind in HARMLESS:
            return
        assert kind not in PROVEN or (kind in MADE_AGAIN and damage == "missing"), "verify noticed nothing"
        missed = kind in COPIES and damage not in {"missing", "older", "swapped"} and not self._is_alike()
        assert not missed, "verify noticed nothing"
        assert before == self.made.shown[self.trial.state], "verify noticed nothing"
        assert self._told() == self.made.facts[self.trial.state], "verify noticed nothing"

    def _is_alike(self) -> bool:
        """Tell whether a packed copy holds what it held: of gzip's header not every bit means something."""
        now = self.made.store / self.trial.file
        was = self.made.states[self.trial.state] / self.trial.file
        return now.name.endswith(".gz") and gzip.decompress(now.read_bytes()) == gzip.decompress(
            was.read_bytes()
        )

    def _told(self) -> object:
        try:
            return _facts(self.made)
        except LastgoodError as error:
            return error

    def _repaired(self) -> VerifyReport:
        with self.made.open(repair=True) as workspace:
            return workspace.verify(repair=True)

    def _brought_back(self, report: VerifyReport, sound: set[Object], after: Read) -> None:
        whole = {commit.hex() for commit, needed in self.commits.items() if needed <= sound}
        facts = self.made.facts[self.trial.state]
        ids = {id for id, fact in facts.items() if isinstance(fact, tuple) and fact[2] in whole}
        wanted = {key: value for key, value in self.made.shown[self.trial.state].items() if key[0] in ids}
        assert wanted.items() <= after.items(), self._lost(wanted, after)
        assert not {one.id for one in report.damaged} & ids, report
        if sound >= self.every and self.trial.kind != "ledger.sqlite3":
            assert report.ok, report
            told = self._told()
            assert told == facts, _different(told, facts)

    def _twice(self, first: VerifyReport) -> None:
        files = _files(self.made)
        second = self._repaired()
        assert second.repaired == (), second.repaired
        assert (second.ok, second.faults, second.damaged) == (first.ok, first.faults, first.damaged)
        now = _files(self.made)
        changed = sorted(name for name in files.keys() | now.keys() if files.get(name) != now.get(name))
        assert changed == []

    def _saves(self) -> None:
        with self.made.open() as workspace:
            if workspace.status().state == "interrupted":
                workspace.recover()
            _work(self.made.workspaces[0], 8)
            saved = workspace.save("after the repair", allow_empty=True).checkpoint.id
            assert workspace.read(saved, "deep/er/key") == b"key 8"
            assert workspace.read(saved, "same") == b"the same in every state\n" * 40

    def _lost(self, before: Read, after: Read) -> str:
        gone = [key for key in before if after.get(key) != before[key]]
        return f"{len(gone)} of {len(before)} files cannot be read any more: {gone[:4]}"


def _different(told: object, facts: dict[str, object]) -> str:
    if not isinstance(told, dict):
        return f"instead of facts: {told}"
    keys = [key for key in {**facts, **told} if facts.get(key) != told.get(key)]
    return "; ".join(f"{key} is {told.get(key)}, was {facts.get(key)}" for key in keys)


def _chosen(scene: Scene) -> list[Trial]:
    every = list(trials(scene.states, scene.older, bits=BITS, seed=SEED))
    if ONLY:
        return [trial for trial in every if ONLY in str(trial)]
    return every if LONG else sample(every, seed=SEED, most=SHORT)


@pytest.mark.damages
@pytest.mark.parametrize("part", range(PARTS))
def test_a_repair_loses_nothing_readable_and_mends_what_can_be_mended(scene: Scene, part: int) -> None:
    faults = []
    for trial in _chosen(scene)[part::PARTS]:
        try:
            _Check(scene, trial).run()
        except (AssertionError, LastgoodError) as error:
            faults.append(f"{trial}: {type(error).__name__}: {str(error)[:600]}")
    assert not faults, f"{len(faults)} trials\n" + "\n".join(faults[:SHOWN])
