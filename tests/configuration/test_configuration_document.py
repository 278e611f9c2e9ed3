"""docs/configuration.md says what the table of settings says."""

from __future__ import annotations

import os
import re
import tomllib

from lastgood.cli.wording import size, span
from lastgood.configuration.rules import KEYS, OPEN_TO_PROJECTS, Key, Layer, configured, flattened
from lastgood.model.checkpoint import KINDS
from lastgood.settings import BUILT_IN_EXCLUDES, Settings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def page() -> str:
    with open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8") as file:
        return file.read()


def default_of(known: Key) -> str:
    value = known.default
    if isinstance(value, bool):
        return str(value).lower()
    if known.form == "size" and isinstance(value, int):
        return size(value)
    if known.form == "duration" and isinstance(value, float):
        return span(value)
    if isinstance(value, tuple):
        every = value and value == known.choices
        return "all" if every else ", ".join(f"`{one}`" for one in value) or "empty"
    if value is None:
        return "none"
    return f"`{value}`" if isinstance(value, str) else str(value)


def test_every_setting_has_its_row() -> None:
    rows = [
        f"| `{key}` | {default_of(known)} | {'adds' if key in OPEN_TO_PROJECTS else 'no'} | {known.says} |"
        for key, known in KEYS.items()
        if known.form != "rungs"
    ]
    written = [
        line for line in page().splitlines() if re.match(r"\| `[a-z_.]+` \| [^|]+ \| (adds|no) \|", line)
    ]
    assert written == rows


def test_every_kind_and_every_built_in_exclude_is_named() -> None:
    text = page()
    assert [word for word in (*KINDS, *BUILT_IN_EXCLUDES) if f"`{word}`" not in text] == []


def test_the_example_is_accepted_and_shows_the_defaults() -> None:
    found = re.search(r"```toml\n(.*?)```", page(), re.DOTALL)
    assert found is not None
    values = flattened(tomllib.loads(found.group(1)), source="docs")
    settings = configured([Layer(scope="user", source="docs", values=values)]).settings
    assert settings.auto == Settings().auto
    assert settings.limits == Settings().limits
    assert settings.session_expires_after == Settings().session_expires_after
    assert settings.capture.state_files == Settings().capture.state_files
