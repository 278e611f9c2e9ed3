"""The paths that a checkpoint calls dirty are those that git's status shows."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lastgood
from lastgood.model.checkpoint import Checkpoint
from lastgood.project_git.status import DIRTY_LIMIT
from lastgood.settings import CaptureSettings, Settings
from project_git.bench import Bench
from tools.values import not_none


def agrees(bench: Bench) -> bool:
    said = bench.dirty()
    assert said == bench.shown()
    return True


def test_a_clean_project_shows_nothing(bench: Bench) -> None:
    bench.commit("a/b")
    assert bench.dirty() == set()


def test_edits_additions_deletions_and_modes_show(bench: Bench) -> None:
    for name in ("edited", "deleted", "staged", "executable", "same", "d/kind"):
        bench.commit(name)
    bench.write("edited", "other\n")
    (bench.path / "deleted").unlink()
    bench.write("staged", "other\n")
    bench.git("add", "staged")
    (bench.path / "executable").chmod(0o755)
    bench.write("new/er/file")
    (bench.path / "d/kind").unlink()
    (bench.path / "d/kind").symlink_to("elsewhere")
    assert agrees(bench)
    assert bench.dirty() == {"edited", "deleted", "staged", "executable", "new/er/file", "d/kind"}


def test_what_changes_from_save_to_save_is_followed(bench: Bench) -> None:
    bench.commit("a")
    bench.commit("b/c")
    assert bench.dirty() == set()
    bench.write("a", "other\n")
    bench.write("b/new")
    assert bench.dirty() == {"a", "b/new"}
    bench.write("a")
    (bench.path / "b/new").unlink()
    assert bench.dirty() == set()
    bench.git("rm", "-q", "--cached", "a")
    assert bench.dirty() == {"a"}
    bench.write("b/c", "more\n")
    assert bench.dirty() == {"a", "b/c"}


def test_before_the_first_commit_all_shows(bench: Bench) -> None:
    bench.write("a")
    bench.write("b")
    bench.git("add", "a")
    assert bench.dirty() == {"a", "b"}


def test_ignored_files_do_not_show_but_tracked_ones_do(bench: Bench) -> None:
    bench.commit("a.log")
    bench.commit(".gitignore", "*.log\n")
    bench.write("b.log")
    bench.write("a.log", "other\n")
    assert agrees(bench)
    bench.write(".gitignore", "*.tmp\n")
    assert agrees(bench)


def test_an_ignore_file_that_is_a_link_or_a_folder_is_none(bench: Bench) -> None:
    bench.commit("a")
    (bench.path / "rules").write_text("b\n")
    (bench.path / ".gitignore").symlink_to("rules")
    bench.write("b")
    assert agrees(bench)
    (bench.path / ".gitignore").unlink()
    bench.write(".gitignore/c")
    assert agrees(bench)
    assert bench.dirty() == {"rules", "b", ".gitignore/c"}


def test_what_is_included_although_git_ignores_it_does_not_show(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".lastgood.toml").write_text('[capture]\ninclude = [".env"]\n')
    with Bench(tmp_path, made=True) as bench:
        bench.git("init", "-q", "-b", "main")
        bench.commit(".gitignore", ".env\n")
        bench.write(".env")
        assert ".env" not in (bench.dirty() or ())
        assert agrees(bench)


def test_a_path_intended_to_be_added_shows(bench: Bench) -> None:
    bench.commit("a")
    bench.write("b")
    bench.git("add", "-N", "b")
    assert agrees(bench)
    (bench.path / "b").unlink()
    assert agrees(bench)


def test_what_is_assumed_unchanged_or_skipped_does_not_show(bench: Bench) -> None:
    for name in ("assumed", "skipped", "gone"):
        bench.commit(name)
    bench.git("update-index", "--assume-unchanged", "assumed")
    bench.git("update-index", "--skip-worktree", "skipped", "gone")
    bench.write("assumed", "other\n")
    bench.write("skipped", "other\n")
    (bench.path / "gone").unlink()
    assert bench.dirty() == set()
    assert agrees(bench)


def test_a_conflict_shows(bench: Bench) -> None:
    bench.commit("a")
    bench.git("checkout", "-q", "-b", "side")
    bench.commit("a", "side\n")
    bench.git("checkout", "-q", "main")
    bench.commit("a", "main\n")
    bench.git("merge", "side", fails=True)
    checkpoint = bench.save()
    assert bench.dirty(checkpoint) == {"a"}
    assert not_none(checkpoint.git).operation == "merge"


def test_a_nested_repository_shows_as_one_path(bench: Bench) -> None:
    bench.commit("a")
    (bench.path / "nested").mkdir()
    bench.git("init", "-q", at="nested")
    bench.write("nested/file")
    assert agrees(bench)
    assert bench.dirty() == {"nested"}
    bench.write(".gitignore", "nested\n")
    assert agrees(bench)


def submodule(bench: Bench) -> None:
    bench.commit("a")
    origin = bench.folder / "origin"
    origin.mkdir()
    bench.git("init", "-q", str(origin))
    (origin / "inside").write_text("x\n")
    bench.git("add", "inside", at=str(origin))
    bench.git("commit", "-q", "-m", "inside", at=str(origin))
    bench.git("submodule", "add", "-q", str(origin), "sub")
    bench.git("commit", "-q", "-m", "sub")


def test_a_submodule_shows_when_anything_in_it_would(bench: Bench) -> None:
    submodule(bench)
    assert bench.dirty() == set()
    bench.write("sub/inside", "other\n")
    assert agrees(bench)
    bench.git("add", "inside", at="sub")
    assert agrees(bench)
    bench.git("commit", "-q", "-m", "more", at="sub")
    assert bench.dirty() == {"sub"}
    bench.git("add", "sub")
    assert agrees(bench)
    bench.git("commit", "-q", "-m", "sub again")
    assert bench.dirty() == set()
    bench.write("sub/new")
    assert bench.dirty() == {"sub"}
    assert agrees(bench)


def test_a_split_index_is_read_whole(bench: Bench) -> None:
    for name in ("a", "b", "c/d", "c/e"):
        bench.commit(name)
    bench.git("update-index", "--split-index")
    bench.write("b", "other\n")
    bench.git("add", "b")
    bench.git("rm", "-q", "--cached", "c/d")
    bench.write("new")
    bench.git("add", "new")
    assert any(name.startswith("sharedindex.") for name in os.listdir(bench.path / ".git"))
    assert agrees(bench)
    bench.write("c/e", "more\n")
    assert agrees(bench)


def test_a_sparse_index_is_read_whole(bench: Bench) -> None:
    for name in ("in/a", "out/b", "out/deep/c", "top"):
        bench.commit(name)
    bench.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    assert b"sdir" in (bench.path / ".git" / "index").read_bytes()
    assert agrees(bench)
    bench.write("in/a", "other\n")
    assert agrees(bench)
    assert bench.dirty() == {"in/a"}


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_version_of_the_index_is_read(bench: Bench, version: str) -> None:
    for name in ("dir/a", "dir/ab", "dir/b", "z" * 200):
        bench.commit(name)
    bench.git("update-index", "--index-version", version)
    bench.write("dir/ab", "other\n")
    assert agrees(bench)
    bench.write("dir/new")
    assert agrees(bench)


def test_an_executable_does_not_show_where_modes_do_not_count(bench: Bench) -> None:
    bench.commit("a")
    bench.git("config", "core.fileMode", "false")
    (bench.path / "a").chmod(0o755)
    assert bench.dirty() == set()
    assert agrees(bench)


def test_where_a_filter_would_have_to_run_nothing_is_said(bench: Bench) -> None:
    bench.git("config", "filter.upper.clean", "tr a-z A-Z")
    bench.commit(".gitattributes", "*.up filter=upper\n")
    bench.commit("a.up", "text\n")
    os.utime(bench.path / ".git" / "index", (2**31, 2**31))
    bench.git("status")
    bench.commit("plain")
    bench.write("plain", "other\n")
    assert bench.dirty() in (None, {"plain"})  # by git's own stat data, unless those are too young
    bench.write("a.up", "other\n")
    assert bench.dirty() is None


def test_line_ends_count_only_where_there_are_any(bench: Bench) -> None:
    bench.commit(".gitattributes", "* text=auto\n")
    bench.commit("a", "one\n")
    bench.write("a", "two\n")
    assert bench.dirty() == {"a"}
    bench.write("a", "one\r\n")
    assert bench.dirty() is None
    bench.git("config", "core.autocrlf", "true")
    bench.write("a", "three\n")
    assert bench.dirty() == {"a"}


@pytest.mark.parametrize(
    "setting",
    [
        ("core.excludesFile", "/elsewhere"),
        ("core.attributesFile", "/elsewhere"),
        ("include.path", "elsewhere"),
        ("core.ignoreCase", "true"),
        ("diff.ignoreSubmodules", "all"),
    ],
)
def test_settings_that_are_not_followed_leave_it_unknown(bench: Bench, setting: tuple[str, str]) -> None:
    bench.commit("a")
    bench.git("config", *setting)
    assert bench.dirty() is None


def test_a_repository_of_sha_256_leaves_it_unknown(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with Bench(tmp_path, made=True) as bench:
        bench.git("init", "-q", "--object-format=sha256")
        bench.commit("a")
        checkpoint = bench.save()
        assert bench.dirty(checkpoint) is None
        assert checkpoint.manifest.state == {}


def test_a_worktree_is_read_by_its_own_index(bench: Bench, tmp_path: Path) -> None:
    bench.commit("a")
    bench.git("worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    with Bench(tmp_path, name="other", made=True) as other:
        other.write("a", "other\n")
        assert other.dirty() == {"a"} == other.shown()
        other.git("add", "a")
        assert other.dirty() == {"a"}
    assert bench.dirty() == set()


def test_a_folder_of_a_repository_shows_its_own_part(bench: Bench, tmp_path: Path) -> None:
    bench.commit("part/a")
    bench.commit("part/b")
    bench.commit("rest")
    bench.write("part/a", "other\n")
    bench.write("part/new")
    bench.write("rest", "other\n")
    bench.git("rm", "-q", "--cached", "part/b")
    with Bench(tmp_path, name="project/part", made=True) as part:
        assert part.dirty() == {"a", "b", "new"}
        part.write("b", "more\n")
        assert part.dirty() == {"a", "b", "new"}


def test_a_file_over_the_cap_is_judged_by_what_git_knows_of_it(tmp_path: Path) -> None:
    small = Settings(capture=CaptureSettings(max_file_size=1024))
    with Bench(tmp_path, settings=small) as bench:
        bench.commit("big", "x" * 5000)
        bench.write("untracked", "x" * 5000)
        assert bench.dirty() in (None, {"untracked"})  # None if the index is too young to prove it
        bench.write("big", "x" * 6000)
        assert bench.dirty() == {"untracked", "big"}
        (bench.path / "untracked").unlink()
        bench.write("small")
        assert agrees(bench)


def test_more_paths_than_a_manifest_should_carry_are_not_listed(bench: Bench) -> None:
    bench.commit("a")
    for number in range(DIRTY_LIMIT):
        bench.write(f"{number % 100}/{number}", "")
    assert len(bench.dirty() or ()) == DIRTY_LIMIT
    bench.write("one more")
    assert bench.dirty() is None
    (bench.path / "one more").unlink()
    assert len(bench.dirty() or ()) == DIRTY_LIMIT


def test_the_memory_of_the_last_state_can_be_deleted(bench: Bench) -> None:
    """K6."""
    bench.commit("a")
    bench.write("a", "other\n")
    bench.save()
    found = list((bench.folder / "store" / "workspaces").rglob("git.state"))
    assert found
    for garbage in (b"", b"lastgood git state 1\n", b"garbage" * 100):
        for file in found:
            file.write_bytes(garbage)
        assert bench.dirty() == {"a"}
    for file in found:
        file.unlink()
    assert bench.dirty() == {"a"}


def test_an_index_that_is_garbage_leaves_it_unknown(bench: Bench) -> None:
    bench.commit("a")
    (bench.path / ".git" / "index").write_bytes(b"garbage")
    checkpoint = bench.save()
    assert bench.dirty(checkpoint) is None
    assert checkpoint.manifest.state == {}


def test_without_git_nothing_is_missing_where_the_index_says_enough(
    bench: Bench,
) -> None:
    bench.commit("a")
    bench.write("a", "other\n")
    blind = dict(os.environ) | {"PATH": str(bench.folder)}
    with lastgood.open(bench.path, store=bench.folder / "store", environment=blind) as workspace:
        saved = not_none(workspace.save().checkpoint)
        assert bench.dirty(saved) == {"a"}
        bench.git("rm", "-q", "--cached", "a")
        again = not_none(workspace.save(allow_empty=True).checkpoint)
        assert bench.dirty(again) is None


# Generated histories: what is called dirty, and what comes back with ``--git``, is what git shows (T9).


PATHS = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/c", "e", "x.log", "\u00e9 \n", "sub/n", "d"])

TEXTS = st.sampled_from(["one\n", "two\n", "", "long\n" * 50])

EDITS = st.one_of(
    st.tuples(st.just("write"), PATHS, TEXTS),
    st.tuples(st.just("remove"), PATHS),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from([0o644, 0o755])),
    st.tuples(st.just("link"), PATHS),
    st.tuples(st.just("ignore"), st.sampled_from(["", "*.log\n", "d/\n", "*\n!b\n"])),
)

COMMANDS = st.one_of(
    st.tuples(st.just("add"), PATHS),
    st.sampled_from(
        [
            ("add", "-A"),
            ("commit", "-q", "--allow-empty", "-m", "x"),
            ("commit", "-q", "-a", "-m", "x"),
            ("checkout", "-q", "-b", "side"),
            ("checkout", "-q", "-f", "main"),
            ("checkout", "-q", "-f", "side"),
            ("checkout", "-q", "--detach"),
            ("checkout", "-q", "--orphan", "lone"),
            ("branch", "-D", "side"),
            ("merge", "side"),
            ("merge", "--abort"),
            ("merge", "--squash", "side"),
            ("stash", "-q"),
            ("stash", "-q", "-u"),
            ("stash", "pop"),
            ("reset", "-q", "--hard"),
            ("reset", "-q", "--soft", "HEAD~1"),
            ("status",),
            ("read-tree", "--empty"),
            ("update-index", "--split-index"),
            ("update-index", "--no-split-index"),
            ("update-index", "--index-version", "4"),
            ("update-index", "--index-version", "2"),
            ("worktree", "add", "-q", "-f", "../tree", "side"),
            ("pack-refs", "--all"),
            ("sparse-checkout", "set", "--cone", "d"),
            ("sparse-checkout", "set", "--cone", "--sparse-index", "d"),
            ("sparse-checkout", "disable"),
            ("config", "core.fileMode", "false"),
            ("config", "core.fileMode", "true"),
        ]
    ),
    st.tuples(st.just("add"), st.just("-N"), PATHS),
    st.tuples(st.just("rm"), st.just("-q"), st.just("--cached"), PATHS),
    st.tuples(st.just("mv"), PATHS, PATHS),
    st.tuples(
        st.just("update-index"),
        st.sampled_from(
            [
                "--assume-unchanged",
                "--no-assume-unchanged",
                "--skip-worktree",
                "--no-skip-worktree",
                "--chmod=+x",
            ]
        ),
        PATHS,
    ),
)

ACTS = st.one_of(
    st.tuples(st.just("edit"), EDITS),
    st.tuples(st.just("git"), COMMANDS),
    st.just(("nested", ())),
    st.just(("save", ())),
)

EXAMPLES = 30

_PATIENT = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def perform(bench: Bench, act: tuple[str, tuple[object, ...]]) -> None:
    kind, words = act
    if kind == "git":
        bench.try_git(*(str(word) for word in words))
    elif kind == "edit":
        edit(bench, words)
    elif kind == "nested" and not (bench.path / "nested").exists():
        (bench.path / "nested").mkdir()
        bench.git("init", "-q", at="nested")
        bench.write("nested/file")


def edit(bench: Bench, words: tuple[object, ...]) -> None:
    verb, path = str(words[0]), bench.path / str(words[1])
    try:
        if verb == "ignore":
            bench.write(".gitignore", str(words[1]))
        elif verb == "write":
            bench.write(str(words[1]), str(words[2]))
        elif verb == "remove" and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif verb == "remove":
            path.unlink()
        elif verb == "chmod" and path.is_file() and not path.is_symlink():
            path.chmod(int(str(words[2])))
        elif verb == "link":
            path.symlink_to("nowhere")
    except OSError:
        return  # the generated edit makes no sense here


@_PATIENT
@given(acts=st.lists(ACTS, min_size=4, max_size=24))
def test_what_is_dirty_is_what_status_shows(acts: list[tuple[str, tuple[object, ...]]]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="lastgood-dirty-"))
    try:
        with Bench(folder) as bench:
            for act in acts:
                perform(bench, act)
                if act[0] == "save":
                    assert bench.dirty() == bench.shown()
            assert bench.dirty() == bench.shown()
    finally:
        shutil.rmtree(folder)


@_PATIENT
@given(before=st.lists(ACTS, min_size=2, max_size=14), after=st.lists(ACTS, max_size=10))
def test_status_is_what_it_was_when_all_came_back(
    before: list[tuple[str, tuple[object, ...]]], after: list[tuple[str, tuple[object, ...]]]
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="lastgood-back-"))
    try:
        with Bench(folder) as bench:
            for act in before:
                perform(bench, act)
            then, rules, target = bench.status(), ignored(bench), bench.save()
            for act in after:
                perform(bench, act)
            if rules == ignored(bench):  # else a restore rightly leaves alone what is ignored now
                go_back(bench, target, then=then)
    finally:
        shutil.rmtree(folder)


def ignored(bench: Bench) -> str:
    file = bench.path / ".gitignore"
    return file.read_text() if file.is_file() else ""


def go_back(bench: Bench, target: Checkpoint, *, then: set[str]) -> None:
    now, state = bench.status(), bench.save().git
    assert state is not None
    if state.operation is not None:
        return  # refused, which has a test of its own
    report = bench.workspace.restore(target.id, git=True)
    if any(one.result in {"kept", "failed"} for one in report.files):
        return  # what T4 keeps shows in the status too
    assert [one for one in report.parts if one.result != "restored"] == []
    assert bench.status() == then
    if report.operation is not None:
        bench.workspace.undo()
        assert bench.status() == now
