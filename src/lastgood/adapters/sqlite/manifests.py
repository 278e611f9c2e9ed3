"""A manifest as its row keeps it: compressed against a text that knows what most manifests say.

The manifest itself, as JSON, lies in the checkpoint's commit; the row has a copy so that lists need not
look there. As text it was two thirds of the catalogue (measured: 1.5 KB a checkpoint, and 0.6 KB so).
"""

from __future__ import annotations

import zlib

from lastgood.adapters.sqlite.faults import REPAIR_HINT
from lastgood.errors import Damaged

# Rows name the text that they were compressed against by their first byte. It can never be changed: a
# better one gets the next number.
_FORM = b"\x01"
_KNOWN = (
    b'"conversation":{"bytes":,"form":"claude-code","messages":,"source":"/.claude/projects/","tree":""},'
    b'"state":{"index":""},"progress":{"features":[{"id":"","passes":true,"title":""}],"position":{"step":1},'
    b'"tasks":[{"attempts":1,"id":"T01","status":"pending","title":""},{"status":"running"},{"status":"done"},'
    b'{"status":"failed"}]},"actor":{"call":null,"name":"claude-code","type":"agent"},"actor":{"call":null,'
    b'"name":null,"type":"tool"},"gaps":[{"path":"","reason":"too-large","size":}],"git":{"branch":'
    b'"refs/heads/main","dirty":[],"head":"","nested":[],"operation":null},"kind":"auto","kind":"turn",'
    b'"kind":"guard","moment":"before","moment":"after","session":"sess_","task":"T{"actor":{"call":null,'
    b'"name":null,"type":"unknown"},"bytes":,"changes":{"added":0,"deleted":0,"modified":10},"created_at":'
    b'"2026-01-01T00:00:00.000Z","created_ns":17,"files":,"forced":[],"gaps":[],"git":null,"id":"ckpt_",'
    b'"ignore":{"excludes":["node_modules",".venv","venv","__pycache__","*.pyc",".mypy_cache",'
    b'".pytest_cache",".ruff_cache",".tox"],"global_exclude":"","includes":["/feature_list.json",'
    b'"/progress.md"],"info_exclude":"","readable":true},"ignored":0,"kind":"manual","message":"",'
    b'"metadata":{},"metrics":{"cpu_seconds":null,"memory_bytes":null,"save_ms":,"session_seconds":null,'
    b'"stored_bytes":,"success_ratio":null,"tasks_done":0,"tasks_failed":0,"tasks_total":0,"tokens":null},'
    b'"modes":"","name":null,"partial":false,"previous":"ckpt_","private":[],"schema":'
    b'"lastgood.manifest/1","sequence":,"tree":"","workspace":"/home/","workspace_key":""}'
)
_LEVEL = 6
_RAW = -15
_LITTLE_MEMORY = 5
# What a damaged row could claim; no manifest comes near this.
_LARGEST = 1 << 28


def pack(text: bytes) -> bytes:
    """Return what a row keeps of a manifest's text."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, _LITTLE_MEMORY, zlib.Z_DEFAULT_STRATEGY, _KNOWN)
    return _FORM + deflate.compress(text) + deflate.flush()


def unpack(value: object) -> bytes | str:
    """Return the text that a row keeps; those of releases before the fourth version have it as it is.

    Raises `Damaged` when it cannot be made out.
    """
    if not isinstance(value, bytes):
        return value if isinstance(value, str) else str(value)
    if value[:1] != _FORM:
        raise _damaged("it has no form that is known")
    inflate = zlib.decompressobj(_RAW, _KNOWN)
    try:
        text = inflate.decompress(value[1:], _LARGEST)
    except zlib.error as error:
        raise _damaged(str(error)) from error
    if not inflate.eof:
        raise _damaged("it ends too early")
    return text


def _damaged(reason: str) -> Damaged:
    return Damaged(f"a manifest in the catalogue cannot be read: {reason}", hint=REPAIR_HINT)
