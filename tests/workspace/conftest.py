"""What the tests of the verbs share: a verb killed half-way, and a store that loses something."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

Kill = Callable[..., None]


@pytest.fixture
def killed() -> Kill:
    """Return a call of a verb in a child that is killed before its nth event of some kind."""

    def run(verb: Callable[[], object], *, event: str, at: int = 0, path: str = "") -> None:
        child = os.fork()
        if not child:
            left = count()

            def kill(name: str, arguments: tuple[object, ...]) -> None:
                if name == event and path in str(arguments) and next(left) == at:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(kill)
            try:
                verb()
            finally:
                os._exit(0)  # never does a child go on with the tests
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the verb ended before it could be killed"

    return run


@pytest.fixture
def spoil(store: Path) -> Callable[[], None]:
    """Return a call that flips bytes in the middle of every pack."""

    def flip() -> None:
        for pack in (store / "objects.git" / "objects" / "pack").glob("*.pack"):
            content = bytearray(pack.read_bytes())
            for place in range(14, len(content) - 20):
                content[place] ^= 0xFF
            pack.chmod(0o600)
            pack.write_bytes(bytes(content))

    return flip
