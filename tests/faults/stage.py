"""A workspace and a store, prepared once and put back to the same place before every trial."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# What a path is: a mode with a file's bytes, a link's target, or None for a directory.
Tree = dict[bytes, tuple[int, bytes | str | None]]


def tree_of(root: Path, *, without: tuple[bytes, ...] = (b".git",)) -> Tree:
    """Read everything below a folder, but what bears one of some names."""
    found: Tree = {}
    _read(os.fsencode(root), b"", without, found)
    return found


def _read(directory: bytes, prefix: bytes, without: tuple[bytes, ...], found: Tree) -> None:
    with os.scandir(directory) as names:
        entries = sorted(names, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name in without:
            continue
        path = prefix + entry.name
        status = entry.stat(follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode)
        if entry.is_symlink():
            found[path] = (0, os.fsdecode(os.readlink(entry.path)))
        elif entry.is_dir():
            found[path] = (mode, None)
            _read(entry.path, path + b"/", without, found)
        elif stat.S_ISREG(status.st_mode):
            with open(entry.path, "rb") as file:
                found[path] = (mode, file.read())


def contents_of(tree: Tree) -> set[bytes]:
    """Return every file content of a tree."""
    return {content for _, content in tree.values() if isinstance(content, bytes)}


def differences(left: Tree, right: Tree) -> str:
    """Say how two trees differ, in a form short enough for a failure message."""
    lines = [
        f"{path!r}: {_brief(left.get(path))} != {_brief(right.get(path))}"
        for path in sorted(left.keys() | right.keys())
        if left.get(path) != right.get(path)
    ]
    return "\n".join(lines[:20])


def _brief(node: tuple[int, bytes | str | None] | None) -> str:
    return "absent" if node is None else f"{node[0]:o} {str(node[1])[:40]}"


@dataclass(frozen=True)
class Stage:
    """``workspace`` and ``store`` are the places that verbs see; ``template`` is what they begin as."""

    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "live" / "workspace"

    @property
    def store(self) -> Path:
        return self.folder / "live" / "store"

    @property
    def template(self) -> Path:
        return self.folder / "template"

    @property
    def roots(self) -> tuple[Path, Path]:
        return (self.workspace, self.store)

    def prepare(self, build: Callable[[Stage], None], *, once: bool = False) -> None:
        """Let a function build workspace and store in their live place, and keep that as template.

        What takes long is built ``once``, and copied for the other tests of the file.
        """
        built = self.folder.with_name(f"{self.folder.name}-{build.__name__}")
        _remove(self.folder)
        if once and built.exists():
            self.folder.mkdir()
            copy(built, self.template)
            self.reset()
            return
        self.workspace.mkdir(parents=True)
        build(self)
        self.keep()
        if once:
            copy(self.template, built)

    def keep(self, name: str = "template") -> None:
        """Keep the present state under a name."""
        _remove(self.folder / name)
        copy(self.folder / "live", self.folder / name)

    def reset(self, name: str = "template") -> None:
        """Put a kept state back."""
        _remove(self.folder / "live")
        copy(self.folder / name, self.folder / "live")

    def tree(self) -> Tree:
        """Read the workspace as it is now."""
        return tree_of(self.workspace)


def _remove(folder: Path) -> None:
    try:
        _remove_all(os.fsencode(folder))
    except FileNotFoundError:
        return
    except OSError:  # something is still at work there
        shutil.rmtree(folder, ignore_errors=True)


def _remove_all(place: bytes) -> None:
    os.chmod(place, 0o700)
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _remove_all(entry.path)
            else:
                os.unlink(entry.path)
    os.rmdir(place)


def copy(source: Path, target: Path) -> None:
    """Copy a folder with its modes and times: what `shutil.copytree` does, in a third of the time."""
    _copy_all(os.fsencode(source), os.fsencode(target))


def _copy_all(source: bytes, target: bytes) -> None:
    os.mkdir(target)
    with os.scandir(source) as entries:
        for entry in entries:
            to = target + b"/" + entry.name
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), to)
            elif entry.is_dir():
                _copy_all(entry.path, to)
            else:
                _copy_file(entry.path, to)
    status = os.stat(source)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_file(source: bytes, target: bytes) -> None:
    reader = os.open(source, os.O_RDONLY)
    writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    status = os.fstat(reader)
    while os.sendfile(writer, reader, None, status.st_size or 1):
        pass
    os.fchmod(writer, stat.S_IMODE(status.st_mode))
    os.utime(writer, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.close(reader)
    os.close(writer)


def fill(root: Path) -> None:
    """Write the first state: every kind of entry that a checkpoint holds, and some that it leaves out."""
    _write(root / "README.md", "# first\n")
    _write(root / "src" / "app.py", "print('first')\n")
    _write(root / "src" / "deep" / "er" / "same.py", "the same in all states\n")
    _write(root / "run.sh", "#!/bin/sh\necho first\n", mode=0o755)
    _write(root / "key.pem", "first key\n", mode=0o600)
    _write(root / "to-directory", "a file that becomes a directory\n")
    _write(root / "to-file" / "inside", "a directory that becomes a file\n")
    _write(root / "leaves", "a file that goes away\n")
    _write(root / ".gitignore", "*.log\nout/\n")
    _write(root / "debug.log", "ignored, first\n")
    (root / "empty").mkdir()
    (root / "link").symlink_to("src/app.py")
    os.mkdir(os.fsencode(root) + b"/\xff\xfe name\n")
    _write_bytes(os.fsencode(root) + b"/\xff\xfe name\n/in it", b"odd name, first\n")


def alter(root: Path) -> None:
    """Turn the first state into the second: additions, edits, deletions, modes and kinds."""
    _write(root / "README.md", "# second\n")
    _write(root / "src" / "app.py", "print('second')\n" * 50)
    _write(root / "src" / "new.py", "print('new')\n")
    _write(root / "added" / "one", "1\n")
    _write(root / "added" / "deep" / "two", "2\n")
    (root / "run.sh").chmod(0o644)
    (root / "to-directory").unlink()
    _write(root / "to-directory" / "inside", "now a directory\n")
    shutil.rmtree(root / "to-file")
    _write(root / "to-file", "now a file\n")
    (root / "leaves").unlink()
    (root / "empty").rmdir()
    (root / "link").unlink()
    (root / "link").symlink_to("README.md")


def edit(root: Path) -> None:
    """Make the unsaved work of a person on top of the second state."""
    _write(root / "README.md", "# unsaved words of a person\n")
    _write(root / "notes.txt", "unsaved notes\n")
    _write(root / "src" / "deep" / "er" / "more.py", "unsaved module\n")
    _write(root / "debug.log", "ignored, unsaved\n")
    (root / "key.pem").chmod(0o640)


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _write_bytes(path: bytes, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
