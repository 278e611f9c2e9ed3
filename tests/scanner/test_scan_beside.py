"""What another process reads of a large scan is what a look alone would find, whatever comes between."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood import worker
from lastgood.host import SystemClock
from lastgood.objects import deflate_process
from lastgood.objects.engine import GitEngine
from lastgood.scanner import beside, examine
from lastgood.scanner.states import Sheet
from lastgood.testing.clock import FakeClock
from tools.desk import Desk
from tools.living import children

LATER = 3600 * 1_000_000_000


class Meddler(FakeClock):
    """Says that nothing is young, and does something once where another process asks it."""

    def __init__(self) -> None:
        super().__init__(start=SystemClock().now() + LATER)
        self._here = os.getpid()
        self.harm: Callable[[], object] | None = None

    def now(self) -> int:
        self.meddle()
        return super().now()

    def meddle(self) -> None:
        if os.getpid() != self._here and self.harm is not None:
            harm, self.harm = self.harm, None
            harm()


@pytest.fixture
def clock() -> Meddler:
    return Meddler()


@pytest.fixture
def desk(tmp_path: Path, clock: Meddler, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Return a desk from whose second file on another process reads, whatever else is in this one."""
    monkeypatch.setattr(worker, "_count", int)
    monkeypatch.setattr(deflate_process, "_MOST_RESIDENT_BYTES", sys.maxsize)
    monkeypatch.setattr(examine, "_BESIDE_BYTES", 1)
    monkeypatch.setattr(beside, "_BATCH_BYTES", 4_000)
    store = os.fsencode(tmp_path / "engine")
    desk = Desk(tmp_path, engine=GitEngine.create(store, temporary=store + b"-tmp"), clock=clock)
    for folder in range(6):
        for number in range(12):
            desk.write(f"folder{folder}/file{number:02d}", f"{folder * number}\n" * 9)
    return desk


def test_it_finds_what_a_look_alone_finds(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write(".gitignore", "*.log\n")
    desk.write("folder3/ignored.log")
    desk.write("folder3/empty", "")
    desk.write("folder3/large", os.urandom(5_000_000))
    desk.write("folder3/many", os.urandom(70_000))
    os.chmod(desk.root / "folder4/file03", 0o640)
    os.symlink("file01", desk.root / "folder4/link")
    os.mkfifo(desk.root / "folder4/pipe")
    before = set(children(os.getpid()))
    scan = desk.save()
    assert desk.gaps(scan) == {"folder4/pipe": "unsupported"}
    monkeypatch.setattr(examine.Examiner, "examine", None)  # the cache has all of it
    assert desk.scan().result.tree == scan.result.tree
    monkeypatch.undo()
    monkeypatch.setattr(examine, "_BESIDE_BYTES", 1 << 60)
    desk.forget()
    assert desk.scan().result.tree == scan.result.tree
    assert desk.held(scan)[b"folder5/file11"] == ("file", 0o644, b"55\n" * 9)
    assert set(children(os.getpid())) <= before


def removed(path: Path, _aside: Path) -> None:
    path.unlink()


def grown(path: Path, _aside: Path) -> None:
    with path.open("a") as file:
        file.write("more")


def replaced(path: Path, aside: Path) -> None:
    path.unlink()
    path.symlink_to(aside)


def moved(path: Path, aside: Path) -> None:
    path.parent.rename(aside.parent / "elsewhere")


def deleted(path: Path, _aside: Path) -> None:
    shutil.rmtree(path.parent)


def led_away(path: Path, aside: Path) -> None:
    moved(path, aside)
    path.parent.symlink_to(aside.parent / "elsewhere")


@pytest.mark.parametrize(
    ("harm", "held", "gap"),
    [
        (removed, None, None),
        (grown, b"0\n" * 9 + b"more", None),
        (replaced, None, "unstable"),
        (moved, None, "unstable"),
        (deleted, None, None),
        (led_away, None, "unstable"),
    ],
)
@pytest.mark.parametrize("moment", ["before it is opened", "when it was read"])
def test_what_changes_meanwhile_is_one_whole_version_or_a_gap(
    desk: Desk,
    clock: Meddler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    harm: Callable[[Path, Path], None],
    held: bytes | None,
    gap: str | None,
) -> None:
    """S8. What is led out of the workspace is never read there (S2)."""
    aside = tmp_path / "aside"
    aside.write_bytes(b"0\n" * 9)
    path = desk.root / "folder0/file05"
    if moment == "when it was read":
        read = os.read

        def meddled(descriptor: int, size: int) -> bytes:
            content = read(descriptor, size)
            if content == b"0\n" * 9:
                clock.meddle()
            return content

        monkeypatch.setattr(os, "read", meddled)
        monkeypatch.setattr(clock, "now", super(Meddler, clock).now)
    clock.harm = lambda: harm(path, aside)
    scan = desk.scan()
    found = desk.held(scan).get(b"folder0/file05")
    if moment == "when it was read" and harm is not grown:
        assert found in {("file", 0o644, b"0\n" * 9), None}  # it may have been read before
        return
    assert (None if found is None else found[2]) == held
    assert desk.gaps(scan).get("folder0/file05") == gap


def test_it_does_with_few_open_files(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "_BATCH_BYTES", 1 << 20)  # all wait to the end
    for number in range(70):
        desk.write(f"small{number}/file")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(os.listdir("/proc/self/fd")) + 40
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, most[1]))
    try:
        scan = desk.scan()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    assert len([name for name in desk.names(scan) if "file" in name]) == 142


def test_what_it_was_killed_before_is_read_here(desk: Desk, clock: Meddler) -> None:
    clock.harm = lambda: os.kill(os.getpid(), signal.SIGKILL)
    scan = desk.scan()
    assert len([name for name in desk.names(scan) if "file" in name]) == 72
    assert desk.gaps(scan) == {}


def test_an_entry_that_cannot_be_asked_leaves_each_file_its_own_content(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7. So is the top of a FUSE file system whose server is gone."""
    desk.write("folder5/file05a", "not asked")
    ask = os.stat

    def asked(path: bytes, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if path == b"file05a":
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return ask(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", asked)
    monkeypatch.setattr(Sheet, "ask", lambda *_asked: None)
    scan = desk.scan()
    assert desk.gaps(scan) == {"folder5/file05a": "unreadable"}
    for number in range(12):
        assert desk.held(scan)[b"folder5/file%02d" % number] == ("file", 0o644, b"%d\n" % (5 * number) * 9)
