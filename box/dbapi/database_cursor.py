"""Cursors: statements and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Self

from box.dbapi.exceptions import InterfaceError, ProgrammingError
from box.embed.shown_values import shown

if TYPE_CHECKING:
    from box.dbapi.database_connection import DatabaseConnection, Executed
    from box.embed import NamedRow
    from box.embed.sql_statements import Parameters

Description = tuple[str, str, None, None, None, None, bool | None]


class DatabaseCursor:
    """Runs statements and returns their rows. A row is a tuple whose values can also be read by name: `row.ID`.

    A query reads all its rows at once, so later changes do not affect them.
    """

    def __init__(self, connection: DatabaseConnection) -> None:
        self.connection = connection
        """The connection that the cursor belongs to."""
        self.arraysize = 1
        """The default number of rows of `fetchmany()`."""
        self.description: list[Description] | None = None
        """A sequence for each column: name, type, four times None, and whether NULL is possible. None if the statement
        gave no rows.
        """
        self.rowcount = -1
        """The number of rows that the last statement found or changed; -1 before the first statement and after a
        statement that counts none.
        """
        self.lastrowid: int | None = None
        """The last id that the last statement generated for an AUTOINCREMENT column, or None."""
        self.rownumber: int | None = None
        """The number of the next row, counted from 0; None if the statement gave no rows."""
        self._rows: list[NamedRow] = []
        self._is_open = True

    def _check_open(self) -> None:
        if not self._is_open:
            raise InterfaceError("the cursor is closed")
        self.connection._check_open()

    def _forget(self) -> None:
        self.description, self.rowcount, self.lastrowid, self.rownumber, self._rows = None, -1, None, None, []

    def execute(self, operation: str, parameters: Parameters = ()) -> Self:
        """Run a statement. `parameters` is a sequence of values for `?`, or a mapping for `:name`. Returns the cursor.

        Raises:
            Error: see `box.dbapi.exceptions`.
        """
        self._check_open()
        self._forget()
        self._take(self.connection._execute(operation, parameters))
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Self:
        """Run a changing statement once for each element of `seq_of_parameters`. `rowcount` becomes the sum. Returns
        the cursor.

        Raises:
            ProgrammingError: the statement is not INSERT, REPLACE, UPDATE or DELETE.
            Error: see `box.dbapi.exceptions`.
        """
        self._check_open()
        self._forget()
        if not isinstance(seq_of_parameters, Iterable) or isinstance(seq_of_parameters, str | bytes | Mapping):
            text = shown(seq_of_parameters)
            raise ProgrammingError(f"executemany() takes a sequence of parameters for each run, not {text}")
        given = list(seq_of_parameters)
        if not given:
            self.rowcount = 0
            return self
        self._take(self.connection._execute_many(operation, given))
        return self

    def _take(self, outcome: Executed) -> None:
        result = outcome.result
        self.rowcount = outcome.row_count
        if result.columns:
            self.description = [
                (column.name, column.type, None, None, None, None, column.is_nullable) for column in result.columns
            ]
            self._rows, self.rownumber = result, 0
        if result.autoincrement_ids:
            self.lastrowid = result.autoincrement_ids[-1]

    def _take_rows(self, count: int | None) -> list[NamedRow]:
        """Return the next `count` rows, or all remaining rows if `count` is None."""
        self._check_open()
        start = self.rownumber
        if start is None:
            raise ProgrammingError("there are no rows: the last statement was not a query")
        found = self._rows[start:] if count is None else self._rows[start : start + count]
        self.rownumber = start + len(found)
        return found

    def fetchone(self) -> NamedRow | None:
        """Return the next row, or None after the last one.

        Raises:
            ProgrammingError: the last statement was not a query.
        """
        found = self._take_rows(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[NamedRow]:
        """Return the next `size` rows, by default `arraysize` of them; fewer at the end.

        Raises:
            ProgrammingError: the last statement was not a query, or `size` is not an integer of at least 0.
        """
        count = self.arraysize if size is None else size
        if not isinstance(count, int) or count < 0:
            raise ProgrammingError(f"the size of fetchmany() is a number of rows, not {shown(count)}")
        return self._take_rows(count)

    def fetchall(self) -> list[NamedRow]:
        """Return the remaining rows.

        Raises:
            ProgrammingError: the last statement was not a query.
        """
        return self._take_rows(None)

    def __iter__(self) -> Iterator[NamedRow]:
        return self

    def __next__(self) -> NamedRow:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def setinputsizes(self, sizes: object) -> None:
        """Accept sizes of parameters, which PEP 249 requires. They have no effect: values may have any size."""
        self._check_open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Accept the size of a large column, which PEP 249 requires. It has no effect: values may have any size."""
        self._check_open()

    def close(self) -> None:
        """Close the cursor and release its rows. It may be called again."""
        self._forget()
        self._is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
