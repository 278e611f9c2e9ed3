"""Paths and names at the border: bytes inside, text outside.

A path inside lastgood is ``bytes``, relative to the workspace, ``/``-separated, without a leading
or trailing slash; the workspace itself is ``b""``. Text is UTF-8 with ``surrogateescape``, which is
what ``os.fsdecode`` gives on the platforms supported, so that every name survives the round trip.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

LONGEST_PATH = 4096
# Git of today reads trees in trees so far by default, the checkpoint's own top being one of them
# (core.maxTreeDepth is 2048); git 2.39 ends with a fault of memory from about 3,500 on.
DEEPEST = 2047


def to_text(path: bytes) -> str:
    """Return a path as text; bytes that are not UTF-8 become lone surrogates."""
    return path.decode("utf-8", "surrogateescape")


def to_bytes(path: str) -> bytes:
    """Return a path as bytes, undoing `to_text`."""
    return path.encode("utf-8", "surrogateescape")


def join(directory: bytes, name: bytes) -> bytes:
    """Return the path of an entry of a directory."""
    return directory + b"/" + name if directory else name


def parent(path: bytes) -> bytes:
    """Return the directory that holds a path (``b""`` for the workspace itself)."""
    return path.rpartition(b"/")[0]


def ancestors(path: bytes) -> list[bytes]:
    """Return the directories above a path, outermost first, without the workspace itself."""
    found = []
    end = path.find(b"/")
    while end >= 0:
        found.append(path[:end])
        end = path.find(b"/", end + 1)
    return found


def folded(path: bytes) -> bytes:
    """Return what all spellings of a path have in common that differ in upper and lower case alone."""
    return path.lower() if path.isascii() else to_bytes(to_text(path).casefold())


def unknown(path: bytes, known: Container[bytes]) -> list[bytes]:
    """Return a path and the directories above it up to the nearest known one, outermost first.

    ``b""`` has to be known. Whoever makes these known asks each directory once, however deep it lies.
    """
    found = []
    while path not in known:
        found.append(path)
        path = path.rpartition(b"/")[0]
    found.reverse()
    return found


def ways(paths: Iterable[bytes]) -> set[bytes]:
    """Return the directories above some paths, without the workspace itself."""
    found: set[bytes] = {b""}
    for path in paths:
        found.update(unknown(parent(path), found))
    found.discard(b"")
    return found


class Covering:
    """Tells what some paths say of whatever is at or below them; the outermost counts.

    Directories are remembered, so that of many paths in deep ones each costs one look.
    """

    __slots__ = ("_known", "_places")

    def __init__(self, places: Mapping[bytes, str]) -> None:
        self._places = places
        self._known: dict[bytes, str | None] = {b"": places.get(b"")}

    def at(self, path: bytes) -> str | None:
        """Return what is said of just this path."""
        return self._places.get(path)

    def of(self, path: bytes) -> str | None:
        """Return what is said of a path, None if nothing is."""
        places, known = self._places, self._known
        if not places:
            return None
        above = path.rpartition(b"/")[0]
        for each in unknown(above, known):
            said = known[each.rpartition(b"/")[0]]
            known[each] = places.get(each) if said is None else said
        said = known[above]
        return places.get(path) if said is None else said


def is_beyond(path: bytes) -> bool:
    """Tell whether a path is too long to be kept, or one that a folder in folders could have only."""
    return len(path) > LONGEST_PATH or path.count(b"/") >= DEEPEST


def within(path: bytes, scope: bytes) -> bool:
    """Tell whether a path is the scope itself or lies below it; everything is within ``b""``."""
    return not scope or path == scope or path.startswith(scope + b"/")


def lies_in(path: str, folder: str) -> bool:
    """Tell whether a path as text, with its slash at the beginning, is a folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def printable(text: str) -> str:
    """Return text fit for a terminal: control characters, lone surrogates and direction marks escaped."""
    if text.isprintable() and _DIRECTION.isdisjoint(text):
        return text
    return "".join(ch if ch.isprintable() and ch not in _DIRECTION else _escape(ch) for ch in text)


def quoted(word: bytes | str) -> str:
    """Return a word as a shell takes it; control characters and what is no UTF-8 are spelled out."""
    word = to_text(word) if isinstance(word, bytes) else word
    if printable(word) != word:
        return "$'" + "".join(_spelled_out(ch) for ch in word) + "'"
    if word and all(ch.isalnum() or ch in _PLAIN for ch in word) and not _is_read_otherwise(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def _is_read_otherwise(word: str) -> bool:
    """Tell whether a shell may take a word of plain characters for a home, a program's path or several."""
    if word[0] in "~=" or "=~" in word or ":~" in word:
        return True
    return "{" in word and ("," in word or ".." in word)


def _spelled_out(ch: str) -> str:
    if ch in "'\\":
        return f"\\{ch}"
    return ch if printable(ch) == ch else "".join(f"\\x{byte:02x}" for byte in to_bytes(ch))


# Beside letters and digits, what a shell leaves as it is; not everywhere (`_is_read_otherwise`).
_PLAIN = frozenset("@%+=:,./-_~{}")
_DIRECTION = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _escape(ch: str) -> str:
    code = ord(ch)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# --- Names that mean ``.git`` ---

# What comparison ignores on HFS+ and on ext4 that folds case: Unicode's Default_Ignorable_Code_Point.
_IGNORABLE_RANGES = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)


def is_git_alias(name: bytes) -> bool:
    """Tell whether a name is ``.git``, or could mean it on some file system.

    The aliases are those of NTFS (8.3 names, trailing dots and spaces, streams), of HFS+ and of
    case-folding ext4.
    """
    if name.isascii() and b"\\" not in name and name[:4].lower() not in {b".git", b"git~"}:
        return False
    text = name.decode("utf-8", "surrogateescape").lower()
    plain = "".join(ch for ch in text if ch.isascii() or not _ignorable(ord(ch)))
    return any(_is_ntfs_alias(part) for part in plain.split("\\"))


def _ignorable(code: int) -> bool:
    return any(first <= code <= last for first, last in _IGNORABLE_RANGES)


def _is_ntfs_alias(name: str) -> bool:
    plain = name.partition(":")[0].rstrip(". ")
    return plain == ".git" or (plain.startswith("git~") and plain[4:].isdigit())
