"""The few settings of a repository that decide what its status is; read, never obeyed otherwise."""

from __future__ import annotations

import os

from lastgood.adapters.project.files import read_known
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.adapters.project.repository import Repository

_LIMIT = 1 << 20
_TRUE = frozenset({b"true", b"yes", b"on", b"1"})
_FALSE = frozenset({b"false", b"no", b"off", b"0", b""})
# Settings that this reading does not follow; with them the status cannot be told from here.
_BEYOND = frozenset(
    {b"core.excludesfile", b"core.attributesfile", b"diff.ignoresubmodules", b"core.precomposeunicode"}
)
_UNUSUAL = {b"core.symlinks": False, b"core.ignorecase": True, b"core.bare": True}


class GitSettings(Value):
    """What counts. ``clear`` is False if something else has a say that is not known here.

    ``bare`` is what the repository says of itself; ``worktree`` is where it says its files are.
    """

    modes: bool = True
    line_ends: bool = False
    sparse: bool = False
    bare: bool = False
    worktree: bytes | None = None
    clear: bool = True


def read_settings(found: Repository) -> GitSettings:
    """Return the settings of a worktree."""
    text = read_known(found.common_dir + b"/config", limit=_LIMIT) or b""
    pairs = dict(_pairs(text))
    if pairs.get(b"extensions.worktreeconfig", b"").lower() in _TRUE:
        pairs |= dict(_pairs(read_known(found.git_dir + b"/config.worktree", limit=_LIMIT) or b""))
    return GitSettings(
        modes=pairs.get(b"core.filemode", b"true").lower() not in _FALSE,
        line_ends=pairs.get(b"core.autocrlf", b"false").lower() not in _FALSE,
        sparse=pairs.get(b"core.sparsecheckout", b"false").lower() not in _FALSE,
        bare=pairs.get(b"core.bare", b"false").lower() not in _FALSE,
        worktree=_place(pairs.get(b"core.worktree"), found),
        clear=not any(_beyond(key, value) for key, value in pairs.items()),
    )


def _beyond(key: bytes, value: bytes) -> bool:
    said = value.lower() not in _FALSE
    if key in _UNUSUAL:
        return said == _UNUSUAL[key]
    if key in _BEYOND:
        return key != b"core.precomposeunicode" or said
    odd = key == b"\0" or key.startswith((b"include.", b"includeif."))
    return odd or (key.startswith(b"submodule.") and key.endswith(b".ignore"))


def _place(path: bytes | None, found: Repository) -> bytes | None:
    return None if path is None else os.path.normpath(os.path.join(found.git_dir, path))


def _pairs(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the settings of a configuration file in order; what is not understood under a NUL."""
    section = b""
    for whole in _lines(text):
        line = whole
        if line.startswith(b"["):
            section, closed, line = _head(line)
            if not closed:
                yield b"\0", line
        if not line or line[:1] in b"#;":
            continue
        key, equals, value = line.partition(b"=")
        name = key.strip().lower()
        if b" " in name or b"#" in name or b";" in name:
            yield b"\0", line
            continue
        yield section + b"." + name, _value(value) if equals else b"true"


def _lines(text: bytes) -> Iterator[bytes]:
    whole = text.replace(b"\r\n", b"\n").replace(b"\\\n", b"").removeprefix(b"\xef\xbb\xbf")
    for line in whole.split(b"\n"):
        yield line.strip()


def _head(line: bytes) -> tuple[bytes, bool, bytes]:
    """Return the section that a line opens, whether it is understood, and the rest of the line."""
    name, quote, rest = line[1:].partition(b'"')
    if not quote or b"]" in name:
        name, closed, rest = line[1:].partition(b"]")
        return name.strip().lower(), bool(closed), rest.strip()
    below, closed, rest = rest.rpartition(b'"]')
    return name.strip().lower() + b"." + below, bool(closed), rest.strip()


def _value(text: bytes) -> bytes:
    """Return a value without quotes, escapes and comment."""
    out = bytearray()
    quoted = escaped = False
    for byte in text.strip():
        if escaped:
            out.append({0x6E: 0x0A, 0x74: 0x09, 0x62: 0x08}.get(byte, byte))
            escaped = False
        elif byte == 0x5C:
            escaped = True
        elif byte == 0x22:
            quoted = not quoted
        elif byte in b"#;" and not quoted:
            break
        else:
            out.append(byte)
    return bytes(out).rstrip() if not quoted else bytes(out)
