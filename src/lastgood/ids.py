"""The forms of ids: minted from random bytes, never reused, the same for ever (invariant 7).

Beside them the variables by which a process is told for whom it works.
"""

from __future__ import annotations

import sys
from _sha1 import sha1 as _builtin_sha1

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from mmap import mmap
    from typing import Protocol

    class Digest(Protocol):
        """A running SHA-1."""

        def update(self, piece: bytes, /) -> None:
            """Go on over more bytes."""

        def digest(self) -> bytes:
            """Return the 20 bytes over all so far."""


_HEX = frozenset("0123456789abcdef")

CHECKPOINT_PREFIX = "ckpt_"
ID_DIGITS = 16
SHORT_DIGITS = 8
LEAST_DIGITS = 4
NAME_LIMIT = 100
# The variable by which a process is told the session that it works in.
SESSION_VARIABLE = "LASTGOOD_SESSION"
# What agents set in the environment of the commands that they start.
AGENTS = {
    "CLAUDECODE": "claude-code",
    "CLINE_ACTIVE": "cline",
    "CLINE_CONNECTOR_CLI_LAUNCH": "cline",  # its command line; the other is that of its extension
    "CODEX_SANDBOX": "codex",
    "CODEX_SANDBOX_NETWORK_DISABLED": "codex",
    "CODEX_THREAD_ID": "codex",
    "CURSOR_AGENT": "cursor",
    "GEMINI_CLI": "gemini-cli",
    "OPENCODE": "opencode",
}


def checkpoint_id(random: bytes) -> str:
    """Return a checkpoint id from eight random bytes."""
    return CHECKPOINT_PREFIX + random.hex()


def operation_id(random: bytes) -> str:
    """Return an operation id from eight random bytes."""
    return "op_" + random.hex()


def is_operation_id(text: str) -> bool:
    """Tell whether a text is a whole operation id."""
    digits = text.removeprefix("op_")
    return text.startswith("op_") and len(digits) == ID_DIGITS and _HEX.issuperset(digits)


def session_id(random: bytes) -> str:
    """Return a session id from eight random bytes."""
    return "sess_" + random.hex()


def effect_id(random: bytes) -> str:
    """Return the id of a step of the work from eight random bytes."""
    return "step_" + random.hex()


def plan_id(digest: bytes) -> str:
    """Return a plan id from the digest of what the plan would do."""
    return "plan_" + digest[:8].hex()


def short(checkpoint: str) -> str:
    """Return the short form of a checkpoint id, as shown in lists."""
    return checkpoint[: len(CHECKPOINT_PREFIX) + SHORT_DIGITS]


def is_checkpoint_id(text: str) -> bool:
    """Tell whether a text is a whole checkpoint id."""
    digits = text.removeprefix(CHECKPOINT_PREFIX)
    return text.startswith(CHECKPOINT_PREFIX) and len(digits) == ID_DIGITS and _HEX.issuperset(digits)


def id_prefix(text: str) -> str | None:
    """Return the hex digits if a text may begin an id (at least four, ``ckpt_`` optional)."""
    digits = text.removeprefix(CHECKPOINT_PREFIX)
    if LEAST_DIGITS <= len(digits) <= ID_DIGITS and _HEX.issuperset(digits):
        return digits
    return None


def is_bare_id(text: str) -> bool:
    """Tell whether a text is all the digits of a checkpoint's id; earlier versions took it for a name."""
    return len(text) == ID_DIGITS and _HEX.issuperset(text)


def name_fault(name: str) -> str | None:
    """Return why a text cannot be a checkpoint's name, or None when it can."""
    rules = (
        (1 <= len(name) <= NAME_LIMIT, f"a name has 1 to {NAME_LIMIT} characters"),
        (name[:1].isalnum(), "a name begins with a letter or digit"),
        (":" not in name and "@" not in name, "a name has no ':' and no '@'"),
        (".." not in name, "a name has no '..'"),
        (name.isprintable(), "a name has no control characters"),
        (name != "latest", "'latest' already means the newest checkpoint"),
        (not _like_an_id(name), "a name must not look like an id"),
    )
    return next((fault for fine, fault in rules if not fine), None)


def _like_an_id(name: str) -> bool:
    return is_bare_id(name) or (name.startswith(CHECKPOINT_PREFIX) and id_prefix(name) is not None)


# --- SHA-1, which names git's objects: OpenSSL's is eight times quicker, behind an import of 3 ms ---

# From so many bytes on the import pays for itself; it costs nothing where somebody has made it.
SHA1_SWITCH = 1 << 20


def sha1_for(size: int) -> Callable[[bytes | mmap | memoryview], Digest]:
    """Return what starts a SHA-1 over a first piece; about ``size`` bytes are going to be hashed."""
    if size < SHA1_SWITCH and "_hashlib" not in sys.modules:
        builtin: Callable[[bytes | mmap | memoryview], Digest] = _builtin_sha1
        return builtin
    import hashlib

    return lambda head: hashlib.sha1(head, usedforsecurity=False)
