"""Generated histories: what is called dirty, and what comes back with ``--git``, is what git shows (T9)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastgood.model.checkpoint import Checkpoint
from project_git.bench import Bench

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
