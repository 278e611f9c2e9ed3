"""Whatever is done to a ledger, it holds what a dict of dicts would, and proves whole."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

import lastgood
from lastgood.ledger import LedgerReader, LedgerWriter

NAMES = st.sampled_from(["a", "b", "ä", ""])
KEYS = st.sampled_from([f"key {number}" for number in range(6)])
VALUES = st.one_of(
    st.integers(),
    st.text(max_size=20),
    st.integers(0, 40).map(lambda n: [{"n": x, "t": "x" * 200} for x in range(n)]),
)


class Ledgers(RuleBasedStateMachine):
    """A ledger, opened anew now and then, and the dicts that it should equal."""

    done = Bundle("done")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        os.mkdir(f"{self.folder.name}/project")
        self.books: dict[str, dict[str, Any]] = {}
        self.open()

    def open(self) -> None:
        self.workspace = lastgood.open(
            f"{self.folder.name}/project",
            store=f"{self.folder.name}/store",
            maintenance="off",
            environment={"HOME": f"{self.folder.name}/home"},
        )
        self.ledger = self.workspace.ledger("test")

    @rule(book=NAMES, key=KEYS, value=VALUES)
    def put(self, book: str, key: str, value: object) -> None:
        self.ledger.change(lambda page: page.put(book, key, mark=key, head=key, body=value))
        self.books.setdefault(book, {})[key] = value

    @rule(book=NAMES, keys=st.lists(KEYS, max_size=3))
    def drop(self, book: str, keys: list[str]) -> None:
        self.ledger.change(lambda page: page.drop(book, keys))
        for key in keys:
            self.books.get(book, {}).pop(key, None)

    @rule(book=NAMES)
    def drop_book(self, book: str) -> None:
        self.ledger.change(lambda page: page.drop_book(book))
        self.books.pop(book, None)

    @rule(book=NAMES, to=NAMES)
    def copy(self, book: str, to: str) -> None:
        self.ledger.change(lambda page: page.copy_book(book, to=to))
        if book in self.books:
            self.books[to] = dict(self.books[book])

    @rule(book=NAMES, key=KEYS, value=VALUES)
    def fail(self, book: str, key: str, value: object) -> None:
        def half(page: LedgerWriter) -> None:
            page.put(book, key, body=value)
            page.drop_book(book)
            raise InterruptedError

        try:
            self.ledger.change(half)
        except InterruptedError:
            return

    @rule()
    def reopen(self) -> None:
        self.workspace.close()
        self.open()

    @rule()
    def accept(self) -> None:
        self.ledger.accept()

    @invariant()
    def it_equals_the_dicts(self) -> None:
        def read(page: LedgerReader) -> dict[str, dict[str, object]]:
            return {name: {one.key: page.body(one) for one in page.entries(name)} for name in page.books()}

        assert self.ledger.look(read) == self.books

    def teardown(self) -> None:
        assert self.workspace.verify().faults == ()
        self.workspace.close()
        self.folder.cleanup()


TestLedgers = Ledgers.TestCase
TestLedgers.settings = settings(
    max_examples=8, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
