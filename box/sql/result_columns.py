"""Checks of the result columns of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from box.errors import BoxError, ErrorCode
from box.sql import sql_nodes
from box.sql.aggregates import AGGREGATES
from box.sql.parse.token_reader import generic, limit_exceeded
from box.sql.scope import StarColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from box.sql.scope import KnownColumn, Relation, Typed

_T = TypeVar("_T")

COLUMNS_MAX: Final = 2000
"""The limit of Tarantool for the columns of a result."""


def check_distinct(relation: Relation, column: KnownColumn, others: list[Relation]) -> None:
    """Raise an error if another relation has the same name, and a column with that of `column`."""
    if relation.name is not None and any(
        other.name == relation.name and other.find(column.name) is not None for other in others
    ):
        raise generic(f"ambiguous column name: {relation.name}.{column.name}")


def check_count(columns: int) -> None:
    if columns > COLUMNS_MAX:
        raise limit_exceeded("The number of columns in result set", columns, COLUMNS_MAX)


def check_parts(select: sql_nodes.Select, counts: list[int]) -> None:
    """Raise an error if a part of UNION, INTERSECT or EXCEPT has another number of columns than the next one. Of
    several the last is reported.
    """
    for number in range(len(counts) - 1, 0, -1):
        if counts[number - 1] == counts[number]:
            continue
        if select.cores[number].values is not None:
            raise generic("all VALUES must have the same number of terms")
        operator = select.operators[number - 1]
        raise generic(f"SELECTs to the left and right of {operator} do not have the same number of result columns")


def compiled_rows(rows: list[list[_T]], compile_row: Callable[[list[_T]], list[Typed]]) -> list[list[Typed]]:
    """Compile the rows of VALUES, the last one first: its errors come first. Only of integers that are too large the
    first one is reported.
    """
    try:
        return list(map(compile_row, reversed(rows)))[::-1]
    except BoxError as error:
        if error.code == ErrorCode.INT_LITERAL_MAX:
            return list(map(compile_row, rows))
        raise


def reads_ungrouped(expr: object) -> bool:
    """Return whether an expression names a column that is neither inside an aggregate nor inside a subquery."""
    if isinstance(expr, sql_nodes.Name | StarColumn):
        return True
    if isinstance(expr, sql_nodes.Subquery | sql_nodes.Exists):
        return False
    if isinstance(expr, sql_nodes.FunctionCall) and expr.name in AGGREGATES:
        return False
    return any(map(reads_ungrouped, sql_nodes.children(expr)))
