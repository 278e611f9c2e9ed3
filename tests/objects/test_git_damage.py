"""Every damage is found, names what it hits, and is mended as far as it can be."""

from __future__ import annotations

import errno
import importlib
import os
import random
import resource
import sys
import zlib
from _struct import pack as pack_numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha1
from pathlib import Path

import pytest

from lastgood.errors import Damaged
from lastgood.objects import apply_delta
from lastgood.objects.pack import LIKELY_BYTES, encode_index, entry_header, vacant
from lastgood.objects.repository import Layout, TemporaryFile
from lastgood.testing.engine_suite import save
from lastgood.testing.git_store import GitStore as Store
from tools.harm import HARM, empty, flip, remove, truncate, zero


def fill(store: Store) -> dict[bytes, bytes]:
    """Save a few checkpoints and return what they hold: blob ids to contents."""
    rng = random.Random(7)
    contents: dict[bytes, bytes] = {}
    for number in range(4):
        files = {b"%d" % n: rng.randbytes(300 + 40 * n) for n in range(4)}
        files[b"text"] = b"".join(b"line %d\n" % line for line in range(200 + number))
        save(store.engine, number, files)
        for content in files.values():
            contents[sha1(b"blob %d\0" % len(content) + content).digest()] = content
    return contents


def reads_true(store: Store, contents: dict[bytes, bytes]) -> set[bytes]:
    """Read everything again and return the ids that are refused; nothing may come back wrong."""
    engine = store.open()
    refused = set()
    for oid, content in contents.items():
        try:
            assert engine.read_blob(oid) == content
        except Damaged as error:
            assert oid.hex() in error.message
            refused.add(oid)
    engine.close()
    return refused


@pytest.mark.parametrize("kind", ["pack", "idx"])
@pytest.mark.parametrize("shape", ["apart", "joined"])
def test_every_flipped_bit_is_found_and_never_read(store: Store, kind: str, shape: str) -> None:
    contents = fill(store)
    if shape == "joined":
        assert store.engine.consolidate()
    path = min(store.packs.glob(f"*.{kind}"))
    sound = path.read_bytes()
    places = sorted(
        {0, 5, 11, 12, 13, len(sound) - 1, len(sound) - 21, len(sound) - 41, *range(0, len(sound), 211)}
    )
    for place in places:
        flipped = bytearray(sound)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        faults = list(store.open().check())
        assert faults, place
        refused = reads_true(store, contents)
        if kind == "pack":
            assert refused <= {fault.oid for fault in faults}
        else:
            assert all(fault.mendable for fault in faults), (place, faults)
    path.write_bytes(sound)
    assert list(store.open().check()) == []


def test_a_content_that_rotted_since_it_was_written_is_not_what_it_was(store: Store) -> None:
    content = os.urandom(9000)
    writer = store.engine.writer(compressed=False)
    oid = writer.blob(content)
    assert writer.contents == {oid: content}
    writer.publish()
    assert store.engine.has_content(oid, content)
    (pack,) = store.pack_files()
    flip(pack)
    assert not store.engine.has_content(oid, content)
    assert not store.open().has_content(oid, content)


@pytest.mark.parametrize("compressed", [True, False], ids=["compressed", "as-they-are"])
@pytest.mark.parametrize("library", ["isal.isal_zlib", "zlib"])
def test_contents_that_end_where_a_read_does_come_back(
    store: Store, monkeypatch: pytest.MonkeyPatch, library: str, *, compressed: bool
) -> None:
    """Random bytes: their entries are a little longer than they are, and end before, at and after a read."""
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", importlib.import_module(library))
    rng = random.Random(11)
    writer = store.engine.writer(compressed=compressed)
    contents = [rng.randbytes(size) for size in (0, *range(LIKELY_BYTES - 40, LIKELY_BYTES + 8), 50_000)]
    oids = [writer.blob(content) for content in contents]
    writer.publish()
    engine = store.open()
    for oid, content in zip(oids, contents, strict=True):
        assert b"".join(engine.pieces(oid)) == content
        assert engine.has_content(oid, content)
        assert not engine.has_content(oid, content[:-1] + b"\xff\0")


DAMAGES = [*HARM, flip]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_rebuilt_and_nothing_is_lost(store: Store, damage: object) -> None:
    contents = fill(store)
    assert callable(damage)
    damage(min(store.packs.glob("*.idx")))
    faults = list(store.open().check())
    assert faults
    assert all(fault.mendable for fault in faults)
    assert store.open().repair()
    assert reads_true(store, contents) == set()
    assert list(store.open().check()) == []
    assert list(store.open().repair()) == []
    store.judge()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_pack_is_set_aside_and_its_good_objects_are_saved(store: Store, damage: object) -> None:
    contents = fill(store)
    store.engine.consolidate()
    assert callable(damage)
    victim = store.pack_files()[0]
    damage(victim)
    faults = list(store.open().check())
    assert faults
    assert any(not fault.mendable for fault in faults)
    lost_before = reads_true(store, contents)
    assert store.open().repair()
    assert reads_true(store, contents) <= lost_before
    assert all(not fault.mendable for fault in store.open().check())
    assert list(store.open().repair()) == []
    if damage is not remove:
        assert (store.root / "damaged" / victim.name).exists()
    assert (store.root / "damaged" / victim.with_suffix(".idx").name).exists()


def flip_at(place: int) -> Callable[[bytes], bytes]:
    def flip(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[place] ^= 1
        return bytes(changed)

    return flip


CONTAINERS = {
    "a bit of the header's mark": flip_at(1),
    "a bit of the version": flip_at(7),
    "a bit of the number of objects": flip_at(11),
    "a bit of the first entry": flip_at(12),
    "a bit of the trailer": flip_at(-1),
    "a bit of the trailer's beginning": flip_at(-20),
    "a byte appended": lambda content: content + b"x",
    "a page appended": lambda content: content + bytes(4096),
    "the last byte cut": lambda content: content[:-1],
    "the trailer cut": lambda content: content[:-20],
    "the header zeroed": lambda content: bytes(12) + content[12:],
    "the trailer zeroed": lambda content: content[:-20] + bytes(20),
}


@pytest.mark.parametrize("shape", ["apart", "joined"])
@pytest.mark.parametrize("change", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_what_can_be_read_in_damaged_packs_can_be_read_after_their_repair(
    store: Store, change: Callable[[bytes], bytes], shape: str
) -> None:
    """K4: a salvaged pack may have the very bytes, and so the name, that the damaged one had when whole."""
    contents = fill(store)
    if shape == "joined":
        assert store.engine.consolidate()
    store.engine.close()
    damaged = {path.name: change(path.read_bytes()) for path in store.pack_files()}
    for name, content in damaged.items():
        (store.packs / name).write_bytes(content)
    refused = reads_true(store, contents)
    commits = set(store.open().commits())
    told = store.open().repair()

    assert len(told) == len(damaged)
    assert reads_true(store, contents) == refused
    assert set(store.open().commits()) == commits
    assert store.open().repair() == []
    assert all(not fault.mendable for fault in store.open().check())
    assert {name: (store.root / "damaged" / name).read_bytes() for name in damaged} == damaged
    store.judge()


def test_packs_of_odd_names_are_emptied_before_they_are_set_aside(store: Store) -> None:
    contents = fill(store)
    for path in [*store.packs.iterdir()]:
        path.rename(path.with_name(f"old {path.name}"))
    assert reads_true(store, contents) == set()
    store.open().repair()
    assert reads_true(store, contents) == set()
    assert list(store.open().check()) == []
    assert all(path.name.startswith("pack-") for path in store.packs.iterdir())


def set_aside_by_hand(store: Store, *, number: bytes = b"") -> dict[str, bytes]:
    """Move every pack to where an earlier release's repair put sound ones, and return what lies there."""
    (store.root / "damaged").mkdir(exist_ok=True)
    for path in [*store.packs.iterdir()]:
        path.rename(store.root / "damaged" / (path.name + os.fsdecode(number)))
    return {path.name: path.read_bytes() for path in (store.root / "damaged").iterdir()}


@pytest.mark.parametrize("number", [b"", b".1"], ids=["its own name", "a name with a number"])
@pytest.mark.parametrize("shape", ["apart", "joined"])
def test_what_checkpoints_miss_is_taken_out_of_what_was_set_aside(
    store: Store, shape: str, number: bytes
) -> None:
    """K4: an earlier release set aside sound packs, and every checkpoint in them was gone."""
    contents = fill(store)
    if shape == "joined":
        assert store.engine.consolidate()
    commits = set(store.engine.commits())
    store.engine.close()
    aside = set_aside_by_hand(store, number=number)
    assert reads_true(store, contents) == set(contents)

    (told,) = store.open().repair(wanted=commits)

    assert "taken out of what was set aside before" in told
    assert reads_true(store, contents) == set()
    assert set(store.open().commits()) == commits
    assert {path.name: path.read_bytes() for path in (store.root / "damaged").iterdir()} == aside
    assert list(store.open().repair(wanted=commits)) == []
    assert list(store.open().check()) == []
    store.judge()


def test_nothing_is_taken_out_of_what_was_set_aside_that_no_checkpoint_misses(store: Store) -> None:
    wanted = save(store.engine, 1, {b"shared": b"shared"})
    gone = save(store.engine, 2, {b"shared": b"shared", b"own": b"own"})
    store.engine.close()
    set_aside_by_hand(store)
    assert list(store.open().repair()) == []
    store.open().repair(wanted=[wanted])
    assert set(store.open().commits()) == {wanted}
    assert store.open().missing([gone, sha1(b"blob 3\0own").digest()]) == {
        gone,
        sha1(b"blob 3\0own").digest(),
    }


@pytest.mark.parametrize("damage", [truncate, flip, zero, empty])
def test_only_what_proves_sound_is_taken_out_of_what_was_set_aside(
    store: Store, damage: Callable[[Path], None]
) -> None:
    contents = fill(store)
    store.engine.consolidate()
    commits = set(store.engine.commits())
    store.engine.close()
    damage(store.pack_files()[0])
    refused = reads_true(store, contents)
    readable = {commit for commit in commits if can_be_walked(store, commit)}
    set_aside_by_hand(store)

    store.open().repair(wanted=commits)

    assert reads_true(store, contents) >= refused
    assert {commit for commit in commits if can_be_walked(store, commit)} >= readable
    assert all(not fault.mendable for fault in store.open().check())
    assert list(store.open().repair(wanted=commits)) == []


def can_be_walked(store: Store, commit: bytes) -> bool:
    engine = store.open()
    try:
        for entry in engine.directory(engine.contents(commit).workspace):
            engine.read_blob(entry.oid)
    except Damaged:
        return False
    return True


def test_what_a_damaged_pack_lost_is_taken_out_of_a_sound_copy_that_was_set_aside(store: Store) -> None:
    contents = fill(store)
    commits = set(store.engine.commits())
    store.engine.close()
    kept = {path.name: path.read_bytes() for path in store.packs.iterdir()}
    victim = max(store.pack_files(), key=lambda path: path.stat().st_size)
    (store.root / "damaged").mkdir()
    for suffix in (".pack", ".idx"):
        name = victim.with_suffix(suffix).name
        (store.root / "damaged" / name).write_bytes(kept[name])
    zero(victim)

    assert len(store.open().repair(wanted=commits)) == 2

    assert reads_true(store, contents) == set()
    assert list(store.open().check()) == []


@contextmanager
def keeping_packs() -> Iterator[None]:
    """Have the disk refuse to delete any pack."""
    unlink = os.unlink

    def refusing(path: str | bytes, **options: int) -> None:
        if os.fsencode(path).endswith(b".pack"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, **options)

    with pytest.MonkeyPatch.context() as failing:
        failing.setattr(os, "unlink", refusing)
        yield


def marks(store: Store) -> list[Path]:
    return sorted(store.packs.glob("*.removed"))


def test_what_the_disk_kept_of_joined_packs_is_no_fault_and_goes_with_the_next_sweep(store: Store) -> None:
    contents = fill(store)
    with keeping_packs():
        assert store.engine.consolidate()
    assert marks(store)
    engine = store.open()
    engine.collect_leftovers()
    assert engine.repair() == []
    assert list(engine.check()) == []
    assert (engine.packs(), reads_true(store, contents)) == (1, set())
    assert engine.unreached_bytes(list(engine.commits())) > 0
    assert engine.sweep(list(engine.commits())) > 0
    assert engine.unreached_bytes(list(engine.commits())) == 0
    assert [marks(store), len(store.pack_files()), reads_true(store, contents)] == [[], 1, set()]
    store.judge()


def test_what_the_disk_kept_of_joined_packs_makes_good_for_the_new_one(store: Store) -> None:
    """K4: nothing that can be read is given up."""
    contents = fill(store)
    commits = list(store.engine.commits())
    before = set(store.pack_files())
    with keeping_packs():
        assert store.engine.consolidate()
    (joined,) = set(store.pack_files()) - before
    zero(joined)
    assert store.open().repair(wanted=commits)
    assert reads_true(store, contents) == set()
    assert list(store.open().check()) == []


def test_a_mark_beside_a_pack_that_was_published_anew_takes_nothing_away(store: Store) -> None:
    contents = fill(store)
    for path in store.pack_files():
        path.with_suffix(".removed").write_bytes(b"")
    assert list(store.open().check()) == []
    store.open().sweep(list(store.engine.commits()))
    assert [marks(store), reads_true(store, contents)] == [[], set()]


def test_a_pack_never_takes_the_place_of_another(store: Store) -> None:
    contents = fill(store)
    first, second = store.pack_files()[:2]
    whole = first.read_bytes()
    first.write_bytes(second.read_bytes())  # what lies under the first one's name is the second now
    second.unlink()
    store.open().repair()
    lost = reads_true(store, contents)
    draft = TemporaryFile.create(bytes(store.temporary), b".pack")
    os.write(draft.descriptor, whole)
    layout = Layout(bytes(store.root), temporary=bytes(store.temporary))

    name = vacant(layout, first.stem.encode(), pack=draft)

    draft.discard()
    assert name != first.stem.encode()
    assert not (store.packs / f"{os.fsdecode(name)}.pack").exists()
    assert reads_true(store, contents) == lost


def test_a_pack_that_cannot_be_looked_at_is_no_reason_to_try_other_names(store: Store) -> None:
    """Without a free descriptor no name can be looked at; a save says so, and does not go on for ever."""
    fill(store)
    draft = TemporaryFile.create(bytes(store.temporary), b".pack")
    layout = Layout(bytes(store.root), temporary=bytes(store.temporary))
    name = store.pack_files()[0].stem.encode()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
            vacant(layout, name, pack=draft)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        draft.discard()


def test_a_sweep_frees_nothing_by_an_index_that_is_another_packs(store: Store) -> None:
    kept = save(store.engine, 1, {b"kept": b"kept"})
    save(store.engine, 2, {b"gone": b"gone"})
    one, two = (path.with_suffix(".idx") for path in store.pack_files())
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    with pytest.raises(Damaged):
        store.open().sweep([kept])
    (entry,) = store.open().directory(store.open().contents(kept).workspace)
    assert store.open().read_blob(entry.oid) == b"kept"


def test_what_a_second_pack_still_has_is_not_lost(store: Store) -> None:
    contents = fill(store)
    first = store.pack_files()[0]
    copies = {path.name: path.read_bytes() for path in store.packs.iterdir()}
    store.engine.consolidate()
    for name, content in copies.items():
        (store.packs / name).write_bytes(content)
    flip(first)
    assert all(fault.mendable for fault in store.open().check())
    assert reads_true(store, contents) == set()
    store.open().repair()
    assert list(store.open().check()) == []
    assert reads_true(store, contents) == set()


def test_swapped_packs_are_mended(store: Store) -> None:
    contents = fill(store)
    one, two, *_ = store.pack_files()
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    faults = list(store.open().check())
    assert len(faults) >= 2
    assert all(fault.mendable for fault in faults)
    store.open().repair()
    assert reads_true(store, contents) == set()
    assert list(store.open().check()) == []


def test_an_extra_file_is_found_and_set_aside(store: Store) -> None:
    fill(store)
    (store.packs / "tmp_pack_x\n").write_bytes(b"x")
    (fault,) = store.open().check()
    assert fault.mendable
    store.open().repair()
    assert list(store.open().check()) == []
    assert (store.root / "damaged" / "tmp_pack_x\n").exists()


@pytest.mark.parametrize("name", ["config", "HEAD", "packed-refs"])
def test_the_repositorys_own_files_are_written_anew(store: Store, name: str) -> None:
    fill(store)
    store.engine.write_tags({"ckpt_0000000000000009": save(store.engine, 9, {b"file": b"tagged"})})
    flip(store.root / name) if name != "packed-refs" else (store.root / name).write_bytes(b"junk\n")
    assert [fault.file for fault in store.open().check()] == [name]
    store.open().repair()
    assert list(store.open().check()) == []
    store.judge()


def test_two_threads_may_find_at_once_that_a_pack_has_gone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16: as where others join packs while threads save."""
    fill(store)
    before = store.engine.packs()
    for path in list(store.packs.glob(f"{min(store.packs.glob('*.idx')).stem}.*")):
        path.unlink()
    listing = os.listdir

    def meanwhile(folder: bytes) -> list[bytes]:
        monkeypatch.setattr(os, "listdir", listing)
        store.engine.refresh()
        return listing(folder)

    monkeypatch.setattr(os, "listdir", meanwhile)
    store.engine.refresh()
    assert store.engine.packs() == before - 1


def test_a_missing_pack_is_told_object_by_object(store: Store) -> None:
    save(store.engine, 1, {b"shared": b"shared"})
    (older,) = store.pack_files()
    save(store.engine, 2, {b"shared": b"shared", b"own": b"own"})
    older.unlink()
    older.with_suffix(".idx").unlink()
    faults = list(store.open().check())
    shared = sha1(b"blob 6\0shared").digest()
    assert {fault.oid for fault in faults} == {shared}
    assert not any(fault.mendable for fault in faults)


@pytest.mark.parametrize("search_path", [None, b""], ids=["with git", "without git"])
def test_sweeping_refuses_to_make_damage_worse(store: Store, search_path: bytes | None) -> None:
    shared = random.Random(1).randbytes(9000)
    save(store.engine, 1, {b"shared": shared, b"own": b"own"})
    kept = save(store.engine, 2, {b"shared": shared})
    flip(max(store.pack_files(), key=lambda path: path.stat().st_size))
    before = {path.name: path.read_bytes() for path in store.packs.iterdir()}
    with pytest.raises(Damaged):
        store.open(search_path=search_path).sweep([kept])
    assert {path.name: path.read_bytes() for path in store.packs.iterdir()} == before
    assert list(store.temporary.iterdir()) == []


def test_a_sweep_does_not_rely_on_a_damaged_second_copy(store: Store) -> None:
    shared = random.Random(1).randbytes(9000)
    save(store.engine, 1, {b"shared": shared, b"own": b"own"})
    first = store.pack_files()[0]
    held = {path: path.read_bytes() for path in store.packs.iterdir()}
    for path in held:
        path.unlink()
    kept = save(store.open(), 2, {b"shared": shared})
    flip(store.pack_files()[0])
    for path, content in held.items():
        path.write_bytes(content)
    store.open().sweep([kept])
    assert not first.exists()
    (entry,) = store.open().directory(store.open().contents(kept).workspace)
    assert store.open().read_blob(entry.oid) == shared


def test_joining_refuses_to_make_damage_worse(store: Store) -> None:
    contents = fill(store)
    flip(store.pack_files()[0])
    refused = reads_true(store, contents)
    with pytest.raises(Damaged):
        store.engine.consolidate()
    assert reads_true(store, contents) == refused


def plant(store: Store, entries: list[tuple[bytes, bytes]]) -> None:
    """Write a pack of raw entries, and an index that gives each the id it is paired with."""
    body = b"PACK" + pack_numbers(">II", 2, len(entries))
    rows = []
    for oid, raw in entries:
        rows.append((oid, zlib.crc32(raw), len(body)))
        body += raw
    trailer = sha1(body).digest()
    stem = store.packs / f"pack-{trailer.hex()}"
    stem.with_suffix(".pack").write_bytes(body + trailer)
    stem.with_suffix(".idx").write_bytes(encode_index(rows, pack_checksum=trailer))


def delta_of(size: int, result: int, orders: bytes) -> bytes:
    out = b""
    for number in (size, result):
        left = number
        while left > 0x7F:
            out += bytes([left & 0x7F | 0x80])
            left >>= 7
        out += bytes([left])
    return out + orders


X, Y = b"\x11" * 20, b"\x22" * 20
BOMB = zlib.compress(bytes(50 << 20), 9)
HOSTILE = {
    "a size that lies low": [(X, entry_header(3, 10) + BOMB)],
    "a size that lies high": [(X, entry_header(3, 1 << 60) + zlib.compress(b"x"))],
    "an absurd size": [(X, b"\xbf" + b"\xff" * 12 + zlib.compress(b"x"))],
    "deltas in a circle": [
        (X, entry_header(7, 4) + Y + zlib.compress(delta_of(1, 1, b"\x01x"))),
        (Y, entry_header(7, 4) + X + zlib.compress(delta_of(1, 1, b"\x01x"))),
    ],
    "a delta of itself": [(X, entry_header(7, 4) + X + zlib.compress(delta_of(1, 1, b"\x01x")))],
    "a base in front of the pack": [(X, entry_header(6, 4) + b"\xff\x7f" + zlib.compress(b"xxxx"))],
    "a base at no distance": [(X, entry_header(6, 4) + b"\x00" + zlib.compress(b"xxxx"))],
    "an unknown kind": [(X, entry_header(5, 1) + zlib.compress(b"x"))],
    "a delta that multiplies": [
        (Y, entry_header(3, 1 << 16) + zlib.compress(bytes(1 << 16))),
        (
            X,
            entry_header(7, len(delta_of(1 << 16, 1 << 40, b"\x80" * 5000)))
            + Y
            + zlib.compress(delta_of(1 << 16, 1 << 40, b"\x80" * 5000)),
        ),
    ],
    "a header that never ends": [(X, b"\xff" * 5000)],
    "another content": [(X, entry_header(3, 1) + zlib.compress(b"x"))],
}


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_pack_is_refused_in_bounded_time_and_memory(
    store: Store, entries: list[tuple[bytes, bytes]]
) -> None:
    contents = fill(store)
    plant(store, entries)
    engine = store.open()
    with pytest.raises(Damaged):
        engine.read_blob(X)
    with pytest.raises(Damaged), open(os.devnull, "wb") as sink:
        engine.copy_blob(X, sink.fileno())
    assert X in {fault.oid for fault in engine.check()}
    engine.repair()
    assert list(engine.check()) == []
    assert reads_true(store, contents) == set()


@pytest.mark.parametrize(
    "delta",
    [
        b"",
        b"\x01",
        b"\x05\x01\x01",
        b"\x80" * 20,
        delta_of(5, 1, b"\x00"),
        delta_of(5, 9, b"\x91\x03\x09"),
        delta_of(4, 1, b"\x01x"),
        delta_of(5, 2, b"\x01x"),
        delta_of(5, 1, b"\x02xy"),
        delta_of(5, 1, b"\xff"),
    ],
)
def test_a_malformed_delta_is_refused(delta: bytes) -> None:
    with pytest.raises(ValueError, match="delta"):
        apply_delta(b"12345", delta)


def test_a_hostile_index_is_refused(store: Store) -> None:
    contents = fill(store)
    path = min(store.packs.glob("*.idx"))
    sound = path.read_bytes()
    rng = random.Random(3)
    for _ in range(60):
        broken = bytearray(sound)
        for _ in range(rng.randrange(1, 40)):
            broken[rng.randrange(8, len(broken))] = rng.randrange(256)
        path.write_bytes(broken)
        reads_true(store, contents)
        assert list(store.open().check())
