"""Damage to a conversation or a state blob is found and named; the files stay usable (K4)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import lastgood
from conversation.transcripts import append, captured, said
from lastgood.retention.sweep import Collecting, Roots

if TYPE_CHECKING:
    from pathlib import Path

    from lastgood.workspace import Workspace

pytestmark = pytest.mark.damages


def flip(store: Path, *, offset: int) -> None:
    """Flip a bit in the largest pack."""
    packs = (store / "objects.git" / "objects" / "pack").glob("*.pack")
    pack = max(packs, key=lambda one: one.stat().st_size)
    content = bytearray(pack.read_bytes())
    content[offset] ^= 0x10
    pack.chmod(0o600)
    pack.write_bytes(bytes(content))


@pytest.mark.parametrize("deep", [False, True])
def test_a_damaged_segment_is_named_with_the_checkpoints_it_hits(
    deep: bool,  # noqa: FBT001 - pytest gives parameters by name
    workspace: Workspace,
    project: Path,
    store: Path,
    file: Path,
) -> None:
    """K4."""
    (project / "file").write_text("kept")
    append(file, said(os.urandom(50_000).hex()))
    hit = captured(workspace, file).checkpoint
    append(file, said("more"))
    hit_too = captured(workspace, file).checkpoint
    sound = workspace.save("without", allow_empty=True).checkpoint
    workspace.close()
    flip(store, offset=30_000)
    with lastgood.open(project, store=store, maintenance="off") as again:
        report = again.verify(deep=deep)
        assert not report.ok
        assert {one.id for one in report.damaged} == {hit.id, hit_too.id}
        assert {one.files for one in report.damaged} == {(b"conversation",)}
        assert all("conversation" in one.reason for one in report.damaged)
        assert again.read(hit.id, "file") == b"kept"
        assert again.get(sound.id).damaged is None
        # What is lost there is kept anew by the next save, because the file still has it.
        append(file, said("after"))
        again.verify(repair=True)
        anew = captured(again, file).checkpoint
        assert again.transcript(anew.id) == file.read_bytes()
        assert anew.id not in {one.id for one in again.verify(deep=deep).damaged}


def test_a_sound_conversation_is_proven_and_read_back(workspace: Workspace, file: Path) -> None:
    """K4."""
    for number in range(40):
        append(file, said(f"message {number}"))
        captured(workspace, file)
    workspace.maintain()
    report = workspace.verify(deep=True)
    assert report.ok
    assert report.checkpoints == 40


def test_what_a_sweep_freed_is_stored_again(workspace: Workspace, file: Path, project: Path) -> None:
    """K3, invariant 4: what is remembered of a transcript proves nothing once bytes may be gone."""
    append(file, said("one"))
    first = captured(workspace, file).checkpoint
    workspace.delete(first.id)
    context = workspace._context
    with Collecting(context, wait=5) as collecting:
        collecting.catalogue.forget(deleted_before=context.clock.now() + 1)
        collecting.sweep(Roots(live=(), wounded=()))
    append(file, said("two"))
    second = captured(workspace, file).checkpoint
    assert workspace.transcript(second.id) == file.read_bytes()
    assert workspace.verify(deep=True).ok
