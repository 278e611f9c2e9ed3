"""A row's copy of a manifest: small, whole, and told as damage where it is not (K4)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.catalogue import Query
from lastgood.catalogue.checkpoints import SqliteCatalogue
from lastgood.catalogue.rows import pack_manifest, unpack_manifest
from lastgood.errors import Damaged
from lastgood.model.checkpoint import Checkpoint, Manifest, encode

Save = Callable[..., Checkpoint]


@given(st.binary(max_size=3000))
def test_any_text_comes_back_as_it_was(text: bytes) -> None:
    assert unpack_manifest(pack_manifest(text)) == text


def test_a_manifest_takes_a_fraction_of_its_text(manifest: Callable[..., Manifest]) -> None:
    text = encode(manifest(1))

    assert len(pack_manifest(text)) < len(text) / 3


def test_a_text_of_an_earlier_release_is_taken_as_it_is() -> None:
    assert unpack_manifest('{"schema":"lastgood.manifest/1"}') == '{"schema":"lastgood.manifest/1"}'


@pytest.mark.parametrize(
    "kept", [b"", b"\x01", b"\x02abc", pack_manifest(b"a text")[:-1], b"\x01\xff\xff\xff\xff"]
)
def test_what_cannot_be_made_out_is_damage(kept: bytes) -> None:
    with pytest.raises(Damaged, match="manifest"):
        unpack_manifest(kept)


def test_a_manifest_that_cannot_be_made_out_hides_no_other_checkpoint(
    catalogue: SqliteCatalogue, save: Save
) -> None:
    """K4."""
    for number in range(1, 4):
        save(number)
    other = sqlite3.connect(catalogue.path, isolation_level=None)
    other.execute("UPDATE checkpoint SET manifest = x'01ff' WHERE sequence = 2")
    other.close()

    third, second, first = catalogue.find(Query())

    assert (third.damaged, first.damaged) == (None, None)
    assert second.damaged is not None
    assert second.manifest.id == f"ckpt_{2:016x}"
    assert "checkpoint ckpt_0000000000000002" in str(catalogue.fault())
