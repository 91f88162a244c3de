"""Values of Tarantool in SQLite, which has fewer types.

```
nil            NULL                            string         TEXT or 03 <bytes>, see `Texts`
integer        INTEGER; above 2^63: 01 <8>     varbinary      02 <bytes>
double         REAL                            boolean        00 00, 00 01
errors and unknown extensions                  02 <MessagePack>: as in Tarantool they are varbinary with all their bytes
map, array, decimal, uuid, others              04 <MessagePack>
datetime                                       05 <12 bytes in the order of moments> <MessagePack>
```

A value with a first byte in this table is a BLOB. SQLite orders numbers before texts before BLOBs, so integers of all
sizes compare correctly, and so do varbinary values with each other. An expression that is known to be boolean has the
INTEGER 0 or 1 instead, which SQLite's own operators use.

Texts that are not UTF-8 are rare, and no TEXT can hold them. A statement that meets one is stopped by `NotUtf8`, and
repeated on a connection where all texts are BLOBs. SQLite compares those byte by byte, as Tarantool does.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from box.data.codec import Ext, pack, unpack
from box.data.show import value_str
from box.data.times.points import Datetime, Interval, datetime_key
from box.errors import BoxError, ErrorCode, client_error

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1

# What the first bytes of a BLOB mean is in the module's table.
FALSE: Final = b"\x00\x00"
TRUE: Final = b"\x00\x01"
_BIG: Final = 1
_BINARY: Final = 2
_RAW_TEXT: Final = 3
_MOMENT: Final = 5
_MOMENT_SIZE: Final = 12
"""The bytes of a moment: about 64 bits of seconds and 32 of nanoseconds."""

Value = Any
"""A Python value: None, bool, int, float, str, bytes, list, dict, Decimal, UUID, Datetime, Interval, ..."""
Stored = None | int | float | str | bytes
"""A value as SQLite stores it."""


class NotUtf8(Exception):
    """Raised for a text that no TEXT can hold. `stored` is its BLOB."""

    def __init__(self, text: str) -> None:
        super().__init__("a text that is not UTF-8")
        self.stored = _as_blob(text)


class Texts(Enum):
    """How a connection to SQLite stores texts.

    COLLATE works for TEXT alone, and a statement that calls functions of a user must not be repeated. Such statements
    run with MIXED, where a text that is not UTF-8 is greater than all others.
    """

    UTF8 = "TEXT; one that is not UTF-8 raises NotUtf8"
    MIXED = "TEXT; one that is not UTF-8 is a BLOB"
    BYTES = "BLOB"


def store(value: Value) -> Stored:
    """Convert a Python value for SQLite, a text to TEXT. Raises NotUtf8."""
    # The bytes in front are those of the module's table.
    kind = type(value)
    if kind is int:
        return value if value <= INT_MAX else big(value)
    if kind is str:
        return value if value.isascii() else store_text(value)
    if value is None or kind is float:
        return None if value != value else value
    if kind is bool:
        return TRUE if value else FALSE
    if kind is bytes:
        given: int | float | str | bytes | None = b"\x02" + value
        return given
    if isinstance(value, datetime | Datetime):
        # Half of the range of 96 bits is added, so that moments before 1970 sort as smaller bytes.
        order = (datetime_key(value) + (1 << 95)).to_bytes(_MOMENT_SIZE, "big")
        return b"\x05" + order + pack(value)
    if isinstance(value, BoxError | Ext):
        return b"\x02" + pack(value)
    return b"\x04" + pack(value)


def store_text(value: str) -> str:
    """Return a text if it can be a TEXT. Raises NotUtf8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotUtf8(value) from None
    return value


def _store_mixed(value: Value) -> Stored:
    try:
        return store(value)
    except NotUtf8 as error:
        return error.stored


def _store_bytes(value: Value) -> Stored:
    return _as_blob(value) if type(value) is str else store(value)


def _as_blob(text: str) -> bytes:
    return b"\x03" + text.encode("utf-8", "surrogateescape")


STORES: Final[dict[Texts, Callable[[Value], Stored]]] = {
    Texts.UTF8: store,
    Texts.MIXED: _store_mixed,
    Texts.BYTES: _store_bytes,
}
"""The functions that convert a Python value for a connection. The first one raises NotUtf8."""


def big(value: int) -> bytes:
    """Convert an integer above 2^63 - 1 for SQLite."""
    return b"\x01" + value.to_bytes(8, "big")


def load(stored: Any) -> Value:
    """Convert a stored value to a Python value."""
    if type(stored) is not bytes:
        return stored
    tag = stored[0]
    if tag == _BINARY:
        return stored[1:]
    if tag == 0:
        return stored[1] == 1
    if tag == _BIG:
        return int.from_bytes(stored[1:], "big")
    if tag == _RAW_TEXT:
        return stored[1:].decode("utf-8", "surrogateescape")
    return unpack(stored[1 + _MOMENT_SIZE :] if tag == _MOMENT else stored[1:])


def load_boolean(stored: Any) -> Value:
    """Convert a stored value to a Python value; the expression is known to be boolean."""
    return None if stored is None else bool(stored)


def result_value(value: Value) -> Value:
    """Return the value of a field as a query returns it: what `load` makes of what `store` has made of it."""
    if isinstance(value, BoxError | Ext):
        return pack(value)
    return None if value != value else value


def number_text(value: float) -> str:
    """Convert a double to text, with 15 digits and always a point."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Inf" if value > 0 else "-Inf"
    text = f"{value:.15g}"
    mantissa, letter, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return mantissa + letter + exponent


def shown(value: Value) -> str:
    """Return a value as an error text shows it."""
    if value is None:
        return "NULL"
    if value is True or value is False:
        return "TRUE" if value else "FALSE"
    if type(value) is float:
        return number_text(value)
    if isinstance(value, bytes | Decimal | UUID):
        return "varbinary"
    if isinstance(value, list | dict):
        return value_str(value)
    kind = time_kind(value)
    return f"{kind}({value_str(value)})" if kind else str(value)


def raw_bytes(value: Value) -> bytes | None:
    """Return the bytes of a value that Tarantool 2.8 treats as varbinary, or None for any other value."""
    if type(value) is bytes:
        return value
    return pack(value) if isinstance(value, list | dict | Decimal | UUID) else None


def time_kind(value: Value) -> str | None:
    """Return `datetime` or `interval`, or None for a value of another type."""
    if isinstance(value, datetime | Datetime):
        return "datetime"
    return "interval" if type(value) is Interval else None


def kind_name(value: Value) -> str:
    """Return the type of a value as an error text shows it."""
    if value is None:
        return "NULL"
    kind = type(value)
    if kind is bool:
        return "boolean"
    if kind is int:
        return "unsigned" if value >= 0 else "integer"
    if kind is float:
        return "real"
    return "text" if kind is str else time_kind(value) or "varbinary"


def mismatch(value: Value, wanted: str) -> BoxError:
    """Make the error `Type mismatch: can not convert <value> to <wanted>`."""
    return client_error(ErrorCode.SQL_TYPE_MISMATCH, shown(value), wanted)


def inconsistent(wanted: str, value: Value) -> BoxError:
    """Make the error `Inconsistent types: expected <wanted> got <type>`."""
    return client_error(ErrorCode.INCONSISTENT_TYPES, wanted, kind_name(value))


def execute_error(text: str) -> BoxError:
    """Make the error `Failed to execute SQL statement: <text>`."""
    return client_error(ErrorCode.SQL_EXECUTE, text)
