"""What the workspace should be, told slowly: whole copies, and git itself for the ignore rules."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from faults.stage import Tree, contents_of, tree_of
from lastgood.workspace import Workspace

SETTINGS = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}


def ignored_by_git(root: Path, tree: Tree) -> set[bytes]:
    """Return the paths of a tree that is there which the rules of the workspace leave out."""
    if not tree:
        return set()
    answer = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=root,
        input=b"".join(path + b"\0" for path in sorted(tree)),
        capture_output=True,
        check=False,
        env=SETTINGS,
    )
    assert answer.returncode in {0, 1}, answer.stderr
    return {path for path in answer.stdout.split(b"\0") if path}


def ignored_by_rules_of(copy: Path, tree: Tree) -> set[bytes]:
    """Return the paths of a tree that the rules of an earlier state leave out.

    Git looks at the disk to tell directories from files: so the tree is laid out with those rules.
    """
    with TemporaryDirectory(dir=copy.parent) as name:
        scratch = Path(name)
        subprocess.run(["git", "init", "-q"], cwd=scratch, check=True, env=SETTINGS)
        for path, (_, content) in sorted(tree.items()):
            place = scratch / os.fsdecode(path)
            if content is None:
                place.mkdir(exist_ok=True)
            elif place.name != ".gitignore":
                place.touch()
        for rules in (*copy.rglob(".gitignore"), copy / ".git" / "info" / "exclude"):
            target = scratch / rules.relative_to(copy)
            if rules.is_file() and all(not above.is_file() for above in target.parents):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(rules.read_bytes())
        return ignored_by_git(scratch, tree)


def tracked(root: Path) -> set[bytes]:
    """Return what the index holds, with the directories above."""
    answer = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True, env=SETTINGS
    )
    found = {path for path in answer.stdout.split(b"\0") if path}
    return found | {above for path in found for above in _above(path)}


def _above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(1, len(parts))]


def without(tree: Tree, left_out: set[bytes]) -> Tree:
    """Return a tree without some paths and all below them."""
    return {
        path: node
        for path, node in tree.items()
        if path not in left_out and not any(above in left_out for above in _above(path))
    }


def git_state(root: Path) -> tuple[bytes, ...]:
    """Read what a verb of ours must never change in the project's repository."""
    kept = []
    for folder, folders, files in os.walk(os.fsencode(root) + b"/.git"):
        folders.sort()
        for name in sorted(files):
            path = folder + b"/" + name
            with open(path, "rb") as file:
                kept.append(path + b"\0" + file.read())
    return tuple(kept)


def kept_contents(workspace: Workspace, root: Path, wanted: set[bytes]) -> set[bytes]:
    """Return those contents that are in the workspace or in a listed checkpoint."""
    missing = wanted - contents_of(tree_of(root))
    for checkpoint in workspace.list():
        if not missing:
            break
        for entry in workspace.entries(checkpoint.id):
            if entry.kind == "file":
                missing.discard(workspace.read(checkpoint.id, entry.path))
    return wanted - missing
