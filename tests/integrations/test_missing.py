"""Doors whose own package is not installed say what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lastgood.errors import Unsupported
from lastgood.integrations import Missing

_PROGRAM = """
import sys
sys.modules[sys.argv[1]] = None
try:
    __import__(sys.argv[2])
except ImportError as error:
    print(error.code, "|", error, "|", error.hint)
"""


@pytest.mark.parametrize(
    ("package", "door", "extra"),
    [
        ("langgraph", "langgraph", "langgraph"),
        ("langchain_core", "langgraph", "langgraph"),
        ("ormsgpack", "langgraph", "langgraph"),
        ("claude_agent_sdk", "claude_agent_sdk", "claude-agent-sdk"),
    ],
)
def test_a_door_without_its_package_says_what_to_install(package: str, door: str, extra: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM, package, f"lastgood.integrations.{door}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    code, message, hint = told.split(" | ")
    assert (code, hint) == ("unsupported", f"pip install 'lastgood[{extra}]'")
    assert message.startswith(package)
    assert message.endswith(f"is not installed: {hint}")


def test_a_missing_package_is_unsupported_and_an_import_error() -> None:
    assert issubclass(Missing, Unsupported)
    assert issubclass(Missing, ImportError)
