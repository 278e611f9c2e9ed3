"""What a checkpoint holds of a transcript that its host goes on writing (P5)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lastgood
from conversation.transcripts import append, captured, noted, overwrite, rolled, said, whole_lines
from lastgood.conversation import capture
from lastgood.errors import Invalid, NotFound, Usage
from lastgood.retention.sweep import Roots, SweepTransaction
from lastgood.workspace import Workspace
from tools.harm import flip, packs_of
from tools.long_form import examples
from tools.values import not_none


def test_a_transcript_comes_back_byte_for_byte(workspace: Workspace, file: Path) -> None:
    """P5."""
    content = said("hello") + noted("last-prompt") + said("hi", role="assistant")
    file.write_bytes(content)
    checkpoint = captured(workspace, file).checkpoint
    assert workspace.transcript(checkpoint.id) == content
    assert file.read_bytes() == content
    held = not_none(checkpoint.conversation)
    assert (held.form, held.messages, held.size) == ("claude-code", 2, len(content))
    assert held.source == os.fsencode(file)
    assert workspace.conversation(checkpoint.id) == (
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
    )


def test_the_form_is_told_by_the_first_lines(workspace: Workspace, tmp_path: Path) -> None:
    """P5."""
    contents = {
        "claude-code": (noted("queue-operation") + said("a"), 1),
        "codex": (rolled() + rolled("a") + rolled("b", role="assistant"), 2),
        "messages": (b'{"role":"user","content":"a"}\n{"role":"assistant","content":"b"}\n', 2),
        "lines": (b"not json\n{}\n\n[1]\n", 3),
    }
    for form, (content, messages) in contents.items():
        file = tmp_path / f"{form}.jsonl"
        file.write_bytes(content)
        held = not_none(captured(workspace, file).checkpoint.conversation)
        assert (held.form, held.messages) == (form, messages)
        assert len(workspace.conversation("@")) == messages


def test_the_form_is_looked_for_again_while_it_is_unknown(workspace: Workspace, file: Path) -> None:
    """P5: a host's first line may not tell whose it is."""
    file.write_bytes(b'{"type":"summary","summary":"s"}\n')
    first = captured(workspace, file).checkpoint.conversation
    append(file, said("hello"))
    second = captured(workspace, file).checkpoint.conversation
    assert first is not None
    assert second is not None
    assert (first.form, second.form, second.messages) == ("lines", "claude-code", 1)


def test_a_line_that_is_being_written_is_left_to_the_next_save(workspace: Workspace, file: Path) -> None:
    """P5."""
    file.write_bytes(said("one") + b'{"type":"user","message":{"content":"tw')
    assert workspace.transcript(captured(workspace, file).checkpoint.id) == said("one")
    append(file, b'o"}}\n')
    assert workspace.transcript(captured(workspace, file).checkpoint.id) == file.read_bytes()


def test_a_line_that_was_torn_and_written_past_is_kept_and_said_once(
    workspace: Workspace, file: Path
) -> None:
    """P5: a host that was killed within a line goes on behind it."""
    file.write_bytes(said("one") + b'{"type":"assistant","mess' + said("two") + said("three"))
    report = captured(workspace, file)
    (note,) = report.notes
    assert (note.code, "1 new line is broken" in note.message) == ("transcript-broken", True)
    assert workspace.transcript(report.checkpoint.id) == file.read_bytes()
    assert not_none(report.checkpoint.conversation).messages == 2
    append(file, said("four"))
    assert captured(workspace, file).notes == ()


def test_a_last_line_without_its_end_counts_if_it_is_whole(workspace: Workspace, file: Path) -> None:
    """P5: nothing longer begins like a JSON object."""
    file.write_bytes(said("one") + said("two").rstrip(b"\n"))
    assert workspace.transcript(captured(workspace, file).checkpoint.id) == file.read_bytes()
    append(file, b"\n" + said("three"))
    checkpoint = captured(workspace, file).checkpoint
    assert workspace.transcript(checkpoint.id) == file.read_bytes()
    assert not_none(checkpoint.conversation).messages == 3


def test_an_unchanged_conversation_makes_no_checkpoint(workspace: Workspace, file: Path) -> None:
    """S10."""
    file.write_bytes(said("one"))
    first = captured(workspace, file)
    assert not captured(workspace, file).created
    append(file, b'{"unfinished')
    assert not captured(workspace, file).created
    append(file, b'":1}\n')
    assert captured(workspace, file).created
    assert first.created


def test_a_save_that_knows_of_no_conversation_is_not_changed_by_one(workspace: Workspace, file: Path) -> None:
    """S10."""
    file.write_bytes(said("one"))
    captured(workspace, file)
    assert not workspace.save(kind="turn").created


@pytest.mark.parametrize(
    "bad", ["missing", "below-a-file", "folder", "fifo", "device", "loop", "dangling", "unreadable"]
)
def test_a_named_transcript_that_cannot_be_read_is_refused(
    bad: str, workspace: Workspace, tmp_path: Path
) -> None:
    """P5, S14: before anything is saved, and without waiting for anybody."""
    path = tmp_path / bad
    if bad == "below-a-file":
        (tmp_path / "plain").write_text("x")
        path = tmp_path / "plain" / "below"
    elif bad == "folder":
        path.mkdir()
    elif bad == "fifo":
        os.mkfifo(path)
    elif bad == "device":
        path.symlink_to("/dev/zero")
    elif bad in {"loop", "dangling"}:
        path.symlink_to(path if bad == "loop" else tmp_path / "nothing")
    elif bad == "unreadable":
        path = tmp_path / ("n" * 300)
    with pytest.raises((NotFound, Invalid)) as caught:
        workspace.save("named", transcript=path)
    assert caught.value.hint
    assert workspace.list() == ()


def test_messages_and_a_transcript_together_are_refused(workspace: Workspace, file: Path) -> None:
    """P5."""
    with pytest.raises(Usage):
        workspace.save(messages=[], transcript=file)


@pytest.mark.parametrize("bad", ["text", {"role": "user"}, [1], [{"a": {1}}], [{"a": float("nan")}], [None]])
def test_messages_that_are_none_are_refused(bad: object, workspace: Workspace) -> None:
    """P5."""
    with pytest.raises(Usage):
        workspace.save(messages=bad)  # type: ignore[arg-type]
    assert workspace.list() == ()


def test_messages_come_back_exactly(workspace: Workspace) -> None:
    """P5: key order, numbers, and texts that are no Unicode included."""
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "zwei\n\u2028 \udc80 \0"},
        {"z": 1, "a": [1.5, None, True], "password": "hunter22"},
    ]
    checkpoint = workspace.save(messages=messages).checkpoint
    back = workspace.conversation(checkpoint.id)
    assert list(back) == messages
    assert [list(one) for one in back] == [list(one) for one in messages]
    messages.append({"role": "assistant", "content": "more"})
    assert list(workspace.conversation(workspace.save(messages=messages).checkpoint.id)) == messages
    assert list(workspace.conversation(checkpoint.id)) == messages[:2]


def test_a_transcript_that_shrank_starts_anew_and_says_so(workspace: Workspace, file: Path) -> None:
    """P5."""
    file.write_bytes(b"".join(said(f"message {number}") for number in range(50)))
    before = file.read_bytes()
    first = captured(workspace, file).checkpoint
    os.truncate(file, before.index(b"\n", 2000) + 1)
    report = captured(workspace, file)
    assert [note.code for note in report.notes] == ["transcript-replaced"]
    assert workspace.transcript(report.checkpoint.id) == file.read_bytes()
    assert workspace.transcript(first.id) == before


def test_a_transcript_that_was_replaced_starts_anew_and_says_so(workspace: Workspace, file: Path) -> None:
    """P5."""
    file.write_bytes(said("old") * 20)
    captured(workspace, file)
    other = file.with_suffix(".new")
    other.write_bytes(said("new") * 30)
    other.rename(file)
    report = captured(workspace, file)
    assert [note.code for note in report.notes] == ["transcript-replaced"]
    assert workspace.transcript(report.checkpoint.id) == file.read_bytes()


def test_a_change_in_place_is_seen(workspace: Workspace, file: Path) -> None:
    """P5: the same inode, the same size, then longer; up to two mebibytes all is read."""
    file.write_bytes(b"".join(said(f"message {number:06d}") for number in range(2000)))
    captured(workspace, file)
    overwrite(file, 100_003, b"X")
    assert workspace.transcript(captured(workspace, file).checkpoint.id) == file.read_bytes()
    overwrite(file, 50_003, b"Y")
    append(file, said("more"))
    assert workspace.transcript(captured(workspace, file).checkpoint.id) == file.read_bytes()


def test_what_is_remembered_can_be_deleted(workspace: Workspace, store: Path, file: Path) -> None:
    """K6."""
    for number in range(5):
        append(file, said(f"message {number}"))
        captured(workspace, file)
        for remembered in store.glob("workspaces/*/transcript.*"):
            if number % 2:
                remembered.unlink()
            else:
                remembered.write_bytes(b"lastgood transcript 2\n" + b"\0" * 40)
        report = captured(workspace, file)
        assert not report.created
        assert report.notes == ()
    assert workspace.transcript("@") == file.read_bytes()


def test_a_huge_line_is_kept(workspace: Workspace, file: Path) -> None:
    """P5."""
    content = said("x" * 3_000_000) + said("after")
    file.write_bytes(content)
    checkpoint = captured(workspace, file).checkpoint
    assert workspace.transcript(checkpoint.id) == content
    assert not_none(checkpoint.conversation).messages == 2


def test_bytes_that_are_no_text_are_kept(workspace: Workspace, file: Path) -> None:
    """P5."""
    content = b"\0\xff\xfe\n" + bytes(range(256)) + b"\r\n" + b"[" * 5000 + b"\n"
    file.write_bytes(content)
    assert workspace.transcript(captured(workspace, file).checkpoint.id) == content
    assert workspace.conversation("@", redacted=True)


def test_many_saves_store_about_the_new_bytes(workspace: Workspace, file: Path) -> None:
    """P5: measured in bytes, not in time; a thousand of them in the long form (LASTGOOD_TORTURE)."""
    stored = 0
    saves = examples(short=200, long=1000)
    for number in range(saves):
        append(file, said(os.urandom(600).hex()))
        checkpoint = captured(workspace, file).checkpoint
        stored += checkpoint.metrics.stored_bytes
        if number % 100 == 99:
            workspace.maintain()
    assert workspace.transcript(checkpoint.id) == file.read_bytes()
    # Random hex takes half its length; joining stores a byte once more at most; a save has its trees.
    assert stored < 2 * file.stat().st_size / 2 + saves * 1500


def test_a_file_that_another_program_appends_to_is_a_prefix_of_itself(
    workspace: Workspace, file: Path
) -> None:
    """P5, S8."""
    program = (
        "import os, sys\n"
        "d = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
        "for n in range(100000):\n"
        '    line = b\'{"type":"user","sessionId":"s","n":%d}\\n\' % n\n'
        "    os.write(d, line[:9]); os.write(d, line[9:])\n"
    )
    file.touch()
    with subprocess.Popen([sys.executable, "-c", program, str(file)]) as writer:
        ids = []
        while writer.poll() is None:
            ids.append(captured(workspace, file).checkpoint.id)
    ids.append(captured(workspace, file).checkpoint.id)
    content = file.read_bytes()
    for one in dict.fromkeys(ids):
        if workspace.get(one).conversation is None:
            continue
        held = workspace.transcript(one)
        assert content.startswith(held)
        assert held == whole_lines(held)
    assert workspace.transcript(ids[-1]) == content


_LINES = st.one_of(
    st.binary(max_size=40).map(lambda content: content.replace(b"\n", b"") + b"\n"),
    st.text(max_size=30).map(said),
)

_STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(_LINES, min_size=1, max_size=4).map(b"".join)),
    st.tuples(st.just("partial"), st.sampled_from([b'{"a', b"tail", b'{"b":1}'])),
    st.tuples(st.just("large"), st.integers(1, 3)),
    st.tuples(st.just("truncate"), st.floats(0, 1)),
    st.tuples(st.just("overwrite"), st.floats(0, 1)),
    st.tuples(st.just("replace"), st.lists(_LINES, max_size=3).map(b"".join)),
    st.tuples(st.just("forget"), st.none()),
)


@settings(max_examples=40)
@given(history=st.lists(_STEPS, min_size=1, max_size=10))
def test_every_history_of_a_file_comes_back(
    history: list[tuple[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """P5: shrinks, changes in place, replacements, partial lines, and no memory of it."""
    place = tmp_path_factory.mktemp("history")
    (place / "project").mkdir()
    file = place / "t.jsonl"
    file.touch()
    kept: list[tuple[str, bytes]] = []
    with lastgood.open(place / "project", store=place / "store", maintenance="off") as workspace:
        for step, argument in history:
            _change(file, step, argument)
            if step == "forget":
                for remembered in (place / "store").glob("workspaces/*/transcript.*"):
                    remembered.unlink()
            checkpoint = captured(workspace, file, allow_empty=True).checkpoint
            content = file.read_bytes()
            wanted = [whole_lines(content)]
            if kept and content.startswith(kept[-1][1]):
                # Once taken for whole, a line without its end stays, whatever is put behind it.
                wanted.append(kept[-1][1])
            held = checkpoint.conversation
            if held is None:
                assert b"" in wanted
                continue
            found = workspace.transcript(checkpoint.id)
            assert found in wanted
            assert len(workspace.conversation(checkpoint.id)) == held.messages
            kept.append((checkpoint.id, found))
        for one, found in kept:
            assert workspace.transcript(one) == found


def _change(file: Path, step: str, argument: object) -> None:
    size = file.stat().st_size
    if step in {"append", "partial"}:
        assert isinstance(argument, bytes)
        append(file, argument)
    elif step == "large":
        assert isinstance(argument, int)
        append(file, said("x" * 400_000 * argument))
    elif step == "truncate":
        assert isinstance(argument, float)
        os.truncate(file, int(size * argument))
    elif step == "overwrite" and size:
        assert isinstance(argument, float)
        # A change of an old byte in a long file may be seen late; what is cut off with it never is.
        os.truncate(file, min(size, 200_000))
        overwrite(file, int((min(size, 200_000) - 1) * argument), b"Z")
    elif step == "replace":
        assert isinstance(argument, bytes)
        other = file.with_suffix(".new")
        other.write_bytes(argument)
        other.rename(file)


@pytest.mark.parametrize(("size", "saves"), [(300_000, 1), (2_000_000, 1), (5_000_000, 3)])
def test_bytes_changed_in_place_are_noticed_within_a_few_saves(
    workspace: Workspace, file: Path, size: int, saves: int
) -> None:
    """P5: one byte, without changing the length, while lines are added as ever."""
    line = said("x" * 900)
    file.write_bytes(line * (size // len(line)))
    captured(workspace, file)
    for number in range(3):
        append(file, said(str(number)))
        captured(workspace, file)
    content = bytearray(file.read_bytes())
    content[size // 3] = ord("y")
    with file.open("r+b") as stream:  # as a host would that mends its own file
        stream.write(content)
    noted_at = []
    for number in range(saves):
        append(file, said(f"later {number}"))
        report = captured(workspace, file)
        noted_at += [number] * any(note.code == "transcript-replaced" for note in report.notes)
    assert len(noted_at) == 1
    assert workspace.transcript("@") == file.read_bytes()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 40))
def test_every_segment_has_its_turn(sizes: list[int], budget: int) -> None:
    """P5: nothing is read more often than the budget allows, and nothing is left out."""
    since, read = (0, 0), 0
    seen: list[int] = []
    rounds = -(-sum(sizes) // budget) + 1
    for number in range(rounds):
        whose, since = capture.segments_to_prove(sizes, since, budget=budget)
        read += sum(sizes[one] for one in whose)
        assert read <= budget * (number + 1)
        seen += whose
    assert set(seen) == set(range(len(sizes)))


@given(st.lists(st.integers(1, 100_000), max_size=300))
def test_segments_stay_few_and_bytes_are_not_stored_often(additions: list[int]) -> None:
    """P5."""
    sizes: list[int] = []
    written = 0
    for size in additions:
        sizes += capture.segment_sizes(size)
        kept, others = capture.joined_segments(sizes)
        written += sum(others) if kept < len(sizes) - len(capture.segment_sizes(size)) else size
        sizes = sizes[:kept] + (others or sizes[kept:])
    assert sum(sizes) == sum(additions)
    assert written <= (1 + len(capture.TIERS)) * sum(additions)


def test_ten_thousand_small_additions_leave_few_segments() -> None:
    """P5."""
    for size in (1, 60, 500, 3_000, 20_000):
        sizes: list[int] = []
        for _ in range(10_000):
            sizes.append(size)
            kept, others = capture.joined_segments(sizes)
            sizes = sizes[:kept] + others if others else sizes
        assert sum(sizes) == size * 10_000
        assert len(sizes) < 500


def test_names_of_segments_are_in_the_order_of_their_places() -> None:
    """P5."""
    names = [capture.segment_name(place) for place in (0, 1, 63, 64, 65, 6_399, 6_400, capture.MOST - 1)]
    assert names == sorted(names)


def test_the_segments_are_blobs_that_git_can_join(
    workspace: Workspace, store: Path, file: Path, git: object
) -> None:
    """P5: any tool that reads git gets the conversation out."""
    file.write_bytes(said("x" * 1000) * 600)
    commit = captured(workspace, file).checkpoint.commit
    call = ["git", "--git-dir", str(store / "objects.git")]
    names = subprocess.run(
        [*call, "ls-tree", "-r", "--name-only", commit, "conversation/"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    blobs = [
        subprocess.run(
            [*call, "cat-file", "blob", f"{commit}:{name}"], capture_output=True, check=True
        ).stdout
        for name in names
    ]
    assert len(names) > 1
    assert b"".join(blobs) == file.read_bytes()
    assert json.loads(blobs[0].split(b"\n")[0])


# Damage to a conversation or a state blob is found and named; the files stay usable (K4).


@pytest.mark.damages
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
    flip(max(packs_of(store), key=os.path.getsize), 30_000)
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


@pytest.mark.damages
def test_a_sound_conversation_is_proven_and_read_back(workspace: Workspace, file: Path) -> None:
    """K4."""
    for number in range(40):
        append(file, said(f"message {number}"))
        captured(workspace, file)
    workspace.maintain()
    report = workspace.verify(deep=True)
    assert report.ok
    assert report.checkpoints == 40


@pytest.mark.damages
def test_what_a_sweep_freed_is_stored_again(workspace: Workspace, file: Path, project: Path) -> None:
    """K3, invariant 4: what is remembered of a transcript proves nothing once bytes may be gone."""
    append(file, said("one"))
    first = captured(workspace, file).checkpoint
    workspace.delete(first.id)
    context = workspace._context
    with SweepTransaction(context, wait=5) as collecting:
        collecting.catalogue.forget(lambda _deleted: True)
        collecting.sweep(Roots(live=(), wounded=()))
    append(file, said("two"))
    second = captured(workspace, file).checkpoint
    assert workspace.transcript(second.id) == file.read_bytes()
    assert workspace.verify(deep=True).ok


@pytest.mark.parametrize("place", [0.1, 0.37, 0.5, 0.63, 0.9])
def test_a_change_of_equal_length_in_the_middle_of_long_messages_is_kept(
    workspace: Workspace, place: float
) -> None:
    """P5: what is handed over is there to be read, so that nothing is taken for known by its ends."""
    messages = [{"role": "user", "content": f"{number:06} " + "x" * 1000} for number in range(6000)]
    first = workspace.save(messages=messages).checkpoint
    changed = list(messages)
    changed[int(len(messages) * place)] = {"role": "user", "content": "changed" + "y" * 1000}
    changed.append({"role": "assistant", "content": "one more"})

    second = workspace.save(messages=changed).checkpoint

    assert list(workspace.conversation(second.id)) == changed
    assert list(workspace.conversation(first.id)) == messages


def test_a_change_of_equal_length_alone_is_a_change(workspace: Workspace) -> None:
    """P5, S10: a save of which only that changed makes a checkpoint, too."""
    messages = [{"role": "user", "content": f"{number:06} " + "x" * 1000} for number in range(6000)]
    first = workspace.save(messages=messages).checkpoint
    changed = list(messages)
    changed[2222] = {"role": "user", "content": "changed" + "y" * 1000}
    report = workspace.save(messages=changed)
    assert report.created
    assert report.checkpoint.id != first.id
    assert list(workspace.conversation(report.checkpoint.id)) == changed
