"""The kinds of values: of column types, of constants, and of results that combine several values.

`box.sql.scope.Typed` lists the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from box.sql.scope import Typed
from box.sql.stored_values import INT_MAX, STORES, Texts, Value, big

NUMERIC: Final = frozenset(("integer", "unsigned", "double", "number"))
"""If an operand has one of these types, Tarantool compares the two as numbers."""
KIND_OF_TYPE: Final = {
    "integer": "int",
    "unsigned": "int",
    "double": "real",
    "number": "num",
    "string": "str",
    "boolean": "bool",
    "varbinary": "bin",
}
NUMBERS: Final = frozenset(("int", "real", "num"))
"""Kinds of numbers."""
_ORDER: Final = ("number", "double", "integer", "unsigned")
RAW_TEXT: Final = "x'03"
"""With this SQL a text begins that is a BLOB."""
_SAFE: Final = 2.0**53
"""Every integer up to this one is exactly a double, so SQLite's comparison of the two is exact."""


def kind_of(type_name: str) -> str:
    """Return the kind of the values of a column."""
    return KIND_OF_TYPE.get(type_name, "any")


def joined(kinds: Iterable[str]) -> str:
    """Return the kind of values that come from several places, such as the branches of CASE."""
    found = {kind for kind in kinds if kind != "null"}
    if len(found) <= 1:
        return found.pop() if found else "null"
    return "num" if found <= NUMBERS else "any"


def result_type(left: str, right: str) -> str:
    """Return the type of an arithmetic operation."""
    return next((name for name in _ORDER if name in (left, right)), "scalar")


def boxed(expr: Typed) -> str:
    """Return SQL for the expression as a value of any type: a boolean 0 or 1 is turned into the stored boolean."""
    return f"lb_bool({expr.sql})" if expr.kind == "bool" else expr.sql


def as_kind(expr: Typed, kind: str) -> str:
    """Return SQL for the expression where a value of the same or a wider kind is expected."""
    return boxed(expr) if kind not in ("bool", "null") else expr.sql


def exact(expr: Typed) -> Typed:
    """Return an expression as an operand of operators and functions, where a remainder -0, or a cast of -0.5 to an
    integer, is 0 (`casts.NEGATIVE_ZERO`).
    """
    if expr.sql.startswith("lb_rem("):
        return replace(expr, sql=f"lb_rem0{expr.sql[6:]}")
    if expr.kind == "int" and expr.sql.startswith("lb_cast("):
        return replace(expr, sql=f"lb_cast0{expr.sql[7:]}")
    return expr


def truth(expr: Typed) -> str:
    """Return SQL for the expression as a condition."""
    return expr.sql if expr.kind in ("bool", "null") else f"lb_truth({expr.sql})"


def are_alike(left: Typed, right: Typed) -> bool:
    """Return whether SQLite compares these operands as Tarantool does."""
    a, b = left.kind, right.kind
    if a == "null" or b == "null":
        return True
    if a == b:
        return a not in ("num", "any")
    return {a, b} <= NUMBERS and (_is_small(left) or _is_small(right))


def _is_small(expr: Typed) -> bool:
    """Return whether the expression is a constant below 2^53, which a double holds exactly."""
    literal = expr.literal
    return isinstance(literal, int | float) and abs(literal) < _SAFE


def constant(value: Value, texts: Texts = Texts.UTF8) -> Typed:
    """Return the expression of a constant in the text of a statement, for a connection with such texts. A text that is
    not UTF-8 begins with RAW_TEXT in any case.
    """
    if value is None:
        return Typed("NULL", "scalar", "null")
    if value is True or value is False:
        return Typed(str(int(value)), "boolean", "bool")
    if isinstance(value, int):
        sql = str(value) if value <= INT_MAX else f"x'{big(value).hex()}'"
        if value == -(2**63):  # SQLite would read -9223372036854775808 as minus a double
            sql = "(-9223372036854775807-1)"
        return Typed(sql, "integer", "int", literal=value)
    if isinstance(value, float):
        sql = repr(value) if abs(value) != float("inf") else ("9e999" if value > 0 else "-9e999")
        return Typed(sql, "double", "real", literal=value)
    if isinstance(value, bytes):
        return Typed(f"x'02{value.hex()}'", "varbinary", "bin")
    stored = STORES[Texts.MIXED if texts is Texts.UTF8 else texts](value)
    if isinstance(stored, bytes):
        return Typed(f"x'{stored.hex()}'", "string", "str" if texts is Texts.BYTES else "any")
    quoted = value.replace("'", "''")
    return Typed(f"'{quoted}'", "string", "str")


def given_constant(place: int, value: Value) -> Typed:
    """Return the expression of a constant whose value an execution gives, one of the type of `value`.

    The values of `box.sql.shared_statements` are no greater than 2^53 and not negative. The brackets tell the
    expression from a parameter.
    """
    sql = f"(:p{place + 1})"
    if isinstance(value, int):
        return Typed(sql, "integer", "int", literal=0)
    return Typed(sql, "double", "real", literal=0.0) if isinstance(value, float) else Typed(sql, "string", "str")


def parameter(index: int, value: Value) -> Typed:
    """Return the expression of a parameter; its kind is that of `value`."""
    sql = f":p{index + 1}"
    if value is None:
        return Typed(sql, "boolean", "null")
    if isinstance(value, bool):
        return Typed(f"lb_truth({sql})", "boolean", "bool")
    kind = {int: "int", float: "real", str: "str", bytes: "bin"}.get(type(value), "any")
    return Typed(sql, "boolean", kind)


def parameter_type(value: Value) -> str:
    """Return the type that Tarantool shows for a result column that consists of a parameter alone."""
    names = {type(None): "boolean", bool: "boolean", int: "integer", float: "numeric", str: "text"}
    return names.get(type(value), "varbinary")


def collation_name(collation: int) -> str:
    """Return the name under which SQLite knows a collation."""
    return "BINARY" if collation in (0, 3) else f"lb_{collation}"
