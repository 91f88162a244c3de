"""Conditions that compare a boolean column, which leads an index, with values of other types.

Tarantool makes keys of the values, and does not compare them as it does without an index. A range up to a text or a
varbinary has all booleans, because these types come later in the order of keys; a range from one on is an error, as is
a list with other values, even if the table has no rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from box.errors import ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.stored_values import load, mismatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from box.sql.scope import Typed

    Compile = Callable[[sql_nodes.Expr], Typed]

_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_RANKS: Final = {int: 0, float: 0, str: 1, bytes: 2}
"""The order in which the values of a list become keys."""


def is_boolean_key(operand: Typed) -> bool:
    """Return whether Tarantool converts what is compared with this column to a key of an index, even without rows."""
    return operand.kind == "bool" and operand.column is not None and operand.column.leads_index


def condition_on_key(expr: sql_nodes.Expr, compile_one: Compile) -> str | None:
    """Return the SQL of a condition, a term of AND, on a boolean key. Returns None for any other condition."""
    if isinstance(expr, sql_nodes.Binary) and expr.op in _FLIPPED:
        if isinstance(expr.left, sql_nodes.Name):
            return _range(expr.left, expr.op, expr.right, compile_one)
        if isinstance(expr.right, sql_nodes.Name):
            return _range(expr.right, _FLIPPED[expr.op], expr.left, compile_one)
    if isinstance(expr, sql_nodes.InList) and not expr.negated and len(expr.items) > 1:
        return _list(expr, compile_one)
    return None


def _range(name: sql_nodes.Name, op: str, bound: sql_nodes.Expr, compile_one: Compile) -> str | None:
    column = compile_one(name)
    if not is_boolean_key(column) or isinstance(bound, sql_nodes.RowValue):
        return None
    other = compile_one(bound)
    is_key = isinstance(bound, sql_nodes.Param) and other.kind not in ("bool", "null")
    if not is_key and other.kind not in ("str", "bin"):
        return None
    if op in ("<", "<="):
        return f"({column.sql} <= 1 AND {other.sql} IS NOT NULL)"
    return f"({column.sql} = lb_wrong_key({other.sql}))"


def _list(expr: sql_nodes.InList, compile_one: Compile) -> str | None:
    if not isinstance(expr.operand, sql_nodes.Name):
        return None
    column = compile_one(expr.operand)
    if not is_boolean_key(column) or not all(
        isinstance(one, sql_nodes.Literal | sql_nodes.Param) for one in expr.items
    ):
        return None
    others = [one for one in map(compile_one, expr.items) if one.kind not in ("bool", "null")]
    return f"({column.sql} = lb_boolean_keys({', '.join(one.sql for one in others)}))" if others else None


def boolean_key(operand: Any) -> None:
    """Refuse a text or varbinary as the key of an index of booleans; nil is a key that nothing equals.

    Raises:
        ClientError: SQL_TYPE_MISMATCH.
    """
    if operand is not None:
        raise mismatch(load(operand), "boolean")


def boolean_keys(*operands: Any) -> None:
    """Refuse values as keys of an index of booleans.

    Raises:
        ClientError: SQL_TYPE_MISMATCH, for the least of them.
    """
    values = sorted(map(load, operands), key=lambda value: (_RANKS.get(type(value), 3), value))
    raise mismatch(values[0], "boolean")


def wrong_key(operand: Any) -> None:
    """Refuse a value at which a range of booleans would begin; nil is a key that nothing equals.

    Raises:
        ClientError: KEY_PART_TYPE.
    """
    if operand is not None:
        raise client_error(ErrorCode.KEY_PART_TYPE, 0, "boolean")
