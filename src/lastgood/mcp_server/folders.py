"""Which folder a call is about: the one that the server was started for, or one that the client has open."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import ListRoots
from mcp.shared.exceptions import MCPError
from mcp_types import ListRootsRequest, ListRootsResult
from mcp_types.version import is_version_at_least
from pydantic import ValidationError

from lastgood.errors import Usage
from lastgood.paths import printable
from lastgood.value import cast

WORKSPACE = "The folder that is meant, by its path or name, where the client has several open."
# How long a client that was silent twice is let be, in seconds; each time in a row twice as long as before.
_REST, _LONGEST_REST = 10.0, 600.0
# From here on what a server asks is part of its answer.
_STATELESS = "2026-07-28"


async def asked_roots(context: Context[Any, Any]) -> ListRoots | ListRootsResult | None:
    """Return what the client has open, or what asks it for that; None for one that tells nothing of it."""
    told, folders = context.client_capabilities, cast("Folders", vars(context.mcp_server)["folders"])
    if told is None or told.roots is None or folders.bound:
        return None
    if is_version_at_least(str(context.protocol_version), _STATELESS):
        return ListRoots()
    client = context.session.client_params  # the same object for as long as it is connected
    if not folders.may_ask(client):
        return None
    try:
        with anyio.fail_after(folders.patience):
            told_now = await context.session.send_request(ListRootsRequest(), ListRootsResult)
    except TimeoutError:
        folders.heard(client, nothing=True)
        return None
    except (MCPError, ValidationError):
        told_now = None
    folders.heard(client)
    return cast("ListRootsResult | None", told_now)


class Folders:
    """The folders that the client has open, as it told last.

    Where the server is ``bound`` to the folder that it was ``started`` for, what a client has open counts
    for nothing.
    """

    def __init__(self, started: str, *, bound: bool) -> None:
        self.bound = bound
        self._started = os.path.realpath(started)
        self._open: tuple[str, ...] = ()
        # How long an answer is waited for, in seconds.
        self.patience: float = 5.0
        # The client that was asked last and did not answer in time, how often so in a row, and when it is to
        # be asked again.
        self._silent: object = None
        self._unanswered = 0
        self._again = 0.0

    def may_ask(self, client: object) -> bool:
        """Tell whether a client is to be asked: one that never answers must not hold up every call."""
        return client is None or client is not self._silent or time.monotonic() >= self._again

    def heard(self, client: object, *, nothing: bool = False) -> None:
        """Take note that a client answered, or that ``nothing`` came of a question in time.

        The next call asks again; after a second silence it is longer and longer until one does.
        """
        if not nothing:
            self._silent = None
            return
        self._unanswered = self._unanswered + 1 if client is self._silent else 1
        self._silent = client
        rest = 0.0 if self._unanswered == 1 else _REST * 2 ** (self._unanswered - 2)
        self._again = time.monotonic() + min(rest, _LONGEST_REST)

    def take(self, roots: ListRootsResult | None) -> None:
        """Take note of what the client has open; of one that tells nothing now, what it told last counts."""
        if roots is None:
            return
        found = [_path_of(str(one.uri)) for one in roots.roots]
        self._open = tuple(dict.fromkeys(os.path.realpath(one) for one in found if one))

    @property
    def all(self) -> tuple[str | None, ...]:
        """Every folder that may be meant; None is the one that the server was started for."""
        return tuple(map(self._or_started, self._open)) or (None,)

    def chosen(self, wanted: str | None) -> str | None:
        """Return the folder that is meant, None for the one that the server was started for.

        Where several may be, one has to be named: what another folder's agent did is not to be taken back.
        """
        known = self._open or (self._started,)
        if wanted is not None:
            fitting = [one for one in known if wanted in {one, os.path.basename(one)}]
            if not fitting and os.path.isabs(wanted):
                fitting = [one for one in known if os.path.realpath(wanted) == one]
        else:
            fitting = list(known)
        if len(fitting) == 1:
            return self._or_started(fitting[0])
        raise _not_one(fitting or known, wanted)

    def check(self, planned: str | None, wanted: str | None, *, at: str) -> None:
        """Raise `Usage` unless the folder of a plan, which is ``at`` a path, is open still, and meant."""
        if planned not in self.all:
            raise Usage(
                f"the plan is for {printable(at)}, which is not open here any more",
                hint="make a plan for a folder that is open",
            )
        if wanted is not None and self.chosen(wanted) != planned:
            raise Usage(
                f"the plan is for {printable(at)}, and not for '{printable(wanted)}'",
                hint=f"make one there: plan_restore with workspace='{printable(wanted)}'",
            )

    def _or_started(self, folder: str) -> str | None:
        # In the one that the server was started in the project is looked for.
        return None if folder == self._started else folder


def _not_one(known: Sequence[str], wanted: str | None) -> Usage:
    shown = ", ".join(map(printable, known))
    if wanted is None:
        message = f"the client has {len(known)} folders open, and it was not said which is meant: {shown}"
    else:
        message = f"'{printable(wanted)}' is not one folder of those that are open here: {shown}"
    return Usage(message, hint=f"call it again with workspace='{printable(known[0])}', or another of them")


def _path_of(uri: str) -> str | None:
    """Return the folder that a root names, None for one that is not on this machine."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        return None
    return os.fsdecode(unquote_to_bytes(parts.path)) or None
