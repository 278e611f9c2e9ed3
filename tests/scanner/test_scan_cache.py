"""The cache makes a scan quick, and never wrong (rule K6, invariants 4 and 5)."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import subprocess
import sys
import termios
import textwrap
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lastgood
from lastgood.model.tree import changed, compare
from lastgood.objects.engine import GitEngine
from lastgood.scanner import IGNORED, NAME, NAMES, START, STATE, cache, examine, parallel, read
from lastgood.scanner import scan as scanner
from lastgood.scanner.cache import Blocks, CacheConditions, CachedTree, Details, load, source_of
from lastgood.scanner.examine import Examiner, Node
from lastgood.scanner.read import Lister, open_file
from lastgood.scanner.scan import WorkspaceScanner
from lastgood.trees import Files
from tools.desk import Desk
from tools.living import children, descriptors, eventually
from tools.memory_engine import memory_engine

if TYPE_CHECKING:
    from lastgood.scanner import Record
    from lastgood.scanner.parallel import SharedLook


class Count:
    """Counts the files that are opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[bytes] = []
        self._open = open_file
        monkeypatch.setattr(read, "open_file", self)

    def __call__(self, name: bytes, *, directory: int) -> int:
        self.opened.append(name)
        return self._open(name, directory=directory)


def plant(desk: Desk) -> None:
    desk.write(".gitignore", "*.log\nbuild/\n")
    for number in range(40):
        desk.write(f"d{number % 4}/e{number % 3}/f{number}", f"content {number}\n" * (number % 5))
    desk.write("d1/x.log")
    desk.write("build/x")
    os.symlink("d1", desk.root / "link")
    time.sleep(0.06)


def test_an_unchanged_workspace_is_not_read_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(desk)
    first = desk.save()
    count = Count(monkeypatch)
    again = desk.save()
    assert count.opened == []
    assert again.result == first.result


def test_a_scanner_that_stays_reads_the_cache_again_only_where_another_wrote_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K6: what it remembers is no more than what lies there."""
    plant(desk)
    stays, other = desk.local(), desk.local()
    read: list[object] = []
    open_path = os.open

    def counted(path: bytes, flags: int, *rest: int, **named: int) -> int:
        if isinstance(path, bytes) and path.endswith(b"/scan.records"):
            read.append(path)
        return open_path(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", counted)
    desk.scanner = stays
    desk.save()
    read.clear()
    desk.write("d1/new", "one")
    desk.save()
    desk.save()
    assert read == []
    desk.scanner = other
    desk.write("d1/new", "two")
    desk.save()
    read.clear()
    desk.scanner = stays
    found = desk.save()
    assert len(read) == 1
    assert desk.held(found)[b"d1/new"][2] == b"two"


@pytest.mark.damages
def test_who_only_looks_reads_no_file_again_where_the_store_has_lost_them(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is looked at is not stored, so the cache proves it as ever; a save reads and stores all anew."""
    (project / "one").write_text("content")
    time.sleep(0.06)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.save("one")
    for file in (store / "objects.git/objects/pack").iterdir():
        file.unlink()
    count = Count(monkeypatch)

    with lastgood.open(project, store=store, maintenance="off") as workspace:
        workspace.status()
        assert count.opened == []
        workspace.save("two")
        assert count.opened == [b"one"]
        assert workspace.read("@", "one") == b"content"


def test_only_what_changed_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(desk)
    desk.save()
    desk.write("d1/e1/f1", "other")
    desk.write("d1/new", "new")
    os.unlink(desk.root / "d2" / "e2" / "f2")
    time.sleep(0.06)
    count = Count(monkeypatch)
    scan = desk.save()
    assert sorted(count.opened) == [b"f1", b"new"]
    desk.forget()
    assert desk.save().result == scan.result


@pytest.mark.parametrize(("large", "looking"), [(1, "then"), (1, "before"), (20_000, "then")])
@pytest.mark.parametrize("seed", range(6))
def test_any_series_of_changes_comes_out_as_without_a_cache(
    desk: Desk, seed: int, large: int, looking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "WORTHWHILE_FILES", large)
    monkeypatch.setattr(parallel, "RESIDENT_BYTES_A_FILE", 1 << 40)
    # One that stays remembers what it read and wrote; of names that are proven it looks at what it knows.
    stays = bool(seed % 2)
    monkeypatch.setattr(scanner, "_SEVERAL_DIRECTORIES", 0 if stays else large)
    chance = random.Random(seed)
    plant(desk)
    if stays:
        desk.scanner = desk.local()
    desk.begins = looking == "before"
    for _ in range(12):
        before = desk.previous
        scan = desk.save()
        edits = None if before is None else scan.edits(before)
        if before is not None and edits is not None:
            trees = (Files(before, desk.engine), Files(scan.result.tree, desk.engine))
            assert [changed(*one) for one in edits] == list(compare(*trees))
        shutil.copytree(desk.cache, desk.cache.with_name("aside"))
        desk.forget()
        afresh = desk.scan()
        assert afresh.result == scan.result
        assert desk.held(afresh) == desk.held(scan)
        os.rmdir(desk.cache)
        os.rename(desk.cache.with_name("aside"), desk.cache)
        for _ in range(chance.randrange(4)):
            change(desk, chance)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two processes look at a few files as at thousands, however long that takes."""
    monkeypatch.setattr(cache, "WORTHWHILE_FILES", 10)
    monkeypatch.setattr(parallel, "RESIDENT_BYTES_A_FILE", 1 << 40)
    monkeypatch.setattr(parallel, "_LEAST_PATIENCE_MS", 600_000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("large")
def test_a_twin_looks_at_all_that_is_left_to_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(desk)
    first = desk.save()
    desk.save()
    looked: list[bytes] = []
    asked = Lister.states_of

    def counted(
        lister: Lister, descriptor: int, record: Record, *, told: bytes | None = None
    ) -> bytes | None:
        looked.append(record[NAMES])
        return asked(lister, descriptor, record, told=told)

    monkeypatch.setattr(Lister, "states_of", counted)
    before = children(os.getpid())
    begun = desk.begin()
    assert begun is not None
    look = begun.look
    assert look is not None
    assert eventually(lambda: not waiting(look))
    desk.begin = lambda: begun  # type: ignore[method-assign]
    desk.begins = True
    assert desk.save().result == first.result
    assert looked == []
    assert set(children(os.getpid())) <= set(before)


@pytest.mark.usefixtures("large")
def test_a_look_that_was_begun_for_nothing_leaves_nothing(desk: Desk) -> None:
    plant(desk)
    desk.save()
    before, opened = children(os.getpid()), descriptors()
    begun = desk.begin()
    assert begun is not None
    assert len(set(children(os.getpid())) - set(before)) == 1
    begun.close()
    assert set(children(os.getpid())) <= set(before)
    assert descriptors() == opened
    begun.close()


@pytest.mark.usefixtures("large")
def test_two_processes_hold_what_one_does_when_no_time_is_left(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(desk)
    desk.save()
    desk.save()
    found = desk.scan(budget=0.0).result
    monkeypatch.setattr(cache, "WORTHWHILE_FILES", 1_000)
    assert found.partial
    assert desk.scan(budget=0.0).result == found


@pytest.mark.usefixtures("large")
def test_all_is_walked_through_where_too_many_files_are_open_to_hear_the_twin(desk: Desk) -> None:
    """S14: neither is it taken for unchanged, nor for a fault."""
    plant(desk)
    desk.save()
    root = os.fsencode(desk.root)
    code = textwrap.dedent(
        f"""
        import os, resource, sys
        from lastgood.host import SystemClock
        from lastgood.scanner import cache, parallel
        cache.WORTHWHILE_FILES = 1
        parallel.RESIDENT_BYTES_A_FILE = 1 << 40
        os.sched_getaffinity = lambda _: {{0, 1}}
        known = cache.load({os.fsencode(desk.cache)!r}, {root!r})
        begun = parallel.begin_scan({root!r}, known, clock=SystemClock())
        assert "select" not in sys.modules or "select" in sys.builtin_module_names
        used = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
        print(begun.look.differing().keys() >= known.records.keys() > set())
        begun.close()
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def waiting(look: SharedLook) -> bool:
    """Tell whether a share waits for somebody to take it."""
    return any(fcntl.ioctl(look._queue, termios.FIONREAD, bytes(4)))


@pytest.mark.usefixtures("large")
def test_two_processes_find_a_change_however_far_down_it_is(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_SHARES", 1, raising=False)
    deep = "b/" + "d/" * 80
    for number in range(7):
        desk.write(f"a/{number}", "flat")
        desk.write(f"{deep}{number}" if number else f"{deep[:-2]}file", "deep")
    time.sleep(0.06)
    desk.save()
    desk.save()
    desk.write(f"{deep}1", "other")
    assert desk.held(desk.save())[f"{deep}1".encode()][2] == b"other"


@pytest.mark.usefixtures("large")
def test_no_way_down_is_gone_anew_for_each_of_many_folders_in_each_other(desk: Desk) -> None:
    """With 1,500 of them a save took ten times as long."""
    deep = "d/" * 300
    for number in range(20):
        desk.write(f"{deep}{number}", "deep")
    desk.save()
    shares = parallel.shares_of(cache.load(os.fsencode(desk.cache), os.fsencode(desk.root)).records)
    assert sum(path.count(b"/") for path, _, _ in shares) < 10 * 300


def test_no_twin_where_forking_costs_more_than_it_saves(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WORTHWHILE_FILES", 10)
    monkeypatch.setattr(parallel, "RESIDENT_BYTES_A_FILE", 1)
    monkeypatch.setattr(os, "fork", None)
    plant(desk)
    first = desk.save()
    assert desk.save().result == first.result


@pytest.mark.parametrize("failing", ["dies", "hangs", "cannot be forked"])
def test_a_twin_that_fails_costs_only_time(desk: Desk, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    monkeypatch.setattr(cache, "WORTHWHILE_FILES", 10)
    monkeypatch.setattr(parallel, "RESIDENT_BYTES_A_FILE", 1 << 40)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    plant(desk)
    desk.save()
    desk.write("d1/e1/f1", "other")

    def fail(*given: Any) -> None:
        for look in given[:1]:
            next(iter(look._taken()))  # nobody else looks at that
        if failing == "hangs":
            time.sleep(600)
        raise OSError

    if failing == "cannot be forked":
        monkeypatch.setattr(os, "fork", fail)
    else:
        monkeypatch.setattr(parallel.SharedLook, "_beside", fail)
    before = descriptors()
    result = desk.save().result
    assert descriptors() == before
    desk.forget()
    monkeypatch.undo()
    assert desk.save().result == result


def test_a_twin_with_much_to_say_ends_with_who_wanted_it(tmp_path: Path) -> None:
    code = textwrap.dedent(
        f"""
        import os
        from lastgood.scanner.parallel import SharedLook
        root = os.open({str(tmp_path)!r}, os.O_RDONLY)
        names = [b"gone" * 50 + b"%d" % number for number in range(2000)]
        twin = SharedLook(root, shares=[(b"", False, names)], records={{}}, lister=None)
        os.kill(os.getpid(), 9)
        """
    )
    # The twin would keep this pipe open, like a lock, a terminal, or whatever else was inherited.
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False, timeout=600)
    assert (done.returncode, done.stdout) == (-9, b"")
    assert eventually(lambda: not holders(tmp_path))


def holders(folder: Path) -> list[str]:
    """Return the processes that have a folder open."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            places = [f"/proc/{process}/fd/{one}" for one in os.listdir(f"/proc/{process}/fd")]
            if any(os.path.realpath(place) == str(folder) for place in places):
                found.append(process)
        except OSError:
            continue
    return found


def change(desk: Desk, chance: random.Random) -> None:
    folder = f"d{chance.randrange(5)}"
    match chance.randrange(8):
        case 0:
            desk.write(f"{folder}/e1/f{chance.randrange(9)}", str(chance.random()))
        case 1:
            shutil.rmtree(desk.root / folder, ignore_errors=True)
        case 2:
            desk.write(f"{folder}/.gitignore", chance.choice(["f1\n", "e1/\n", "", "*\n"]))
        case 3:
            desk.write(".gitignore", chance.choice(["*.log\n", "d3/\n", "", "build/\nf2\n"]))
        case 4:
            (desk.root / folder).mkdir(exist_ok=True)
            (desk.root / folder).chmod(chance.choice([0o700, 0o755]))
        case 5:
            (desk.root / "empty" / str(chance.randrange(3))).mkdir(parents=True, exist_ok=True)
        case 6:
            desk.write(f"{folder}/some.log")
        case 7:
            if (desk.root / folder).is_dir() and not (desk.root / "moved").exists():
                os.rename(desk.root / folder, desk.root / "moved")


def test_any_flipped_byte_of_the_cache_does_no_harm(desk: Desk) -> None:
    """K6."""
    plant(desk)
    desk.save()
    desk.write("d1/e1/f1", "other")
    right = desk.scan().result
    chance = random.Random(1)
    files = [desk.cache / name for name in os.listdir(desk.cache) if name != "scan.lock"]
    assert len(files) == 2
    for file in files:
        content = file.read_bytes()
        for place in {0, len(content) - 1, *(chance.randrange(len(content)) for _ in range(60))}:
            file.write_bytes(
                content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
            )
            assert desk.scan().result == right
        file.write_bytes(content)


def test_any_truncation_or_loss_of_the_cache_does_no_harm(desk: Desk) -> None:
    """K6."""
    plant(desk)
    desk.save()
    desk.write("d1/e1/f1", "other")
    right = desk.scan().result
    for name in os.listdir(desk.cache):
        file = desk.cache / name
        content = file.read_bytes()
        for length in (0, 1, len(content) // 2, max(0, len(content) - 1)):
            file.write_bytes(content[:length])
            assert desk.scan().result == right
        file.unlink()
        assert desk.scan().result == right
        file.write_bytes(content)
    desk.write("d1/e1/f1", "third")
    desk.save()
    desk.forget()
    assert desk.save().result.files == right.files


def test_a_damaged_cache_is_replaced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(desk)
    desk.save()
    details = next(path for path in desk.cache.iterdir() if b"details" in os.fsencode(path))
    details.write_bytes(b"\0" * details.stat().st_size)
    desk.write("d1/e1/f1", "other")
    time.sleep(0.06)
    desk.save()
    count = Count(monkeypatch)
    desk.write("d1/e1/f1", "third")
    time.sleep(0.06)
    desk.save()
    assert count.opened == [b"f1"]


def test_another_generation_is_asked_for_every_object(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 4."""
    plant(desk)
    desk.save()
    kept = desk.engine
    count = Count(monkeypatch)
    desk.generation = "second"
    scan = desk.save()
    assert count.opened == []
    assert desk.held(scan)
    desk.engine = memory_engine()  # as after a sweep that freed everything
    desk.generation = "third"
    desk.previous = None
    swept = desk.save()
    assert swept.result.tree == scan.result.tree
    assert desk.held(swept)[b"d1/e1/f1"][2] == b"content 1\n"
    assert kept is not desk.engine


def test_a_cache_of_another_root_is_not_believed(desk: Desk) -> None:
    """S19."""
    plant(desk)
    desk.save()
    other = desk.root.with_name("other")
    shutil.copytree(desk.root, other, symlinks=True)
    (other / "d1" / "e1" / "f1").write_text("different")
    desk.root = other
    assert desk.held(desk.save())[b"d1/e1/f1"][2] == b"different"


def test_a_replaced_file_with_equal_size_and_mtime_is_noticed(desk: Desk) -> None:
    """S1: change time and inode count."""
    path = desk.write("a", "one")
    os.utime(path, ns=(10**18, 10**18))
    desk.save()
    time.sleep(0.06)
    with open(path, "wb") as file:
        file.write(b"two")
    os.utime(path, ns=(10**18, 10**18))
    assert desk.held(desk.save())[b"a"][2] == b"two"


def test_who_does_not_get_the_lock_does_not_write(desk: Desk) -> None:
    """S16."""
    plant(desk)
    desk.save()
    before = {name: (desk.cache / name).read_bytes() for name in os.listdir(desk.cache)}
    descriptor = os.open(desk.cache / "scan.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    desk.write("d1/new")
    desk.save()
    os.close(descriptor)
    assert {name: (desk.cache / name).read_bytes() for name in os.listdir(desk.cache)} == before
    desk.save()
    assert {name: (desk.cache / name).read_bytes() for name in os.listdir(desk.cache)} != before


def test_two_savers_at_once_leave_a_sound_cache(desk: Desk) -> None:
    """S16."""
    plant(desk)
    desk.save()
    desk.write("d1/one")
    one = desk.scan()
    desk.write("d2/two")
    two = desk.scan()
    two.keep()
    one.keep()
    desk.previous = two.result.tree
    assert desk.save().result == two.result


def test_details_are_compacted(desk: Desk) -> None:
    for number in range(300):
        desk.write(f"file with a rather long name, so that details are large {number:03}", "x")
    time.sleep(0.06)
    desk.save()
    for number in range(120):
        desk.write("file", str(number))
        desk.save()
    sizes = [path.stat().st_size for path in desk.cache.iterdir() if "details" in path.name]
    assert len(sizes) == 1
    assert sizes[0] < 1_200_000


def test_a_cache_folder_that_cannot_be_written_costs_only_time(desk: Desk) -> None:
    plant(desk)
    shutil.rmtree(desk.cache)
    assert desk.save().result.files == 42
    assert desk.save().result.files == 42


def test_the_git_engine_holds_what_was_scanned(tmp_path: Path, desk: Desk, git: Callable[..., str]) -> None:
    (tmp_path / "tmp").mkdir()
    desk.engine = GitEngine.create(
        os.fsencode(tmp_path / "objects.git"), temporary=os.fsencode(tmp_path / "tmp")
    )
    plant(desk)
    scan = desk.save()
    listed = git(tmp_path / "objects.git", "ls-tree", "-r", "--name-only", scan.result.tree.tree.hex())
    assert len(listed.splitlines()) == scan.result.files
    assert desk.save().result == scan.result


# --- A scanner that stays knows what was said of each entry, and does not write the cache each time ---


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the cache put off for as long as a test takes."""
    monkeypatch.setattr(cache, "_PUT_OFF_SECONDS", 3600.0)


def settled(desk: Desk) -> WorkspaceScanner:
    """Return a scanner that has scanned twice, and so knows what there is to know."""
    plant(desk)
    desk.scanner = stays = desk.local()
    desk.save()
    desk.save()
    return stays


def _edit(folder: Path) -> None:
    (folder / "f1").write_text("other")


def _edit_all(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_text(f"other {path.name}")


def _edit_and_ignore(folder: Path) -> None:
    (folder / "f1").write_text("other")
    (folder / ".gitignore").write_text("f1\nf13\n")


def _make_a_link(folder: Path) -> None:
    (folder / "f1").unlink()
    (folder / "f1").symlink_to("f13")


def _make_a_folder(folder: Path) -> None:
    if (folder / "f1").is_file():
        (folder / "f1").unlink()
        (folder / "f1").mkdir()
    (folder / "f1").chmod(0o700)


def _swap(folder: Path) -> None:
    (folder / "f1").rename(folder / "aside")
    (folder / "f13").rename(folder / "f1")
    (folder / "aside").rename(folder / "f13")


def _close(folder: Path) -> None:
    (folder / "f1").write_text("other")
    (folder / "f1").chmod(0o600)
    (folder / "f13").chmod(0o755)


def _grow(folder: Path) -> None:
    os.truncate(folder / "f1", (32 << 20) + 1)


CHANGES = [_edit, _edit_all, _edit_and_ignore, _make_a_link, _make_a_folder, _swap, _close, _grow]


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_in_a_directory_comes_out_as_without_a_cache(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    """S1, S5: twice, for what the first scan remembered counts in the second."""
    monkeypatch.setattr(scanner, "_SEVERAL_DIRECTORIES", 0)
    settled(desk)
    (desk.root / "d1/e1/.gitignore").write_text("")
    desk.save()
    desk.save()
    for _ in range(2):
        change(desk.root / "d1/e1")
        found = desk.save()
        afresh = WorkspaceScanner(cache=os.fsencode(desk.store), clock=desk.clock, objects=desk.engine)
        stays, desk.scanner = desk.scanner, afresh
        assert desk.scan().result == found.result
        desk.scanner = stays


def test_of_a_directory_in_which_a_file_changed_only_that_is_judged(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "_SEVERAL_DIRECTORIES", 0)
    settled(desk)
    examined: list[bytes] = []
    examine = Examiner.examine

    def counted(examiner: Examiner, path: bytes, *given: Any, **named: Any) -> Node:
        examined.append(path)
        return examine(examiner, path, *given, **named)

    monkeypatch.setattr(Examiner, "examine", counted)
    desk.write("d1/e1/f1", "other")
    assert desk.held(desk.save())[b"d1/e1/f1"][2] == b"other"
    assert examined == []
    desk.write("d1/e1/new")
    desk.save()
    assert examined == [b"d1/e1"]


@pytest.mark.usefixtures("patience")
def test_who_saves_again_at_once_writes_the_cache_later(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """K6: once it is written, whoever comes reads none of it again."""
    stays = settled(desk)
    written = source_of(os.fsencode(desk.cache))
    for content in ("one", "two"):
        desk.write("d1/e1/f1", content)
        time.sleep(0.06)
        desk.save()
    assert source_of(os.fsencode(desk.cache)) == written
    stays.memory.settle_up()
    assert source_of(os.fsencode(desk.cache)) != written
    count = Count(monkeypatch)
    desk.scanner = None
    assert desk.held(desk.save())[b"d1/e1/f1"][2] == b"two"
    assert count.opened == []


@pytest.mark.usefixtures("patience")
def test_what_was_never_written_is_read_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """K6: as after a kill."""
    settled(desk)
    desk.write("d1/e1/f1", "other")
    time.sleep(0.06)
    desk.save()
    count = Count(monkeypatch)
    desk.scanner = None
    assert desk.held(desk.save())[b"d1/e1/f1"][2] == b"other"
    assert count.opened == [b"f1"]


@pytest.mark.usefixtures("patience")
def test_what_was_put_off_takes_the_place_of_nobody_elses(desk: Desk) -> None:
    stays = settled(desk)
    desk.write("d1/e1/f1", "one")
    desk.save()
    desk.scanner = None
    desk.write("d2/e2/f2", "two")
    desk.save()
    written = source_of(os.fsencode(desk.cache))
    stays.memory.settle_up()
    assert source_of(os.fsencode(desk.cache)) == written
    desk.scanner = stays
    held = desk.held(desk.save())
    assert (held[b"d1/e1/f1"][2], held[b"d2/e2/f2"][2]) == (b"one", b"two")


@pytest.mark.parametrize(("limit", "value"), [("_PUT_OFF_SECONDS", -1.0), ("_MOST_OWED", 0)])
def test_the_cache_is_not_put_off_for_long_nor_when_much_is_owed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    monkeypatch.setattr(cache, limit, value)
    settled(desk)
    written = source_of(os.fsencode(desk.cache))
    desk.write("d1/e1/f1", "other")
    desk.save()
    assert source_of(os.fsencode(desk.cache)) != written


def test_closing_a_workspace_writes_what_was_put_off(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        for content in ("one", "two", "three"):
            (project / "file").write_text(content)
            time.sleep(0.06)
            workspace.save(content)
    count = Count(monkeypatch)
    with lastgood.open(project, store=store, maintenance="off") as workspace:
        assert not workspace.save(kind="auto").created
    assert count.opened == []


# --- A large first scan holds no more than it has to ---


def test_rows_that_a_large_scan_folds_come_to_the_same_cache(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether they are taken over as they were folded, or settled by what became of folders."""
    for number in range(60):  # more than is small
        desk.write(f"d4/f{number}", str(number))
    os.mkfifo(desk.root / "d4" / "pipe")
    desk.write("build/deep/x")  # entered for what may be in it, and left out
    plant(desk)
    found = []
    for most in (50_000, 0):
        monkeypatch.setattr(examine, "_UNFOLDED_ROWS", most)
        monkeypatch.setattr(cache, "_REMEMBERED", most)
        desk.forget()
        desk.save(include=("build/*/kept",))
        kept = load(os.fsencode(desk.cache), os.fsencode(desk.root))
        found.append({path: (one[:START], kept.details.rows(one)) for path, one in kept.records.items()})
    assert found[0] == found[1]
    (settled,) = {row[STATE] for row in found[0][b""][1] or () if row[NAME] == b"build"}
    assert settled == IGNORED


def test_what_blocks_hold_stays_as_it_is() -> None:
    blocks = Blocks()
    contents = [bytes([size % 251]) * size for size in (0, 1, 449, 451, 5_000, 131_071, 131_072, 1 << 21)] * 9
    held = [blocks.hold(content) for content in contents]
    assert [bytes(one) for one in held] == contents


def test_a_cache_is_written_without_a_copy_of_it_in_memory(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    records: dict[bytes, Record] = {}
    for number in range(2_000):
        names = b"\0".join(b"name %d of %d" % (place, number) for place in range(300))
        records[b"%d" % number] = (b"", b"", b"", 0, b"", b"", 0, 0, 0, (), (), (), names, (), 0, 0)
    conditions = CacheConditions(root=b"/w", generation="g", policy=b"", index=b"", tree=(b"", b""))
    tree = CachedTree(conditions, records=records, details=Details(folder, b""))
    tracemalloc.start()
    try:
        assert cache.keep(folder, tree) is not None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * (tmp_path / "scan.records").stat().st_size
