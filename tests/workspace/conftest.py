"""What the tests of the verbs share: a verb killed half-way, and a store that loses something."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.forks import die_before, ended, forked
from tools.harm import packs_of

Kill = Callable[..., None]


@pytest.fixture
def killed() -> Kill:
    """Return a call of a verb in a child that is killed before its nth event of some kind."""

    def run(verb: Callable[[], object], *, event: str, at: int = 0, path: str = "") -> None:
        def work() -> None:
            die_before(event, path=path, at=at)
            verb()

        assert ended(forked(work)) == -signal.SIGKILL, "the verb ended before it could be killed"

    return run


@pytest.fixture
def spoil(store: Path) -> Callable[[], None]:
    """Return a call that flips bytes in the middle of every pack."""

    def flip() -> None:
        for pack in packs_of(store):
            content = bytearray(pack.read_bytes())
            for place in range(14, len(content) - 20):
                content[place] ^= 0xFF
            pack.chmod(0o600)
            pack.write_bytes(bytes(content))

    return flip
