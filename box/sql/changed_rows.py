"""The queries that find the rows of an UPDATE or a DELETE, and the row that has a whole primary key.

```
a query       SQLite searches the table, whose rows it asks for one by one                some 100 us
the key       WHERE gives the whole primary key: the row is read at once, and SQLite
              computes the key and the new values as `RowExpressions` does                some 15 us
```
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from box.data.codec import unpack
from box.errors import BoxError
from box.schema.ids import SYSTEM_ID_MAX
from box.sql import sql_nodes
from box.sql.catalogue import columns_of
from box.sql.inserted_rows import place_of
from box.sql.parse.token_reader import generic
from box.sql.point_keys import BINARY, PointKey, ValuePlaces, key_exprs
from box.sql.query import Query, QueryCompiler
from box.sql.row_shapes import padded
from box.sql.scope import KnownColumn, QueryScope, Relation, Special, Typed, scope_of
from box.sql.stored_values import Value

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.sql.reading import Compiled, QueryRunner
    from box.sql.row_expressions import RowExpressions
    from box.txn.dml import Dml

QueryMaker = Callable[[QueryCompiler], Query]
_KEPT_MAX: Final = 1000
"""The number of keys that are kept."""


class ChangedRows:
    """Finds the rows of the changes of one node."""

    def __init__(self, queries: QueryRunner, dml: Dml, expressions: RowExpressions) -> None:
        self._queries = queries
        self._dml = dml
        self._expressions = expressions
        self._keys: dict[Hashable, tuple[int, _KeyOfChange | None]] = {}
        """The keys that statements give, with the version of the dictionary; None for those that give none."""

    def query(
        self, space: Space, change: sql_nodes.Update | sql_nodes.Delete, places: list[int], special: Special | None
    ) -> QueryMaker:
        """Return what compiles the query of the values at some places of the rows, and of their new values."""

        def make(compiler: QueryCompiler) -> Query:
            scope = QueryScope(outer=scope_of(special))
            prefix = compiler.common_prefix(change.common, scope)
            source = compiler.sources.compile(
                [sql_nodes.FromItem(name=change.table, indexed_by=change.indexed_by)], scope
            )
            items = [scope.relations[0].columns[place].typed() for place in places]
            if isinstance(change, sql_nodes.Update):
                items += _new_values(compiler, scope, change)
            where = ""
            if change.where is not None:
                where = f" WHERE {compiler.expressions(scope).condition(change.where)}"
            return _query_of(items, f" FROM {source}{where}", prefix)

        return make

    def updated_places(
        self, ctx: Context, space: Space, update: sql_nodes.Update, params: Sequence[Value], special: Special | None
    ) -> list[int]:
        """Return the numbers of the columns that are set.

        Raises:
            BoxError: a name is wrong, or a value before it.
        """
        places: list[int] = []
        for number, (columns, _) in enumerate(update.sets, 1):
            try:
                for name in columns:
                    place = place_of(space, name)
                    if place in places:
                        raise generic(f"set id list: duplicate column name {name}")
                    places.append(place)
            except BoxError:
                values = replace(update, sets=update.sets[:number], where=None)
                self.query(space, values, [], special)(self._queries.compiler(ctx, params))
                raise
        return places

    def compiled(
        self, ctx: Context, key: Hashable, make: QueryMaker, params: Sequence[Value], special: Special | None
    ) -> Compiled:
        """Return the analysed query of a statement with this key.

        Raises:
            BoxError: the query is wrong.
        """
        values = [*params, *(special.values if special else ())]
        return self._queries.compiled(ctx, (key, special and special.mark), make, values)

    async def find(
        self,
        ctx: Context,
        key: Hashable,
        space: Space,
        change: sql_nodes.Update | sql_nodes.Delete,
        make: QueryMaker,
        params: Sequence[Value],
        special: Special | None,
    ) -> list[list[Value]]:
        """Return the rows of the query that `make` compiles: for the table of the change, that of `query`.

        Raises:
            BoxError: the query is wrong, or reading raised it.
        """
        compiled = self.compiled(ctx, key, make, params, special)
        found = self._find_by_key(ctx, key, space, change, compiled, params, special)
        if found is not None:
            return found
        values = [*params, *(special.values if special else ())]
        if self._expressions.can_run(compiled):
            return self._expressions.rows(ctx, compiled, values)
        return await self._queries.rows(ctx, compiled, values)

    def _find_by_key(
        self,
        ctx: Context,
        mark: Hashable,
        space: Space,
        change: sql_nodes.Update | sql_nodes.Delete,
        compiled: Compiled,
        params: Sequence[Value],
        special: Special | None,
    ) -> list[list[Value]] | None:
        """Return the row that has the key of the statement, or none; None if it gives no key, or needs its query."""
        of_change = self._key_of(mark, space, change)
        if of_change is None:
            return None
        compiled.check_rights(ctx)
        values = [*params, *(special.values if special else ())]
        try:
            found = self._computed(ctx, (mark, "key"), of_change.query(special), values, [], special)
        except (BoxError, _NoKey):
            self._keys[mark] = self._queries.schema.version, None
            return None
        key = None if found is None else of_change.checked(found)
        if key is None or isinstance(change, sql_nodes.Delete):
            return None if key is None else [key]
        raw = self._dml.sql_reads.get(ctx, space, 0, key)
        if raw is None:
            return []
        count = len(space.definition.fields)
        row = padded(unpack(raw), count)[:count]
        make = _query_of_values(space, change, len(values), special)
        new = self._computed(ctx, (mark, "set"), make, values, row, special)
        return None if new is None else [[*key, *new]]

    def _key_of(self, mark: Hashable, space: Space, change: sql_nodes.Update | sql_nodes.Delete) -> _KeyOfChange | None:
        """Return the primary key that a statement gives, None if it gives none or SQLite has to compare it."""
        version = self._queries.schema.version
        known = self._keys.get(mark)
        if known is None or known[0] != version:
            if len(self._keys) >= _KEPT_MAX:
                self._keys.clear()
            known = self._keys[mark] = version, _key_of(space, change)
        return known[1]

    def _computed(
        self,
        ctx: Context,
        mark: Hashable,
        make: QueryMaker,
        values: list[Value],
        row: list[Value],
        special: Special | None,
    ) -> list[Value] | None:
        """Return the only row of a query without tables; its parameters are `values` and then the fields of `row`.
        Returns None if it needs a table, or more than `RowExpressions` offers.

        Raises:
            BoxError: a name in it is unknown, or a function in it raised it.
        """
        examples = values + [None] * len(row)
        compiled = self._queries.compiled(ctx, (mark, special and special.mark), make, examples)
        if not self._expressions.can_run(compiled):
            return None
        return self._expressions.rows(ctx, compiled, [*values, *row])[0]


class _NoKey(Exception):
    """Raised if SQLite has to compare a column of the key with its value."""


class _KeyOfChange:
    """The whole primary key in the WHERE of an UPDATE or a DELETE."""

    __slots__ = ("_exprs", "checked")

    def __init__(self, exprs: list[sql_nodes.Expr], types: list[str]) -> None:
        self._exprs = exprs
        count = len(types)
        self.checked = PointKey(ValuePlaces(list(range(count)), []), types, count).of
        """Returns the key for the values of its parts, or None if SQLite has to compare them."""

    def query(self, special: Special | None) -> QueryMaker:
        """Return what compiles the query of the key."""

        def make(compiler: QueryCompiler) -> Query:
            expressions = compiler.expressions(scope_of(special))
            items = [expressions.compile(expr) for expr in self._exprs]
            if any(item.collation not in BINARY for item in items):
                raise _NoKey
            return _query_of(items, "", "")

        return make


def _key_of(space: Space, change: sql_nodes.Update | sql_nodes.Delete) -> _KeyOfChange | None:
    """Return the whole primary key in the WHERE of a change, None if there is none."""
    if change.common or change.indexed_by or not space.is_plain or space.id <= SYSTEM_ID_MAX or space.primary is None:
        return None
    found = key_exprs(space, change.where, (None, change.table))
    return None if found is None else _KeyOfChange(*found)


def _query_of_values(space: Space, update: sql_nodes.Update, count: int, special: Special | None) -> QueryMaker:
    """Return what compiles the query of the new values, whose parameters after the first `count` are a row."""

    def make(compiler: QueryCompiler) -> Query:
        columns = columns_of(space)
        for number, column in enumerate(columns, count + 1):
            column.sql = f"lb_truth(:p{number})" if column.kind == "bool" else f":p{number}"
        scope = QueryScope(relations=[Relation(update.table, "", columns)], outer=scope_of(special))
        return _query_of(_new_values(compiler, scope, update), "", "")

    return make


def _new_values(compiler: QueryCompiler, scope: QueryScope, update: sql_nodes.Update) -> list[Typed]:
    expressions = compiler.expressions(scope)
    items: list[Typed] = []
    for columns, expr in update.sets:
        values = expressions.row(expr)
        if len(values) != len(columns):
            raise generic(f"{len(columns)} columns assigned {len(values)} values")
        items += values
    return items


def _query_of(items: list[Typed], tail: str, prefix: str) -> Query:
    columns = [KnownColumn("", item.type, item.kind) for item in items]
    return Query(columns, [("SELECT ", [items], tail)], [], prefix)
