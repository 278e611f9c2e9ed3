"""The least that we found a Python program to do for a save or a restore that keeps what is promised.

Straight-line code that imports nothing of lastgood's, and no more than a process that measures its own
start needs. It leaves behind what a save and a restore of ours leave, as git reads it, and asks what they
have to ask:

- It shares or holds the locks of store and workspace, refuses beside a journal, and asks the catalogue
  whether anybody has changed anything: the generation, where the workspace stands, who is at work.
- It opens each folder, and asks for the state of each file in it. A folder's own times prove its names;
  where they do not, it is listed, and a name that is new is judged by the rules.
- A changed file is read as one whole version, hashed and compressed. The tree of each folder on the way to
  it follows, a manifest and a commit. Pack and index (both version 2) are durable before the catalogue's row
  is.
- What the next look has to know lies in a file that proves itself.
- A restore plans by comparing, has a guard as complete as any checkpoint, proves that what is about to go
  can be had back, and has a journal durable that tells each path before and after. It writes and syncs the
  files, exchanges each, looks under a lease at what came out before that goes, syncs the folders, proves
  each path, commits a row by which it can be taken back, and takes the journal away.

It waits for the disk as seldom as that allows, by an order of its own: the journal's bytes go to the disk
beside the guard's, its name beside theirs, and the last row while the folders do.

It leaves out, and so is less than any program that keeps every promise: files and folders that come or
go, links, other permissions than the usual, hostile names, mounts, file systems whose times do not prove
each version, files too large or unreadable, ignore files and a repository of the project's, to look what
is stored already, to bring back what another process saved or what lies further back, other processes at
the same workspace, sessions, progress and conversations (it asks whether there are any), full and failing
disks, stopped and killed processes, a cache that is written anew when it has grown, the catalogue's log
carried over at the end, and every error that says what to do.
What it has seen stays in memory between two verbs of a process.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import sys
import time
import zlib
from _ctypes import byref, dlopen, dlsym
from _json import encode_basestring_ascii as quoted
from _sha1 import sha1 as builtin_sha1
from _signal import SIGURG  # type: ignore[import-not-found]  # lighter than `signal`, which makes enums
from _struct import pack, unpack
from _thread import allocate_lock, start_new_thread
from itertools import accumulate, repeat

from bare import BASIC, NOFOLLOW, STATX_BYTES, Answer, Call, connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence
    from typing import Protocol

    # A folder, the place of a file in what is asked of it, and the ids of its content before and now.
    Change = tuple["Folder", int, bytes, bytes]
    # What a thread is to do, with which files, what went wrong, and what it lets go of in the end.
    Task = tuple[Callable[[Sequence[int]], None], Sequence[int], list[OSError], LockType]

    class Digest(Protocol):
        def digest(self) -> bytes: ...


COMMIT, TREE, BLOB = 1, 2, 3
KINDS = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob"}
USUAL_FILE, USUAL_FOLDER = b"100644 ", b"40000 "
# What is never captured.
IGNORED = frozenset(
    b".git node_modules .venv venv __pycache__ .mypy_cache .pytest_cache .ruff_cache .tox".split()
)
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOATIME
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
# Asks about an open file or folder itself, by no name; and exchanges two names.
ITSELF, EXCHANGE = 0x1000, 2
# Where an answer of statx(2) has, in words of eight bytes: mode, inode, size, change and modification time.
WORDS = (3, 4, 5, 12, 13, 14, 15)
WORD, ANSWER_WORDS, SIZE, CHANGED, CHANGED_PART = 8, STATX_BYTES // 8, 5, 12, 13
# Where in an answer's bytes these are.
EVIDENCE = ((28, 48), (96, 128))
# No answer begins like this; and what is said of nothing.
UNKNOWN, NOTHING = b"\0", [bytes(WORD)] * len(WORDS)
# A change within this time of a look may leave no trace (nanoseconds).
YOUNG, SECOND = 50_000_000, 1_000_000_000
# From so many files on a second process looks at half of the folders.
MANY_FILES = 4_000
# So many bytes does zlib's format hold as they are in one piece.
MOST_STORED = 0xFFFF
# So many files are synced side by side.
SYNCED = 4

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value NOT NULL) WITHOUT ROWID;
CREATE TABLE checkpoint (
    sequence INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workspace TEXT NOT NULL, kind TEXT NOT NULL,
    created_at INTEGER NOT NULL, message TEXT NOT NULL, name TEXT, commit_id TEXT NOT NULL,
    tree TEXT NOT NULL, previous TEXT, session TEXT, pinned INTEGER, good INTEGER, deleted_at INTEGER,
    seal INTEGER NOT NULL, manifest TEXT NOT NULL);
CREATE INDEX checkpoint_of_workspace ON checkpoint (workspace, sequence);
CREATE TABLE operation (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workspace TEXT NOT NULL, at INTEGER NOT NULL,
    target TEXT NOT NULL, guard TEXT NOT NULL, seal INTEGER NOT NULL, steps TEXT NOT NULL);
CREATE INDEX operation_of_workspace ON operation (workspace, number);
CREATE TABLE session (id TEXT PRIMARY KEY, workspace TEXT NOT NULL, state TEXT NOT NULL);
CREATE INDEX session_of_workspace ON session (workspace, state);
"""
ADD_CHECKPOINT = (
    "INSERT INTO checkpoint"
    " (id, workspace, kind, created_at, message, commit_id, tree, previous, seal, manifest)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
ADD_OPERATION = (
    "INSERT INTO operation (id, workspace, at, target, guard, seal, steps) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
ASK_NEWEST = (
    "SELECT (SELECT value FROM meta WHERE name = 'generation'),"
    " (SELECT max(sequence) FROM checkpoint WHERE workspace = :key),"
    " (SELECT max(number) FROM operation WHERE workspace = :key),"
    " (SELECT count(*) FROM session WHERE workspace = :key AND state = 'active')"
)
ASK_TARGET = "SELECT tree FROM checkpoint WHERE id = ? AND deleted_at IS NULL"
MANIFEST = (
    '{"actor":{"call":null,"name":null,"type":"unknown"},"bytes":%d,'
    '"changes":{"added":0,"deleted":0,"modified":%d},"created_ns":%d,"files":%d,"forced":[],"gaps":[],'
    '"git":null,"id":"%s","ignored":0,"kind":"%s","message":%s,"metadata":{},"metrics":{"cpu_seconds":null,'
    '"memory_bytes":null,"save_ms":%.1f,"session_seconds":null,"stored_bytes":%d,"tasks_done":0,'
    '"tasks_failed":0,"tasks_total":0,"tokens":null},"modes":"","name":null,"partial":false,"previous":%s,'
    '"private":[],"progress":null,"session":null,"tree":"%s","workspace":%s,"workspace_key":"%s"}'
)
STEP = (
    '{"action":"write","have":{"kind":"file","mode":420,"oid":"%s"},"path":%s,'
    '"want":{"kind":"file","mode":420,"oid":"%s"}}'
)
JOURNAL = '{"guard":"%s","operation":"%s","steps":%s,"target":"%s"}'
COMMITTED = (
    b"tree %b\nauthor least <least@localhost> %d +0000\ncommitter least <least@localhost> %d +0000\n\n"
    b"checkpoint %b\n"
)
CONFIG = b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tpreciousObjects = true\n"


class Folder:
    """One folder: what is asked of it, what was said, and its tree.

    ``asked`` are the folder itself and the names of its files, ``states`` what was said of these, word by
    word; ``answers`` is the same as it came, which is quicker to compare.
    """

    __slots__ = ("_places", "answers", "asked", "path", "states", "tree")

    def __init__(self, path: bytes, names: bytes, tree: bytes, states: bytes) -> None:
        self.path = path
        self.asked = [b"", *names.split(b"\0")] if names else [b""]
        self.states = states or bytes(len(self.asked) * WORD * len(WORDS))
        self.answers = UNKNOWN
        self.tree = tree
        self._places: dict[bytes, int] = {}

    @property
    def record(self) -> tuple[bytes, bytes, bytes, bytes]:
        """What it is made of."""
        return self.path, b"\0".join(self.asked[1:]), self.tree, self.states

    @property
    def places(self) -> dict[bytes, int]:
        """Where in the tree the id of each entry lies."""
        if not self._places:
            at, tree = 0, self.tree
            while at < len(tree):
                end = tree.index(b"\0", at)
                self._places[tree[tree.index(b" ", at) + 1 : end]] = end + 1
                at = end + 21
        return self._places

    def put(self, name: bytes, oid: bytes) -> bytes:
        """Give an entry another id, and return the one that it had."""
        place, tree = self.places[name], self.tree
        self.tree = tree[:place] + oid + tree[place + 20 :]
        return tree[place : place + 20]

    def learn(self, row: int, words: Sequence[bytes]) -> None:
        """Take other words for what was said of one of those asked."""
        states, size = bytearray(self.states), len(self.asked) * WORD
        for start, word in zip(range(row * WORD, len(states), size), words, strict=True):
            states[start : start + WORD] = word
        self.states, self.answers = bytes(states), UNKNOWN

    def size(self, row: int) -> int:
        """Return how large a file was."""
        start = (len(self.asked) * WORDS.index(SIZE) + row) * WORD
        return int.from_bytes(self.states[start : start + WORD], sys.byteorder)


class Promised:
    """One workspace in a store, which several may share.

    What hashes and compresses is what loads soonest, unless something quicker is given.
    """

    def __init__(
        self,
        root: str,
        store: str,
        *,
        sha1: Callable[[bytes], Digest] = builtin_sha1,
        compress: Callable[[bytes, int], bytes] = zlib.compress,
        decompress: Callable[[bytes], bytes] = zlib.decompress,
    ) -> None:
        self._sha1, self._compress, self._decompress = sha1, compress, decompress
        library = dlopen(None, 0)  # type: ignore[arg-type]  # what is loaded already
        self._ask, self._rename = Call(dlsym(library, "statx")), Call(dlsym(library, "renameat2"))
        self._path, self._root = root, os.open(root, DIRECTORY)
        self._key = builtin_sha1(os.fsencode(root)).hexdigest()[:16]
        self._packs = f"{store}/objects.git/objects/pack"
        self._place = f"{store}/workspaces/{self._key}"
        os.makedirs(self._place, exist_ok=True)
        self._rows = connect(f"{store}/catalogue", timeout=60, isolation_level=None)
        self._rows.execute("PRAGMA synchronous = FULL")
        if not os.path.exists(self._packs):
            self._lay(store)
        self._locks = [os.open(f"{one}/lock", os.O_RDWR | os.O_CREAT, 0o600) for one in (store, self._place)]
        self._outside = [os.path.expanduser("~/.config/lastgood/config.toml")]
        above = os.path.dirname(root)
        while above != os.path.dirname(above):
            self._outside.append(f"{above}/.git")
            above = os.path.dirname(above)
        self._version: object = None
        # The generation, the newest checkpoint and operation, and how many sessions are at work.
        self._newest: tuple[object, ...] = ()
        # Where each content lies: in which pack, from where on, and how long; and the packs that are open.
        self._contents: dict[bytes, tuple[str, int, int]] = {}
        self._reading: dict[str, int] = {}
        self._folders: dict[bytes, Folder] = {}
        self._at, self._tree, self._bytes = "", b"", 0
        if not self._recall():
            self._list()
        self._files = sum(len(folder.asked) - 1 for folder in self._folders.values())
        most = max(len(folder.asked) for folder in self._folders.values())
        # One answer more, for what is asked of one file alone.
        self._sheet = bytearray((most + 1) * STATX_BYTES)
        whole = (Answer * len(self._sheet)).from_buffer(self._sheet)
        self._answers = [byref(whole, start) for start in range(0, len(self._sheet), STATX_BYTES)]
        self._words = memoryview(self._sheet).cast("Q")
        self._apart = most * STATX_BYTES
        self._looks = 0
        self._begin()

    def _lay(self, store: str) -> None:
        """Make an empty repository, and the tables."""
        for name in ("objects/pack", "refs"):
            os.makedirs(f"{store}/objects.git/{name}")
        for name, content in (("HEAD", b"ref: refs/heads/main\n"), ("config", CONFIG)):
            os.close(_written(f"{store}/objects.git/{name}", content))
        self._rows.execute("PRAGMA journal_mode = WAL")
        self._rows.executescript(TABLES)
        self._rows.execute("INSERT INTO meta VALUES ('generation', ?)", (os.urandom(8).hex(),))

    def _list(self) -> None:
        """Take in what there is, and nothing of its contents."""
        top = os.fsencode(self._path)
        for place, below, names in os.walk(top):
            below[:] = sorted(name for name in below if not _is_ignored(name))
            files = sorted(name for name in names if not _is_ignored(name))
            rows = sorted(
                [(name + b"/", USUAL_FOLDER + name) for name in below]
                + [(name, USUAL_FILE + name) for name in files]
            )
            tree = b"".join(row + b"\0" + bytes(20) for _, row in rows)
            path = place[len(top) + 1 :]
            self._folders[path] = Folder(path, b"\0".join(files), tree, b"")

    def _begin(self) -> None:
        """Begin a pack."""
        self._pieces: list[bytes] = []
        self._entries: list[tuple[bytes, int, int]] = []
        self._end = 12
        # What a look came to: changed files; the folders that hold them, open; and what trees had before.
        self._changes: list[Change] = []
        self._open: dict[bytes, int] = {}
        self._before: list[tuple[Folder, bytes, bytes]] = []

    def close(self) -> None:
        """Let go of everything."""
        self._rows.close()
        _close([self._root, *self._locks, *self._reading.values()])

    # --- The verbs ---

    def unchanged(self) -> str:
        """Find everything as it was, and return the checkpoint that says how."""
        self._admit(fcntl.LOCK_SH)
        self._look_at_all()
        assert not self._changes
        self._leave()
        return self._at

    def save(self) -> str:
        """Keep what changed, and return the checkpoint."""
        started = time.perf_counter()
        self._admit(fcntl.LOCK_SH)
        self._look_at_all()
        self._put_trees()
        made = _id("ckpt")
        content = self._checkpoint(made, kind="manual", message="a save", started=started)
        self._publish(content)
        self._commit()
        self._at = made
        self._remember()
        self._leave()
        return made

    def restore(self, target: str) -> dict[str, object]:
        """Bring back a checkpoint that this process saved, the one at which the workspace stands.

        Tells what became of each path.
        """
        started = time.perf_counter()
        self._admit(fcntl.LOCK_EX)
        [row] = self._rows.execute(ASK_TARGET, (target,))
        wanted = self._tree
        assert row == (wanted.hex(),)
        self._look_at_all()
        assert self._changes
        self._put_trees()
        guard, operation = _id("ckpt"), _id("op")
        steps = "[" + ",".join(map(self._step, self._changes)) + "]"
        pack = self._checkpoint(guard, kind="guard", message=f"before restoring {target}", started=started)
        journal = (JOURNAL % (guard, operation, steps, target)).encode()
        journal = b"least-journal %08x %d\n%b" % (zlib.crc32(journal), len(journal), journal)
        contents = self._publish(pack, journal=journal)
        self._commit()
        self._exchange(contents, operation=operation.encode())
        carried = _syncing([*{self._open[folder.path] for folder, *_ in self._changes}])
        self._prove()
        self._record(operation, target=target, guard=guard, steps=steps)
        carried()
        self._at, self._tree = target, wanted
        os.unlink(f"{self._place}/journal")
        folder = os.open(self._place, DIRECTORY)
        closed = _syncing([folder])
        self._remember()
        closed()
        os.close(folder)
        outcomes = {os.path.join(one.path, one.asked[at]): "restored" for one, at, _, _ in self._changes}
        self._leave()
        return {"guard": guard, "operation": operation, "outcomes": outcomes}

    def _admit(self, kind: int) -> None:
        """Hold store and workspace, and find nothing half done and nobody else at it."""
        fcntl.flock(self._locks[0], fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(self._locks[1], kind | fcntl.LOCK_NB)
        exists = os.access
        assert not exists(f"{self._place}/journal", os.F_OK)
        assert not any(map(exists, self._outside, repeat(os.F_OK)))
        version = self._rows.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            newest = self._rows.execute(ASK_NEWEST, {"key": self._key}).fetchone()
            assert self._newest in {(), newest}
            self._version, self._newest = version, newest

    def _leave(self) -> None:
        """Let go of what a verb needed."""
        for descriptor in self._open.values():
            os.close(descriptor)
        for lock in self._locks[::-1]:
            fcntl.flock(lock, fcntl.LOCK_UN)
        self._begin()

    # --- A look at the workspace ---

    def _look_at_all(self) -> None:
        """Look at every folder, by two processes where there are many files."""
        folders = list(self._folders.values())
        self._looks += 1
        if self._files < MANY_FILES or not self._at:
            self._look(folders, self._examine)
            return
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            found: list[bytes] = []
            self._look(folders[1::2], lambda folder, _descriptor, _states: found.append(folder.path))
            os.write(writer, marshal.dumps(found))
            os._exit(0)
        os.close(writer)
        self._look(folders[::2], self._examine)
        with open(reader, "rb") as pipe:
            differing: list[bytes] = marshal.loads(pipe.read())
        assert os.waitpid(child, 0)[1] == 0
        self._look([self._folders[path] for path in differing], self._examine)

    def _look(self, folders: Sequence[Folder], differs: Callable[[Folder, int, bytes], object]) -> None:
        """Ask for everything in some folders, and tell of those in which something is not as it was.

        Who is told gets the open folder, and keeps it by returning something.
        """
        ask, answers, sheet, root = self._ask, self._answers, self._sheet, self._root
        flags, mask = repeat(NOFOLLOW | ITSELF), repeat(BASIC)
        for folder in folders:
            descriptor = os.open(folder.path or b".", DIRECTORY, dir_fd=root)
            if any(map(ask, repeat(descriptor), folder.asked, flags, mask, answers)):
                raise FileNotFoundError(folder.path)
            if not sheet.startswith(folder.answers):
                many = len(folder.asked)
                states = b"".join(
                    [self._words[word : many * ANSWER_WORDS : ANSWER_WORDS].tobytes() for word in WORDS]
                )
                if states == folder.states:
                    if self._looks > 1:
                        folder.answers = bytes(sheet[: many * STATX_BYTES])
                elif differs(folder, descriptor, states):
                    continue
            os.close(descriptor)

    def _examine(self, folder: Folder, descriptor: int, states: bytes) -> bool:
        """Read what changed in a folder."""
        moment = time.time_ns()
        for row in sorted(_differing(folder.states, states, many=len(folder.asked))):
            if row:
                self._read(folder, row, descriptor, moment)
            else:
                self._prove_names(folder, descriptor)
        folder.states, folder.answers = states, UNKNOWN
        if self._changed_at(0) > moment - YOUNG:
            folder.learn(0, NOTHING)
        self._open[folder.path] = descriptor
        return True

    def _changed_at(self, row: int) -> int:
        at = row * ANSWER_WORDS
        return self._words[at + CHANGED] * SECOND + self._words[at + CHANGED_PART]

    def _prove_names(self, folder: Folder, descriptor: int) -> None:
        """List a folder whose times prove nothing."""
        known = folder.places
        names = os.fsencode("\0".join(os.listdir(descriptor))).split(b"\0")
        assert known.keys() == {name for name in names if name in known or not _is_ignored(name)}

    def _read(self, folder: Folder, row: int, descriptor: int, moment: int) -> None:
        """Keep what a file holds, as one whole version: that which was asked about."""
        name, sheet, at, apart = folder.asked[row], self._sheet, row * STATX_BYTES, self._apart
        size = self._words[row * ANSWER_WORDS + SIZE]
        file = os.open(name, FILE, dir_fd=descriptor)
        if self._changed_at(row) > moment - YOUNG:
            _lease(file)  # nobody is writing to it
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        content = os.read(file, size + 1)
        assert not self._ask(file, b"", ITSELF, BASIC, self._answers[-1])
        os.close(file)
        assert len(content) == size
        for start, end in EVIDENCE:
            assert sheet[at + start : at + end] == sheet[apart + start : apart + end]
        start = self._end
        oid = self._add(BLOB, content)
        self._contents[oid] = "", start, self._end - start
        before = folder.put(name, oid)
        self._changes.append((folder, row, before, oid))
        self._bytes += size - folder.size(row)

    # --- A checkpoint ---

    def _add(self, kind: int, content: bytes) -> bytes:
        """Put an object into the pack, and return its id."""
        size = len(content)
        oid = self._sha1(b"%b %d\0%b" % (KINDS[kind], size, content)).digest()
        body = self._compress(content, 1) if kind == BLOB or size > MOST_STORED else _stored(content)
        raw = _entry_header(kind, size) + body
        self._entries.append((oid, zlib.crc32(raw), self._end))
        self._pieces.append(raw)
        self._end += len(raw)
        return oid

    def _put_trees(self) -> None:
        """Put the trees of what changed into the pack, those below first."""
        for folder, row, before, _ in self._changes:
            self._before.append((folder, folder.asked[row], before))
        dirty = {folder.path for folder, *_ in self._changes}
        while dirty:
            path = max(dirty, key=len)
            dirty.remove(path)
            oid = self._add(TREE, self._folders[path].tree)
            if not path:
                self._tree = oid
                break
            above, _, name = path.rpartition(b"/")
            folder = self._folders[above]
            self._before.append((folder, name, folder.put(name, oid)))
            dirty.add(above)

    def _checkpoint(self, id: str, *, kind: str, message: str, started: float) -> bytes:
        """Put manifest and commit into the pack, and return that."""
        now, tree = time.time_ns(), self._tree.hex()
        manifest = MANIFEST % (
            self._bytes,
            len(self._changes),
            now,
            self._files,
            id,
            kind,
            quoted(message),
            (time.perf_counter() - started) * 1000,
            self._end,
            f'"{self._at}"' if self._at else "null",
            tree,
            quoted(self._path),
            self._key,
        )
        text = self._add(BLOB, manifest.encode())
        top = self._add(TREE, b"100644 checkpoint.json\0%b40000 workspace\0%b" % (text, self._tree))
        commit = self._add(
            COMMIT, COMMITTED % (top.hex().encode(), now // SECOND, now // SECOND, id.encode())
        )
        seal = zlib.crc32(b"%b%b" % (commit, manifest.encode()))
        previous = self._at or None
        self._row = (id, self._key, kind, now, message, commit.hex(), tree, previous, seal, manifest)
        content = b"".join([b"PACK", pack(">II", 2, len(self._entries)), *self._pieces])
        return content + self._sha1(content).digest()

    def _publish(self, content: bytes, *, journal: bytes = b"") -> list[bytes]:
        """Make the pack durable, with its index, and a journal's bytes and name beside.

        With a journal, what the pack holds is proven meanwhile, and what is to be brought back is returned.
        """
        stem = f"{self._packs}/pack-{content[-20:].hex()}"
        # Nobody sees the pack before the index has its name.
        index, beside = f"{stem}.idx", f"{self._place}/journal"
        files = [_written(f"{stem}.pack", content), _written(f"{index}.new", self._index(content[-20:]))]
        for *_, oid in self._changes:
            self._contents[oid] = f"{stem}.pack", *self._contents[oid][1:]
        folders, contents = [self._packs], []
        if journal:
            files.append(_written(f"{beside}.new", journal))
            written = _syncing(files)
            for *_, going in self._changes:
                self._content(going)
            os.close(self._reading.pop(f"{stem}.pack"))
            contents = [self._content(before) for _, _, before, _ in self._changes]
            written()
            os.rename(f"{beside}.new", beside)
            folders.append(self._place)
        else:
            _sync(files)
        os.rename(f"{index}.new", index)
        opened = [os.open(folder, DIRECTORY) for folder in folders]
        _sync(opened)
        _close([*files, *opened])
        return contents

    def _index(self, checksum: bytes) -> bytes:
        rows = sorted(self._entries)
        counts = [0] * 256
        for oid, _, _ in rows:
            counts[oid[0]] += 1
        many = len(rows)
        body = b"".join(
            [
                b"\xfftOc\0\0\0\x02",
                pack(">256I", *accumulate(counts)),
                *[row[0] for row in rows],
                pack(f">{many}I", *[row[1] for row in rows]),
                pack(f">{many}I", *[row[2] for row in rows]),
                checksum,
            ]
        )
        return body + self._sha1(body).digest()

    def _commit(self) -> None:
        """Add the row: now the checkpoint exists."""
        sequence = self._rows.execute(ADD_CHECKPOINT, self._row).lastrowid
        generation, _, operation, sessions = self._newest
        self._newest = generation, sequence, operation, sessions

    def _content(self, oid: bytes) -> bytes:
        """Return a content of the store, proven."""
        path, start, length = self._contents[oid]
        if path not in self._reading:
            self._reading[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        raw = os.pread(self._reading[path], length, start)
        at = 1
        while raw[at - 1] & 0x80:
            at += 1
        content = self._decompress(raw[at:])
        assert self._blob(content) == oid
        return content

    def _blob(self, content: bytes) -> bytes:
        return self._sha1(b"blob %d\0%b" % (len(content), content)).digest()

    # --- A restore ---

    def _record(self, operation: str, *, target: str, guard: str, steps: str) -> None:
        """Add the row by which a restore can be taken back, and which says where the workspace stands."""
        seal = zlib.crc32(steps.encode())
        row = (operation, self._key, time.time_ns(), target, guard, seal, steps)
        number = self._rows.execute(ADD_OPERATION, row).lastrowid
        generation, sequence, _, sessions = self._newest
        self._newest = generation, sequence, number, sessions

    def _step(self, change: Change) -> str:
        folder, row, before, now = change
        path = quoted(os.fsdecode(os.path.join(folder.path, folder.asked[row])))
        return STEP % (now.hex(), path, before.hex())

    def _exchange(self, contents: Sequence[bytes], *, operation: bytes) -> None:
        """Give each path its content, and let what came out of it go if it is what the guard holds."""
        places = [
            (self._open[folder.path], folder.asked[row], b".%b-%d" % (operation, row), folder.size(row), now)
            for folder, row, _, now in self._changes
        ]
        written = []
        for (directory, _, beside, _, _), content in zip(places, contents, strict=True):
            file = os.open(beside, NEW, 0o644, dir_fd=directory)
            assert os.write(file, content) == len(content)
            written.append(file)
        _sync(written)
        for file in written:
            os.close(file)
        rename = self._rename
        for directory, name, beside, _, _ in places:
            assert not rename(directory, beside, directory, name, EXCHANGE)
        gone = []
        for directory, _, beside, size, now in places:
            file = os.open(beside, FILE, dir_fd=directory)
            _lease(file)
            assert self._blob(os.read(file, size + 1)) == now
            assert fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_RDLCK  # nobody waits to write to it
            os.unlink(beside, dir_fd=directory)
            gone.append(file)
        _beside(_close, gone)  # by which their blocks are freed: nobody waits for that

    def _prove(self) -> None:
        """Find each path to hold what is wanted, with nobody writing to it, and remember how it is now."""
        sheet, apart, ask, answer = self._sheet, self._apart, self._ask, self._answers
        for folder, row, before, _ in self._changes:
            directory, name = self._open[folder.path], folder.asked[row]
            file = os.open(name, FILE, dir_fd=directory)
            _lease(file)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            assert not ask(file, b"", ITSELF, BASIC, answer[0])
            size = self._words[SIZE]
            assert self._blob(os.read(file, size + 1)) == before
            os.close(file)
            assert not ask(directory, name, NOFOLLOW, BASIC, answer[-1])
            for start, end in EVIDENCE:
                assert sheet[start:end] == sheet[apart + start : apart + end]
            self._bytes += size - folder.size(row)
            folder.learn(row, [bytes(sheet[word * WORD : (word + 1) * WORD]) for word in WORDS])
            folder.learn(0, NOTHING)
        for folder, name, before in self._before:
            folder.put(name, before)

    # --- What the next look has to know ---

    def _remember(self) -> None:
        """Add what is known of the folders that were read, and of those above them, for the next look."""
        paths = {*self._open, *(folder.path for folder, *_ in self._before)}
        records = [folder.record for path, folder in self._folders.items() if path in paths]
        body = marshal.dumps((self._at, self._tree, self._bytes, records))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.open(f"{self._place}/scan", flags, 0o600)
        os.write(file, pack("=II", len(body), zlib.crc32(body)) + body)
        os.close(file)

    def _recall(self) -> bool:
        """Take in what is known of the last look, and tell whether anything is."""
        try:
            file = os.open(f"{self._place}/scan", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        kept = memoryview(os.read(file, os.fstat(file).st_size))
        os.close(file)
        at = 0
        while at < len(kept):
            size, checksum = unpack("=II", kept[at : at + 8])
            body = kept[at + 8 : at + 8 + size]
            assert zlib.crc32(body) == checksum
            self._at, self._tree, self._bytes, records = marshal.loads(body)
            for record in records:
                self._folders[record[0]] = Folder(*record)
            at += 8 + size
        return True


def save(root: str, store: str) -> None:
    """Save as a process that ends with it."""
    Promised(root, store).save()
    os._exit(0)


def _id(kind: str) -> str:
    return f"{kind}_{os.urandom(8).hex()}"


def _is_ignored(name: bytes) -> bool:
    return name in IGNORED or name.endswith(b".pyc")


def _differing(before: bytes, now: bytes, *, many: int) -> set[int]:
    """Return the places at which one of the words is another."""
    found = set()
    for start in range(0, len(now), many * WORD):
        end = start + many * WORD
        left = int.from_bytes(before[start:end], sys.byteorder) ^ int.from_bytes(
            now[start:end], sys.byteorder
        )
        while left:
            place = (left.bit_length() - 1) // 64
            found.add(place)
            left &= (1 << 64 * place) - 1
    return found


def _entry_header(kind: int, size: int) -> bytes:
    """Return how an entry of a pack begins: its kind, and its size."""
    header = [kind << 4 | size & 15]
    size >>= 4
    while size:
        header[-1] |= 0x80
        header.append(size & 0x7F)
        size >>= 7
    return bytes(header)


def _stored(content: bytes) -> bytes:
    """Return a content in zlib's format, as it is: of ids little can be spared."""
    size = len(content)
    head = b"x\x01\x01" + pack("<HH", size, size ^ MOST_STORED)
    return b"%b%b%b" % (head, content, pack(">I", zlib.adler32(content)))


def _lease(file: int) -> None:
    """Have nobody open a file for writing unseen; OSError if somebody has."""
    fcntl.fcntl(file, fcntl.F_SETSIG, SIGURG)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)


def _written(path: str, content: bytes) -> int:
    """Write a new file, and return it open."""
    file = os.open(path, NEW, 0o600)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
    return file


def _close(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)


def _sync(files: Sequence[int]) -> None:
    """Carry files or folders through to the disk, side by side."""
    ended = _syncing(files[1:], shares=SYNCED - 1) if files[1:] else None
    os.fsync(files[0])
    if ended is not None:
        ended()


def _syncing(files: Sequence[int], *, shares: int = SYNCED) -> Callable[[], None]:
    """Do so beside what follows, and return what waits for the end."""
    for file in files:
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)  # has its bytes go on their way
        except OSError:  # a folder
            break
    begun = [_beside(_sync_each, files[first::shares]) for first in range(min(shares, len(files)))]

    def wait() -> None:
        for ended in begun:
            ended()

    return wait


def _sync_each(files: Sequence[int]) -> None:
    for file in files:
        os.fsync(file)


class _Hand:
    """A thread that stays, and does one thing at a time beside whoever asks."""

    def __init__(self) -> None:
        self._begun = allocate_lock()
        self._begun.acquire()
        self._task: Task | None = None
        start_new_thread(self._run, ())

    def end(self) -> None:
        """End it, which has nothing to do."""
        self._task = None
        self._begun.release()

    def begin(self, work: Callable[[Sequence[int]], None], files: Sequence[int]) -> Callable[[], None]:
        """Begin something with files, and return what waits for its end, and raises its fault."""
        faults: list[OSError] = []
        ended = allocate_lock()
        ended.acquire()

        def wait() -> None:
            ended.acquire()
            for fault in faults:
                raise fault

        self._task = work, files, faults, ended
        self._begun.release()
        return wait

    def _run(self) -> None:
        while True:
            self._begun.acquire()
            if self._task is None:
                return
            work, files, faults, ended = self._task
            try:
                work(files)
            except OSError as error:
                faults.append(error)
            IDLE.append(self)
            ended.release()


IDLE: list[_Hand] = []


def end_idle() -> None:
    """End the threads that have nothing to do: beside them a process has its scans made elsewhere."""
    while IDLE:
        IDLE.pop().end()


def _beside(work: Callable[[Sequence[int]], None], files: Sequence[int]) -> Callable[[], None]:
    return (IDLE.pop() if IDLE else _Hand()).begin(work, files)
