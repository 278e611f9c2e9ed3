"""The command, and runs that die."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood as package
from lastgood.workspace import Workspace
from lastgood.workspace.session import OpenSession

Act = Callable[[OpenSession[Workspace]], None]


@pytest.fixture
def died(project: Path, store: Path) -> Callable[..., str]:
    """Return a call that has a process of its own do something in a session, and be killed there."""

    def run(act: Act | None = None, **terms: object) -> str:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            _live_and_die(project, store, act, terms, writing)
        os.close(writing)
        with os.fdopen(reading) as told:
            session = told.read()
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, "the run ended before its end"
        return session

    return run


def _live_and_die(project: Path, store: Path, act: Act | None, terms: dict[str, object], told: int) -> None:
    try:
        opened = package.open(project, store=store, maintenance="off")
        with opened.session(**terms) as session:  # type: ignore[arg-type]  # the terms of a session
            os.write(told, session.id.encode())
            if act is not None:
                act(session)
            os.kill(os.getpid(), signal.SIGKILL)
    except BaseException:  # noqa: BLE001 - a forked child must not go on into pytest
        traceback.print_exc()
    finally:
        os._exit(1)
