"""Export files taken apart and put together again, as a stranger could."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any


def members_of(parcel: Path) -> dict[str, bytes]:
    with tarfile.open(parcel) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]


def rebuilt(path: Path, members: dict[str, bytes], *, reseal: bool = True) -> Path:
    """Write members as an export, its checksums and sizes made to fit."""
    import hashlib

    from lastgood.exchange import archive

    members = dict(members)
    if reseal:
        header = json.loads(members["lastgood.json"])
        for key, name in (("facts", "facts.jsonl"), ("pack", "objects.pack")):
            header[key]["bytes"] = len(members[name])
            header[key]["sha256"] = hashlib.sha256(members[name]).hexdigest()
        members["lastgood.json"] = json.dumps(header).encode()
        names = ("lastgood.json", "facts.jsonl", "objects.pack")
        members["SHA256SUMS"] = b"".join(
            archive._line(hashlib.sha256(members[name]).hexdigest(), name.encode()) for name in names
        )
    path.write_bytes(
        b"".join(
            piece
            for name, content in members.items()
            for piece in archive._member(name.encode(), len(content), [content])
        )
        + bytes(1024)
    )
    return path


def facts_of(members: dict[str, bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in members["facts.jsonl"].splitlines()]


def lines(facts: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in facts)
