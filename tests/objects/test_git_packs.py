"""An engine that lives long looks objects up in a table, and still sees what comes and goes."""

from __future__ import annotations

import os
import time

import pytest

from lastgood.testing.engine_suite import save
from lastgood.testing.git_store import GitStore as Store


def test_what_comes_and_goes_is_seen_by_an_engine_that_has_looked_often(store: Store) -> None:
    other = store.open()

    def readable(commit: bytes, content: bytes) -> bool:
        (entry,) = store.engine.directory(store.engine.contents(commit).workspace)
        return store.engine.read_blob(entry.oid) == content

    kept = {save(store.engine, number, {b"f": b"%d" % number}): b"%d" % number for number in range(3)}
    for turn in range(4):
        assert len(store.engine.missing([os.urandom(20) for _ in range(500)])) == 500
        for number in range(10 * turn + 10, 10 * turn + 13):
            kept[save(other, number, {b"f": b"%d" % number})] = b"%d" % number
            assert all(readable(commit, content) for commit, content in kept.items())
        if turn == 1:
            assert other.consolidate()
        if turn == 2:
            store.engine.close()
        assert all(readable(commit, content) for commit, content in kept.items())


def test_what_is_gone_is_not_found_by_an_engine_that_has_looked_often(store: Store) -> None:
    commits = [save(store.engine, number, {b"f": b"%d" % number}) for number in range(4)]
    store.engine.missing([os.urandom(20) for _ in range(500)])
    store.open().sweep(commits[2:])
    store.engine.refresh()
    assert set(store.engine.missing(commits)) == set(commits[:2])


def test_a_pack_that_came_in_the_tick_of_the_last_look_is_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of files goes on in steps of some milliseconds: a folder may change twice at one time."""
    other = store.open()
    look = os.stat
    tick = time.time_ns() + 3600 * 10**9  # however slow the machine, it is not over

    def frozen(path: str | bytes | int, **options: int) -> os.stat_result:
        seen = look(path, **options)  # type: ignore[arg-type]
        if path != os.fsencode(store.packs):
            return seen
        return os.stat_result(tuple(seen), {"st_mtime_ns": tick})

    monkeypatch.setattr(os, "stat", frozen)
    assert store.engine.missing([b"\x01" * 20])
    commit = save(other, 1, {b"f": b"content"})
    assert store.engine.missing([commit]) == set()
    assert store.engine.contents(commit).manifest == b'{"number":1}'
