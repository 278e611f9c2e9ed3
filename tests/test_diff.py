"""Patches are judged by git itself: applied to the old tree they give the new one."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.diff import Side, file_patch
from tools.values import not_none

MODES = (0o100644, 0o100755, 0o120000)
contents = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([b"one\n", b"two\n", b"three\r\n", b"\n", b"four"]), max_size=40).map(b"".join),
)
names = st.binary(min_size=1, max_size=12).filter(
    lambda name: (
        b"\0" not in name and b"/" not in name and name not in {b".", b".."} and b".git" not in name.lower()
    )
)


def _side(name: bytes, mode: int, content: bytes) -> Side:
    if mode == 0o120000:
        content = content.replace(b"\0", b"x") or b"x"
    oid = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return Side(path=name, mode=mode, oid=oid, content=content)


def _held(side: Side) -> bytes:
    return not_none(side.content)


sides = st.one_of(st.none(), st.tuples(st.sampled_from(MODES), contents))


def _write(folder: Path, side: Side | None) -> None:
    if side is None:
        return
    path = os.fsencode(folder) + b"/" + side.path
    if side.mode == 0o120000:
        os.symlink(_held(side), path)
        return
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, side.mode & 0o777)
    os.write(descriptor, _held(side))
    os.close(descriptor)


def _read(folder: Path, name: bytes) -> tuple[int, bytes] | None:
    path = os.fsencode(folder) + b"/" + name
    if os.path.islink(path):
        return 0o120000, os.readlink(path)
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        mode = 0o100755 if os.stat(path).st_mode & 0o100 else 0o100644
        return mode, file.read()


@settings(max_examples=150)
@given(name=names, before=sides, after=sides)
def test_git_apply_turns_the_old_tree_into_the_new(
    tmp_path_factory: object,
    name: bytes,
    before: tuple[int, bytes] | None,
    after: tuple[int, bytes] | None,
) -> None:
    folder = tmp_path_factory.mktemp("tree")  # type: ignore[attr-defined]
    old = None if before is None else _side(name, *before)
    new = None if after is None else _side(name, *after)
    _write(folder, old)

    made = file_patch(old, new)
    patch = made.patch

    assert made.binary == any(side is not None and b"\0" in _held(side) for side in (old, new) if old != new)
    if patch and old != new:
        done = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"],
            cwd=folder,
            input=patch,
            capture_output=True,
            check=False,
            env={
                "PATH": os.environ["PATH"],
                "GIT_CEILING_DIRECTORIES": "/",
                "GIT_CONFIG_GLOBAL": "/dev/null",
            },
        )
        if made.binary:
            # told, and passed over by whoever applies it: alone it is no patch
            assert patch.startswith(b"# ")
            assert patch.count(b"\n") == 1
            assert b"No valid patches" in done.stderr
            return
        assert done.returncode == 0, (patch, done.stderr)
    assert _read(folder, name) == (None if new is None else (new.mode, new.content))


def test_counts_say_how_many_lines_came_and_went() -> None:
    before, after = _side(b"f", MODES[0], b"a\nb\nc\n"), _side(b"f", MODES[0], b"a\nx\ny\nc\n")

    patch = file_patch(before, after)

    assert (patch.additions, patch.deletions, patch.binary) == (2, 1, False)


def test_huge_different_files_still_give_a_right_patch() -> None:
    before = _side(b"f", MODES[0], b"".join(b"a%d\n" % n for n in range(9000)))
    after = _side(b"f", MODES[0], b"".join(b"b%d\n" % n for n in range(9000)))

    patch = file_patch(before, after)

    assert (patch.additions, patch.deletions) == (9000, 9000)
