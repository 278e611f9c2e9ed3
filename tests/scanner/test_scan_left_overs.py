"""What a restore left under a name of its own is no file of anybody's while that is known (rule T12b)."""

from __future__ import annotations

import time

import pytest

from tools.desk import Desk

OPERATION = "op_0123456789abcdef"
OURS = (f".lastgood-{OPERATION}-1", f".lastgood-{OPERATION}-22.old")
OTHERS = (
    f".lastgood-{OPERATION}-1.old.bak",
    f".lastgood-{OPERATION}-",
    f".lastgood-{OPERATION}-x",
    ".lastgood-op_fedcba9876543210-1",
    ".lastgood",
)


def test_just_the_names_of_the_restores_that_left_some_are_left_out(desk: Desk) -> None:
    for name in (*OURS, *OTHERS):
        desk.write(f"sub/{name}")
    desk.write(f"sub/.lastgood-{OPERATION}-3.aside/inside")

    scan = desk.scan(left_by=(OPERATION,))

    assert desk.names(scan) == {"sub", *(f"sub/{name}" for name in OTHERS)}
    assert set(scan.left_out(b"sub")) == {
        *(name.encode() for name in OURS),
        f".lastgood-{OPERATION}-3.aside".encode(),
    }


@pytest.mark.parametrize("forced", [(), (f"sub/{OURS[0]}".encode(), b"sub")])
def test_what_is_forced_holds_no_such_name_either(desk: Desk, forced: tuple[bytes, ...]) -> None:
    desk.write(f"sub/{OURS[0]}")
    desk.write("sub/file")
    assert desk.names(desk.scan(left_by=(OPERATION,), forced=forced)) == {"sub", "sub/file"}


def test_a_scan_cache_proves_nothing_about_such_names_when_that_changes(desk: Desk) -> None:
    """K6: the directory itself is as it was."""
    desk.write(f"sub/{OURS[0]}")
    desk.write("sub/file")
    time.sleep(0.06)  # so that the cache proves what it holds
    few, all_of_them = {"sub", "sub/file"}, {"sub", "sub/file", f"sub/{OURS[0]}"}
    for left_by, names in (((OPERATION,), few), ((), all_of_them), ((OPERATION,), few)):
        assert desk.names(desk.save(left_by=left_by)) == names
        assert desk.names(desk.save(left_by=left_by)) == names
