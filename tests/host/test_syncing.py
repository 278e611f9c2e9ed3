"""Files are written whole and carried through to the disk side by side; what was not is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import get_native_id

import pytest

from lastgood.files import sync_all, write_pieces
from lastgood.restore.site import Threads
from tools.living import eventually

COUNTS = [0, 1, 2, 3, 4, 5, 10, 30]


@pytest.mark.parametrize("count", COUNTS)
def test_each_is_synced_once(count: int) -> None:
    synced: list[int] = []
    assert sync_all(range(1000, 1000 + count), sync=synced.append) == {}
    assert sorted(synced) == list(range(1000, 1000 + count))


@pytest.mark.parametrize("count", COUNTS[1:])
def test_one_that_fails_is_told_and_the_others_are_synced(count: int) -> None:
    for failing in range(1000, 1000 + count):
        synced: list[int] = []

        def sync(descriptor: int, *, failing: int = failing, synced: list[int] = synced) -> None:
            if descriptor == failing:
                raise OSError(errno.ENOSPC, "full")
            synced.append(descriptor)

        troubles = sync_all(range(1000, 1000 + count), sync=sync)
        assert {descriptor: error.errno for descriptor, error in troubles.items()} == {failing: errno.ENOSPC}
        assert len(synced) == count - 1


def test_what_ends_a_thread_leaves_the_rest_of_its_share_told_as_not_synced() -> None:
    def sync(descriptor: int) -> None:
        if descriptor == 1001:
            raise SystemExit  # which ends a thread without a word

    troubles = sync_all(range(1000, 1020), sync=sync)
    assert 1001 in troubles
    assert troubles[1001].errno == errno.EIO
    assert 1000 not in troubles


def test_closed_descriptors_are_told() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    assert {error.errno for error in sync_all([reader, writer]).values()} == {errno.EBADF}


@pytest.mark.parametrize("stay", [True, False])
def test_threads_do_all_that_they_are_told_and_end(*, stay: bool) -> None:
    done: list[int] = []

    def work() -> None:
        done.append(get_native_id())

    with Threads(stay=stay) as threads:
        for _ in range(5):
            threads.beside(work).wait()
        threads.begin(work)  # which nobody waits for
    assert eventually(
        lambda: len(done) == 6 and set(map(str, done)).isdisjoint(os.listdir("/proc/self/task"))
    )
    assert get_native_id() not in done


def test_threads_that_are_to_end_soon_do_what_they_are_told_first() -> None:
    done: list[int] = []

    def work() -> None:
        done.append(get_native_id())

    with Threads() as threads:
        threads.beside(work).wait()
        threads.end_soon()
        for _ in range(3):
            threads.beside(work).wait()
        assert eventually(lambda: set(map(str, done)).isdisjoint(os.listdir("/proc/self/task")))
    assert len(done) == 4


def test_what_ends_a_thread_that_stays_is_told_and_others_go_on() -> None:
    def work() -> None:
        raise SystemExit  # which ends a thread without a word

    with Threads() as threads:
        ended = threads.beside(work)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            ended.wait()
        done: list[int] = []
        threads.beside(lambda: done.append(1)).wait()
        assert done == [1]


@pytest.mark.parametrize("count", [0, 1, 1024, 1025, 5000])
def test_pieces_are_written_one_after_another(tmp_path: Path, count: int) -> None:
    pieces = [b"%d\n" % number for number in range(count)]
    with (tmp_path / "file").open("wb") as file:
        write_pieces(file.fileno(), pieces)
    assert (tmp_path / "file").read_bytes() == b"".join(pieces)


def test_pieces_of_which_only_some_were_taken_are_written_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal, or a disk that fills up, ends a call of the system in the midst."""
    whole = os.writev
    monkeypatch.setattr(os, "writev", lambda descriptor, pieces: whole(descriptor, pieces[:1]))
    with (tmp_path / "file").open("wb") as file:
        write_pieces(file.fileno(), [b"one\n", b"two\n", b"", b"three\n"])
    assert (tmp_path / "file").read_bytes() == b"one\ntwo\nthree\n"
