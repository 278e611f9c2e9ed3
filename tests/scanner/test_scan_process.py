"""The process that stays ready to scan ends when it should, and holds nothing (decision 022)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.cancellation import Cancelled, CancelWhen
from lastgood.errors import NotFound
from lastgood.scanner.remote import RemoteScanner
from tools.forks import ended, forked
from tools.living import descriptors
from tools.scan_processes import Far, ends, owner, readers, source


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    far = Far(tmp_path)
    far.desk.write("a")
    yield far
    far.scanner.close()


def test_one_process_answers_again_and_again(far: Far) -> None:
    assert far.desk.names(far.desk.save()) == {"a"}
    first = far.ready
    far.desk.write("b")
    assert far.desk.names(far.desk.save()) == {"a", "b"}
    os.unlink(far.desk.root / "a")
    assert far.desk.names(far.desk.save()) == {"b"}
    assert len(first) == 1
    assert far.ready == first


def test_it_is_no_child_of_its_owner(far: Far) -> None:
    far.desk.save()
    (process,) = far.ready
    with pytest.raises(ChildProcessError):
        os.waitpid(process, os.WNOHANG)


def test_it_waits_with_nothing_but_its_three_streams(far: Far) -> None:
    """No lock, no file of the store, no descriptor of the owner's, not even an inherited one."""
    inherited = os.open("/", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    far.desk.save()
    os.close(inherited)
    far.desk.write("b")
    far.desk.save()
    (process,) = far.ready
    assert set(os.listdir(f"/proc/{process}/fd")) == {"0", "1", "2"}
    assert os.readlink(f"/proc/{process}/cwd") == "/"


def test_it_ends_when_it_is_closed(far: Far) -> None:
    before = descriptors()
    far.desk.scan()
    (process,) = far.ready
    far.scanner.close()
    far.scanner.close()
    assert ends(process)
    far.desk.engine.close()
    assert descriptors() == before


def test_after_it_was_closed_a_scan_leaves_none_behind(far: Far) -> None:
    far.scanner.close()
    assert far.desk.names(far.desk.save()) == {"a"}
    assert far.ready == []


def test_it_ends_when_nobody_has_its_scanner_any_more(far: Far) -> None:
    far.desk.save()
    (process,) = far.ready
    far.desk.scanner = None
    far.scanner = RemoteScanner(cache=b"", store=b"", engine=far.desk.engine)
    assert ends(process)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGALRM, signal.SIGINT, signal.SIGTERM])
def test_one_that_ended_meanwhile_is_replaced(far: Far, how: int) -> None:
    """SIGALRM is what ends it when no question comes for a while."""
    far.desk.save()
    (process,) = far.ready
    os.kill(process, how)
    assert ends(process)
    far.desk.write("b")
    assert far.desk.names(far.desk.save()) == {"a", "b"}
    assert len(far.ready) == 1
    assert far.ready != [process]


def test_the_signal_of_a_question_that_comes_late_does_not_end_it(far: Far) -> None:
    """The kernel sends it after it has handed the question over: by then the scan may have begun."""
    far.desk.save()
    (process,) = far.ready
    for number in range(20):
        os.kill(process, signal.SIGIO)
        far.desk.write("b", f"{number}")
        assert far.desk.names(far.desk.save()) == {"a", "b"}
    assert far.ready == [process]


def test_it_does_not_wait_for_ever(far: Far) -> None:
    far.desk.save()
    (process,) = far.ready
    with open(f"/proc/{process}/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    alarm = 1 << signal.SIGALRM - 1
    assert int(status["SigIgn"], 16) & alarm == 0
    assert int(status["SigCgt"], 16) & alarm == 0
    assert int(status["SigBlk"], 16) & alarm == 0


def test_a_large_pack_that_was_handed_over_is_not_kept_locked(far: Far) -> None:
    far.desk.write("large", os.urandom(6_000_000))
    scan = far.desk.save()
    assert far.ready == []
    assert len(far.desk.held(scan)[b"large"][2]) == 6_000_000


def test_after_an_error_none_is_kept(far: Far) -> None:
    far.desk.save()
    (process,) = far.ready
    os.rename(far.desk.root, far.desk.root.with_name("gone"))
    with pytest.raises(NotFound):
        far.desk.scan()
    assert ends(process)
    os.rename(far.desk.root.with_name("gone"), far.desk.root)
    assert far.desk.names(far.desk.save()) == {"a"}


def test_whoever_is_asked_to_give_up_leaves_none_behind(far: Far) -> None:
    far.desk.save()
    (process,) = far.ready
    before = descriptors()
    far.desk.write("large", os.urandom(30_000_000))
    with CancelWhen(lambda: True), pytest.raises(Cancelled) as stopped:
        far.desk.scan()
    assert stopped.value.__traceback__ is not None  # which holds whatever had a name on the way
    assert len(descriptors()) == len(before) - 3
    assert ends(process)
    assert far.ready == []
    assert far.desk.names(far.desk.save()) == {"a", "large"}


def test_a_fork_of_the_owner_neither_shares_nor_holds_it(far: Far) -> None:
    far.desk.save()
    (process,) = far.ready

    def save() -> None:
        far.desk.write("b")
        assert far.desk.names(far.desk.save()) == {"a", "b"}
        assert far.ready != [process]
        far.scanner.close()

    assert ended(forked(save)) == 0
    far.desk.write("c")
    assert far.desk.names(far.desk.save()) == {"a", "b", "c"}
    assert far.ready == [process]


def test_where_it_cannot_let_go_of_its_parent_it_ends_all_the_same(far: Far) -> None:
    shim = far.desk.root.parent / "python-shim"
    hindered = "import posix\n\ndef fork():\n    raise OSError\n\nposix.fork = fork\n"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S -B -c "{hindered}$5" "$6"\n')
    shim.chmod(0o755)
    far.scanner = RemoteScanner(
        cache=os.fsencode(far.desk.cache),
        store=os.fsencode(far.desk.store),
        engine=far.desk.engine,
        python=os.fsencode(shim),
    )
    far.desk.scanner = far.scanner
    assert far.desk.names(far.desk.save()) == {"a"}
    (process,) = far.ready
    assert far.desk.names(far.desk.save()) == {"a"}
    assert far.ready == [process]
    far.scanner.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(process, 0)


def test_what_took_the_number_of_its_pipe_is_not_written_to(far: Far) -> None:
    far.desk.save()
    (resident,) = far.scanner._ready
    (process,) = far.ready
    victim = os.open(far.desk.write("victim", "mine"), os.O_RDWR)
    os.dup2(victim, resident._questions)  # as after a program has closed all that it did not know
    assert ends(process)
    assert far.desk.names(far.desk.save()) == {"a", "victim"}
    assert (far.desk.root / "victim").read_bytes() == b"mine"
    os.fstat(resident._questions)  # still theirs
    os.close(victim)
    os.close(resident._questions)


def test_a_fork_that_lives_on_does_not_keep_it_alive(far: Far) -> None:
    far.desk.save()
    (process,) = far.ready
    child = forked(lambda: time.sleep(600))
    try:
        far.scanner.close()
        assert ends(process)
    finally:
        os.kill(child, signal.SIGKILL)
        ended(child)


def test_it_ends_when_its_owner_is_killed(far: Far) -> None:
    code = owner(
        far,
        """
        scan()
        print(os.readlink(f"/proc/self/fd/{scanner._ready[0]._questions}"), flush=True)
        time.sleep(600)
        """,
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=source(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    (resident,) = readers({process.stdout.readline().strip()})
    process.kill()
    process.wait()
    process.stdout.close()
    assert ends(resident)


def test_nobody_waits_for_a_fork_that_began_when_it_was_started(far: Far) -> None:
    code = owner(
        far,
        """
        import threading
        from lastgood.scanner import remote as resident
        def fork():
            children.append(os.fork())
            if not children[0]:
                time.sleep(600)
                os._exit(0)
        def hindered(*given):
            thread.start()
            thread.join(0.3)
            return start(*given)
        start, resident._start = resident._start, hindered
        thread, children = threading.Thread(target=fork), []
        scan()
        thread.join()
        scanner.close()
        print(os.waitpid(children[0], os.WNOHANG) == (0, 0), flush=True)
        os.kill(children[0], 9)
        """,
    )
    done = subprocess.run([sys.executable, "-c", code], env=source(), capture_output=True, check=True)
    assert done.stdout == b"True\n"


def test_a_fork_closes_nothing_that_took_the_number_of_its_pipe(far: Far) -> None:
    code = owner(
        far,
        """
        scan()
        place = scanner._ready[0]._questions
        os.closerange(3, 100)
        os.dup2(os.open("/dev/null", os.O_RDONLY), place)
        child = os.fork()
        if not child:
            os.fstat(place)
            os._exit(7)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    )
    done = subprocess.run([sys.executable, "-c", code], env=source(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (7, b"")


def test_what_a_terminal_sends_is_for_its_owner_alone(far: Far) -> None:
    code = owner(
        far,
        """
        import signal
        from lastgood.scanner import remote as resident
        def interrupted(*given):
            started = start(*given)
            os.killpg(0, signal.SIGINT)
            return started
        start, resident._start = resident._start, interrupted
        signal.signal(signal.SIGINT, lambda *_: print("heard", flush=True))
        print(scan().result.files)
        """,
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=source(), capture_output=True, check=False, start_new_session=True
    )
    assert (done.stdout, done.stderr) == (b"heard\n1\n", b"")


def test_it_ends_with_a_program_that_closes_nothing(far: Far) -> None:
    code = owner(
        far,
        """
        scan()
        print(os.readlink(f"/proc/self/fd/{scanner._ready[0]._questions}"), flush=True)
        """,
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=source(), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert all(ends(one) for one in readers({done.stdout.strip()}))


def test_an_owner_without_standard_streams_scans_all_the_same(far: Far) -> None:
    code = owner(
        far,
        """
        for stream in (0, 1, 2):
            os.close(stream)
        try:
            found = scan().result.files
            os._exit(found)
        except BaseException:
            os._exit(99)
        """,
    )
    assert subprocess.run([sys.executable, "-c", code], env=source(), check=False).returncode == 1
