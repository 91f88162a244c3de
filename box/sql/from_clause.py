"""Compiles FROM: tables, views, queries and joins."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from box.errors import BoxError, ErrorCode, client_error, unsupported
from box.sql import sql_nodes
from box.sql.catalogue import columns_of
from box.sql.compound_queries import order_terms
from box.sql.exact_names import with_exact_names
from box.sql.kinds import kind_of
from box.sql.merged_queries import is_merged
from box.sql.parse import parse_statement
from box.sql.parse.token_reader import generic, limit_exceeded
from box.sql.scope import KnownColumn, QueryScope, Relation
from box.sql.stored_values import execute_error

if TYPE_CHECKING:
    from box.index import Index
    from box.schema.schema import Schema
    from box.schema.space import Space
    from box.sql.query import QueryCompiler

_JOINS_MAX = 64
"""The tables of one join at most: Tarantool and SQLite keep a bit for each in a mask of 64 bits."""


_NUMBER = re.compile(r"(?<=.)_\d*\Z", re.DOTALL)
"""The number at the end of a name."""


class FromCompiler:
    """Compiles the sources of queries, and adds their relations to the scope."""

    def __init__(self, queries: QueryCompiler) -> None:
        self._queries = queries
        self._open_views: list[str] = []

    def compile(self, sources: list[sql_nodes.FromItem], scope: QueryScope) -> str:
        """Return the text after FROM, '' if there are no sources."""
        pieces: list[str] = []
        for source in sources:
            before = list(scope.relations)
            former = scope.failure
            text, relations = self._source(source, scope)
            if pieces and _is_inner_join(source) and scope.failure is not None and scope.failure is not former:
                raise scope.failure
            scope.relations += relations
            if pieces and _is_inner_join(source):
                columns = [column for relation in relations for column in relation.columns if not column.is_hidden]
                for column, name in zip(columns, different_names([column.name for column in columns]), strict=True):
                    column.star_name = name
            join = source.join.removeprefix("NATURAL ") or "INNER"
            if join == "LEFT" and pieces:
                for relation in relations:
                    for column in relation.columns:
                        column.may_be_missing = True
            condition = self._condition(source, before, relations, scope)
            if not pieces:
                pieces.append(text)
                continue
            on = f" ON {condition}" if condition else (" ON 1" if join == "LEFT" else "")
            pieces.append(f" {join} JOIN {text}{on}")
        if len(scope.relations) > _JOINS_MAX:
            raise limit_exceeded("The number of tables in a join", len(scope.relations), _JOINS_MAX)
        return "".join(pieces)

    def has_merged(self, select: sql_nodes.Select, core: sql_nodes.Core, scope: QueryScope) -> bool:
        """Return whether Tarantool merges a query in FROM into this core (`box.sql.merged_queries`)."""
        sources = core.sources
        while sources and sources[0].sources is not None:
            sources = [*sources[0].sources, *sources[1:]]
        for place, source in enumerate(sources):
            if place and _is_inner_join(source) and not source.join.endswith("LEFT"):
                return True
            inner = self._query_of(source, scope)
            if inner is not None and is_merged(select, core, sources, place, inner):
                return True
        return False

    def _query_of(self, source: sql_nodes.FromItem, scope: QueryScope) -> sql_nodes.Select | None:
        """Return the query that a source of FROM stands for; None for a table, and for a query that reads itself."""
        if source.select is not None or source.name is None:
            return source.select
        common = scope.find_common(source.name)
        if common is not None:
            select = common.table.select
            return None if common.table.name in tables_of(select) else select
        space = self._queries.catalogue.find(source.name)
        return (
            view_query(self._queries.catalogue.schema, space)
            if space is not None and space.definition.opts.view
            else None
        )

    # --- one source ---

    def _source(self, source: sql_nodes.FromItem, scope: QueryScope) -> tuple[str, list[Relation]]:
        if source.sources is not None:
            inner = QueryScope(outer=scope.outer, common=scope.common)
            text = self.compile(source.sources, inner)
            scope.failure = scope.failure or inner.failure
            scope.names_in_joins += inner.names_in_joins
            return f"({text})" if len(source.sources) > 1 else text, inner.relations
        alias = self._queries.new_alias()
        if source.select is not None:
            return self._query(source.select, source.alias, alias, scope.outer or scope)
        assert source.name is not None
        common = scope.find_common(source.name)
        if source.args is not None:
            if common is None:
                self._queries.catalogue.space(source.name)
            raise generic(f"'{source.name}' is not a function")
        if common is None and source.name == "SEQSCAN" and source.alias and not self._queries.catalogue.find("SEQSCAN"):
            # The word of 2.11 before a table that is read as a whole; in 2.8.1 it is a table with an alias.
            return self._source(replace(source, name=source.alias, alias=None), scope)
        if common is not None:
            named = self._queries.common.columns_of(common)
            columns = [_placed(column, alias, place) for place, column in enumerate(named)]
            for column in columns:
                column.table = source.name
            return f"{common.sql} AS {alias}", [Relation(source.alias or source.name, alias, columns)]
        return self._table(source, alias)

    def _query(
        self, select: sql_nodes.Select, name: str | None, alias: str, scope: QueryScope
    ) -> tuple[str, list[Relation]]:
        query = self._queries.compile(select, scope)
        columns = [_placed(column, alias, place) for place, column in enumerate(query.columns)]
        for column, unlike in zip(columns, different_names([column.name for column in columns]), strict=True):
            column.name = unlike
        return f"({query.named_sql()}) AS {alias}", [Relation(name, alias, columns)]

    def _table(self, source: sql_nodes.FromItem, alias: str) -> tuple[str, list[Relation]]:
        assert source.name is not None
        space = self._queries.catalogue.read(source.name)
        name = source.alias or source.name
        index = next((index for index in space.indexes.values() if index.name == source.indexed_by), None)
        if source.indexed_by is not None and index is None:
            raise client_error(ErrorCode.NO_SUCH_INDEX_NAME, source.indexed_by, space.name)
        if space.definition.opts.view:
            return self._view(space, name, alias)
        columns = columns_of(space, alias)
        leading: dict[int, int] = {}
        for index_id, one in sorted(space.indexes.items()):
            if one.definition.parts and not one.definition.opts.get("func"):
                leading.setdefault(one.definition.parts[0].fieldno, index_id)
        keys = {
            index.definition.parts[0].fieldno
            for index in space.indexes.values()
            if index.is_unique and len(index.definition.parts) == 1
        }
        for place, column in enumerate(columns):
            column.table = space.name
            column.index_place, column.is_key = leading.get(place, -1), place in keys
        if space.primary is None:
            raise unsupported("SQL", "spaces without primary key")
        return f"{_rows_of(space, index)} AS {alias}", [Relation(name, alias, columns)]

    def _view(self, space: Space, name: str, alias: str) -> tuple[str, list[Relation]]:
        if space.name in self._open_views:
            raise generic(f"view {space.name} is circularly defined")
        self._open_views.append(space.name)
        select = view_query(self._queries.catalogue.schema, space)
        query = self._queries.compile(select, None)
        self._open_views.pop()
        if len(query.columns) != len(space.definition.fields):  # a table has got more columns since
            raise client_error(ErrorCode.CREATE_SPACE, space.name, "number of aliases doesn't match provided columns")
        columns = []
        for place, (column, declared) in enumerate(zip(query.columns, columns_of(space), strict=True)):
            placed = _placed(column, alias, place)
            placed.name, placed.type, placed.table = declared.name, declared.type, space.name
            columns.append(placed)
        return f"({query.named_sql()}) AS {alias}", [Relation(name, alias, columns)]

    # --- joins ---

    def _condition(
        self, source: sql_nodes.FromItem, before: list[Relation], relations: list[Relation], scope: QueryScope
    ) -> str:
        tests = []
        if source.on is not None:
            try:
                with self._queries.naming_kept():  # its queries are named after the result columns
                    given = self._queries.names_given
                    tests.append(self._queries.expressions(scope).condition(source.on))
                    scope.names_in_joins += self._queries.names_given - given
            except BoxError as error:  # as the first term of WHERE, after the result columns
                scope.failure = scope.failure or error
        names = source.using
        is_natural = source.join.startswith("NATURAL")
        if is_natural:
            if source.on is not None or source.using is not None:
                raise generic("a NATURAL join may not have an ON or USING clause")
            names = [
                column.name
                for relation in relations
                for column in relation.columns
                if not column.is_hidden and _find(before, column.name) is not None
            ]
        if source.on is not None and source.using is not None:
            raise generic("cannot have both ON and USING clauses in the same join")
        for name in names or []:
            left, right = _find(before, name), _find(relations, name)
            if left is None or right is None:
                raise generic(f"cannot join using column {name} - column not present in both tables")
            tests.append(self._queries.expressions(scope).comparison("=", left.typed(), right.typed()).sql)
            right.is_hidden = True
        return " AND ".join(tests)


def _is_inner_join(source: sql_nodes.FromItem) -> bool:
    """Return whether a source is a join in parentheses. Behind another source, Tarantool makes a query of it, whose
    errors come first.
    """
    return source.sources is not None and len(source.sources) > 1


def different_names(names: list[str]) -> list[str]:
    """Return distinct names for the columns of a view, or of a query in FROM: a repeated name gets a number, in place
    of one that it has.
    """
    found: list[str] = []
    for name in names:
        candidate, number = name, 0
        while candidate in found:
            number += 1
            candidate = f"{_NUMBER.sub('', name)}_{number}"
        found.append(candidate)
    return found


def _find(relations: list[Relation], name: str) -> KnownColumn | None:
    for relation in relations:
        found = relation.find(name)
        if found is not None:
            return found
    return None


def _placed(column: KnownColumn, alias: str, place: int) -> KnownColumn:
    str(column.collation)  # an unknown one is refused
    return KnownColumn(
        column.name,
        column.type,
        column.kind,
        column.collation,
        column.is_nullable,
        column.is_autoincrement,
        f"{alias}.c{place}",
        is_plain=column.is_plain,
    )


def tables_of(select: object) -> set[str]:
    """Return the names of the tables and views that a parsed query reads, in subqueries too."""
    found: set[str] = set()
    for child in sql_nodes.children(select):
        found |= tables_of(child)
    if isinstance(select, sql_nodes.FromItem) and select.name is not None and select.args is None:
        found.add(select.name)
    if isinstance(select, sql_nodes.Select):
        found -= {table.name for table in select.common}
    return found


def table_name(space: Space) -> str:
    """Return the name of the virtual table of a space."""
    return f"spaces.t{space.id}"


def view_query(schema: Schema, space: Space) -> sql_nodes.Select:
    """Return the parsed query of a view."""
    text = with_exact_names(schema, space.definition.opts.sql or "")
    statement = parse_statement(text).statement
    if isinstance(statement, sql_nodes.CreateView):
        return statement.select
    if isinstance(statement, sql_nodes.Select):
        return statement
    raise execute_error(text)


def _rows_of(space: Space, index: Index | None) -> str:
    """Return SQL for the rows that a named index holds, in its order, or all rows: an index may leave out those with
    nil.
    """
    if index is None or index.definition.type.upper() != "TREE" or index.definition.opts.get("func"):
        return table_name(space)
    parts = index.definition.parts
    if any(part.path for part in parts):
        return table_name(space)
    tests = [f"c{part.fieldno} IS NOT NULL" for part in parts if part.exclude_null]
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    order = [
        term
        for part in parts
        for term in order_terms(
            f"c{part.fieldno}", kind_of(part.type.value), part.collation_id or 0, is_desc=False, has_index=True
        )
    ]
    return f"(SELECT * FROM {table_name(space)}{where} ORDER BY {', '.join(order)})"
