"""Decodes tuples of a space to rows as SQLite stores their values, many at once."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from msgpack import unpackb

from box.data.codec import unpack
from box.sql.stored_values import INT_MAX, store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.schema.space import Space

_ARRAY32: Final = struct.Struct(">BI").pack
_KEPT: Final = frozenset(("string", "double"))
"""The values of these types are the same in SQLite, if the texts are UTF-8."""


class RowDecoder:
    """Decodes the tuples of one space. A row has at least the columns of the format; what is missing is nil."""

    def __init__(self, space: Space) -> None:
        types = [field.type.value for field in space.definition.fields]
        self._missing: list[None] = [None] * len(types)
        self._integers = [number for number, name in enumerate(types) if name in ("integer", "unsigned")]
        self._booleans = [number for number, name in enumerate(types) if name == "boolean"]
        kept = {*self._integers, *self._booleans, *(number for number, name in enumerate(types) if name in _KEPT)}
        self._others = [number for number in range(len(types)) if number not in kept]
        self._unsafe = [number for number in range(len(types)) if number not in self._booleans]

    def rows(self, raws: Sequence[bytes]) -> list[list[Any]]:
        """Return the rows of some tuples."""
        try:
            rows: list[list[Any]] = unpackb(_ARRAY32(0xDD, len(raws)) + b"".join(raws), strict_map_key=False)
        except (ValueError, TypeError):  # a text that is not UTF-8, or a value that the C extension cannot decode
            rows = [unpack(raw) for raw in raws]
            self._pad(rows)
            self._store(rows, self._unsafe)
            return rows
        self._pad(rows)
        self._store(rows, self._others)
        self._store(rows, [number for number in self._integers if _is_unusual([row[number] for row in rows])])
        return rows

    def _pad(self, rows: list[list[Any]]) -> None:
        missing = self._missing
        count = len(missing)
        if min(map(len, rows)) < count:
            for row in rows:
                row += missing[len(row) :]

    @staticmethod
    def _store(rows: list[list[Any]], columns: list[int]) -> None:
        for number in columns:
            for row in rows:
                row[number] = store(row[number])


def _is_unusual(values: list[Any]) -> bool:
    """Whether some of the integers are above those of SQLite, or nil."""
    try:
        return bool(max(values) > INT_MAX)
    except TypeError:
        return True
