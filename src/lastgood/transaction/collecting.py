"""Collecting: a new generation first, then bytes that no commit reaches are freed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from lastgood.ports.context import Context


class Collecting:
    """Holds the store alone: the only place from which bytes can be freed."""

    def __init__(self, context: Context, *, wait: float) -> None:
        self._context = context
        self._lock = context.locks.hold_store(wait=wait)

    def __enter__(self) -> Self:
        self._lock.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.__exit__(kind, error, trace)

    def sweep(self, commits: Iterable[str]) -> int:
        """Free what no commit reaches, and return how many bytes that were (invariant 4)."""
        context = self._context
        context.catalogue.set_generation(context.clock.random().hex())
        return context.engine.sweep([bytes.fromhex(commit) for commit in commits])
