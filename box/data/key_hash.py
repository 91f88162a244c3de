"""Hashes of keys, as Tarantool's HASH indexes compute them from 32-bit MurmurHash3.

```
one unsigned field           the number itself; one of more than 32 bits is folded
anything else                the hash of the parts, one after the other:
    strings                  their bytes without the MessagePack header, or the collation's sort key
    whole numbers            an integer's MessagePack, also for 2.0
    other values             their MessagePack
```

A hash is made of a sort key (`box.data.keydef`). Keys that are equal although their types differ have other hashes in
Tarantool, too: a decimal and an integer, decimals of different scales. Source: `box/tuple_hash.cc` of the 2.8 line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import mmh3

from box.data.codec import pack
from box.data.keydef import NAN, PartDef, SortKey
from box.data.types import FieldType

_SEED: Final = 13
_MASK: Final = 0xFFFFFFFF
_UUID_HEADER: Final = b"\xd8\x02"
"""An extension of 16 bytes (d8) with the type 2."""
_INTEGERS_END: Final = 2**64
_INTEGERS_BEGIN: Final = -(2**63)
_TEXT_CLASS: Final = 3
_NUMBER_CLASS: Final = 2
_DATETIME_CLASS: Final = 6
"""Classes in the sort keys of `scalar`; see `box.data.keydef`."""


def key_hasher(parts: tuple[PartDef, ...]) -> Callable[[SortKey], int]:
    """Return a function from the sort key of these parts, none of which is nullable, to its hash of 32 bits."""
    first = parts[0]
    if len(parts) > 1:
        encoders = tuple(map(_encoder, parts))
        return lambda key: _murmur(b"".join([encode(value) for encode, value in zip(encoders, key, strict=True)]))
    if first.type is FieldType.UNSIGNED and not first.path:
        return _folded
    if first.type is FieldType.STRING:
        return _murmur
    encode = _encoder(first)
    return lambda key: _murmur(encode(key))


def _murmur(data: bytes) -> int:
    return mmh3.hash(data, _SEED, signed=False)


def _folded(value: int) -> int:
    return value if value <= _MASK else (value >> 33 ^ value ^ value << 11) & _MASK


def _encoder(part: PartDef) -> Callable[[Any], bytes]:
    """Return a function from a part's sort key to the bytes that are hashed."""
    if part.type is FieldType.STRING:
        return bytes
    if part.type in (FieldType.NUMBER, FieldType.DOUBLE):
        return _number
    if part.type is FieldType.SCALAR:
        return _scalar
    if part.type is FieldType.UUID:
        return lambda value: _UUID_HEADER + value.to_bytes(16, "big")
    if part.type is FieldType.DATETIME:
        return _datetime
    return pack


def _number(value: Any) -> bytes:
    if value is NAN:
        return pack(float("nan"))
    if type(value) is float and value.is_integer() and _INTEGERS_BEGIN <= value < _INTEGERS_END:
        return pack(int(value))
    return pack(value)


def _datetime(value: int) -> bytes:
    # Tarantool 2.8 has no datetimes, so there is no order to be kept.
    return str(value).encode()


def _scalar(key: tuple[int, Any]) -> bytes:
    kind, value = key
    if kind == _TEXT_CLASS:
        return bytes(value)
    if kind == _NUMBER_CLASS:
        return _number(value)
    return _datetime(value) if kind == _DATETIME_CLASS else pack(value)
