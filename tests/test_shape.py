"""What the code has to look like, whatever it does: budgets, words, imports, rules cited."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lastgood
from lastgood import errors

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SOURCE = os.path.join(ROOT, "src", "lastgood")

FUNCTION_LINES = 50
NESTING = 3

RULES = (
    [f"S{number}" for number in range(1, 20)]
    + [f"T{number}" for number in range(1, 18)]
    + ["T12b"]
    + [f"P{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8)]
    + [f"K{number}" for number in range(1, 9)]
)

# What a save may import besides lastgood itself (docs/decisions/002 and 003). Everything here is
# built in or frozen; a new line costs every save of every user its milliseconds.
CHEAP_IMPORTS = {
    "__future__",
    "_abc",
    "_blake2",
    "_ctypes",
    "_codecs",
    "_collections_abc",
    "_frozen_importlib_external",
    "_io",
    "_json",
    "_operator",
    "_sha1",
    "_signal",
    "_stat",
    "_struct",
    "_thread",
    "abc",
    "codecs",
    "encodings",
    "errno",
    "fcntl",
    "gc",
    "genericpath",
    "io",
    "itertools",
    "marshal",
    "mmap",
    "os",
    "posix",
    "posixpath",
    "stat",
    "time",
    "zipimport",
    "zlib",
}
# The one dear thing that a save needs, and what it asks for.
SQLITE_IMPORTS = {"_sqlite3", "_functools"}
# So many modules of ours are loaded at the most (decision 030).
MOST_OF_SAVE, MOST_OF_RESTORE = 60, 85
ALLOWED_IMPORTS = CHEAP_IMPORTS | SQLITE_IMPORTS | {"lastgood"}
SLOW_IMPORTS = {"asyncio", "dataclasses", "typing", "enum", "pathlib", "json", "re", "argparse", "subprocess"}


def sources(folder: str = SOURCE) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(place, name) for name in sorted(names) if name.endswith(".py"))


@cache
def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


@cache
def parsed(path: str) -> ast.Module:
    return ast.parse(read(path))


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Forget all code at the end of the file: what is forked later need not have it."""
    yield
    read.cache_clear()
    parsed.cache_clear()


def short(path: str) -> str:
    return os.path.relpath(path, ROOT)


def functions(path: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_functions_are_short() -> None:
    long = [
        f"{short(path)}: {function.name} has {lines} lines"
        for path in sources()
        for function in functions(path)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES
    ]
    assert long == []


def depth(node: ast.AST) -> int:
    """Return how deep branches and loops lie in one another; an elif lies where its if does."""
    deepest = 0
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        inside = depth(part)
        if isinstance(part, ast.For | ast.While | ast.If | ast.Match):
            is_elif = isinstance(node, ast.If) and isinstance(part, ast.If) and node.orelse == [part]
            inside += not is_elif
        deepest = max(deepest, inside)
    return deepest


def test_statements_are_not_nested_deeply() -> None:
    deep = [
        f"{short(path)}: {function.name}"
        for path in sources()
        for function in functions(path)
        if depth(function) > NESTING
    ]
    assert deep == []


def test_every_list_of_exports_is_sorted_and_true() -> None:
    for path in sources():
        for node in parsed(path).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                exported = ast.literal_eval(node.value)
                assert list(exported) == sorted(set(exported)), short(path)


def test_the_package_exports_everything_that_can_be_caught() -> None:
    exported = list(lastgood.__all__)
    assert [name for name in exported if not hasattr(lastgood, name)] == []
    failures = {error.__name__ for error in errors.LastgoodError.__subclasses__()}
    assert {"LastgoodError", *failures} - set(exported) == set()


def imported(command: list[str], **environment: str) -> set[str]:
    """Return the modules that a program imports, without `site` and what that brings in."""
    done = subprocess.run(
        [sys.executable, "-S", "-X", "importtime", *command],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.path.join(ROOT, "src"), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def test_a_save_imports_only_what_is_worth_its_milliseconds(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "kept.txt").write_text("kept\n")
    command = [os.path.join(ROOT, "lastgood"), "-C", str(workspace), "--allow-root", "save", "one"]
    needed = []
    for number in range(3):  # what the first save makes, the others read
        (workspace / "kept.txt").write_text("changed\n" * (number + 1))
        loaded = imported(command, LASTGOOD_STORE=str(tmp_path / "store"), HOME=str(tmp_path))
        assert {name for name in loaded if not allowed(name)} == set()
        needed.append(ours(loaded))
    # One may meet what is under way in the store just then, and load what tells it of that.
    fewest = min(needed[1:], key=len)
    assert len(fewest) <= MOST_OF_SAVE, sorted(fewest)


def ours(loaded: set[str]) -> set[str]:
    """Return the modules of ours among some, without those that ask the resident and find modules before."""
    found = {name for name in loaded if name.partition(".")[0] == "lastgood"}
    return found - {"lastgood.client", "lastgood.module_finder", "lastgood.resident"}


def allowed(name: str) -> bool:
    return name.partition(".")[0] in ALLOWED_IMPORTS


def test_importing_the_package_is_light() -> None:
    assert imported(["-c", "import lastgood"]) & SLOW_IMPORTS == set()


def test_a_save_does_not_load_the_other_verbs(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    command = [os.path.join(ROOT, "lastgood"), "-C", str(tmp_path / "workspace"), "--allow-root", "save"]
    loaded = imported(command, LASTGOOD_STORE=str(tmp_path / "store"), HOME=str(tmp_path))
    others = {"restore.restore", "undo", "retention.prune", "retention.verify", "recovery", "diff"}
    others |= {
        "cancellation",
        "directories",
        "model.operation",
        "model.path_safety",
        "model.report",
        "view",
        "worktree",
    }
    others |= {"documents", "processes", "procfs", "project_git.index", "scanner.parallel", "trees", "worker"}
    assert {f"lastgood.{name}" for name in others} & loaded == set()


def test_a_restore_of_files_loads_nothing_of_sessions_conversations_and_other_verbs(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "kept.txt").write_text("kept\n")
    surroundings = {"LASTGOOD_STORE": str(tmp_path / "store"), "HOME": str(tmp_path)}
    command = [os.path.join(ROOT, "lastgood"), "-C", str(tmp_path / "workspace"), "--allow-root"]
    imported([*command, "save"], **surroundings)
    (tmp_path / "workspace" / "kept.txt").write_text("changed\n")
    loaded = imported([*command, "restore", "@", "--yes"], **surroundings)
    needed_elsewhere = {"restore.finish", "restore.kept", "restore.merge", "restore.steps"}
    others = {"conversation", "recovery", "sessions.session", "tasks", "undo", *needed_elsewhere}
    others |= {"documents", "model.activity", "procfs", "project_git.index", "suggestions", "workspace.api"}
    assert {f"lastgood.{name}" for name in others} & loaded == set()
    assert len(ours(loaded)) <= MOST_OF_RESTORE
    assert (tmp_path / "workspace" / "kept.txt").read_text() == "kept\n"


def test_a_list_loads_nothing_of_what_other_verbs_need(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    surroundings = {"LASTGOOD_STORE": str(tmp_path / "store"), "HOME": str(tmp_path)}
    command = [os.path.join(ROOT, "lastgood"), "-C", str(tmp_path / "workspace"), "--allow-root"]
    imported([*command, "save"], **surroundings)
    loaded = imported([*command, "list"], **surroundings)
    others = {
        "lastgood.catalogue.work",
        "lastgood.cli.references",
        "lastgood.ignore",
        "lastgood.journal",
        "lastgood.locks",
        "lastgood.model.operation",
        "lastgood.objects",
        "lastgood.project_git",
        "lastgood.save",
        "lastgood.scanner",
        "lastgood.snapshot",
        "lastgood.configuration.rules",
        "lastgood.view",
        "lastgood.workspace.api",
    }
    assert others & loaded == set()
    assert loaded & SLOW_IMPORTS == set()


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_cited_by_a_test(rule: str) -> None:
    cited = re.compile(rf"(?<![0-9A-Za-z]){rule}(?![0-9A-Za-z])")
    tests = (path for path in sources(HERE) if os.path.abspath(__file__) != path)
    assert any(cited.search(read(path)) for path in tests), f"no test cites rule {rule}"


def test_every_source_starts_with_a_docstring_and_postponed_annotations() -> None:
    bare = []
    for path in sources():
        tree = parsed(path)
        if not tree.body:
            continue
        first = tree.body[1] if len(tree.body) > 1 else None
        # Lists of names have none to postpone, and the client loads nothing that it can do without.
        is_free = path.endswith(("__init__.py", "/client.py"))
        postponed = first is None or is_free or ast.unparse(first) == "from __future__ import annotations"
        if ast.get_docstring(tree) is None or not postponed:
            bare.append(short(path))
    assert bare == []


def test_no_module_gives_one_name_to_two_values() -> None:
    """A second constant of a name takes the first one's place, and no checker tells."""
    twice = []
    for path in sources():
        body = parsed(path).body
        assigned = [one.targets for one in body if isinstance(one, ast.Assign)]
        assigned += [[one.target] for one in body if isinstance(one, ast.AnnAssign) and one.value is not None]
        names = [
            part.id
            for targets in assigned
            for part in (node for one in targets for node in ast.walk(one))
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        ]
        twice += [f"{short(path)}: {name}" for name in sorted({*names}) if names.count(name) > 1]
    assert twice == []


def test_no_two_test_files_share_a_name() -> None:
    """Test folders are no packages, so pytest would import one for the other."""
    names = [os.path.basename(path) for path in sources(HERE) if os.path.basename(path) != "conftest.py"]
    assert {name for name in names if names.count(name) > 1} == set()


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError")
    # A suite that others inherit has to leave one thing to them: the engine.
    ours = [path for path in sources() if "testing" not in path]
    assert [short(path) for path in ours if marks.search(read(path))] == []


def test_no_message_leaves_open_whether_it_speaks_of_several() -> None:
    """`count` knows. PraisonAI's own words, which its users' programs may read, are as PraisonAI has them."""
    open_plural = re.compile(r"[a-z]\(e?s\) ")
    ours = [path for path in sources() if "praisonai" not in path]
    assert [short(path) for path in ours if open_plural.search(read(path))] == []


def test_what_writes_is_asked_for_by_transactions_alone() -> None:
    """The lock is a type (docs/decisions/031): who asks has to hold something, and only locks give that."""
    asking, holding = set(), set()
    for path in sources():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute) and node.attr == "writers":
                asking.add(short(path))
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Hold"):
                holding.add(short(path))
    assert asking == {"src/lastgood/transaction.py"}
    assert holding == {"src/lastgood/locks.py", "src/lastgood/workspace/store.py"}


def test_below_the_composition_root_nothing_reads_the_environment() -> None:
    """Invariant 8."""
    readers = {"workspace", "scanner/helper.py", "__main__.py"}
    reading = re.compile(r"\bos\.environ\b|import environ\b|\bgetenv\b|expanduser|os\.getcwd")
    found = []
    for path in sources():
        place = os.path.relpath(path, SOURCE)
        if place.split(os.sep)[0] not in {"cli", "integrations", *readers} and reading.search(read(path)):
            found.append(short(path))
    assert found == []
