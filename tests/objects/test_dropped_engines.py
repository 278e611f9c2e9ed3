"""An engine that a program drops without closing it holds nothing any more."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

import lastgood
from lastgood.errors import Damaged
from lastgood.objects.engine import GitEngine
from lastgood.objects.pack import PackFile
from lastgood.testing.engine_suite import save
from lastgood.testing.git_store import GitStore as Store
from tools.values import not_none

# From this size on an index is mapped.
OBJECTS = 40_000


def held(store: Store) -> list[str]:
    """Return the files of a store that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # with which they were listed
            continue
        if path.startswith(str(store.root)):
            found.append(path)
    return found


def mapped(store: Store) -> list[str]:
    """Return the files of a store that this process has mapped."""
    with open("/proc/self/maps") as file:
        return [line for line in file if str(store.root) in line]


def opened(store: Store) -> GitEngine:
    """Open a store's engine, which nobody else has."""
    return GitEngine(os.fsencode(store.root), temporary=os.fsencode(store.temporary))


@pytest.fixture
def filled(store: Store) -> Store:
    """Return a store of one small pack, and one with a large index, that nobody has open."""
    save(store.engine, 1, {b"small": b"one"})
    writer = store.engine.writer()
    for number in range(OBJECTS):
        writer.blob(b"%d" % number)
    writer.publish(durable=False)
    store.engine.close()
    return store


def test_an_engine_that_is_dropped_lets_go_of_its_packs(filled: Store) -> None:
    engine = opened(filled)
    for commit in engine.commits():
        engine.contents(commit)
    assert held(filled) != []
    assert mapped(filled) != []
    del engine
    gc.collect()
    assert held(filled) == []
    assert mapped(filled) == []


def test_what_is_being_read_stays_open_when_the_engine_is_dropped(store: Store) -> None:
    large = os.urandom(3_000_000)
    writer = store.engine.writer()
    oid = writer.blob(large)
    writer.publish(durable=False)
    engine = opened(store)
    pack, offset = next(engine.stored.find(oid))
    streamed = not_none(pack.stream(offset))
    del engine, pack
    gc.collect()
    assert b"".join(streamed[2]) == large


def test_a_program_that_ends_with_an_open_engine_says_nothing(filled: Store) -> None:
    code = f"""
from lastgood.objects.engine import GitEngine
from lastgood.objects.pack import PackFile
engine = GitEngine({os.fsencode(filled.root)!r}, temporary={os.fsencode(filled.temporary)!r})
for commit in engine.commits():
    engine.contents(commit)
ring = [engine]
ring.append(ring)
"""
    source = os.path.dirname(os.path.dirname(lastgood.__file__))
    run = [sys.executable, "-X", "dev", "-c", code]
    done = subprocess.run(run, env={"PYTHONPATH": source}, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_pack_whose_closing_was_interrupted_does_not_close_the_next_file(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which gets the same number."""
    name = next(one for one in os.listdir(filled.packs) if one.endswith(".pack")).removesuffix(".pack")
    pack = PackFile(os.fsencode(filled.packs), os.fsencode(name))
    number, close = pack.descriptor, os.close

    def interrupted(descriptor: int) -> None:
        close(descriptor)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pack.close()
    os.dup2(0, number)
    del pack
    gc.collect()
    os.close(number)  # which fails if that was done


def test_a_search_through_every_pack_leaves_none_open(store: Store) -> None:
    for number in range(3):
        save(store.engine, number, {b"file": b"%d" % number})
    engine = opened(store)
    before = held(store)

    with pytest.raises(Damaged):
        engine.read_blob(bytes(20))

    assert [one for one in held(store) if one.endswith(".pack")] == before


def test_a_pack_that_somebody_else_published_meanwhile_is_not_left_open(store: Store) -> None:
    writers = [opened(store).writer() for _ in range(2)]
    for one in writers:
        one.blob(b"of both")
    before = held(store)

    for one in writers:
        one.publish()

    assert len(list(store.packs.glob("*.pack"))) == 1
    assert [path for path in held(store) if ".pack" in path] == before
