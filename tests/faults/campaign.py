"""Random use of a store on a disk that fills up again and again, beside a plain copy of every checkpoint."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from random import Random

from faults.disks import SmallDisk
from faults.injector import Blow, Injector, Trial
from faults.stage import Tree, differences, tree_of
from lastgood.errors import Busy, NoRoom

NO_ROOM = NoRoom.exit_code
BUSY = Busy.exit_code
_LEAVINGS = (0, 0, 0, 2000, 40_000, 100_000, 300_000)
_FIRST_CALLS = 60


class Campaign:
    """One pass: its steps are drawn from ``random``, and each is judged at once."""

    def __init__(
        self, *, disk: SmallDisk, workspace: Path, aside: Path, injector: Injector, random: Random
    ) -> None:
        self._disk = disk
        self._random = random
        self._injector = injector
        self._workspace = workspace
        self._aside = aside
        self._store = disk.place / "store"
        # What every acknowledged checkpoint holds, by its id; without those that a prune may have taken.
        self._held: dict[str, Tree] = {}
        self._doubtful: set[str] = set()
        self._history: list[str] = []
        self._full = False

    def run(self, length: int) -> None:
        """Do so many steps, then free the disk and prove that nothing was lost and all goes on."""
        self._workspace.mkdir()
        self._edit()
        assert self._save(), self._where("the first save")
        steps = (
            [self._edit_and_save] * 5
            + [self._fill] * 5
            + [self._prune] * 4
            + [self._kill_in_restore] * 3
            + [self._recover] * 3
            + [self._restore] * 2
            + [self._clear] * 2
        )
        for _ in range(length):
            self._random.choice(steps)()
            self._look()
        self._clear()
        self._settle()
        self._edit()
        assert self._save(), self._where("the save after the disk was freed")
        self._look()
        self._prove()

    def _edit_and_save(self) -> None:
        self._edit()
        self._save()

    def _edit(self) -> None:
        """Change some files, as far as the disk takes it."""
        random = self._random
        for _ in range(random.randrange(1, 5)):
            path = self._workspace / f"file-{random.randrange(9)}"
            try:
                if random.random() < 0.2:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(random.randbytes(random.choice((10, 3_000, 60_000))))
            except OSError:
                return

    def _save(self) -> bool:
        trial = self._do("save")
        saved = trial.said("saved")
        if saved is None:
            assert trial.status in {NO_ROOM, BUSY}, self._where(f"a save: {trial.lines}")
            return False
        self._held[saved] = tree_of(self._workspace)
        return True

    def _fill(self) -> None:
        leave = self._random.choice(_LEAVINGS)
        if self._random.random() < 0.6:
            self._disk.fill_bytes(leave=leave)
        else:
            self._disk.fill_inodes(leave=min(leave, 4))
        self._full = True
        self._history.append(f"filled, {self._disk.free()} free")

    def _clear(self) -> None:
        self._disk.empty()
        self._full = False
        self._history.append(f"freed, {self._disk.free()} free")

    def _prune(self) -> None:
        reserve = self._has_reserve()
        before = self._disk.free()[0]
        keep = self._random.randrange(1, 4)
        newest = self._listed()[:keep]
        trial = self._do("prune", asked={"keep": keep, "now": True})
        gone = set(self._held) - set(newest)
        if trial.said("pruned"):
            for one in gone - set(self._listed()):
                del self._held[one]
            assert self._disk.free()[0] >= before - (1 << 16) or not self._full, self._where("room was lost")
            return
        self._doubtful |= gone
        assert trial.status in {NO_ROOM, BUSY}, self._where(f"a prune: {trial.lines}")
        if trial.status == NO_ROOM and not self._interrupted():
            assert not reserve, self._where(f"a prune with a reserve: {trial.lines}")

    def _restore(self) -> None:
        before = tree_of(self._workspace)
        ref = self._random.choice(self._listed())
        trial = self._do("restore", ref=ref)
        if trial.said("restored"):
            self._assert_tree(self._held[ref], "a restore")
        elif not self._interrupted():
            assert trial.status in {NO_ROOM, BUSY}, self._where(f"a restore: {trial.lines}")
            self._assert_tree(before, "a restore that was refused")

    def _kill_in_restore(self) -> None:
        ref = self._random.choice(self._listed())
        self._do("restore", ref=ref, blow=Blow(at=self._random.randrange(1, _FIRST_CALLS)))

    def _recover(self) -> None:
        if not self._interrupted():
            return
        apart = not self._workspace.is_relative_to(self._disk.place)
        reserve, free = self._has_reserve(), self._disk.free()
        trial = self._do("recover", roll_back=self._random.random() < 0.5)
        if trial.said("recovered"):
            return
        assert trial.status == NO_ROOM, self._where(f"a recovery: {trial.lines}")
        assert not (reserve and apart), self._where(f"a recovery with a reserve, {free}: {trial.lines}")

    def _settle(self) -> None:
        if self._interrupted():
            trial = self._do("recover", roll_back=self._random.random() < 0.5)
            assert trial.said("recovered"), self._where(f"a recovery with room: {trial.lines}")

    def _look(self) -> None:
        """Whatever the disk has left: all that reads works, and nothing acknowledged is missing."""
        listed = self._listed()
        missing = set(self._held) - set(listed) - self._doubtful
        assert not missing, self._where(f"lost: {missing}")
        for one in self._doubtful - set(listed):
            self._held.pop(one, None)
        self._doubtful &= set(listed)
        ref = self._random.choice([one for one in listed if one in self._held])
        shutil.rmtree(self._aside, ignore_errors=True)
        trial = self._do("look", ref=ref, aside=str(self._aside))
        assert trial.said("looked"), self._where(f"to read: {trial.status} {trial.lines}")
        assert trial.said("verified") == "True", self._where(f"damaged: {trial.lines}")
        found = tree_of(self._aside)
        assert found == self._held[ref], self._where(f"{ref}: {differences(found, self._held[ref])}")

    def _prove(self) -> None:
        for ref, tree in self._held.items():
            shutil.rmtree(self._aside, ignore_errors=True)
            trial = self._do("look", ref=ref, aside=str(self._aside))
            assert trial.said("aside") == "0", self._where(f"{ref}: {trial.lines}")
            found = tree_of(self._aside)
            assert found == tree, self._where(f"{ref}: {differences(found, tree)}")

    def _listed(self) -> list[str]:
        trial = self._do("list")
        said = trial.said("listed")
        assert said is not None, self._where(f"to list: {trial.status} {trial.lines}")
        return [one for one in json.loads(said) if one in self._held]

    def _interrupted(self) -> bool:
        return any(self._store.glob("workspaces/*/restore.journal"))

    def _has_reserve(self) -> bool:
        return os.path.lexists(self._store / "reserve" / "00")

    def _assert_tree(self, expected: Tree, what: str) -> None:
        found = tree_of(self._workspace)
        assert found == expected, self._where(f"{what}: {differences(found, expected)}")

    def _do(self, verb: str, *, blow: Blow = Blow(), **asked: object) -> Trial:  # noqa: B008 - a frozen value
        places = {"workspace": str(self._workspace), "store": str(self._store)}
        trial = self._injector.run(verb, {**places, **asked}, roots=[self._workspace, self._store], blow=blow)
        told = trial.lines[0][:200] if trial.lines else f"killed at {trial.hit}"
        if verb not in {"look", "list"}:
            self._history.append(f"{verb} {asked or ''}: {told}; {self._disk.free()} free")
        escaped = trial.said("escaped")
        assert escaped is None, self._where(f"{verb} fell: {escaped}")
        return trial

    def _where(self, what: str) -> str:
        return "\n".join(("", *self._history[-12:], what))
