"""SQL of the embedding program: `await node.execute(sql, params)`, and prepared statements.

```
parameters   a sequence: a value for each ?, or {":name": value} for a named one
             a mapping: {"name": value} for :name and @name
result       a list of rows, as `NamedRow`s whose names are those of the columns, and what else the statement told
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from box.data.codec import unpack
from box.embed.arguments import checked_text
from box.embed.named_rows import NamedRow, encode_values, row_type
from box.embed.shown_values import shown_with_type
from box.errors import ErrorCode, client_error
from box.index.untracked import untrack, untracked_list

if TYPE_CHECKING:
    from box.embed.embedding import Embedding
    from box.instance.node import Instance
    from box.session import Context
    from box.sql.result import Result, ResultField, Rows

Parameters = Sequence[Any] | Mapping[str, Any]
"""Values for the parameters of a statement."""

_MARKS: Final = (":", "@")
_PLAIN: Final[frozenset[type]] = frozenset((bool, int, float, str, bytes, type(None)))
"""The types of values that every statement takes. Values of other types are passed with the names of their parameters,
which errors about them tell."""
# The least and the greatest integer of SQL.
_INT_MIN: Final = -(2**63)
_UINT_MAX: Final = 2**64 - 1
_MANY: Final = 1000
"""The number of rows from which on they are hidden from the garbage collector, whose visits would take turns of more
than ten milliseconds."""


class SqlColumn(NamedTuple):
    """A column of a query: its name, and its type in SQL, such as `integer` or `string`.

    `is_nullable` is None for a column that is not simply a column of a table.
    """

    name: str
    type: str
    is_nullable: bool | None = None


class SqlResult(list[NamedRow]):
    """The result of a statement: a list of the rows of a query, empty for other statements.

    A row is a tuple that is read by position, `row[0]`, and by the name of the column, `row.ID` or `row["ID"]`. Names
    that were not quoted in SQL are upper case.
    """

    __slots__ = ("autoincrement_ids", "columns", "row_count")

    def __init__(
        self,
        rows: Iterable[NamedRow] = (),
        columns: Iterable[SqlColumn] = (),
        row_count: int | None = None,
        autoincrement_ids: Iterable[int] = (),
    ) -> None:
        super().__init__(rows)
        self.columns = list(columns)
        """The columns of a query; empty for other statements."""
        self.row_count = len(self) if row_count is None else row_count
        """The number of rows that a statement has changed, or that a query has found."""
        self.autoincrement_ids = list(autoincrement_ids)
        """The values that the statement generated for AUTOINCREMENT columns."""

    def __repr__(self) -> str:
        return f"<SQL: {list.__repr__(self) if self.columns else f'{self.row_count} rows changed'}>"


class PreparedStatement:
    """A statement that is analysed once and run many times; `await node.prepare(sql)` makes it.

    The node keeps it until `close()`, or to the end of `async with`. As in Tarantool it expires when a table, an index
    or anything else of the dictionary changes: prepare it again.
    """

    def __init__(self, embedding: Embedding, text: str) -> None:
        ctx, self._core = embedding.new_context("prepare()"), embedding.core
        checked_text("sql", text)
        self._embedding = embedding
        prepared = self._core.sql.prepare(ctx, text)
        self._id = prepared.id
        self._is_open = True
        embedding.prepared[self._id] += 1
        self.text = text
        """The statement."""
        self.parameters: list[str | None] = list(prepared.parameters)
        """The names of the parameters with their marks (`:price`), None for `?`."""
        self.columns = _columns(prepared.fields or ())
        """The columns of a query; empty for other statements."""

    def __repr__(self) -> str:
        return f"<prepared statement: {self.text}>"

    async def execute(self, params: Parameters = ()) -> SqlResult:
        """Run the statement; see `Node.execute`.

        Raises:
            ClientError: WRONG_QUERY_ID, the statement is closed, or the node was restarted; SQL_EXECUTE, it has
                expired. Others are those of `Node.execute`.
        """
        ctx, core = self._embedding.new_context("execute()"), self._core
        text_of(self, ctx)
        values = values_of(params, self.parameters)
        return await _outcome(core, ctx, core.sql.execute_prepared(ctx, self._id, values))

    async def close(self) -> None:
        """Forget the statement; safe to call again."""
        embedding = self._embedding
        if not self._is_open:
            return
        self._is_open = False
        if not embedding.is_running or embedding.core is not self._core:
            return
        ctx = embedding.new_context("close()")
        embedding.prepared[self._id] -= 1
        if not embedding.prepared[self._id]:
            del embedding.prepared[self._id]
            self._core.sql.unprepare(ctx, self._id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def text_of(prepared: PreparedStatement, ctx: Context) -> str:
    """Return the text of a prepared statement, if it can still be run.

    Raises:
        ClientError: WRONG_QUERY_ID, SQL_EXECUTE; see `PreparedStatement.execute`.
    """
    if not prepared._is_open or prepared._embedding.core is not prepared._core:
        raise client_error(ErrorCode.WRONG_QUERY_ID, prepared._id)
    return prepared._core.sql.prepared_text(ctx, prepared._id)


async def execute(embedding: Embedding, text: str, params: Parameters) -> SqlResult:
    """Run a statement in the context of the calling task; see `Node.execute`."""
    ctx, core = embedding.new_context("execute()"), embedding.core
    if text.__class__ is not str:
        checked_text("sql", text)
    return await run(core, ctx, text, params)


async def run(core: Instance, ctx: Context, text: str, params: Parameters) -> SqlResult:
    """Run a statement in a context. If the statement leaves open a transaction that it has begun itself, the
    transaction is rolled back.

    Raises:
        TransactionError: FUNCTION_TX_ACTIVE, the statement has left a transaction open.
        BoxError: see `Node.execute`.
    """
    try:
        values = values_of(params, core.sql.parameters(text) if isinstance(params, Mapping) else ())
        return await _outcome(core, ctx, core.sql.execute(ctx, text, values))
    except UnicodeEncodeError:
        checked_text("sql", text)
        raise


async def _outcome(core: Instance, ctx: Context, work: Awaitable[Result]) -> SqlResult:
    before = ctx.txn
    try:
        result = await work
    finally:
        is_left_open = before is None and ctx.txn is not None
        if is_left_open:
            core.txns.rollback(ctx)
    if is_left_open:
        raise client_error(ErrorCode.FUNCTION_TX_ACTIVE)
    return await result_of(ctx, result)


async def result_of(ctx: Context, result: Result) -> SqlResult:
    """Convert the result of a statement to the form that programs get."""
    from box.sql.result import Rows

    if not isinstance(result, Rows):
        return SqlResult((), (), result.row_count, result.autoincrement_ids)
    if result.are_few:
        return result_at_once(result)
    columns, kind = _shape(result)
    found: list[NamedRow] = untracked_list()
    async for piece in result.pieces(ctx):
        rows = list(map(kind, piece))
        if len(rows) >= _MANY:
            untrack(rows)
        found += rows
    return SqlResult(found, columns)


def result_at_once(result: Rows) -> SqlResult:
    """Convert the rows of a short query, without a turn for others."""
    columns, kind = _shape(result)
    found = list(map(kind, result.rows))
    if len(found) >= _MANY:
        untrack(found)
    return SqlResult(found, columns)


def _shape(result: Rows) -> tuple[list[SqlColumn], type[NamedRow]]:
    """Return the columns of a query, and the class of its rows. Its fields keep them for the next run."""
    fields = result.fields
    if fields.shape is None:
        columns = _columns(fields)
        fields.shape = columns, row_type("row", tuple(column.name for column in columns))
    found: tuple[list[SqlColumn], type[NamedRow]] = fields.shape
    return found


def _columns(fields: Iterable[ResultField]) -> list[SqlColumn]:
    return [SqlColumn(field.name, field.type, field.is_nullable) for field in fields]


def values_of(params: Parameters, names: Sequence[str | None]) -> list[Any]:
    """Convert the parameters to the form that the SQL engine takes. `names` are the names in the statement, for a
    mapping.

    Raises:
        ClientError: SQL_BIND_NOT_FOUND, the statement has no parameter of this name; ILLEGAL_PARAMS, a value cannot
            be stored.
        TypeError: `params` is neither a sequence nor a mapping.
    """
    if (type(params) is tuple or type(params) is list) and _are_plain(params):
        return list(params)
    if isinstance(params, Mapping):
        given = {_marked(name, names): _of_python(value) for name, value in params.items()}
        if names and given.keys() <= set(names) and _PLAIN.issuperset(map(type, given.values())):
            params = [None if name is None else given.get(name) for name in names]
        else:
            params = [{name: value} for name, value in given.items()]
    elif isinstance(params, str | bytes | bytearray) or not isinstance(params, Sequence):
        raise TypeError(f"parameters are a sequence or a mapping, not {shown_with_type(params)}")
    values: list[Any] = unpack(encode_values(list(map(_of_python, params)))) if params else []
    return values


def _of_python(value: Any) -> Any:
    """Return a number of numpy, as pandas has them, as the Python value that it stands for; others unchanged."""
    is_scalar = hasattr(value, "dtype") and getattr(value, "shape", None) == ()
    return value.item() if is_scalar else value


def _are_plain(params: Sequence[Any]) -> bool:
    """Return True only if the SQL engine takes all these values as they are. It may be False although it does."""
    for value in params:
        kind = type(value)
        if kind is int:
            if not _INT_MIN <= value <= _UINT_MAX:
                return False
        elif kind is str:
            if not value.isascii():
                return False
        elif kind not in _PLAIN:
            return False
    return True


def _marked(name: str, names: Sequence[str | None]) -> str:
    """Return the name of a parameter with its mark, as it stands in the statement."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a parameter is a str, such as 'price' for :price, not {shown_with_type(name)}")
    if name in names or name.startswith(_MARKS):
        return name
    for mark in _MARKS:
        if mark + name in names:
            return mark + name
    raise client_error(ErrorCode.SQL_BIND_NOT_FOUND, f"'{name}'")
