"""INSERT, REPLACE and UPDATE of rows in which only the indexes, the sequence and the check constraints of the
space take part.

A `TransactionWriter` changes the rows, as it does for a statement on one row. The general way through `Dml.write` takes
two to four times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from box.data.codec import pack
from box.errors import BoxError, ErrorCode, client_error
from box.sql.casts import convert
from box.sql.not_null import check_nil
from box.sql.point_changes import count_of
from box.sql.result import Changed
from box.sql.stored_values import Value

if TYPE_CHECKING:
    from box.schema.access import Credentials
    from box.schema.space import Space
    from box.sql.row_shapes import RowShape
    from box.txn.transaction_writes import TransactionWriter


def generated_place(space: Space) -> int:
    """Return the place of the column that a sequence fills, -1 if there is none."""
    return space.sequence_field if space.sequence is not None and space.sequence_path is None else -1


class PlainInsert:
    """The rows of an INSERT or REPLACE; the OR clause is `action`."""

    def __init__(
        self, space: Space, shape: RowShape, writer: TransactionWriter, credentials: Credentials, action: str
    ) -> None:
        self._space = space
        self._shape = shape
        self._writer = writer
        self._credentials = credentials
        self._action = action
        self._auto = generated_place(space)
        self._unique = [index for index in space.indexes.values() if index.is_unique]
        self.result = Changed()

    def run(self, row: list[Value]) -> None:
        """Store a row, and count it.

        Raises:
            BoxError: see `TransactionWriter`; NOT NULL, SQL_TYPE_MISMATCH.
        """
        space, action, auto, result = self._space, self._action, self._auto, self.result
        if None in row and not check_nil(space, row, action, auto):
            return
        row = self._shape.converted(row)
        is_generated = auto >= 0 and row[auto] is None
        if action == "REPLACE":
            if is_generated:  # as in 2.8, the old tuple is looked up before the sequence gives the key
                raise client_error(ErrorCode.KEY_PART_TYPE, 0, self._shape.types[auto])
            self._make_room(row)
        try:
            self._writer.store(self._credentials, pack(row), is_replace=action == "REPLACE")
        except BoxError:
            if action == "IGNORE":  # as in Tarantool, whatever the error is
                return
            raise
        result.row_count += 1
        if is_generated and space.sequence is not None:
            result.autoincrement_ids.append(space.sequence.current())

    def _make_room(self, row: list[Value]) -> None:
        """Delete the tuples that conflict with a row in a unique index."""
        for index in self._unique:
            key = index.key_def.extract_values(row)
            if None in key:
                continue
            found = self._writer.find_in(index, index.key_def.parse(key, True))
            if found is not None:
                self._writer.remove(found)
                self.result.row_count += 1


class PlainUpdate:
    """The rows of an UPDATE that sets the columns at some places."""

    def __init__(self, space: Space, places: list[int]) -> None:
        fields = space.definition.fields
        self._size = len(fields)
        self._sets = [(place, fields[place].type.value) for place in places]
        self._needed = [number for number, place in enumerate(places) if not fields[place].is_nullable]
        """The numbers of the values that may not be nil."""

    def run(self, writer: TransactionWriter, key: list[Value], values: Sequence[Value]) -> int | None:
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
