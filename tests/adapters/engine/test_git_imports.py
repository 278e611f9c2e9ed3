"""Objects of a project's own repository are copied, never referred to."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from lastgood.testing.engine_suite import add_checkpoint
from lastgood.testing.git_store import SEALED
from lastgood.testing.git_store import GitStore as Store

if TYPE_CHECKING:
    from pathlib import Path


def make_project(folder: Path, *, packed: bool) -> dict[bytes, bytes]:
    """Make a repository with versions of a file, and return its blobs: id to content."""
    project = folder / "pro:ject"
    project.mkdir()
    run = ["git", "-c", "user.name=x", "-c", "user.email=x@localhost"]
    text = "".join(f"line {number}\n" for number in range(3000))
    blobs = {}
    subprocess.run(["git", "init", "-q"], cwd=project, env=SEALED, check=True)
    for version in range(8):
        content = (text + f"version {version}\n").encode()
        (project / "file").write_bytes(content)
        subprocess.run([*run, "add", "."], cwd=project, env=SEALED, check=True)
        subprocess.run([*run, "commit", "-qm", "x"], cwd=project, env=SEALED, check=True)
        oid = subprocess.run(
            ["git", "rev-parse", "HEAD:file"], cwd=project, env=SEALED, check=True, capture_output=True
        )
        blobs[bytes.fromhex(oid.stdout.decode().strip())] = content
    if packed:
        subprocess.run(["git", "gc", "-q"], cwd=project, env=SEALED, check=True)
    return blobs


def test_blobs_are_copied_with_their_deltas_and_stay_without_the_project(
    store: Store, tmp_path: Path
) -> None:
    blobs = make_project(tmp_path, packed=True)
    writer = store.engine.writer()
    writer.blob(b"before")
    got = writer.import_blobs(os.fsencode(tmp_path / "pro:ject/.git/objects"), blobs)
    assert got == blobs.keys()
    stored = writer.stored_bytes
    add_checkpoint(writer, 1, {b"%d" % n: content for n, content in enumerate(blobs.values())})
    assert writer.stored_bytes < stored + 2000
    writer.publish()
    shutil.rmtree(tmp_path / "pro:ject")
    fresh = store.open()
    assert {oid: fresh.read_blob(oid) for oid in blobs} == blobs
    assert list(fresh.check()) == []
    store.judge()
    assert b"chain length" in store.git("verify-pack", "-v", str(next(store.packs.glob("*.idx"))))
    assert list(store.temporary.iterdir()) == []


def test_what_is_missing_or_no_blob_does_not_fail_the_rest(store: Store, tmp_path: Path) -> None:
    blobs = make_project(tmp_path, packed=False)
    project = tmp_path / "pro:ject"
    head = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=project, env=SEALED, check=True, capture_output=True
    )
    tree = bytes.fromhex(head.stdout.decode().strip())
    writer = store.engine.writer()
    got = writer.import_blobs(os.fsencode(project / ".git/objects"), [*blobs, tree, b"\x01" * 20])
    assert got == blobs.keys()
    writer.publish()
    assert {oid: store.engine.read_blob(oid) for oid in blobs} == blobs
    assert store.engine.missing([tree]) == {tree}
    store.judge()


def test_a_wrong_loose_object_is_not_taken(store: Store, tmp_path: Path) -> None:
    blobs = make_project(tmp_path, packed=False)
    objects = tmp_path / "pro:ject/.git/objects"
    first, second = list(blobs)[:2]
    paths = [objects / oid.hex()[:2] / oid.hex()[2:] for oid in (first, second)]
    paths[0].chmod(0o600)
    paths[0].write_bytes(paths[1].read_bytes())
    writer = store.engine.writer()
    assert first not in writer.import_blobs(os.fsencode(objects), [first])
    writer.publish()
    store.judge()


def test_no_repository_gives_nothing(store: Store, tmp_path: Path) -> None:
    writer = store.engine.writer()
    assert writer.import_blobs(os.fsencode(tmp_path / "nowhere"), [b"\x01" * 20]) == set()
    oid = writer.blob(b"hello")
    assert writer.import_blobs(os.fsencode(tmp_path / "nowhere"), [oid]) == {oid}
    writer.publish()
