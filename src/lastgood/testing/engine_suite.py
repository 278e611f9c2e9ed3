# ruff: noqa: D102 - a test's name is its sentence
"""What every engine must do, as a class of tests to inherit from.

A subclass says in `EngineSuite.make_engine` how to make an empty engine; pytest collects the rest::

    class TestMyEngine(EngineSuite):
        def make_engine(self) -> Engine:
            return MyEngine()
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from stat import S_IFDIR, S_IFREG

from lastgood.errors import Damaged, LastgoodError
from lastgood.model.tree import DIRECTORY, FILE, LINK, Entry, TreeId, plain_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lastgood.engine import Engine, ObjectWriter

UNKNOWN = b"\x5a" * 20
HELLO = bytes.fromhex("b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0")


def file_entry(name: bytes, oid: bytes, mode: int = 0o644) -> Entry:
    """Return the entry of a file."""
    return Entry(name=name, kind=FILE, mode=mode, oid=oid)


def directory_entry(name: bytes, tree: TreeId, mode: int = 0o755) -> Entry:
    """Return the entry of a directory."""
    return Entry(name=name, kind=DIRECTORY, mode=mode, oid=tree.tree, modes=tree.modes)


def add_checkpoint(writer: ObjectWriter, number: int, files: dict[bytes, bytes]) -> bytes:
    """Add a checkpoint of a flat workspace and return its commit."""
    entries = [file_entry(name, writer.blob(content)) for name, content in files.items()]
    return writer.checkpoint(
        id=f"ckpt_{number:016x}",
        manifest=b'{"number":%d}' % number,
        workspace=writer.directory(entries),
        state={},
        created_at=(1_700_000_000 + number) * 1_000_000_000,
    )


def save(engine: Engine, number: int, files: dict[bytes, bytes]) -> bytes:
    """Publish a checkpoint of a flat workspace and return its commit."""
    writer = engine.writer()
    commit = add_checkpoint(writer, number, files)
    writer.publish()
    return commit


def assert_refused(call: Callable[[], object], error: type[LastgoodError]) -> LastgoodError:
    """Run a call that must fail, and return its error."""
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError(f"{error.__name__} was not raised")


class EngineSuite:
    """The tests; each makes an engine of its own."""

    def make_engine(self) -> Engine:
        """Return an empty engine."""
        raise NotImplementedError

    def test_a_blob_comes_back_as_it_was(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        contents = [b"", b"hello", bytes(range(256)) * 5000, os.urandom(3 << 20)]
        oids = [writer.blob(content) for content in contents]
        writer.publish()
        assert [engine.read_blob(oid) for oid in oids] == contents
        assert [engine.blob_size(oid) for oid in oids] == [len(content) for content in contents]

    def test_the_id_of_a_blob_is_the_one_git_gives(self) -> None:
        assert self.make_engine().writer().blob(b"hello") == HELLO

    def test_a_blob_is_read_from_a_descriptor_and_written_to_one(self) -> None:
        engine = self.make_engine()
        for size in (0, 1, 70_000, 9 << 20):
            content = os.urandom(1000) * (size // 1000 + 1)
            content = content[:size]
            with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
                source.write(content + b"more")
                source.flush()
                os.lseek(source.fileno(), 0, os.SEEK_SET)
                writer = engine.writer()
                oid = writer.blob_from(source.fileno(), size)
                writer.publish()
                assert engine.copy_blob(oid, target.fileno()) == size
                target.seek(0)
                assert target.read() == content
                assert engine.read_blob(oid) == content
                assert b"".join(engine.pieces(oid)) == content

    def test_a_blob_has_its_own_content_and_no_other(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        oids = [writer.blob(content) for content in (b"", b"one", b"two")]
        writer.publish()
        assert all(map(engine.has_content, oids, (b"", b"one", b"two")))
        assert not engine.has_content(oids[1], b"two")
        assert not engine.has_content(UNKNOWN, b"one")

    def test_a_file_that_shrank_is_an_end_of_file_and_spoils_nothing(self) -> None:
        engine = self.make_engine()
        for size in (10, 9 << 20):
            writer = engine.writer()
            before = writer.blob(b"before %d" % size)
            with tempfile.TemporaryFile() as source:
                source.write(b"x" * (size - 1))
                source.flush()
                os.lseek(source.fileno(), 0, os.SEEK_SET)
                try:
                    writer.blob_from(source.fileno(), size)
                except EOFError:
                    pass
                else:
                    raise AssertionError("EOFError was not raised")
            after = writer.blob(b"after %d" % size)
            writer.publish()
            assert engine.read_blob(before) == b"before %d" % size
            assert engine.read_blob(after) == b"after %d" % size

    def test_nothing_is_visible_before_publishing(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        oid = writer.blob(b"hello")
        assert engine.missing([oid]) == {oid}
        writer.publish()
        assert engine.missing([oid, UNKNOWN]) == {UNKNOWN}

    def test_what_is_abandoned_is_gone(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        oid = writer.blob(b"hello")
        writer.abandon()
        writer.abandon()
        assert engine.missing([oid]) == {oid}
        assert_refused(lambda: writer.blob(b"more"), LastgoodError)

    def test_abandoning_after_publishing_is_harmless(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        oid = writer.blob(b"hello")
        writer.publish(durable=False)
        writer.abandon()
        assert engine.read_blob(oid) == b"hello"

    def test_a_directory_comes_back_sorted_with_all_twelve_bits(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        blob = writer.blob(b"hello")
        inner = writer.directory([file_entry(b"deep", blob, 0o4711), file_entry(b"\xff\n", blob, 0o600)])
        plain = writer.directory([file_entry(b"x", blob), file_entry(b"y", blob, 0o755)])
        entries = [
            directory_entry(b"a", inner),
            file_entry(b"a.b", blob, 0o7777),
            file_entry(b"a-b", blob, 0o000),
            directory_entry(b"plain", plain, 0o700),
            directory_entry(b"sticky", plain, 0o1777),
            Entry(name=b"link", kind=LINK, mode=0, oid=blob),
            file_entry(b"caf\xc3\xa9 \xff", blob, 0o640),
            file_entry(b".git", blob),
        ]
        tree = writer.directory(reversed(entries))
        writer.publish()
        assert list(engine.directory(tree)) == sorted(entries, key=lambda entry: entry.name)
        assert [entry.mode for entry in engine.directory(inner)] == [0o4711, 0o600]

    def test_default_permissions_need_no_second_tree(self) -> None:
        writer = self.make_engine().writer()
        blob = writer.blob(b"hello")
        inner = writer.directory([file_entry(b"x", blob), file_entry(b"y", blob, 0o755)])
        tree = writer.directory([directory_entry(b"d", inner), Entry(name=b"l", kind=LINK, mode=0, oid=blob)])
        assert tree.modes == b""

    def test_permissions_alone_change_the_identity_of_all_directories_above(self) -> None:
        writer = self.make_engine().writer()
        blob = writer.blob(b"hello")
        trees = []
        for mode in (0o644, 0o600):
            inner = writer.directory([file_entry(b"x", blob, mode)])
            trees.append(writer.directory([directory_entry(b"d", inner)]))
        assert trees[0].tree == trees[1].tree
        assert trees[0] != trees[1]

    def test_an_empty_directory_is_kept(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        empty = writer.directory([])
        tree = writer.directory([directory_entry(b"empty", empty)])
        writer.publish()
        assert list(engine.directory(empty)) == []
        assert [entry.name for entry in engine.directory(tree)] == [b"empty"]

    def test_files_and_plain_directories_make_the_directory_that_their_entries_make(self) -> None:
        writer = self.make_engine().writer()
        blob, inner = writer.blob(b"hello"), writer.directory([]).tree
        file, directory = S_IFREG, S_IFDIR
        for modes in (
            (file | 0o644, file | 0o755, file | 0o644),
            (file | 0o644, file | 0o600, file | 0o4755),
            (directory | 0o755, file | 0o644),
            (directory | 0o755, file | 0o644, directory | 0o700),
            (),
        ):
            # Git sorts a directory as if its name ended in a slash: behind `a.`, before `a0`.
            names = [b"a", b"a.", b"a0"]
            rows = [
                (name, mode, inner if mode & directory else blob)
                for name, mode in zip(names, modes, strict=False)
            ]
            assert writer.plain_directory(rows) == writer.directory(map(plain_entry, rows))

    def test_a_directory_in_which_ids_are_exchanged_is_the_one_with_these(self) -> None:
        writer = self.make_engine().writer()
        one, other = writer.blob(b"one"), writer.blob(b"other")
        inner, outer = writer.directory([]).tree, writer.directory([file_entry(b"in", one)]).tree
        rows = [(b"a", S_IFDIR | 0o755, inner), (b"a.", S_IFREG | 0o644, one), (b"a0", S_IFREG | 0o755, one)]
        edited = [
            (b"a", S_IFDIR | 0o755, outer),
            (b"a.", S_IFREG | 0o644, one),
            (b"a0", S_IFREG | 0o755, other),
        ]
        before = writer.plain_directory(rows).tree
        edits = [(b"a", inner, outer), (b"a0", one, other)]
        assert writer.edited_directory(before, edits) == writer.plain_directory(edited).tree
        assert writer.edited_directory(before, [(b"a0", other, one)]) is None
        assert writer.edited_directory(before, [(b"gone", one, other)]) is None
        assert writer.edited_directory(other, edits) is None

    def test_a_name_that_no_directory_can_hold_is_refused(self) -> None:
        writer = self.make_engine().writer()
        blob = writer.blob(b"hello")
        for name in (b"", b".", b"..", b"a/b", b"a\0b"):
            entries = [file_entry(name, blob)]
            assert_refused(partial(writer.directory, entries), LastgoodError)
            assert_refused(partial(writer.plain_directory, [(name, S_IFREG | 0o644, blob)]), LastgoodError)
        assert_refused(lambda: writer.plain_directory([(b"a", S_IFREG | 0o644, blob)] * 2), LastgoodError)
        twice = [file_entry(b"a", blob), directory_entry(b"a", writer.directory([]))]
        assert_refused(lambda: writer.directory(twice), LastgoodError)

    def test_a_checkpoint_gives_back_what_it_was_made_of(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        blob = writer.blob(b"hello")
        workspace = writer.directory([file_entry(b"x", blob, 0o600)])
        conversation = writer.directory([file_entry(b"000000000000", writer.blob(b"hi\n"))])
        commit = writer.checkpoint(
            id="ckpt_0123456789abcdef",
            manifest=b"{}",
            workspace=workspace,
            state={"progress.json": blob},
            created_at=1_700_000_000_123_456_789,
            conversation=conversation,
        )
        writer.publish()
        contents = engine.contents(commit)
        assert contents.manifest == b"{}"
        assert contents.workspace == workspace
        assert contents.state == {"progress.json": blob}
        assert contents.conversation == conversation
        assert list(engine.commits()) == [commit]

    def test_a_writer_lacks_what_nobody_added(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        added = writer.blob(b"added")
        assert writer.lacks([added, bytes(20)]) == {bytes(20)}
        writer.publish()
        assert engine.writer().lacks([added, bytes(20)]) == {bytes(20)}

    def test_the_same_again_stores_nothing(self) -> None:
        engine = self.make_engine()
        commit = save(engine, 1, {b"a": b"one", b"b": b"two"})
        before = engine.stored_bytes()
        assert save(engine, 1, {b"b": b"two", b"a": b"one"}) == commit
        assert engine.stored_bytes() == before

    def test_what_is_not_there_is_damage(self) -> None:
        engine = self.make_engine()
        save(engine, 1, {b"a": b"one"})
        with tempfile.TemporaryFile() as target:
            descriptor = target.fileno()
            calls: list[Callable[[], object]] = [
                lambda: engine.read_blob(UNKNOWN),
                lambda: engine.copy_blob(UNKNOWN, descriptor),
                lambda: list(engine.pieces(UNKNOWN)),
                lambda: engine.blob_size(UNKNOWN),
                lambda: engine.directory(TreeId(tree=UNKNOWN)),
                lambda: engine.contents(UNKNOWN),
            ]
            for call in calls:
                assert UNKNOWN.hex() in assert_refused(call, Damaged).message

    def test_a_detached_pack_is_finished_elsewhere(self) -> None:
        engine = self.make_engine()
        writer = engine.writer()
        oid = writer.blob(b"hello")
        resumed = engine.resume(writer.detach())
        other = resumed.blob(b"more")
        resumed.publish()
        assert engine.read_blob(oid) == b"hello"
        assert engine.read_blob(other) == b"more"

    def test_what_was_detached_can_be_taken_back(self) -> None:
        for size in (5, 6 << 20):  # in memory, and in a file
            engine = self.make_engine()
            writer = engine.writer()
            before = writer.blob(b"before" + os.urandom(size))
            other = engine.resume(writer.detach())
            lost = other.blob(b"lost" + os.urandom(size))
            writer.take_back()
            after = writer.blob(b"after" + os.urandom(size))
            writer.publish()
            assert engine.read_blob(before).startswith(b"before")
            assert engine.read_blob(after).startswith(b"after")
            assert engine.missing([before, lost, after]) == {lost}
            other.abandon()

    def test_a_sound_engine_has_no_faults_and_needs_no_repair(self) -> None:
        engine = self.make_engine()
        save(engine, 1, {b"a": b"one"})
        save(engine, 2, {b"a": b"two"})
        assert list(engine.check()) == []
        assert list(engine.repair()) == []

    def test_a_sweep_frees_only_what_no_live_checkpoint_needs(self) -> None:
        engine = self.make_engine()
        big = os.urandom(100_000)
        first = save(engine, 1, {b"a": b"one", b"big": big})
        second = save(engine, 2, {b"a": b"one", b"b": b"two"})
        assert engine.sweep([second]) > len(big) // 2
        assert list(engine.commits()) == [second]
        assert engine.missing([first]) == {first}
        entries = engine.directory(engine.contents(second).workspace)
        assert [engine.read_blob(entry.oid) for entry in entries] == [b"one", b"two"]
        assert list(engine.check()) == []

    def test_what_a_sweep_would_free_can_be_told_before(self) -> None:
        engine = self.make_engine()
        big = os.urandom(100_000)
        first = save(engine, 1, {b"a": b"one", b"big": big})
        second = save(engine, 2, {b"a": b"one", b"b": b"two"})
        assert engine.unreached_bytes([first, second]) == 0
        told = engine.unreached_bytes([second])
        assert len(big) // 2 < told <= engine.stored_bytes()
        assert abs(engine.sweep([second]) - told) < 5000
        assert_refused(lambda: engine.unreached_bytes([UNKNOWN]), Damaged)

    def test_what_only_some_commits_need_can_be_told(self) -> None:
        engine = self.make_engine()
        big = os.urandom(100_000)
        first = save(engine, 1, {b"a": b"one", b"big": big})
        second = save(engine, 2, {b"a": b"one", b"b": b"two"})
        third = save(engine, 3, {b"b": b"two", b"big": big})
        every = {first, second, third}
        for going in ([first], [second], [first, third], [], [first, second, third]):
            live = sorted(every - set(going))
            told = engine.needed_bytes(going, live=live)
            assert told == engine.unreached_bytes(live) - engine.unreached_bytes(sorted(every))
            assert told == engine.needed_bytes((), live=live, hurt=going)
        assert engine.needed_bytes([first], live=[second], wounded=[third]) < len(big) // 2
        assert_refused(lambda: engine.needed_bytes([UNKNOWN], live=[first]), Damaged)

    def test_commits_that_are_known_are_not_told_again(self) -> None:
        engine = self.make_engine()
        first = save(engine, 1, {b"a": b"one"})
        second = save(engine, 2, {b"a": b"two"})
        assert list(engine.commits(besides={first})) == [second]
        assert list(engine.commits(besides={first, second})) == []

    def test_of_a_wounded_checkpoint_a_sweep_keeps_what_is_left(self) -> None:
        engine = self.make_engine()
        first = save(engine, 1, {b"a": b"one"})
        second = save(engine, 2, {b"b": b"two"})
        gone = save(engine, 3, {b"c": b"three"})
        assert engine.sweep([first], wounded=[second, UNKNOWN]) > 0
        assert set(engine.commits()) == {first, second}
        assert engine.missing([gone]) == {gone}
        entries = engine.directory(engine.contents(second).workspace)
        assert [engine.read_blob(entry.oid) for entry in entries] == [b"two"]

    def test_a_sweep_with_nothing_to_free_frees_nothing(self) -> None:
        engine = self.make_engine()
        commits = [save(engine, number, {b"a": b"%d" % number}) for number in range(3)]
        assert engine.sweep(commits) == 0
        assert set(engine.commits()) == set(commits)

    def test_a_sweep_of_everything_leaves_nothing(self) -> None:
        engine = self.make_engine()
        save(engine, 1, {b"a": b"one"})
        assert engine.sweep([]) > 0
        assert list(engine.commits()) == []
        assert engine.stored_bytes() == 0

    def test_a_sweep_refuses_when_a_live_checkpoint_is_not_there(self) -> None:
        engine = self.make_engine()
        commit = save(engine, 1, {b"a": b"one"})
        assert_refused(lambda: engine.sweep([UNKNOWN]), Damaged)
        assert list(engine.commits()) == [commit]

    def test_joining_packs_loses_nothing(self) -> None:
        engine = self.make_engine()
        text = b"".join(b"line %d\n" % number for number in range(2000))
        commits = [save(engine, number, {b"a": text + b"%d" % number}) for number in range(5)]
        engine.consolidate()
        assert engine.packs() <= 5
        for number, commit in enumerate(commits):
            (entry,) = engine.directory(engine.contents(commit).workspace)
            assert engine.read_blob(entry.oid) == text + b"%d" % number
        assert list(engine.check()) == []

    def test_tags_and_leftovers_are_harmless(self) -> None:
        engine = self.make_engine()
        commit = save(engine, 1, {b"a": b"one"})
        engine.write_tags({"ckpt_0000000000000001": commit})
        engine.write_tags({})
        assert engine.collect_leftovers() == 0
        engine.refresh()
        engine.close()
        assert engine.contents(commit).manifest == b'{"number":1}'
