"""Joins by columns of unlike types, one of which begins an index.

Tarantool reads the later table in the order of FROM by its index, and makes a key of the value from the other table. So
the values are not compared as they are elsewhere:

```
column of the index    a value of another type with =                with <, <=, >, >=
integer, unsigned      a text that is an integer; no other finds     SQL_TYPE_MISMATCH
number, double         SQL_TYPE_MISMATCH                             SQL_TYPE_MISMATCH
scalar                 equal values of one type                      the order of SCALAR
others                 SQL_TYPE_MISMATCH                             compared as elsewhere
```

It does not use an index of other values than numbers if one of the columns has numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from box.sql import sql_nodes
from box.sql.casts import text_to_integer
from box.sql.kinds import NUMBERS, NUMERIC, boxed, collation_name
from box.sql.stored_values import Stored, load, mismatch, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from box.sql.scope import Typed

FLIPPED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operators with which the operands of a comparison change places."""
_WHOLE: Final = ("integer", "unsigned")
_PYTHON_TYPES: Final = {"string": str, "varbinary": bytes, "boolean": bool}


def condition_on_join(expr: sql_nodes.Expr, compile_one: Callable[[sql_nodes.Expr], Typed]) -> str | None:
    """Return the SQL of a condition, a term of AND, on such columns. Returns None for any other condition."""
    if not isinstance(expr, sql_nodes.Binary) or expr.op not in FLIPPED:
        return None
    if not isinstance(expr.left, sql_nodes.Name) or not isinstance(expr.right, sql_nodes.Name):
        return None
    left, right = compile_one(expr.left), compile_one(expr.right)
    if left.type == right.type or (left.kind in NUMBERS and right.kind in NUMBERS):
        return None
    places = _place(left), _place(right)
    if 0 in places or places[0] == places[1]:
        return None
    choices = [(left, right, expr.op), (right, left, FLIPPED[expr.op])]
    for key, other, op in choices if places[0] > places[1] else reversed(choices):
        if _is_read_by_index(key, other):
            return _on_key(key, other, op)
    return None


def _place(operand: Typed) -> int:
    """Return the number of the table of a column, in the order of FROM; -1 for a column of NEW or OLD, which is known
    before all tables; 0 for other operands.
    """
    if operand.column is None or not operand.column.is_plain:
        return 0
    table = operand.sql.partition(".")[0]
    return int(table[1:]) if table.startswith("s") else -1


def _is_read_by_index(key: Typed, other: Typed) -> bool:
    assert key.column is not None
    assert other.column is not None
    if not key.column.leads_index or other.column.may_be_missing:
        return False
    return key.type in NUMERIC or other.type not in NUMERIC


def _on_key(key: Typed, other: Typed, op: str) -> str | None:
    if op == "=":
        collate = f" COLLATE {collation_name(key.collation)}" if key.collation else ""
        return f"({key.sql} = lb_join_key({boxed(other)}, '{key.type}'){collate})"
    if key.type in NUMERIC:
        return f"({key.sql} {op} lb_join_bound({boxed(other)}, '{key.type}'))"
    return f"lb_scalar('{op}', {key.sql}, {boxed(other)}, {key.collation})" if key.type == "scalar" else None


# --- functions for SQLite ---


def join_key(operand: Any, type_name: str) -> Stored:
    """Return the key of an index of values of a type that a value becomes; nil if it finds nothing.

    Raises:
        ClientError: SQL_TYPE_MISMATCH.
    """
    value = load(operand)
    if value is None or type_name == "scalar":
        given: Stored = operand
        return given
    if type_name in _WHOLE:
        if type(value) is float and value.is_integer():
            value = int(value)
        elif type(value) is str:
            value = text_to_integer(value)
        return store(value) if type(value) is int else None
    if type_name in NUMERIC:
        return join_bound(operand, type_name)
    if type(value) is not _PYTHON_TYPES.get(type_name, type(value)):
        raise mismatch(value, type_name)
    return int(value) if type(value) is bool else store(value)


def join_bound(operand: Any, type_name: str) -> Stored:
    """Return the bound of a range of numbers that a value is.

    Raises:
        ClientError: SQL_TYPE_MISMATCH.
    """
    value = load(operand)
    if value is not None and type(value) not in (int, float):
        raise mismatch(value, type_name)
    given: Stored = operand
    return given
