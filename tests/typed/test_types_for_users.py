"""Whoever uses lastgood from Python, and checks types strictly, sees full types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lastgood
from typed.checking import faults

HERE = Path(__file__).parent
SOURCES = Path(lastgood.__file__).parent


def test_a_program_without_mistakes_has_none() -> None:
    assert faults(HERE / "users_program.py") == {}


def test_every_mistake_is_found(tmp_path: Path) -> None:
    text = (HERE / "mistakes.txt").read_text()
    (tmp_path / "mistakes.py").write_text(text)
    planted = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# wrong")}
    assert set(faults(tmp_path / "mistakes.py")) == planted


@pytest.mark.parametrize(
    "cls", [lastgood.AsyncWorkspace, lastgood.AsyncSession, lastgood.AsyncLedger, lastgood.CheckpointManager]
)
def test_the_type_of_an_awaited_verb_is_declared(cls: type) -> None:
    """Else each type checker may infer another, and `pyright --verifytypes` counts the class as unknown."""
    awaited = {name for name, one in vars(cls).items() if hasattr(one, "__wrapped__")}
    assert awaited - {"checkpoint"} <= set(cls.__annotations__)


def test_every_public_attribute_has_a_declared_type() -> None:
    """What `scripts/verifytypes` would miss: it asks pyright, which needs node, so CI asks here."""
    classes = {
        (path, node.name): node
        for path in SOURCES.rglob("*.py")
        for node in classes_of(ast.parse(path.read_text()))
    }
    by_name = {name: node for (_, name), node in classes.items()}
    missing = {
        f"{path.relative_to(SOURCES)}: {name}.{attribute}"
        for (path, name), node in classes.items()
        if not name.startswith("_")
        for attribute in assigned(node) - declared(node, by_name)
    }
    assert missing == set()


def classes_of(block: ast.AST) -> Iterator[ast.ClassDef]:
    """Yield the classes of a module, also below conditions and in others; in functions none is public."""
    for node in ast.iter_child_nodes(block):
        if isinstance(node, ast.ClassDef):
            yield node
        if isinstance(node, ast.ClassDef | ast.If | ast.Try):
            yield from classes_of(node)


def assigned(node: ast.ClassDef) -> set[str]:
    """Return the public attributes that methods give a value; a parameter's type is its own declaration.

    Not so where there are ``__slots__``: these are what type checkers find first.
    """
    slotted = any(
        isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__slots__" for one in node.body
    )
    found = set()
    for method in (one for one in node.body if isinstance(one, ast.FunctionDef)):
        given = {one.arg for one in (*method.args.args, *method.args.kwonlyargs)}
        for one in ast.walk(method):
            if isinstance(one, ast.Assign) and (slotted or ast.unparse(one.value) not in given):
                found |= {name for target in one.targets for name in own(target)}
            elif isinstance(one, ast.AugAssign):
                found |= own(one.target)
    return {name for name in found if not name.startswith("_")}


def own(target: ast.expr) -> set[str]:
    """Return which attributes of ``self`` an assignment sets."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return {one.attr for one in parts if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self"}


def declared(node: ast.ClassDef, by_name: dict[str, ast.ClassDef]) -> set[str]:
    """Return what a class and those that it is made of declare."""
    found = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    for one in ast.walk(node):
        if isinstance(one, ast.AnnAssign):
            found |= own(one.target) or {ast.unparse(one.target)}
    for base in node.bases:
        name = ast.unparse(base).partition("[")[0].rpartition(".")[2]
        if name in by_name and name != node.name:
            found |= declared(by_name[name], by_name)
    return found
