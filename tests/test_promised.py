"""The bench's least that keeps what is promised keeps it: else it were no bound of anything."""

from __future__ import annotations

import sqlite3
import subprocess
from _thread import _count
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.judge import git_faults
from tools.living import eventually

if TYPE_CHECKING:
    from promised import Promised

NAMES = ("top", "one/a", "one/b", "one/deep/c", "two/d")


class Bench:
    """A workspace and a store of the least, and git to judge both."""

    def __init__(self, folder: Path) -> None:
        self.root, self.store = folder / "project", folder / "store"
        for name in NAMES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(f"{name} as it was\n" * 100)

    def begin(self) -> Promised:
        """Begin as a new process does."""
        from promised import Promised

        return Promised(str(self.root), str(self.store))

    def change(self, *names: str) -> None:
        for name in names:
            (self.root / name).write_text(f"{name} as it is now\n" * 200)

    def tree(self, checkpoint: str) -> str:
        """Return the tree of a checkpoint's files."""
        with closing(sqlite3.connect(self.store / "catalogue")) as rows:
            [(commit,)] = rows.execute("SELECT commit_id FROM checkpoint WHERE id = ?", (checkpoint,))
        return git("--git-dir", self.store / "objects.git", "rev-parse", f"{commit}:workspace")

    def made_by_git(self) -> str:
        """Return the tree that git makes of the files as they are now."""
        judge = ("--git-dir", self.store.parent / "judge", "--work-tree", self.root)
        git("init", "-q", "--bare", judge[1])
        git(*judge, "add", "-A")
        return git(*judge, "write-tree")


def git(*words: str | Path) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "bench")
    bench, threads = Bench(tmp_path), _count()
    yield bench
    assert git_faults(bench.store) == ""
    assert eventually(lambda: threads_left() <= threads)


def threads_left() -> int:
    from promised import end_idle

    end_idle()
    return _count()


def test_what_it_saves_is_what_git_would_though_each_save_is_another_process(bench: Bench) -> None:
    for names in ((), ("one/deep/c",), ("two/d", "top")):
        bench.change(*names)
        with closing(bench.begin()) as least:
            made = least.save()
    assert bench.tree(made) == bench.made_by_git()


def test_what_it_restores_is_as_it_was_and_its_guard_holds_what_went(bench: Bench) -> None:
    with closing(bench.begin()) as least:
        target, before = least.save(), bench.made_by_git()
        bench.change("one/a", "one/b", "two/d")
        went = bench.made_by_git()
        report = least.restore(target)
    assert bench.made_by_git() == before
    assert bench.tree(str(report["guard"])) == went
    assert report["outcomes"] == dict.fromkeys([b"one/a", b"one/b", b"two/d"], "restored")


def test_it_knows_what_it_restored_in_the_next_process_and_the_next_restore(bench: Bench) -> None:
    with closing(bench.begin()) as least:
        target = least.save()
        for name in ("one/a", "one/a", "top"):
            bench.change(name)
            least.restore(target)
        assert least.unchanged() == target
    with closing(bench.begin()) as least:
        assert least.unchanged() == target


def test_what_asks_for_all_that_it_leaves_out_finds_the_same(bench: Bench) -> None:
    from least import Asking

    with closing(Asking(str(bench.root), str(bench.store))) as asking:
        made = asking.save()
        assert asking.unchanged() == made
