"""Queries that UNION, EXCEPT and INTERSECT combine: which of equal rows they keep, and what ORDER BY may name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from box.errors import BoxError
from box.sql import sql_nodes
from box.sql.kinds import collation_name
from box.sql.parse.token_reader import generic
from box.sql.scope import KnownColumn, QueryScope, StarColumn, Typed

if TYPE_CHECKING:
    from collections.abc import Sequence


class CompiledCore(Protocol):
    """What ORDER BY needs to know of a part of a compound query."""

    columns: list[KnownColumn]
    results: list[sql_nodes.ResultColumn]
    """The result columns as they are written, those of `*` one by one."""
    scope: QueryScope | None
    """The scope of its names; None for VALUES."""


def is_collated(column: KnownColumn) -> bool:
    """Return whether unlike texts of a column may be equal."""
    return column.collation not in (0, 3) and column.kind in ("str", "any")


def check_sorted(
    select: sql_nodes.Select,
    order: Sequence[tuple[int, bool, int]],
    rows: Sequence[Sequence[Typed]],
    columns: Sequence[KnownColumn],
) -> None:
    """Check the types of columns with a collation that ORDER BY sorts: Tarantool sorts each part by an expression with
    COLLATE. It sorts by all columns if equal rows are to be found.

    Raises:
        ClientError: SQL_PARSER_GENERIC, a part has a column that is no text.
    """
    explicit = {
        place for term, (place, _, _) in zip(select.order_by or (), order, strict=True) if _names_collation(term)
    }
    is_set = any(operator != "UNION ALL" for operator in select.operators)
    places = range(len(columns)) if is_set else [place for place, _, _ in order]
    for place in places:
        items = [row[place] for row in rows if row[place].column is not None]
        is_wrong = any(item.type not in ("string", "scalar") for item in items)
        if is_wrong and columns[place].collation > 0 and place not in explicit:
            raise generic("COLLATE clause can't be used with non-string arguments")


def _names_collation(term: sql_nodes.OrderTerm) -> bool:
    return isinstance(term.expr, sql_nodes.Collate)


def combined(parts: Sequence[str], operators: Sequence[str], columns: Sequence[KnownColumn]) -> str:
    """Return SQL that combines queries with result columns `c0`, `c1`, ...

    SQLite keeps the first of rows that are equal by a collation; Tarantool keeps the last one.
    """
    if not any(map(is_collated, columns)):
        pieces = [parts[0]]
        for operator, part in zip(operators, parts[1:], strict=True):
            pieces += (f" {operator} ", part)
        return "".join(pieces)
    sql = parts[0]
    for operator, part in zip(operators, parts[1:], strict=True):
        if operator == "UNION":
            sql = _without_equals(f"{sql} UNION ALL {part}", columns)
        elif operator == "UNION ALL":
            sql = f"{sql} UNION ALL {part}"
        else:
            sql = f"{_without_equals(sql, columns)} {operator} {part}"
    return sql


def _without_equals(sql: str, columns: Sequence[KnownColumn]) -> str:
    names = [f"c{place}" for place in range(len(columns))]
    collates = [f" COLLATE lb_{column.collation}" if is_collated(column) else "" for column in columns]
    items = [f"lb_last({name}){collate} AS {name}" for name, collate in zip(names, collates, strict=True)]
    keys = [f"{name}{collate}" for name, collate in zip(names, collates, strict=True)]
    return f"SELECT {', '.join(items)} FROM ({sql}) GROUP BY {', '.join(keys)}"


def order_terms(sql: str, kind: str, collation: int, is_desc: bool, *, has_index: bool = False) -> list[str]:
    """Return terms of ORDER BY that sort values as Tarantool does. `has_index` tells that an index of numbers may have
    them in this order already.
    """
    suffix = " DESC" if is_desc else ""
    if kind == "num" and not has_index:
        return [f"lb_great({sql}){suffix}"]
    terms = [f"lb_rank({sql}){suffix}"] if kind == "any" else []
    collate = f" COLLATE {collation_name(collation)}" if collation not in (0, 3) and kind in ("str", "any") else ""
    return [*terms, f"{sql}{collate}{suffix}"]


_INTEGER: Final = re.compile(r"[-+( ]*[0-9]+[) ]*", re.ASCII)


def keys_of(item: Typed, collation: int = 0, is_desc: bool = False) -> list[str]:
    """Return terms of ORDER BY or GROUP BY for an expression."""
    # SQLite would take an integer, with any sign, for the number of a column.
    sql = f"({item.sql} + 0)" if _INTEGER.fullmatch(item.sql) else item.sql
    has_index = item.column is not None and item.column.leads_index
    return order_terms(sql, item.kind, collation or item.collation, is_desc, has_index=has_index)


def ordered_place(expr: sql_nodes.Expr, number: int, cores: Sequence[CompiledCore]) -> int:
    """Return the place of the result column that the term with this number of an ORDER BY stands for.

    Raises:
        ClientError: SQL_CANT_RESOLVE_FIELD and others, the first parts have no such name; SQL_PARSER_GENERIC, the term
            is no result column of any part.
    """
    failure: BoxError | None = None
    for core in cores:
        place = _aliased(expr, core)
        if place is None and failure is None:
            try:
                _resolve_names(expr, core.scope)
            except BoxError as error:
                failure = error
            else:
                place = _written(expr, core)
        if place is not None:
            if failure is not None:
                raise failure
            return place
    raise generic(f"Error at ORDER BY in place {number}: term does not match any column in the result set")


def _aliased(expr: sql_nodes.Expr, core: CompiledCore) -> int | None:
    if not isinstance(expr, sql_nodes.Name) or expr.table is not None:
        return None
    return next((place for place, result in enumerate(core.results) if _alias_of(result) == expr.name), None)


def _alias_of(result: sql_nodes.ResultColumn) -> str | None:
    """Return the alias of a result column. One that `*` stands for has its name as an alias."""
    expr: object = result.expr
    return expr.column.name if isinstance(expr, StarColumn) else result.alias


def _written(expr: sql_nodes.Expr, core: CompiledCore) -> int | None:
    """Return the place of a result column that is the same expression, or the same column by another name."""
    wanted = _column_of(expr, core.scope)
    for place, result in enumerate(core.results):
        if result.expr == expr or (wanted is not None and _column_of(result.expr, core.scope) is wanted):
            return place
    return None


def _column_of(expr: object, scope: QueryScope | None) -> KnownColumn | None:
    if isinstance(expr, sql_nodes.Name):
        found = scope.find_here(expr) if scope is not None else None
        return found if isinstance(found, KnownColumn) else None
    column = getattr(expr, "column", None)
    return column if isinstance(column, KnownColumn) else None


def _resolve_names(expr: object, scope: QueryScope | None) -> None:
    if isinstance(expr, sql_nodes.Name) and (scope is None or scope.find_here(expr) is None):
        raise (scope or QueryScope()).unknown(expr)
    if isinstance(expr, sql_nodes.Select):
        return
    for child in sql_nodes.children(expr):
        _resolve_names(child, scope)


_PLACE_MAX: Final = 2**31 - 1
"""The greatest number that Tarantool takes for that of a column; a greater one is a value like any other."""


def number_of(expr: object) -> int | None:
    """Return the number of a column that a term of ORDER BY or GROUP BY is, with signs, or None for another term."""
    if isinstance(expr, sql_nodes.Unary) and expr.op in ("-", "+"):
        inner = number_of(expr.operand)
        return -inner if inner is not None and expr.op == "-" else inner
    if isinstance(expr, sql_nodes.Literal) and type(expr.value) is int and expr.value <= _PLACE_MAX:
        return expr.value
    return None


def place_of(expr: sql_nodes.Expr, count: int, number: int, clause: str) -> int | None:
    """Return the place of the result column that a number in ORDER BY or GROUP BY stands for; None for another term.

    Raises:
        ClientError: SQL_PARSER_GENERIC, there is no such column.
    """
    found = number_of(expr)
    if found is not None and not 1 <= found <= count:
        raise generic(f"Error at {clause} BY in place {number}: term out of range - should be between 1 and {count}")
    return None if found is None else found - 1


def with_ties(terms: list[str], groups: list[str], *, is_reversed: bool) -> list[str]:
    """Return terms of ORDER BY that put rows which they consider equal in the order in which Tarantool has them.

    With `is_reversed`, because of LIMIT after a descending order, this is the opposite of the order in which they were
    found. Groups are found in the order of GROUP BY; SQLite gives it the directions of as many terms of ORDER BY, which
    a further term that is constant prevents.
    """
    if is_reversed:
        return [*terms, "lb_next() DESC"]
    if len(terms) != len(groups) or not any(term.endswith(" DESC") for term in terms):
        return terms
    return terms if {term.removesuffix(" DESC") for term in terms} == set(groups) else [*terms, "(0 + 0)"]
