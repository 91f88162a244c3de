"""The arguments of PRINTF: SQLite formats them, but it would convert some to other numbers or texts than Tarantool."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from box.sql.builtins import as_text
from box.sql.casts import text_to_double, text_to_integer
from box.sql.stored_values import Value, load

_CONVERSION: Final = re.compile(r"%[-+ #!0,]*(\*|\d*)(?:\.(\*|\d*))?l{0,2}(.?)", re.DOTALL)
_INTEGERS: Final = frozenset("diuxXop")
_DOUBLES: Final = frozenset("feEgG")
_SIGNED_END: Final = 2**63
_UNSIGNED_END: Final = 2**64


@lru_cache(maxsize=256)
def _conversions(text: str) -> str:
    """Return a letter for each argument that a format takes: d for a width or a precision."""
    found = []
    for width, precision, letter in _CONVERSION.findall(text):
        found += ["d" for size in (width, precision) if size == "*"]
        if letter not in ("%", ""):
            found.append(letter)
    return "".join(found)


def printf_argument(format_text: Any, place: int, stored: Any) -> Any:
    """Convert an argument of PRINTF, the one at a place after the format, for the conversion that takes it."""
    value, given = load(stored), load(format_text)
    letters = _conversions(as_text(given)) if given is not None else ""
    letter = letters[place] if place < len(letters) else "s"
    if letter in _INTEGERS:
        return _integer(value)
    return _double(value) if letter in _DOUBLES else text_argument(value)


def text_argument(value: Value) -> Any:
    """Convert a value that is printed as a text, as the format itself is."""
    is_plain = value is None or type(value) is str or (type(value) is int and value < _SIGNED_END)
    return value if is_plain else as_text(value)


def _integer(value: Value) -> int:
    """Convert a value to a signed integer of 64 bits; it is 0 if that is impossible."""
    number: int | None = 0
    if type(value) is int:
        number = value
    elif type(value) is float:
        number = int(value) if -_SIGNED_END <= value < _UNSIGNED_END else 0
    elif isinstance(value, str | bytes):
        number = text_to_integer(value)
    number = number or 0
    return number - _UNSIGNED_END if number >= _SIGNED_END else number


def _double(value: Value) -> float:
    """Convert a value to a double; it is 0 if that is impossible."""
    if type(value) in (int, float):
        return float(value)
    return (text_to_double(value) or 0.0) if isinstance(value, str) else 0.0
