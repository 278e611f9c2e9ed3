"""What the bench says of memory is that of who is measured, not of the bench."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LARGE = 64 << 20
BENCH = str(Path(__file__).parent.parent / "bench")


def peak_of(code: str) -> float:
    """Return what is measured of a Python that runs some code."""
    from peak import measured

    return measured([sys.executable, "-c", code], environment=os.environ)[2]


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the modules of the bench found."""
    monkeypatch.syspath_prepend(BENCH)


def test_the_peak_of_a_command_leaves_out_who_started_it() -> None:
    held = b"x" * 2 * LARGE
    assert 0 < peak_of("pass") < LARGE < len(held)


def test_the_peak_of_a_command_is_the_most_that_it_had() -> None:
    assert peak_of(f"held = b'x' * {LARGE}; del held") > LARGE


def test_the_peak_of_a_process_leaves_out_what_it_was_before_it_ran_its_program() -> None:
    again = f"import sys; sys.path.insert(0, {BENCH!r}); import peak; print(peak.own_peak())"
    code = f"import os, sys; held = b'x' * {2 * LARGE}; os.execv(sys.executable, ['python', '-c', {again!r}])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert 0 < int(done.stdout) < LARGE
