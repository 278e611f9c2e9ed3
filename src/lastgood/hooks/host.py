"""What the module of a host tells of it: its events, its replies, what belongs into its settings."""

from __future__ import annotations

from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from lastgood.hooks.event import EventKind, HookEvent

    class Host(Protocol):
        """A module of this package, as `lastgood.hooks.table` finds it."""

        NAME: str
        TITLE: str

        def is_from_it(self, payload: Mapping[str, object]) -> bool:
            """Tell by its shape whether a payload comes from this host."""

        def event_of(
            self, payload: Mapping[str, object], environment: Mapping[str, str], *, caller: int
        ) -> HookEvent | None:
            """Return what a payload tells of; None of what makes no checkpoint.

            ``caller`` is the process that was told: the host is above it.
            """

        def told(self, message: str) -> Mapping[str, object] | None:
            """Return the reply that shows a person a message; None where the host shows what is an error."""

        def refused(self, message: str) -> Mapping[str, object]:
            """Return the reply that keeps a tool from being used."""

        def informed(self, kind: EventKind, text: str) -> Mapping[str, object] | None:
            """Return the reply that tells an agent something; None if it takes nothing at such an event."""

        def placed(
            self, words: tuple[str, ...], environment: Mapping[str, str], *, project: str | None
        ) -> Placed:
            """Return what starts a program by some words, for a user or a project; `Usage` without a home."""

        def advice(self, *, project: bool) -> tuple[str, ...]:
            """Return what a person has to know, or to do, before the host takes the hooks."""

        def doubt(self, settings: Mapping[str, object]) -> str | None:
            """Return why the host does not take the hooks that are in its settings, if so."""


class Placed(Value):
    """Where hooks belong: entries by event, under ``hooks`` in a JSON file, or whole files of our own.

    ``empty`` is what the JSON file says where there is none. Of our own files all say ``text``, and they are
    programs if ``executable``. ``with_tools`` are the entries where calls of tools are to be told of too, and
    ``text_with_tools`` is the text; nothing where the host does not tell them apart.
    """

    file: str
    entries: Mapping[str, object] = {}
    with_tools: Mapping[str, object] = {}
    empty: str = "{}\n"
    own: tuple[str, ...] = ()
    text: str = ""
    text_with_tools: str = ""
    executable: bool = False
