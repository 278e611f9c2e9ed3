"""Text without known secrets: the store keeps exact bytes, what leaves it is redacted (rule S17)."""

from __future__ import annotations

import re
from functools import lru_cache

from lastgood.rules.secret_shapes import NAMES
from lastgood.rules.secrets import harmless, spans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NAMED = re.compile(rf"(?i)(?:^|[_.\s-])(?:{NAMES}|authorization)$|^[a-z]*(?:password|secret|token|apikey)$")
# The keys of JSON are few and come again and again.
_KEYS = 4096
_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
# What stands between texts in bytes, without and with a length that looks like a letter.
_UNTOLD = re.compile(rb"[^\t\n\r -~]+")
_TOLD = re.compile(rb"[^\t\n\r -~]+[ -~]")
_PART = 4 << 20
_OVERLAP = 1 << 17


def redact(text: str) -> str:
    """Return a text in which every known secret is replaced by ``[redacted: SHAPE]``."""
    found = spans(text, named=True)
    if not found:
        return text
    parts: list[str] = []
    position = 0
    for start, end, shape in found:
        if end <= position:
            continue
        parts += [text[position : max(position, start)], f"[redacted: {shape}]"]
        position = end
    return "".join([*parts, text[position:]])


def redact_value(value: object) -> object:
    """Return a JSON value in which every text is redacted, and what stands under a secret's name too."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {_key(str(key)): _under(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(item) for item in value]
    return value


def redact_lines(content: bytes) -> bytes:
    """Return a transcript without secrets: lines that are JSON stay JSON, those without any as they were."""
    import json

    done: list[bytes] = []
    plain: list[bytes] = []  # lines that are no JSON, together: a key block has several
    for line in content.split(b"\n"):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            plain.append(line)
            continue
        if plain:
            done.append(_redact_bytes(b"\n".join(plain)))
            plain = []
        shown = redact_value(value)
        done.append(line if shown == value else json.dumps(shown, separators=(",", ":")).encode("ascii"))
    if plain:
        done.append(_redact_bytes(b"\n".join(plain)))
    return b"\n".join(done)


def _redact_bytes(content: bytes) -> bytes:
    return redact(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def first_secret(read: Callable[[int, int], bytes], size: int) -> tuple[str, int] | None:
    """Return the first of the secrets that `secrets_in` finds, None if there is none.

    ``read`` returns so many bytes from a place on. A large file is looked at in parts that overlap,
    so that whatever is shorter than half of that is seen whole.
    """
    if size <= _PART + _OVERLAP:
        return next(iter(secrets_in(read(0, size))), None)
    encoding = _WIDE.get(read(0, 2), "latin-1")
    wide = 1 if encoding == "latin-1" else 2

    def text(at: int) -> str:
        return read(at, _PART + _OVERLAP).decode(encoding, "replace")

    places = range(0, size, _PART)
    named = not any("\0" in text(at) for at in places)
    lines = 1
    for at in places:
        part = text(at)
        # What begins before this was seen whole at the end of the part before.
        since = _OVERLAP // wide // 2 if at else 0
        found = next((span for span in spans(part, named=named) if span[0] >= since), None)
        if found is not None:
            return found[2], lines + part.count("\n", 0, found[0])
        lines += part.count("\n", 0, _PART // wide)
    return None


def secrets_in(content: bytes) -> tuple[tuple[str, int], ...]:
    """Return every secret that a file shows: its shape, and the number of the line where it begins.

    In files that are no text only tokens are looked for: a name tells nothing there.
    """
    text = content.decode("utf-16" if content[:2] in _WIDE else "latin-1", "replace")
    found = spans(text, named="\0" not in text)
    lines: list[tuple[str, int]] = []
    position, line, over = 0, 1, -1
    for start, end, shape in found:
        if end <= over:
            continue
        line += text.count("\n", position, start)
        position, over = start, end
        lines.append((shape, line))
    return tuple(lines)


def secret_under(key: str, said: str | bytes) -> tuple[str, int] | None:
    """Return the first secret of a text or bytes in a program's records, None if there is none.

    ``key`` is the name that it stands under, "" without one. In bytes a text may have its length before
    it (msgpack, pickles), which must not be taken for a letter of the text.
    """
    if isinstance(said, str):
        found = secrets_in(said.encode("utf-8", "surrogatepass"))
        if not found and key and _under(key, said) != said:
            return "assigned-secret", 1
        return found[0] if found else None
    for look in (said, _UNTOLD.sub(b" ", said), _TOLD.sub(b" ", said)):
        found = secrets_in(look) if look is said else _tokens_in(look)
        if found:
            return found[0]
    return None


def _tokens_in(content: bytes) -> tuple[tuple[str, int], ...]:
    return tuple((shape, 1) for _, _, shape in spans(content.decode("latin-1"), named=False))


@lru_cache(maxsize=_KEYS)
def _key(key: str) -> str:
    return redact(key)


@lru_cache(maxsize=_KEYS)
def _announces(key: str) -> bool:
    return _NAMED.search(key) is not None


def _under(key: str, value: object) -> object:
    if isinstance(value, str) and len(value) >= 4 and _announces(key) and not harmless(value):
        return "[redacted: assigned-secret]"
    return redact_value(value)
