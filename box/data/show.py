"""Tuples as text for messages: `[1, "a", null, {"k": 1.5}]`.

Facts observed on Tarantool (`mp_snprint`): floats print with six significant digits, decimals without an exponent,
UUIDs, datetimes and intervals without quotes, binaries like strings, errors as maps; `/`, control characters and DEL
are escaped; containers nested deeper than 33 levels are `...`; the text is cut at 1023 bytes.
"""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from box.data.codec import Ext, unpack
from box.data.error_body import error_tree
from box.data.times import bodies
from box.data.times.points import Datetime, Interval
from box.errors import BoxError

_MAX_DEPTH: Final = 32
_MAX_BYTES: Final = 1023
"""Tarantool formats into a static buffer of 1,024 bytes, of which one is the final zero."""

# All control characters, except that those with a letter of their own are written with it.
_ESCAPES: Final = {
    **{code: f"\\u{code:04x}" for code in (*range(0x20), 0x7F)},
    **{ord(char): f"\\{letter}" for char, letter in zip('\b\f\n\r\t"\\/', 'bfnrt"\\/', strict=True)},
}


def tuple_str(raw: bytes) -> str:
    """Return the text of a tuple; malformed input gives `<failed to format tuple>`."""
    try:
        text = value_str(unpack(raw))
    except BoxError:
        return "<failed to format tuple>"
    if len(text) <= _MAX_BYTES // 4:  # UTF-8 takes at most four bytes for a character
        return text
    return text.encode("utf-8", "surrogateescape")[:_MAX_BYTES].decode("utf-8", "surrogateescape")


def value_str(value: Any, depth: int = _MAX_DEPTH) -> str:
    """Return the text of a decoded value."""
    kind = type(value)
    if kind is str:
        return f'"{value.translate(_ESCAPES)}"'
    if kind is bytes:
        return value_str(value.decode("utf-8", "surrogateescape"))
    if kind is float:
        return _float_str(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if isinstance(value, (list, dict)) or kind is tuple:
        return _container_str(value, depth)
    if kind is Decimal:
        return decimal_text(value)
    if isinstance(value, Ext):
        return f"(extension: type {value.code}, len {len(value.data)})"
    if isinstance(value, BoxError):
        return value_str(error_tree(value), depth)
    if isinstance(value, datetime):
        return str(bodies.from_python(value))
    return str(value) if kind in (int, UUID, Datetime, Interval) else f"(extension: type {kind.__name__})"


def decimal_text(value: Decimal) -> str:
    """Return the text of a decimal without an exponent; a zero with a positive one has as many zeros behind it."""
    text = format(value, "f")
    if value:
        return text
    exponent = value.as_tuple().exponent
    return text + "0" * exponent if isinstance(exponent, int) else text


def _container_str(value: Any, depth: int) -> str:
    if depth < 0:
        return "..."
    if isinstance(value, dict):
        pairs = (f"{value_str(key, depth - 1)}: {value_str(item, depth - 1)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    return "[" + ", ".join(value_str(item, depth - 1) for item in value) + "]"


def _float_str(value: float) -> str:
    text = f"{value:g}"
    return "-nan" if text == "nan" and math.copysign(1, value) < 0 else text
