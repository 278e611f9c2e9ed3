"""What is captured, entry by entry (rules S2, S3, S4, S7, S12)."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.errors import NotFound, Storage, Unsafe
from lastgood.paths import is_git_alias
from tools.desk import Desk
from tools.forks import be_nobody, ended, forked
from tools.values import not_none


def test_files_links_and_empty_directories_come_out_as_they_are(desk: Desk) -> None:
    """S3."""
    os.chmod(desk.write("a/run.sh", "#!/bin/sh\r\n"), 0o4751)
    os.symlink("../nowhere\n", desk.root / "a" / "link")
    os.symlink("/", desk.root / "outside")
    (desk.root / "empty").mkdir(mode=0o700)
    held = desk.held(desk.save())
    assert held == {
        b"a": ("directory", os.lstat(desk.root / "a").st_mode & 0o7777, b""),
        b"a/run.sh": ("file", 0o4751, b"#!/bin/sh\r\n"),
        b"a/link": ("link", 0, b"../nowhere\n"),
        b"outside": ("link", 0, b"/"),
        b"empty": ("directory", 0o700, b""),
    }


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", b"new\nline", b" ", b"-x", "é".encode(), b"e\xcc\x81", b"*?[", b"a" * 255]
)
def test_names_of_any_bytes_are_kept(desk: Desk, name: bytes) -> None:
    """S3."""
    desk.write(name, name)
    first = desk.save()
    assert desk.held(first) == {name: ("file", 0o644, name)}
    assert desk.scan().result.tree == first.result.tree


def test_pipes_sockets_and_devices_are_gaps_and_never_opened(desk: Desk) -> None:
    """S7."""
    os.mkfifo(desk.root / "pipe")
    os.mknod(desk.root / "plug", stat.S_IFSOCK | 0o600)  # none is bound by a path of any length
    scan = desk.save()
    assert desk.gaps(scan) == {"pipe": "unsupported", "plug": "unsupported"}
    assert desk.names(scan) == set()
    assert set(scan.left_out(b"")) == {b"pipe", b"plug"}


@pytest.mark.parametrize("name", [".GIT", "git~1", ".git ", ".git.", ".git::$INDEX_ALLOCATION", ".g\u200cit"])
def test_aliases_of_dot_git_are_gaps(desk: Desk, name: str) -> None:
    """S3, T12."""
    desk.write(f"{name}/hooks/x")
    desk.write(f"sub/{name}")
    scan = desk.save()
    assert desk.gaps(scan) == {name: "unsupported", f"sub/{name}": "unsupported"}
    assert desk.names(scan) == {"sub"}


def test_a_nested_repository_is_plain_files_without_its_dot_git(desk: Desk, git: Callable[..., str]) -> None:
    """S4."""
    inner = desk.root / "lib" / "inner"
    desk.write("lib/inner/a")
    git(inner, "init", "-q")
    git(inner, "add", "a")
    git(inner, "commit", "-qm", "x")
    head = git(inner, "rev-parse", "HEAD").strip()
    for scan in (desk.save(), desk.save()):
        assert desk.names(scan) == {"lib", "lib/inner", "lib/inner/a"}
        assert scan.result.git is not None
        assert scan.result.git.head is None
        assert [(one.path, one.head) for one in scan.result.git.nested] == [(b"lib/inner", head)]
        assert list(scan.left_out(b"lib/inner")) == [b".git"]
    git(inner, "commit", "-qm", "y", "--allow-empty")
    moved = not_none(desk.scan().result.git)
    assert moved.nested[0].head != head


def test_a_dot_git_file_is_never_captured(desk: Desk) -> None:
    """S4."""
    desk.write("sub/.git", "gitdir: /nowhere\n")
    desk.write("sub/a")
    scan = desk.save()
    assert desk.names(scan) == {"sub", "sub/a"}
    assert scan.result.ignored == 0


def test_no_repository_means_no_git_state(desk: Desk) -> None:
    desk.write("a")
    assert desk.save().result.git is None


def test_a_file_over_the_cap_is_a_gap_unless_forced(desk: Desk) -> None:
    """S7, T2."""
    desk.write("big", b"x" * 2000)
    desk.write("small", b"x" * 1000)
    scan = desk.save(max_file_size=1000)
    assert desk.names(scan) == {"small"}
    assert [(gap.path, gap.reason, gap.size) for gap in scan.result.gaps] == [(b"big", "too-large", 2000)]
    forced = desk.save(max_file_size=1000, forced=(b"big",))
    assert desk.names(forced) == {"small", "big"}
    assert desk.names(desk.save(max_file_size=1000)) == {"small"}


def test_another_cap_counts_at_once(desk: Desk) -> None:
    """S7."""
    desk.write("big", b"x" * 2000)
    assert desk.names(desk.save()) == {"big"}
    assert desk.gaps(desk.save(max_file_size=1000)) == {"big": "too-large"}
    assert desk.names(desk.save()) == {"big"}


def test_a_forced_file_over_the_whole_limit_is_streamed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lastgood.scanner.read.WHOLE_BYTES", 1000)
    desk.write("big", bytes(range(256)) * 40)
    assert desk.held(desk.save())[b"big"][2] == bytes(range(256)) * 40


def test_the_store_is_never_captured(desk: Desk) -> None:
    inside = desk.root / "keep" / "store"
    desk.write("keep/store/objects")
    desk.write("keep/other")
    scan = desk.save(store=os.fsencode(inside))
    assert desk.names(scan) == {"keep", "keep/other"}


def test_a_root_that_is_gone_is_not_found(desk: Desk) -> None:
    desk.root.rmdir()
    with pytest.raises(NotFound):
        desk.scan()


def test_a_root_that_is_a_file_is_unsafe(desk: Desk) -> None:
    desk.root.rmdir()
    desk.root.write_text("")
    with pytest.raises(Unsafe):
        desk.scan()


def test_hard_links_become_separate_files(desk: Desk) -> None:
    """S3."""
    os.link(desk.write("a", "one"), desk.root / "b")
    assert desk.held(desk.save()) == {b"a": ("file", 0o644, b"one"), b"b": ("file", 0o644, b"one")}


def test_very_deep_directories_are_walked(desk: Desk) -> None:
    here = os.open(desk.root, os.O_RDONLY)
    for _ in range(800):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert desk.save().result.files == 1
    assert desk.save().result.files == 1
    subprocess.run(["rm", "-rf", str(desk.root)], check=True)


def test_what_another_user_may_not_read_is_a_gap(desk: Desk) -> None:
    """S7."""
    desk.write("secret")
    desk.write("locked/inside")
    desk.write("listed/inside")
    desk.write("plain")
    (desk.root / "secret").chmod(0)
    (desk.root / "locked").chmod(0)
    (desk.root / "listed").chmod(0o444)
    for folder in (desk.root, desk.cache, desk.store):
        os.chown(folder, 65534, 65534)
    for parent in desk.root.parents:
        if os.stat(parent).st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)

    def scan() -> None:
        be_nobody()
        scan = desk.save()
        assert desk.gaps(scan) == dict.fromkeys(("listed/inside", "locked", "secret"), "unreadable")
        assert desk.names(scan) == {"listed", "plain"}

    assert ended(forked(scan)) == 0


_NAMES = st.binary(min_size=1, max_size=6).filter(
    lambda name: (
        b"/" not in name and b"\0" not in name and name not in {b".", b".."} and not is_git_alias(name)
    )
)

_TREES = st.recursive(
    st.one_of(
        st.tuples(st.just("file"), st.sampled_from([0o644, 0o755, 0o600, 0o2775]), st.binary(max_size=20)),
        st.tuples(
            st.just("link"), st.just(0), st.binary(min_size=1, max_size=9).filter(lambda b: b"\0" not in b)
        ),
    ),
    lambda inner: st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


def _plant(path: bytes, tree: object) -> None:
    if isinstance(tree, dict):
        os.mkdir(path)
        for name, below in tree.items():
            _plant(path + b"/" + name, below)
        return
    assert isinstance(tree, tuple)
    kind, mode, content = tree
    if kind == "link":
        os.symlink(content, path)
        return
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)


def _oracle(root: bytes) -> dict[bytes, tuple[str, int, bytes]]:
    found = {}
    for folder, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode & 0o7777
            key = os.path.relpath(path, root)
            if os.path.islink(path):
                found[key] = ("link", 0, os.readlink(path))
            elif os.path.isdir(path):
                found[key] = ("directory", mode, b"")
            else:
                with open(path, "rb") as file:
                    found[key] = ("file", mode, file.read())
    return found


@settings(max_examples=60)
@given(first=st.dictionaries(_NAMES, _TREES, max_size=5), second=st.dictionaries(_NAMES, _TREES, max_size=5))
def test_any_tree_is_held_as_a_plain_walk_finds_it(
    desk: Desk, first: dict[bytes, object], second: dict[bytes, object]
) -> None:
    """S3."""
    root = os.fsencode(desk.root)
    desk.forget()
    desk.previous = None
    for tree in (first, second):
        subprocess.run([b"rm", b"-rf", root], check=True)
        _plant(root, tree)
        scan = desk.save(built_in=())
        assert desk.held(scan) == _oracle(root)
        again = desk.scan(built_in=())
        assert again.result == scan.result
        assert desk.held(again) == _oracle(root)


def test_a_save_changes_nothing_in_the_workspace(desk: Desk, git: Callable[..., str]) -> None:
    """S12: neither contents nor times, those of reading included."""
    desk.write("a/b/c", "x")
    desk.write(".gitignore", "*.o\n")
    os.symlink("a", desk.root / "link")
    git(desk.root, "init", "-q")
    git(desk.root, "add", ".")
    git(desk.root, "config", "core.fsmonitor", "touch fsmonitor-was-here")

    def seen() -> dict[str, tuple[int, ...]]:
        paths = [desk.root, *desk.root.rglob("*")]
        stats = {str(path): os.lstat(path) for path in paths if ".git/" not in f"{path}/"}
        return {
            path: (one.st_mode, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns)
            + ((one.st_atime_ns,) if not os.path.isdir(path) and not os.path.islink(path) else ())
            for path, one in stats.items()
        }

    for path in desk.root.rglob("*"):  # so that an ordinary reading would move the access time
        os.utime(path, ns=(1, 10**18), follow_symlinks=False)
    before = seen()
    desk.save()
    desk.save()
    assert seen() == before
    assert not (desk.root / "fsmonitor-was-here").exists()


def test_links_to_directories_are_not_followed(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("x")
    os.symlink(tmp_path / "elsewhere", desk.root / "way")
    assert desk.names(desk.save()) == {"way"}


def test_a_workspace_that_cannot_be_listed_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """S14."""

    def failing(_place: object) -> list[str]:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "listdir", failing)
    with pytest.raises(Storage, match="cannot be listed: Input/output error"):
        desk.scan()


# What a restore left under a name of its own is no file of anybody's while that is known (rule T12b).


OPERATION = "op_0123456789abcdef"

OURS = (f".lastgood-{OPERATION}-1", f".lastgood-{OPERATION}-22.old")

OTHERS = (
    f".lastgood-{OPERATION}-1.old.bak",
    f".lastgood-{OPERATION}-",
    f".lastgood-{OPERATION}-x",
    ".lastgood-op_fedcba9876543210-1",
    ".lastgood",
)


def test_just_the_names_of_the_restores_that_left_some_are_left_out(desk: Desk) -> None:
    for name in (*OURS, *OTHERS):
        desk.write(f"sub/{name}")
    desk.write(f"sub/.lastgood-{OPERATION}-3.aside/inside")

    scan = desk.scan(left_by=(OPERATION,))

    assert desk.names(scan) == {"sub", *(f"sub/{name}" for name in OTHERS)}
    assert set(scan.left_out(b"sub")) == {
        *(name.encode() for name in OURS),
        f".lastgood-{OPERATION}-3.aside".encode(),
    }


@pytest.mark.parametrize("forced", [(), (f"sub/{OURS[0]}".encode(), b"sub")])
def test_what_is_forced_holds_no_such_name_either(desk: Desk, forced: tuple[bytes, ...]) -> None:
    desk.write(f"sub/{OURS[0]}")
    desk.write("sub/file")
    assert desk.names(desk.scan(left_by=(OPERATION,), forced=forced)) == {"sub", "sub/file"}


def test_a_scan_cache_proves_nothing_about_such_names_when_that_changes(desk: Desk) -> None:
    """K6: the directory itself is as it was."""
    desk.write(f"sub/{OURS[0]}")
    desk.write("sub/file")
    time.sleep(0.06)  # so that the cache proves what it holds
    few, all_of_them = {"sub", "sub/file"}, {"sub", "sub/file", f"sub/{OURS[0]}"}
    for left_by, names in (((OPERATION,), few), ((), all_of_them), ((OPERATION,), few)):
        assert desk.names(desk.save(left_by=left_by)) == names
        assert desk.names(desk.save(left_by=left_by)) == names
