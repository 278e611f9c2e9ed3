"""Looks at whole trees, and wrecks them the way that a bad day does."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

Picture = dict[bytes, tuple[str, int, str]]


def picture(root: Path) -> Picture:
    """Return what lies below a folder: kind, permissions, and a digest or link target, `.git` included."""
    seen: Picture = {}
    top = os.fsencode(root)
    for place, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            seen[os.path.relpath(path, top)] = portrait(path)
    return seen


def portrait(path: bytes) -> tuple[str, int, str]:
    """Return what one path is."""
    found = os.lstat(path)
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return "link", 0, os.fsdecode(os.readlink(path))
    if stat.S_ISDIR(found.st_mode):
        return "directory", mode, ""
    if stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:
            return "file", mode, sha256(file.read()).hexdigest()
    return "other", mode, ""


def wreck(root: Path, paths: Sequence[bytes], *, seed: int = 1) -> None:
    """Ruin a good part of some files in every way there is, and leave junk about."""
    chance = random.Random(seed)
    top = os.fsencode(root)
    ways = (_delete, _edit, _empty, _change_mode, _make_folder, _make_link, _swap)
    for path in sorted(paths):
        whole = os.path.join(top, path)
        if chance.random() < 0.3 and os.path.lexists(whole) and not _is_folder(whole):
            chance.choice(ways)(whole, chance)
    for number in range(5):
        deep = root / f"wreckage-{number}" / "deep"
        deep.mkdir(parents=True)
        (deep / "junk.txt").write_text("junk\n" * number)
        (root / f"wreckage-{number}.txt").write_text("junk\n")


def _is_folder(path: bytes) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _delete(path: bytes, _chance: random.Random) -> None:
    os.unlink(path)


def _edit(path: bytes, chance: random.Random) -> None:
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(chance.randbytes(chance.randint(1, 5_000)))


def _empty(path: bytes, _chance: random.Random) -> None:
    if not os.path.islink(path):
        os.truncate(path, 0)


def _change_mode(path: bytes, chance: random.Random) -> None:
    if not os.path.islink(path):
        os.chmod(path, chance.choice((0o600, 0o400, 0o755, 0o664)))


def _make_folder(path: bytes, _chance: random.Random) -> None:
    os.unlink(path)
    os.makedirs(path + b"/inner")
    with open(path + b"/inner/in the way", "wb") as file:
        file.write(b"in the way\n")


def _make_link(path: bytes, _chance: random.Random) -> None:
    os.unlink(path)
    os.symlink(b"/nonexistent/elsewhere", path)


def _swap(path: bytes, _chance: random.Random) -> None:
    """Put another version of the same size and time in its place, as only inode and ctime tell."""
    if os.path.islink(path):
        return
    before = os.lstat(path)
    with open(path, "rb") as file:
        content = file.read()
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(bytes(255 - byte for byte in content))
    os.chmod(path, stat.S_IMODE(before.st_mode))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
