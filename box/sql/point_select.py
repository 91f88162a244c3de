"""The fast path of `SELECT ... WHERE key = ?`; see `point_statements.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from box.data.codec import pack, unpack
from box.data.marks import FIXARRAY
from box.errors import BoxError
from box.sql.point_keys import PointKey
from box.sql.result import ResultFields
from box.sql.stored_values import Value, result_value

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.txn.dml import Dml

_NO_ROWS: Final = bytes((FIXARRAY,))
_ONE_ROW: Final = bytes((FIXARRAY | 1,))
_SPECIAL: Final = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]|\xca[\x7f\xff][\x80-\xff]").search
"""Finds NaN in a tuple, and also other bytes that look like it."""


class PointSelect:
    """The fast path of `SELECT ... WHERE key = ?`."""

    is_query: ClassVar[Literal[True]] = True
    __slots__ = ("_count", "_dml", "_first", "_has_any", "_key", "_places", "_size", "_space", "fields")

    def __init__(
        self, dml: Dml, space: Space, key: PointKey, places: list[int], fields: ResultFields, count: int
    ) -> None:
        self._dml = dml
        self._space = space
        self._key = key
        self._size = len(space.definition.fields)
        self._places = None if places == list(range(self._size)) else places
        self._has_any = any(field.type.value == "any" for field in space.definition.fields)
        is_whole = self._size < 16 and self._places is None and not self._has_any
        self._first = FIXARRAY | self._size if is_whole else -1
        """The first byte of tuples that can be returned unchanged as a result."""
        self.fields = fields
        self._count = count

    @property
    def space(self) -> Space:
        """The space that the statement concerns."""
        return self._space

    def key(self, params: Sequence[Value]) -> list[Value] | None:
        """Return the key for these parameters, or None for values that need the general path."""
        return self._key.of(params) if len(params) == self._count else None

    def rows(self, ctx: Context, key: list[Value]) -> list[list[Value]]:
        """Return the row with a key as a list of rows. Raises ACCESS_DENIED."""
        raw = self._dml.sql_reads.get(ctx, self._space, 0, key)
        return [] if raw is None else [self._row(raw)]

    def packed_rows(self, ctx: Context, key: list[Value]) -> bytes:
        """Return the rows with a key as MessagePack. Raises ACCESS_DENIED."""
        raw = self._dml.sql_reads.get(ctx, self._space, 0, key)
        if raw is None:
            return _NO_ROWS
        return _ONE_ROW + (raw if raw[0] == self._first and _SPECIAL(raw) is None else pack(self._row(raw)))

    def packed_many(self, ctx: Context, many: list[list[Value]]) -> list[bytes] | BoxError:
        """Run the statement for each list of parameters, up to the first that needs the general path. Returns the rows
        of each as MessagePack; or ACCESS_DENIED, if the user may not read the table.
        """
        index = self._dml.sql_reads.plain_primary(ctx, self._space)
        done: list[bytes] = []
        count, key_of, add = self._count, self._key.of, done.append
        if index is None:
            for params in many:
                key = key_of(params) if len(params) == count else None
                if key is None:
                    break
                try:
                    add(self.packed_rows(ctx, key))
                except BoxError as error:
                    return done or error  # the error again, for the statement after those
            return done
        parse, find, first = index.key_def.parse, index.find, self._first
        for params in many:
            key = key_of(params) if len(params) == count else None
            if key is None:
                break
            raw = find(parse(key))
            if raw is None:
                add(_NO_ROWS)
            elif raw[0] == first and _SPECIAL(raw) is None:
                add(_ONE_ROW + raw)
            else:
                add(_ONE_ROW + pack(self._row(raw)))
        return done

    def _row(self, raw: bytes) -> list[Value]:
        row = unpack(raw)
        if len(row) != self._size:
            row = row[: self._size] + [None] * (self._size - len(row))
        if self._places is not None:
            row = [row[place] for place in self._places]
        if self._has_any:
            row = [result_value(value) for value in row]
        elif float in map(type, row):
            row = [None if value != value else value for value in row]  # SQL shows NaN as nil
        found: list[Value] = row
        return found
