"""Primary keys as bytes, so that those of many tuples are one Arrow column.

Equal keys have equal bytes. The bytes of plain parts compare as the index orders them:

| part | bytes |
|---|---|
| unsigned, integer | 1 for a number from 0 on, 0 for a negative one; its 64 bits, the highest first |
| string without a collation, varbinary | its bytes, 0 as 00 ff; 00 00 at the end |
| uuid | its 16 bytes |

Keys with other parts (numbers of several types, collations, paths, ...) have bytes without an order.
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
    """The plain parts, as compiled code knows them."""

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
"""Field and kind of each part."""


def plain_parts(index: IndexInfo) -> PlainParts | None:
    """The parts of a key whose bytes have an order; None if one of them is not plain."""
    parts = []
    for part in index.parts:
        kind = _KINDS.get(part.type)
        if kind is None or part.collation or part.path or part.is_nullable:
            return None
        parts.append((part.field, kind))
    return tuple(parts)


class PrimaryKeys:
    """The keys of one space. Raises UNSUPPORTED for a space without a primary key, or with one of unknown order.

    `plain` are the plain parts, if all of them are.
    """

    def __init__(self, info: SpaceInfo) -> None:
        self.key_def = primary_key(info)
        assert info.primary is not None
        self.plain = plain_parts(info.primary)
        self.is_ordered = self.plain is not None and info.primary.type == "tree"
        """Tuples of a snapshot are sorted by the bytes of their keys."""

    def of_tuple(self, raw: bytes) -> bytes:
        """The key of a tuple."""
        return self.encode(self.key_def.extract(unpack(raw)))

    def encode(self, key: SortKey) -> bytes:
        """The bytes of a key that `key_def` has made."""
        if self.plain is None:
            return repr(_canonical(key)).encode()
        values = (key,) if len(self.plain) == 1 else key
        return b"".join(_plain(kind, value) for (_, kind), value in zip(self.plain, values, strict=True))


def _plain(kind: KeyKind, value: Any) -> bytes:
    if kind is KeyKind.INTEGER:
        number: int = value
        return b"\x01" + number.to_bytes(8, "big") if number >= 0 else b"\x00" + number.to_bytes(8, "big", signed=True)
    if kind is KeyKind.UUID:
        number = value
        return number.to_bytes(16, "big")
    text: bytes = value
    return text.replace(b"\0", b"\0\xff") + b"\0\0"


def _canonical(key: SortKey) -> object:
    """The same for keys that are equal: numbers of all types by their value."""
    if isinstance(key, tuple):
        return tuple(map(_canonical, key))
    if key is NAN:
        return "nan"
    if isinstance(key, int | float | Decimal):
        return key.as_integer_ratio() if math.isfinite(key) else ("inf", key > 0)
    return key
