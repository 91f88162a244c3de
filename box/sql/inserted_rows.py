"""The rows that an INSERT names itself, without a query."""

from __future__ import annotations

from collections.abc import Sequence

from box.sql import sql_nodes
from box.sql.operators import order_key
from box.sql.stored_values import Value


def has_one_row(insert: sql_nodes.Insert) -> bool:
    """Return whether an INSERT has DEFAULT VALUES or VALUES with one row."""
    select = insert.select
    if select is None:
        return True
    values = select.cores[0].values
    return len(select.cores) == 1 and not insert.common and values is not None and len(values) == 1


def constant_rows(select: sql_nodes.Select, params: Sequence[Value]) -> list[list[Value]] | None:
    """Return the rows of a VALUES that has only constants and parameters, or None for any other query."""
    core = select.cores[0]
    if len(select.cores) > 1 or core.values is None or select.common:
        return None
    rows = []
    for items in core.values:
        row: list[Value] = []
        for item in items:
            expr = item.expr
            if isinstance(expr, sql_nodes.Literal) and expr.place is not None:
                row.append(params[expr.place])
            elif isinstance(expr, sql_nodes.Literal) and not (type(expr.value) is int and expr.value >= 2**64):
                row.append(expr.value)
            elif isinstance(expr, sql_nodes.Param):
                row.append(params[expr.index])
            elif (
                isinstance(expr, sql_nodes.Unary)
                and expr.op == "-"
                and isinstance(expr.operand, sql_nodes.Literal)
                and type(expr.operand.value) in (int, float)
                and abs(expr.operand.value) <= 2**63  # type: ignore[arg-type]
            ):
                place = expr.operand.place
                row.append(-(expr.operand.value if place is None else params[place]))  # type: ignore[operator]
            else:
                return None
        rows.append(row)
    return rows


def sort_gathered(rows: list[list[Value]]) -> None:
    """Sort the rows of a query by all their values.

    Tarantool inserts them in this order if it has to gather them first, because of triggers or because the query reads
    the table, unless a sequence gives the keys.
    """
    if len(rows) > 1:
        rows.sort(key=lambda row: [order_key(value, 0) for value in row])
