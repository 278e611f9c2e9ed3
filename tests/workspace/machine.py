"""A workspace under generated histories: people, agents and git change it, we save and restore it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import lastgood
from faults.cli import git
from faults.injector import Blow, Injector, Trial
from faults.stage import Tree, contents_of, differences, tree_of
from lastgood.errors import Conflict, NotFound
from workspace import oracle

MEMORY = Path("/dev/shm")
HOME = MEMORY if os.access(MEMORY, os.W_OK) else None

# One name can become a file or a directory; those of links never become anything else, for git does
# not judge what lies beyond a link.
PATHS = st.sampled_from(
    [
        "a",
        "b.txt",
        "c.log",
        "d",
        "d/a",
        "d/c.log",
        "e",
        "e/x",
        "e/f",
        "e/f/y.tmp",
        "\u00e9\n",
        "g/h/i",
        "sub/n",
    ]
)
FOLDERS = st.sampled_from(["d", "e", "e/f", "g", "g/h", "empty", "empty/er"])
LINKS = st.sampled_from(["l1", "d/l2", "g/l3"])
TARGETS = st.sampled_from(["a", "nowhere", "..", "/etc/passwd", "d"])
RULES = st.sampled_from(
    ["", "*.log\n", "*.tmp\n", "d/\n", "e/*\n!e/x\n", "*.log\n!c.log\n", "/e/f\n", "*\n!*/\n!a\n"]
)
RULE_FILES = st.sampled_from([".gitignore", ".gitignore", "d/.gitignore", ".git/info/exclude"])
MODES = st.sampled_from([0o644, 0o600, 0o755, 0o444])
PICK = st.integers(min_value=0, max_value=1000)


class Kept:
    """A checkpoint beside a whole copy of the workspace as it was, with the rules of then."""

    def __init__(self, id: str, *, tree: Tree, copy: Path) -> None:
        self.id = id
        self.tree = tree
        self.copy = copy


class History(RuleBasedStateMachine):
    """One workspace in one store; the oracle knows every earlier state byte by byte."""

    injector: Injector

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lastgood-model-", dir=HOME)).resolve()
        self.root = self.folder / "workspace"
        self.root.mkdir()
        git(self.root, "init", "-q")
        self.counter = 0
        self.kept: list[Kept] = []
        self.ignored_now: set[bytes] = set()
        self.workspace = self._open()

    def teardown(self) -> None:
        self.workspace.close()
        shutil.rmtree(self.folder)

    def _open(self) -> lastgood.Workspace:
        return lastgood.open(self.root, store=self.folder / "store", maintenance="off", allow_root=True)

    # What people, agents and git do.

    @rule(path=PATHS, again=st.booleans())
    def write(self, path: str, *, again: bool) -> None:
        self.counter += 0 if again else 1
        target = self._make_way(path)
        target.write_text(f"content {self.counter}\n" * 3)

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        self._clear(self.root / path)

    @rule(path=PATHS, mode=MODES)
    def chmod(self, path: str, mode: int) -> None:
        if (self.root / path).is_file():
            (self.root / path).chmod(mode)

    @rule(path=PATHS, to=PATHS)
    def rename(self, path: str, to: str) -> None:
        source = self.root / path
        if not source.is_file() or path == to or to.startswith(path + "/") or path.startswith(to + "/"):
            return
        source.rename(self._make_way(to))

    @rule(path=LINKS, to=TARGETS)
    def symlink(self, path: str, to: str) -> None:
        self._make_way(path).symlink_to(to)

    @rule(path=FOLDERS)
    def mkdir(self, path: str) -> None:
        place = self.root / path
        if not place.is_dir():
            self._make_way(path).mkdir()

    @rule()
    def init_nested(self) -> None:
        nested = self.root / "sub"
        if not (nested / ".git").exists():
            nested.mkdir(exist_ok=True)
            git(nested, "init", "-q")

    @rule(place=RULE_FILES, rules=RULES)
    def change_ignore_rules(self, place: str, rules: str) -> None:
        target = self.root / place if place.startswith(".git/") else self._make_way(place)
        target.write_text(rules)

    @rule(path=PATHS, force=st.booleans())
    def stage(self, path: str, *, force: bool) -> None:
        if (self.root / path).is_file() and not path.startswith("sub/"):
            self._git("add", *(["-f"] if force else []), "--", path)

    @rule()
    def commit(self) -> None:
        self._git("commit", "-qm", "a commit", "--allow-empty")

    @rule(name=st.sampled_from(["main", "one", "two"]))
    def switch_branch(self, name: str) -> None:
        self._git("checkout", "-q", "-B", name)

    @rule()
    def reset_hard(self) -> None:
        self._git("reset", "-q", "--hard")

    # What we do.

    @rule()
    def save(self) -> None:
        with self._git_untouched():
            saved = self.workspace.save("a state", allow_empty=True).checkpoint
        self._keep(saved.id)

    @rule()
    def save_automatically(self) -> None:
        with self._git_untouched():
            report = self.workspace.save("a turn", kind="turn")
        if report.created:
            self._keep(report.checkpoint.id)

    @precondition(lambda self: self.kept)
    @rule(pick=PICK)
    def restore(self, pick: int) -> None:
        kept = self._pick(pick)
        before = self._look()
        with self._git_untouched(), self._nothing_lost(before):
            report = self.workspace.restore(kept.id)
        assert not report.omissions or all(one.result == "skipped" for one in report.omissions)
        self._assert_restored(kept, before, {one.path for one in report.outcomes if one.result != "restored"})

    @precondition(lambda self: self.kept)
    @rule(pick=PICK, path=PATHS)
    def restore_path(self, pick: int, path: str) -> None:
        kept = self._pick(pick)
        before = self._look()
        name = os.fsencode(path)
        with self._git_untouched(), self._nothing_lost(before):
            try:
                self.workspace.restore(kept.id, paths=[path])
            except NotFound:
                return
        after = self._look()
        for other in before.keys() | after.keys():
            touches = other == name or other.startswith(name + b"/") or name.startswith(other + b"/")
            assert touches or before.get(other) == after.get(other), other

    @precondition(lambda self: self.kept)
    @rule(pick=PICK)
    def restore_aside(self, pick: int) -> None:
        kept = self._pick(pick)
        before = self._look()
        aside = self.folder / "aside"
        with self._git_untouched():
            self.workspace.restore(kept.id, to=aside)
        assert self._look() == before
        found = tree_of(aside)
        shutil.rmtree(aside)
        assert found == self._captured(kept), differences(found, self._captured(kept))

    @precondition(lambda self: self.kept)
    @rule(pick=PICK)
    def restore_undo_and_redo(self, pick: int) -> None:
        kept = self._pick(pick)
        before = self._look()
        with self._git_untouched():
            if self.workspace.restore(kept.id).operation is None:
                return
            after = self._look()
            self.workspace.undo()
            assert self._look() == before, differences(self._look(), before)
            self.workspace.redo()
            assert self._look() == after, differences(self._look(), after)

    @rule(force=st.booleans())
    def undo(self, *, force: bool) -> None:
        with self._git_untouched(), self._nothing_lost(self._look()), contextlib.suppress(Conflict, NotFound):
            self.workspace.undo(force=force)
        self._forget_deleted()

    @rule()
    def redo(self) -> None:
        with self._git_untouched(), self._nothing_lost(self._look()), contextlib.suppress(Conflict, NotFound):
            self.workspace.redo()
        self._forget_deleted()

    @precondition(lambda self: self.kept)
    @rule(pick=PICK)
    def delete_checkpoint(self, pick: int) -> None:
        before = self._look()
        self.workspace.delete(self._pick(pick).id)
        assert self._look() == before
        self._forget_deleted()

    @rule(at=st.integers(min_value=1, max_value=60))
    def kill_a_save(self, at: int) -> None:
        before = self._look()
        trial = self._killed("save", {}, at)
        assert self._look() == before
        said = trial.said("saved")
        assert trial.killed or said, trial.lines
        if said:
            self._keep(said)
        assert self.workspace.verify().damaged == ()

    @precondition(lambda self: self.kept)
    @rule(pick=PICK, at=st.integers(min_value=1, max_value=120), roll_back=st.booleans())
    def kill_a_restore(self, pick: int, at: int, *, roll_back: bool) -> None:
        kept = self._pick(pick)
        before = self._look()
        with self._git_untouched(), self._nothing_lost(before):
            trial = self._killed("restore", {"ref": kept.id}, at)
            interrupted = self.workspace.status().state == "interrupted"
            # Where nothing was interrupted there is nothing to take back, which recover refuses to have done.
            done = self.workspace.recover(roll_back=roll_back).done if interrupted or not roll_back else None
        if done is None and not trial.said("restored"):
            after = self._look()
            # It was over before it began, or after it ended but for the record of it.
            if after != before:
                self._assert_restored(kept, before, None)
        elif done == "rolled-back-restore":
            assert self._look() == before, differences(self._look(), before)
        else:
            self._assert_restored(kept, before, None)

    @rule()
    def reopen(self) -> None:
        self.workspace.close()
        self.workspace = self._open()

    @rule()
    def maintain(self) -> None:
        before = self._look()
        with self._git_untouched():
            self.workspace.maintain()
            assert self.workspace.verify().ok
        assert self._look() == before

    # How it is judged.

    def _look(self) -> Tree:
        return tree_of(self.root)

    def _pick(self, number: int) -> Kept:
        return self.kept[number % len(self.kept)]

    def _keep(self, id: str) -> None:
        if any(kept.id == id for kept in self.kept):
            return
        copy = self.folder / f"copy-{id}"
        shutil.copytree(self.root, copy, symlinks=True)
        kept = Kept(id, tree=self._look(), copy=copy)
        self.kept.append(kept)
        captured = self._captured(kept)
        ignored = oracle.ignored_by_git(copy, kept.tree)
        must = oracle.without(kept.tree, ignored - oracle.tracked(copy))
        missing = {path for path, node in must.items() if path not in captured and node[1] is not None}
        assert not missing, f"not captured: {missing}"
        for path, node in captured.items():
            assert kept.tree[path] == node, f"{path!r} is captured as {node}, and was {kept.tree[path]}"

    def _captured(self, kept: Kept) -> Tree:
        """Return what the checkpoint says that it holds."""
        found: Tree = {}
        for entry in self.workspace.entries(kept.id):
            if entry.kind == "link":
                found[entry.path] = (0, os.fsdecode(self.workspace.read(kept.id, os.fsdecode(entry.path))))
            elif entry.kind == "file":
                content = self.workspace.read(kept.id, os.fsdecode(entry.path))
                found[entry.path] = (entry.mode & 0o7777, content)
            else:
                found[entry.path] = (entry.mode & 0o7777, None)
        for path in list(found):
            for above in _above(path):
                found.setdefault(above, kept.tree[above])
        return found

    def _assert_restored(self, kept: Kept, before: Tree, excused: set[bytes] | None) -> None:
        after = self._look()
        target = self._captured(kept)
        ignored = self.ignored_now | oracle.ignored_by_rules_of(kept.copy, before)
        for path, node in target.items():
            if after.get(path) != node:
                blocked = _blocked(path, before, target, ignored)
                assert blocked or (excused is not None and path in excused), f"{path!r} is not restored"
        for path in after.keys() - target.keys():
            assert path in before, f"{path!r} came from nowhere"
            assert _held(path, after, ignored), f"{path!r} should have been removed"
        for path in before.keys() - after.keys():
            assert path not in ignored or path in target, f"{path!r} was ignored, and is gone"

    @contextlib.contextmanager
    def _nothing_lost(self, before: Tree) -> Iterator[None]:
        self.ignored_now = oracle.ignored_by_git(self.root, before)
        yield
        wanted = contents_of(before)
        lost = wanted - oracle.kept_contents(self.workspace, self.root, wanted)
        assert not lost, f"lost: {lost}"

    @contextlib.contextmanager
    def _git_untouched(self) -> Iterator[None]:
        before = oracle.git_state(self.root)
        yield
        assert oracle.git_state(self.root) == before, "the project's git was changed"

    def _forget_deleted(self) -> None:
        listed = {one.id for one in self.workspace.list()}
        self.kept = [kept for kept in self.kept if kept.id in listed]

    def _killed(self, verb: str, order: dict[str, object], at: int) -> Trial:
        order |= {"workspace": str(self.root), "store": str(self.folder / "store")}
        return self.injector.run(verb, order, roots=(self.root, self.folder / "store"), blow=Blow(at))

    def _git(self, *arguments: str) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):  # git may refuse; that is its right
            git(self.root, *arguments)

    def _make_way(self, path: str) -> Path:
        """Turn what lies above a path into directories, and take away what is at it."""
        place = self.root
        for name in path.split("/")[:-1]:
            place /= name
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                place.unlink()
            place.mkdir(exist_ok=True)
        self._clear(self.root / path)
        return self.root / path

    def _clear(self, place: Path) -> None:
        if place.is_symlink() or place.is_file():
            place.unlink()
        elif place.is_dir():
            shutil.rmtree(place)


def _above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(1, len(parts))]


def _held(path: bytes, tree: Tree, ignored: set[bytes]) -> bool:
    """Tell whether a path that the target does not have stays rightly: for itself or for what is below."""
    if path in ignored:
        return True
    below = [other for other in tree if other.startswith(path + b"/")]
    return any(other in ignored for other in below) or path == b"sub"


def _blocked(path: bytes, before: Tree, target: Tree, ignored: set[bytes]) -> bool:
    """Tell whether something that has to stay is in the way: at the path, below it, or above it."""
    places = [path, *_above(path)]
    for place in places:
        if place in before and _kind(before[place]) != _kind(target.get(place)):
            return any(
                other in ignored for other in before if other == place or other.startswith(place + b"/")
            )
    return False


def _kind(node: tuple[int, bytes | str | None] | None) -> str:
    return "nothing" if node is None else type(node[1]).__name__
