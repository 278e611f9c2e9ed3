"""What the scan knows of a directory: plain tuples, since there are many of them.

A *row* stands for one entry; the rows of a directory are its *details*. A *record* stands for the
whole directory: as long as its signature fits, its details need not even be loaded.
"""

from __future__ import annotations

from _operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Final, TypeAlias

    from lastgood.literals import GapReason

    # The whole mode, size, modification and change time in nanoseconds, inode.
    Evidence: TypeAlias = tuple[int, int, int, int, int]
    Seen: TypeAlias = Evidence | tuple[()]
    # Name, the same five, object id, state; a directory has no numbers but the mode, and its size is 1
    # if it is to be left out unless something in it is captured.
    Row: TypeAlias = tuple[bytes, int, int, int, int, int, bytes, int]
    # the fields named by the constants below
    Record: TypeAlias = tuple[
        bytes,
        bytes,
        bytes,
        int,
        bytes,
        bytes,
        int,
        int,
        int,
        tuple[tuple[bytes, int, int], ...],
        tuple[bytes, ...],
        tuple[bytes, ...],
        bytes,
        Seen,
        int,
        int,
    ]

evidence: Callable[[os.stat_result], Evidence] = attrgetter(
    "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino"
)

# Fields of a row.
NAME: Final = 0
MODE: Final = 1
SIZE: Final = 2
MTIME: Final = 3
CTIME: Final = 4
INODE: Final = 5
OID: Final = 6
STATE: Final = 7

# States of a row: up to RACY it is captured, from TOO_LARGE to BUDGET it is a gap.
CAPTURED: Final = 0
RACY: Final = 1
IGNORED: Final = 2
HIDDEN: Final = 3
TOO_LARGE: Final = 4
UNREADABLE: Final = 5
UNSUPPORTED: Final = 6
UNSTABLE: Final = 7
BUDGET: Final = 8
VANISHED: Final = 9
REASONS: dict[int, GapReason] = {
    TOO_LARGE: "too-large",
    UNREADABLE: "unreadable",
    UNSUPPORTED: "unsupported",
    UNSTABLE: "unstable",
    BUDGET: "budget",
}
# What may be otherwise the next time although stat says the same.
PASSING = frozenset({RACY, UNREADABLE, UNSTABLE, BUDGET, VANISHED})

# Fields of a record. ABOVE is the token of the rules that the parent handed down, TOKEN that of the
# rules inside; FILES, BYTES and LEFT (ignored entries) count the whole subtree, GAPS (name, state,
# size) and PRIVATE (names) the directory itself; BELOW are the subdirectories to enter; NAMES are those
# that were listed, joined by NUL, and SEEN is what stat said of the directory then, () if that proves
# nothing; START and LENGTH tell where the details lie.
SIGNATURE: Final = 0
ABOVE: Final = 1
TOKEN: Final = 2
FLAGS: Final = 3
TREE: Final = 4
MODES: Final = 5
FILES: Final = 6
BYTES: Final = 7
LEFT: Final = 8
GAPS: Final = 9
PRIVATE: Final = 10
BELOW: Final = 11
NAMES: Final = 12
SEEN: Final = 13
START: Final = 14
LENGTH: Final = 15

# Flags of a record.
DOUBTFUL = 1  # something has to be looked at again whatever stat says
DEPENDENT = 2  # rules ignore some entry here, so that index and previous tree have a say
NESTED = 4  # there is a ``.git``
BARE = 8  # below an ignored directory, and nothing in it is captured

# The token below an ignored directory, where everything is ignored.
BURIED = b"buried"

FORMAT_MASK = 0o170000
FORMAT_DIRECTORY = 0o040000
FORMAT_FILE = 0o100000
FORMAT_LINK = 0o120000
PERMISSIONS = 0o7777
