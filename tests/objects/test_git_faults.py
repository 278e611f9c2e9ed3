"""Kills, full disks and processes that hand over: what was published stays, the rest leaves no trace."""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import resource
import signal
import time
from collections.abc import Callable
from functools import partial

import pytest

from lastgood.errors import LastgoodError, NoRoom, Storage
from lastgood.objects import sweep
from lastgood.testing.engine_suite import add_checkpoint, save
from lastgood.testing.git_store import GitStore as Store
from tools.forks import ended, forked
from tools.living import eventually

MUTATING = ("write", "writev", "fsync", "rename", "unlink", "open", "ftruncate", "mkdir", "pwrite")


def kill_at(step: int) -> None:
    """Make this process die in front of its mutating system call of a number."""
    left = [step]

    def wrap(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return counted

    for name in MUTATING:
        setattr(os, name, wrap(getattr(os, name)))


def killed_everywhere(store: Store, work: Callable[[], object], after: Callable[[int], None]) -> int:
    """Repeat some work, killed one step later each time, until it gets through; return the steps."""
    for step in range(400):

        def dying(step: int = step) -> None:
            kill_at(step)
            work()

        if ended(forked(dying)) == 0:
            return step
        after(step)
    raise AssertionError("it never got through")


def test_a_save_killed_anywhere_leaves_the_store_sound(store: Store) -> None:
    first = save(store.engine, 1, {b"a": b"one"})
    text = os.urandom(6 << 20)

    def work() -> None:
        engine = store.open()
        writer = engine.writer()
        add_checkpoint(writer, 2, {b"a": b"one", b"b": text})
        writer.publish()

    def after(_step: int) -> None:
        engine = store.open()
        assert engine.contents(first).manifest == b'{"number":1}'
        assert all(fault.mendable for fault in engine.check())
        engine.collect_leftovers()
        assert list(store.temporary.iterdir()) == []
        engine.repair()
        assert list(engine.check()) == []
        engine.sweep([first])
        assert set(engine.commits()) == {first}

    assert killed_everywhere(store, work, after) > 8
    store.judge()


def test_joining_killed_anywhere_loses_nothing(store: Store) -> None:
    commits = {save(store.engine, number, {b"a": b"%d" % number}) for number in range(3)}

    def work() -> None:
        store.open().consolidate()

    def after(_step: int) -> None:
        engine = store.open()
        assert set(engine.commits()) == commits
        assert all(fault.mendable for fault in engine.check())
        engine.collect_leftovers()
        assert list(store.temporary.iterdir()) == []

    assert killed_everywhere(store, work, after) > 8
    store.open().repair()
    store.judge()


def test_a_sweep_killed_anywhere_keeps_the_live(store: Store) -> None:
    commits = [save(store.engine, number, {b"a": b"%d" % number}) for number in range(4)]

    def work() -> None:
        store.open().sweep(commits[2:])

    def after(_step: int) -> None:
        engine = store.open()
        assert set(engine.commits()) >= set(commits[2:])
        assert all(fault.mendable for fault in engine.check())

    assert killed_everywhere(store, work, after) > 8
    assert set(store.open().commits()) >= set(commits[2:])


def test_a_repair_killed_anywhere_is_finished_by_the_next(store: Store) -> None:
    save(store.engine, 1, {b"a": b"one", b"z": os.urandom(5000)})
    (victim,) = store.pack_files()
    kept = save(store.engine, 2, {b"a": b"two"})
    content = bytearray(victim.read_bytes())
    content[-200] ^= 1

    def after(_step: int) -> None:
        assert kept in set(store.open().commits())
        assert not victim.exists() or victim.read_bytes() == content

    victim.write_bytes(content)
    assert killed_everywhere(store, lambda: store.open().repair(), after) > 3
    store.open().repair()
    assert list(store.open().repair()) == []
    assert (store.root / "damaged" / victim.name).read_bytes() == content


@pytest.mark.parametrize("limit", [0, 100, 5000, 200_000, 5 << 20])
def test_a_full_disk_is_said_and_leaves_nothing(store: Store, limit: int) -> None:
    first = save(store.engine, 1, {b"a": b"one"})
    before = sorted(path.name for path in store.packs.iterdir())

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        engine = store.open()
        writer = engine.writer()
        try:
            for number in range(80):
                writer.blob(os.urandom(100_000) + b"%d" % number)
            writer.publish()
        except Storage as error:
            assert error.details["errno"] == "EFBIG"
            assert error.hint
            writer.abandon()
            assert sorted(path.name for path in store.packs.iterdir()) == before
            assert list(store.temporary.iterdir()) == []
            return
        raise AssertionError("no failure was reported")

    assert ended(forked(work)) == 0
    assert set(store.open().commits()) == {first}


@pytest.mark.parametrize("failing", range(1, 3))
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_of_a_file_is_never_retried_into_success(
    store: Store, monkeypatch: pytest.MonkeyPatch, failing: int, code: int
) -> None:
    first = save(store.engine, 1, {b"a": b"one"})
    count = [0]
    real = os.fsync

    def fsync(descriptor: int) -> None:
        count[0] += 1
        if count[0] == failing:
            raise OSError(code, os.strerror(code))
        real(descriptor)

    writer = store.engine.writer()
    commit = add_checkpoint(writer, 2, {b"a": b"two"})
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(Storage):
        writer.publish()
    with pytest.raises(LastgoodError):
        writer.publish()
    assert store.open().missing([commit]) == {commit}
    assert set(store.open().commits()) == {first}
    assert list(store.open().check()) == []
    assert list(store.temporary.iterdir()) == []


def test_who_finds_a_pack_of_which_the_directory_was_not_synced_syncs_that_for_himself(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 1: to take the pack away would harm who relies on it by then."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        if len(synced) == 3:  # after both files
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    writer = store.engine.writer()
    commit = add_checkpoint(writer, 1, {b"a": b"one"})
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(Storage):
        writer.publish()
    another = store.open().writer()
    assert add_checkpoint(another, 1, {b"a": b"one"}) == commit
    another.publish()

    assert synced[2:] == [str(store.packs)] * 2
    assert store.open().missing([commit]) == set()


def test_a_living_writers_file_is_left_alone(store: Store) -> None:
    writer = store.engine.writer()
    oid = writer.blob(os.urandom(5 << 20))
    writer.blob(os.urandom(5 << 20))
    assert len(list(store.temporary.iterdir())) == 1
    assert store.open().collect_leftovers() == 0
    writer.publish()
    assert store.open().missing([oid]) == set()


def test_a_dead_writers_file_is_collected(store: Store) -> None:
    def work() -> None:
        writer = store.open().writer()
        writer.blob(os.urandom(9 << 20))
        os.kill(os.getpid(), signal.SIGKILL)

    ended(forked(work))
    assert len(list(store.temporary.iterdir())) == 1
    freed: list[int] = []

    def is_collected() -> bool:
        freed.append(store.engine.collect_leftovers())
        return sum(freed) > 4 << 20

    # What it forked to compress has the lock for a moment longer, until it has closed what it does not need.
    assert eventually(is_collected)
    assert list(store.temporary.iterdir()) == []


def test_files_of_others_are_not_collected(store: Store) -> None:
    (store.temporary / "something else").write_bytes(b"x")
    assert store.engine.collect_leftovers() == 0
    assert len(list(store.temporary.iterdir())) == 1


@pytest.mark.parametrize("size", [100, 9 << 20])
def test_a_pack_is_begun_in_one_process_and_finished_in_another(store: Store, size: int) -> None:
    content = os.urandom(size)
    handed = store.folder / "handed"

    def work() -> None:
        writer = store.open().writer()
        writer.blob(content)
        writer.blob(b"small")
        handed.write_bytes(marshal.dumps(dict(writer.detach())))

    assert ended(forked(work)) == 0
    assert store.engine.collect_leftovers() == 0
    writer = store.engine.resume(marshal.loads(handed.read_bytes()))
    assert store.open().collect_leftovers() == 0
    before = writer.stored_bytes
    oid = writer.blob(content)
    assert writer.stored_bytes == before
    more = writer.blob(b"more")
    writer.publish()
    assert store.open().read_blob(oid) == content
    assert store.open().read_blob(more) == b"more"
    assert list(store.temporary.iterdir()) == []
    store.judge()


def test_a_handed_over_pack_that_nobody_takes_is_collected_when_old(store: Store) -> None:
    writer = store.open().writer()
    writer.blob(os.urandom(9 << 20))
    writer.detach()
    (path,) = store.temporary.iterdir()
    del writer
    assert store.engine.collect_leftovers() == 0
    os.utime(path, (time.time() - 9000, time.time() - 9000))
    store.engine.collect_leftovers()
    left = list(store.temporary.iterdir())
    assert left == [path], "its first owner still lives, and holds it"


def test_a_resumed_pack_that_is_gone_is_said(store: Store) -> None:
    with pytest.raises(Storage):
        store.engine.resume({"path": b"/nonexistent/x", "memory": b"", "size": 12, "entries": []})


def test_a_durable_save_syncs_what_an_earlier_one_did_not(store: Store) -> None:
    writer = store.engine.writer()
    writer.blob(b"hello")
    writer.publish(durable=False)
    assert len(list((store.root / "unsynced").iterdir())) == 1
    save(store.open(), 1, {b"a": b"hello"})
    assert list((store.root / "unsynced").iterdir()) == []


def test_several_processes_publish_at_once(store: Store) -> None:
    def work(number: int) -> None:
        engine = store.open()
        for turn in range(10):
            save(engine, 100 * number + turn, {b"same": b"same", b"own": b"%d %d" % (number, turn)})

    children = [forked(partial(work, number)) for number in range(4)]
    assert [ended(child) for child in children] == [0] * 4
    assert len(set(store.engine.commits())) == 40
    assert list(store.engine.check()) == []
    store.judge()


def test_readers_go_on_while_packs_are_joined_and_swept(store: Store) -> None:
    commits = [save(store.engine, number, {b"a": b"%d" % number}) for number in range(6)]
    reader = store.open()
    assert reader.contents(commits[0]).manifest == b'{"number":0}'
    store.engine.consolidate()
    assert [reader.contents(commit).manifest for commit in commits][5] == b'{"number":5}'
    store.engine.sweep(commits[3:])
    assert reader.contents(commits[4]).manifest == b'{"number":4}'
    writer = reader.writer()
    oid = writer.blob(b"0")
    writer.publish()
    assert store.open().read_blob(oid) == b"0"


def test_temporary_files_are_locked_while_written(store: Store) -> None:
    writer = store.engine.writer()
    writer.blob(os.urandom(9 << 20))
    (path,) = store.temporary.iterdir()
    with path.open("rb") as stream, pytest.raises(BlockingIOError):
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    writer.abandon()
    assert list(store.temporary.iterdir()) == []


def test_a_folder_that_cannot_be_removed_spoils_no_joining(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: what is left is collected by a later maintenance."""
    for number in range(3):
        save(store.engine, number, {b"file": b"%d" % number})

    def rmdir(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as failing:
        failing.setattr(os, "rmdir", rmdir)
        assert store.engine.consolidate()
    assert os.listdir(store.temporary)

    store.engine.collect_leftovers()

    assert os.listdir(store.temporary) == []
    store.judge()


def test_what_a_full_disk_left_larger_is_not_told_as_bytes_freed() -> None:
    """K3: a pack may be larger than the one whose place it takes."""
    told = sweep._unfinished(NoRoom("full"), freed=-4096, idle=1 << 20, needs=5000)
    assert told.message.startswith("full; 0 bytes were freed, and about 1,048,576 more")
    assert told.details["freed_bytes"] == 0
