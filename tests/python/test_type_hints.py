"""Whoever uses lastgood from Python can ask it for its types while the program runs, as frameworks do."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import typing
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood import type_hints
from lastgood.value import Alias
from tools import public

ROOT = Path(__file__).parents[2]
CALLABLES = public.callables()
MODULES = [*type_hints._MODULES, *type_hints._ASYNCHRONOUS]


def test_every_public_name_has_type_hints() -> None:
    assert {
        name: said for name, found in CALLABLES.items() if (said := failure(typing.get_type_hints, found))
    } == {}


def test_every_name_of_the_other_public_modules_has_type_hints() -> None:
    found = public.of_modules()
    assert {name.split(".")[0] for name in found} == {"aio", "errors", "integrations"}
    for one in found.values():
        typing.get_type_hints(one)


def test_every_signature_can_be_had_with_its_types() -> None:
    functions = {name: found for name, found in CALLABLES.items() if inspect.isfunction(found)}
    signature = partial(inspect.signature, eval_str=True)
    assert {name: said for name, found in functions.items() if (said := failure(signature, found))} == {}


def failure(asked: Callable[[Any], object], one: object) -> str:
    """Return how something cannot be had, an empty text if it can."""
    try:
        asked(one)
    except Exception as error:  # noqa: BLE001 - all that fail are named at once
        return f"{type(error).__name__}: {error}"
    return ""


def test_everything_that_a_public_hint_names_can_be_imported_from_the_package() -> None:
    exported = {id(getattr(lastgood, name)) for name in dir(lastgood)}
    hints = [hint for one in CALLABLES.values() for hint in typing.get_type_hints(one).values()]
    missing = {cls for hint in hints for cls in public.named_in(hint) if id(cls) not in exported}
    assert missing == set()


def test_what_stands_for_a_field_of_a_field_has_a_type_that_can_be_read() -> None:
    for name, cls in public.values().items():
        for key, alias in vars(cls).items():
            if isinstance(alias, Alias):
                space = vars(sys.modules[cls.__module__])
                assert eval(alias.annotation, space) is not None, f"{name}.{key}"


@pytest.mark.parametrize("name", MODULES)
def test_the_names_supplied_are_those_that_type_checkers_read(name: str) -> None:
    type_hints.supply(asynchronous=True)
    module = import_module(f"lastgood.{name}")
    tree = ast.parse(Path(str(module.__file__)).read_text())
    blocks = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    stand_ins = {"Generic", "Protocol", "cast", "dataclass_transform"}
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    for node in imports:
        for one in (one for one in node.names if one.name not in stand_ins):
            found = vars(module).get(one.asname or one.name)
            assert found is None or found is getattr(import_module(str(node.module)), one.name), one.name


def run(program: str, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


OPENED = """
import sys, typing, lastgood
with lastgood.open(sys.argv[1], store=sys.argv[2], allow_root=True) as workspace:
    print(typing.get_type_hints(workspace.save)["return"].__name__)
"""
AWAITED = """
import asyncio, sys, typing, lastgood
async def main():
    async with lastgood.open_async(sys.argv[1], store=sys.argv[2], allow_root=True) as workspace:
        print(typing.get_type_hints(workspace.save)["return"].__name__)
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [OPENED, AWAITED])
def test_a_program_that_only_opens_a_workspace_can_read_its_hints(tmp_path: Path, program: str) -> None:
    (tmp_path / "project").mkdir()
    done = run(program, str(tmp_path / "project"), str(tmp_path / "store"), home=tmp_path)
    assert (done.stdout, done.stderr) == ("SaveReport\n", "")


def test_importing_all_names_leaves_the_open_of_python(tmp_path: Path) -> None:
    done = run("from lastgood import *\nprint(open.__module__, Workspace.__name__)", home=tmp_path)
    assert (done.stdout, done.stderr) == ("io Workspace\n", "")


@pytest.mark.parametrize("words", [["save"], ["list"], ["status"], ["restore", "@", "--yes"], ["verify"]])
def test_no_command_loads_what_only_hints_need(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "project").mkdir()
    place = ["-C", str(tmp_path / "project"), "--store", str(tmp_path / "store"), "--allow-root"]
    program = (
        "import sys\nfrom lastgood.cli.main import main\n"
        f"main([*sys.argv[1:], 'save', '--allow-empty'])\nmain([*sys.argv[1:], *{words!r}])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('lastgood')), file=sys.stderr)"
    )
    done = run(program, *place, home=tmp_path)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "lastgood.workspace" in loaded, done.stderr
    only_hints = {
        "lastgood.type_hints",
        "lastgood.literals",
        "lastgood.model.calls",
    }
    assert loaded & only_hints == set()
