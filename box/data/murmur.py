"""MurmurHash3 with 32 bits, which Tarantool uses in `digest` and for the ids of prepared statements."""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def murmur3(data: bytes, seed: int) -> int:
    """Return the 32-bit MurmurHash3."""
    state = seed & _MASK
    whole = len(data) & ~3
    for pos in range(0, whole, 4):
        state ^= _mixed(int.from_bytes(data[pos : pos + 4], "little"))
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _MASK
    if len(data) > whole:
        state ^= _mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


def _mixed(block: int) -> int:
    return _rotated(block * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
