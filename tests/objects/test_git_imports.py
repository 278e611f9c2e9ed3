"""Objects of a project's own repository are copied, never referred to."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.errors import Storage
from lastgood.objects.write import GitWriter
from lastgood.testing.engine_suite import add_checkpoint
from lastgood.testing.git_store import GitStore as Store
from tools.harm import flip
from tools.lending import Blobs, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "pro:ject")


@pytest.fixture(params=["beside", "here"])
def copying(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let objects be copied by a process beside this one, and, where another thread lives, by this one."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    if request.param == "here":
        thread.start()
    yield
    end.set()
    if request.param == "here":
        thread.join()


def save(writer: GitWriter, blobs: Blobs) -> None:
    """Add files of these contents, and publish."""
    add_checkpoint(writer, 1, {b"%d" % number: content for number, content in enumerate(blobs.values())})
    writer.publish()


def copied(project: Project, store: Store) -> tuple[Blobs, GitWriter]:
    """Have a writer copy the versions of a project that are packed."""
    blobs = project.versions()
    project.git("gc", "-q")
    writer = store.engine.writer()
    writer.import_blobs(project.objects, blobs)
    return blobs, writer


def proven(store: Store, blobs: Blobs) -> None:
    """Have another reader, our own proof, and git itself look at what is stored."""
    fresh = store.open()
    assert {oid: fresh.read_blob(oid) for oid in blobs} == blobs
    assert list(fresh.check()) == []
    store.judge()
    assert list(store.temporary.iterdir()) == []


def compressed(store: Store) -> int:
    """Return the size of the smallest pack, which is what was not copied."""
    return min(path.stat().st_size for path in store.packs.glob("*.pack"))


@pytest.mark.usefixtures("copying")
def test_blobs_are_copied_with_their_deltas_and_stay_without_the_project(
    store: Store, project: Project
) -> None:
    blobs = project.versions()
    project.git("gc", "-q")
    writer = store.engine.writer()
    writer.blob(b"before")
    assert writer.import_blobs(project.objects, blobs) == blobs.keys()
    assert writer.lacks(blobs) == set()
    add_checkpoint(writer, 1, {b"%d" % number: content for number, content in enumerate(blobs.values())})
    assert writer.settle_imports()
    assert writer.stored_bytes > project.packs[0].stat().st_size / 2
    writer.publish()
    shutil.rmtree(project.path)
    proven(store, blobs)
    assert compressed(store) < 2000
    said = [store.git("verify-pack", "-v", str(path)) for path in store.packs.glob("*.idx")]
    assert sum(b"chain length" in words for words in said) == 1


@pytest.mark.usefixtures("copying")
def test_what_a_delta_rests_on_comes_along(store: Store, project: Project) -> None:
    blobs = project.versions()
    project.git("gc", "-q")
    oldest = dict(list(blobs.items())[:1])
    writer = store.engine.writer()
    assert writer.import_blobs(project.objects, oldest) == oldest.keys()
    save(writer, oldest)
    proven(store, oldest)
    assert compressed(store) < 2000


@pytest.mark.parametrize("option", ["--delta-base-offset", "--no-reuse-delta"])
def test_any_part_of_a_pack_can_be_copied(store: Store, project: Project, option: str) -> None:
    """The second option makes deltas that name what they rest on."""
    chance = random.Random(4)
    contents = []
    for number in range(60):
        lines = [b"%d %d\n" % (place, place * place) for place in range(number % 7, 300 + 7 * number)]
        lines[chance.randrange(len(lines))] = b"%d\n" % number
        contents.append(b"".join(lines))
    contents.append(b"")
    for number, content in enumerate(contents):
        (project.path / f"f{number}").write_bytes(content)
    project.git("add", ".")
    rows = project.git("ls-files", "-s").decode().split("\n")[:-1]
    names = {row.split("\t")[1]: bytes.fromhex(row.split()[1]) for row in rows}
    blobs = {names[f"f{number}"]: content for number, content in enumerate(contents)}
    project.pack(blobs, option)
    project.git("prune-packed")
    for _ in range(5):
        some = {oid: blobs[oid] for oid in chance.sample(sorted(blobs), 20)}
        writer = store.engine.writer()
        assert writer.import_blobs(project.objects, some) == some.keys()
        save(writer, some)
        proven(store, some)


def test_deltas_of_two_packs_that_rest_on_each_other_are_copied(store: Store, project: Project) -> None:
    blobs = project.versions(3)
    one, two, three = blobs
    for pair in ([one, two], [three, two], [three, one]):
        project.pack(pair)
    project.git("prune-packed")
    assert len(project.packs) == 3
    writer = store.engine.writer()
    assert writer.import_blobs(project.objects, blobs) == blobs.keys()
    save(writer, blobs)
    proven(store, blobs)


@pytest.mark.usefixtures("copying")
def test_large_blobs_and_deltas_on_them_are_copied(store: Store, project: Project) -> None:
    noise = random.Random(1).randbytes(5_000_000)
    blobs = project.add("big", [noise, noise[:4_000_000] + b"end", b"small" * 100])
    project.git("gc", "-q")
    writer = store.engine.writer()
    assert writer.import_blobs(project.objects, blobs) == blobs.keys()
    for name, content in enumerate([*blobs.values(), noise + b"not theirs"]):  # as large files are read
        path = project.path / f"{name}.read"
        path.write_bytes(content)
        with path.open("rb") as file:
            oid = writer.blob_from(file.fileno(), len(content))
        assert (oid in blobs) == (name < len(blobs))
    writer.publish()
    proven(store, blobs | {oid: noise + b"not theirs"})
    assert compressed(store) > 5_000_000
    assert sum(path.stat().st_size for path in store.packs.glob("*.pack")) < 11_000_000


def test_objects_are_found_through_alternates(store: Store, project: Project, tmp_path: Path) -> None:
    blobs = project.versions()
    project.git("gc", "-q")
    for name, borrowed in (("b", "../../../pro:ject/.git/objects"), ("c", f"{tmp_path}/b/.git/objects")):
        (Project(tmp_path / name).path / ".git/objects/info").mkdir(exist_ok=True)
        (tmp_path / name / ".git/objects/info/alternates").write_text(f"# of\n/nowhere\n{borrowed}\n")
    with (project.path / ".git/objects/info/alternates").open("w") as file:
        file.write(f"{tmp_path}/c/.git/objects\n")  # round in a ring
    writer = store.engine.writer()
    assert writer.import_blobs(os.fsencode(tmp_path / "c/.git/objects"), blobs) == blobs.keys()
    save(writer, blobs)
    proven(store, blobs)


def test_what_is_not_in_a_pack_is_stored_by_who_adds_it(store: Store, project: Project) -> None:
    blobs = project.versions()
    project.pack(list(blobs)[:3])
    writer = store.engine.writer()
    got = writer.import_blobs(project.objects, [*list(blobs)[2:], b"\x01" * 20])
    assert got == set(list(blobs)[2:3])
    save(writer, blobs)
    proven(store, blobs)
    assert store.engine.missing([b"\x01" * 20]) == {b"\x01" * 20}


def test_what_nothing_needs_is_not_kept(store: Store, project: Project) -> None:
    blobs, writer = copied(project, store)
    writer.blob(b"another content")
    writer.publish()
    assert len(list(store.packs.glob("*.pack"))) == 1
    assert store.open().missing(blobs) == blobs.keys()
    assert list(store.temporary.iterdir()) == []


def test_a_pack_that_goes_meanwhile_is_copied_all_the_same(store: Store, project: Project) -> None:
    blobs, writer = copied(project, store)
    shutil.rmtree(project.path)
    save(writer, blobs)
    proven(store, blobs)


@pytest.mark.usefixtures("copying")
@pytest.mark.parametrize("damage", ["flip", "tree"])
def test_what_a_damaged_pack_has_is_stored_by_who_adds_it_again(
    store: Store, project: Project, damage: str
) -> None:
    blobs = project.versions()
    project.git("gc", "-q")
    wanted = [*blobs]
    if damage == "tree":
        wanted.append(bytes.fromhex(project.git("rev-parse", "HEAD^{tree}").decode().strip()))
    if damage == "flip":
        flip(project.packs[0])
    writer = store.engine.writer()
    assert writer.import_blobs(project.objects, wanted) == set(wanted)
    contents = {b"%d" % number: content for number, content in enumerate(blobs.values())}
    add_checkpoint(writer, 1, contents)
    assert not writer.settle_imports()
    assert writer.settle_imports()
    assert writer.lacks(blobs) == blobs.keys()
    assert writer.import_blobs(project.objects, blobs) == set()
    save(writer, blobs)
    proven(store, blobs)


def test_nothing_is_published_that_was_promised_and_not_copied(store: Store, project: Project) -> None:
    blobs = project.versions()
    project.git("gc", "-q")
    flip(project.packs[0])
    writer = store.engine.writer()
    writer.import_blobs(project.objects, blobs)
    with pytest.raises(Storage, match="copying the project's objects"):
        save(writer, blobs)
    assert list(store.packs.iterdir()) == []
    assert list(store.temporary.iterdir()) == []


@pytest.mark.parametrize("part", ["idx", "pack", "both"])
def test_a_pack_and_an_index_that_do_not_belong_together_lend_nothing(
    store: Store, project: Project, part: str
) -> None:
    blobs = project.versions()
    project.git("gc", "-q")
    (pack,) = project.packs
    for suffix in [".idx", ".pack"] if part == "both" else [f".{part}"]:
        path = pack.with_suffix(suffix)
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-300])
    writer = store.engine.writer()
    assert writer.import_blobs(project.objects, blobs) == set()
    save(writer, blobs)
    proven(store, blobs)


@pytest.mark.parametrize("suffix", [".idx", ".pack"])
def test_a_pipe_in_place_of_a_pack_keeps_nobody_waiting(store: Store, project: Project, suffix: str) -> None:
    blobs = project.versions(2)
    project.git("gc", "-q")
    path = project.packs[0].with_suffix(suffix)
    path.unlink()
    os.mkfifo(path)
    assert store.engine.writer().import_blobs(project.objects, blobs) == set()


@pytest.mark.usefixtures("copying")
def test_an_index_that_names_one_place_twice_lends_nothing_in_the_end(store: Store, project: Project) -> None:
    blobs = project.versions(3)
    project.git("gc", "-q")
    path = project.packs[0].with_suffix(".idx")
    content = bytearray(path.read_bytes())
    count = int.from_bytes(content[1028:1032], "big")
    places = 8 + 1024 + 24 * count
    content[places : places + 4 * count] = content[places : places + 4] * count
    path.chmod(0o600)
    path.write_bytes(content)
    writer = store.engine.writer()
    writer.import_blobs(project.objects, blobs)
    for blob in blobs.values():
        writer.blob(blob)
    assert not writer.settle_imports()
    save(writer, blobs)
    proven(store, blobs)


def test_another_process_goes_on_with_what_was_copied(store: Store, project: Project) -> None:
    blobs, writer = copied(project, store)
    for content in blobs.values():
        writer.blob(content)
    save(store.open().resume(writer.detach()), blobs)
    proven(store, blobs)


@pytest.mark.usefixtures("copying")
@pytest.mark.parametrize("way", ["taken back", "back from another process"])
def test_what_was_copied_is_published_once_wherever_the_pack_goes_meanwhile(
    store: Store, project: Project, way: str
) -> None:
    blobs, writer = copied(project, store)
    first, *others = blobs.values()
    writer.blob(first)
    detached = writer.detach()
    if way == "taken back":
        writer.take_back()
    else:
        writer.adopt(store.open().resume(detached).detach())
    for content in others:
        writer.blob(content)
    save(writer, blobs)
    assert len(list(store.packs.glob("*.pack"))) == 2
    proven(store, blobs)


def test_what_was_copied_in_vain_is_stored_by_who_takes_the_pack_back(store: Store, project: Project) -> None:
    """What nobody relied on when the pack was handed over is not kept; it is no longer lent either."""
    blobs, writer = copied(project, store)
    writer.detach()
    writer.take_back()
    assert writer.lacks(blobs) == set(blobs)
    save(writer, blobs)
    proven(store, blobs)


def test_an_abandoned_writer_leaves_nothing_of_its_import(store: Store, project: Project) -> None:
    _, writer = copied(project, store)
    writer.abandon()
    assert list(store.temporary.iterdir()) == []
    assert list(store.packs.iterdir()) == []


def test_no_repository_gives_nothing(store: Store, tmp_path: Path) -> None:
    writer = store.engine.writer()
    assert writer.import_blobs(os.fsencode(tmp_path / "nowhere"), [b"\x01" * 20]) == set()
    oid = writer.blob(b"hello")
    assert writer.import_blobs(os.fsencode(tmp_path / "nowhere"), [oid]) == {oid}
    writer.publish()
