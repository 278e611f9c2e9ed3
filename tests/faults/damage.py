"""Damage of every kind to every kind of file in a store: which trials there are, and how each is done."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Regions = dict[str, tuple[int, int]]

DAMAGES = ("missing", "emptied", "one bit", "a byte appended", "cut", "zeroed", "swapped", "older")
# What needs no region of the file, or has the same effect whichever is meant.
_WHOLE = frozenset({"missing", "emptied", "a byte appended", "swapped", "older"})
_PACK_HEADER = 12
_TRAILER = 20
_SQLITE_HEADER = 100
_LOG_HEADER = 32
_FRAME_HEADER = 24


@dataclass(frozen=True)
class Trial:
    """One damage: ``state`` is the store's, ``at`` and ``bit`` say what is hit within the region."""

    state: str
    kind: str
    file: str
    region: str
    damage: str
    at: int = 0
    size: int = 0
    bit: int = 0
    other: str = ""

    def __str__(self) -> str:
        place = f" {self.region} byte {self.at} bit {self.bit}" if self.damage == "one bit" else ""
        place = place or f" {self.region}"
        return f"{self.state}: {self.file} {self.damage}{place}{self.other and ' with ' + self.other}"


def kind_of(path: str) -> str:
    """Return the kind of a file of the store; empty for what no trial damages."""
    folder, _, name = path.rpartition("/")
    if folder == "objects.git/objects/pack":
        return name.rpartition(".")[2]
    if folder == "objects.git":
        return name
    if folder == "reserve":
        return folder
    if folder == "locks" or name.startswith(("lock", "scan.lock")):
        return "lock"
    if folder.startswith("workspaces/"):
        return "scan details" if name.startswith("scan.details") else name
    known = {"catalogue.backup.sqlite3.gz": "backup", "catalogue.backup.sqlite3.1.gz": "backup"}
    return known.get(name, name)


def regions_of(path: str, content: bytes) -> Regions:
    """Return the parts of a file that are told apart: their names, where they begin and end."""
    size = len(content)
    kind = kind_of(path)
    if kind == "pack":
        middle = (_PACK_HEADER + size - _TRAILER) // 2
        return {
            "header": (0, _PACK_HEADER),
            "first entry's header": (_PACK_HEADER, _PACK_HEADER + 3),
            "bodies": (_PACK_HEADER + 3, middle),
            "later bodies": (middle, size - _TRAILER),
            "trailer": (size - _TRAILER, size),
        }
    if kind == "idx":
        count = int.from_bytes(content[1028:1032], "big")
        ids = 1032 + 20 * count
        return {
            "mark": (0, 8),
            "fan-out": (8, 1032),
            "ids": (1032, ids),
            "checksums of entries": (ids, ids + 4 * count),
            "offsets": (ids + 4 * count, ids + 8 * count),
            "checksums": (size - 2 * _TRAILER, size),
        }
    if path.endswith(".sqlite3"):
        return {"header": (0, _SQLITE_HEADER), "first page": (_SQLITE_HEADER, 4096), "pages": (4096, size)}
    if path.endswith(".sqlite3-wal"):
        first = _LOG_HEADER + _FRAME_HEADER
        return {"header": (0, _LOG_HEADER), "a frame's header": (_LOG_HEADER, first), "pages": (first, size)}
    if path.endswith(".gz"):  # time, effort and system of a gzip header are nobody's
        return {"mark": (0, 4), "content": (10, size)}
    return {"bytes": (0, size)}


def trials(states: dict[str, Path], older: Path, *, bits: int, seed: int) -> Iterator[Trial]:
    """Yield each damage to each region of each file of each state, with a few bits of each region."""
    chance = random.Random(seed)
    for state, folder in states.items():
        files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
        for name, path in files.items():
            if name == "README" or (name.startswith("reserve/") and name != "reserve/00"):
                continue  # read by nobody, and one of many that are alike
            content = path.read_bytes()
            siblings = [other for other in files if other != name and kind_of(other) == kind_of(name)]
            siblings = siblings or [
                other for other in ("format", "machine", "objects.git/HEAD") if other != name
            ]
            for damage in DAMAGES:
                for region, (start, last) in regions_of(name, content).items():
                    end = min(last, len(content))
                    for _ in range(bits if damage == "one bit" else 1):
                        at = chance.randrange(start, end) if end > start else 0
                        trial = Trial(
                            state=state,
                            kind=kind_of(name),
                            file=name,
                            region="" if damage in _WHOLE else region,
                            damage=damage,
                            at=at if damage == "one bit" else start,
                            size=end - start,
                            bit=chance.randrange(8),
                            other=chance.choice(siblings) if damage == "swapped" else "",
                        )
                        if _is_meant(trial, content, older):
                            yield trial
                    if damage in _WHOLE:
                        break


def _is_meant(trial: Trial, content: bytes, older: Path) -> bool:
    """Tell whether a damage changes the file at all."""
    if trial.damage == "older":
        before = older / trial.file
        return before.is_file() and before.read_bytes() != content
    if trial.damage in {"one bit", "cut", "zeroed", "emptied"}:
        return trial.size > 0 and (trial.damage != "zeroed" or any(content[trial.at : trial.at + trial.size]))
    return True


def harm(store: Path, trial: Trial, *, older: Path) -> None:
    """Do to a store what a trial says."""
    _HARMS[trial.damage](store / trial.file, trial, store, older)


def _missing(path: Path, _trial: Trial, _store: Path, _older: Path) -> None:
    path.unlink()


def _emptied(path: Path, _trial: Trial, _store: Path, _older: Path) -> None:
    path.write_bytes(b"")


def _one_bit(path: Path, trial: Trial, _store: Path, _older: Path) -> None:
    content = bytearray(path.read_bytes())
    content[trial.at] ^= 1 << trial.bit
    path.write_bytes(content)


def _appended(path: Path, trial: Trial, _store: Path, _older: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes([trial.at % 256]))


def _cut(path: Path, trial: Trial, _store: Path, _older: Path) -> None:
    path.write_bytes(path.read_bytes()[: trial.at + trial.size // 2])


def _zeroed(path: Path, trial: Trial, _store: Path, _older: Path) -> None:
    content = path.read_bytes()
    end = trial.at + trial.size
    path.write_bytes(content[: trial.at] + bytes(trial.size) + content[end:])


def _swapped(path: Path, trial: Trial, store: Path, _older: Path) -> None:
    other = store / trial.other
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)


def _of_before(path: Path, trial: Trial, _store: Path, older: Path) -> None:
    shutil.copyfile(older / trial.file, path)


_HARMS: dict[str, Callable[[Path, Trial, Path, Path], None]] = dict(
    zip(
        DAMAGES,
        (_missing, _emptied, _one_bit, _appended, _cut, _zeroed, _swapped, _of_before),
        strict=True,
    )
)


def sample(every: Sequence[Trial], *, seed: int, most: int) -> list[Trial]:
    """Return some trials, of each kind of file with each damage at least one while there is room."""
    chance = random.Random(seed)
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in every:
        groups.setdefault((trial.kind, trial.damage), []).append(trial)
    chosen = [chance.choice(group) for group in groups.values()]
    chance.shuffle(chosen)
    return chosen[:most]
