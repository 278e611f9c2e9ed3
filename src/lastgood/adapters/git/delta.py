"""Git's deltas (gitformat-pack(5)): copies from a base and insertions, with both sizes in front."""

from __future__ import annotations

# A delta of a few bytes can claim any size; none of ours comes near this.
LARGEST_RESULT = 1 << 30


def apply_delta(base: bytes, delta: bytes) -> bytes:
    """Return what a delta makes of its base; ValueError when it is malformed or does not fit."""
    base_size, at = _varint(delta, 0)
    size, at = _varint(delta, at)
    if base_size != len(base):
        raise ValueError("a delta expects another base")
    if size > LARGEST_RESULT:
        raise ValueError("a delta claims an absurd size")
    parts: list[bytes] = []
    left, end = size, len(delta)
    while at < end:
        order = delta[at]
        at += 1
        if order & 0x80:
            offset, length, at = _copy(delta, order, at)
            part = base[offset : offset + length]
        else:
            length = order
            part = delta[at : at + length]
            at += length
        left -= length
        if len(part) != length or left < 0 or not order:
            raise ValueError("a delta reaches beyond its base or itself")
        parts.append(part)
    if left:
        raise ValueError("a delta makes less than it claims")
    return b"".join(parts)


def result_size(delta: bytes) -> int:
    """Return the size that a delta claims to make, from its first bytes; ValueError if malformed."""
    _, at = _varint(delta, 0)
    return _varint(delta, at)[0]


def _copy(delta: bytes, order: int, at: int) -> tuple[int, int, int]:
    values = 0
    for bit in range(7):
        if order >> bit & 1:
            if at >= len(delta):
                raise ValueError("a delta is cut short")
            values |= delta[at] << 8 * bit
            at += 1
    return values & 0xFFFFFFFF, values >> 32 or 0x10000, at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(content):
            raise ValueError("a delta is cut short")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("a size in a delta is absurd")
