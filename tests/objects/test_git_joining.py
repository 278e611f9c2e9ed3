"""Packs are joined so that the whole stays small, and so that no save pays for the size of the store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lastgood.engine import Engine
from lastgood.testing.engine_suite import directory_entry, file_entry, save
from lastgood.testing.git_store import GitStore

FILES = 60


@pytest.fixture
def one_thread(tmp_path: Path) -> bytes:
    """Return where a git is that looks for deltas in one thread: several share them out as time has it."""
    git = tmp_path / "programs" / "git"
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\nexec {shutil.which("git")} -c pack.threads=1 "$@"\n')
    git.chmod(0o755)
    return os.fsencode(git.parent)


def save_folder(engine: Engine, number: int, contents: list[bytes]) -> bytes:
    """Publish a checkpoint with one folder below a folder."""
    writer = engine.writer()
    entries = [file_entry(b"%02d" % place, writer.blob(one)) for place, one in enumerate(contents)]
    below = writer.directory(entries)
    folder = directory_entry(b"src", below, 0o755)
    commit = writer.checkpoint(
        id=f"ckpt_{number:016x}",
        manifest=b"{}",
        workspace=writer.directory([folder]),
        state={},
        created_at=number * 10**9,
    )
    writer.publish()
    return commit


def bytes_of_trees(store: GitStore) -> int:
    """Return what all trees take, compressed and as deltas."""
    told = [
        line.split()
        for index in store.packs.glob("*.idx")
        for line in store.git("verify-pack", "-v", str(index)).splitlines()
    ]
    return sum(int(row[3]) for row in told if len(row) > 4 and row[1] == b"tree")


@pytest.mark.parametrize("way", ["joined", "swept"])
def test_a_store_that_is_joined_again_and_again_is_as_small_as_if_it_were_once(
    store: GitStore, tmp_path: Path, one_thread: bytes, way: str
) -> None:
    """Versions of a folder become deltas of their neighbours in time, however often they were rewritten."""
    (tmp_path / "once").mkdir()
    once = GitStore(tmp_path / "once")
    again_and_again, at_once = (one.open(search_path=one_thread) for one in (store, once))
    commits = []
    contents = [os.urandom(9) for _ in range(FILES)]
    for turn in range(80):
        contents[turn * 7 % FILES] = os.urandom(9)
        save_folder(at_once, turn, contents)
        commits.append(save_folder(again_and_again, turn, contents))
        if turn % 16 == 15:
            assert again_and_again.consolidate()
    assert at_once.consolidate()
    if way == "swept":
        again_and_again.sweep(commits[1:])
        at_once.sweep(commits[1:])

    assert bytes_of_trees(store) <= 1.05 * bytes_of_trees(once)
    once.close()
    assert list(store.open().check()) == []
    store.judge()


def test_what_is_due_leaves_a_pack_alone_that_outweighs_the_others(store: GitStore) -> None:
    large = save(store.engine, 0, {b"large": os.urandom(300_000)})
    (first,) = store.pack_files()
    small = [save(store.engine, number, {b"f": b"%d" % number}) for number in range(1, 30)]

    assert store.engine.consolidate("due")

    assert first in store.pack_files()
    assert store.engine.packs() == 2
    assert set(store.open().commits()) == {large, *small}
    assert list(store.open().check()) == []
    store.judge()


def test_what_is_due_is_all_of_it_once_the_others_weigh_enough(store: GitStore) -> None:
    for number in range(6):
        save(store.engine, number, {b"f": os.urandom(10_000)})

    assert store.engine.consolidate("due")

    assert store.engine.packs() == 1
    store.judge()


def test_a_single_pack_is_never_due(store: GitStore) -> None:
    save(store.engine, 0, {b"large": os.urandom(300_000)})
    save(store.engine, 1, {b"f": b"small"})

    assert not store.engine.consolidate("due")
    assert store.engine.packs() == 2


def test_a_growing_store_writes_each_object_a_few_times_only(store: GitStore) -> None:
    """However large the store, a save costs maintenance about the same."""
    written = 0
    save(store.engine, 0, {b"large": os.urandom(400_000)})
    for number in range(1, 97):
        save(store.engine, number, {b"f": os.urandom(2000)})
        before = set(store.pack_files())
        if number % 8 == 0 and store.engine.consolidate("due"):
            written += sum(pack.stat().st_size for pack in set(store.pack_files()) - before)

    assert store.engine.packs() < 5
    assert written < 1_200_000  # all of it each time would be six millions
    store.judge()


def test_objects_of_no_checkpoint_are_joined_too(store: GitStore) -> None:
    """What a save stored anew because the store had lost it is dropped by no joining."""
    writer = store.engine.writer()
    blob = writer.blob(b"nobody's")
    tree = writer.directory([file_entry(b"f", blob)])
    writer.publish()
    save(store.engine, 1, {b"f": b"one"})

    assert store.engine.consolidate()

    assert store.engine.packs() == 1
    assert store.engine.read_blob(blob) == b"nobody's"
    (entry,) = store.engine.directory(tree)
    assert entry.oid == blob
