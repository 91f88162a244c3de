"""Runs queries. Each text is analysed once for each combination of parameter types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import apsw

from box.data.collation import name_of
from box.schema.access import Privilege
from box.sql import sql_nodes
from box.sql.catalogue import Catalogue
from box.sql.kinds import parameter_type
from box.sql.params import kinds
from box.sql.query import Query, QueryCompiler
from box.sql.result import ResultField, ResultFields, Rows, field_of
from box.sql.scope import QueryScope
from box.sql.sqlite_connection import Connection, Environment, translated
from box.sql.stored_values import Stored, Value, load, load_boolean, store
from box.sql.user_functions import UserFunctions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.session import Context
    from box.txn.dml import Dml

ROW_COUNT: Final = "sql_row_count"
"""The key in `Session.storage` of the value of ROW_COUNT()."""
_CACHED: Final = 1000
"""The number of analysed statements that are kept."""


class Compiled:
    """An analysed query."""

    __slots__ = ("booleans", "fields", "sql", "used")

    def __init__(self, sql: str, booleans: list[bool], fields: ResultFields, used: list[Space]) -> None:
        self.sql = sql
        self.booleans = booleans
        self.fields = fields
        self.used = used


class QueryRunner:
    """Runs the queries of one node."""

    def __init__(
        self,
        schema: Schema,
        dml: Dml,
        *,
        version: str,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.schema = schema
        self._dml = dml
        self._version = version
        self._random_bytes = random_bytes
        self._functions = UserFunctions(schema)
        self._free: list[Connection] = []
        self._compiled: dict[Any, Compiled] = {}

    # --- analysis ---

    def compiler(self, ctx: Context, params: Sequence[Value]) -> QueryCompiler:
        """Return a compiler for a user's query with these values of parameters."""
        return QueryCompiler(Catalogue(self.schema, ctx.credentials), params)

    def compiled(
        self, ctx: Context, key: Any, make: Callable[[QueryCompiler], Query], params: Sequence[Value]
    ) -> Compiled:
        """Return the analysed query with this key; `make` compiles it the first time.

        Raises:
            AccessDeniedError: the user may not read one of its tables.
            ClientError: the query is wrong.
        """
        settings = self.schema.session_settings
        full_names = bool(settings.value(ctx.session, "sql_full_column_names"))
        whole = (key, self.schema.version, kinds(params), full_names)
        found = self._compiled.get(whole)
        if found is None:
            compiler = self.compiler(ctx, params)
            compiler.has_full_names = full_names
            found = self.finish(compiler, make(compiler))
            if len(self._compiled) >= _CACHED:
                self._compiled.clear()
            self._compiled[whole] = found
        else:
            for space in found.used:
                space.check_access(ctx.credentials, Privilege.R)
        return found

    def finish(self, compiler: QueryCompiler, query: Query) -> Compiled:
        """Make a compiled query ready to run."""
        used = compiler.catalogue.used
        fields = []
        spans = query.spans or [None] * len(query.columns)  # type: ignore[list-item]
        for column, span in zip(query.columns, spans, strict=True):
            collation = name_of(column.collation) if column.collation else None
            fields.append(field_of(column, span, collation))
        booleans = [column.kind == "bool" for column in query.columns]
        return Compiled(query.sql, booleans, ResultFields(fields), list(used.values()))

    # --- running ---

    def environment(self, ctx: Context) -> Environment:
        """Return the environment of a statement: what SQL functions and tables may ask about it."""
        return Environment(
            ctx,
            self._dml.reads,
            row_count=ctx.session.storage.get(ROW_COUNT, 0),
            is_reversed=bool(self.schema.session_settings.value(ctx.session, "sql_reverse_unordered_selects")),
            version=self._version,
            random_bytes=self._random_bytes,
            call=self._functions.call,
        )

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection to SQLite for one statement."""
        connection = self._free.pop() if self._free else Connection()
        try:
            yield connection
        finally:
            connection.release()
            self._free.append(connection)

    def fetch(self, ctx: Context, compiled: Compiled, params: Sequence[Value]) -> list[list[Value]]:
        """Return all rows of a query."""
        with self.connection() as connection:
            connection.declare([space for space in compiled.used if not space.definition.opts.view])
            booleans = compiled.booleans
            loaders = [load_boolean if is_boolean else load for is_boolean in booleans]
            is_plain = not any(booleans)
            found: list[list[Value]] = []
            try:
                for row in connection.rows(self.environment(ctx), compiled.sql, stored_params(params)):
                    if is_plain and bytes not in map(type, row):
                        found.append(list(row))
                    else:
                        found.append([loader(item) for loader, item in zip(loaders, row, strict=True)])
            except apsw.Error as error:
                raise translated(error) from None
            return found

    def plain_rows(self, ctx: Context, compiled: Compiled, sql: str, params: Sequence[Value]) -> list[list[Any]]:
        """Return SQLite's own rows for a statement about the tables of a query, such as EXPLAIN."""
        with self.connection() as connection:
            connection.declare([space for space in compiled.used if not space.definition.opts.view])
            return [list(row) for row in connection.rows(self.environment(ctx), sql, stored_params(params))]

    def has_full_metadata(self, ctx: Context) -> bool:
        """Return whether the session wants complete metadata."""
        return bool(self.schema.session_settings.value(ctx.session, "sql_full_metadata"))

    def analyse(self, ctx: Context, text: str, select: sql_nodes.Select, params: Sequence[Value]) -> list[ResultField]:
        """Return the result columns that a query of a user would have."""
        return self.compiled(ctx, text, lambda compiler: compiler.compile(select), params).fields

    def select(self, ctx: Context, text: str, select: sql_nodes.Select, params: Sequence[Value]) -> Rows:
        """Run a query of a user."""
        compiled = self.compiled(ctx, text, lambda compiler: compiler.compile(select), params)
        fields = _with_parameter_types(select, compiled.fields, params)
        return Rows(fields, self.fetch(ctx, compiled, params), self.has_full_metadata(ctx))

    def evaluate(
        self, ctx: Context, key: Any, expr: sql_nodes.Expr, scope: Callable[[], QueryScope], params: Sequence[Value]
    ) -> Value:
        """Compute an expression that reads no table. The columns in its scope are parameters."""

        def make(compiler: QueryCompiler) -> Query:
            compiler.is_in_trigger = True
            item = compiler.expressions(scope()).compile(expr)
            from box.sql.scope import KnownColumn

            return Query([KnownColumn("", item.type, item.kind)], [("SELECT ", [[item]], "")], [])

        return self.fetch(ctx, self.compiled(ctx, key, make, params), params)[0][0]


def _with_parameter_types(select: sql_nodes.Select, fields: ResultFields, params: Sequence[Value]) -> ResultFields:
    """Give types to the result columns that are nothing but a parameter.

    Like Tarantool, the n-th such column gets the type of the n-th value, whichever parameter it is.
    """
    core = select.cores[0]
    columns = core.columns if core.values is None else core.values[0]
    places = [place for place, column in enumerate(columns) if isinstance(column.expr, sql_nodes.Param)]
    if not places or len(fields) != len(columns):
        return fields
    found = ResultFields(fields)
    for place, value in zip(places, params, strict=False):
        old = found[place]
        found[place] = ResultField(old.name, parameter_type(value), old.span)
    return found


def stored_params(params: Sequence[Value]) -> list[Stored]:
    """Convert the values of parameters for SQLite."""
    return [store(value) for value in params]
