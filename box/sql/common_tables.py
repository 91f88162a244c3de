"""Compiles the tables of WITH clauses.

A table is compiled when a FROM names it for the first time. So an unused table may be wrong, and a table may refer to a
later one.

```
declared  --named in a FROM-->  open  --compiled-->  ready
                                  |
                 named again: an error, except for the recursive reference in the last part of a UNION
```
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from box.errors import unsupported
from box.sql import sql_nodes
from box.sql.aggregates import is_aggregate
from box.sql.from_clause import different_names
from box.sql.parse.token_reader import generic
from box.sql.scope import CommonRelation, KnownColumn, QueryScope, generated_name

if TYPE_CHECKING:
    from box.sql.query import QueryCompiler


class CommonTables:
    """Compiles the tables of the WITH clauses of one statement."""

    def __init__(self, queries: QueryCompiler) -> None:
        self._queries = queries

    def declare(self, tables: list[sql_nodes.CommonTable], scope: QueryScope) -> None:
        """Add the names of a WITH clause to a scope."""
        for table in tables:
            scope.common[table.name] = CommonRelation(f"w{self._queries.new_alias()}", [], table, scope)

    def columns_of(self, common: CommonRelation) -> list[KnownColumn]:
        """Return the columns of a table that a FROM names.

        As in Tarantool, each mention of the table gives new names to the result columns of its query without one.
        """
        if not common.is_ready:
            self.make_ready(common)
            return common.columns
        queries, names = self._queries, common.names
        shift = queries.names_given + 1 - names.start
        queries.skip_names(len(names))
        columns = [_copy(column) for column in common.columns]
        if common.table.columns is None:
            generated = {generated_name(number): generated_name(number + shift) for number in names}
            for column in columns:
                column.name = generated.get(column.name, column.name)
        return columns

    def make_ready(self, common: CommonRelation) -> None:
        """Compile a table that is named for the first time.

        Raises:
            ClientError: SQL_PARSER_GENERIC, the table is part of itself; an error of its query.
        """
        if common.is_ready:
            return
        if common.is_open:
            raise generic(f"{common.failure}: {common.table.name}")
        common.is_open = True
        first = self._queries.names_given + 1
        self._compile(common)
        common.names = range(first, self._queries.names_given + 1)
        common.is_ready = True

    @staticmethod
    def prefix(scope: QueryScope) -> str:
        """Return the text of a WITH clause with the tables of a scope that were used, or '' if none was."""
        texts = [common.text for common in scope.common.values() if common.text]
        return f"WITH RECURSIVE {', '.join(texts)} " if texts else ""

    def _compile(self, common: CommonRelation) -> None:
        table, queries = common.table, self._queries
        select = table.select
        is_recursive = _is_recursive(table)
        if is_recursive:
            with queries.naming_kept():
                first = sql_nodes.Select(select.cores[:1], [], common=select.common, is_recursive=select.is_recursive)
                start = queries.compile(first, common.scope)
            common.columns = [_copy(column) for column in start.columns]
            _name_columns(table, common.columns)
            for column in common.columns:
                column.kind = (
                    "any" if column.kind in ("bool", "null") else "num" if column.kind == "int" else column.kind
                )
            common.is_ready = True
        query = queries.compile(select, common.scope, common=common)
        if is_recursive:
            query.is_recursive = True
            for column, known in zip(query.columns, common.columns, strict=True):
                column.kind = known.kind
        else:
            common.columns = [replace(_copy(column), is_plain=column.is_plain) for column in query.columns]
            _name_columns(table, common.columns)
        names = ", ".join(f"c{place}" for place in range(len(common.columns)))
        common.text = f"{common.sql}({names}) AS ({query.sql})"


def _is_recursive(table: sql_nodes.CommonTable) -> bool:
    """Return whether the last part of a table's query reads the table itself.

    Raises:
        ClientError: SQL_PARSER_GENERIC, UNSUPPORTED: the query reads its table more than once, or by an aggregate.
    """
    select, name = table.select, table.name
    if len(select.cores) < 2 or not select.operators[-1].startswith("UNION"):
        return False
    last = select.cores[-1]
    sources = list(_sources_of(last.sources))
    count = sum(source.name == name for source in sources)
    if count > 1:
        raise generic(f"multiple references to recursive table: {name}")
    if any(source.select is not None and _mentions(source.select, name) for source in sources):
        raise generic(f"recursive reference in a subquery: {name}")
    parts = (last.columns, last.where, last.group_by, last.having)
    if count and any(_mentions(part, name) for part in parts):
        raise generic(f"multiple recursive references: {name}")
    if count and (last.group_by is not None or any(is_aggregate(column.expr) for column in last.columns)):
        raise unsupported("Tarantool", "recursive aggregate queries")
    return count == 1


def _sources_of(sources: list[sql_nodes.FromItem]) -> list[sql_nodes.FromItem]:
    found: list[sql_nodes.FromItem] = []
    for source in sources:
        found += [source] if source.sources is None else _sources_of(source.sources)
    return found


def _mentions(node: object, name: str) -> bool:
    """Return whether a FROM in a part of a query names a table."""
    if isinstance(node, list):
        return any(_mentions(item, name) for item in node)
    if isinstance(node, sql_nodes.FromItem) and node.name == name:
        return True
    return any(_mentions(child, name) for child in sql_nodes.children(node))


def _name_columns(table: sql_nodes.CommonTable, columns: list[KnownColumn]) -> None:
    if table.columns is None:
        for column, name in zip(columns, different_names([column.name for column in columns]), strict=True):
            column.name = name
        return
    if len(table.columns) != len(columns):
        raise generic(f"table {table.name} has {len(columns)} values for {len(table.columns)} columns")
    for column, name in zip(columns, table.columns, strict=True):
        column.name = name


def _copy(column: KnownColumn) -> KnownColumn:
    return KnownColumn(
        column.name, column.type, column.kind, column.collation, column.is_nullable, column.is_autoincrement
    )
