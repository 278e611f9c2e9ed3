"""What our plugin in opencode tells, driven by Node as opencode's own engine would."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lastgood.hooks.opencode import placed

DRIVER = """
const { Lastgood } = await import("./plugin.mjs")
const told = await Lastgood({ client: {}, directory: "/" })
const prompt = (sessionID, id) => told["chat.message"]({ sessionID }, { message: { id }, parts: [] })
const call = (when, sessionID, callID) =>
  told[`tool.execute.${when}`]({ tool: "bash", sessionID, callID, args: {} }, { args: { command: "make" } })
"""


def said(folder: Path, script: str) -> list[tuple[Any, ...]]:
    """Return what the plugin tells its command while a script has things happen."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    words = ("sh", "-c", "cat >> told; echo >> told", "sh")
    text = placed(words, {"HOME": "/"}, project=None).text_with_tools
    (folder / "plugin.mjs").write_text(text)
    (folder / "driver.mjs").write_text(DRIVER + script)
    subprocess.run([node, "driver.mjs"], cwd=folder, check=True)
    lines = (json.loads(line) for line in (folder / "told").read_text().splitlines())
    return [(one["event"], one["sessionID"], one.get("callID")) for one in lines]


def test_a_prompt_in_one_conversation_leaves_the_calls_of_another(tmp_path: Path) -> None:
    """S22: one opencode works at several; a call of its own that was cut short is over."""
    script = """
    await prompt("one", "m1"); await call("before", "one", "c1")
    await prompt("two", "m2"); await call("after", "one", "c1")
    await call("before", "two", "c2"); await prompt("two", "m3"); await call("after", "two", "c2")
    """
    ends = [one for one in said(tmp_path, script) if one[0] == "tool.execute.after"]
    assert ends == [("tool.execute.after", "one", "c1")]
