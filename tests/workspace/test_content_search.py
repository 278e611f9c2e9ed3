"""log by content: the checkpoints at which a text is in a file more or less often than before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lastgood
from lastgood import NotFound, Usage, Workspace
from lastgood.content_search import count_in
from tools.harm import lose, packs_of
from tools.values import not_none


def save(workspace: Workspace, message: str) -> str:
    return not_none(workspace.save(message, allow_empty=True).checkpoint).id


def found(workspace: Workspace, text: str | bytes, path: str = ".") -> list[tuple[str, str, int, int]]:
    """Return message, path, and how often the text was in it before and after, oldest first."""
    return [
        (change.checkpoint.message, one.path.decode(), one.before, one.after)
        for change in reversed(workspace.log(path, text=text).changes)
        for one in change.occurrences
    ]


def test_a_text_is_told_where_it_came_doubled_and_went(workspace: Workspace, project: Path) -> None:
    file = project / "file"
    for message, content in (
        ("none", "a"),
        ("came", "a\nwanted"),
        ("other", "b\nwanted"),
        ("twice", "wanted" * 2),
    ):
        file.write_text(content)
        save(workspace, message)
    file.unlink()
    save(workspace, "went")
    assert found(workspace, "wanted") == [
        ("came", "file", 0, 1),
        ("twice", "file", 1, 2),
        ("went", "file", 2, 0),
    ]


def test_only_files_of_the_path_are_searched(workspace: Workspace, project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "in").write_text("wanted")
    (project / "out").write_text("wanted")
    save(workspace, "both")
    assert found(workspace, "wanted", "src") == [("both", "src/in", 0, 1)]


def test_a_file_that_only_moved_has_the_text_as_often(workspace: Workspace, project: Path) -> None:
    (project / "old").write_text("wanted")
    save(workspace, "came")
    (project / "old").rename(project / "new")
    save(workspace, "moved")
    assert found(workspace, b"wanted") == [("came", "old", 0, 1)]


def test_private_files_are_searched_only_if_asked_for_and_named_where_not(
    workspace: Workspace, project: Path
) -> None:
    """Rule S5: what private files hold is shown to nobody unasked."""
    (project / ".gitignore").write_text(".env\n")
    (project / ".env").write_text("KEY=wanted")
    (project / "open").write_text("wanted")
    save(workspace, "both")
    report = workspace.log(text="wanted")
    assert [one.path for one in report.changes[0].occurrences] == [b"open"]
    assert report.unsearched == (b".env",)
    with pytest.raises(NotFound) as caught:
        workspace.log(".env", text="wanted")
    assert "--private" in caught.value.hint
    assert workspace.log(".env", text="wanted", private=True).unsearched == ()


def test_a_gap_is_neither_a_coming_nor_a_going(workspace: Workspace, project: Path) -> None:
    """Rule S7: what a checkpoint does not know is never told as a change."""
    (project / "file").write_text("wanted")
    save(workspace, "came")
    with (project / "file").open("w") as large:
        large.truncate(33 << 20)
    save(workspace, "gap")
    (project / "file").write_text("wanted again")
    save(workspace, "back")
    assert found(workspace, "wanted") == [("came", "file", 0, 1)]


@pytest.mark.damages
def test_a_version_that_cannot_be_read_is_named(workspace: Workspace, project: Path, store: Path) -> None:
    """K4: one bad record hides no other, and is not passed over in silence."""
    (project / "hit").write_bytes(os.urandom(2 << 20) + b"wanted")
    save(workspace, "large")
    (pack,) = packs_of(store)
    (project / "sound").write_text("wanted")
    save(workspace, "sound")
    pack.chmod(0o600)
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 0xFF
    pack.write_bytes(content)
    with lastgood.open(project, store=store, maintenance="off") as again:
        report = again.log(text="wanted")
    assert ([one.checkpoint.message for one in report.changes], report.damaged) == (["sound"], (b"hit",))


@pytest.mark.damages
def test_a_folder_that_cannot_be_read_is_told_beside_what_was_found(
    workspace: Workspace, project: Path, store: Path
) -> None:
    """K4."""
    (project / "file").write_text("wanted")
    save(workspace, "one")
    (project / "src").mkdir()
    (project / "src" / "hit").write_text("wanted")
    hit = workspace.get(save(workspace, "two"))
    lose(store, f"{hit.commit}:workspace/src")
    with lastgood.open(project, store=store, maintenance="off") as again:
        report = again.log(text="wanted")
    assert ([one.checkpoint.message for one in report.changes], report.damaged) == (["one"], (b"",))


def test_a_text_that_nothing_ever_had_is_not_found(workspace: Workspace, project: Path) -> None:
    (project / "file").write_text("content")
    save(workspace, "one")
    with pytest.raises(NotFound, match="no checkpoint has 'wanted' in any file"):
        workspace.log(text="wanted")
    with pytest.raises(Usage):
        workspace.log(text="")


@given(
    content=st.lists(st.sampled_from([b"a", b"b", b"ab", b"aba", b""])),
    text=st.sampled_from([b"a", b"ab", b"aa", b"abab", b"aba"]),
)
def test_a_content_in_pieces_has_a_text_as_often_as_in_one(content: list[bytes], text: bytes) -> None:
    assert count_in(content, text) == b"".join(content).count(text)
