"""Saves beside a process that writes: each captured file is one whole version (rules S8, S16)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.desk import Desk
from tools.living import eventually

SIZE = 200_000
# Whoever does not get the processor for so long in the middle of a file, in seconds, may be taken for one
# who has finished with it: nothing that can be seen tells the one from the other.
STALL = 0.008

# Every version is one number repeated; so a part of one beside a part of another shows.
WRITERS = {
    "in place": """
        with open(path, "r+b", buffering=0) as file:
            for start in range(0, size, 4096):
                file.write(block(number)[: min(4096, size - start)])
        """,
    "truncate and rewrite": """
        with open(path, "wb", buffering=0) as file:
            file.write(block(number) * (size // 4096) + block(number)[: size % 4096])
        """,
    "rename over": """
        with open(path + ".new", "wb") as file:
            file.write(block(number) * (size // 4096) + block(number)[: size % 4096])
        os.rename(path + ".new", path)
        """,
}


def slow_ones(desk: Desk) -> Path:
    """Return where the writer notes the files that took it long, and with a dash its rests."""
    return desk.cache.with_name("slow")


def rests(desk: Desk) -> int:
    return slow_ones(desk).read_text().count("-")


@pytest.fixture(params=sorted(WRITERS))
def writing(request: pytest.FixtureRequest, desk: Desk) -> Iterator[str]:
    """Run a process that writes three files over and over, with a rest now and then."""
    step = textwrap.indent(textwrap.dedent(WRITERS[request.param]), "    " * 2)
    code = textwrap.dedent(
        f"""
        import os, random, time
        size = {SIZE}
        def block(number):
            return (b"%07d\\n" % number) * 512
        number = 0
        slow = open({str(slow_ones(desk))!r}, "w", buffering=1)
        while True:
            number += 1
            path = {str(desk.root)!r} + "/f%d" % (number % 3)
            began = time.monotonic()
        {{step}}
            if time.monotonic() - began > {STALL}:
                print("f%d" % (number % 3), file=slow)
            if number % 60 == 0:
                print("-", file=slow)
                time.sleep(0.15)
        """
    ).replace("{step}", step.replace("\n        ", "\n    ").lstrip("\n"))
    for number in range(3):
        desk.write(f"f{number}", b"0000000\n" * (SIZE // 8))
    writer = subprocess.Popen([sys.executable, "-c", code])
    yield request.param
    assert writer.poll() is None
    writer.kill()
    writer.wait()


def test_each_captured_file_is_whole(desk: Desk, writing: str) -> None:
    """S8."""
    whole = unstable = 0
    torn: dict[str, object] = {}
    for _ in range(34):
        scan = desk.save()
        for path, (_, _, content) in desk.held(scan).items():
            if path.endswith(b".new"):
                continue
            # A file may be empty, or shorter, only while `open` and `write` are two moments.
            if content != content[:8] * (SIZE // 8):
                torn[path.decode()] = (writing, len(content), set(content.split(b"\n")))
            whole += 1
        unstable += len(scan.result.gaps)
        assert set(desk.gaps(scan).values()) <= {"unstable"}
    before = rests(desk) if torn else 0
    assert not torn or eventually(lambda: rests(desk) > before)  # it has finished what it was at
    slow = set(slow_ones(desk).read_text().split())
    assert {path: said for path, said in torn.items() if path not in slow} == {}
    assert whole + unstable >= 3 * 30
    assert whole > 0


def test_entries_that_come_and_go_never_raise(desk: Desk) -> None:
    code = textwrap.dedent(
        f"""
        import os, shutil
        root = {str(desk.root)!r}
        while True:
            for number in range(30):
                os.makedirs(f"{{root}}/d{{number % 3}}/e", exist_ok=True)
                open(f"{{root}}/d{{number % 3}}/e/f{{number}}", "w").write("x" * number)
                os.symlink("x", f"{{root}}/d{{number % 3}}/l{{number}}")
            for number in range(3):
                os.rename(f"{{root}}/d{{number}}/e", f"{{root}}/d{{number}}/g")
                open(f"{{root}}/d{{number}}/e", "w").close()
                shutil.rmtree(f"{{root}}/d{{number}}")
        """
    )
    writer = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(60):
            scan = desk.save()
            assert set(desk.gaps(scan).values()) <= {"unstable"}
            desk.held(scan)
    finally:
        writer.kill()
        writer.wait()


def test_a_directory_swapped_for_a_link_leads_nowhere(desk: Desk) -> None:
    """T12: what lies outside is never captured."""
    outside = desk.root.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret")
    code = textwrap.dedent(
        f"""
        import os
        os.chdir({str(desk.root)!r})
        while True:
            os.mkdir("way")
            with open("way/a", "w") as file:
                file.write("public")
            os.rename("way", "old")
            os.symlink({str(outside)!r}, "way")
            os.unlink("old/a")
            os.rmdir("old")
            os.unlink("way")
        """
    )
    writer = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(60):
            contents = {content for kind, _, content in desk.held(desk.save()).values() if kind == "file"}
            assert b"secret" not in contents
    finally:
        writer.kill()
        writer.wait()


def test_savers_at_once_agree(desk: Desk) -> None:
    """S16."""
    for number in range(200):
        desk.write(f"d{number % 9}/f{number}", str(number))
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            different = 99
            try:
                different = len({desk.save().result.tree for _ in range(10)}) - 1
            finally:
                os._exit(different)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0, 0]
    kept = desk.save()
    shutil.rmtree(desk.cache)
    desk.cache.mkdir()
    assert desk.save().result == kept.result


@pytest.mark.real
def test_a_hundred_thousand_files_fit_in_memory(desk: Desk) -> None:
    """The budget is 150 MB, for the first save and for one without a change."""
    code = textwrap.dedent(
        """
        import os, sys
        from lastgood.host import SystemClock
        from lastgood.objects.engine import GitEngine
        from lastgood.scanner.scan import WorkspaceScanner
        from lastgood.host import ScanRequest
        from lastgood.settings import CaptureSettings
        root, cache, store = sys.argv[1:]
        os.makedirs(store + "/tmp", exist_ok=True)
        here = os.fsencode(store)
        engine = GitEngine.create(here + b"/objects.git", temporary=here + b"/tmp")
        scanner = WorkspaceScanner(cache=os.fsencode(cache), clock=SystemClock(), objects=engine)
        writer = engine.writer()
        scan = scanner.scan(ScanRequest(root=os.fsencode(root), settings=CaptureSettings(), previous=None,
            generation="g", store=os.fsencode(store)), writer=writer)
        assert scan.result.files == 100_000
        writer.publish(durable=False)
        scan.keep()
        # Not by getrusage, which also counts what the process was before it ran this program.
        with open("/proc/self/status") as file:
            (peak,) = (int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
        assert peak < 150 * 1024
        """
    )
    for number in range(100_000):
        if number % 20 == 0:
            folder = f"d{number // 2000}/e{number // 20}"
            os.makedirs(desk.root / folder)
        with open(desk.root / folder / f"file{number}", "w") as file:
            file.write(str(number))
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code, desk.root, desk.cache, desk.store], check=True)
    shutil.rmtree(desk.root)
