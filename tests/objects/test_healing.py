"""A reader whose index is damaged reads by what the pack itself says (rule K4: the rest stays usable)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.objects.engine import GitEngine

BLOBS = [f"content {number}".encode() * 5 for number in range(20)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[GitEngine]:
    (tmp_path / "tmp").mkdir()
    engine = reopened(tmp_path)
    yield engine
    engine.close()


def reopened(folder: Path) -> GitEngine:
    return GitEngine.create(bytes(folder / "objects.git"), temporary=bytes(folder / "tmp"))


def publish(engine: GitEngine, blobs: list[bytes]) -> list[bytes]:
    writer = engine.writer()
    oids = [writer.blob(blob) for blob in blobs]
    writer.publish()
    return oids


def indexes(folder: Path) -> list[Path]:
    return sorted((folder / "objects.git" / "objects" / "pack").glob("*.idx"))


def test_any_flipped_byte_of_an_index_hides_nothing(engine: GitEngine, tmp_path: Path) -> None:
    oids = publish(engine, BLOBS)
    (path,) = indexes(tmp_path)
    sound = path.read_bytes()
    path.chmod(0o600)

    for at in range(8, len(sound), 7):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0x41]) + sound[at + 1 :])
        again = reopened(tmp_path)

        assert [again.read_blob(oid) for oid in oids] == BLOBS, at
        assert again.missing(oids) == set()
        again.close()


def test_packs_whose_indexes_were_swapped_are_read_all_the_same(engine: GitEngine, tmp_path: Path) -> None:
    first, second = publish(engine, BLOBS[:10]), publish(engine, BLOBS[10:])
    one, two = indexes(tmp_path)
    content = one.read_bytes()
    one.chmod(0o600)
    two.chmod(0o600)
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)

    again = reopened(tmp_path)

    assert [again.read_blob(oid) for oid in first + second] == BLOBS
    again.close()
