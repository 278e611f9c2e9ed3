"""How a command finds the modules of this package: where Python does, and only what Python would take."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from py_compile import PycInvalidationMode
from py_compile import compile as compile_source
from typing import TYPE_CHECKING

import pytest

import lastgood
from lastgood.module_finder import ModuleFinder

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "lastgood.part"


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """A module with its compiled form."""
    return made(tmp_path / "part.py")


def made(source: Path, *, mode: PycInvalidationMode = PycInvalidationMode.TIMESTAMP) -> Path:
    source.parent.mkdir(exist_ok=True)
    source.write_text("def told():\n    return 1\n", encoding="utf-8")
    compile_source(str(source), doraise=True, invalidation_mode=mode)
    return source


def compiled(source: Path) -> Path:
    return source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"


def facts(finder: type[PathFinder | ModuleFinder], folder: Path) -> dict[str, object]:
    """Return what a module knows of itself, and what can be asked of it, once a finder has found it."""
    spec = finder.find_spec(NAME, [str(folder)])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    told = vars(module).pop("told")
    known = {
        name: value for name, value in vars(module).items() if name not in {"__builtins__", "__loader__"}
    }
    known["__spec__"] = {name: value for name, value in vars(spec).items() if name != "loader"}
    loader = vars(spec.loader)
    source, code = spec.loader.get_source(NAME), spec.loader.get_code(NAME)  # type: ignore[attr-defined]  # as each of these has them
    return known | {"code": told.__code__, "again": code, "source": source, "path": loader["path"]}


@pytest.mark.parametrize("name", ["part.py", "part/__init__.py"])
def test_a_module_is_what_python_makes_of_it(tmp_path: Path, name: str) -> None:
    made(tmp_path / name)
    assert facts(ModuleFinder, tmp_path) == facts(PathFinder, tmp_path)


def test_a_module_that_was_moved_with_its_compiled_form_tells_where_it_is(tmp_path: Path) -> None:
    made(tmp_path / "then" / "part.py")
    (tmp_path / "then").rename(tmp_path / "now")
    found = facts(ModuleFinder, tmp_path / "now")
    assert found["code"].co_filename == str(tmp_path / "now" / "part.py")  # type: ignore[attr-defined]  # it is one


def edited(source: Path) -> None:
    then = source.stat()
    source.write_text("def told():\n    return 10\n", encoding="utf-8")
    os.utime(source, ns=(then.st_atime_ns, then.st_mtime_ns))


def touched(source: Path) -> None:
    os.utime(source, ns=(0, source.stat().st_mtime_ns + 10**9))


def of_another_python(source: Path) -> None:
    compiled(source).write_bytes(b"\0" + compiled(source).read_bytes()[1:])


def by_digest(source: Path) -> None:
    made(source, mode=PycInvalidationMode.UNCHECKED_HASH)


@pytest.mark.parametrize(
    "happens",
    [
        edited,
        touched,
        of_another_python,
        by_digest,
        Path.unlink,
        lambda source: compiled(source).unlink(),
        lambda source: compiled(source).write_bytes(compiled(source).read_bytes()[:15]),
        lambda source: compiled(source).write_bytes(b""),
    ],
    ids=["edited", "touched", "of another Python", "by digest", "no source", "not compiled", "cut", "empty"],
)
def test_what_is_not_compiled_of_the_source_as_it_is_python_finds_itself(
    part: Path, happens: Callable[[Path], object]
) -> None:
    folder = [str(part.parent)]
    assert ModuleFinder.find_spec(NAME, folder) is not None
    happens(part)
    assert ModuleFinder.find_spec(NAME, folder) is None


def test_modules_of_others_and_folders_of_several_are_found_by_python_itself(part: Path) -> None:
    folder = str(part.parent)
    assert ModuleFinder.find_spec("other.part", [folder]) is None
    assert ModuleFinder.find_spec("lastgood") is None
    assert ModuleFinder.find_spec(NAME, [folder, folder]) is None
    assert ModuleFinder.find_spec("lastgood.absent", [folder]) is None


@pytest.mark.parametrize(("option", "found"), [((), True), (("-O",), False)])
def test_a_command_finds_its_modules_so_where_python_compiles_them_as_ever(
    option: tuple[str, ...], *, found: bool
) -> None:
    """What `-O` compiles has another name."""
    program = (
        "import os, sys; sys.argv = ['lastgood', '--version']\n"
        "os._exit = lambda _code: print([one.__name__ for one in sys.meta_path])\n"
        "from lastgood.client import run; run()"
    )
    done = subprocess.run(
        [sys.executable, "-S", *option, "-c", program],
        env={"PYTHONPATH": os.path.dirname(lastgood.__path__[0])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("ModuleFinder" in done.stdout.splitlines()[-1]) == found
