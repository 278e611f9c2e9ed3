"""How often somebody looks at a file by its path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def looks_at(path: str | Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note each time that `os.stat` is asked for a path."""
    found: list[str] = []
    stat = os.stat

    def looked(asked: int | str | bytes | os.PathLike[str], **words: object) -> os.stat_result:
        if not isinstance(asked, int) and os.fsencode(asked) == os.fsencode(path):
            found.append(str(path))
        return stat(asked, **words)  # type: ignore[arg-type] # as it was called

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", looked)
        yield found
