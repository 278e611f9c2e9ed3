"""The first save of a project, whose packs a forked process copies, killed or failed at any call of both."""

from __future__ import annotations

import errno

import pytest

from faults.cli import git
from faults.injector import Blow, Injector, Mode, Trial
from faults.scenes import assert_collected, assert_unharmed, listed
from faults.stage import Stage, fill
from faults.sweep import sweep
from tools.harm import packs_of

pytestmark = pytest.mark.faults

FILES = 320  # with fewer contents than 256, nothing is copied
BLOWS = {
    "killed": Blow(),
    "full-once": Blow(mode=Mode.FAIL, error=errno.ENOSPC),
    "bad-disk": Blow(mode=Mode.FAIL_FROM, error=errno.EIO),
    "short": Blow(mode=Mode.SHORT),
}


def packed(stage: Stage) -> None:
    """Build: a project of many files, all in one pack."""
    root = stage.workspace
    fill(root)
    (root / "many").mkdir()
    for number in range(FILES):
        (root / "many" / f"f{number}").write_text(f"content {number}\n" * (number % 9))
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "all")
    git(root, "gc", "-q")


@pytest.mark.parametrize("name", BLOWS)
def test_a_first_save_that_copies_is_whole_or_says_so(injector: Injector, stage: Stage, name: str) -> None:
    stage.prepare(packed, once=True)
    packs: list[int] = []

    def check(trial: Trial, where: str) -> None:
        saved = trial.said("saved")
        assert saved or trial.killed or trial.said("failed"), f"{where}: {trial.lines}"
        packs.append(len(packs_of(stage.store, ".idx")) if saved else 0)
        assert_unharmed(stage, (saved,) if saved else (), where)
        if not saved and not trial.killed:
            assert len(listed(stage)) == 1, where  # the one that was just made to see whether it can be
        assert_collected(stage, where)

    sweep(injector, stage, "save", {}, blow=BLOWS[name], check=check, points=24)
    assert max(packs) == 2
