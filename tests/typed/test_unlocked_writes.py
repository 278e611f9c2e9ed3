"""What changes a store or a workspace is handed out only while its lock is held: mypy refuses all else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lastgood import engine, journal, ledger, worktree
from lastgood.catalogue import checkpoints, work
from typed.checking import faults

TEXT = (Path(__file__).parent / "unlocked_writes.txt").read_text()
# What is read of something by anybody, what changes it, and how a context gives the first.
ENDS = {
    "catalogue": (checkpoints.CatalogueReader, checkpoints.SqliteCatalogue),
    "work": (work.WorkReader, work.SessionTransaction),
    "engine": (engine.EngineReader, engine.Engine),
    "journal": (journal.JournalReader, journal.FileJournal),
    "applier": (worktree.FileReader, worktree.Applier),
    "ledgers": (ledger.LedgersReader, ledger.Ledgers),
    "project": (worktree.ProjectReader, worktree.ProjectGit),
    "transcripts": (worktree.TranscriptReader, worktree.Transcripts),
}


def methods(protocol: type) -> set[str]:
    return {name for one in protocol.__mro__ for name in vars(one) if not name.startswith("_")}


def test_every_write_without_its_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "unlocked.py").write_text(TEXT)
    lines = enumerate(TEXT.splitlines(), 1)
    planted = {number: line.partition("  # ")[2] for number, line in lines if "  # " in line}

    found = {
        number: re.sub(r"^Argument 1 .* has incompatible", "Argument 1 has incompatible", text)
        for number, text in faults(tmp_path / "unlocked.py").items()
    }

    assert found.keys() == planted.keys()
    assert {number: text for number, text in found.items() if not text.startswith(planted[number])} == {}


@pytest.mark.parametrize("end", ENDS)
def test_no_write_is_missing_among_those_that_are_tried(end: str) -> None:
    reader, writer = ENDS[end]
    tried = set(re.findall(rf"^    context\.{end}\.(\w+)\(", TEXT, re.MULTILINE))

    assert methods(writer) - methods(reader) == tried
