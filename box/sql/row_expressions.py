"""Computes what concerns a single row and reads no table: check constraints, DEFAULT, and the WHEN and the values of
triggers.

```
general   environment of the statement, virtual tables, a new cursor, all parameters       some 30 us
here      one cursor for all of them, whose statement SQLite keeps; parameters in use      some 3 us
```

SQLite computes both, with the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import apsw

from box.sql.query import Query
from box.sql.scope import KnownColumn
from box.sql.sqlite_connection import Connection, translated
from box.sql.stored_values import NotUtf8, Value, store

if TYPE_CHECKING:
    from box.session import Context
    from box.sql import sql_nodes
    from box.sql.query import QueryCompiler
    from box.sql.reading import Compiled, QueryRunner
    from box.sql.scope import QueryScope

_GENERAL: Final = re.compile(r" FROM |WITH |lb_row_count\(|lb_version\(|lb_call\(|lb_randomblob\(")
"""Matches queries that may read rows, take long, or ask for the environment of the statement. It also matches texts of
constants that look so, which does no harm.
"""
_KEPT: Final = 1000
"""The number of queries and expressions that are remembered."""


class RowExpressions:
    """The expressions on rows of one node."""

    def __init__(self, queries: QueryRunner) -> None:
        self._queries = queries
        self._connection: Connection | None = None
        self._cursor: apsw.Cursor | None = None
        self._compiled: dict[Hashable, tuple[int, Compiled]] = {}
        """The analysed expressions, with the version of the dictionary."""

    def end(self) -> None:
        """Close the connection to SQLite: the node has ended."""
        if self._connection is not None:
            self._connection.close()
            self._connection = self._cursor = None

    def value(
        self,
        ctx: Context,
        key: Hashable,
        expr: sql_nodes.Expr,
        scope: Callable[[], QueryScope],
        params: Sequence[Value],
    ) -> Value:
        """Compute an expression whose names are columns in a scope, and those parameters.

        `key` stands for the expression and the types of its columns, under one version of the dictionary.

        Raises:
            BoxError: the expression is wrong, or a function in it raised it.
        """
        version = self._queries.schema.version
        known = self._compiled.get(key)
        if known is None or known[0] != version:
            known = (version, self._analyse(ctx, key, expr, scope, params))
            if len(self._compiled) >= _KEPT:
                self._compiled.clear()
            self._compiled[key] = known
        compiled = known[1]
        if self.can_run(compiled):
            return self.rows(ctx, compiled, params)[0][0]
        return self._queries.fetch(ctx, compiled, params)[0][0]

    def _analyse(
        self,
        ctx: Context,
        key: Hashable,
        expr: sql_nodes.Expr,
        scope: Callable[[], QueryScope],
        params: Sequence[Value],
    ) -> Compiled:
        def make(compiler: QueryCompiler) -> Query:
            compiler.is_in_trigger = True
            item = compiler.expressions(scope()).compile(expr)
            return Query([KnownColumn("", item.type, item.kind)], [("SELECT ", [[item]], "")], [])

        return self._queries.compiled(ctx, key, make, params)

    def can_run(self, compiled: Compiled) -> bool:
        """Return whether `rows` can run a query."""
        return compiled.places is not None or not (compiled.used or _GENERAL.search(compiled.sql))

    def rows(self, ctx: Context, compiled: Compiled, params: Sequence[Value]) -> list[list[Value]]:
        """Return the rows of a query that `can_run` has allowed.

        Raises:
            BoxError: a function in it raised it.
        """
        sql, places = compiled.sql, compiled.places
        cursor = self._cursor or self._new_cursor()
        self._cursor = None  # an error leaves a cursor that is not used again
        try:
            if places is None:
                cursor.execute(sql, {f"p{number}": store(item) for number, item in enumerate(params, 1)})
                with suppress(apsw.ExecutionCompleteError):  # there is no row, and so no statement that could tell
                    names = cursor.bindings_names
                    compiled.places = tuple(int(str(name).removeprefix("p")) - 1 for name in names)
            else:
                cursor.execute(sql, [store(params[place]) for place in places])
            found = cursor.fetchall()
        except NotUtf8:
            return self._queries.fetch(ctx, compiled, params)
        except apsw.Error as error:
            raise translated(error) from None
        self._cursor = cursor
        return [[loader(item) for loader, item in zip(compiled.loaders, row, strict=True)] for row in found]

    def _new_cursor(self) -> apsw.Cursor:
        if self._connection is None:
            self._connection = Connection()
        return self._connection.db.cursor()
