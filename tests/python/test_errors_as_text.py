"""Whoever sees only the text of an error sees what to do next, too."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest

import lastgood


def test_the_text_of_an_error_has_its_hint() -> None:
    assert str(lastgood.NotFound("there is no x", hint="see: lastgood list")) == (
        "there is no x\nhint: see: lastgood list"
    )
    assert str(lastgood.NotFound("there is no x")) == "there is no x"


def test_a_traceback_shows_the_hint_once(tmp_path: Path) -> None:
    with (
        lastgood.open(tmp_path, store=tmp_path.parent / "store", allow_root=True) as workspace,
        pytest.raises(lastgood.NotFound) as caught,
    ):
        workspace.get("nowhere")

    shown = "".join(traceback.format_exception(caught.value))
    assert caught.value.hint
    assert shown.count(caught.value.hint) == 1


def test_an_error_that_was_pickled_says_the_same() -> None:
    error = lastgood.Busy("held", hint="wait")

    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_wrong_call_is_a_type_error_as_it_is_in_python(tmp_path: Path) -> None:
    with (
        lastgood.open(tmp_path, store=tmp_path.parent / "store", allow_root=True) as workspace,
        pytest.raises(TypeError, match="the goal is int"),
    ):
        workspace.session_start(goal=3)  # type: ignore[arg-type]
