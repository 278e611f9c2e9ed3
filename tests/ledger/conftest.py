"""A ledger, and a hand that writes into its file behind its back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

import pytest

import lastgood
from lastgood.ledger import Ledger


class Forge(Protocol):
    """Changes the file of the ledger as somebody without the key can."""

    def __call__(self, *statements: str) -> None: ...


@pytest.fixture
def reopened(project: Path, store: Path) -> Iterator[Callable[[], Ledger]]:
    """Return a call that opens the ledger as another process would."""
    with ExitStack() as opened:

        def reopen() -> Ledger:
            return opened.enter_context(lastgood.open(project, store=store, maintenance="off")).ledger("test")

        yield reopen


@pytest.fixture
def ledger(reopened: Callable[[], Ledger]) -> Ledger:
    """Return a ledger with a book of five entries, and another one."""
    opened = reopened()
    for number in range(5):
        opened.change(lambda book, n=number: put(book, "book", n))  # type: ignore[misc]
    opened.change(lambda book: book.put("other", "only", head="of another book", body=["z" * 400]))
    return opened


def put(book: object, name: str, number: int) -> None:
    """Write one entry."""
    text = f"text {number} " * 60
    book.put(name, f"key {number}", mark="odd" if number % 2 else None, head={"n": number}, body=[text])  # type: ignore[attr-defined]


@pytest.fixture
def forge(store: Path) -> Forge:
    """Return a call that carries out SQL on the ledger's file."""

    def carry_out(*statements: str) -> None:
        with closing(sqlite3.connect(store / "ledger.sqlite3")) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return carry_out
