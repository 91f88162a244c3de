"""Encodes primary keys as bytes, so that the keys of many tuples are one Arrow column.

Equal keys have equal bytes. The bytes of plain parts sort as the index sorts the keys:

| part | bytes |
|---|---|
| unsigned, integer | 1 for a number from 0 on, 0 for a negative one; then its 64 bits, the highest byte first |
| string without a collation, varbinary | its bytes, with 0 as 00 ff; then 00 00 |
| uuid | its 16 bytes |

Keys with other parts (numbers of several types, collations, paths, ...) have bytes without a meaningful order.
"""

from __future__ import annotations

import math
from decimal import Decimal
from enum import IntEnum
from typing import Any, Final

from box.data.codec import unpack
from box.data.keydef import NAN
from box.spark.definitions import IndexInfo, SpaceInfo, primary_key

SortKey = Any


class KeyKind(IntEnum):
    """The kinds of plain parts, with their numbers for compiled code."""

    INTEGER = 0
    STRING = 1
    BINARY = 2
    UUID = 3


_KINDS: Final = {
    "unsigned": KeyKind.INTEGER,
    "integer": KeyKind.INTEGER,
    "string": KeyKind.STRING,
    "varbinary": KeyKind.BINARY,
    "uuid": KeyKind.UUID,
}

PlainParts = tuple[tuple[int, KeyKind], ...]
"""The field number and the kind of each part."""


def plain_parts(index: IndexInfo) -> PlainParts | None:
    """Return the parts of a key if all of them are plain, otherwise None."""
    parts = []
    for part in index.parts:
        kind = _KINDS.get(part.type)
        if kind is None or part.collation or part.path or part.is_nullable:
            return None
        parts.append((part.field, kind))
    return tuple(parts)


class PrimaryKeys:
    """The primary keys of one space.

    `plain` has the parts if all of them are plain, otherwise None.

    Raises:
        BoxError: UNSUPPORTED, the space has no primary key, or one whose order is unknown.
    """

    def __init__(self, info: SpaceInfo) -> None:
        self.key_def = primary_key(info)
        assert info.primary is not None
        self.plain = plain_parts(info.primary)
        self.is_ordered = self.plain is not None and info.primary.type == "tree"
        """True if a snapshot has the tuples in the order of their encoded keys."""

    def of_tuple(self, raw: bytes) -> bytes:
        """Return the encoded key of a tuple."""
        return self.encode(self.key_def.extract(unpack(raw)))

    def encode(self, key: SortKey) -> bytes:
        """Return the encoded form of a key that `key_def` has made."""
        if self.plain is None:
            return repr(_canonical(key)).encode()
        values = (key,) if len(self.plain) == 1 else key
        return b"".join(_plain(kind, value) for (_, kind), value in zip(self.plain, values, strict=True))


def _plain(kind: KeyKind, value: Any) -> bytes:
    if kind is KeyKind.INTEGER:
        number: int = value
        # The first byte orders negative numbers before others, because two's complement does not.
        return b"\x01" + number.to_bytes(8, "big") if number >= 0 else b"\x00" + number.to_bytes(8, "big", signed=True)
    if kind is KeyKind.UUID:
        number = value
        return number.to_bytes(16, "big")
    text: bytes = value
    return text.replace(b"\0", b"\0\xff") + b"\0\0"


def _canonical(key: SortKey) -> object:
    """Return a value that is the same for equal keys: a number of any type becomes a ratio of integers."""
    if isinstance(key, tuple):
        return tuple(map(_canonical, key))
    if key is NAN:
        return "nan"
    if isinstance(key, int | float | Decimal):
        return key.as_integer_ratio() if math.isfinite(key) else ("inf", key > 0)
    return key
