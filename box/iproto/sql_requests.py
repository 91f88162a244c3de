"""Runs EXECUTE and PREPARE, and encodes the bodies of their replies.

```
rows       32 [column, ...]  30 [row, ...]        column   00 name  01 type  [02 collation  03 nullable
changes    42 {00 row count  [01 [id, ...]]}                04 autoincrement  05 span]
PREPARE    43 id  34 count of parameters  33 [{00 name  01 type}, ...]  [32 [column, ...]]
```

The optional keys of a column are sent if the setting `sql_full_metadata` is on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from box.data.codec import pack, pack_array_header
from box.data.marks import FIXMAP
from box.errors import ErrorCode, client_error
from box.sql.params import check_values
from box.sql.result import Result, Rows
from box.wire.constants import Key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from box.session import Context
    from box.sql.engine import Sql
    from box.sql.point_statements import Point
    from box.sql.prepared import Prepared
    from box.sql.result import ResultField, ResultFields
    from box.sql.stored_values import Value
    from box.wire.request import SqlRequest

# The keys of the maps that describe a column, then those of the map that describes a change, as in Tarantool.
_NAME: Final = 0
_TYPE: Final = 1
_COLLATION: Final = 2
_IS_NULLABLE: Final = 3
_IS_AUTOINCREMENT: Final = 4
_SPAN: Final = 5
_ROW_COUNT: Final = 0
_AUTOINCREMENT_IDS: Final = 1

_ALWAYS_RIGHT: Final = frozenset((int, str, float, bool, bytes, type(None)))
"""The types of parameters that need no further check."""


def check_params(params: Any) -> None:
    """Check the parameters of EXECUTE and PREPARE: an array of values, or of maps with one name and its value.

    Tarantool does so before it looks at the statement.

    Raises:
        ClientError: INVALID_MSGPACK, SQL_BIND_PARAMETER_MAX, SQL_BIND_TYPE.
    """
    if type(params) is not list:
        raise client_error(ErrorCode.INVALID_MSGPACK, "SQL parameter list")
    if _ALWAYS_RIGHT.issuperset(map(type, params)):
        return
    wrong = next((at for at, param in enumerate(params) if type(param) is dict and not _is_named(param)), None)
    check_values(params[:wrong])
    if wrong is not None:
        raise client_error(ErrorCode.INVALID_MSGPACK, "SQL bind parameter")


def _is_named(param: dict[Any, Any]) -> bool:
    return len(param) == 1 and isinstance(next(iter(param)), str)


async def execute(sql: Sql, ctx: Context, request: SqlRequest) -> bytes:
    """Return the body of the reply to EXECUTE.

    Raises:
        BoxError: see `Sql.execute` and `Sql.execute_prepared`.
    """
    if request.text is not None:
        return await encode_result(ctx, await sql.execute(ctx, request.text, request.params))
    assert request.statement_id is not None
    return await encode_result(ctx, await sql.execute_prepared(ctx, request.statement_id, request.params))


def point_of(sql: Sql, ctx: Context, request: SqlRequest) -> tuple[Point | None, Sequence[Value]]:
    """Return the fast path of a statement that concerns one row by its key, None for any other statement; and the
    values to run it with.

    Raises:
        BoxError: see `Sql.execute` and `Sql.execute_prepared`.
    """
    if request.text is not None:
        return sql.point(ctx, request.text, request.params)
    assert request.statement_id is not None
    return sql.prepared_point(ctx, request.statement_id), request.params


def prepare(sql: Sql, ctx: Context, request: SqlRequest) -> bytes:
    """Return the body of the reply to PREPARE. A request with a statement id drops that prepared statement.

    Raises:
        BoxError: see `Sql.prepare` and `Sql.unprepare`.
    """
    if request.text is not None:
        return _prepared(sql.prepare(ctx, request.text))
    assert request.statement_id is not None
    sql.unprepare(ctx, request.statement_id)
    return pack({})


async def encode_result(ctx: Context, result: Result) -> bytes:
    """Return the body of the reply to a statement."""
    if isinstance(result, Rows):
        head = rows_head(result.fields, result.is_full)
        if result.are_few:
            return head + pack(result.rows)
        parts = [head, pack_array_header(len(result.rows))]
        async for piece in result.pieces(ctx):
            parts.append(pack(piece)[len(pack_array_header(len(piece))) :])
        return b"".join(parts)
    if not result.autoincrement_ids:
        return changed_body(result.row_count)
    info = {_ROW_COUNT: result.row_count, _AUTOINCREMENT_IDS: result.autoincrement_ids}
    return pack({int(Key.SQL_INFO): info})


def rows_head(fields: ResultFields, is_full: bool = False) -> bytes:
    """Return the body of the reply to a query, up to its rows; `is_full` adds the optional keys of columns."""
    head = fields.encoded.get(is_full)
    if head is None:
        head = bytes((FIXMAP | 2, Key.METADATA)) + pack(_columns(fields, is_full)) + bytes((Key.DATA,))
        fields.encoded[is_full] = head
    return head


@lru_cache(16)
def changed_body(row_count: int) -> bytes:
    """Return the body of the reply to a change for which no sequence generated a value."""
    return pack({int(Key.SQL_INFO): {_ROW_COUNT: row_count}})


def _prepared(prepared: Prepared) -> bytes:
    body: dict[int, Any] = {
        int(Key.STMT_ID): prepared.id,
        int(Key.BIND_COUNT): len(prepared.parameters),
        int(Key.BIND_METADATA): [{_NAME: name or "?", _TYPE: "ANY"} for name in prepared.parameters],
    }
    if prepared.fields is not None:
        body[int(Key.METADATA)] = _columns(prepared.fields, prepared.is_full)
    return pack(body)


def _columns(fields: list[ResultField], is_full: bool) -> list[dict[int, Any]]:
    return [_column(field, is_full) for field in fields]


def _column(field: ResultField, is_full: bool) -> dict[int, Any]:
    found: dict[int, Any] = {_NAME: field.name, _TYPE: field.type}
    if not is_full:
        return found
    if field.collation is not None:
        found[_COLLATION] = field.collation
    if field.is_nullable is not None:
        found[_IS_NULLABLE] = field.is_nullable
    if field.is_autoincrement:
        found[_IS_AUTOINCREMENT] = True
    found[_SPAN] = field.span if field.span is not None else field.name
    return found
