"""The environment in which git is run: nothing of the user's, the machine's or the workspace's counts."""

from __future__ import annotations

SEALED: dict[bytes, bytes] = {
    b"LC_ALL": b"C",
    b"HOME": b"/nonexistent",
    b"GIT_CONFIG_NOSYSTEM": b"1",
    b"GIT_CONFIG_GLOBAL": b"/dev/null",
    b"GIT_ATTR_NOSYSTEM": b"1",
    b"GIT_TERMINAL_PROMPT": b"0",
    b"GIT_OPTIONAL_LOCKS": b"0",
    b"GIT_NO_LAZY_FETCH": b"1",
    b"GIT_NO_REPLACE_OBJECTS": b"1",
}
