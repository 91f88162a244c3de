"""`box.execute` and prepared statements, for Lua."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, pack_array_header, unpack
from box.errors import illegal_params
from lua.bindings.binding import Binding, Outcome, guarded, text, waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from box.instance.node import Instance
    from box.session import Context
    from box.sql.prepared import Prepared
    from box.sql.result import Result, Rows
    from lua.runtime import Runtime

_FEW_ROWS: Final = pack({"metadata": None})[:-1]
"""The result of a query up to its metadata."""


class SqlBinding(Binding):
    """Runs SQL statements for Lua.

    A result is a MessagePack map, which the rows of a query follow. If there are many, only the first ones do, and the
    map has an id by which Lua gets the rest.
    """

    def __init__(self, runtime: Runtime, node: Instance) -> None:
        super().__init__(runtime, node)
        self._rest: dict[int, AsyncIterator[list[list[Any]]]] = {}
        self._last_rest = 0

    @waiting("sql_execute")
    async def execute(self, source: bytes, params: bytes) -> bytes:
        """Run a statement. Raises the errors of `Sql.execute`."""
        ctx = self.ctx
        return await self._packed(ctx, await self.node.sql.execute(ctx, text(source), _values(params)))

    @waiting("sql_execute_prepared")
    async def execute_prepared(self, statement_id: float, params: bytes) -> bytes:
        """Run a prepared statement. Raises the errors of `Sql.execute_prepared`."""
        return await self._packed(
            self.ctx, await self.node.sql.execute_prepared(self.ctx, int(statement_id), _values(params))
        )

    async def _packed(self, ctx: Context, result: Result) -> bytes:
        from box.sql.result import Rows, metadata_maps

        if isinstance(result, Rows):
            if result.are_few:
                return _FEW_ROWS + _packed_metadata(result) + _rows(result.rows)
            found: dict[str, Any] = {"metadata": metadata_maps(result)}
            count, pieces = len(result.rows), result.pieces(ctx)
            first = await anext(pieces)
            if len(first) < count:
                self._last_rest = found["rest"] = self._last_rest + 1
                self._rest[self._last_rest] = pieces
            return pack(found) + _rows(first)
        found = {"row_count": result.row_count}
        if result.autoincrement_ids:
            found["autoincrement_ids"] = result.autoincrement_ids
        return pack(found)

    @waiting("sql_rest")
    async def rest(self, number: float) -> bytes | None:
        """Return the next rows of a result, in a later turn of the loop than the ones before; None at the end.

        Raises:
            FiberIsCancelled: the fiber was cancelled; the others are dropped.
        """
        pieces = self._rest.pop(int(number))
        piece = await anext(pieces, None)
        if piece is None:
            return None
        self._rest[int(number)] = pieces
        return _rows(piece)

    @guarded("sql_prepare")
    def prepare(self, source: bytes) -> Outcome:
        """Prepare a statement. Raises the errors of `Sql.prepare`."""
        return pack(_described(self.node.sql.prepare(self.ctx, text(source))))

    @guarded("sql_unprepare")
    def unprepare(self, statement_id: float) -> Outcome:
        """Forget a prepared statement. Raises WRONG_QUERY_ID."""
        self.node.sql.unprepare(self.ctx, int(statement_id))
        return None

    @guarded("sql_cache")
    def cache(self) -> Outcome:
        """Return the number and the size of prepared statements."""
        prepared = self.node.prepared
        return pack([prepared.count, prepared.size])


def _values(packed: bytes) -> list[Any]:
    """Decode the parameters of a statement from Lua.

    A table is a named parameter; a list is a table whose names are numbers.

    Raises:
        ClientError: ILLEGAL_PARAMS.
    """
    found = []
    for item in unpack(packed):
        if isinstance(item, list):
            item = dict(enumerate(item, 1))
        if isinstance(item, dict):
            if len(item) > 1:
                raise illegal_params("SQL bind named parameter should be a table with one key - {name = value}")
            if not item or type(next(iter(item))) not in (int, str):
                raise illegal_params("name of the parameter should be a string.")
        found.append(item)
    return found


def _packed_metadata(rows: Rows) -> bytes:
    """Return the metadata of rows as MessagePack; it is kept with their columns."""
    from box.sql.result import metadata_maps

    known = rows.fields.for_lua
    packed = known.get(rows.is_full)
    if packed is None:
        packed = known[rows.is_full] = pack(metadata_maps(rows))
    return packed


def _rows(rows: list[list[Any]]) -> bytes:
    return pack(rows)[len(pack_array_header(len(rows))) :]


def _described(prepared: Prepared) -> dict[str, Any]:
    from box.sql.result import ResultFields, Rows, metadata_maps

    found: dict[str, Any] = {
        "stmt_id": prepared.id,
        "param_count": len(prepared.parameters),
        "params": [{"name": name or "?", "type": "ANY"} for name in prepared.parameters],
    }
    if prepared.fields is not None:
        found["metadata"] = metadata_maps(Rows(ResultFields(prepared.fields), [], prepared.is_full))
    return found
