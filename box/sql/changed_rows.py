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
from box.sql.plain_changes import PlainUpdate
from box.sql.point_keys import BINARY, PointKey, ValuePlaces, key_exprs
from box.sql.query import Query, QueryCompiler
from box.sql.row_shapes import key_places, padded
from box.sql.scope import KnownColumn, QueryScope, Relation, Special, Typed, scope_of
from box.sql.stored_values import Value

if TYPE_CHECKING:
    from box.schema.space import Space
    from box.session import Context
    from box.sql.reading import Compiled, QueryRunner
    from box.sql.row_expressions import RowExpressions
    from box.sql.trigger_lists import RowTriggerList
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
        self._keys: dict[Hashable, _KeyOfChange] = {}
        """The keys that statements give."""

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

    def finder(
        self, key: Hashable, space: Space, change: sql_nodes.Update | sql_nodes.Delete, special: Special | None
    ) -> RowsToChange:
        """Return what finds the rows of a statement with this key."""
        mark = key, type(change).__name__.lower()
        make = self.query(space, change, key_places(space), special)
        return RowsToChange(self._queries, self._dml, self._expressions, self._key_of(mark, space, change), mark, make)

    def _key_of(self, mark: Hashable, space: Space, change: sql_nodes.Update | sql_nodes.Delete) -> _KeyOfChange:
        """Return the primary key that a statement gives, as far as it is known."""
        version = self._queries.schema.version
        known = self._keys.get(mark)
        if known is None or known.version != version:
            if len(self._keys) >= _KEPT_MAX:
                self._keys.clear()
            known = self._keys[mark] = _KeyOfChange(version, space, change)
        return known


class RowsToChange:
    """Finds the rows of one statement. That of a step of a trigger is kept under one version of the dictionary, with
    its analysed queries, for which the types of NEW and OLD do not matter.
    """

    __slots__ = ("_compiled", "_dml", "_expressions", "_key", "_make", "_mark", "_queries")

    def __init__(
        self,
        queries: QueryRunner,
        dml: Dml,
        expressions: RowExpressions,
        key: _KeyOfChange,
        mark: Hashable,
        make: QueryMaker,
    ) -> None:
        self._queries = queries
        self._dml = dml
        self._expressions = expressions
        self._key = key
        self._mark = mark
        self._make = make
        self._compiled: dict[str, Compiled] = {}
        """The analysed queries of the step of a trigger."""

    def compiled(self, ctx: Context, params: Sequence[Value], special: Special | None) -> Compiled:
        """Return the analysed query of the keys of all rows and of their new values.

        Raises:
            BoxError: the query is wrong.
        """
        return self._analysed(ctx, "", self._make, params, special)

    def _analysed(
        self, ctx: Context, part: str, make: QueryMaker, params: Sequence[Value], special: Special | None
    ) -> Compiled:
        if special is None:
            return self._queries.compiled(ctx, (self._mark, part), make, params)
        found = self._compiled.get(part)
        if found is None:
            found = self._queries.compiled(ctx, (self._mark, part, special.mark), make, ())
            self._compiled[part] = found
        return found

    async def rows(self, ctx: Context, params: Sequence[Value], special: Special | None) -> list[list[Value]]:
        """Return the keys of all rows, each with its new values.

        Raises:
            BoxError: the query is wrong, or reading raised it.
        """
        compiled = self.compiled(ctx, params, special)
        values = special.values if special else params
        found = self._row_by_key(ctx, compiled, values, special) if self._key.is_there else None
        if found is not None:
            return found
        if self._expressions.can_run(compiled):
            return self._expressions.rows(ctx, compiled, values)
        return await self._queries.rows(ctx, compiled, values)

    def _row_by_key(
        self, ctx: Context, compiled: Compiled, values: Sequence[Value], special: Special | None
    ) -> list[list[Value]] | None:
        """Return the row that has the key of the statement, or none; None if the statement needs its query."""
        of_change = self._key
        compiled.check_rights(ctx)
        try:
            found = self._computed(ctx, "key", of_change.query(special), values, special)
        except (BoxError, _NoKey):
            of_change.is_there = False
            return None
        key = None if found is None else of_change.checked(found)
        if key is None or isinstance(of_change.change, sql_nodes.Delete):
            return None if key is None else [key]
        space = of_change.space
        raw = self._dml.sql_reads.get(ctx, space, 0, key)
        if raw is None:
            return []
        count = len(space.definition.fields)
        row = padded(unpack(raw), count)[:count]
        make = _query_of_values(space, of_change.change, len(values), special)
        new = self._computed(ctx, "set", make, [*values, *row], special)
        return None if new is None else [[*key, *new]]

    def _computed(
        self, ctx: Context, part: str, make: QueryMaker, values: Sequence[Value], special: Special | None
    ) -> list[Value] | None:
        """Return the only row of a query without tables. Returns None if it needs a table, or more than
        `RowExpressions` offers.

        Raises:
            BoxError: a name in it is unknown, or a function in it raised it.
        """
        compiled = self._analysed(ctx, part, make, values, special)
        return self._expressions.rows(ctx, compiled, values)[0] if self._expressions.can_run(compiled) else None


class ChangePlan:
    """What the dictionary says about an UPDATE or DELETE under one version. `places` are those of the columns that are
    set.
    """

    __slots__ = ("finder", "has_keys", "key_count", "places", "plain", "space", "triggers", "version")

    def __init__(
        self,
        version: int,
        space: Space,
        triggers: RowTriggerList,
        finder: RowsToChange,
        places: list[int],
        *,
        has_keys: bool,
    ) -> None:
        self.version = version
        self.space = space
        self.triggers = triggers
        self.places = places
        self.finder = finder
        self.plain = PlainUpdate(space, places)
        self.key_count = len(key_places(space))
        """The number of values with which a found row begins: its key."""
        self.has_keys = has_keys
        """True if the statement may concern foreign keys."""


class _NoKey(Exception):
    """Raised if SQLite has to compare a column of the key with its value."""


class _KeyOfChange:
    """The whole primary key in the WHERE of an UPDATE or a DELETE, if it is there and SQLite need not compare it."""

    __slots__ = ("_exprs", "change", "checked", "is_there", "space", "version")

    def __init__(self, version: int, space: Space, change: sql_nodes.Update | sql_nodes.Delete) -> None:
        self.version = version
        self.space = space
        self.change = change
        found = None
        is_usual = space.is_plain and space.id > SYSTEM_ID_MAX and space.primary is not None
        if is_usual and not change.common and not change.indexed_by:
            found = key_exprs(space, change.where, (None, change.table))
        self.is_there = found is not None
        """False if there is none, or once it has turned out that SQLite has to compare it."""
        if found is None:
            return
        self._exprs, types = found
        self.checked = PointKey(ValuePlaces(list(range(len(types))), []), types, len(types)).of
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
