"""Conversions between types: by CAST, and on storing a value in a column."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from box.data.show import value_str
from box.sql.stored_values import INT_MIN, UINT_MAX, Value, mismatch, number_text, time_kind

_INTEGER: Final = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+[ \t\n\v\f\r]*", re.ASCII)
_NUMBER: Final = re.compile(
    r"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ \t\n\v\f\r]*", re.ASCII
)
_LIMIT: Final = 12000
"""Tarantool does not convert a longer text to an integer."""


class NotConvertible(Exception):
    """Raised for a value that cannot be converted to the wanted type."""


def text_to_integer(text: str | bytes) -> int | None:
    """Parse a text as an integer. Returns None if it is not one, or is out of range."""
    text = _before_nul(text.decode("latin-1") if isinstance(text, bytes) else text)
    if len(text) > _LIMIT or not _INTEGER.fullmatch(text):
        return None
    found = int(text)
    return found if INT_MIN <= found <= UINT_MAX else None


def _before_nul(text: str) -> str:
    """Return the text before the first NUL, where Tarantool 2.8 stops reading; '0' if that text is blank."""
    found, nul, _ = text.partition("\0")
    return "0" if nul and not found.strip() else found


def text_to_double(text: str | bytes) -> float | None:
    """Parse a text as a double. Returns None if it is not one."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    found = _NUMBER.fullmatch(text)
    return None if found is None else float(found[1])


NEGATIVE_ZERO: Final = -32
"""What Tarantool 2.8 stores and shows for an integer that is a negative zero: its encoding is that of -32."""


def double_to_integer(value: float) -> int | None:
    """Return the integer part of a double, or None if it is out of range."""
    # NaN and the infinities have no integer. The limits are no doubles, so that the integer has to be compared, too.
    if not -9.3e18 < value < 1.85e19:
        return None
    found = int(value)
    return found if INT_MIN <= found < UINT_MAX else None


def _whole(value: float) -> int | None:
    """Return a double as an integer to store or to show, or None if it is out of range."""
    return NEGATIVE_ZERO if -1 < value < 0 else double_to_integer(value)


# --- CAST ---


def _to_integer(value: Value) -> int:
    found: int | None = None
    kind = type(value)
    if kind is int:
        given: int = value
        return given
    if kind is bool:
        return int(value)
    if kind is float:
        found = _whole(value)
    elif kind is str or kind is bytes:
        found = text_to_integer(value)
    if found is None:
        raise NotConvertible
    return found


def _to_unsigned(value: Value) -> int:
    found = _to_integer(value)
    if found < 0 and type(value) is not float:
        raise NotConvertible
    return found


def _to_string(value: Value) -> str:
    kind = type(value)
    if kind is str:
        given: str = value
        return given
    if kind is bytes:
        other: str = value.decode("utf-8", "surrogateescape")
        return other
    if kind is bool:
        return "TRUE" if value else "FALSE"
    if kind is int:
        return str(value)
    if kind is float:
        return number_text(value)
    if kind in (list, dict) or time_kind(value):
        return value_str(value)
    raise NotConvertible


def _to_double(value: Value) -> float:
    kind = type(value)
    if kind is float or kind is int:
        return float(value)
    if kind is str and (found := text_to_double(value)) is not None:
        return found
    raise NotConvertible


def _to_boolean(value: Value) -> bool:
    kind = type(value)
    if kind is bool or kind is int or kind is float:
        return bool(value)
    if kind is str:
        word = value.strip(" ").upper()
        if word in ("TRUE", "FALSE"):
            given: bool = word == "TRUE"
            return given
    raise NotConvertible


def _to_varbinary(value: Value) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode("utf-8", "surrogateescape")
    raise NotConvertible


def _to_number(value: Value) -> int | float:
    kind = type(value)
    if kind is int or kind is float:
        given: int | float = value
        return given
    if kind is bool:
        return int(value)
    if kind is str or kind is bytes:
        found = text_to_integer(value)
        if found is not None:
            return found
        double = text_to_double(value)
        if double is not None:
            return double
    raise NotConvertible


def _to_scalar(value: Value) -> Value:
    if isinstance(value, list | dict):
        raise NotConvertible
    return value


_EXPLICIT: Final[dict[str, Callable[[Any], Any]]] = {
    "integer": _to_integer,
    "unsigned": _to_unsigned,
    "string": _to_string,
    "double": _to_double,
    "boolean": _to_boolean,
    "varbinary": _to_varbinary,
    "number": _to_number,
    "scalar": _to_scalar,
}


def cast(value: Value, type_name: str) -> Value:
    """Convert a value as `CAST(value AS type_name)` does.

    Raises:
        ClientError: SQL_TYPE_MISMATCH.
    """
    if value is None:
        return None
    try:
        return _EXPLICIT[type_name](value)
    except NotConvertible:
        raise mismatch(value, type_name) from None


def cast_operand(value: Value, type_name: str) -> Value:
    """Convert a value as CAST does, for another operator, to which a negative zero is 0. Errors as `cast`."""
    return cast(0 if type(value) is float and -1 < value < 0 else value, type_name)


# --- storing ---


def converted(value: Value, type_name: str) -> Value:
    """Convert a value for a set of values of this type: a text becomes a number, a number a text; other values stay as
    they are.
    """
    if type_name == "string":
        return _to_string(value) if type(value) in (int, float) else value
    if type(value) is str and type_name in ("integer", "unsigned", "number"):
        found: Value = text_to_integer(value)
        if found is None and type_name == "number":
            found = text_to_double(value)
        return value if found is None or (type_name == "unsigned" and found < 0) else found
    return value


def _unsigned(value: Value) -> Value:
    if type(value) is int and value >= 0:
        return value
    if type(value) is float and value >= 0 and (found := double_to_integer(value)) is not None:
        return found
    raise NotConvertible


def _integer(value: Value) -> Value:
    if type(value) is int:
        return value
    if type(value) is float and (found := _whole(value)) is not None:
        return found
    raise NotConvertible


def _double(value: Value) -> Value:
    if type(value) in (int, float):
        return float(value)
    raise NotConvertible


def _only(*kinds: type) -> Callable[[Value], Value]:
    def check(value: Value) -> Value:
        if type(value) in kinds:
            return value
        raise NotConvertible

    return check


def _any(value: Value) -> Value:
    return value


_IMPLICIT: Final[dict[str, Callable[[Any], Any]]] = {
    "unsigned": _unsigned,
    "integer": _integer,
    "double": _double,
    "string": _only(str),
    "boolean": _only(bool),
    "varbinary": _only(bytes),
    "number": _only(int, float),
    "map": _only(dict),
    "array": _only(list),
    "decimal": _only(Decimal),
    "uuid": _only(UUID),
    "scalar": _to_scalar,
    "any": _any,
}


def convert(value: Value, type_name: str) -> Value:
    """Convert a value to the type of the column that it is stored in.

    Raises:
        ClientError: SQL_TYPE_MISMATCH.
    """
    if value is None:
        return None
    try:
        return _IMPLICIT.get(type_name, _any)(value)
    except NotConvertible:
        raise mismatch(value, type_name) from None


def in_trigger(value: Value, type_name: str) -> Value:
    """Return the value that a column of this type has as NEW or OLD in a trigger or in the action of a foreign key. As
    in Tarantool 2.8.1, an integer in a column of type NUMBER is a double there.
    """
    return float(value) if type_name == "number" and type(value) is int else value
