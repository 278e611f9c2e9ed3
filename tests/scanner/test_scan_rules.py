"""What is ignored, and what is captured all the same (rules S5, S6)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.scanner import cache, parallel
from lastgood.settings import CaptureSettings
from lastgood.testing.clock import FakeClock
from tools.desk import Desk


def test_ignored_entries_are_left_out_and_counted_a_directory_as_one(desk: Desk) -> None:
    """S5."""
    desk.write(".gitignore", "*.log\n/build/\n")
    desk.write("sub/.lastgoodignore", "x*\n")
    for name in ("a.log", "a.py", "build/one", "build/two", "sub/x1", "sub/a", "sub/build/kept"):
        desk.write(name)
    for scan in (desk.save(), desk.save()):
        assert desk.names(scan) == {
            ".gitignore",
            "a.py",
            "sub",
            "sub/.lastgoodignore",
            "sub/a",
            "sub/build",
            "sub/build/kept",
        }
        assert scan.result.ignored == 3
        assert sorted(scan.left_out(b"")) == [b"a.log", b"build"]


def test_built_in_excludes_hold_unless_switched_off(desk: Desk) -> None:
    """S6."""
    desk.write("node_modules/a/b")
    desk.write("src/__pycache__/x.pyc")
    assert desk.names(desk.save()) == {"src"}
    names = desk.names(desk.save(built_in=("__pycache__",)))
    assert names == {"src", "node_modules", "node_modules/a", "node_modules/a/b"}


def test_ignore_files_in_force_are_captured_though_ignored(desk: Desk) -> None:
    """S5."""
    desk.write(".gitignore", ".*\n*\n")
    desk.write(".lastgoodignore", "")
    desk.write("a")
    scan = desk.save()
    assert desk.names(scan) == {".gitignore", ".lastgoodignore"}
    assert scan.result.private == ()


def test_a_rule_that_comes_or_goes_counts_at_the_next_scan(desk: Desk) -> None:
    """S5."""
    desk.write("deep/down/a.log")
    desk.write("b")
    desk.save()
    desk.previous = None  # else what was held would stay
    desk.write(".gitignore", "*.log\n")
    assert desk.names(desk.save()) == {".gitignore", "b", "deep", "deep/down"}
    desk.write(".gitignore", "b\n")
    desk.previous = None
    assert desk.names(desk.save()) == {".gitignore", "deep", "deep/down", "deep/down/a.log"}


def test_what_the_previous_checkpoint_held_stays_captured_though_ignored_now(desk: Desk) -> None:
    """S5."""
    desk.write("keep/a.log")
    desk.write("keep/below/b.txt")
    desk.save()
    desk.write(".gitignore", "*.log\nkeep/\n")
    desk.write("keep/new.log")
    desk.write("keep/below/new.txt")
    for scan in (desk.save(), desk.save(), desk.save()):
        assert desk.names(scan) == {".gitignore", "keep", "keep/a.log", "keep/below", "keep/below/b.txt"}
        assert scan.result.ignored == 2
    desk.forget()
    assert desk.names(desk.save()) == {".gitignore", "keep", "keep/a.log", "keep/below", "keep/below/b.txt"}


def test_the_previous_checkpoint_counts_not_the_last_scan(desk: Desk) -> None:
    """S5."""
    desk.write(".gitignore", "*.log\n")
    with_log = desk.save(built_in=())
    desk.write("a.log")
    os.unlink(desk.root / ".gitignore")
    held = desk.save()
    desk.write(".gitignore", "*.log\n")
    assert "a.log" in desk.names(desk.save())
    desk.previous = with_log.result.tree
    assert "a.log" not in desk.names(desk.save())
    desk.previous = held.result.tree
    assert "a.log" in desk.names(desk.save())


def test_what_the_index_holds_stays_captured_though_ignored(desk: Desk, git: Callable[..., str]) -> None:
    """S5."""
    desk.write(".gitignore", "*.log\nvendor/\n")
    for name in ("a.log", "b.log", "vendor/lib/a", "vendor/lib/b", "vendor/other/c"):
        desk.write(name)
    git(desk.root, "init", "-q")
    git(desk.root, "add", ".gitignore")
    assert desk.names(desk.save()) == {".gitignore"}
    git(desk.root, "add", "-f", "a.log", "vendor/lib/a")
    for scan in (desk.save(), desk.save()):
        assert desk.names(scan) == {".gitignore", "a.log", "vendor", "vendor/lib", "vendor/lib/a"}
        assert scan.result.ignored == 3
        assert scan.result.private == ()
    desk.previous = None
    git(desk.root, "rm", "-q", "--cached", "a.log")
    assert "a.log" not in desk.names(desk.save())


@pytest.mark.parametrize("index", [b"", b"DIRC" + bytes(40), b"DIRC\0\0\0\x09" + bytes(40)])
def test_an_index_that_cannot_be_read_may_hold_what_the_project_ignores(
    desk: Desk, git: Callable[..., str], index: bytes
) -> None:
    """S5, S6: it keeps more, not less; what we leave out on our own stays left out."""
    desk.write(".gitignore", "*.log\nvendor/\nnode_modules\n")
    for name in ("a.log", "vendor/lib/a", "vendor/__pycache__/b.pyc", "node_modules/c", "tmp/big"):
        desk.write(name)
    git(desk.root, "init", "-q")
    git(desk.root, "add", ".gitignore")
    (desk.root / ".git" / "index").write_bytes(index)
    for scan in (desk.save(exclude=("tmp",)), desk.save(exclude=("tmp",))):
        assert desk.names(scan) == {".gitignore", "a.log", "vendor", "vendor/lib", "vendor/lib/a"}
        assert scan.result.private == (b"a.log", b"vendor/lib/a")


def test_included_patterns_are_captured_though_ignored_and_are_private(desk: Desk) -> None:
    """S5."""
    desk.write(".gitignore", ".env\nbuild/\n")
    desk.write(".env", "secret")
    desk.write("sub/.env", "secret")
    desk.write("build/local.db")
    desk.write("build/x/y")
    desk.write("plain")
    wanted = (".env", "/build/local.db")
    for scan in (desk.save(include=wanted), desk.save(include=wanted)):
        names = desk.names(scan)
        assert names == {".gitignore", ".env", "sub", "sub/.env", "build", "build/local.db", "plain"}
        assert scan.result.private == (b".env", b"build/local.db", b"sub/.env")
    desk.previous = None
    assert desk.names(desk.save(built_in_includes=())) == {".gitignore", "sub", "plain"}


def test_an_opened_directory_in_which_nothing_is_included_counts_as_one(desk: Desk) -> None:
    """S5."""
    desk.write(".gitignore", "build/\n")
    desk.write("build/a/b/c")
    desk.write("build/d")
    wanted = ("build/**/local.db",)
    for _ in range(2):
        scan = desk.save(include=wanted)
        assert (desk.names(scan), scan.result.ignored) == ({".gitignore"}, 1)
        assert scan.directory(b"build") is None
    desk.write("build/a/b/local.db")
    for _ in range(2):
        scan = desk.save(include=wanted)
        assert desk.names(scan) == {".gitignore", "build", "build/a", "build/a/b", "build/a/b/local.db"}
        assert scan.result.ignored == 2
        assert [entry.name for entry in scan.directory(b"build/a/b") or ()] == [b"local.db"]


def test_what_is_forced_is_captured_whatever_the_rules_say(desk: Desk) -> None:
    """T2."""
    desk.write(".gitignore", "*.log\nbuild/\n")
    for name in ("a.log", "b.log", "build/x/y", "build/z", "build/x/.git/config"):
        desk.write(name)
    scan = desk.scan(forced=(b"a.log", b"build/x"))
    assert desk.names(scan) == {".gitignore", "a.log", "build", "build/x", "build/x/y"}
    assert scan.result.private == (b"a.log", b"build/x/y")
    assert desk.names(desk.save()) == {".gitignore"}


def test_the_same_holds_with_a_cache(desk: Desk) -> None:
    """T2."""
    desk.write(".gitignore", "build/\n")
    desk.write("build/x/y")
    desk.save()
    desk.save()
    scan = desk.save(forced=(b"build",))
    assert "build/x/y" in desk.names(scan)


def test_a_twin_leaves_out_nothing_that_is_forced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """T2: a directory that looks as it did is looked at all the same if something in it is forced."""
    monkeypatch.setattr(cache, "WORTHWHILE_FILES", 10)
    monkeypatch.setattr(parallel, "RESIDENT_BYTES_A_FILE", 1 << 40)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    desk.write(".gitignore", "*.log\nbuild/\n")
    inside = [f"d{outer}/e{inner}" for outer in range(6) for inner in range(4)]
    for place in inside:
        for name in ("kept", "a.log", "build/x/y"):
            desk.write(f"{place}/{name}")
    desk.save()
    time.sleep(0.06)
    desk.save()
    forced = tuple(f"{place}/{name}".encode() for place in inside for name in ("a.log", "build/x"))
    forks: list[int] = []
    fork = os.fork

    def counted() -> int:
        forks.append(child := fork())
        return child

    monkeypatch.setattr(os, "fork", counted)
    scan = desk.scan(forced=forced)
    assert len(forks) == 1
    assert {f"{place}/{name}" for place in inside for name in ("a.log", "build/x/y")} <= desk.names(scan)
    desk.forget()
    monkeypatch.setattr(os, "fork", None)
    assert desk.scan(forced=forced).result == scan.result


@pytest.mark.parametrize("by_then", [b"# nothing\n", None])
def test_rules_that_change_while_a_scan_reads_them_are_read_again_by_the_next(
    tmp_path: Path, by_then: bytes | None
) -> None:
    """S5, S8: they are read first, and the file that holds them is captured as it is in the end."""
    desk = Desk(tmp_path)
    desk.write("sub/a.log")
    rules = Path(os.fsdecode(desk.write("sub/.gitignore", "*.log\n")))
    clock = FakeClock(start=rules.stat().st_ctime_ns + 1_000_000)
    desk.clock, desk.exact_on = clock, lambda _root: None

    def meanwhile(seconds: float) -> None:
        clock.advance(seconds + 10)
        rules.unlink(missing_ok=True) if by_then is None else rules.write_bytes(by_then)

    desk.sleep = meanwhile
    assert "sub/a.log" not in desk.names(desk.save())
    for _ in range(2):
        desk.sleep = clock.advance
        assert "sub/a.log" in desk.names(desk.save())


@pytest.mark.parametrize("directory", ["", "sub/"])
def test_unreadable_rules_ignore_nothing_and_say_so(desk: Desk, directory: str) -> None:
    """S5."""
    desk.write(f"{directory}.gitignore", b"*.log\n" + b"#" * 3000)
    desk.write(f"{directory}a.log")
    desk.write(f"{directory}below/a.log")
    desk.write("other/a.log")
    for scan in (desk.save(max_file_size=2000), desk.save(max_file_size=2000)):
        assert {f"{directory}a.log", f"{directory}below/a.log"} <= desk.names(scan)
        assert not scan.result.ignore.readable
        assert scan.ignored(f"{directory}x.log".encode(), directory=False) is None
        assert scan.ignored(f"{directory}below/x".encode(), directory=False) is None
    if directory:
        assert scan.ignored(b"other/x", directory=False) is False


def test_an_ignore_file_that_is_a_link_is_none(desk: Desk) -> None:
    """S5: as in git."""
    desk.write("rules", "*.log\n")
    desk.write("a.log")
    os.symlink("rules", desk.root / ".gitignore")
    assert desk.names(desk.save()) == {"rules", "a.log", ".gitignore"}


def test_the_repositorys_own_excludes_count(desk: Desk, git: Callable[..., str]) -> None:
    """S5."""
    git(desk.root, "init", "-q")
    desk.write("a.tmp")
    desk.write("b")
    desk.save()
    desk.previous = None
    desk.write(".git/info/exclude", "*.tmp\n")
    scan = desk.save()
    assert desk.names(scan) == {"b"}
    assert scan.result.ignore.info_exclude == b"*.tmp\n"


def test_global_excludes_count_only_where_configured(desk: Desk) -> None:
    """S5."""
    desk.write("a.tmp")
    where = desk.write("../global", "*.tmp\n")
    assert desk.names(desk.save()) == {"a.tmp"}
    desk.previous = None
    assert desk.names(desk.save(global_excludes=os.fsdecode(where))) == set()


def test_questions_about_rules_are_answered_for_paths_present_or_not(desk: Desk) -> None:
    """T4."""
    desk.write(".gitignore", "*.log\n")
    desk.write("sub/.gitignore", "!keep.log\n/only\n")
    desk.write("node_modules/a")
    desk.write("sub/deep/file")
    for scan in (desk.save(), desk.save()):
        questions = {
            b"a.log": True,
            b"sub/keep.log": False,
            b"sub/deep/x.log": True,
            b"sub/only": True,
            b"sub/deep/only": False,
            b"node_modules/a/b": True,
            b"gone/away/x.log": True,
            b"gone/away/x": False,
        }
        assert {path: scan.ignored(path, directory=False) for path in questions} == questions


def test_settings_are_recorded_with_the_scan(desk: Desk) -> None:
    scan = desk.save(exclude=("*.x",), include=("y",))
    assert scan.result.ignore.excludes == (*CaptureSettings().built_in, "*.x")
    assert scan.result.ignore.includes == ("y",)


HAND_WRITTEN = (
    ".env",
    ".env.production",
    ".envrc",
    ".dev.vars",
    "app.local",
    "settings.local.json",
    "terraform.tfvars",
    "prod.auto.tfvars",
    ".npmrc",
    ".pypirc",
)


def test_what_people_write_by_hand_is_captured_though_git_ignores_it_and_is_private(desk: Desk) -> None:
    """S5."""
    desk.write(".gitignore", ".*\n!.gitignore\n*.local*\n*.tfvars\n*.log\n")
    for name in HAND_WRITTEN:
        desk.write(f"sub/{name}", "secret")
    desk.write("sub/run.log")
    for scan in (desk.save(), desk.save()):
        assert desk.names(scan) == {".gitignore", "sub", *(f"sub/{name}" for name in HAND_WRITTEN)}
        assert scan.result.private == tuple(sorted(f"sub/{name}".encode() for name in HAND_WRITTEN))
        assert scan.result.ignored == 1


def test_what_is_not_ignored_is_not_private_whatever_its_name(desk: Desk) -> None:
    """S5."""
    desk.write(".env", "secret")
    scan = desk.save()
    assert desk.names(scan) == {".env"}
    assert scan.result.private == ()


def test_a_folder_of_such_a_name_stays_out_and_so_does_what_is_in_an_ignored_one(desk: Desk) -> None:
    """S5: nobody walks through what is ignored for it."""
    desk.write(".gitignore", ".env\nbuild/\n")
    desk.write(".env/bin/python")
    desk.write("build/.env")
    desk.write("plain")
    scan = desk.save()
    assert desk.names(scan) == {".gitignore", "plain"}
    assert scan.result.ignored == 2


def test_an_ignored_pipe_of_such_a_name_is_ignored_and_no_gap(desk: Desk) -> None:
    """S5, S7."""
    desk.write(".gitignore", ".env\n")
    os.mkfifo(desk.root / ".env")
    scan = desk.save()
    assert (scan.result.ignored, scan.result.gaps) == (1, ())


def test_a_link_of_such_a_name_is_captured_as_a_link(desk: Desk) -> None:
    """S3, S5."""
    desk.write(".gitignore", ".env\n")
    os.symlink("/run/secrets/env", desk.root / ".env")
    assert desk.held(desk.save())[b".env"] == ("link", 0, b"/run/secrets/env")


def test_such_a_file_is_left_out_while_it_is_larger_than_anybody_writes(desk: Desk) -> None:
    """S5."""
    desk.write(".gitignore", ".env\n")
    desk.write(".env", bytes(256 * 1024 + 1))
    for scan in (desk.save(), desk.save()):
        assert desk.names(scan) == {".gitignore"}
    desk.write(".env", bytes(256 * 1024))
    assert desk.names(desk.save()) == {".gitignore", ".env"}
    desk.write(".env", bytes(256 * 1024 + 1))
    assert desk.names(desk.save()) == {".gitignore", ".env"}, "the checkpoint before holds it"


@pytest.mark.parametrize("place", ["", "sub/"])
def test_our_own_ignore_file_keeps_it_out_wherever_git_ignores_it(desk: Desk, place: str) -> None:
    """S5."""
    desk.write(".lastgoodignore", ".env\n")
    desk.write(f"{place}.gitignore", ".env\n")
    desk.write("sub/.env", "secret")
    desk.write("sub/other")
    assert "sub/.env" not in desk.names(desk.save())


def test_our_own_ignore_file_counts_where_the_folder_was_not_looked_at_again(desk: Desk) -> None:
    """S5."""
    desk.write(".lastgoodignore", ".env\n")
    desk.write(".gitignore", ".env\n")
    desk.write("sub/deep/other")
    desk.save()
    desk.write("sub/deep/.env", "secret")
    assert "sub/deep/.env" not in desk.names(desk.save())


def test_a_configured_or_built_in_exclude_keeps_it_out(desk: Desk) -> None:
    """S5."""
    desk.write(".gitignore", "*.local*\n")
    desk.write("a.local", "secret")
    desk.write("b.local.pyc", "compiled")
    assert desk.names(desk.save(exclude=("a.local",))) == {".gitignore"}


def test_a_file_of_global_excludes_is_gits_own_and_does_not_keep_it_out(desk: Desk) -> None:
    """S5."""
    everywhere = desk.store / "excludes"
    everywhere.write_text(".envrc\n*.log\n")
    desk.write(".envrc", "secret")
    desk.write("a.log")
    assert desk.names(desk.save(global_excludes=str(everywhere))) == {".envrc"}


def test_one_that_is_switched_off_is_left_out_even_if_a_checkpoint_holds_it(desk: Desk) -> None:
    """S5, K7: a setting that is off stays off."""
    desk.write(".gitignore", ".env\n.envrc\n")
    desk.write(".env", "secret")
    desk.write(".envrc", "secret")
    assert desk.names(desk.save()) == {".gitignore", ".env", ".envrc"}
    for scan in (desk.save(built_in_includes=(".envrc",)), desk.save(built_in_includes=(".envrc",))):
        assert desk.names(scan) == {".gitignore", ".envrc"}
        assert ".env" in scan.result.ignore.built_in_off


def test_what_our_own_ignore_file_names_only_later_stays_captured(desk: Desk) -> None:
    """S5: else a line that an agent adds would drop it."""
    desk.write(".gitignore", ".env\n")
    desk.write(".env", "secret")
    desk.save()
    desk.write(".lastgoodignore", ".env\n")
    scan = desk.save()
    assert ".env" in desk.names(scan)
    assert scan.result.private == (b".env",)
