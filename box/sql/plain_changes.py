"""UPDATE and DELETE of rows in which nothing but the indexes of the space takes part.

A `TransactionWriter` changes the rows, as it does for a statement on one row. The general way through `Dml.write` takes
about twice the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from box.sql.casts import convert
from box.sql.point_changes import count_of
from box.sql.stored_values import Value

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.txn.transaction_writes import RowWriter


class PlainUpdate:
    """The rows of an UPDATE that sets the columns at some places."""

    def __init__(self, space: Space, places: list[int]) -> None:
        fields = space.definition.fields
        self._size = len(fields)
        self._sets = [(place, fields[place].type.value) for place in places]
        self._needed = [number for number, place in enumerate(places) if not fields[place].is_nullable]
        """The numbers of the values that may not be nil."""

    def run(self, writer: RowWriter, key: list[Value], values: Sequence[Value]) -> int | None:
        """Update the row with a primary key. Returns the number of updated rows; or None, having done nothing, for a
        row that needs the general way.

        Raises:
            BoxError: see `TransactionWriter`; SQL_TYPE_MISMATCH.
        """
        if None in values and any(values[number] is None for number in self._needed):
            return None
        sort_key = writer.parse(key)
        old = writer.find(sort_key)
        if old is None:
            return 0
        if count_of(old) < self._size:
            return None  # the tuple lacks fields, and those before the updated ones must be filled in
        # Types are checked in the order of SET, and fields updated in the order of their places.
        operations = [
            ["=", place + 1, convert(value, name)] for (place, name), value in zip(self._sets, values, strict=True)
        ]
        operations.sort(key=itemgetter(1))
        writer.update(key, sort_key, old, operations)
        return 1


def delete_plain(writer: RowWriter, key: list[Value]) -> int:
    """Delete the row with a primary key. Returns the number of deleted rows.

    Raises:
        BoxError: see `TransactionWriter`.
    """
    sort_key = writer.parse(key)
    old = writer.find(sort_key)
    if old is None:
        return 0
    writer.delete(key, sort_key, old)
    return 1
