"""Generated histories against whole copies: the short form; `scripts/torture` runs the long one."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from faults.conftest import CACHE
from faults.injector import Injector
from tools.long_form import LONG, examples
from workspace.machine import History


def test_no_history_loses_a_byte_or_comes_back_wrong(tmp_path: Path) -> None:
    """Rules S1 to S7, T3, T4, T7 to T10, T15; invariants 3 and 4."""
    chosen = settings(
        max_examples=examples(short=20, long=2000),
        stateful_step_count=40 if LONG else 25,
        deadline=None,
        database=None,
        derandomize=not LONG,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    with Injector(cache=CACHE, scratch=tmp_path) as injector:
        History.injector = injector
        run_state_machine_as_test(History, settings=chosen)
