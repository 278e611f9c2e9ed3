"""Checkpoints and their files as resources: how one is called, and of which kind its content is."""

from __future__ import annotations

import mimetypes
import os
from urllib.parse import unquote_to_bytes

from mcp_types import ResourceTemplate

from lastgood.errors import NotFound
from lastgood.paths import printable, to_text

SCHEME = "checkpoint://"
JSON = "application/json"
TEMPLATES = (
    ResourceTemplate(
        uri_template="checkpoint://{ref}",
        name="checkpoint",
        description="What a checkpoint holds: its facts, and every path.",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="checkpoint://{ref}/{+path}",
        name="file of a checkpoint",
        description="A file as a checkpoint holds it; known secrets are left out.",
    ),
)
_TEXT = "text/plain"
_BYTES = "application/octet-stream"
# Texts whose kind does not begin with "text/".
_TEXTUAL = frozenset({JSON, "application/javascript", "application/xml", "image/svg+xml"})
# The table that comes with Python, and none that the machine adds to it.
_KINDS = mimetypes.MimeTypes().types_map[True]


def named(uri: str) -> tuple[str, bytes | None]:
    """Return the REF that a URI names, and the path of a file; `NotFound` for one of another form.

    Each byte may be percent-encoded, so that a path that is no UTF-8 has a URI too.
    """
    scheme, rest = uri[: len(SCHEME)], uri[len(SCHEME) :]
    ref, slash, path = rest.partition("/")
    try:
        name, held = unquote_to_bytes(ref).decode("utf-8"), unquote_to_bytes(path)
    except UnicodeError:
        name, held = "", b""
    if scheme.lower() != SCHEME or not name or (slash and not held):
        raise NotFound(
            f"no resource is called {printable(uri)}", hint="it is checkpoint://REF, or checkpoint://REF/PATH"
        )
    return name, held if slash else None


def kind_of(path: bytes, content: str | bytes) -> str:
    """Return the MIME type of a content: what its name says, as far as that is true of it."""
    known = _KINDS.get(os.path.splitext(to_text(path))[1].lower(), "")
    textual = known.startswith("text/") or known in _TEXTUAL
    if isinstance(content, str):
        return known if textual else _TEXT
    return _BYTES if textual or not known else known
