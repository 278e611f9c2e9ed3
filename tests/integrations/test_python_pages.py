"""What is written about Python is true: the reference, and every example in a docstring."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import lastgood

PACKAGE = Path(lastgood.__file__).parent
ROOT = PACKAGE.parent.parent


def modules_with_examples() -> list[str]:
    """Return the modules in whose docstrings something is shown."""
    found = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>>" in path.read_text()]
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in found]
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.parametrize("name", modules_with_examples())
def test_every_example_in_a_docstring_does_what_it_says(name: str, project: Path, store: Path) -> None:
    module = import_module(name)
    package = import_module(name.rpartition(".")[0] or name)
    exported = {word: getattr(package, word) for word in getattr(package, "__all__", ())}
    given = exported | {"lastgood": lastgood, "project": project, "store": store}
    examples = doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs=given)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    for one in examples:
        if one.examples:
            (project / "notes.txt").write_text("notes")
            runner.run(one, out=said.append)
    assert said == []
    assert runner.tries > 0


def test_the_reference_says_what_signatures_and_docstrings_say() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "reference_python", "--check"],
        env=dict(os.environ) | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
