"""Comparisons of numeric columns of unlike kinds, such as INTEGER with NUMBER, by SQLite's own operators.

SQLite compares its integers and doubles exactly, but integers of 2^63 and more are BLOBs for it. So the operands are
looked at first. For `=` it is enough to turn one of them into what the other one would be; SQLite can then use an index
of the other one:

```
int = num, int = real    an integral double from 2^63 on becomes the integer
real = num               an integer from 2^63 on becomes the double
others                   as they are, unless one is a BLOB
```
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from box.errors import ErrorCode, client_error
from box.sql.kinds import NUMBERS
from box.sql.stored_values import Stored, Value, load, store

if TYPE_CHECKING:
    from box.sql.scope import Typed

_COLUMN: Final = re.compile(r"\w+\.c[0-9]+")
"""Matches a column, which may stand in an expression several times at no cost."""
_LARGE: Final = 2.0**63
_AS_KIND: Final = {"int": "lb_as_whole", "real": "lb_as_double"}
"""The SQL functions that convert a number to a kind, for operands that should be evaluated only once."""


def compared_numbers(op: str, left: Typed, right: Typed, call: str) -> str | None:
    """Return the SQL of a comparison of two numbers; None if one is no number, or if there is only Python's comparison.

    `call` is the SQL of the comparison in Python, for values that SQLite does not know.
    """
    if not {left.kind, right.kind} <= NUMBERS:
        return None
    if op == "=":
        for plain, other in ((left, right), (right, left)):
            if plain.kind in ("int", "real") and plain.kind != other.kind:
                if plain.kind == "real" and other.kind == "int":
                    continue  # the other way round
                is_key = plain.column is not None and plain.column.leads_index
                if _COLUMN.fullmatch(other.sql):
                    return f"({plain.sql} = {_as_kind(other.sql, plain.kind, is_key)})"
                if plain.column is not None:
                    return f"({plain.sql} = {_AS_KIND[plain.kind]}({other.sql}, {int(is_key)}))"
    if not (_COLUMN.fullmatch(left.sql) and _COLUMN.fullmatch(right.sql)):
        return None
    are_known = f"typeof({left.sql}) <> 'blob' AND typeof({right.sql}) <> 'blob'"
    return f"(CASE WHEN {are_known} THEN {left.sql} {op} {right.sql} ELSE {call} END)"


def _as_kind(sql: str, kind: str, is_key: bool) -> str:
    if kind == "real":
        return f"CASE WHEN typeof({sql}) <> 'blob' THEN {sql} ELSE lb_as_double({sql}, {int(is_key)}) END"
    is_small = f"typeof({sql}) <> 'blob' AND {sql} < {_LARGE!r} AND {sql} > -{_LARGE!r}"
    return f"CASE WHEN {is_small} THEN {sql} ELSE lb_as_whole({sql}, {int(is_key)}) END"


# --- functions for SQLite ---


def as_whole(operand: Any, is_key: int) -> Stored:
    """Return a number as the integer that equals it, if there is one.

    Raises:
        ClientError: SQL_TYPE_MISMATCH, it is a decimal. No error if it is the key for an index, which finds nothing.
    """
    value = _number(operand, is_key)
    if type(value) is float and -(2**63) <= value < 2**64 and value.is_integer():
        return store(int(value))
    given: Stored = operand
    return given


def as_double(operand: Any, is_key: int) -> Stored:
    """Return a number as the double that equals it, if there is one. Errors as `as_whole`."""
    value = _number(operand, is_key)
    if type(value) is int and value == float(value):
        return float(value)
    given: Stored = operand
    return given


def _number(operand: Any, is_key: int) -> Value:
    value = load(operand)
    if not (is_key or value is None or type(value) in (int, float)):
        raise client_error(ErrorCode.SQL_TYPE_MISMATCH, "unsigned", "varbinary")
    return value
