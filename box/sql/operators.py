"""Operators that differ from SQLite's, on values as SQLite stores them.

Integers have 64 bits, with or without a sign. A result outside of that range is an error, and so is a division by zero.
If a number is expected, texts are converted and booleans are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from box.data.collation import compare_function, sort_key_function
from box.data.times.points import datetime_key
from box.errors import ErrorCode, client_error
from box.sql.casts import NEGATIVE_ZERO, convert, converted, text_to_double, text_to_integer
from box.sql.stored_values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Stored,
    Value,
    big,
    execute_error,
    inconsistent,
    kind_name,
    load,
    mismatch,
    number_text,
    raw_bytes,
    shown,
    store,
    time_kind,
)

_PLAIN_NUMBERS: Final = frozenset((int, float))
"""The Python types of numbers that SQLite knows, too."""

# --- arithmetic ---


def _number(value: Value) -> int | float | None:
    """Convert an operand to a number, or return None if that is impossible. As in 2.8, a negative integer in a text is
    read as unsigned.
    """
    kind = type(value)
    if kind is int or kind is float:
        given: int | float | None = value
        return given
    if kind is str or kind is bytes:
        found = text_to_integer(value)
        return text_to_double(value) if found is None else found & UINT_MAX
    return None


def _operands(left: Stored, right: Stored) -> tuple[int | float, int | float]:
    a, b = load(left), load(right)
    y = _number(b)
    if y is None:
        raise mismatch(b, "numeric")
    x = _number(a)
    if x is None:
        raise mismatch(a, "numeric")
    return x, y


def _fit(value: int) -> Stored:
    if INT_MIN <= value <= INT_MAX:
        return value
    if INT_MAX < value <= UINT_MAX:
        return big(value)
    raise execute_error("integer is overflowed")


def _double(operand: Any, number: int | float) -> float:
    """Return the double for an operand that was converted to `number`; here a text keeps the sign of its integer."""
    return float(number if type(operand) is not str or type(number) is float else text_to_integer(operand) or 0)


def _real(value: float) -> float | None:
    return None if value != value else value


def add(left: Any, right: Any) -> Stored:
    if type(left) is int and type(right) is int and INT_MIN <= (found := left + right) <= INT_MAX:
        return found
    if left is None or right is None:
        return None
    a, b = _operands(left, right)
    return _fit(a + b) if type(a) is int and type(b) is int else _real(_double(left, a) + _double(right, b))


def subtract(left: Any, right: Any) -> Stored:
    if type(left) is int and type(right) is int and INT_MIN <= (found := left - right) <= INT_MAX:
        return found
    if left is None or right is None:
        return None
    a, b = _operands(left, right)
    return _fit(a - b) if type(a) is int and type(b) is int else _real(_double(left, a) - _double(right, b))


def multiply(left: Any, right: Any) -> Stored:
    if type(left) is int and type(right) is int and INT_MIN <= (found := left * right) <= INT_MAX:
        return found
    if left is None or right is None:
        return None
    a, b = _operands(left, right)
    return _fit(a * b) if type(a) is int and type(b) is int else _real(_double(left, a) * _double(right, b))


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def divide(left: Any, right: Any) -> Stored:
    if left is None or right is None:
        return None
    a, b = _operands(left, right)
    if not b:
        raise execute_error("division by zero")
    if type(a) is int and type(b) is int:
        return _fit(_truncated(a, b))
    return _real(_double(left, a) / _double(right, b))


def remainder(left: Any, right: Any) -> Stored:
    """Return the remainder as Tarantool shows and compares it."""
    found = exact_remainder(left, right)
    return NEGATIVE_ZERO if found == 0 and type(left) is int and left < 0 else found


def exact_remainder(left: Any, right: Any) -> Stored:
    """Return the remainder, the operand of another operator or function."""
    if left is None or right is None:
        return None
    numbers = x, y = _operands(left, right)
    if float in map(type, numbers):
        # As in 2.8: if one operand is a double, both become doubles and then integers of 64 bits. The sign counts only
        # if the operand was an integer.
        a, b = _word(_double(left, x)), _word(_double(right, y))
        a = a if type(left) is int and left < 0 else a & UINT_MAX
        b = b if type(right) is int and right < 0 else b & UINT_MAX
    else:
        a, b = (int(number) for number in numbers)
    if not b:
        raise execute_error("division by zero")
    return _fit(a - b * _truncated(a, b))


def _word(number: float) -> int:
    """Truncate a double to a signed integer of 64 bits; the least integer stands for all doubles that do not fit."""
    return int(number) if -(2.0**63) <= number < 2.0**63 else INT_MIN


def negate(operand: Any) -> Stored:
    return subtract(0, operand)


# --- bits ---


def _bits(value: Value) -> int:
    kind = type(value)
    if kind is int:
        given: int = value
        return given
    # About the range of 64 bits; `_signed` cuts the rest off. NaN and the infinities, which have no integer, are out.
    if kind is float and -9.3e18 < value < 1.85e19:
        return int(value)
    if kind is str or kind is bytes:
        found = text_to_integer(value)
        if found is not None:
            return found
    raise mismatch(value, "integer")


def _signed(value: int) -> int:
    value &= UINT_MAX
    return value - 2**64 if value > INT_MAX else value


def _bitwise(operation: Callable[[int, int], int]) -> Callable[[Any, Any], Stored]:
    def apply(left: Any, right: Any) -> Stored:
        if left is None or right is None:
            return None
        a, b = _bits(load(left)), _bits(load(right))
        return operation(_signed(a), _signed(b))

    return apply


_WIDTH: Final = 64
"""The bits of an integer. Tarantool shifts by exactly as many with one instruction, which does nothing on x86-64."""


def _shift_left(a: int, b: int) -> int:
    if b < 0:
        return a >> min(-b, _WIDTH)
    if b == _WIDTH:
        return a
    return 0 if b > _WIDTH else _signed(a << b)  # Python's integers have no width of their own


def _shift_right(a: int, b: int) -> int:
    if b < 0:
        return 0 if b <= -_WIDTH else _signed(a << -b)
    return a if b == _WIDTH else a >> min(b, _WIDTH)  # all bits are gone by then: 0, or -1 for a negative number


bit_and = _bitwise(lambda a, b: a & b)
bit_or = _bitwise(lambda a, b: a | b)
shift_left = _bitwise(_shift_left)
shift_right = _bitwise(_shift_right)


def bit_not(operand: Any) -> Stored:
    return None if operand is None else ~_signed(_bits(load(operand)))


# --- texts ---


def concatenate(left: Any, right: Any) -> Stored:
    if left is None or right is None:
        return None
    a, b = load(left), load(right)
    if type(a) is type(b) is str:
        return store(a + b)
    first, second = raw_bytes(a), raw_bytes(b)
    for value, raw in ((b, second), (a, first)):
        if raw is None and type(value) is not str:
            raise inconsistent("text or varbinary", value)
    if first is None or second is None:
        raise inconsistent(kind_name(a), b)
    return store(first + second)


# --- truth ---


def truth(operand: Any) -> int | None:
    """Convert a value that must be boolean to 0 or 1; nil stays nil.

    Raises:
        ClientError: SQL_TYPE_MISMATCH.
    """
    if operand is None:
        return None
    value = load(operand)
    if type(value) is not bool:
        raise mismatch(value, "boolean")
    return int(value)


def either(left: Any, right: Any) -> int | None:
    """Evaluate `left OR right` for values of any types; the right operand is evaluated first. Raises
    SQL_TYPE_MISMATCH.
    """
    second, first = truth(right), truth(left)
    if first or second:
        return 1
    return None if first is None or second is None else 0


def both(left: Any, right: Any) -> int | None:
    """Evaluate `left AND right` for values of any types; the right operand is evaluated first. Raises
    SQL_TYPE_MISMATCH.
    """
    second, first = truth(right), truth(left)
    if first == 0 or second == 0:
        return 0
    return None if first is None or second is None else 1


def boolean(operand: Any) -> Stored:
    """Convert 0 or 1 to a stored boolean; nil stays nil."""
    return None if operand is None else b"\x00\x01" if operand else b"\x00\x00"


# --- comparison ---


def _as_text(value: Value) -> str:
    return value if type(value) is str else number_text(value) if type(value) is float else str(value)


def compare(left: Value, right: Value, is_numeric: bool, collation: int) -> int:
    """Compare two values: the result is negative, 0 or positive.

    `is_numeric` tells that an operand is of a numeric type; texts are then compared as numbers. A text on the right
    that is not a number is greater than every number.

    Raises:
        ClientError: SQL_TYPE_MISMATCH, the types cannot be compared.
    """
    a_kind, b_kind = type(left), type(right)
    if a_kind in _PLAIN_NUMBERS and b_kind in _PLAIN_NUMBERS:
        return int(left > right) - int(left < right)
    if a_kind is bool or b_kind is bool:
        if a_kind is not b_kind:
            other = left if b_kind is bool else right
            raise client_error(ErrorCode.SQL_TYPE_MISMATCH, kind_name(other), "boolean")
        return int(left) - int(right)
    if kind_name(left) == "varbinary" or kind_name(right) == "varbinary":
        first, second = raw_bytes(left), raw_bytes(right)
        if first is None or second is None:
            other = right if kind_name(left) == "varbinary" else left
            raise client_error(ErrorCode.SQL_TYPE_MISMATCH, kind_name(other), "varbinary")
        return int(first > second) - int(first < second)
    times = time_kind(left), time_kind(right)
    if times != (None, None):
        return _compare_times(left, right, *times)
    if not is_numeric and a_kind is str and b_kind is str:
        if collation not in (0, 3):
            return compare_function(collation)(left, right)
        a_bytes, b_bytes = (text.encode("utf-8", "surrogateescape") for text in (left, right))
        return int(a_bytes > b_bytes) - int(a_bytes < b_bytes)
    b = _number_of(right)
    if b is None:
        return -1
    a = _number_of(left)
    if a is None:
        raise mismatch(left, "numeric")
    return (a > b) - (a < b)


def _compare_times(left: Value, right: Value, left_kind: str | None, right_kind: str | None) -> int:
    """Compare two datetimes. Intervals have no order, and a datetime cannot be compared with anything else.

    Raises:
        ClientError: SQL_TYPE_MISMATCH.
    """
    if left_kind != right_kind:
        other = right if left_kind else left
        raise client_error(ErrorCode.SQL_TYPE_MISMATCH, shown(other), str(left_kind or right_kind))
    if left_kind == "interval":
        raise client_error(ErrorCode.SQL_TYPE_MISMATCH, "interval", "comparable type")
    a, b = datetime_key(left), datetime_key(right)
    return int(a > b) - int(a < b)


def _number_of(value: Value) -> int | float | None:
    if type(value) is int or type(value) is float:
        return value
    found = text_to_integer(value)
    return text_to_double(value) if found is None else found


def _compare_as(left: Value, right: Value, type_name: str, collation: int) -> int:
    """Compare two values as values of one type; with the type of texts, numbers are compared as texts."""
    if type_name == "string" and {type(left), type(right)} <= {str, int, float}:
        return compare(_as_text(left), _as_text(right), False, collation)
    return compare(left, right, type_name in ("integer", "unsigned", "double", "number"), collation)


def is_in(type_name: str, collation: int, operand: Any, *items: Any) -> int | None:
    """Evaluate `operand IN (items)` by comparing one item after another."""
    if operand is None:
        return None
    value, has_nil = load(operand), False
    for item in items:
        if item is None:
            has_nil = True
        elif not _compare_as(load(item), value, type_name, collation):
            return 1
    return None if has_nil else 0


def is_in_set(type_name: str, collation: int, operand: Any, *items: Any) -> int | None:
    """Evaluate `operand IN (items)` after converting items to the operand's type if possible. Raises SQL_TYPE_MISMATCH
    for the operand.
    """
    if operand is None:
        return None
    wanted = order_key(convert(load(operand), type_name), collation)
    for item in items:
        if item is not None and order_key(converted(load(item), type_name), collation) == wanted:
            return 1
    return None if None in items else 0


def _comparison(test: Callable[[int], bool]) -> Callable[[Any, Any, int, int], int | None]:
    def apply(left: Any, right: Any, is_numeric: int, collation: int) -> int | None:
        if left is None or right is None:
            return None
        if type(left) in _PLAIN_NUMBERS and type(right) in _PLAIN_NUMBERS:
            return int(test((left > right) - (left < right)))
        return int(test(compare(load(left), load(right), bool(is_numeric), collation)))

    return apply


COMPARISONS: Final = {
    "=": ("lb_eq", _comparison(lambda sign: sign == 0)),
    "!=": ("lb_ne", _comparison(lambda sign: sign != 0)),
    "<": ("lb_lt", _comparison(lambda sign: sign < 0)),
    "<=": ("lb_le", _comparison(lambda sign: sign <= 0)),
    ">": ("lb_gt", _comparison(lambda sign: sign > 0)),
    ">=": ("lb_ge", _comparison(lambda sign: sign >= 0)),
}
ARITHMETIC: Final = {
    "+": ("lb_add", add),
    "-": ("lb_sub", subtract),
    "*": ("lb_mul", multiply),
    "/": ("lb_div", divide),
    "%": ("lb_rem", remainder),
    "&": ("lb_and", bit_and),
    "|": ("lb_or", bit_or),
    "<<": ("lb_shl", shift_left),
    ">>": ("lb_shr", shift_right),
    "||": ("lb_concat", concatenate),
}


# --- order of values of unlike types ---


def rank(operand: Any) -> int:
    """Return the place of a stored type in the order of SCALAR: nil, boolean, number, string, varbinary, others,
    datetime.
    """
    kind = type(operand)
    if operand is None:
        return 0
    if kind is int or kind is float:
        return 2
    if kind is str:
        return 3
    # The first byte of a BLOB tells the type; see the table in `box.sql.stored_values`.
    return (1, 2, 4, 3, 5, 6)[operand[0]]


def sort_rank(operand: Any) -> Stored:
    """Return a value that sorts stored values by their type; numbers of 2^63 and more, of which SQLite knows only the
    doubles, by their size, too.
    """
    place = rank(operand)
    if place > 2:
        return bytes((place,))
    if place < 2 or type(operand) is int or (type(operand) is float and operand < 2.0**63):
        return place
    # SQLite sorts integers before texts before BLOBs. The greatest double has 256 hexadecimal digits.
    value = load(operand)
    return "inf" if value == float("inf") else f"{int(value):0256x}"


def great_key(number: Any) -> Stored:
    """Return a value that sorts and groups a number as Tarantool does, also those of 2^63 and more."""
    if type(number) is int or (type(number) is float and number < 2.0**63):
        given: Stored = number
        return given
    return None if number is None else sort_rank(number)


def order_key(value: Value, collation: int) -> tuple[Any, ...]:
    """Return a key that sorts values in the order of SCALAR."""
    # Texts (3) sort by their collation; 0 and 3 are the binary collations. Maps and arrays (5) have no order in
    # Tarantool, so any fixed one does.
    place = 3 if type(value) is str else rank(store(value))
    if place == 3 and collation not in (0, 3):
        return (place, sort_key_function(collation)(value))
    if place == 3:
        return (place, value.encode("utf-8", "surrogateescape"))
    if place == 6:
        return (place, datetime_key(value))
    return (place, value) if place != 5 else (place, repr(value))
