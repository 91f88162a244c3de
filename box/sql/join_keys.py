"""Comparisons of a column that begins an index with a value of another type, from a table before it or computed.

Tarantool reads the table of the column by its index, and makes a key of the value. So the values are not compared as
they are elsewhere:

```
column of the index    a value of another type with =                with >, >=             with <, <=
integer, unsigned      a text that is an integer; no other finds     SQL_TYPE_MISMATCH      SQL_TYPE_MISMATCH
number, double         SQL_TYPE_MISMATCH                             SQL_TYPE_MISMATCH      SQL_TYPE_MISMATCH
scalar                 equal values of one type                      the order of SCALAR    the order of SCALAR
others                 SQL_TYPE_MISMATCH                             KEY_PART_TYPE          the order of SCALAR
```

The value comes from a table that is earlier in the order of FROM, from NEW or OLD, or from an expression of such
columns and constants. Tarantool does not use an index of other values than numbers if the other type is one of numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from box.errors import BoxError, ErrorCode, client_error
from box.sql import sql_nodes
from box.sql.aggregates import AGGREGATES
from box.sql.builtins import as_text
from box.sql.casts import text_to_double, text_to_integer
from box.sql.kinds import NUMBERS, NUMERIC, boxed, collation_name
from box.sql.stored_values import Stored, Value, load, mismatch, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from box.sql.scope import Typed

    Compile = Callable[[sql_nodes.Expr], Typed]

FLIPPED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operators with which the operands of a comparison change places."""
UNKNOWN: Final = 0
"""The place of an operand whose table cannot be told."""
BEFORE_TABLES: Final = -1
"""The place of an operand that is known before all tables."""
_WHOLE: Final = ("integer", "unsigned")
_PYTHON_TYPES: Final = {"string": str, "varbinary": bytes, "boolean": bool}
_RANKS: Final = {bool: 0, int: 1, float: 1, str: 2, bytes: 3}
"""The order of SCALAR for values of different types."""
_LESS: Final[dict[str, Stored]] = {"string": 0, "varbinary": ""}
_GREATER: Final[dict[str, Stored]] = {"string": store(b""), "boolean": ""}
"""For the type of a column, a value that SQLite takes for less, or greater, than all values of the column."""


def condition_on_join(expr: sql_nodes.Expr, compile_one: Compile) -> str | None:
    """Return the SQL of a condition, a term of AND, on such a column. Returns None for any other condition."""
    if isinstance(expr, sql_nodes.InList) and not expr.negated:
        if len(expr.items) > 1:
            return _list(expr.operand, expr.items, compile_one)
        expr = sql_nodes.Binary("=", expr.operand, *expr.items)
    if not isinstance(expr, sql_nodes.Binary) or expr.op not in FLIPPED:
        return None
    if not isinstance(expr.left, sql_nodes.Name) and not isinstance(expr.right, sql_nodes.Name):
        return None
    places = place_of(expr.left, compile_one), place_of(expr.right, compile_one)
    if UNKNOWN in places or places[0] == places[1]:
        return None
    left, right = compile_one(expr.left), compile_one(expr.right)
    is_plain = left.type != "scalar" or (left.column is not None and right.column is not None)
    if (left.type == right.type and is_plain) or (left.kind in NUMBERS and right.kind in NUMBERS):
        return None
    choices = [(left, right, expr.op), (right, left, FLIPPED[expr.op])]
    for key, other, op in choices if places[0] > places[1] else reversed(choices):
        if is_read_by_index(key, other):
            return _on_key(key, other, op)
    return None


def is_constant_key(expr: sql_nodes.Expr) -> bool:
    """Return whether an expression is a constant whose type the text tells, or a parameter."""
    if isinstance(expr, sql_nodes.Unary):
        return expr.op == "-" and isinstance(expr.operand, sql_nodes.Literal)
    return isinstance(expr, sql_nodes.Literal | sql_nodes.Param)


def place_of(expr: sql_nodes.Expr, compile_one: Compile) -> int:
    """Return the number of the last table, in the order of FROM, that an operand needs."""
    if is_constant_key(expr) or not _is_computed(expr):
        return UNKNOWN
    try:
        columns = [compile_one(name) for name in _names(expr)]
    except BoxError:  # it is raised when its turn comes
        return UNKNOWN
    if not isinstance(expr, sql_nodes.Name) and any(one.column and one.column.may_be_missing for one in columns):
        return UNKNOWN
    places = list(map(_table_of, columns))
    return UNKNOWN if UNKNOWN in places else max(places, default=BEFORE_TABLES)


def _table_of(operand: Typed) -> int:
    """Return the number of the table of a column. Columns of NEW and OLD are known before all tables."""
    if operand.column is None or not operand.column.is_plain:
        return UNKNOWN
    table = operand.sql.partition(".")[0]
    return int(table[1:]) if table.startswith("s") else BEFORE_TABLES


def _is_computed(expr: object) -> bool:
    """Return whether an expression has neither subqueries nor aggregates nor row values."""
    if isinstance(expr, sql_nodes.Select | sql_nodes.RowValue):
        return False
    if isinstance(expr, sql_nodes.FunctionCall) and expr.name in AGGREGATES:
        return False
    return all(map(_is_computed, sql_nodes.children(expr)))


def _names(expr: object) -> Iterator[sql_nodes.Name]:
    if isinstance(expr, sql_nodes.Name):
        yield expr
    else:
        for child in sql_nodes.children(expr):
            yield from _names(child)


def is_read_by_index(key: Typed, other: Typed) -> bool:
    """Return whether Tarantool may read the table of one operand by an index, with a key made of the other operand."""
    if key.column is None or not key.column.leads_index or (other.column is not None and other.column.may_be_missing):
        return False
    return key.type in NUMERIC or other.type not in NUMERIC


def _on_key(key: Typed, other: Typed, op: str) -> str | None:
    if op == "=":
        return f"({key.sql} = lb_join_key({boxed(other)}, '{key.type}'){_collate(key)})"
    if key.type == "scalar":
        return f"lb_scalar('{op}', {key.sql}, {boxed(other)}, {key.collation})"
    return f"({key.sql} {op} lb_join_bound('{op}', {boxed(other)}, '{key.type}'){_collate(key)})"


def _collate(key: Typed) -> str:
    return f" COLLATE {collation_name(key.collation)}" if key.collation else ""


def _list(name: sql_nodes.Expr, items: list[sql_nodes.Expr], compile_one: Compile) -> str | None:
    """Return the SQL of IN with values of which some are computed."""
    if not isinstance(name, sql_nodes.Name) or all(map(is_constant_key, items)):
        return None
    place = place_of(name, compile_one)
    places = [BEFORE_TABLES if is_constant_key(item) else place_of(item, compile_one) for item in items]
    if UNKNOWN in (place, *places) or max(places) >= place:
        return None
    column = compile_one(name)
    if column.column is None or not column.column.leads_index:
        return None
    others = list(map(compile_one, items))
    if all(other.type == column.type for other in others):
        return None
    values = ", ".join(map(boxed, others))
    if column.type == "scalar":
        return f"lb_scalar_in({column.collation}, {column.sql}, {values})"
    keys = ", ".join(f"lb_item_key({boxed(other)}, '{column.type}')" for other in others)
    return f"(lb_are_keys('{column.type}', {values}) AND {column.sql} IN ({keys}))"


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
        return store(_whole(value))
    if type_name not in _PYTHON_TYPES:
        if type(value) not in (int, float):
            raise mismatch(value, type_name)
        return store(value)
    if type(value) is not _PYTHON_TYPES[type_name]:
        raise mismatch(value, type_name)
    return _stored(value)


def join_bound(op: str, operand: Any, type_name: str) -> Stored:
    """Return the bound of a range of an index of values of a type that a value becomes.

    Raises:
        ClientError: SQL_TYPE_MISMATCH, KEY_PART_TYPE.
    """
    value = load(operand)
    wanted = _PYTHON_TYPES.get(type_name)
    if value is None:
        return None
    if wanted is None:
        if type(value) not in (int, float):
            raise mismatch(value, type_name)
        return store(value)
    if type(value) is wanted:
        return _stored(value)
    if op in (">", ">="):
        raise client_error(ErrorCode.KEY_PART_TYPE, 0, type_name)
    is_less = _RANKS.get(type(value), 1) < _RANKS[wanted]
    return (_LESS if is_less else _GREATER)[type_name]


def are_keys(type_name: str, *operands: Any) -> int:
    """Return 1 if the values of a list can become keys of an index of values of a type.

    Raises:
        ClientError: SQL_TYPE_MISMATCH, for the first one in the order of SCALAR that cannot.
    """
    values = sorted(filter(_is_given, map(load, operands)), key=lambda value: _RANKS.get(type(value), 4))
    for value in values:
        _item_key(value, type_name)
    return 1


def item_key(operand: Any, type_name: str) -> Stored:
    """Return the key of an index of values of a type that a value of a list becomes; nil if it finds nothing.

    Raises:
        ClientError: SQL_TYPE_MISMATCH.
    """
    value = load(operand)
    return None if value is None else _stored(_item_key(value, type_name))


def _is_given(value: Value) -> bool:
    return value is not None


def _item_key(value: Value, type_name: str) -> Value:
    kind = type(value)
    if type_name in _WHOLE:
        return _whole(value)
    if type_name == "number" and kind is str:
        number = text_to_integer(value)
        found = text_to_double(value) if number is None else number
    elif type_name == "string" and kind in (int, float):
        return as_text(value)
    elif type_name in _PYTHON_TYPES:
        found = value if kind is _PYTHON_TYPES[type_name] else None
    else:
        found = value if kind in (int, float) else None
    if found is None:
        raise mismatch(value, type_name)
    return found


def _stored(value: Value) -> Stored:
    """Return a value as a column of its own type has it, where booleans are 0 and 1."""
    return int(value) if type(value) is bool else store(value)


def _whole(value: Value) -> Value:
    """Return the integer that a number or a text is, or nil."""
    if type(value) is float and value.is_integer():
        value = int(value)
    elif type(value) is str:
        value = text_to_integer(value)
    return value if type(value) is int else None
