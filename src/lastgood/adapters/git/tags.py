"""A tag for each checkpoint, all in ``packed-refs``: a convenience for people with git, never read by us."""

from __future__ import annotations

import os

from lastgood.adapters.git.files import storage, sync_directory
from lastgood.adapters.git.repository import write_whole
from lastgood.errors import NoRoom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from lastgood.adapters.git.repository import Layout

_FILE = b"packed-refs"
_FIRST_LINE = b"# pack-refs with: peeled fully-peeled sorted \n"
_PREFIX = b"refs/tags/"


def encode_tags(tags: Mapping[bytes, bytes]) -> bytes:
    """Return the file for tags: names to commits."""
    lines = [b"%b %b%b\n" % (tags[name].hex().encode(), _PREFIX, name) for name in sorted(tags)]
    return _FIRST_LINE + b"".join(lines)


def decode_tags(content: bytes) -> dict[bytes, bytes]:
    """Return the tags in a file; ValueError when it holds anything else."""
    tags: dict[bytes, bytes] = {}
    for line in content.splitlines():
        if line.startswith((b"#", b"^")):
            continue
        digits, _, name = line.partition(b" ")
        if len(digits) != 40 or not name.startswith(_PREFIX):
            raise ValueError("a line is no tag")
        tags[name[len(_PREFIX) :]] = bytes.fromhex(digits.decode("ascii"))
    return tags


def read_tags(layout: Layout) -> dict[bytes, bytes]:
    """Return the tags there are; OSError, and ValueError when the file is damaged."""
    try:
        descriptor = os.open(layout.root + b"/" + _FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    with open(descriptor, "rb") as stream:
        return decode_tags(stream.read())


def write_tags(layout: Layout, tags: Mapping[bytes, bytes]) -> None:
    """Make the tags exactly these, durably; `Storage`."""
    try:
        if _same(layout, tags):
            return
        write_whole(layout, _FILE, encode_tags(tags))
    except OSError as error:
        raise storage(error, doing="writing the tags", at=layout.root) from error


def keep_tags(layout: Layout, live: Container[bytes]) -> None:
    """Drop the tags of commits that are about to be freed; a damaged file is dropped whole; `Storage`."""
    try:
        tags = read_tags(layout)
    except ValueError:
        tags = {b"": b""}
    except OSError as error:
        raise storage(error, doing="reading the tags", at=layout.root) from error
    kept = {name: commit for name, commit in tags.items() if commit in live}
    if kept == tags:
        return
    try:
        write_tags(layout, kept)
    except NoRoom:  # then there are none until maintenance writes them again
        _drop(layout)


def _drop(layout: Layout) -> None:
    try:
        os.unlink(layout.root + b"/" + _FILE)
        sync_directory(layout.root)
    except OSError as error:
        raise storage(error, doing="removing the tags", at=layout.root) from error


def _same(layout: Layout, tags: Mapping[bytes, bytes]) -> bool:
    try:
        return read_tags(layout) == tags and os.path.lexists(layout.root + b"/" + _FILE)
    except ValueError:
        return False
