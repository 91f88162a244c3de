"""Conditions that compare a column, which leads an index, with constants of another type.

Tarantool makes keys of the constants, and does not compare them as it does without an index; but it looks for no
literal number in an index of texts, varbinaries, booleans or scalars.

```
column            =                         a range                                 IN, of several
integer, unsigned a text that is a number   SQL_TYPE_MISMATCH                       values that are numbers
number, double    SQL_TYPE_MISMATCH         SQL_TYPE_MISMATCH                       SQL_TYPE_MISMATCH
string, boolean,  SQL_TYPE_MISMATCH         up to it: by the order of SCALAR;       SQL_TYPE_MISMATCH
  varbinary                                 from it on: KEY_PART_TYPE
scalar            equal values of one type  by the order of SCALAR                  equal values of one type
```

The errors come even if the table has no rows.
"""

from __future__ import annotations

from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Final

from box.errors import ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.casts import text_to_double
from box.sql.join_keys import FLIPPED, condition_on_join, is_constant_key
from box.sql.kinds import NUMBERS, NUMERIC, boxed, truth
from box.sql.operators import order_key
from box.sql.stored_values import load, mismatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from box.sql.scope import Typed

    Compile = Callable[[sql_nodes.Expr], Typed]

_RANKS: Final = {bool: 0, int: 1, float: 1, str: 2, bytes: 3}
"""The order in which the values of a list become keys."""
_PLACES: Final = {"bool": 0, "str": 2, "bin": 3}
"""The places of kinds of values in the order of SCALAR; numbers have place 1."""
_WHOLE: Final = frozenset(("integer", "unsigned"))
_TESTS: Final = {"<": lt, "<=": le, ">": gt, ">=": ge}


def is_boolean_key(operand: Typed) -> bool:
    """Return whether Tarantool converts what is compared with this column to a key of an index, even without rows."""
    return operand.kind == "bool" and leads_index(operand)


def leads_index(operand: Typed) -> bool:
    """Return whether the operand is a column with which an index begins."""
    return operand.column is not None and operand.column.leads_index


def condition_on_key(expr: sql_nodes.Expr, compile_one: Compile) -> str | None:
    """Return the SQL of a condition, a term of AND, on such a column. Returns None for any other condition."""
    on_join = condition_on_join(expr, compile_one)
    if on_join is not None:
        return on_join
    if isinstance(expr, sql_nodes.Binary) and expr.op in FLIPPED:
        if isinstance(expr.left, sql_nodes.Name):
            return _compared(expr.left, expr.op, expr.right, compile_one)
        if isinstance(expr.right, sql_nodes.Name):
            op = FLIPPED[expr.op]
            on_key = _compared(expr.right, op, expr.left, compile_one)
            if on_key is None and is_constant_key(expr.left) and leads_index(compile_one(expr.right)):
                return truth(compile_one(sql_nodes.Binary(op, expr.right, expr.left)))
            return on_key
    if isinstance(expr, sql_nodes.InList) and not expr.negated and isinstance(expr.operand, sql_nodes.Name):
        if len(expr.items) == 1:
            return _compared(expr.operand, "=", expr.items[0], compile_one)
        return _list(expr.operand, expr.items, compile_one)
    return None


def _compared(name: sql_nodes.Name, op: str, bound: sql_nodes.Expr, compile_one: Compile) -> str | None:
    column = compile_one(name)
    if not leads_index(column) or isinstance(bound, sql_nodes.RowValue):
        return None
    if column.kind == "bool":
        return None if op == "=" else _boolean_range(column, op, bound, compile_one)
    if not is_constant_key(bound):
        return None
    other = compile_one(bound)
    # A number is looked for only if it is a parameter, whose type Tarantool does not know when it chooses the index.
    is_number = other.kind in NUMBERS and isinstance(bound, sql_nodes.Param) and column.type not in NUMERIC
    if (other.kind not in _PLACES and not is_number) or other.kind == column.kind:
        return None
    if column.type == "scalar":
        return f"lb_scalar('{op}', {column.sql}, {boxed(other)}, {column.collation})"
    if column.type in _WHOLE and op == "=":
        return None if other.kind == "str" else "0"
    if column.type in NUMERIC or op == "=":
        return f"({column.sql} = lb_refused_key({boxed(other)}, '{column.type}'))"
    if column.kind not in _PLACES:
        return None
    return _range(column, op, other)


def _range(column: Typed, op: str, other: Typed) -> str:
    """Return the condition of a range of texts, varbinaries or booleans up to, or from, a value of another type."""
    if op not in ("<", "<="):
        return f"({column.sql} = lb_wrong_key({other.sql}, '{column.type}'))"
    return f"({column.sql} IS NOT NULL AND {other.sql} IS NOT NULL)" if _precedes(column, other) else "0"


def _precedes(column: Typed, other: Typed) -> bool:
    return _PLACES[column.kind] < _PLACES.get(other.kind, 1)


def _boolean_range(column: Typed, op: str, bound: sql_nodes.Expr, compile_one: Compile) -> str | None:
    """Return the condition for a range of boolean keys, or None; see `_range`. Unlike there, `bound` need not be a
    constant. Values of all other types come after booleans.
    """
    other = compile_one(bound)
    is_key = isinstance(bound, sql_nodes.Param) and other.kind not in ("bool", "null")
    return _range(column, op, other) if is_key or other.kind in ("str", "bin") else None


def _list(name: sql_nodes.Name, items: list[sql_nodes.Expr], compile_one: Compile) -> str | None:
    column = compile_one(name)
    if not leads_index(column) or not items or not all(map(is_constant_key, items)):
        return None
    others = list(map(compile_one, items))
    if column.type == "scalar":
        return f"lb_scalar_in({column.collation}, {column.sql}, {', '.join(map(boxed, others))})"
    if column.type in _WHOLE:
        if all(one.kind not in _PLACES for one in others):
            return None
        kept = [f"lb_converted({one.sql}, '{column.type}')" for one in others if one.kind not in ("bool", "bin")]
        return f"({column.sql} IN ({', '.join(kept)}))"
    alike = ("int", "real", "num", "null") if column.type in NUMERIC else (column.kind, "null")
    unlike = [one for one in others if one.kind not in alike]
    if column.kind == "str":
        unlike = [one for one in unlike if one.kind in _PLACES]  # numbers become texts
    if not unlike or (column.kind not in _PLACES and column.type not in NUMERIC):
        return None
    values = ", ".join(map(boxed, unlike))
    if column.type == "number" and all(one.kind == "str" for one in unlike):
        whole = ", ".join(map(boxed, (column, *others)))
        return f"(lb_number_keys({values}) AND lb_in('number', 0, {whole}))"
    return f"({column.sql} = lb_refused_keys('{column.type}', {values}))"


# --- functions for SQLite ---


def refused_key(operand: Any, type_name: str) -> None:
    """Refuse a value as the key of an index of values of a type; nil is a key that nothing equals.

    Raises:
        ClientError: SQL_TYPE_MISMATCH.
    """
    if operand is not None:
        raise mismatch(load(operand), type_name)


def refused_bound(_: Any, operand: Any, type_name: str) -> None:
    """Refuse a value as the end of a range, once a row of its beginning is found. Errors as `refused_key`."""
    refused_key(operand, type_name)


def refused_keys(type_name: str, *operands: Any) -> None:
    """Refuse values as keys of an index of values of a type.

    Raises:
        ClientError: SQL_TYPE_MISMATCH, for the least of them.
    """
    values = sorted(map(load, operands), key=lambda value: (_RANKS.get(type(value), 4), value))
    raise mismatch(values[0], type_name)


def number_keys(*texts: Any) -> int:
    """Return 1 if all texts are numbers.

    Raises:
        ClientError: SQL_TYPE_MISMATCH, for the first one that is none.
    """
    for text in texts:
        if text_to_double(load(text)) is None:
            raise mismatch(load(text), "number")
    return 1


def wrong_key(operand: Any, type_name: str) -> None:
    """Refuse a value at which a range would begin; nil is a key that nothing equals.

    Raises:
        ClientError: KEY_PART_TYPE.
    """
    if operand is not None:
        raise client_error(ErrorCode.KEY_PART_TYPE, 0, type_name)


def compare_scalars(op: str, left: Any, right: Any, collation: int) -> int | None:
    """Compare two values by the order of SCALAR; nil if one is nil."""
    if left is None or right is None:
        return None
    first, second = order_key(load(left), collation), order_key(load(right), collation)
    return int(first == second) if op == "=" else int(_TESTS[op](first, second))


def is_scalar_in(collation: int, operand: Any, *items: Any) -> int | None:
    """Return whether a value equals one of the items in type and value; nil if that is not known."""
    if operand is None:
        return None
    wanted = order_key(load(operand), collation)
    if any(item is not None and order_key(load(item), collation) == wanted for item in items):
        return 1
    return None if None in items else 0
