"""What a process that stays remembers of transcripts, and when others find it (P5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lastgood.conversation.files import EvidenceMemory, TranscriptFiles
from lastgood.model.checkpoint import FileExtent, PrefixEvidence

SOURCE = b"/home/a/transcript.jsonl"


def _of(messages: int) -> PrefixEvidence:
    return PrefixEvidence(
        generation="g",
        place=FileExtent(device=1, inode=2, size=3, modified_ns=4),
        form="claude-code",
        messages=messages,
        segments=(),
        sums=(),
        folders=(),
        digest=b"d" * 20,
    )


@pytest.fixture
def folder(tmp_path: Path) -> bytes:
    """Return where the evidence of this test lies."""
    return os.fsencode(tmp_path)


@pytest.fixture
def memory() -> EvidenceMemory:
    """Return what a process remembers."""
    return EvidenceMemory()


def test_it_is_known_at_once_and_to_others_once_it_is_written(folder: bytes, memory: EvidenceMemory) -> None:
    staying, others = TranscriptFiles(folder, memory=memory), TranscriptFiles(folder)
    for number in (1, 2):
        staying.remember(SOURCE, _of(number))
        assert staying.recall(SOURCE) == _of(number)
        assert others.recall(SOURCE) == (_of(number - 1) if number > 1 else None)
        memory.write()
        assert others.recall(SOURCE) == staying.recall(SOURCE) == _of(number)


def test_what_another_process_wrote_since_counts(folder: bytes, memory: EvidenceMemory) -> None:
    staying, others = TranscriptFiles(folder, memory=memory), TranscriptFiles(folder)
    staying.remember(SOURCE, _of(1))
    memory.write()
    others.remember(SOURCE, _of(2))
    assert staying.recall(SOURCE) == _of(2)
    staying.remember(SOURCE, _of(3))
    others.remember(SOURCE, _of(4))
    assert staying.recall(SOURCE) == _of(4)


def test_a_folder_that_has_gone_is_no_fault(folder: bytes, memory: EvidenceMemory) -> None:
    staying = TranscriptFiles(folder + b"/gone", memory=memory)
    staying.remember(SOURCE, _of(1))
    memory.write()
    assert staying.recall(SOURCE) == _of(1)
