"""The scan in a process of its own: as good as here, and nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import Internal, NotFound
from lastgood.host import ScanRequest
from lastgood.objects.engine import GitEngine
from lastgood.scanner.remote import RemoteScanner
from lastgood.scanner.scanned import WorkspaceScan
from lastgood.settings import CaptureSettings
from tools.desk import Desk
from tools.living import account, children, descriptors, eventually
from tools.scan_processes import all_readers
from tools.values import not_none


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Desk]:
    """Return a desk whose scanner works elsewhere."""
    desk = Desk(tmp_path)
    (desk.store / "tmp").mkdir()
    store = os.fsencode(desk.store)
    desk.engine = GitEngine.create(store + b"/objects.git", temporary=store + b"/tmp")
    scanner = desk.scanner = RemoteScanner(cache=os.fsencode(desk.cache), store=store, engine=desk.engine)
    yield desk
    scanner.close()


def plant(desk: Desk) -> None:
    desk.write(".gitignore", "*.log\n")
    desk.write("a.log")
    desk.write(b"sub/\xff", "bytes")
    desk.write("sub/large", os.urandom(3_000_000))
    desk.write("sub/too-large", b"x" * 5_000_000)
    os.chmod(desk.write("odd"), 0o640)
    (desk.root / "inner" / ".git").mkdir(parents=True)
    time.sleep(0.06)


def test_a_remote_scan_finds_what_a_local_one_finds(far: Desk) -> None:
    plant(far)
    remote = far.save(max_file_size=4_000_000, include=("x",))
    again = [far.save(max_file_size=4_000_000, include=("x",)) for _ in range(3)]
    assert isinstance(again[-1], WorkspaceScan)
    assert not again[-1].worth_keeping
    far.scanner = None
    local = far.scan(max_file_size=4_000_000, include=("x",))
    for scan in again:
        assert scan.result == remote.result == local.result
    assert far.held(remote)[b"sub/large"][2] == (far.root / "sub" / "large").read_bytes()
    for scan in (remote, *again):
        for path in (b"", b"sub", b"inner", b"none"):
            assert scan.directory(path) == local.directory(path)
            assert scan.left_out(path) == local.left_out(path)
        assert scan.stamp(b"odd") == local.stamp(b"odd")
        assert scan.ignored(b"sub/b.log", directory=False) is True
        assert scan.ignored(b"sub/b.txt", directory=False) is False


def test_what_another_scan_left_since_is_not_passed_over(far: Desk) -> None:
    """S1: of records that are told to be as they were, those are meant that lie on the disk."""
    plant(far)
    for _ in range(3):
        far.save()
    far.write("sub/more", "more")
    time.sleep(0.06)
    elsewhere, far.scanner = far.scanner, None
    far.save()
    far.scanner = elsewhere
    for _ in range(2):
        scan = far.save()
        assert isinstance(scan, WorkspaceScan)
        assert not scan.worth_keeping
        assert b"more" in {entry.name for entry in not_none(scan.directory(b"sub"))}


def test_what_the_caller_added_before_is_not_lost(far: Desk) -> None:
    writer = far.engine.writer()
    before = writer.blob(b"added before")
    far.write("a", os.urandom(2_000_000))
    scanner = far.scanner
    assert isinstance(scanner, RemoteScanner)
    scan = scanner.scan(request_of(far), writer=writer)
    after = writer.blob(b"added after")
    writer.publish()
    assert far.engine.read_blob(before) == b"added before"
    assert far.engine.read_blob(after) == b"added after"
    assert far.names(scan) == {"a"}


def request_of(desk: Desk) -> ScanRequest:
    return ScanRequest(
        root=os.fsencode(desk.root),
        settings=CaptureSettings(),
        previous=None,
        generation="first",
        store=os.fsencode(desk.store),
    )


def test_errors_come_back_typed(far: Desk) -> None:
    far.root.rmdir()
    with pytest.raises(NotFound, match="is gone"):
        far.scan()


def elsewhere(far: Desk, python: bytes) -> RemoteScanner:
    return RemoteScanner(
        cache=os.fsencode(far.cache), store=os.fsencode(far.store), engine=far.engine, python=python
    )


def test_a_breakdown_is_told_and_leaves_no_process(far: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    broken = far.root.parent / "python-broken"
    broken.write_text("#!/bin/sh\necho oh no >&2\nexit 1\n")
    broken.chmod(0o755)
    far.scanner = elsewhere(far, os.fsencode(broken))
    before = children(os.getpid())
    with pytest.raises(Internal) as caught:
        far.scan()
    assert caught.value.details == {"status": 1, "said": "oh no\n"}
    assert capfd.readouterr() == ("", "")
    assert set(children(os.getpid())) <= set(before)


@pytest.mark.parametrize("python", [b"", b"/no/such/python", b"/bin/some-application", b"/etc/python"])
def test_where_no_interpreter_can_be_started_the_scan_runs_here(far: Desk, python: bytes) -> None:
    far.write("a")
    far.scanner = elsewhere(far, python)
    assert far.names(far.save()) == {"a"}


def test_nothing_is_left_behind(far: Desk) -> None:
    plant(far)
    before, below = descriptors(), children(os.getpid())
    far.save()
    assert isinstance(far.scanner, RemoteScanner)
    far.scanner.close()
    far.engine.refresh()
    assert [name for name in os.listdir(far.cache) if "answer" in name] == []
    assert os.listdir(far.store / "tmp") == []
    assert len(descriptors()) <= len(before) + 4  # maps of the new pack
    assert set(children(os.getpid())) <= set(below)


def test_nothing_of_the_workspace_or_the_environment_is_imported(
    far: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S12."""
    trap = f"open({str(far.cache / 'trapped')!r}, 'w').close()"
    for name in ("sitecustomize.py", "usercustomize.py", "os.py", "fcntl.py", "lastgood/__init__.py"):
        far.write(name, trap)
    monkeypatch.setenv("PYTHONPATH", str(far.root))
    monkeypatch.setenv("PYTHONSTARTUP", str(far.root / "os.py"))
    monkeypatch.chdir(far.root)
    assert far.save().result.files == 5
    assert not (far.cache / "trapped").exists()
    assert not list(far.root.rglob("__pycache__"))


def test_threads_are_counted_only_beside_another_thread() -> None:
    """By that the scanner is chosen, and a fork is held to be sound."""
    code = textwrap.dedent(
        """
        import threading
        from _thread import _count
        assert not _count()
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        assert _count()
        stop.set()
        thread.join()
        assert not _count()
        """
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": _source()}, check=False)
    assert done.returncode == 0


def _source() -> str:
    return os.path.dirname(os.path.dirname(lastgood.__file__))


def test_a_busy_thread_does_not_hinder_a_remote_scan(far: Desk) -> None:
    for number in range(2000):
        far.write(f"d{number % 50}/f{number}", "x")
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        scan = far.save()
    finally:
        stop.set()
        thread.join()
    assert scan.result.files == 2000
    assert sys.getswitchinterval() == pytest.approx(0.005)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_process_ends_with_its_caller(far: Desk, git: Callable[..., str], how: int) -> None:
    del git
    for number in range(3000):
        far.write(f"d{number % 30}/f{number}", os.urandom(20_000))
    code = textwrap.dedent(
        f"""
        import os, sys
        from lastgood.objects.engine import GitEngine
        from lastgood.scanner import remote
        from lastgood.host import ScanRequest
        from lastgood.settings import CaptureSettings
        store = {os.fsencode(far.store)!r}
        engine = GitEngine(store + b"/objects.git", temporary=store + b"/tmp")
        ask = remote.ScanProcess.ask
        def tell(resident, question):
            print(os.readlink(f"/proc/self/fd/{{resident._questions}}"), flush=True)
            return ask(resident, question)
        remote.ScanProcess.ask = tell
        remote.RemoteScanner(cache={os.fsencode(far.cache)!r}, store=store, engine=engine).scan(
            ScanRequest(root={os.fsencode(far.root)!r}, settings=CaptureSettings(), previous=None,
                        generation="first", store=store), writer=engine.writer())
        """
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", code], env={"PYTHONPATH": _source()}, stdout=subprocess.PIPE, text=True
    )
    assert caller.stdout is not None
    pipe = caller.stdout.readline().strip()
    assert eventually(lambda: bool(all_readers({pipe})) or caller.poll() is not None), account(caller.pid)
    time.sleep(0.15)
    caller.send_signal(how)
    caller.wait()
    caller.stdout.close()
    assert eventually(lambda: all_readers({pipe}) == [])


def test_names_that_a_restore_left_are_left_out_elsewhere_too(far: Desk) -> None:
    """T12b."""
    far.write(".lastgood-op_0123456789abcdef-1.old")
    far.write("file")
    assert far.names(far.scan(left_by=("op_0123456789abcdef",))) == {"file"}
    assert far.names(far.scan()) == {"file", ".lastgood-op_0123456789abcdef-1.old"}
