"""Decodes tuples of a space to rows as SQLite stores their values, many at once."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from msgpack import unpackb

from box.data.codec import decode_ext, unpack
from box.sql.stored_values import INT_MAX, STORES, Texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.schema.space import Space

_ARRAY32: Final = struct.Struct(">BI").pack
_UINT64: Final = b"\xcf"
"""The first byte of every integer that is too large for SQLite; the byte also occurs in other values."""
_KNOWN: Final = 1000
"""The number of decoded rows that are kept for joins."""
_KEPT: Final = frozenset(("string", "double"))
"""Column types whose values SQLite stores unchanged; a text must be UTF-8."""


class RowDecoder:
    """Decodes the tuples of one space. A row has at least the columns of the format; missing fields are nil."""

    def __init__(self, space: Space, texts: Texts = Texts.UTF8) -> None:
        self._to_stored = STORES[texts]
        self._keeps_texts = texts is not Texts.BYTES
        types = [field.type.value for field in space.definition.fields]
        self._missing: list[None] = [None] * len(types)
        self._integers = [number for number, name in enumerate(types) if name in ("integer", "unsigned")]
        self._booleans = [number for number, name in enumerate(types) if name == "boolean"]
        kept = {*self._integers, *self._booleans, *(number for number, name in enumerate(types) if name in _KEPT)}
        self._others = [number for number in range(len(types)) if number not in kept]
        self._unsafe = [number for number in range(len(types)) if number not in self._booleans]
        self._known: dict[bytes, list[Any]] = {}

    def rows(self, raws: Sequence[bytes]) -> list[list[Any]]:
        """Return the rows of some tuples.

        Raises:
            NotUtf8: a text is not UTF-8, and the connection has only those that are.
        """
        whole = b"".join(raws)
        rows = _unpack_together(len(raws), whole)
        if rows is None:
            rows = [unpack(raw) for raw in raws]
            self._pad(rows)
            self._store(rows, self._unsafe)
            return rows
        self._pad(rows)
        if not self._keeps_texts:
            self._store(rows, self._unsafe)
            return rows
        self._store(rows, self._others)
        if _UINT64 in whole:
            self._store(rows, [number for number in self._integers if _is_unusual([row[number] for row in rows])])
        return rows

    def row(self, raw: bytes) -> list[Any]:
        """Return the row of a tuple. Joins ask for few tuples many times, so some rows are kept."""
        found = self._known.get(raw)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[raw] = self.rows((raw,))[0]
        return found

    def _pad(self, rows: list[list[Any]]) -> None:
        missing = self._missing
        count = len(missing)
        if min(map(len, rows)) < count:
            for row in rows:
                row += missing[len(row) :]

    def _store(self, rows: list[list[Any]], columns: list[int]) -> None:
        to_stored = self._to_stored
        for number in columns:
            for row in rows:
                row[number] = to_stored(row[number])


def unpack_rows(raws: Sequence[bytes]) -> list[list[Any]]:
    """Decode many tuples."""
    rows = _unpack_together(len(raws), b"".join(raws))
    return [unpack(raw) for raw in raws] if rows is None else rows


def _unpack_together(count: int, whole: bytes) -> list[list[Any]] | None:
    """Decode `count` tuples that follow each other. Returns None if one contains a text that is not UTF-8, or a value
    that the C extension cannot decode.
    """
    try:
        rows: list[list[Any]] = unpackb(_ARRAY32(0xDD, count) + whole, strict_map_key=False, ext_hook=decode_ext)
    except (ValueError, TypeError):
        return None
    return rows


def _is_unusual(values: list[Any]) -> bool:
    """Return whether some of the values are nil or integers too large for SQLite."""
    try:
        return bool(max(values) > INT_MAX)
    except TypeError:
        return True
