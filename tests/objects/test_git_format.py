"""What the git engine writes is what git would have written, and git finds no fault with it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastgood.engine import Engine, ObjectWriter
from lastgood.errors import Invalid
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry, TreeId
from lastgood.objects import apply_delta, decode_tree, deflate_process
from lastgood.objects.pack import Index, encode_index
from lastgood.objects.write import Compressor
from lastgood.testing.engine_suite import add_checkpoint, directory_entry, file_entry, save
from lastgood.testing.git_store import SEALED, GitStore
from lastgood.testing.git_store import GitStore as Store
from tools.living import children

NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: not set(name) & {0, 47} and name not in {b".", b".."}
)

MODES = st.integers(0, 0o7777)

LEAVES = st.tuples(st.sampled_from([FILE, LINK]), MODES, st.binary(max_size=200))

TREES = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=5),
    lambda below: st.dictionaries(NAMES, LEAVES | st.tuples(st.just(DIRECTORY), MODES, below), max_size=5),
    max_leaves=12,
)


def write_tree(writer: ObjectWriter, tree: dict[bytes, tuple[str, int, object]]) -> TreeId:
    entries = []
    for name, (kind, mode, content) in tree.items():
        if kind == DIRECTORY:
            assert isinstance(content, dict)
            entries.append(directory_entry(name, write_tree(writer, content), mode))
        else:
            assert isinstance(content, bytes)
            oid = writer.blob(content)
            bits = mode if kind == FILE else 0
            entries.append(Entry(name=name, kind=FILE if kind == FILE else LINK, mode=bits, oid=oid))
    return writer.directory(entries)


def save_tree(engine: Engine, number: int, tree: dict[bytes, tuple[str, int, object]]) -> bytes:
    writer = engine.writer()
    workspace = write_tree(writer, tree)
    commit = writer.checkpoint(
        id=f"ckpt_{number:016x}", manifest=b"{}", workspace=workspace, state={}, created_at=number * 10**9
    )
    writer.publish()
    return commit


def read_tree(store: Store, tree: TreeId) -> dict[bytes, tuple[str, int, object]]:
    found: dict[bytes, tuple[str, int, object]] = {}
    for entry in store.open().directory(tree):
        if entry.kind == DIRECTORY:
            found[entry.name] = (DIRECTORY, entry.mode, read_tree(store, entry.tree_id))
        else:
            found[entry.name] = (entry.kind, entry.mode, store.engine.read_blob(entry.oid))
    return found


def without_link_modes(tree: dict[bytes, tuple[str, int, object]]) -> dict[bytes, tuple[str, int, object]]:
    cleaned: dict[bytes, tuple[str, int, object]] = {}
    for name, (kind, mode, content) in tree.items():
        if kind == DIRECTORY:
            assert isinstance(content, dict)
            cleaned[name] = (kind, mode, without_link_modes(content))
        else:
            cleaned[name] = (kind, mode if kind == FILE else 0, content)
    return cleaned


def mktree(store: Store, entries: Sequence[Entry]) -> bytes:
    modes = {DIRECTORY: b"040000 tree", LINK: b"120000 blob"}
    rows = []
    for entry in entries:
        word = b"100755 blob" if entry.mode & 0o100 else b"100644 blob"
        rows.append(b"%b %b\t%b\0" % (modes.get(entry.kind, word), entry.oid.hex().encode(), entry.name))
    return bytes.fromhex(store.git("mktree", "-z", "--missing", feed=b"".join(rows)).decode().strip())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tree=TREES)
def test_any_tree_comes_back_and_git_accepts_it(tree: dict[bytes, tuple[str, int, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(Store(Path(folder))) as store:
        writer = store.engine.writer()
        made = write_tree(writer, tree)
        writer.checkpoint(id="ckpt_0123456789abcdef", manifest=b"{}", workspace=made, state={}, created_at=1)
        writer.publish()
        assert read_tree(store, made) == without_link_modes(tree)
        store.judge()
        assert mktree(store, store.engine.directory(made)) == made.tree


@settings(max_examples=30, deadline=None)
@given(content=st.binary(max_size=5000))
def test_blob_ids_are_those_of_git(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(Store(Path(folder))) as store:
        expected = store.git("hash-object", "--stdin", feed=content).decode().strip()
        assert store.engine.writer().blob(content).hex() == expected


def test_git_shows_a_file_of_a_checkpoint(store: Store) -> None:
    commit = save(store.engine, 7, {b"a b": b"hello"})
    assert store.git("show", f"{commit.hex()}:workspace/a b") == b"hello"
    assert store.git("show", f"{commit.hex()}:checkpoint.json") == b'{"number":7}'
    said = store.git("log", "-1", "--format=%an <%ae> %ct %s", commit.hex())
    assert said == b"lastgood <lastgood@localhost> 1700000007 checkpoint ckpt_0000000000000007\n"


def test_the_tables_of_permissions_are_plain_files(store: Store) -> None:
    writer = store.engine.writer()
    blob = writer.blob(b"hello")
    inner = writer.directory([file_entry(b"x", blob, 0o600)])
    tree = writer.directory([directory_entry(b"d", inner, 0o700), file_entry(b"s", blob, 0o4755)])
    writer.publish()
    assert store.git("cat-file", "blob", f"{tree.modes.hex()}:modes") == b"700 d\x004755 s\x00"
    assert store.git("cat-file", "blob", f"{tree.modes.hex()}:d.d/modes") == b"600 x\x00"


def test_files_are_private(store: Store) -> None:
    save(store.engine, 1, {b"a": b"one"})
    for path in store.folder.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("missing", [False, True], ids=["isal", "zlib-alone"])
def test_much_content_is_compressed_beside_and_comes_back(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, missing: bool
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, "isal", None)
    files = {b"%d" % number: bytes([number % 251]) * 40_000 + b"%d" % number for number in range(400)}
    commit = save(store.engine, 1, files)
    entries = store.open().directory(store.engine.contents(commit).workspace)
    assert {entry.name: store.engine.read_blob(entry.oid) for entry in entries} == files
    store.judge()


@pytest.mark.parametrize("missing", [False, True], ids=["isal", "zlib-alone"])
def test_small_saves_of_one_engine_come_back_once_they_have_been_much(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, missing: bool
) -> None:
    """Together they turn the engine to the quicker compression and SHA-1, in the middle of one of them."""
    if missing:
        monkeypatch.setitem(sys.modules, "isal", None)
    contents = [b"%d" % number * 60_000 for number in range(12)]
    saves = [save(store.engine, number, {b"a": content}) for number, content in enumerate(contents)]
    fresh = store.open()
    for commit, content in zip(saves, contents, strict=True):
        (entry,) = fresh.directory(fresh.contents(commit).workspace)
        assert fresh.read_blob(entry.oid) == content
    store.judge()


@pytest.fixture
def second_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a call that returns the only child that this process has got meanwhile.

    There is one whatever else is in this process, as threads that earlier tests left.
    """
    monkeypatch.setattr(deflate_process, "is_sound", lambda _most: True)
    before = children(os.getpid())

    def found() -> int:
        (child,) = (one for one in children(os.getpid()) if one not in before)
        return child

    return found


@pytest.mark.parametrize("then", [[signal.SIGKILL], [signal.SIGSTOP]], ids=["killed", "stopped"])
def test_what_a_second_process_fails_to_compress_is_compressed_here(
    store: Store, second_process: Callable[[], int], then: list[signal.Signals]
) -> None:
    """Invariant 1. It owes several batches when it ends, or falls silent."""
    contents = [random.Random(number).randbytes(100_000) for number in range(80)]
    writer = store.engine.writer()
    oids = [writer.blob(content) for content in contents[:45]]
    child = second_process()
    os.kill(child, signal.SIGSTOP)
    oids += [writer.blob(content) for content in contents[45:]]
    for sign in then:
        os.kill(child, sign)
    writer.publish()
    fresh = store.open()
    assert [fresh.read_blob(oid) for oid in oids] == contents
    assert not Path(f"/proc/{child}").exists()
    store.judge()


def test_contents_of_any_size_go_to_a_second_process_or_not(store: Store) -> None:
    """Also those that no slot takes, and those that grow when they are compressed."""
    chance = random.Random(5)
    sizes = [5 << 20, 1, 0, 6 << 20, 300_000, *[1] * 3000, (5 << 20) - 64, (5 << 20) - 70, 4 << 20]
    contents = [chance.randbytes(size) + b"%d" % number for number, size in enumerate(sizes)]
    writer = store.engine.writer()
    oids = [writer.blob(content) for content in contents]
    writer.publish()
    fresh = store.open()
    assert [fresh.read_blob(oid) for oid in oids] == contents
    store.judge()


@pytest.mark.parametrize("ending", ["publish", "abandon", "detach"])
def test_a_second_process_ends_with_the_writing(
    store: Store, second_process: Callable[[], int], ending: str
) -> None:
    writer = store.engine.writer()
    for number in range(45):
        writer.blob(random.Random(number).randbytes(100_000))
    child = second_process()
    getattr(writer, ending)()
    assert not Path(f"/proc/{child}").exists()


def test_a_program_with_threads_is_not_forked_to_compress(store: Store) -> None:
    """Decision 022."""
    before = children(os.getpid())
    waiting = Event()
    thread = Thread(target=waiting.wait)
    thread.start()
    try:
        writer = store.engine.writer()
        contents = [random.Random(number).randbytes(100_000) for number in range(60)]
        oids = [writer.blob(content) for content in contents]
        assert set(children(os.getpid())) <= set(before)
        writer.publish()
    finally:
        waiting.set()
        thread.join()
    assert [store.open().read_blob(oid) for oid in oids] == contents


def test_contents_of_every_size_come_back_and_git_accepts_them(store: Store) -> None:
    """Each size has a window of its own: noise, repetition near and as far away as can be."""
    chance = random.Random(3)
    sizes = {0, 1, 2, 255, 256, *((1 << bits) + step for bits in range(9, 18) for step in (-263, -1, 0, 1))}
    contents = []
    for size in sorted(sizes):
        noise = chance.randbytes(size // 2 + 1)
        contents += [noise[:size], (noise * 2)[:size], bytes(size)]
    writer = store.engine.writer()
    blobs = {writer.blob(content): content for content in contents}
    writer.publish()
    fresh = store.open()
    assert {oid: fresh.read_blob(oid) for oid in blobs} == blobs
    store.judge()


def test_names_and_contents_that_git_judges_do_not_fail_its_check(store: Store) -> None:
    modules = b'[submodule "../evil"]\n\tpath = -x\n\turl = --upload-pack=touch\n[broken'
    writer = store.engine.writer()
    blob = writer.blob(modules)
    entries = [file_entry(name, blob) for name in (b".gitmodules", b".GIT", b"git~1", b".gitattributes")]
    inner = writer.directory([Entry(name=b".gitmodules", kind=LINK, mode=0, oid=blob)])
    tree = writer.directory([*entries, directory_entry(b"inner", inner)])
    writer.checkpoint(id="ckpt_0123456789abcdef", manifest=b"{}", workspace=tree, state={}, created_at=1)
    writer.publish()
    store.judge()


@pytest.mark.parametrize(
    "command",
    [["gc"], ["gc", "--prune=now"], ["gc", "--aggressive", "--prune=all"], ["prune"], ["repack", "-ad"]],
    ids=" ".join,
)
def test_a_curious_users_git_frees_nothing(store: Store, command: list[str]) -> None:
    """Invariant 9."""
    commits = [save(store.engine, number, {b"a": b"%d" % number}) for number in range(5)]
    subprocess.run(
        ["git", "--git-dir", str(store.root), *command], env=SEALED, capture_output=True, check=False
    )
    fresh = store.open()
    assert set(fresh.commits()) == set(commits)
    assert list(fresh.check()) == []


def test_tags_name_the_checkpoints_for_git(store: Store) -> None:
    commit = save(store.engine, 1, {b"a": b"one"})
    store.engine.write_tags({"ckpt_0000000000000001": commit, "ckpt_00000000000000ff": b"\x01" * 20})
    assert store.git("rev-parse", "ckpt_0000000000000001").decode().strip() == commit.hex()
    assert len(store.git("tag").splitlines()) == 1
    store.judge()
    store.engine.sweep([])
    assert store.git("tag") == b""
    store.judge()


def test_a_joined_store_has_deltas_and_reads_the_same(store: Store) -> None:
    text = b"".join(b"line %d of a long file\n" % number for number in range(3000))
    contents = [text.replace(b"line %d " % number, b"changed ") for number in range(40)]
    commits = [save(store.engine, number, {b"f": content}) for number, content in enumerate(contents)]
    other = store.open()
    assert other.packs() == 40
    assert store.engine.consolidate()
    assert store.engine.packs() == 1
    assert b"chain length" in store.git("verify-pack", "-v", str(next(store.packs.glob("*.idx"))))
    for commit, content in zip(commits, contents, strict=True):
        (entry,) = other.directory(other.contents(commit).workspace)
        assert other.read_blob(entry.oid) == content
        assert other.blob_size(entry.oid) == len(content)
    assert list(other.check()) == []
    store.judge()
    assert not store.engine.consolidate()


@pytest.mark.parametrize("way", ["joined", "swept"])
def test_versions_of_a_folder_become_deltas_though_others_bear_its_name(store: Store, way: str) -> None:
    modules, turns = 16, 12
    blobs = [[b"%d %d" % (module, one) for one in range(40)] for module in range(modules)]
    commits = []
    for turn in range(turns):
        for module in range(modules):
            blobs[module][turn] = b"changed in turn %d" % turn
        tree: dict[bytes, tuple[str, int, object]] = {
            b"module%02d" % module: (
                DIRECTORY,
                0o755,
                {b"src": (DIRECTORY, 0o755, {b"%02d" % n: (FILE, 0o644, one) for n, one in enumerate(own)})},
            )
            for module, own in enumerate(blobs)
        }
        commits.append(save_tree(store.engine, turn, tree))
    assert store.engine.consolidate() if way == "joined" else store.engine.sweep(commits[1:])
    told = store.git("verify-pack", "-v", str(next(store.packs.glob("*.idx")))).splitlines()
    large = [line.split() for line in told if b" tree " in line and int(line.split()[2]) > 1000]
    # One of each folder lies there whole; the others, small as deltas, are not among the large.
    assert len(large) <= 2 * modules
    assert list(store.open().check()) == []


def test_a_sweep_without_git_keeps_deltas_readable(store: Store) -> None:
    text = b"".join(b"line %d of a long file\n" % number for number in range(3000))
    commits = [save(store.engine, number, {b"f": text + b"%d" % number}) for number in range(6)]
    big = bytes(range(256)) * 30_000
    commits.append(save(store.engine, 9, {b"big": big}))
    store.engine.consolidate()
    alone = store.open(search_path=b"")
    assert alone.sweep(commits[1:]) >= 0
    assert set(alone.commits()) == set(commits[1:])
    (entry,) = alone.directory(alone.contents(commits[-1]).workspace)
    assert alone.read_blob(entry.oid) == big
    assert list(alone.check()) == []
    store.judge()


def test_without_git_nothing_is_joined(store: Store) -> None:
    for number in range(3):
        save(store.engine, number, {b"a": b"%d" % number})
    assert not store.open(search_path=b"relative:").consolidate()
    assert store.engine.packs() == 3


def test_a_delta_copies_and_inserts() -> None:
    base = bytes(range(200))
    delta = bytes([200, 1, 13, 0x91, 10, 5, 3, *b"abc", 0x90, 5])
    assert apply_delta(base, delta) == base[10:15] + b"abc" + base[:5]


def test_a_plain_save_imports_next_to_nothing(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    program = f"""
import sys, os
before = set(sys.modules)
from lastgood.objects.engine import GitEngine
from lastgood.model.tree import Entry, FILE
engine = GitEngine.create({folder!r} + b"/objects.git", temporary={folder!r} + b"/tmp")
writer = engine.writer()
tree = writer.directory([Entry(name=b"a", kind=FILE, mode=0o600, oid=writer.blob(b"hello"))])
commit = writer.checkpoint(id="ckpt_1", manifest=b"{{}}", workspace=tree, state={{}}, created_at=1)
writer.publish()
assert engine.contents(commit).workspace == tree
print(*(name for name in set(sys.modules) - before if not name.startswith("lastgood")))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    allowed = {"__future__", "errno", "fcntl", "mmap", "zlib", "_blake2", "_operator", "_sha1", "_struct"}
    allowed |= {"_functools", "itertools"}  # which are built in
    assert set(answer.stdout.split()) <= allowed


# Packs are joined so that the whole stays small, and so that no save pays for the size of the store.


FILES = 60


@pytest.fixture
def one_thread(tmp_path: Path) -> bytes:
    """Return where a git is that looks for deltas in one thread: several share them out as time has it."""
    git = tmp_path / "programs" / "git"
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\nexec {shutil.which("git")} -c pack.threads=1 "$@"\n')
    git.chmod(0o755)
    return os.fsencode(git.parent)


def save_folder(engine: Engine, number: int, contents: list[bytes]) -> bytes:
    """Publish a checkpoint with one folder below a folder."""
    writer = engine.writer()
    entries = [file_entry(b"%02d" % place, writer.blob(one)) for place, one in enumerate(contents)]
    below = writer.directory(entries)
    folder = directory_entry(b"src", below, 0o755)
    commit = writer.checkpoint(
        id=f"ckpt_{number:016x}",
        manifest=b"{}",
        workspace=writer.directory([folder]),
        state={},
        created_at=number * 10**9,
    )
    writer.publish()
    return commit


def bytes_of_trees(store: GitStore) -> int:
    """Return what all trees take, compressed and as deltas."""
    told = [
        line.split()
        for index in store.packs.glob("*.idx")
        for line in store.git("verify-pack", "-v", str(index)).splitlines()
    ]
    return sum(int(row[3]) for row in told if len(row) > 4 and row[1] == b"tree")


@pytest.mark.parametrize("way", ["joined", "swept"])
def test_a_store_that_is_joined_again_and_again_is_as_small_as_if_it_were_once(
    store: GitStore, tmp_path: Path, one_thread: bytes, way: str
) -> None:
    """Versions of a folder become deltas of their neighbours in time, however often they were rewritten."""
    (tmp_path / "once").mkdir()
    once = GitStore(tmp_path / "once")
    again_and_again, at_once = (one.open(search_path=one_thread) for one in (store, once))
    commits = []
    contents = [os.urandom(9) for _ in range(FILES)]
    for turn in range(80):
        contents[turn * 7 % FILES] = os.urandom(9)
        save_folder(at_once, turn, contents)
        commits.append(save_folder(again_and_again, turn, contents))
        if turn % 16 == 15:
            assert again_and_again.consolidate()
    assert at_once.consolidate()
    if way == "swept":
        again_and_again.sweep(commits[1:])
        at_once.sweep(commits[1:])

    assert bytes_of_trees(store) <= 1.05 * bytes_of_trees(once)
    once.close()
    assert list(store.open().check()) == []
    store.judge()


def test_what_is_due_leaves_a_pack_alone_that_outweighs_the_others(store: GitStore) -> None:
    large = save(store.engine, 0, {b"large": os.urandom(300_000)})
    (first,) = store.pack_files()
    small = [save(store.engine, number, {b"f": b"%d" % number}) for number in range(1, 30)]

    assert store.engine.consolidate("due")

    assert first in store.pack_files()
    assert store.engine.packs() == 2
    assert set(store.open().commits()) == {large, *small}
    assert list(store.open().check()) == []
    store.judge()


def test_what_is_joined_while_nobody_works_leaves_alone_only_what_outweighs_the_others_by_far(
    store: GitStore,
) -> None:
    save(store.engine, 0, {b"large": os.urandom(300_000)})
    (first,) = store.pack_files()
    for number in (1, 2):
        save(store.engine, number, {b"f": os.urandom(8_000)})

    assert store.engine.consolidate("idle")
    assert store.engine.packs() == 2
    assert first in store.pack_files()

    save(store.engine, 3, {b"f": os.urandom(20_000)})

    assert store.engine.consolidate("idle")
    assert store.engine.packs() == 1
    store.judge()


def test_what_is_due_is_all_of_it_once_the_others_weigh_enough(store: GitStore) -> None:
    for number in range(6):
        save(store.engine, number, {b"f": os.urandom(10_000)})

    assert store.engine.consolidate("due")

    assert store.engine.packs() == 1
    store.judge()


def test_a_single_pack_is_never_due(store: GitStore) -> None:
    save(store.engine, 0, {b"large": os.urandom(300_000)})
    save(store.engine, 1, {b"f": b"small"})

    assert not store.engine.consolidate("due")
    assert store.engine.packs() == 2


def test_a_growing_store_writes_each_object_a_few_times_only(store: GitStore) -> None:
    """However large the store, a save costs maintenance about the same."""
    written = 0
    save(store.engine, 0, {b"large": os.urandom(400_000)})
    for number in range(1, 97):
        save(store.engine, number, {b"f": os.urandom(2000)})
        before = set(store.pack_files())
        if number % 8 == 0 and store.engine.consolidate("due"):
            written += sum(pack.stat().st_size for pack in set(store.pack_files()) - before)

    assert store.engine.packs() < 5
    assert written < 1_200_000  # all of it each time would be six millions
    store.judge()


def test_objects_of_no_checkpoint_are_joined_too(store: GitStore) -> None:
    """What a save stored anew because the store had lost it is dropped by no joining."""
    writer = store.engine.writer()
    blob = writer.blob(b"nobody's")
    tree = writer.directory([file_entry(b"f", blob)])
    writer.publish()
    save(store.engine, 1, {b"f": b"one"})

    assert store.engine.consolidate()

    assert store.engine.packs() == 1
    assert store.engine.read_blob(blob) == b"nobody's"
    (entry,) = store.engine.directory(tree)
    assert entry.oid == blob


# An engine that lives long looks objects up in a table, and still sees what comes and goes.


def test_what_comes_and_goes_is_seen_by_an_engine_that_has_looked_often(store: Store) -> None:
    other = store.open()

    def readable(commit: bytes, content: bytes) -> bool:
        (entry,) = store.engine.directory(store.engine.contents(commit).workspace)
        return store.engine.read_blob(entry.oid) == content

    kept = {save(store.engine, number, {b"f": b"%d" % number}): b"%d" % number for number in range(3)}
    for turn in range(4):
        assert len(store.engine.missing([os.urandom(20) for _ in range(500)])) == 500
        for number in range(10 * turn + 10, 10 * turn + 13):
            kept[save(other, number, {b"f": b"%d" % number})] = b"%d" % number
            assert all(readable(commit, content) for commit, content in kept.items())
        if turn == 1:
            assert other.consolidate()
        if turn == 2:
            store.engine.close()
        assert all(readable(commit, content) for commit, content in kept.items())


def test_what_is_gone_is_not_found_by_an_engine_that_has_looked_often(store: Store) -> None:
    commits = [save(store.engine, number, {b"f": b"%d" % number}) for number in range(4)]
    store.engine.missing([os.urandom(20) for _ in range(500)])
    store.open().sweep(commits[2:])
    store.engine.refresh()
    assert set(store.engine.missing(commits)) == set(commits[:2])


def test_a_pack_that_came_in_the_tick_of_the_last_look_is_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of files goes on in steps of some milliseconds: a folder may change twice at one time."""
    other = store.open()
    look = os.stat
    tick = time.time_ns() + 3600 * 10**9  # however slow the machine, it is not over

    def frozen(path: str | bytes | int, **options: int) -> os.stat_result:
        seen = look(path, **options)  # type: ignore[arg-type]
        if path != os.fsencode(store.packs):
            return seen
        return os.stat_result(tuple(seen), {"st_mtime_ns": tick})

    monkeypatch.setattr(os, "stat", frozen)
    assert store.engine.missing([b"\x01" * 20])
    commit = save(other, 1, {b"f": b"content"})
    assert store.engine.missing([commit]) == set()
    assert store.engine.contents(commit).manifest == b'{"number":1}'


# --- What others publish is looked for now and then; what is relied upon, each time ---


def test_a_save_stores_again_what_a_pack_had_that_was_taken_away(store: Store) -> None:
    """It looks at the packs it rests on, however lately all of them were listed."""
    save(store.engine, 1, {b"f": b"content"})
    store.engine.missing([os.urandom(20) for _ in range(500)])
    for path in store.packs.iterdir():
        path.unlink()
    again = save(store.engine, 2, {b"f": b"content"})
    reader = store.open()
    (entry,) = reader.directory(reader.contents(again).workspace)
    assert reader.read_blob(entry.oid) == b"content"


def test_what_a_pack_had_that_was_taken_away_is_missing(store: Store) -> None:
    commit = save(store.engine, 1, {b"f": b"content"})
    store.engine.missing([os.urandom(20) for _ in range(500)])
    assert store.engine.missing([commit]) == set()
    for path in store.packs.iterdir():
        path.unlink()
    assert store.engine.missing([commit]) == {commit}


def test_what_others_published_a_while_ago_is_not_stored_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = store.open()
    save(store.engine, 1, {b"a": b"own"})
    save(other, 2, {b"b": b"others'"})
    moment = time.monotonic() + 3600
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    writer = store.engine.writer()
    assert writer.lacks([writer.blob(b"others'"), writer.blob(b"own")]) == set()
    assert writer.stored_bytes == store.engine.writer().stored_bytes
    writer.abandon()


def test_small_trees_lie_in_a_small_pack_as_they_are_and_git_reads_them(store: Store) -> None:
    commit = save(store.engine, 1, {b"name%d" % number: b"content %d" % number for number in range(9)})
    tree = store.engine.contents(commit).workspace.tree
    (pack,) = store.packs.glob("*.pack")
    content = store.git("cat-file", "tree", tree.hex())
    assert content in pack.read_bytes()
    assert len(decode_tree(content)) == 9


def test_what_becomes_nothing_gets_its_ids_and_takes_no_room(store: Store, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(5 << 20))
    writer, kept = store.engine.writer(kept=False), store.engine.writer()
    empty = writer.stored_bytes
    with (tmp_path / "large").open("rb") as large:
        found = [writer.blob(b"content"), writer.blob_from(large.fileno(), 5 << 20)]
        large.seek(0)
        assert found == [kept.blob(b"content"), kept.blob_from(large.fileno(), 5 << 20)]
    assert writer.lacks(found) == set()
    assert writer.stored_bytes == empty
    writer.abandon()
    kept.abandon()


@given(st.binary(max_size=200), st.integers(0, 400))
def test_what_is_summed_up_by_another_library_comes_to_the_same(content: bytes, times: int) -> None:
    compressor = Compressor()
    compressor.expect_much()
    whole = content * times
    assert compressor.crc32(whole) == zlib.crc32(whole)
    assert compressor.adler32(whole) == zlib.adler32(whole)
    assert zlib.decompress(compressor.compress(whole)) == whole


def save_uncompressed(store: Store, number: int, files: dict[bytes, bytes], *, beside: int = 0) -> bytes:
    """Save in a pack in which as much else lies that no checkpoint needs."""
    writer = store.engine.writer(compressed=False)
    commit = add_checkpoint(writer, number, files)
    writer.blob(os.urandom(beside))
    writer.publish()
    return commit


def test_small_contents_lie_as_they_are_in_a_pack_that_is_not_compressed(store: Store) -> None:
    text = b"a line like all others\n" * 1000
    save_uncompressed(store, 1, {b"f": text, b"empty": b""})
    (pack,) = store.packs.glob("*.pack")
    assert text in pack.read_bytes()
    assert list(store.open().check()) == []
    store.judge()


def test_what_is_not_small_is_compressed_all_the_same(store: Store) -> None:
    line = b"a line like all others\n"
    files = {b"%d" % number: b"%d\n" % number + line * 1000 for number in range(40)}
    save_uncompressed(store, 1, files | {b"large": line * 100_000})
    (pack,) = store.packs.glob("*.pack")
    assert pack.stat().st_size < 300_000
    store.judge()


@pytest.mark.parametrize("beside", [0, 65 << 20])
@pytest.mark.parametrize("way", ["joined", "swept"])
def test_what_lay_uncompressed_is_compressed_when_packs_are_joined(
    store: Store, way: str, beside: int
) -> None:
    """Also in a store of so much that git keeps most of it as it lies."""
    large = save_uncompressed(store, 0, {b"large": os.urandom(beside)}, beside=9)
    texts = [b"".join(b"%d %d\n" % (number, one) for one in range(6000)) for number in range(8)]
    commits = [
        save_uncompressed(store, number, {b"f": text}, beside=9) for number, text in enumerate(texts, 1)
    ]
    if way == "joined":
        assert store.engine.consolidate()
    else:
        store.engine.sweep([large, *commits])

    taken = sum(pack.stat().st_size for pack in store.pack_files())
    assert taken < beside + sum(map(len, texts)) // 2
    reader = store.open()
    for commit, text in zip(commits, texts, strict=True):
        (entry,) = reader.directory(reader.contents(commit).workspace)
        assert reader.read_blob(entry.oid) == text
    store.judge()


def test_git_reads_the_places_in_a_pack_of_more_than_two_gibibytes() -> None:
    places = [(1 << 31) - 1, 1 << 31, (1 << 31) + 1]
    rows = [(bytes([number]) * 20, 0, place) for number, place in enumerate(places)]
    index = encode_index(rows, pack_checksum=bytes(20))
    shown = subprocess.run(["git", "show-index"], input=index, capture_output=True, check=True).stdout
    assert [int(line.split()[0]) for line in shown.splitlines()] == places


def test_an_index_has_each_of_its_objects_asked_for_alone(store: Store) -> None:
    save(store.engine, 1, {b"%d" % number: b"content %d" % number for number in range(20)})
    (file,) = store.packs.glob("*.idx")
    index = Index.open(os.fsencode(file))
    assert [oid for one in index.oids() for oid in index.among([one])] == list(index.oids())


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_a_state_file_has_a_plain_name(store: Store, name: str) -> None:
    writer = store.engine.writer()
    tree = writer.directory([])
    with pytest.raises(Invalid):
        writer.checkpoint(
            id=f"ckpt_{1:016x}", manifest=b"{}", workspace=tree, state={name: tree.tree}, created_at=0
        )
    writer.abandon()
