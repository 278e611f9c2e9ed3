"""A scan whose process is killed from outside is done once more, and nothing of the killed one is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastgood.cancellation import Cancelled, CancelWhen
from lastgood.engine import ObjectWriter
from lastgood.errors import Busy, NotFound
from lastgood.host import ScanRequest
from lastgood.objects import borrow
from lastgood.objects.engine import GitEngine
from lastgood.scanner.remote import RemoteScanner
from lastgood.settings import CaptureSettings
from lastgood.worker import Worker
from tools.desk import Desk
from tools.killing import Killer
from tools.living import children, descriptors
from tools.scan_processes import Far

# More than a pack keeps in memory: whoever has read it has a temporary file.
LARGE = 5_000_000


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    far = Far(tmp_path)
    for name in ("large", "larger"):
        far.desk.write(name, os.urandom(LARGE))
    yield far
    far.scanner.close()


@pytest.fixture
def killer(far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Killer:
    """Return what kills processes that scan as soon as they have written to a pack."""
    killer = Killer(tmp_path, monkeypatch, call="write")
    far.scanner = far.desk.scanner = RemoteScanner(
        cache=os.fsencode(far.desk.cache),
        store=os.fsencode(far.desk.store),
        engine=far.desk.engine,
        python=os.fsencode(killer.python),
    )
    return killer


def left(far: Far) -> list[str]:
    """Return what lies in the temporary folder, and in the cache that is not a scan's memory."""
    return os.listdir(far.desk.store / "tmp") + [
        name for name in os.listdir(far.desk.cache) if "answer" in name
    ]


def test_a_scan_that_is_killed_is_done_once_more(far: Far, killer: Killer) -> None:
    killer.kill(1)
    scan = far.desk.save()
    assert far.desk.names(scan) == {"large", "larger"}
    assert len(killer.killed) == 1
    assert left(far) == []


def test_one_that_was_ready_and_is_killed_in_its_work_is_replaced(far: Far, killer: Killer) -> None:
    for name in ("large", "larger"):
        os.unlink(far.desk.root / name)
    far.desk.write("small")
    far.desk.save()
    (ready,) = far.ready
    far.desk.write("large", os.urandom(LARGE))
    killer.kill(1)
    scan = far.desk.save()
    assert far.desk.names(scan) == {"large", "small"}
    assert killer.killed == [ready]
    assert left(far) == []


def test_a_scan_that_is_killed_again_is_told_with_what_to_do(far: Far, killer: Killer) -> None:
    killer.kill(9)
    with pytest.raises(Busy, match="killed") as caught:
        far.desk.scan()
    assert caught.value.exit_code == 14
    assert "try again" in caught.value.hint
    assert len(killer.killed) == 2
    assert left(far) == []
    killer.kill(0)
    assert far.desk.names(far.desk.save()) == {"large", "larger"}


def test_killed_scans_leave_no_descriptor_and_no_child(far: Far, killer: Killer) -> None:
    before, below = descriptors(), children(os.getpid())
    killer.kill(9)
    with pytest.raises(Busy):
        far.desk.scan()
    far.desk.engine.close()
    assert descriptors() == before
    assert set(children(os.getpid())) <= set(below)


def handed(far: Far) -> tuple[ObjectWriter, bytes]:
    """Return a writer whose pack is so large that it lies in a file, and what it has."""
    writer = far.desk.engine.writer()
    return writer, writer.blob(os.urandom(LARGE))


def request(far: Far) -> ScanRequest:
    return ScanRequest(
        root=os.fsencode(far.desk.root),
        settings=CaptureSettings(),
        previous=None,
        generation="first",
        store=os.fsencode(far.desk.store),
    )


def test_what_the_killed_one_was_handed_is_not_lost(far: Far, killer: Killer) -> None:
    writer, oid = handed(far)
    killer.kill(1)
    scan = far.scanner.scan(request(far), writer=writer)
    writer.publish()
    assert len(far.desk.engine.read_blob(oid)) == LARGE
    assert far.desk.names(scan) == {"large", "larger"}
    assert left(far) == []


def test_of_what_was_handed_to_killed_ones_nothing_is_left(far: Far, killer: Killer) -> None:
    before = descriptors()
    writer, _ = handed(far)
    killer.kill(9)
    with pytest.raises(Busy):
        far.scanner.scan(request(far), writer=writer)
    writer.abandon()
    assert left(far) == []
    assert descriptors() == before


def test_a_pack_that_went_there_and_back_leaves_no_descriptor(far: Far) -> None:
    before = descriptors()
    writer, _ = handed(far)
    far.scanner.scan(request(far), writer=writer)
    writer.abandon()
    assert left(far) == []
    assert descriptors() == before


def test_of_what_was_handed_to_one_that_fails_nothing_is_left(far: Far) -> None:
    before = descriptors()
    writer, _ = handed(far)
    os.rename(far.desk.root, far.desk.root.with_name("gone"))
    with pytest.raises(NotFound):
        far.scanner.scan(request(far), writer=writer)
    writer.abandon()
    assert left(far) == []
    assert descriptors() == before


def test_where_none_can_be_started_the_pack_that_was_to_be_handed_over_is_taken_back(far: Far) -> None:
    writer, oid = handed(far)
    scanner = RemoteScanner(
        cache=os.fsencode(far.desk.cache),
        store=os.fsencode(far.desk.store),
        engine=far.desk.engine,
        python=b"/no/such/python",
    )
    scan = scanner.scan(request(far), writer=writer)
    writer.publish()
    assert len(far.desk.engine.read_blob(oid)) == LARGE
    assert far.desk.names(scan) == {"large", "larger"}
    assert left(far) == []


def test_whoever_gives_up_leaves_no_temporary_file(far: Far, killer: Killer) -> None:
    writer, _ = handed(far)
    killer.hold()
    with CancelWhen(lambda: bool(killer.killed)), pytest.raises(Cancelled):
        far.scanner.scan(request(far), writer=writer)
    writer.abandon()
    assert left(far) == []


def test_of_a_process_that_copies_for_a_scan_and_is_killed_nothing_is_left(
    tmp_path: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    temporary = desk.store / "tmp"
    temporary.mkdir()
    desk.engine = GitEngine.create(os.fsencode(desk.store / "objects.git"), temporary=os.fsencode(temporary))
    for number in range(300):  # fewer are not copied
        desk.write(f"f{number}", f"content {number}")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"], ["gc", "-q"]):
        git(desk.root, *words)
    below = children(os.getpid())
    begin, begun = Worker.__init__, []

    def doomed(companion: Worker, *_work: object, **kept: object) -> None:
        begin(companion, lambda _tell: os.kill(os.getpid(), signal.SIGKILL), **kept)  # type: ignore[arg-type]
        begun.append(companion)

    monkeypatch.setattr(borrow, "is_sound", lambda _bytes: True)
    monkeypatch.setattr(Worker, "__init__", doomed)
    assert desk.held(desk.save())[b"f7"][2] == b"content 7"
    assert len(begun) == 1
    assert os.listdir(temporary) == []
    assert set(children(os.getpid())) <= set(below)
