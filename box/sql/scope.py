"""The meaning of names in a query: relations with their columns, in nested scopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from box.errors import BoxError, ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.advice import unknown_name
from box.sql.parse.token_reader import generic
from box.sql.stored_values import Value

_BINARY: Final = (0, 3)
"""The ids of the collations in which only identical texts are equal: none, and `binary`."""


@dataclass(slots=True)
class Typed:
    """An expression for SQLite, and what is known about its value.

    `type` is the type that Tarantool declares and compares by. `kind` describes the values that really occur:

    ```
    int, real, num    numbers                  bool    0 or 1 (`box.sql.stored_values`)
    str, bin          texts, varbinaries       any     any value         null    always nil
    ```
    """

    sql: str
    type: str
    kind: str
    collation: int = 0
    is_explicit: bool = False
    """True if the collation was written with COLLATE."""
    column: KnownColumn | None = None
    has_aggregate: bool = False
    literal: object = None
    """The number, if the expression is a numeric constant."""


@dataclass(slots=True)
class KnownColumn:
    """A column of a relation or of a query's result."""

    name: str
    type: str
    kind: str
    collation: int = 0
    is_nullable: bool = True
    is_autoincrement: bool = False
    sql: str = ""
    is_hidden: bool = False
    """True if `*` and names without a table skip the column, because NATURAL or USING has joined it with another one.
    """
    is_plain: bool = False
    """True if it is a column of a space, not an expression."""
    shows_collation: bool = True
    """False if complete metadata leave out the collation."""
    table: str | None = None
    """The name of the space, view or table of WITH that the column comes from."""
    index_place: int = -1
    """The number of the oldest index of the space that begins with the column; -1 if none does."""
    is_key: bool = False
    """True if the column alone is the key of a unique index of the space."""
    may_be_missing: bool = False
    """True if the column's relation may have no row, because LEFT JOIN allows that."""
    star_name: str | None = None
    """The name under which `*` gives the column, if it is another one: in a join in parentheses, names differ."""

    @property
    def leads_index(self) -> bool:
        """True if an index of the space begins with the column."""
        return self.index_place >= 0

    def typed(self) -> Typed:
        return Typed(self.sql, self.type, self.kind, self.collation, column=self)


@dataclass(slots=True)
class Relation:
    """A table, view or query in FROM. `name` is its alias, else its own name."""

    name: str | None
    alias: str
    columns: list[KnownColumn]

    def find(self, name: str) -> KnownColumn | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(slots=True)
class StarColumn:
    """A column that `*` stands for."""

    table: str | None
    place: int
    column: KnownColumn


@dataclass(slots=True)
class QueryScope:
    """The relations of one SELECT; `outer` is the scope of the query around it."""

    relations: list[Relation] = field(default_factory=list)
    outer: QueryScope | None = None
    results: list[sql_nodes.ResultColumn] | None = None
    """The result columns, once their aliases may be used."""
    names: list[str] = field(default_factory=list)
    common: dict[str, CommonRelation] = field(default_factory=dict)
    special: dict[str, list[KnownColumn]] = field(default_factory=dict)
    """The columns of NEW and OLD in a trigger."""
    allows_aggregates: bool = False
    """True where the query may call aggregates, also those of queries around it."""
    has_aggregates: bool = False
    """True where the query computes aggregates, also those that queries inside of it call."""
    inner_aggregates: int = 0
    """The number of aggregates of this query that queries inside of it have called."""
    is_grouped: bool = False
    """True if the query has GROUP BY."""
    is_inside_aggregate: bool = False
    is_of_last_row: bool = False
    """True if a column outside of aggregates means its value in the last row of a group."""
    extreme: str = ""
    """If that row is the one with the extreme of the only MIN or MAX: the SQL of the aggregate for a column, without
    its last argument.
    """
    grouped: list[KnownColumn] = field(default_factory=list)
    """The columns of GROUP BY, whose values are equal in all rows of a group."""
    names_in_joins: int = 0
    """The number of generated names for queries in ON, which are named after the result columns."""
    failure: BoxError | None = None
    """The error of an ON clause, which comes after errors of the result columns."""
    late_failure: BoxError | None = None
    """An error that comes after those of all clauses."""
    on_aggregate: Callable[[], None] | None = None

    def resolve(self, name: sql_nodes.Name) -> KnownColumn | sql_nodes.ResultColumn:
        """Find the column with a name, or the result column with such an alias, from here outwards.

        Raises:
            ClientError: SQL_CANT_RESOLVE_FIELD, NO_SUCH_FIELD_NAME_IN_SPACE, SQL_PARSER_GENERIC.
        """
        scope: QueryScope | None = self
        while scope is not None:
            found = scope.find_here(name)
            if found is not None:
                return found
            scope = scope.outer
        raise self.unknown(name)

    def unknown(self, name: sql_nodes.Name) -> BoxError:
        """Return the error of a name that is known neither here nor outwards."""
        if name.table is not None:
            error = client_error(ErrorCode.NO_SUCH_FIELD_NAME_IN_SPACE, name.name, name.table)
        else:
            error = client_error(ErrorCode.SQL_CANT_RESOLVE_FIELD, name.name)
        return unknown_name(error, name.name, self._column_names(name.table))

    def _column_names(self, table: str | None) -> Iterator[str]:
        """Return the names of the columns of a relation, or of all relations, from here outwards."""
        scope: QueryScope | None = self
        while scope is not None:
            for relation in scope.relations:
                if table in (None, relation.name):
                    yield from (column.name for column in relation.columns)
            scope = scope.outer

    def find_here(self, name: sql_nodes.Name) -> KnownColumn | sql_nodes.ResultColumn | None:
        """Find the column with a name, or the result column with such an alias, in this scope alone."""
        found: list[KnownColumn] = []
        for relation in self.relations:
            if name.table is not None and relation.name != name.table:
                continue
            column = relation.find(name.name)
            if column is not None and not (column.is_hidden and name.table is None):
                found.append(column)
        if len(found) > 1:
            shown = name.name if name.table is None else f"{name.table}.{name.name}"
            raise generic(f"ambiguous column name: {shown}")
        if found:
            return found[0]
        if name.table in self.special:
            for column in self.special[name.table]:
                if column.name == name.name:
                    return column
        if name.table is None and self.results is not None:
            for result in self.results:
                if result.alias == name.name:
                    return result
        return None

    def of_aggregate(self, args: list[sql_nodes.Expr]) -> QueryScope:
        """Return the scope to which an aggregate with these arguments belongs: the innermost one that has a relation
        with a name in them, or this scope if they have no such name.
        """
        names = [name for arg in args for name in _names(arg)]
        scope: QueryScope | None = self
        while scope is not None:
            if any(scope._knows(name) for name in names):
                return scope
            scope = scope.outer
        return self

    def _knows(self, name: sql_nodes.Name) -> bool:
        relations = [relation for relation in self.relations if name.table in (None, relation.name)]
        if any(relation.find(name.name) for relation in relations):
            return True
        return name.table is None and any(result.alias == name.name for result in self.results or ())

    def takes_last(self, column: KnownColumn) -> bool:
        """Return whether a column's value has to be that of the last row, where SQLite takes the first."""
        if not self.is_of_last_row or self.is_inside_aggregate:
            return False
        if any(column is one for one in self.grouped) and column.collation in _BINARY:
            return False  # it is equal in all rows of a group
        return any(column is one for relation in self.relations for one in relation.columns)

    def find_common(self, name: str) -> CommonRelation | None:
        """Return the table of a WITH clause that is visible here, or None."""
        scope: QueryScope | None = self
        while scope is not None:
            if name in scope.common:
                return scope.common[name]
            scope = scope.outer
        return None


def _names(expr: object) -> Iterator[sql_nodes.Name]:
    """Return the names in an expression, outside of subqueries."""
    if isinstance(expr, sql_nodes.Name):
        yield expr
    elif not isinstance(expr, sql_nodes.Select):
        for child in sql_nodes.children(expr):
            yield from _names(child)


@dataclass(slots=True)
class CommonRelation:
    """A table of a WITH clause: its name in SQLite and, after its compilation, its columns and its SQL."""

    sql: str
    columns: list[KnownColumn]
    table: sql_nodes.CommonTable
    scope: QueryScope
    """The scope in which the names of the table's query are looked up."""
    text: str = ""
    is_open: bool = False
    """True if its compilation has begun."""
    is_ready: bool = False
    """True if its compilation has ended, so that other queries may read it."""
    failure: str = "circular reference"
    """What a mention of the table is that its compilation meets: an error text."""
    names: range = range(0)
    """The numbers of the names that its compilation has given to result columns without one."""


def generated_name(number: int) -> str:
    """Return the name of a result column without one."""
    return f"COLUMN_{number}"


class Special:
    """NEW and OLD for the steps of a running trigger.

    `columns` belong to the scope of a step. `values` are their parameters, which follow those of the statement. `mark`
    is part of the key under which the analysis of a step is cached.
    """

    __slots__ = ("columns", "mark", "values")

    def __init__(self, columns: dict[str, list[KnownColumn]], values: list[Value], mark: Any) -> None:
        self.columns = columns
        self.values = values
        self.mark = mark


def scope_of(special: Special | None) -> QueryScope:
    """Return a scope with nothing but NEW and OLD; with nothing at all outside of triggers."""
    scope = QueryScope()
    if special is not None:
        scope.special = special.columns
    return scope
