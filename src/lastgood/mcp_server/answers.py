"""What a client is told: documents without known secrets, failures as the error document (rule S17)."""

from __future__ import annotations

import json
import logging
import re
import traceback
from base64 import b64encode
from collections.abc import Callable

from mcp_types import CallToolResult, TextContent
from pydantic import ValidationError

from lastgood.documents import document, error_document
from lastgood.errors import Internal, Invalid, LastgoodError, Unsafe, Usage, crowded
from lastgood.paths import printable
from lastgood.redaction import redact, redact_value, secrets_in
from lastgood.value import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.documents import Document

# Makes the commands in hints those for the workspace and the store that the server was started for.
Complete = Callable[[object], object]
# A longer file is more than a model is told at once.
LONGEST = 1 << 20
# So long is the longest answer of a tool that only looks, in characters of JSON.
MOST = 4 << 20
# Of what is done, or would be, so many paths are told, and as many tasks of the progress: counts have all.
LISTED = 200
# So much is told of a text that somebody chose where it is one of many, or in the midst of a sentence.
LABEL = 500
NAME = 200
# What is wrong is told in no more than this, of so many arguments.
_FAILURE = 2000
_WRONG = 5
_BEYOND_ASCII = re.compile("[^\x20-\x7e]+")
# They are seen as little as what Python calls unprintable, and can spell out whole sentences.
_SELECTORS = range(0xE0100, 0xE01F0)


def told(said: Document, *, complete: Complete, most: int | None = None) -> CallToolResult:
    """Return the answer that a document is: as text, and structured; `Invalid` for one over ``most``."""
    document = shown(said, complete)
    content = _text(document)
    if most is not None and len(content.text) > most:
        raise Invalid(
            f"the answer has {len(content.text):,} characters, too many to be told at once",
            hint="ask for less: for some paths, a lower limit, or without the patch, files or conversation",
        )
    return CallToolResult(content=[content], structured_content=document)


def failed(error: LastgoodError, *, complete: Complete) -> CallToolResult:
    """Return the answer that a failure is.

    As text alone: a client checks what is structured by the schema of a tool that did its work.
    """
    said = cast("Document", clipped(shown(error_document(error), complete), _FAILURE))
    return CallToolResult(content=[_text(said)], is_error=True)


def failure(fault: BaseException | None, *, said: str) -> LastgoodError:
    """Return what went wrong in a tool, as an error of ours; ``said`` is what the SDK says of it."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    if isinstance(fault, LastgoodError):
        return crowded(fault) or fault
    if isinstance(fault, ValidationError):
        errors = fault.errors(include_url=False, include_input=False)
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in errors[:_WRONG])
        wrong += f"; and {len(errors) - _WRONG:,} more" if len(errors) > _WRONG else ""
        return Usage(f"the arguments are not what the tool takes: {wrong}", hint="see its input schema")
    if fault is None:
        return Invalid(said, hint="call the tool again")
    message = f"internal fault: {type(fault).__name__}: {fault}"
    where = "".join(traceback.format_exception(fault))
    logging.getLogger(__name__).error("%s", redact(f"{message}\n{where}"))
    return crowded(fault) or Internal(message, hint="please report it, with what the server's log says")


def content(held: bytes, *, path: str, again: str) -> str | bytes:
    """Return what a file holds, a text without known secrets; `Unsafe` for what cannot be told so.

    ``again`` is the command that prints it whole.
    """
    if len(held) > LONGEST:
        raise Unsafe(
            f"'{path}' holds {len(held):,} bytes, too many for an answer", hint=f"to print it: {again}"
        )
    try:
        return redact(held.decode())
    except UnicodeDecodeError:
        pass
    if secrets_in(held):
        raise Unsafe(f"'{path}' is no text, and holds what looks like a secret", hint=f"to print it: {again}")
    return held


def cat_document(said: Document, held: str | bytes) -> Document:
    """Return the document of a file's content, as `cat --json` tells it."""
    shown = held if isinstance(held, str) else {"bytes": b64encode(held).decode("ascii")}
    return document("cat", said | {"content": shown})


def shown(said: Document, complete: Complete) -> Document:
    """Return a document as a client is told it."""
    return cast("Document", redact_value(complete(said)))


def text_of(said: Document) -> str:
    """Return a document as text, in which what nobody would see is spelled out as JSON has it."""
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() else _BEYOND_ASCII.sub(_seen, text)


def clipped(value: object, most: int) -> object:
    """Return a JSON value in which no text is longer than ``most``."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[: most - 1]}…"
    if isinstance(value, dict):
        return {key: clipped(one, most) for key, one in value.items()}
    return [clipped(one, most) for one in value] if isinstance(value, list | tuple) else value


def listed(value: object) -> object:
    """Return a JSON value in which no list is longer than what is told; ``more`` says how much each goes on.

    What has a reason comes first, a path that stayed or that something is the matter with; of tasks those
    that are not done.
    """
    if isinstance(value, list | tuple):
        return [listed(one) for one in value]
    if not isinstance(value, dict):
        return value
    more = {
        key: len(one) - LISTED
        for key, one in value.items()
        if isinstance(one, list | tuple) and len(one) > LISTED
    }
    few = {key: sorted(value[key], key=_place)[:LISTED] for key in more}
    shown = {key: listed(one) for key, one in (value | few).items()}
    return shown | ({"more": more} if more else {})


def _place(one: object) -> int:
    if not isinstance(one, dict):
        return 1
    return 0 if one.get("reason") else 2 if one.get("state") in {"done", "skipped"} else 1


def plain(text: str) -> str:
    """Return what somebody wrote as a part of a sentence: on one line, short, without known secrets."""
    return cast("str", clipped(printable(redact(text)), NAME))


def quoted(text: str) -> str:
    """Return the same in quotes, so that it is seen where it ends."""
    shown = plain(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown}"'


def _seen(found: re.Match[str]) -> str:
    text = found[0]
    if text.isprintable() and not any(ord(ch) in _SELECTORS for ch in text):
        return text
    return "".join(
        ch if ch.isprintable() and ord(ch) not in _SELECTORS else json.dumps(ch).strip('"') for ch in text
    )


def _text(said: Document) -> TextContent:
    return TextContent(type="text", text=text_of(said))
