"""The command, and runs that die."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood as package
from lastgood.workspace import Workspace
from lastgood.workspace.session import OpenSession
from tools.command import Command
from tools.forks import ended, forked

Act = Callable[[OpenSession[Workspace]], None]


@pytest.fixture
def died(project: Path, store: Path) -> Callable[..., str]:
    """Return a call that has a process of its own do something in a session, and be killed there."""

    def run(act: Act | None = None, **terms: object) -> str:
        reading, writing = os.pipe()

        def work() -> None:
            opened = package.open(project, store=store, maintenance="off")
            with opened.session(**terms) as session:  # type: ignore[arg-type]  # the terms of a session
                os.write(writing, session.id.encode())
                if act is not None:
                    act(session)
                os.kill(os.getpid(), signal.SIGKILL)

        child = forked(work)
        os.close(writing)
        with os.fdopen(reading) as told:
            session = told.read()
        assert ended(child) == -signal.SIGKILL, "the run ended before its end"
        return session

    return run


@pytest.fixture
def shell(lastgood: Command) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Return a call that has a shell carry out a script, until that ends however it does."""

    def run(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", script],
            cwd=lastgood.project,
            env=lastgood.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
