"""Queries of a whole table, which need no plan. They read the tuples without SQLite:

```
SELECT * | column, ... FROM t        all rows, in the order of the primary index
SELECT COUNT(*) FROM t               the size of the primary index
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from box.index import IteratorType
from box.index.untracked import untrack, untracked_list
from box.sql import sql_nodes
from box.sql.point_keys import result_places
from box.sql.row_decoder import unpack_rows
from box.sql.stored_values import result_value

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.sql.pauses import Pauses
    from box.sql.stored_values import Value
    from box.txn.reads import Reader

_AT_ONCE: Final = 1000
"""The number of rows that are read without a pause: about two milliseconds."""
_BYTES_AT_ONCE: Final = 65_536
"""The bytes of tuples that are read without a pause, because rows may be large, or have thousands of fields."""
_COUNT: Final = sql_nodes.FunctionCall("COUNT", [], is_star=True)
_REAL: Final = frozenset(("number", "double", "scalar"))
"""Column types whose values may be doubles, and so NaN, which SQL shows as nil."""


class TableSize:
    """The query of the number of a table's rows."""

    __slots__ = ("space",)

    def __init__(self, space: Space) -> None:
        self.space = space

    def at_once(self, ctx: Context, reads: Reader) -> list[list[Value]] | None:
        """Return the only row. None: not all entries of the primary index are what `ctx` sees."""
        index = reads.plain_primary(ctx, self.space)
        return None if index is None else [[len(index)]]

    def by_turns(self, pauses: Pauses) -> list[list[Value]]:
        """Count the rows, with pauses in between, and return the only row."""
        cursor, count = pauses.scan(self, self.space, 0, IteratorType.ALL, []), 0
        while raws := cursor.fetch(_AT_ONCE):
            count += len(raws)
            pauses.look()
        return [[count]]


class WholeTable:
    """A query of all rows of a table. `places` are the fields of the result columns."""

    __slots__ = ("_any", "_places", "_real", "_size", "space")

    def __init__(self, space: Space, places: list[int]) -> None:
        types = [field.type.value for field in space.definition.fields]
        self.space = space
        self._size = len(types)
        self._places = None if places == list(range(self._size)) else places
        self._real = [number for number, name in enumerate(types) if name in _REAL]
        self._any = [number for number, name in enumerate(types) if name == "any"]

    def at_once(self, ctx: Context, reads: Reader) -> list[list[Value]] | None:
        """Return the rows of a small table. None: the table is large, or not all entries of its primary index are what
        `ctx` sees.
        """
        index = reads.plain_primary(ctx, self.space)
        if index is None or len(index) > _AT_ONCE or index.tuple_bytes > _BYTES_AT_ONCE:
            return None
        return self._rows(index.select(IteratorType.ALL, [], 0, _AT_ONCE))

    def by_turns(self, pauses: Pauses) -> list[list[Value]]:
        """Return the rows of a table of any size, with pauses in between."""
        index = self.space.index(0)
        most = max(1, min(_AT_ONCE, _BYTES_AT_ONCE * len(index) // max(1, index.tuple_bytes)))
        cursor = pauses.scan(self, self.space, 0, IteratorType.ALL, [])
        found: list[list[Value]] = untracked_list()
        while raws := cursor.fetch(most):
            rows = self._rows(raws)
            untrack(rows)
            found += rows
            pauses.look()
        return found

    def _rows(self, raws: Sequence[bytes]) -> list[list[Value]]:
        if not raws:
            return []
        rows, size, places = unpack_rows(raws), self._size, self._places
        if set(map(len, rows)) != {size}:
            rows = [row[:size] + [None] * (size - len(row)) for row in rows]
        for place in self._real:
            for row in rows:
                if row[place] != row[place]:
                    row[place] = None
        for place in self._any:
            for row in rows:
                row[place] = result_value(row[place])
        return rows if places is None else [[row[place] for place in places] for row in rows]


TableRead = WholeTable | TableSize


def table_read(select: sql_nodes.Select, space: Space) -> TableRead | None:
    """Return how to read all rows of a table for a query of this table alone, or None if the query does more."""
    core = select.cores[0]
    is_whole = not (select.common or select.order_by or select.limit or select.offset or len(select.cores) > 1)
    if not is_whole or core.values is not None or core.where is not None or core.is_distinct:
        return None
    if core.group_by is not None or core.having is not None or not space.is_plain or len(core.sources) != 1:
        return None
    source = core.sources[0]
    if source != sql_nodes.FromItem(name=source.name, alias=source.alias) or space.primary is None:
        return None
    if [column.expr for column in core.columns] == [_COUNT]:
        return TableSize(space)
    places = result_places(space, core.columns, (None, source.alias or source.name))
    return None if places is None else WholeTable(space, places)
