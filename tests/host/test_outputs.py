"""What commands wrote, on disk: the beginning and the end, whatever a task is called and a disk holds."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.workspace.running.output import KEPT_BYTES, OutputFolder, safe_name

SOURCE = Path(__file__).parent.parent.parent / "src"


def kept(folder: Path, *parts: bytes) -> bytes:
    with OutputFolder(os.fsencode(folder)).open("T01", 1) as output:
        for part in parts:
            output.write(part)
    assert output.fault is None
    return Path(os.fsdecode(output.path)).read_bytes()


def test_an_output_is_kept_in_a_private_file_as_it_grows(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "sess_1"
    output = OutputFolder(os.fsencode(folder)).open("T01", 2)
    output.write(b"one\n")
    file = folder / "T01.2.log"
    assert file.read_bytes() == b"one\n"
    output.write(b"two\n")
    output.close()
    assert file.read_bytes() == b"one\ntwo\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("size", [0, 1, KEPT_BYTES, KEPT_BYTES + 1, 2 * KEPT_BYTES])
def test_what_fits_is_kept_whole(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    assert kept(tmp_path, content[:70_000], content[70_000:]) == content


@pytest.mark.parametrize("size", [2 * KEPT_BYTES + 1, 3 * KEPT_BYTES + 1, 9 * KEPT_BYTES + 12345])
@pytest.mark.parametrize("part", [65536, 1_000_003])
def test_of_more_the_beginning_and_the_end_are_kept(tmp_path: Path, size: int, part: int) -> None:
    content = os.urandom(size)
    found = kept(tmp_path, *(content[at : at + part] for at in range(0, size, part)))
    missing = size - 2 * KEPT_BYTES
    middle = b"\n[%d bytes are left out here]\n" % missing
    assert found == content[:KEPT_BYTES] + middle + content[-KEPT_BYTES:]


def test_the_file_stays_bounded_while_it_grows(tmp_path: Path) -> None:
    output = OutputFolder(os.fsencode(tmp_path)).open("T01", 1)
    for _ in range(200):
        output.write(b"x" * 65536)
        assert (tmp_path / "T01.1.log").stat().st_size <= 3 * KEPT_BYTES + 100
    output.close()


def test_an_attempt_of_the_same_number_replaces_its_output(tmp_path: Path) -> None:
    assert kept(tmp_path, b"the first one, killed") != b""
    assert kept(tmp_path, b"again") == b"again"


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
def test_no_two_tasks_have_the_same_file_and_none_leads_elsewhere(tasks: list[str]) -> None:
    one, other = (safe_name(task) for task in tasks)
    assert one != other
    assert b"/" not in one
    assert b"\0" not in one
    assert len(one) <= 200


def test_tasks_of_any_name_have_readable_files(tmp_path: Path) -> None:
    assert safe_name("T01") == b"T01"
    assert safe_name("build/all") == b"build%2Fall"
    assert safe_name("..") + b".1.log" == b"...1.log"
    assert len({safe_name("x" * 1000), safe_name("x" * 1001)}) == 2
    assert len(safe_name("ü" * 1000)) <= 200


def test_a_disk_that_is_full_is_told_and_not_raised(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the disk."""
    program = (
        "import os, resource, signal, sys\n"
        "from lastgood.workspace.running.output import OutputFolder\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "output = OutputFolder(os.getcwdb()).open('T01', 1)\n"
        "for _ in range(100):\n"
        "    output.write(b'x' * 65536)\n"
        "output.close()\n"
        "print(output.fault)\n"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)}
    said = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout == os.strerror(errno.EFBIG) + "\n"
    assert (tmp_path / "T01.1.log").stat().st_size == 100_000


def test_a_folder_that_cannot_be_made_is_told_and_not_raised(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with OutputFolder(os.fsencode(tmp_path / "file" / "sess_1")).open("T01", 1) as output:
        output.write(b"one")
    assert output.fault == os.strerror(errno.EEXIST)


def test_a_link_in_the_place_of_an_output_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (tmp_path / "mine").write_text("mine")
    (folder / "T01.1.log").symlink_to(tmp_path / "mine")
    with OutputFolder(os.fsencode(folder)).open("T01", 1) as output:
        output.write(b"one")
    assert output.fault == os.strerror(errno.ELOOP)
    assert (tmp_path / "mine").read_text() == "mine"
