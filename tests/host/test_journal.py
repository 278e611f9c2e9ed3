"""The journal of a running restore (T7, invariant 3)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lastgood.errors import Busy, Damaged, Storage
from lastgood.journal import FileJournal
from lastgood.model.operation import Journal, RestorePlan, Step
from lastgood.model.tree import Entry

STEPS = tuple(
    Step(
        path=b"dir\xff\n/%d" % number,
        action="write",
        want=Entry(name=b"%d" % number, kind="file", mode=0o644, oid=b"\x01" * 20),
        forced=number % 2 == 0,
    )
    for number in range(20)
)
JOURNAL = Journal(
    operation="op_0011223344556677",
    type="restore",
    of=None,
    started_at=5,
    guard="ckpt_0011223344556677",
    target_tree="ab" * 20,
    plan=RestorePlan(id="plan_1", target="ckpt_1", workspace_key="aa", paths=(b"dir\xff",), steps=STEPS),
)


@pytest.fixture
def path(tmp_path: Path) -> bytes:
    return os.fsencode(tmp_path / "journal")


def test_a_journal_reads_back_as_it_was_written_and_goes(path: bytes) -> None:
    journal = FileJournal(path)
    assert journal.read() is None
    journal.open(JOURNAL)
    assert FileJournal(path).read() == JOURNAL
    assert os.listdir(os.path.dirname(path)) == [b"journal"]
    journal.close()
    assert journal.read() is None
    journal.close()


def test_an_unfinished_journal_is_never_overwritten(path: bytes) -> None:
    FileJournal(path).open(JOURNAL)
    with pytest.raises(Busy, match="interrupted"):
        FileJournal(path).open(JOURNAL.replace(operation="op_2"))
    assert FileJournal(path).read() == JOURNAL


def test_who_is_refused_while_a_journal_is_written_opens_none(path: bytes) -> None:
    with pytest.raises(Damaged), FileJournal(path).opening(JOURNAL):
        raise Damaged("what a guard holds")
    assert FileJournal(path).read() is None
    assert os.listdir(os.path.dirname(path)) == []


def test_a_journal_is_private(path: bytes) -> None:
    """S18."""
    before = os.umask(0)
    try:
        FileJournal(path).open(JOURNAL)
    finally:
        os.umask(before)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_half_written_journal_before_its_rename_counts_as_none(path: bytes) -> None:
    Path(os.fsdecode(path + b".new")).write_bytes(b"lastgood-jour")
    assert FileJournal(path).read() is None
    FileJournal(path).open(JOURNAL)
    assert FileJournal(path).read() == JOURNAL


def test_every_torn_or_altered_journal_is_damaged(path: bytes) -> None:
    """Never ignored: it stands for a restore that somebody has to finish."""
    FileJournal(path).open(JOURNAL)
    whole = Path(os.fsdecode(path)).read_bytes()
    broken = [whole[:size] for size in range(0, len(whole), 97)]
    broken += [
        whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
        for position in range(0, len(whole), 53)
    ]
    broken += [whole + b"\n", b"\0" * len(whole), b"{}"]
    for content in broken:
        Path(os.fsdecode(path)).write_bytes(content)
        with pytest.raises(Damaged) as caught:
            FileJournal(path).read()
        assert os.fsdecode(path) in caught.value.message
        assert caught.value.hint


def test_the_journal_is_on_the_disk_before_it_has_its_name(
    path: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 3: content, then name, then the folder's name list."""
    calls: list[str] = []
    for name in ("fsync", "rename", "unlink"):
        original = getattr(os, name)

        def record(*arguments: object, name: str = name, original: object = original) -> None:
            calls.append(name)
            assert callable(original)
            original(*arguments)

        monkeypatch.setattr(os, name, record)
    journal = FileJournal(path)
    journal.open(JOURNAL)
    assert calls == ["fsync", "rename", "fsync"]
    calls.clear()
    journal.close()
    assert calls == ["unlink", "fsync"]


def test_a_journal_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    journal = FileJournal(os.fsencode(tmp_path / "none" / "journal"))
    with pytest.raises(Storage):
        journal.open(JOURNAL)
    Path(tmp_path / "file").touch()
    with pytest.raises(Storage):
        FileJournal(os.fsencode(tmp_path / "file" / "journal")).read()


def test_a_link_is_no_journal(path: bytes, tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", path)
    with pytest.raises(Storage):
        FileJournal(path).read()
    with pytest.raises(Busy):
        FileJournal(path).open(JOURNAL)


@pytest.mark.parametrize("name", ["journal", "journal.new", "journal.left-op_0011223344556677"])
def test_whatever_a_restore_may_have_left_of_a_journal_is_seen_at_once(path: bytes, name: str) -> None:
    """T7: who finds none so looks for none by its name."""
    beside = Path(os.fsdecode(path)).with_name("scan.records")
    beside.touch()
    assert not FileJournal(path).has_any()
    beside.with_name(name).touch()
    assert FileJournal(path).has_any()


def test_where_no_folder_is_there_is_no_journal(tmp_path: Path) -> None:
    assert not FileJournal(os.fsencode(tmp_path / "none" / "journal")).has_any()
